/** The right to run one attempt: how it is got, and how it is settled. */

import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

import { answerOf, told, type Answer } from "./answer.js";
import { deliver, EVIDENCE, WITH_IDENTITY } from "./delivery.js";
import type { Members } from "./envelope.js";
import { GatewayUnreachable, OperationInProgress, Refused, type Ended } from "./errors.js";
import { statusOf } from "./status.js";
import { operationPath, type Request, type Wire } from "./wire.js";

/** A call of an own function, as the ledger is told of it. */
export interface Claim {
  readonly tool: string;
  /** In canonical form: what is compared is what is sent. */
  readonly argumentsText: string;
  readonly operationId: string;
  readonly settleWithinMs: number;
  readonly title: string | undefined;
  readonly lookup: LookupFigures | undefined;
  /** How long another's attempt is waited for. */
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
}

/** What is said of lookups with each claim, as it is sent. */
export interface LookupFigures {
  readonly visible_after_ms: number;
  readonly works_for_ms?: number;
  readonly absences_required?: number;
}

/** A granted claim. Its dispatch is marked durably: the function is run now, or settled as not sent. */
export class Held {
  readonly operationId: string;
  readonly attempt: number;
  readonly secret: string;
  readonly outboundKey: string | null;
  readonly sendBefore: string;
  readonly settleBy: string;
  /** The most that had passed since it was granted, when it was heard of. */
  readonly ageMs: number;

  constructor(granted: Members, ageMs: number) {
    this.operationId = String(granted["operation_id"]);
    this.attempt = Number(granted["attempt"]);
    this.secret = String(granted["secret"]);
    this.outboundKey = typeof granted["outbound_key"] === "string" ? granted["outbound_key"] : null;
    this.sendBefore = String(granted["send_before"]);
    this.settleBy = String(granted["settle_by"]);
    this.ageMs = ageMs;
  }
}

/** How long one sending of a claim may take, and one of a settlement: that is sent more often instead. */
const CLAIM_WITHIN_MS = 30_000;
const SETTLE_WITHIN_MS = 10_000;

/** Between two claims of one call that waits, where the gateway answered a wait at once. */
const AGAIN_AFTER_MS = 100;

/**
 * Claims the next attempt, or gives the answer of an operation that needs none. An attempt that runs elsewhere is waited for.
 *
 * @throws OperationError, Refused, GatewayUnreachable: nothing may be run.
 */
export async function claim(wire: Wire, asked: Claim): Promise<Held | Answer> {
  const began = performance.now();
  for (;;) {
    try {
      return await claimNow(wire, asked);
    } catch (error) {
      const leftMs = asked.waitMs - (performance.now() - began);
      if (!(error instanceof OperationInProgress) || leftMs <= 0) throw error;
      await statusOf(wire, asked.operationId, leftMs, asked.signal);
      await pause(Math.min(AGAIN_AFTER_MS, leftMs));
    }
  }
}

async function claimNow(wire: Wire, asked: Claim): Promise<Held | Answer> {
  const rest = {
    tool: asked.tool,
    operation_id: asked.operationId,
    settle_within_ms: asked.settleWithinMs,
    title: asked.title,
    lookup: asked.lookup,
    // With it a lost grant is fetched by the same bytes. It names this one claim, and is neither stored nor used again.
    token: randomBytes(16).toString("hex"),
    begin: true,
  };
  const body = `{"arguments":${asked.argumentsText},${JSON.stringify(rest).slice(1)}`;
  const elapsedMs = stopwatch();
  const request = { method: "POST", path: "/v1/claims", body, withinMs: CLAIM_WITHIN_MS } as const;
  asked.signal?.throwIfAborted();
  const reply = await deliver(wire, { ...request, signal: asked.signal }, WITH_IDENTITY).catch((error: unknown) => {
    // Whoever asked does not wait for this. Without it a grant that is on its way would become unknown.
    if (asked.signal?.aborted) void giveBackIfGranted(wire, request, asked.operationId);
    throw error;
  });
  if (reply.status !== 201) return answerOf(reply);
  if (!isGrantOf(reply.members, asked.operationId)) {
    throw new GatewayUnreachable("What answered 201 is no grant of this claim. The function did not run.", { mayHaveBeenSent: true });
  }
  return new Held(reply.members, elapsedMs());
}

/** Nobody knows whether a claim was granted whose asking was aborted: asks once more, and settles it as not run. Never throws. */
async function giveBackIfGranted(wire: Wire, request: Request, operationId: string): Promise<void> {
  try {
    const reply = await deliver(wire, { ...request, withinMs: SETTLE_WITHIN_MS }, WITH_IDENTITY);
    if (reply.status !== 201 || !isGrantOf(reply.members, operationId)) return;
    await settle(wire, new Held(reply.members, 0), { ended: "nothing_sent" });
  } catch {
    // Then it becomes unknown by itself.
  }
}

/** Whatever answers 201 and is no grant of this claim runs nothing. Only an observing gateway goes on under a spare id. */
function isGrantOf(members: Members, operationId: string): boolean {
  const named = members["operation_id"];
  const mine = named === operationId || (typeof named === "string" && named.startsWith("observed-"));
  return mine && typeof members["attempt"] === "number" && typeof members["secret"] === "string";
}

/** How a function ended, with what is kept of it. Both texts are JSON. */
export interface Settlement {
  readonly ended: Ended;
  readonly effectId?: string | undefined;
  /** The receipt's body, where what ended has a receipt. */
  readonly bodyText?: string | undefined;
}

/**
 * Records how a claim's function ended. One that comes late is evidence and is never dropped, so it is sent for half a minute.
 *
 * @returns what the ledger makes of it.
 * @throws the OperationError of any other outcome, with `cause`; Refused and GatewayUnreachable where nothing was recorded.
 */
export async function settle(wire: Wire, held: Held, settlement: Settlement, cause?: unknown): Promise<Answer> {
  const path = operationPath("/v1/claims", held.operationId, "/settlement");
  const body = settlementText(held, settlement);
  try {
    return answerOf(await deliver(wire, { method: "POST", path, body, withinMs: SETTLE_WITHIN_MS }, EVIDENCE), cause);
  } catch (error) {
    // What it says is known already, or cannot change any more: the operation itself says how it stands.
    const known = error instanceof Refused && (error.code === "illegal_move" || error.code === "claim_lost");
    if (!known) throw error;
    return told(await statusOf(wire, held.operationId, 0), cause);
  }
}

/** The bytes of a settlement, as they are counted against the gateway's limit. */
export function settlementText(held: Held, { ended, effectId, bodyText }: Settlement): string {
  const { attempt, secret } = held;
  const rest = JSON.stringify({ attempt, secret, ended, effect_id: effectId });
  return bodyText === undefined ? rest : `{"receipt":{"body":${bodyText}},${rest.slice(1)}`;
}

/** Time since now, by whichever clock counts more: one stops while the machine sleeps, the other may be set back. */
function stopwatch(): () => number {
  const [steady, wall] = [performance.now(), Date.now()];
  return () => Math.max(performance.now() - steady, Date.now() - wall);
}
