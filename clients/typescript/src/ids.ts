/** Names for operations: where an intention is made, its id is made and stored. */

import { randomBytes } from "node:crypto";

import { fingerprint } from "./fingerprint.js";

/**
 * A new operation id: a UUID of version 7, as text.
 *
 * Make it where the intention is decided on, and store it before the first call; every repetition brings the stored one. An id
 * that is made on a repetition makes a second operation, and so a second effect.
 */
export function newOperationId(): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** What {@link OperationIds} remembers: ids by fingerprint. It is JSON and has no arguments in it. */
export type OperationIdsState = Record<string, string>;

/**
 * Operation ids for a framework that makes a call anew after every restart: the same call gets the same id.
 *
 * It lives in the application's own durable state, such as a checkpoint. **Persist `state` before the call**: an id that was
 * minted, used and forgotten is a new one after a crash, and so is its operation.
 */
export class OperationIds {
  /** What to persist. */
  readonly state: OperationIdsState;

  constructor(state: OperationIdsState = {}) {
    this.state = state;
  }

  /** The id of this call: minted when it is first seen, and the same ever after. */
  of(tool: string, args: object): string {
    return (this.state[fingerprint(tool, "1", args)] ??= newOperationId());
  }

  /** Mints an id for a call that is deliberately made once more. `of` gives this one from now on. */
  second(tool: string, args: object): string {
    return (this.state[fingerprint(tool, "1", args)] = newOperationId());
  }
}
