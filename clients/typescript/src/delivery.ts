/**
 * When a request goes to the gateway again. This repeats no write: the gateway owns those. What is sent again are the same bytes
 * with the same identity, which find what became of the first.
 */

import { setTimeout as pause } from "node:timers/promises";

import { GatewayUnreachable, Refused } from "./errors.js";
import { NoReply, type Reply, type Request, type Wire } from "./wire.js";

/** How often, and for what, a request is sent again. */
export interface Redelivery {
  /** Sendings in all. */
  readonly timesMax: number;
  /** How long after the first one another may begin. */
  readonly forMs: number;
  /** Whether only a request of which no byte has left is sent again. */
  readonly onlyUnsent: boolean;
  /** Answers after which the same request is worth sending. */
  readonly codes: ReadonlySet<string>;
  /** The longest pause before the next sending. */
  readonly pauseMaxMs: number;
}

const PAUSE_MIN_MS = 50;

/** The longest that an answer's `Retry-After` is heeded: a caller waits behind it. */
const RETRY_AFTER_MAX_MS = 2_000;

/** Nothing was sent on, or it is the same identity that finds what was. */
const PASSING = new Set([
  "overloaded",
  "ledger_busy",
  "ledger_unavailable",
  "commit_unknown",
  "shutting_down",
  "tools_not_known",
]);

/** For a request that carries an operation id, or only reads. */
export const WITH_IDENTITY: Redelivery = {
  timesMax: 3,
  forMs: Number.POSITIVE_INFINITY,
  onlyUnsent: false,
  codes: PASSING,
  pauseMaxMs: 500,
};

/** What is to be done where no repetition finds what became of a request. */
const NO_IDENTITY =
  "It may have been done, and carries no operation id by which a repetition would find that. Look before you send it again.";

/** For a request whose repetition would count as another one. */
export const WITHOUT_IDENTITY: Redelivery = { ...WITH_IDENTITY, onlyUnsent: true, codes: new Set() };

/** For what is known already and must not be lost. It is evidence, and safe to repeat. */
export const EVIDENCE: Redelivery = {
  timesMax: Number.POSITIVE_INFINITY,
  forMs: 30_000,
  onlyUnsent: false,
  codes: new Set([...PASSING, "timeout", "internal"]),
  pauseMaxMs: 4_000,
};

/**
 * Sends a request until it is answered or the redelivery is spent.
 *
 * @returns the answer, unless it is a refusal.
 * @throws Refused, GatewayUnreachable, or the reason of the request's signal.
 */
export async function deliver(wire: Wire, request: Request, again: Redelivery): Promise<Reply> {
  const began = performance.now();
  let mayHaveBeenSent = false;
  for (let times = 1; ; times++) {
    const tried = await attempt(wire, request);
    const goesOn = times < again.timesMax && performance.now() - began < again.forMs;
    if (tried instanceof NoReply) {
      mayHaveBeenSent ||= !tried.unsent;
      if (!goesOn || (mayHaveBeenSent && again.onlyUnsent)) {
        const next = again.onlyUnsent ? NO_IDENTITY : undefined;
        throw new GatewayUnreachable(`${capital(tried.message)}.`, { mayHaveBeenSent, next, cause: tried.cause ?? tried });
      }
    } else {
      const code = refusalOf(tried);
      if (code === null) return tried;
      if (!goesOn || !again.codes.has(code)) throw new Refused(tried.status, tried.members);
    }
    await pause(pauseMs(times, again, tried), undefined, request.signal ? { signal: request.signal } : {}).catch(() => {
      throw request.signal?.reason;
    });
  }
}

async function attempt(wire: Wire, request: Request): Promise<Reply | NoReply> {
  try {
    return await wire.exchange(request);
  } catch (error) {
    if (error instanceof NoReply) return error;
    throw error;
  }
}

/** The code of a refusal; an outcome is none. */
function refusalOf({ status, members }: Reply): string | null {
  return status >= 400 && !("outcome" in members) ? String(members["code"]) : null;
}

/** Full jitter, so that callers who lost one reply together do not come back together. */
function pauseMs(times: number, again: Redelivery, tried: Reply | NoReply): number {
  const most = Math.min(again.pauseMaxMs, 500 * 2 ** (times - 1));
  const drawn = PAUSE_MIN_MS + Math.random() * (most - PAUSE_MIN_MS);
  const asked = tried instanceof NoReply ? 0 : (tried.retryAfterMs ?? 0);
  return Math.max(drawn, Math.min(asked, RETRY_AFTER_MAX_MS));
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
