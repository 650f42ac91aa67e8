/** What a framework may do about an error. */

import { GatewayUnreachable, NotDispatched, OperationInProgress, Refused } from "../errors.js";

/**
 * Whether the same call **with the same operation id** may be made again by whoever runs the agent.
 *
 * Never for `OperationUnknown`: there is nothing that another try could bring, and a model that is asked to try again changes its
 * words.
 */
export function isWorthRepeating(error: unknown): boolean {
  if (error instanceof Refused) return error.repeat === "same_identity";
  return error instanceof GatewayUnreachable || error instanceof OperationInProgress || error instanceof NotDispatched;
}
