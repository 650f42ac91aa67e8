/** An own function whose effect can be looked for: a ticket that carries the outbound key. */

import type { Due, Found, Onceward, OwnFunction } from "../src/index.js";

export interface Report {
  readonly id: string;
  readonly title: string;
}

/** `run` is given the making of the effect. */
export function createReport(
  client: Onceward,
  sandbox: string,
  run: (make: () => Promise<Report>) => Promise<Report> = (make) => make(),
): OwnFunction<{ title: string }, Report> {
  const report = client.operation("create_report", { settleWithinMs: 400 }, ({ title }: { title: string }, { outboundKey }) =>
    run(async () => {
      const body = JSON.stringify({ title, body: "A report.", reference: outboundKey });
      const response = await fetch(`${sandbox}/tickets`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
      });
      return reportOf(await response.json());
    }),
  );
  report.lookup({ visibleAfterMs: 0, worksForMs: 0, absencesRequired: 2 }, (due) => find(sandbox, due));
  return report;
}

/** Everything at the destination that carries one of the keys. */
async function find(sandbox: string, { outboundKeys, arguments: { title } }: Due<{ title: string }>): Promise<Found[]> {
  const found: Found[] = [];
  for (const key of outboundKeys) {
    const response = await fetch(`${sandbox}/tickets?marker=${key}`);
    const { tickets } = (await response.json()) as { tickets: unknown[] };
    for (const ticket of tickets) {
      const report = reportOf(ticket);
      found.push({
        by: "outbound_key",
        parameters: report.title === title ? "same" : "different",
        effectId: report.id,
        body: report,
      });
    }
  }
  return found;
}

function reportOf(ticket: unknown): Report {
  const { id, title } = ticket as Report;
  return { id, title };
}
