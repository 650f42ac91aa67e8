/** One exchange with the gateway: what is sent, what came back, and whether anything left at all. */

import { isMembers, type Members } from "./envelope.js";

/** The version of this client, as it names itself to the gateway. */
export const VERSION = "0.1.0";

/** How requests are sent: `fetch`, or something of its form. */
export type Transport = (url: string, init: RequestInit) => Promise<Response>;

/** A request. The same one can be sent again, byte for byte. */
export interface Request {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** How long one sending may take, until its answer has been read. */
  readonly withinMs: number;
  /** Ends the wait of whoever sends it; at the gateway that changes nothing. */
  readonly signal?: AbortSignal | undefined;
}

/** An answer of Onceward. */
export interface Reply {
  readonly status: number;
  readonly members: Members;
  /** As it was written, digit for digit. */
  readonly text: string;
  readonly retryAfterMs: number | null;
}

/** No answer of Onceward came back. */
export class NoReply extends Error {
  override readonly name = "NoReply";
  /** Whether no byte of the request can have arrived. */
  readonly unsent: boolean;

  constructor(message: string, unsent: boolean, options?: ErrorOptions) {
    super(message, options);
    this.unsent = unsent;
  }
}

/** Speaks to one gateway as one principal. */
export class Wire {
  transport: Transport;
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(url: string, token: string | undefined, transport: Transport) {
    const { protocol, origin, pathname } = new URL(url);
    if (protocol !== "http:" && protocol !== "https:")
      throw new TypeError("the url of a gateway begins with http:// or https://");
    this.transport = transport;
    this.#base = origin + pathname.replace(/\/+$/, "");
    this.#headers = {
      "user-agent": `onceward-typescript/${VERSION}`,
      "content-type": "application/json",
      ...(token ? { authorization: `Bearer ${token}` } : {}),
    };
  }

  /** Where the gateway is, as messages name it. */
  get address(): string {
    return this.#base;
  }

  /**
   * Sends a request, one time.
   *
   * @throws NoReply, or the reason of the request's own signal.
   */
  async exchange(request: Request): Promise<Reply> {
    const { signal } = request;
    signal?.throwIfAborted();
    const timeout = AbortSignal.timeout(Math.ceil(request.withinMs));
    try {
      const response = await this.transport(this.#base + request.path, {
        method: request.method,
        headers: { ...this.#headers, ...request.headers },
        // A redirect would send the write somewhere else.
        redirect: "manual",
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
        ...(request.body === undefined ? {} : { body: request.body }),
      });
      const text = await response.text();
      return { ...this.#read(response, text), text };
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (error instanceof NoReply) throw error;
      throw new NoReply(`no answer of the gateway at ${this.#base} came back`, isUnsent(error), { cause: error });
    }
  }

  #read(response: Response, text: string): Omit<Reply, "text"> {
    let members: unknown;
    try {
      members = JSON.parse(text);
    } catch {
      // It is told below.
    }
    // A proxy between may answer in JSON as well; ours says a code, or for its health whether it is ready.
    if (!isMembers(members) || !(response.ok || "code" in members || "ready" in members)) {
      const what = `HTTP ${response.status} of something that is not Onceward came back from ${this.#base}`;
      throw new NoReply(what, false);
    }
    const after = Number(response.headers.get("retry-after") ?? Number.NaN);
    return { status: response.status, members, retryAfterMs: Number.isFinite(after) ? after * 1000 : null };
  }
}

/** The address of something that an operation id names. */
export function operationPath(root: "/v1/operations" | "/v1/claims", operationId: string, rest = ""): string {
  return `${root}/${encodeURIComponent(checkedId(operationId))}${rest}`;
}

/**
 * The operation id, if it is one.
 *
 * @throws TypeError for what is none, or could not be addressed: "." and ".." mean another place in a URL.
 */
export function checkedId(operationId: string): string {
  if (typeof operationId !== "string" || !/^[\x21-\x7e]{1,255}$/.test(operationId)) {
    throw new TypeError(
      "an operation id is 1 to 255 visible ASCII characters; make one with newOperationId() and store it first",
    );
  }
  if (/^\.\.?$/.test(operationId)) throw new TypeError(`an operation id "${operationId}" cannot be addressed over HTTP`);
  return operationId;
}

/** `Prefer: wait=N`: whole seconds, rounded up. */
export function waiting(waitMs: number): Readonly<Record<string, string>> {
  return { prefer: `wait=${Math.max(0, Math.ceil(waitMs / 1000))}` };
}

const BEFORE_CONNECTED = new Set(["connect", "getaddrinfo", "getaddrinfo_a"]);

/** Whether the connection was never made. All else may have been sent: losing a reply and losing a request look the same. */
function isUnsent(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (code === "UND_ERR_CONNECT_TIMEOUT" || (syscall !== undefined && BEFORE_CONNECTED.has(syscall))) return true;
  if (error instanceof AggregateError) return error.errors.length > 0 && error.errors.every(isUnsent);
  return isUnsent(error.cause);
}
