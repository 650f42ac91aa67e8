/** What a call gives back. Every other outcome is thrown. */

import { envelopeOf, isMembers, receiptOf, type Envelope, type Members, type Receipt } from "./envelope.js";
import { operationError } from "./errors.js";
import type { Reply } from "./wire.js";

const DONE: ReadonlySet<string> = new Set(["executed", "replayed", "recovered"]);

/** It was done; or, for a tool that only reads, this is what the destination said. */
export class Answer {
  /** `executed` by this call, `replayed` from an earlier one, `recovered` after doubt; `read` for a tool that reads. */
  readonly outcome: "executed" | "replayed" | "recovered" | "read";
  /** `null` for a read, which is no operation. */
  readonly operationId: string | null;
  readonly state: string;
  readonly attempts: number;
  /** Whether an earlier call had made the answer. */
  readonly replayed: boolean;
  /** The stored answer: what was done then, not what is now. A read's is the destination's, whatever its status. */
  readonly receipt: Receipt | null;
  /** What an observing gateway would have said; else `null`. */
  readonly observed: unknown;
  /** The members of the envelope as they were sent. */
  readonly envelope: Members;
  /** The same as it was written, digit for digit: a number beyond 2^53 − 1 is exact only here. */
  readonly text: string;

  constructor(outcome: Answer["outcome"], envelope: Envelope) {
    this.outcome = outcome;
    this.operationId = envelope.operationId;
    this.state = envelope.state;
    this.attempts = envelope.attempts;
    this.replayed = envelope.replayed;
    this.receipt = envelope.receipt;
    this.observed = envelope.observed;
    this.envelope = envelope.raw;
    this.text = envelope.text;
  }

  /** The body of the receipt: JSON, or text; `undefined` where there is none. */
  get body(): unknown {
    return this.receipt?.body;
  }
}

/**
 * The answer that a reply is.
 *
 * @throws the OperationError of any other outcome.
 */
export function answerOf({ members, text }: Reply, cause?: unknown): Answer {
  if (members["effect"] === "read") {
    const answer = members["answer"];
    const receipt = isMembers(answer) ? receiptOf(answer) : null;
    return new Answer("read", { ...envelopeOf(members, text), receipt });
  }
  return told(envelopeOf(members, text), cause);
}

/**
 * The answer that an envelope is.
 *
 * @throws the OperationError of any other outcome, with `cause` as its cause.
 */
export function told(envelope: Envelope, cause?: unknown): Answer {
  if (!DONE.has(envelope.outcome)) throw operationError(envelope, cause);
  return new Answer(envelope.outcome as Answer["outcome"], envelope);
}
