/** An application's own function as an operation: it runs once for its operation id, and a repetition gets what it returned. */

import type { Due, Findings, LookupOptions, Lookups } from "./lookups.js";
import { Runner } from "./runner.js";
import { jsonSchemaOf, type Definition, type Schema } from "./schema.js";
import type { Wire } from "./wire.js";

/** The gateway's own: it grants no more, whatever is asked for. */
const SETTLE_WITHIN_MAX_MS = 15 * 60_000;

/** What the function is told about its run, as its second parameter. */
export interface Attempt {
  readonly operationId: string;
  /** Which attempt of the operation it is, from 1. */
  readonly attempt: number;
  /** The idempotency key for whatever the function calls: the same for a repetition of this operation, and nobody else's. */
  readonly outboundKey: string | null;
  /** Nothing may begin after this (RFC 3339). */
  readonly sendBefore: string;
  /** When it must be settled (RFC 3339); heartbeats move it on. */
  readonly settleBy: string;
  /** The signal of the call; one that is never aborted where the call has none. */
  readonly signal: AbortSignal;
}

/**
 * How one function is an operation.
 *
 * The functions in here take what they are given as `any`: TypeScript reads this object before the function whose types they are.
 */
export interface OperationOptions<R> {
  /** Reads the arguments before the claim; what it gives is what is claimed and run. A schema of zod, or a Standard Schema. */
  readonly input?: Schema | undefined;
  /** For a model: what the tool does. */
  readonly description?: string;
  /** One line for people who look at the operation. */
  readonly title?: string | ((args: any) => string);
  /** How long it may stay unsettled without a heartbeat: 1 to 900,000; 60,000 unless given. A killed process is noticed after that. */
  readonly settleWithinMs?: number;
  /** How long a call waits for another's attempt of the same operation; 30,000 unless given. */
  readonly waitMs?: number;
  /** Whether an error says that surely nothing was sent, such as a refused connection. */
  readonly notSent?: (error: unknown) => boolean;
  /** The effect's own name, such as the id of the thing that was made. Two different ones are a disagreement. */
  readonly effectId?: (value: any) => string | number;
  /** From what the function returns to the JSON that is kept. */
  readonly encode?: (value: any) => unknown;
  /** Back again, for this call and for every repetition. */
  readonly decode?: (body: any) => R;
}

/** Of one call. */
export interface RunOptions {
  /** The operation id: stored before the call, and the same for every repetition. */
  readonly operation: string;
  readonly waitMs?: number;
  /** Ends the wait before the run with the signal's reason; the run itself ends when its function does. */
  readonly signal?: AbortSignal;
}

/** A function that runs as an operation. */
export interface OwnFunction<A, R> {
  /**
   * Runs it, or gives what it returned when it ran.
   *
   * @throws OperationUnknown when it threw, or was lost, after its claim: it may have had its effect and is not run again before a
   * lookup or a person settles it. NotDispatched when surely nothing was sent, OperationRejected for a refusal,
   * OperationConflict for other arguments under the same id, and the other errors of a call.
   */
  (args: A, options: RunOptions): Promise<R>;
  /** The same, with the operation id first. */
  under(operation: string): (args: A, options?: Omit<RunOptions, "operation">) => Promise<R>;
  /**
   * The arguments as they are claimed: as the schema reads them, with its defaults; as they are where there is none.
   *
   * @throws InvalidArguments
   */
  read(args: A): Promise<object>;
  /** The function itself, which no operation protects. */
  readonly function: (args: any, attempt: Attempt) => R | Promise<R>;
  /** The tool as a model is told of it, from its schema. */
  readonly definition: Definition;
  /** Says how to look for the effect of a run that was lost; its figures go with each claim from now on. */
  lookup<F extends (due: Due<A>) => Findings | Promise<Findings>>(options: LookupOptions, find: F): F;
}

/**
 * Makes an operation of a function.
 *
 * @throws RangeError for a time that no gateway grants.
 */
export function ownFunction<A, R>(
  wire: Wire,
  lookups: Lookups,
  tool: string,
  options: OperationOptions<R>,
  run: (args: any, attempt: Attempt) => R | Promise<R>,
): OwnFunction<A, R> {
  const { settleWithinMs = 1 } = options;
  if (!Number.isInteger(settleWithinMs) || settleWithinMs < 1 || settleWithinMs > SETTLE_WITHIN_MAX_MS) {
    throw new RangeError(`settleWithinMs is a whole number of milliseconds, 1 to ${SETTLE_WITHIN_MAX_MS}; heartbeats keep it for longer`);
  }
  const runner = new Runner(wire, lookups, tool, options, run);
  const call = async (args: A, given: RunOptions): Promise<R> => {
    if (given?.operation === undefined) {
      throw new TypeError(
        `${tool} runs under an operation id: (args, { operation: storedId }). newOperationId() makes one; store it where the ` +
          "intention is made, before the call, and use it for every repetition",
      );
    }
    return runner.call(args, given);
  };
  const members = {
    under:
      (operation: string) =>
      (args: A, given: Omit<RunOptions, "operation"> = {}) =>
        call(args, { ...given, operation }),
    read: (args: A): Promise<object> => runner.read(args),
    function: run,
    lookup<F extends (due: Due<A>) => Findings | Promise<Findings>>(figures: LookupOptions, find: F): F {
      lookups.register(tool, figures, find as (due: Due<unknown>) => Findings | Promise<Findings>);
      return find;
    },
  };
  Object.defineProperty(call, "name", { value: tool });
  Object.defineProperty(call, "definition", {
    get: (): Definition => ({
      name: tool,
      description: options.description ?? "",
      inputSchema: jsonSchemaOf(tool, options.input),
    }),
  });
  return Object.assign(call, members) as unknown as OwnFunction<A, R>;
}
