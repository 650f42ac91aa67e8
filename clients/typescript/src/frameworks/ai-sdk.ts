/**
 * The AI SDK (`ai`): the gateway's tools and own functions as tools of an agent.
 *
 *     const ids = new KeptIds(chat.operationIds, (state) => database.update(chat.id, { operationIds: state }));
 *     const tools = {
 *       create_ticket: gatewayTool(client, "create_ticket", ids, { description: "…", inputSchema: z.object({ … }) }),
 *       create_report: operationTool(createReport, ids),
 *     };
 *     await generateText({ model, tools, messages, stopWhen: [isStepCount(20), stopAfter(isWorthRepeating)] });
 *
 * What is no receipt is thrown by the tool. The SDK makes of it the call's error, whose sentence the model sees once, and goes on; it
 * calls nothing again by itself. Nothing of `ai` is imported: what is made here has the form of its `tool()`.
 */

import type { Onceward } from "../client.js";
import { GatewayUnreachable, OncewardError } from "../errors.js";
import type { OwnFunction } from "../functions.js";
import type { OutputOf, Schema } from "../schema.js";
import type { Ids } from "./ids.js";
import { errorOf } from "./mcp.js";

export { KeptIds, type Ids } from "./ids.js";
export { fetchWithOperationIds } from "./mcp.js";
export { isWorthRepeating } from "./outcomes.js";

/** What is used of the parts of a step. */
interface Part {
  readonly type: string;
  readonly error?: unknown;
  readonly output?: unknown;
}

/** What is used of the options of an execution. */
interface Execution {
  readonly abortSignal?: AbortSignal | undefined;
}

/** A tool that the gateway carries out. `tool` is its name there; the model gets the body of its receipt. */
export function gatewayTool<S extends Schema, D extends object>(
  client: Onceward,
  tool: string,
  ids: Ids,
  definition: D & { readonly inputSchema: S },
) {
  return {
    ...definition,
    execute: async (input: OutputOf<S>, { abortSignal }: Execution): Promise<unknown> => {
      const args = input as object;
      const operation = await ids.of(tool, args);
      return (await waited(tool, client.call(tool, args, { operation, ...given(abortSignal) }), abortSignal)).body;
    },
  };
}

/** An own function (`client.operation`) as a tool, described from its schema. The model gets what it returned. */
export function operationTool<A, R>(own: OwnFunction<A, R>, ids: Ids) {
  const { name, description } = own.definition;
  const written = () => own.definition.inputSchema as Record<string, unknown>;
  // The function reads its arguments itself, so that they are read once; a model's mistake is an error of the call.
  const validate = (value: unknown) => ({ value: value as A });
  const jsonSchema = { input: written, output: written };
  return {
    description,
    inputSchema: { "~standard": { version: 1 as const, vendor: "onceward", validate, jsonSchema } },
    execute: async (input: A, { abortSignal }: Execution): Promise<R> => {
      const operation = await ids.of(name, await own.read(input));
      return waited(name, own(input, { operation, ...given(abortSignal) }), abortSignal);
    },
  };
}

/**
 * A condition for `stopWhen`: the run ends after a step in which a tool threw such an error, before the model is asked again. With
 * {@link isWorthRepeating}, run it again from the messages before that step; for a pause where a person is needed, say so of an
 * `OperationUnknown` too.
 */
export function stopAfter(is: (error: unknown) => boolean) {
  return ({ steps }: { readonly steps: readonly { readonly content: readonly Part[] }[] }): boolean =>
    (steps.at(-1)?.content ?? []).some(({ type, error, output }) => {
      // A framework may have wrapped it; and a result over MCP may say an error.
      for (let said = type === "tool-result" ? errorOf(output) : error; said; said = (said as { cause?: unknown }).cause) {
        if (is(said)) return true;
      }
      return false;
    });
}

function given(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal ? { signal } : {};
}

/** A wait that a timeout or a person ended says nothing of the effect, and the model must not read that it failed. */
async function waited<T>(tool: string, answer: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!signal?.aborted || error instanceof OncewardError) throw error;
    throw new GatewayUnreachable(`The wait for "${tool}" was ended.`, { mayHaveBeenSent: true, cause: error });
  }
}
