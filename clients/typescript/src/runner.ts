/** One call of an own function: claim, run, settle. */

import { Answer } from "./answer.js";
import { claim, Held, settle, settlementText, type Settlement } from "./claims.js";
import { NotSent, OperationError, ReceiptNotKept, Refused, Rejected, SettlementNotRecorded, type Ended } from "./errors.js";
import { canonicalArguments } from "./fingerprint.js";
import type { Attempt, OperationOptions, RunOptions } from "./functions.js";
import { keepAlive } from "./heartbeat.js";
import type { Lookups } from "./lookups.js";
import { parse } from "./schema.js";
import { jsonText } from "./values.js";
import { checkedId, type Wire } from "./wire.js";

const SETTLE_WITHIN_MS = 60_000;
const WAIT_MS = 30_000;

/** The largest body of a request that a gateway takes. */
const BODY_BYTES_MAX = 1024 * 1024;

/** A settlement that was refused for what it brings along. Without that it can be recorded. */
const NOT_KEPT: ReadonlySet<string> = new Set(["too_large", "invalid_request", "invalid_json"]);

/** How a run ended: with what the function returned, or with what it threw. */
type Run =
  { readonly ended: "done"; readonly value: unknown } | { readonly ended: Exclude<Ended, "done">; readonly value: unknown };

/** Runs one function for whoever calls it. */
export class Runner<R> {
  readonly #wire: Wire;
  readonly #lookups: Lookups;
  readonly #tool: string;
  readonly #options: OperationOptions<R>;
  readonly #function: (args: any, attempt: Attempt) => R | Promise<R>;

  constructor(
    wire: Wire,
    lookups: Lookups,
    tool: string,
    options: OperationOptions<R>,
    run: (args: any, attempt: Attempt) => R | Promise<R>,
  ) {
    this.#wire = wire;
    this.#lookups = lookups;
    this.#tool = tool;
    this.#options = options;
    this.#function = run;
  }

  /** What the function returns now, or returned when it ran for this operation id. */
  async call(given: unknown, { operation, waitMs, signal }: RunOptions): Promise<R> {
    const { title, settleWithinMs = SETTLE_WITHIN_MS } = this.#options;
    const operationId = checkedId(operation);
    const args = await this.read(given);
    const argumentsText = canonicalArguments(args);
    const claimed = await claim(this.#wire, {
      tool: this.#tool,
      argumentsText,
      operationId,
      settleWithinMs,
      title: typeof title === "function" ? title(args) : title,
      lookup: this.#lookups.figuresOf(this.#tool),
      waitMs: waitMs ?? this.#options.waitMs ?? WAIT_MS,
      signal,
    });
    if (claimed instanceof Answer) return this.#valueOf(claimed);
    const stop = keepAlive(this.#wire, claimed, settleWithinMs);
    try {
      // The function gets what the ledger has.
      const run = await this.#run(claimed, JSON.parse(argumentsText), settleWithinMs, signal);
      return await this.#settled(claimed, run, signal);
    } finally {
      stop();
    }
  }

  /** The arguments as its schema reads them. */
  async read(given: unknown): Promise<object> {
    const { input } = this.#options;
    return (input ? await parse(this.#tool, input, given) : given) as object;
  }

  async #run(held: Held, args: unknown, settleWithinMs: number, signal = new AbortController().signal): Promise<Run> {
    if (held.ageMs >= settleWithinMs) {
      // It may have run out before it was heard of, and be another's by now.
      return { ended: "nothing_sent", value: new NotSent("the claim was answered too late to run on it") };
    }
    const { operationId, attempt, outboundKey, sendBefore, settleBy } = held;
    try {
      const value = await this.#function(args, { operationId, attempt, outboundKey, sendBefore, settleBy, signal });
      return { ended: "done", value };
    } catch (error) {
      return { ended: this.#endedBy(error), value: error };
    }
  }

  #endedBy(error: unknown): Exclude<Ended, "done"> {
    if (error instanceof NotSent) return "nothing_sent";
    if (error instanceof Rejected) return "refused";
    try {
      return this.#options.notSent?.(error) ? "nothing_sent" : "failed";
    } catch {
      // Who cannot say that nothing was sent has not said it.
      return "failed";
    }
  }

  /** Settles with what is to be kept of the run; or without it where it cannot be kept, since the run has ended all the same. */
  async #settled(held: Held, run: Run, signal: AbortSignal | undefined): Promise<R> {
    const effectId = run.ended === "done" ? this.#effectId(run.value) : undefined;
    const body = this.#bodyOf(run);
    const whole =
      body instanceof Error ? body : await this.#record(held, run, { ended: run.ended, effectId, bodyText: body }, signal);
    if (whole instanceof Answer) return this.#valueOf(whole);
    const bare = await this.#record(held, run, { ended: run.ended, effectId, bodyText: "null" }, signal);
    if (bare instanceof Answer) throw new ReceiptNotKept(held.operationId, run.value, whole);
    throw new SettlementNotRecorded(held.operationId, run.ended, run.value, bare);
  }

  /** @returns what the ledger makes of it, or why it does not take what the settlement brings along. */
  async #record(
    held: Held,
    run: Run,
    settlement: Settlement,
    signal: AbortSignal | undefined,
  ): Promise<Answer | Refused | RangeError> {
    if (Buffer.byteLength(settlementText(held, settlement)) > BODY_BYTES_MAX) {
      return new RangeError(`the value is larger than the ${BODY_BYTES_MAX} bytes that a gateway takes`);
    }
    const threw = run.ended === "done" ? undefined : run.value;
    try {
      return await settle(this.#wire, held, settlement, threw);
    } catch (error) {
      // What was thrown because of an abort goes on as it is; the ledger has been told as well as possible.
      if (run.ended === "failed" && signal?.aborted) throw threw;
      if (error instanceof OperationError) throw error;
      if (error instanceof Refused && NOT_KEPT.has(error.code)) return error;
      throw new SettlementNotRecorded(held.operationId, run.ended, run.value, error);
    }
  }

  /** The JSON that is kept, or why there is none. */
  #bodyOf(run: Run): string | undefined | Error {
    try {
      if (run.ended === "done") return jsonText(this.#options.encode ? this.#options.encode(run.value) : run.value);
      return run.value instanceof Rejected ? jsonText(run.value.body) : undefined;
    } catch (error) {
      return error instanceof Error ? error : new TypeError("the value is no JSON", { cause: error });
    }
  }

  #effectId(value: unknown): string | undefined {
    try {
      const name: unknown = this.#options.effectId?.(value);
      // What is no text would make the gateway refuse the whole settlement.
      return name === undefined || name === null ? undefined : String(name).toWellFormed();
    } catch (error) {
      // It has happened, whatever it is called.
      process.emitWarning(
        `effectId of "${this.#tool}" threw, and its effect is recorded without a name: ${String(error)}`,
        "OncewardWarning",
      );
      return undefined;
    }
  }

  /** The first call and every repetition get the same: what was kept. */
  #valueOf(answer: Answer): R {
    const body = answer.body ?? null;
    return this.#options.decode ? this.#options.decode(body) : (body as R);
  }
}
