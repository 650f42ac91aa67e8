/** Looking for the effect of a run whose settlement was lost: what is due, what was found, and telling it. */

import { setTimeout as pause } from "node:timers/promises";

import type { LookupFigures } from "./claims.js";
import { deliver, WITH_IDENTITY, WITHOUT_IDENTITY } from "./delivery.js";
import { jsonText } from "./values.js";
import { operationPath, type Wire } from "./wire.js";

/** When a lookup's answer counts. */
export interface LookupOptions {
  /** How long after the effect an answer may still miss it. */
  readonly visibleAfterMs: number;
  /** How long after its claim the function may still have its effect. Without it, finding nothing never proves anything. */
  readonly worksForMs?: number;
  /** How many answers in a row without the effect prove that there is none. Without it, none do. */
  readonly absencesRequired?: number;
}

/** A run that may have had its effect. */
export interface Due<A = any> {
  readonly operationId: string;
  readonly arguments: A;
  /** The keys that its attempts gave to whatever they called. The effect carries one of them, if the function passed it on. */
  readonly outboundKeys: readonly string[];
  /** Between which times it may have run (RFC 3339). */
  readonly sentFrom: string | null;
  readonly sentUntil: string | null;
}

/** A thing that was found and may be the effect. */
export interface Found {
  /** How it was recognised. A resemblance alone settles nothing: it is for a person. */
  readonly by: "outbound_key" | "marker" | "resemblance";
  /** Whether it was made with these arguments. */
  readonly parameters: "same" | "different" | "not_compared";
  /** Its own name. */
  readonly effectId?: string;
  /** What the function would have returned, as it is kept: a repetition gets it. */
  readonly body?: unknown;
}

/** What was found, where not everything was seen: finding nothing else proves nothing then. */
export class Cut {
  readonly found: readonly Found[];

  constructor(found: Found | readonly Found[] | null = null) {
    this.found = listOf(found);
  }
}

/** What a lookup gives back. `null`, or an empty list, says that everything was seen and it is not there. */
export type Findings = Found | readonly Found[] | Cut | null;

type Find = (due: Due<unknown>) => Findings | Promise<Findings>;

/** How long one question, and one report, may take. */
const WITHIN_MS = 30_000;

/** The lookups of one client's own functions. */
export class Lookups {
  readonly #wire: Wire;
  readonly #byTool = new Map<string, { readonly figures: LookupFigures; readonly find: Find }>();

  constructor(wire: Wire) {
    this.#wire = wire;
  }

  register(tool: string, options: LookupOptions, find: Find): void {
    if (this.#byTool.has(tool)) throw new TypeError(`"${tool}" has a lookup already; one function says what it finds`);
    const { visibleAfterMs, worksForMs, absencesRequired } = options;
    const figures: LookupFigures = {
      visible_after_ms: visibleAfterMs,
      ...(worksForMs === undefined ? {} : { works_for_ms: worksForMs }),
      ...(absencesRequired === undefined ? {} : { absences_required: absencesRequired }),
    };
    this.#byTool.set(tool, { figures, find });
  }

  figuresOf(tool: string): LookupFigures | undefined {
    return this.#byTool.get(tool)?.figures;
  }

  /**
   * One pass over what may be looked for by now, for the tools that are registered here.
   *
   * A lookup that throws reports nothing and is asked again later; so is one whose report does not arrive.
   *
   * @returns how many reports were recorded.
   * @throws Refused (`denied` for a credential that is no application's), GatewayUnreachable: what is due is not known.
   */
  async runDue(limit: number, signal?: AbortSignal): Promise<number> {
    if (this.#byTool.size === 0) return 0;
    // What other applications may look for would fill the list.
    const tools = encodeURIComponent([...this.#byTool.keys()].join(","));
    const request = {
      method: "GET",
      path: `/v1/lookups/due?limit=${limit}&tool=${tools}`,
      withinMs: WITHIN_MS,
      signal,
    } as const;
    const { members } = await deliver(this.#wire, request, WITH_IDENTITY);
    let recorded = 0;
    for (const due of members["lookups"] as readonly Record<string, unknown>[]) {
      const lookup = this.#byTool.get(String(due["tool"]));
      if (!lookup || signal?.aborted) continue;
      try {
        await this.#lookUp(dueOf(due), lookup.find);
        recorded++;
      } catch (error) {
        warn(`what became of "${String(due["operation_id"])}" was not reported and is asked again later`, error);
      }
    }
    return recorded;
  }

  /** Passes, one after the other, until the signal is aborted. The first of several that fail is told as a warning. */
  async serve(everyMs: number, signal: AbortSignal): Promise<void> {
    let failing = false;
    while (!signal.aborted) {
      try {
        await this.runDue(50, signal);
        failing = false;
      } catch (error) {
        if (!failing && !signal.aborted) warn("what is due could not be asked, and is asked for again and again", error);
        failing = true;
      }
      await pause(everyMs, undefined, { signal }).catch(() => undefined);
    }
  }

  async #lookUp(due: Due<unknown>, find: Find): Promise<void> {
    // From before the question: what it says may be as old as that.
    const asked = performance.now();
    const findings = await find(due);
    // A lookup that forgot to return has not seen that there is nothing.
    if (findings === undefined) throw new TypeError("a lookup says null where nothing is there; this one said nothing");
    const [found, completeness] = findings instanceof Cut ? [findings.found, "cut"] : [listOf(findings), "whole"];
    const report = {
      found: found.map(foundMembers),
      asked_ago_ms: Math.ceil(performance.now() - asked),
      completeness,
    };
    const path = operationPath("/v1/operations", due.operationId, "/lookups");
    // The same bytes again would say that it was asked later than it was, and count one absence as two.
    await deliver(this.#wire, { method: "POST", path, body: JSON.stringify(report), withinMs: WITHIN_MS }, WITHOUT_IDENTITY);
  }
}

function listOf(found: Found | readonly Found[] | null): readonly Found[] {
  if (found === null) return [];
  return Array.isArray(found) ? (found as readonly Found[]) : [found as Found];
}

function foundMembers({ by, parameters, effectId, body }: Found): object {
  const receipt = body === undefined ? undefined : { body: JSON.parse(jsonText(body)) as unknown };
  return { by, parameters, effect_id: effectId, receipt };
}

function dueOf(due: Record<string, unknown>): Due<unknown> {
  return {
    operationId: String(due["operation_id"]),
    arguments: due["arguments"],
    outboundKeys: due["outbound_keys"] as string[],
    sentFrom: due["sent_from"] as string | null,
    sentUntil: due["sent_until"] as string | null,
  };
}

function warn(what: string, error: unknown): void {
  const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.emitWarning(`Onceward: ${what}: ${String(error)}`, { type: "OncewardWarning", detail });
}
