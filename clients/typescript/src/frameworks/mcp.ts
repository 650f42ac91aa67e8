/**
 * Plain MCP, with `@modelcontextprotocol/client`: an operation id on a call, and an error where there is no receipt.
 *
 *     const result = await callTool(client, "create_ticket", args, { operation: storedId });
 *
 * Nothing of an MCP package is imported: clients, transports and results are used as they are.
 */

import { envelopeOf, isMembers } from "../envelope.js";
import { GatewayUnreachable, operationError, Refused, type OncewardError } from "../errors.js";
import { checkedId } from "../wire.js";
import type { Ids } from "./ids.js";

export { KeptIds, type Ids } from "./ids.js";
export { isWorthRepeating } from "./outcomes.js";

/** The member of `_meta` in which MCP carries an operation id. */
export const META = "dev.onceward/operation-id";

const HEADER = "idempotency-key";

/** What is used of a client of `@modelcontextprotocol/client`. */
interface Caller<O, R> {
  callTool(params: { name: string; arguments: Record<string, unknown>; _meta: Record<string, unknown> }, options?: O): Promise<R>;
}

/**
 * Calls a tool of the gateway under an operation id and gives its result: the first call's, however often it is made. The other
 * options are those of the client's `callTool`.
 *
 * @throws what `Onceward.call` throws for the same outcome. What the client throws of its own (a lost connection, a wait that ended)
 * says nothing of the effect: make the same call with the same id again.
 */
export async function callTool<R, O extends object>(
  client: Caller<O, R>,
  tool: string,
  args: object,
  { operation, ...options }: { readonly operation: string } & O,
): Promise<R> {
  const params = { name: tool, arguments: { ...args }, _meta: { [META]: checkedId(operation) } };
  return checked(await client.callTool(params, options as unknown as O));
}

/**
 * A `fetch` for the HTTP transport of a client whose calls a framework makes by itself: each call of a tool gets its operation id, in
 * the header `Idempotency-Key`. A call that has one already keeps it.
 *
 * @throws GatewayUnreachable where a call got no answer: nothing can be said of its effect.
 */
export function fetchWithOperationIds(ids: Ids, send: typeof fetch = fetch): typeof fetch {
  return async (to, init) => {
    const call = callIn(init?.body);
    if (!call) return send(to, init);
    const headers = new Headers(init?.headers);
    if (!headers.has(HEADER) && call._meta?.[META] === undefined) headers.set(HEADER, await ids.of(call.name, call.arguments ?? {}));
    try {
      return await send(to, { ...init, headers });
    } catch (error) {
      if (init?.signal?.aborted) throw error;
      throw new GatewayUnreachable(`No answer to the call of "${call.name}" came back.`, { mayHaveBeenSent: true, cause: error });
    }
  };
}

/** The result, unless it is the gateway's envelope in the place of one. @throws the error that it is. */
export function checked<R>(result: R): R {
  const error = errorOf(result);
  if (error) throw error;
  return result;
}

/** The error that a result of the gateway says, if it says one. A tool's own error is the tool's result. */
export function errorOf(result: unknown): OncewardError | null {
  if (!isMembers(result) || result["isError"] !== true || !isMembers(result["structuredContent"])) return null;
  const said = result["structuredContent"];
  if (typeof said["outcome"] === "string" && "dispatched" in said) {
    return operationError(envelopeOf(said, JSON.stringify(said)));
  }
  if (typeof said["code"] !== "string") return null;
  return new Refused(typeof said["status"] === "number" ? said["status"] : 400, { detail: said["message"], ...said });
}

interface Call {
  readonly name: string;
  readonly arguments?: object;
  readonly _meta?: Record<string, unknown>;
}

/** The call of a tool that a message is, if it is one. */
function callIn(body: unknown): Call | null {
  // A transport sends other things too, such as the forms of a login.
  if (typeof body !== "string" || !body.startsWith("{")) return null;
  const { method, params } = JSON.parse(body);
  return method === "tools/call" ? params : null;
}
