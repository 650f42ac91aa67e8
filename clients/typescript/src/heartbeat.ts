/** While a function runs, its claim is kept. */

import type { Held } from "./claims.js";
import { operationPath, type Wire } from "./wire.js";

/**
 * Asks for more time to settle, three times as often as needed, until it is stopped. For a function that ends sooner nothing is
 * sent.
 *
 * A heartbeat that fails never stops the function: it may have had its effect, and its settlement counts as evidence then.
 */
export function keepAlive(wire: Wire, held: Held, settleWithinMs: number): () => void {
  const everyMs = Math.max(1, Math.floor(settleWithinMs / 3));
  const path = operationPath("/v1/claims", held.operationId, "/heartbeat");
  const { attempt, secret } = held;
  const body = JSON.stringify({ attempt, secret, settle_within_ms: settleWithinMs });
  const beat = (): void => {
    // Whatever became of it, the next one is sent all the same.
    wire.exchange({ method: "POST", path, body, withinMs: everyMs }).catch(() => undefined);
  };
  if (held.ageMs > everyMs) beat();
  const timer = setInterval(beat, everyMs);
  // The function keeps the process alive, or nothing does.
  timer.unref();
  return () => clearInterval(timer);
}
