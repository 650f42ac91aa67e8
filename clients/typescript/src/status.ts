/** How an operation stands, without calling it. */

import { deliver, WITH_IDENTITY } from "./delivery.js";
import { envelopeOf, isMembers, type Envelope, type Members } from "./envelope.js";
import { operationPath, waiting, type Wire } from "./wire.js";

/** What a repetition of the call would be told now, and all that is known of the operation. */
export interface Status extends Envelope {
  /** The operation with everything that a person needs to judge it. */
  readonly operation: Members;
}

/** How long one question may take beyond what it waits. */
const WITHIN_MS = 30_000;

/**
 * Asks how an operation stands, and waits for a running attempt.
 *
 * @throws Refused (`not_found` also where the caller may not see it), GatewayUnreachable.
 */
export async function statusOf(wire: Wire, operationId: string, waitMs: number, signal?: AbortSignal): Promise<Status> {
  const request = {
    method: "GET",
    path: operationPath("/v1/operations", operationId),
    headers: waiting(waitMs),
    withinMs: waitMs + WITHIN_MS,
    signal,
  } as const;
  const { members, text } = await deliver(wire, request, WITH_IDENTITY);
  const { status, operation, receipt } = members;
  return {
    ...envelopeOf(isMembers(status) ? status : {}, text, receipt),
    operation: isMembers(operation) ? operation : {},
    raw: members,
  };
}
