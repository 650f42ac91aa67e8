/** For tests of an application: replies that are lost where it hurts. */

import type { Onceward } from "./client.js";
import type { Transport } from "./wire.js";

/** Which requests lose their replies. */
export type LostReplyOf = "call" | "claim" | "heartbeat" | "settlement";

/** Replies that are being lost. */
export interface LostReplies {
  /** How many were lost so far. */
  readonly count: number;
  /** From now on none is lost. */
  restore(): void;
}

const PATHS: Record<LostReplyOf, RegExp> = {
  call: /\/v1\/tools\/[^/]+\/calls$/,
  claim: /\/v1\/claims$/,
  heartbeat: /\/v1\/claims\/[^/]+\/heartbeat$/,
  settlement: /\/v1\/claims\/[^/]+\/settlement$/,
};

/** Lets requests of `client` reach the gateway, and loses their replies `times` times: to the client the connection broke. */
export function loseReply(client: Onceward, { to, times = 1 }: { to: LostReplyOf; times?: number }): LostReplies {
  const whole = client.transport;
  let count = 0;
  let lossy: Transport | undefined = async (url, init) => {
    const response = await whole(url, init);
    if (lossy === undefined || count >= times || !PATHS[to].test(new URL(url).pathname)) return response;
    count++;
    await response.arrayBuffer();
    throw theReplyWasLost();
  };
  client.transport = lossy;
  return {
    get count() {
      return count;
    },
    restore() {
      if (client.transport === lossy) client.transport = whole;
      lossy = undefined;
    },
  };
}

/** Runs `run`, so that its effect happens, and throws then, `times` times: whoever called it cannot know. */
export function losingReply<P extends unknown[], R>(
  run: (...given: P) => R | Promise<R>,
  times = 1,
): (...given: P) => Promise<R> {
  let count = 0;
  return async (...given) => {
    const value = await run(...given);
    if (count++ < times) throw theReplyWasLost();
    return value;
  };
}

function theReplyWasLost(): Error {
  return Object.assign(new Error("the reply was lost"), { code: "ECONNRESET" });
}
