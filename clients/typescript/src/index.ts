/** The client of Onceward: one identity for every write, and its receipt for every repetition. */

export { Answer } from "./answer.js";
export { Onceward, type CallOptions, type Gateway, type OncewardOptions } from "./client.js";
export type { Difference, Dispatched, Envelope, NextAction, Outcome, Receipt } from "./envelope.js";
export {
  ApprovalRequired,
  GatewayUnreachable,
  InvalidArguments,
  NotDispatched,
  NotSent,
  OncewardError,
  OperationClosed,
  OperationConflict,
  OperationError,
  OperationExpired,
  OperationInProgress,
  OperationRejected,
  OperationUnknown,
  PossibleDuplicate,
  ReceiptNotKept,
  Refused,
  Rejected,
  SettlementNotRecorded,
  type Ended,
  type Repeat,
} from "./errors.js";
export { canonical, fingerprint, InvalidJson, type FingerprintOptions, type Refusal } from "./fingerprint.js";
export type { Attempt, OperationOptions, OwnFunction, RunOptions } from "./functions.js";
export { newOperationId, OperationIds, type OperationIdsState } from "./ids.js";
export { Cut, type Due, type Findings, type Found, type LookupOptions } from "./lookups.js";
export type { Definition, Schema } from "./schema.js";
export type { Status } from "./status.js";
export type { Transport } from "./wire.js";
