/** The client: one gateway, one principal. */

import { answerOf, type Answer } from "./answer.js";
import { deliver, WITH_IDENTITY, WITHOUT_IDENTITY } from "./delivery.js";
import { isMembers, type Members } from "./envelope.js";
import { GatewayUnreachable } from "./errors.js";
import { canonicalArguments } from "./fingerprint.js";
import { ownFunction, type Attempt, type OperationOptions, type OwnFunction } from "./functions.js";
import { Lookups } from "./lookups.js";
import type { InputOf, OutputOf, Schema } from "./schema.js";
import { statusOf, type Status } from "./status.js";
import { NoReply, waiting, Wire, type Reply, type Transport } from "./wire.js";

/** Where the gateway is, and as whom it is spoken to. */
export interface OncewardOptions {
  /** `ONCEWARD_URL` unless given, else http://127.0.0.1:7070. */
  readonly url?: string | undefined;
  /** `ONCEWARD_TOKEN` unless given. */
  readonly token?: string | undefined;
  /** How requests are sent: `fetch` unless given. */
  readonly transport?: Transport | undefined;
}

/** Of one call. */
export interface CallOptions {
  /** The operation id: stored before the call, and the same for every repetition. */
  readonly operation?: string;
  /** Which run a call without an operation id belongs to, for a tool that goes by runs. */
  readonly scope?: string;
  /** How long the result is waited for, 60,000 at most and in whole seconds; the gateway's default unless given. */
  readonly waitMs?: number;
  /** Ends the wait; at the gateway the call goes on. */
  readonly signal?: AbortSignal;
}

/** The gateway, as it answers for itself. */
export interface Gateway {
  /** `null` for one that does not say. */
  readonly version: string | null;
  /** Whether the ledger takes writes: a call can be sent. */
  readonly ready: boolean;
  /** Two gateways behind one address must show the same. */
  readonly ledgerId: string | null;
  readonly raw: Members;
}

const WITHIN_MS = 30_000;
const WAIT_MAX_MS = 60_000;

/** Speaks to a gateway. It keeps nothing between calls but its lookups, and may be shared by everything in a process. */
export class Onceward {
  readonly #wire: Wire;
  readonly #lookups: Lookups;

  constructor({ url, token, transport }: OncewardOptions = {}) {
    const { ONCEWARD_URL, ONCEWARD_TOKEN } = process.env;
    this.#wire = new Wire(url ?? (ONCEWARD_URL || "http://127.0.0.1:7070"), token ?? ONCEWARD_TOKEN, transport ?? fetch);
    this.#lookups = new Lookups(this.#wire);
  }

  /** How requests are sent. A test may put its own around it. */
  get transport(): Transport {
    return this.#wire.transport;
  }

  set transport(transport: Transport) {
    this.#wire.transport = transport;
  }

  /**
   * Calls a tool that the gateway carries out. Repeated with the same operation id it gives the first attempt's receipt.
   *
   * @throws the OperationError of every outcome that is no receipt; Refused where no operation answered; GatewayUnreachable.
   */
  async call(tool: string, args: object, options: CallOptions = {}): Promise<Answer> {
    const { operation, scope, waitMs, signal } = options;
    const identity = operation === undefined ? "" : `,"operation_id":${JSON.stringify(operation)}`;
    const request = {
      method: "POST",
      path: `/v1/tools/${encodeURIComponent(tool)}/calls`,
      body: `{"arguments":${canonicalArguments(args)}${identity}}`,
      headers: {
        ...(waitMs === undefined ? {} : waiting(waitMs)),
        ...(scope === undefined ? {} : { "onceward-scope": scope }),
      },
      withinMs: Math.min(waitMs ?? WAIT_MAX_MS, WAIT_MAX_MS) + WITHIN_MS,
      signal,
    } as const;
    return answerOf(await deliver(this.#wire, request, operation === undefined ? WITHOUT_IDENTITY : WITH_IDENTITY));
  }

  /**
   * How an operation stands; with `waitMs` a running attempt is waited for. Nothing is called by it.
   *
   * @throws Refused (`not_found` also where the caller may not see it), GatewayUnreachable.
   */
  status(operation: string, { waitMs = 0, signal }: { waitMs?: number; signal?: AbortSignal } = {}): Promise<Status> {
    return statusOf(this.#wire, operation, Math.min(waitMs, WAIT_MAX_MS), signal);
  }

  /**
   * Asks the gateway who it is and whether it can work. One that cannot is told as `ready: false`.
   *
   * @throws GatewayUnreachable
   */
  async handshake(): Promise<Gateway> {
    const live = await this.#health("/healthz");
    const { members } = await this.#health("/readyz");
    const { ready, ledger, version = live.members["version"] } = members;
    return {
      version: typeof version === "string" ? version : null,
      ready: ready === true,
      ledgerId: isMembers(ledger) && typeof ledger["id"] === "string" ? ledger["id"] : null,
      raw: members,
    };
  }

  /**
   * Makes an operation of a function of yours: it runs once for its operation id.
   *
   * With a schema (`input`) its arguments are read by it before anything is claimed, and have its types.
   */
  operation<S extends Schema, R>(
    tool: string,
    options: OperationOptions<R> & { readonly input: S },
    run: (args: OutputOf<S>, attempt: Attempt) => R | Promise<R>,
  ): OwnFunction<InputOf<S>, R>;
  operation<A extends object, R>(
    tool: string,
    options: OperationOptions<R> & { readonly input?: undefined },
    run: (args: A, attempt: Attempt) => R | Promise<R>,
  ): OwnFunction<A, R>;
  operation<R>(
    tool: string,
    options: OperationOptions<R>,
    run: (args: any, attempt: Attempt) => R | Promise<R>,
  ): OwnFunction<any, R> {
    return ownFunction(this.#wire, this.#lookups, tool, options, run);
  }

  /**
   * Looks, one time, for the effects of lost runs of this client's own functions, and reports what was found. Needs a credential
   * of the role `application`.
   *
   * @returns how many reports were recorded.
   * @throws Refused, GatewayUnreachable: what is due is not known. What a lookup throws is a warning of the process.
   */
  runDueLookups({ limit = 50 }: { limit?: number } = {}): Promise<number> {
    return this.#lookups.runDue(limit);
  }

  /** Does so again and again until the signal is aborted. */
  serveLookups({ signal, everyMs = 1_000 }: { signal: AbortSignal; everyMs?: number }): Promise<void> {
    return this.#lookups.serve(everyMs, signal);
  }

  async #health(path: string): Promise<Reply> {
    try {
      return await this.#wire.exchange({ method: "GET", path, withinMs: WITHIN_MS });
    } catch (error) {
      if (!(error instanceof NoReply)) throw error;
      throw new GatewayUnreachable(`${error.message}.`, { mayHaveBeenSent: false, cause: error.cause ?? error });
    }
  }
}
