/** Everything but a receipt. Which class it is says what may be done next. */

import type { Dispatched, Difference, Envelope, Members, NextAction, Outcome, Receipt } from "./envelope.js";

/** All that this client throws by itself, except for arguments that are no JSON and options that are none. */
export class OncewardError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An operation answered, and its answer is no receipt. An outcome that this version does not know is this class itself. */
export class OperationError extends OncewardError {
  readonly envelope: Envelope;

  constructor(envelope: Envelope, options?: ErrorOptions) {
    super(envelope.message || `the outcome is "${envelope.outcome}"`, options);
    this.envelope = envelope;
  }

  get outcome(): Outcome {
    return this.envelope.outcome;
  }

  get operationId(): string | null {
    return this.envelope.operationId;
  }

  get nextAction(): NextAction {
    return this.envelope.nextAction;
  }

  get checkAfter(): string | null {
    return this.envelope.checkAfter;
  }

  get settlesBy(): "automatic" | "person" | null {
    return this.envelope.settlesBy;
  }

  get dispatched(): Dispatched {
    return this.envelope.dispatched;
  }

  get receipt(): Receipt | null {
    return this.envelope.receipt;
  }
}

/** It may have been done. Tell nobody that it succeeded or failed; neither a new operation id nor other words is the way. */
export class OperationUnknown extends OperationError {}

/** An attempt is running. The same call with the same operation id finds its result. */
export class OperationInProgress extends OperationError {}

/** The operation id belongs to another intention. Nothing was sent. */
export class OperationConflict extends OperationError {
  constructor(envelope: Envelope, options?: ErrorOptions) {
    super(envelope, options);
    const places = envelope.differences.map((difference) => difference.at ?? difference.inside);
    if (places.length > 0) this.message += ` They differ in: ${places.join(", ")}.`;
  }

  /** The fields that differ; never their values. */
  get differences(): readonly Difference[] {
    return this.envelope.differences;
  }
}

/** The destination refused it, and nothing happened. A correction is a new operation. */
export class OperationRejected extends OperationError {}

/** It will not be done. */
export class OperationClosed extends OperationError {}

/** A person must allow it first. Nothing was sent. */
export class ApprovalRequired extends OperationError {}

/** It looks like a repetition of an earlier call, and carries no operation id. Nothing was sent. */
export class PossibleDuplicate extends OperationError {}

/** Surely nothing was sent. The same call with the same operation id may be made again. */
export class NotDispatched extends OperationError {}

/** It was settled, and its answer has been erased. The identity stays taken. */
export class OperationExpired extends OperationError {}

const BY_OUTCOME: Readonly<Record<string, typeof OperationError>> = {
  unknown: OperationUnknown,
  in_progress: OperationInProgress,
  conflict: OperationConflict,
  rejected: OperationRejected,
  closed: OperationClosed,
  approval_required: ApprovalRequired,
  possible_duplicate: PossibleDuplicate,
  not_dispatched: NotDispatched,
  expired: OperationExpired,
};

/** The error of an outcome that is no success. */
export function operationError(envelope: Envelope, cause?: unknown): OperationError {
  const known = Object.hasOwn(BY_OUTCOME, envelope.outcome) ? BY_OUTCOME[envelope.outcome] : undefined;
  return new (known ?? OperationError)(envelope, caused(cause));
}

/** Whether the same request is worth sending again: never as it is, or with the same operation id only. */
export type Repeat = "never" | "same_identity";

/** The table of docs/http.md. */
const REPEATABLE: ReadonlySet<string> = new Set([
  "claim_lost",
  "overloaded",
  "ledger_busy",
  "ledger_unavailable",
  "commit_unknown",
  "timeout",
  "shutting_down",
  "internal",
  "read_failed",
  "tools_not_known",
]);

const NEVER: ReadonlySet<string> = new Set([
  "invalid_json",
  "too_large",
  "invalid_arguments",
  "invalid_request",
  "unknown_tool",
  "identity_required",
  "identity_conflict",
  "unauthenticated",
  "denied",
  "not_found",
  "illegal_move",
  "approval_void",
  "ledger_corrupt",
  "earlier_unresolved",
  "moved",
]);

/** No operation answered: the request was refused with a code (docs/errors has a page for each). */
export class Refused extends OncewardError {
  readonly code: string;
  readonly status: number;
  readonly detail: string;
  readonly repeat: Repeat;
  /** `no`: nothing was sent by this request. */
  readonly dispatched: Dispatched;
  /** The members as they were sent, such as the `violations` of arguments. */
  readonly raw: Members;

  constructor(status: number, raw: Members) {
    const code = String(raw["code"]);
    const detail = String(raw["detail"] ?? raw["title"] ?? "");
    const repeat = repeatOf(code, status);
    const next =
      repeat === "never" ? "The same request would be refused again." : "Send the same again, with the same operation id only.";
    super(`${code}: ${detail} ${next}`);
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.repeat = repeat;
    this.dispatched = (raw["dispatched"] as Dispatched | undefined) ?? "maybe";
    this.raw = raw;
  }
}

function repeatOf(code: string, status: number): Repeat {
  if (REPEATABLE.has(code)) return "same_identity";
  if (NEVER.has(code)) return "never";
  return status === 429 || status >= 500 ? "same_identity" : "never";
}

const FIND_OUT =
  "It may have been done. Repeat it with the same operation id, and never under another one: that finds what became of it.";

/** The gateway did not answer, as often as it was tried. */
export class GatewayUnreachable extends OncewardError {
  /** Whether the request may have reached it: then the write may have been made. */
  readonly mayHaveBeenSent: boolean;

  constructor(what: string, sent: { mayHaveBeenSent: boolean; next?: string | undefined; cause?: unknown }) {
    const { mayHaveBeenSent, next = FIND_OUT } = sent;
    super(
      `${what} ${mayHaveBeenSent ? next : "Nothing was sent. Repeat it, with the same operation id where it has one."}`,
      caused(sent.cause),
    );
    this.mayHaveBeenSent = mayHaveBeenSent;
  }
}

/** The arguments do not match the schema of their function. Nothing was claimed and nothing was run. */
export class InvalidArguments extends OncewardError {
  readonly issues: readonly { readonly message: string; readonly path: string }[];

  constructor(tool: string, issues: InvalidArguments["issues"]) {
    const listed = issues.map(({ path, message }) => `${path || "/"}: ${message}`).join("; ");
    super(`the arguments of "${tool}" do not match its schema, and nothing was claimed: ${listed}`);
    this.issues = issues;
  }
}

/** How a function ended, as its claim is settled. */
export type Ended = "done" | "refused" | "nothing_sent" | "failed";

const WHAT_ENDED: Record<Ended, string> = {
  done: "it was done",
  refused: "it was refused, and nothing happened",
  nothing_sent: "nothing was sent",
  failed: "it may have been done",
};

/** The function ended, and the ledger does not know how. `cause` says why it could not be told. */
export class SettlementNotRecorded extends OncewardError {
  readonly operationId: string;
  readonly ended: Ended;
  /** What the function returned, or threw. */
  readonly value: unknown;

  constructor(operationId: string, ended: Ended, value: unknown, cause: unknown) {
    super(
      `Operation "${operationId}": ${WHAT_ENDED[ended]}, and the ledger does not know it yet. It becomes unknown when its time ` +
        "is over; a lookup or a person settles it then. Do not run it again, under this operation id or another.",
      { cause },
    );
    this.operationId = operationId;
    this.ended = ended;
    this.value = value;
  }
}

/** It was done and is recorded, but the value is not in its receipt: it is no JSON, or too large. `cause` says which. */
export class ReceiptNotKept extends OncewardError {
  readonly operationId: string;
  /** What the function returned. A repetition gets null. */
  readonly value: unknown;

  constructor(operationId: string, value: unknown, cause: unknown) {
    super(
      `Operation "${operationId}" was done and is recorded, without the value that its function returned: a repetition gets ` +
        "null. Return JSON of less than a mebibyte, or give the function an `encode`. Do not run it again.",
      { cause },
    );
    this.operationId = operationId;
    this.value = value;
  }
}

/** Thrown by an own function: surely nothing was sent. The operation is free to be called again. */
export class NotSent extends OncewardError {
  constructor(message = "nothing was sent", options?: ErrorOptions) {
    super(message, options);
  }
}

/** Thrown by an own function: whoever it asked refused, and nothing happened. `body` is kept and told to every repetition. */
export class Rejected extends OncewardError {
  readonly body: unknown;

  constructor(body: unknown, options?: ErrorOptions) {
    super("it was refused, and nothing happened", options);
    this.body = body;
  }
}

function caused(cause: unknown): ErrorOptions {
  return cause === undefined ? {} : { cause };
}
