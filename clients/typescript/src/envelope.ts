/** What the gateway says about an operation, with names of this language. */

/** Whether anything was sent for an operation. */
export type Dispatched = "no" | "yes" | "maybe";

/** How a call ended. A newer gateway may know more. */
export type Outcome =
  | "executed"
  | "replayed"
  | "recovered"
  | "in_progress"
  | "unknown"
  | "rejected"
  | "closed"
  | "conflict"
  | "approval_required"
  | "possible_duplicate"
  | "not_dispatched"
  | "expired"
  | (string & {});

/** What the caller should do now. */
export type NextAction =
  "none" | "wait" | "check_operation_status" | "ask_operator" | "correct_input" | "request_approval" | (string & {});

/** A field that makes a call another intention; never its values. */
export interface Difference {
  /** Which field, as a JSON Pointer. */
  readonly at?: string;
  /** Or, where its name is too long to be told, the nearest field around it. */
  readonly inside?: string;
  readonly kind: "added" | "removed" | "changed" | (string & {});
}

/** The stored answer of whoever did it, or refused it. */
export interface Receipt {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The body as JSON, or as text; `undefined` where it had none or is bytes, which are in `bodyBase64`. */
  readonly body: unknown;
  /** The body where it is neither JSON nor text. */
  readonly bodyBase64: string | null;
}

/** How an operation stands, as its caller is told. */
export interface Envelope {
  readonly outcome: Outcome;
  /** `null` where the call wrote no operation, or where the caller may not see it. */
  readonly operationId: string | null;
  readonly state: string;
  readonly attempts: number;
  readonly dispatched: Dispatched;
  readonly source: "gateway" | "destination" | null;
  /** Whether an earlier call had made the answer. */
  readonly replayed: boolean;
  readonly firstSeenAt: string | null;
  /** When the receipt was received: it is what was done then, not what is now. */
  readonly asOf: string | null;
  readonly nextAction: NextAction;
  /** When the next check is scheduled; `null` where none is. */
  readonly checkAfter: string | null;
  /** Who settles it, where it is not settled. */
  readonly settlesBy: "automatic" | "person" | null;
  readonly message: string;
  readonly differences: readonly Difference[];
  /** Evidence that contradicts what is recorded, in one word. */
  readonly disagreement: string | null;
  /** What an observing gateway would have said; `null` where it does not only observe. */
  readonly observed: unknown;
  readonly receipt: Receipt | null;
  /** The members as they were sent, those included that this version does not know. */
  readonly raw: Members;
  /** The answer as it was written, digit for digit: a number beyond 2^53 − 1 is exact only here. */
  readonly text: string;
}

/** A JSON object that was read. */
export type Members = Readonly<Record<string, unknown>>;

/** Reads the members of an envelope. The receipt of a status stands beside it. */
export function envelopeOf(raw: Members, text: string, receipt: unknown = raw["receipt"]): Envelope {
  const word = (name: string): string | null => (typeof raw[name] === "string" ? raw[name] : null);
  return {
    outcome: word("outcome") ?? "",
    operationId: word("operation_id"),
    state: word("state") ?? "",
    attempts: typeof raw["attempts"] === "number" ? raw["attempts"] : 0,
    // What is not said cannot be relied on.
    dispatched: (word("dispatched") as Dispatched | null) ?? "maybe",
    source: word("source") as Envelope["source"],
    replayed: raw["replayed"] === true,
    firstSeenAt: word("first_seen_at"),
    asOf: word("as_of"),
    nextAction: word("next_action") ?? "none",
    checkAfter: word("check_after"),
    settlesBy: word("settles_by") as Envelope["settlesBy"],
    message: word("message") ?? word("detail") ?? "",
    differences: Array.isArray(raw["differences"]) ? (raw["differences"] as Difference[]) : [],
    disagreement: word("disagreement"),
    observed: raw["observed"] ?? null,
    receipt: isMembers(receipt) ? receiptOf(receipt) : null,
    raw,
    text,
  };
}

/** Reads a receipt. */
export function receiptOf(raw: Members): Receipt {
  return {
    status: typeof raw["status"] === "number" ? raw["status"] : 200,
    headers: isMembers(raw["headers"]) ? (raw["headers"] as Record<string, string>) : {},
    body: "body" in raw ? raw["body"] : raw["body_text"],
    bodyBase64: typeof raw["body_base64"] === "string" ? raw["body_base64"] : null,
  };
}

/** Whether a value is a JSON object. */
export function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
