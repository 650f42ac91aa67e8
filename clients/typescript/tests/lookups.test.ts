import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";

import { Cut, Onceward, OperationUnknown, Refused, type Due, type Findings } from "../src/index.js";
import { Bench, thrown, until } from "./bench.js";
import { createReport } from "./report.js";

let bench: Bench;
before(async () => {
  bench = await Bench.start();
});
after(() => bench.stop());

/** Runs the function in a process of its own as far as that, and kills it. */
async function killed(operation: string, asFarAs: "claim" | "effect"): Promise<void> {
  const env = {
    ...process.env,
    ONCEWARD_URL: bench.gateway,
    ONCEWARD_TOKEN: bench.token,
    VICTIM_OPERATION: operation,
    VICTIM_SANDBOX: bench.sandbox,
    VICTIM_GETS_AS_FAR_AS: asFarAs,
  };
  const victim = spawn(process.execPath, [new URL("victim.js", import.meta.url).pathname], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const _line of victim.stdout) break;
  victim.kill("SIGKILL");
  await once(victim, "exit");
  const client = bench.client();
  await until(`${operation} is unknown`, async () => (await client.status(operation)).state === "unknown");
}

/** Passes until an operation has left `unknown`. */
async function settledByLookups(client: Onceward, operation: string): Promise<number> {
  let reports = 0;
  await until(`${operation} is settled`, async () => {
    reports += await client.runDueLookups();
    return (await client.status(operation)).state !== "unknown";
  });
  return reports;
}

test("a_run_that_was_killed_after_its_effect_is_found_and_its_receipt_given", async () => {
  const before = await bench.effects("tickets");
  await killed("killed-1", "effect");
  const client = bench.client();
  const report = createReport(client, bench.sandbox);
  await thrown(OperationUnknown, report({ title: "Q3" }, { operation: "killed-1" }));
  assert.equal(await settledByLookups(client, "killed-1"), 1);
  const value = await report({ title: "Q3" }, { operation: "killed-1" });
  assert.equal(value.title, "Q3");
  assert.equal((await client.status("killed-1")).operation["effect_id"], value.id);
  assert.equal((await bench.effects("tickets")) - before, 1);
});

test("a_run_that_was_killed_before_its_effect_is_free_again_after_two_absences", async () => {
  const before = await bench.effects("tickets");
  await killed("killed-2", "claim");
  const client = bench.client();
  const report = createReport(client, bench.sandbox);
  await thrown(OperationUnknown, report({ title: "Q3" }, { operation: "killed-2" }));
  assert.equal(await settledByLookups(client, "killed-2"), 2);
  assert.equal((await client.status("killed-2")).state, "approved");
  assert.equal((await report({ title: "Q3" }, { operation: "killed-2" })).title, "Q3");
  assert.equal((await bench.effects("tickets")) - before, 1);
});

/** A client whose function is lost and whose lookup gives that; and what the lookup was asked. */
async function lost(
  operation: string,
  find: (due: Due) => Findings | Promise<Findings>,
): Promise<{ client: Onceward; asked: Due[] }> {
  const client = bench.client();
  const asked: Due[] = [];
  // A tool of its own, so that nobody else's lookup is asked; soon past its time, so that an absence counts.
  const fail = client.operation(`lost_${operation.replaceAll("-", "_")}`, { settleWithinMs: 100 }, (_: { n: number }) =>
    Promise.reject(new Error("lost")),
  );
  fail.lookup({ visibleAfterMs: 0, worksForMs: 0, absencesRequired: 1 }, (due) => {
    asked.push(due);
    return find(due);
  });
  await thrown(OperationUnknown, fail({ n: 7 }, { operation }));
  return { client, asked };
}

/** Passes until the lookup was asked. */
async function askedOnce({ client, asked }: { client: Onceward; asked: Due[] }): Promise<number> {
  return until("a lookup is due", async () => {
    const recorded = await client.runDueLookups();
    return asked.length > 0 && { recorded };
  }).then(({ recorded }) => recorded);
}

test("a_lookup_is_told_what_to_look_for", async () => {
  const looking = await lost("told-1", () => null);
  assert.equal(await askedOnce(looking), 1);
  const [due] = looking.asked;
  assert.deepEqual([due?.operationId, due?.arguments], ["told-1", { n: 7 }]);
  assert.equal((await looking.client.status("told-1")).state, "approved", "one absence was enough");
  assert.equal(due?.outboundKeys.length, 1);
  assert(Date.parse(due.sentFrom ?? "") <= Date.parse(due.sentUntil ?? ""));
});

test("a_lookup_that_throws_or_says_nothing_reports_nothing", async () => {
  const finds: [string, () => Findings][] = [
    [
      "throws-1",
      () => {
        throw new Error("the destination is down");
      },
    ],
    ["forgets-1", () => undefined as unknown as Findings],
  ];
  for (const [id, find] of finds) {
    const warned = new Promise<Error>((resolve) => process.once("warning", resolve));
    const looking = await lost(id, find);
    assert.equal(await askedOnce(looking), 0);
    assert.match((await warned).message, new RegExp(`"${id}" was not reported`));
    const status = await looking.client.status(id);
    assert.equal(status.state, "unknown");
  }
});

test("what_was_not_seen_whole_proves_no_absence_and_two_things_are_a_disagreement", async () => {
  const cut = await lost("cut-1", () => new Cut());
  assert.equal(await askedOnce(cut), 1);
  assert.equal((await cut.client.status("cut-1")).state, "unknown");
  const one = { by: "outbound_key", parameters: "same" } as const;
  const two = await lost("two-1", () => [
    { ...one, effectId: "E-1" },
    { ...one, effectId: "E-2" },
  ]);
  assert.equal(await askedOnce(two), 1);
  assert.notEqual((await two.client.status("two-1")).disagreement, null);
  const alike = await lost("alike-1", () => ({ by: "resemblance", parameters: "same", effectId: "E-3" }));
  assert.equal(await askedOnce(alike), 1);
  assert.equal((await alike.client.status("alike-1")).state, "unknown");
});

test("a_report_whose_reply_is_lost_is_not_sent_again", async () => {
  const looking = await lost("report-1", () => new Cut());
  const whole = looking.client.transport;
  let sent = 0;
  looking.client.transport = async (url, init) => {
    const response = await whole(url, init);
    if (!url.endsWith("/lookups")) return response;
    sent++;
    throw new Error("the reply was lost");
  };
  const warned = new Promise<Error>((resolve) => process.once("warning", resolve));
  assert.equal(await askedOnce(looking), 0);
  await warned;
  assert.equal(sent, 1);
});

test("only_tools_of_this_client_are_asked_for_and_looked_for", async () => {
  const [first, second] = [await lost("other-1", () => null), await lost("other-2", () => null)];
  assert.equal(await bench.client().runDueLookups(), 0);
  await until("both are due", async () => {
    const due = await bench.due();
    return due.includes("other-1") && due.includes("other-2");
  });
  // The first has been due for longer, and takes no place of the second's.
  assert.equal(await second.client.runDueLookups({ limit: 1 }), 1);
  assert.deepEqual([first.asked.length, second.asked.length], [0, 1]);
  assert.equal(await askedOnce(first), 1);
});

test("lookups_are_served_until_the_signal_is_aborted", async () => {
  const looking = await lost("served-1", () => ({ by: "marker", parameters: "same", effectId: "E-9", body: { id: 9 } }));
  const stop = new AbortController();
  const serving = looking.client.serveLookups({ signal: stop.signal, everyMs: 20 });
  const status = await until("it is settled", async () => {
    const status = await looking.client.status("served-1");
    return status.state === "succeeded" && status;
  }).finally(() => stop.abort());
  await serving;
  assert.deepEqual(status.receipt?.body, { id: 9 });
});

test("one_function_has_one_lookup", () => {
  const report = createReport(bench.client(), bench.sandbox);
  assert.throws(() => report.lookup({ visibleAfterMs: 0 }, () => null), TypeError);
});

test("who_may_not_look_is_told_so", async () => {
  const made = await bench.operator("/v1/credentials", { principal: "agent", role: "agent", tools: ["*"] });
  const agent = new Onceward({ url: bench.gateway, token: String(made["token"]) });
  createReport(agent, bench.sandbox);
  assert.equal((await thrown(Refused, agent.runDueLookups())).code, "denied");
});
