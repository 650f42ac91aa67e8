import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";

import {
  InvalidArguments,
  newOperationId,
  NotDispatched,
  NotSent,
  OncewardError,
  Onceward,
  OperationConflict,
  OperationInProgress,
  OperationRejected,
  OperationUnknown,
  ReceiptNotKept,
  Rejected,
  SettlementNotRecorded,
  type Attempt,
  type Status,
} from "../src/index.js";
import { loseReply, losingReply } from "../src/testing.js";
import { Bench, thrown, until } from "./bench.js";

let bench: Bench;
let client: Onceward;
before(async () => {
  bench = await Bench.start();
  client = bench.client();
});
after(() => bench.stop());

/** A function that counts its runs. */
function counted<A extends object, R>(run: (args: A, attempt: Attempt) => R | Promise<R>) {
  const counting = async (args: A, attempt: Attempt): Promise<R> => {
    counting.runs++;
    return run(args, attempt);
  };
  counting.runs = 0;
  return counting;
}

const state = async (id: string): Promise<Status> => client.status(id);

test("a_function_runs_once_for_its_operation_id_and_a_repetition_gets_what_it_returned", async () => {
  const before = await bench.effects("tickets");
  const run = counted(async ({ title }: { title: string }, { outboundKey }) => bench.ticket(title, outboundKey));
  const make = client.operation("make", { effectId: (value) => value.id, title: ({ title }) => `Ticket: ${title}` }, run);
  const id = newOperationId();
  const first = await make({ title: "a" }, { operation: id });
  assert.deepEqual(await make({ title: "a" }, { operation: id }), first);
  assert.deepEqual(await make.under(id)({ title: "a" }), first);
  assert.equal(run.runs, 1);
  assert.equal((await bench.effects("tickets")) - before, 1);
  const { operation } = await state(id);
  assert.deepEqual([operation["effect_id"], operation["title"], operation["tool"]], [first.id, "Ticket: a", "make"]);
  await thrown(OperationConflict, make({ title: "b" }, { operation: id }));
  assert.equal(run.runs, 1);
  assert.equal(make.function, run);
  assert.equal(make.name, "make");
});

test("a_function_is_told_its_attempt_and_gets_what_the_ledger_has", async () => {
  let seen: Attempt | undefined;
  let given: object | undefined;
  const args = { b: { n: -0, left: undefined }, a: [1] };
  const echo = client.operation("echo", {}, (args: object, attempt) => {
    [given, seen] = [args, attempt];
    return args;
  });
  assert.deepEqual(await echo(args, { operation: "echo-1" }), { a: [1], b: { n: 0 } });
  assert.deepEqual(given, { a: [1], b: { n: 0 } });
  assert.deepEqual([seen?.operationId, seen?.attempt, seen?.signal.aborted], ["echo-1", 1, false]);
  assert.match(seen?.outboundKey ?? "", /^[0-9a-f-]{36}$/);
  assert(Date.parse(seen?.sendBefore ?? "") > Date.now() && Date.parse(seen?.settleBy ?? "") > Date.now());
});

test("two_callers_at_once_make_one_run_and_get_one_value", async () => {
  const run = counted(async ({ n }: { n: number }) => {
    await pause(150); // sleeps: so that the second caller comes while it runs
    return { n, drawn: Math.random() };
  });
  const [one, other] = [bench.client().operation("slow", {}, run), bench.client().operation("slow", {}, run)];
  const values = await Promise.all([one, other, one, other].map((make) => make({ n: 1 }, { operation: "crowd-1" })));
  assert.equal(run.runs, 1);
  for (const value of values) assert.deepEqual(value, values[0]);
});

test("who_does_not_wait_for_anothers_run_is_told_that_it_runs", async () => {
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  const make = client.operation("held", {}, () => released);
  const running = make({}, { operation: "held-1" });
  await until("the run", async () => (await state("held-1").catch(() => null))?.state === "pending");
  await thrown(OperationInProgress, make({}, { operation: "held-1", waitMs: 0 }));
  const reason = new Error("enough");
  await assert.rejects(make({}, { operation: "held-1", signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  await assert.rejects(make({}, { operation: "held-2", signal: AbortSignal.abort(reason) }), reason);
  release();
  await running;
});

test("a_lost_reply_of_a_claim_or_a_settlement_makes_no_second_run", async () => {
  for (const to of ["claim", "settlement"] as const) {
    const before = await bench.effects("tickets");
    const run = counted(async ({ title }: { title: string }) => bench.ticket(title, null));
    const make = client.operation("make", { effectId: (value) => value.id }, run);
    const lost = loseReply(client, { to, times: 2 });
    const value = await make({ title: to }, { operation: `lost-${to}` });
    lost.restore();
    assert.equal(lost.count, 2);
    assert.deepEqual(await make({ title: to }, { operation: `lost-${to}` }), value);
    assert.equal(run.runs, 1);
    assert.equal((await bench.effects("tickets")) - before, 1);
    const { operation, disagreement } = await state(`lost-${to}`);
    assert.deepEqual([operation["attempts"], disagreement], [1, null]);
  }
});

test("a_lost_reply_of_what_the_function_called_is_unknown_and_not_run_again", async () => {
  const before = await bench.effects("tickets");
  const run = counted(losingReply(async ({ title }: { title: string }) => bench.ticket(title, null)));
  const make = client.operation("make", {}, run);
  const error = await thrown(OperationUnknown, make({ title: "lost" }, { operation: "lost-effect" }));
  assert.match((error.cause as Error).message, /the reply was lost/);
  assert.equal(error.dispatched, "maybe");
  await thrown(OperationUnknown, make({ title: "lost" }, { operation: "lost-effect" }));
  assert.equal(run.runs, 1);
  assert.equal((await bench.effects("tickets")) - before, 1);
});

test("a_lost_reply_of_a_settlement_of_a_failure_is_unknown_all_the_same", async () => {
  const make = client.operation("fail", {}, () => {
    throw new Error("half way");
  });
  const lost = loseReply(client, { to: "settlement" });
  const error = await thrown(OperationUnknown, make({}, { operation: "lost-failure" }));
  lost.restore();
  assert.equal((error.cause as Error).message, "half way");
});

test("what_surely_sent_nothing_leaves_the_operation_free", async () => {
  class NoConnection extends Error {}
  for (const error of [new NotSent("no stock"), new NoConnection()]) {
    const run = counted(() => {
      if (run.runs === 1) throw error;
      return "done";
    });
    const make = client.operation("make_once_up", { notSent: (thrown) => thrown instanceof NoConnection }, run);
    const id = newOperationId();
    const told = await thrown(NotDispatched, make({}, { operation: id }));
    assert.deepEqual([told.cause, told.dispatched], [error, "no"]);
    assert.equal(await make({}, { operation: id }), "done");
    assert.equal((await state(id)).attempts, 2);
  }
});

test("who_cannot_say_that_nothing_was_sent_has_not_said_it", async () => {
  const notSent = (): boolean => {
    throw new Error("no idea");
  };
  const make = client.operation("fail", { notSent }, () => Promise.reject(new Error("half way")));
  await thrown(OperationUnknown, make({}, { operation: newOperationId() }));
});

test("a_refusal_is_kept_with_its_body_and_told_again", async () => {
  const run = counted(() => {
    throw new Rejected({ reason: "no such account" });
  });
  const make = client.operation("refuse", {}, run);
  for (const kind of [Rejected, undefined]) {
    const error = await thrown(OperationRejected, make({}, { operation: "refuse-1" }));
    assert.deepEqual(error.receipt?.body, { reason: "no such account" });
    assert.equal(error.cause instanceof Rejected, kind === Rejected);
  }
  assert.equal(run.runs, 1);
  const odd = client.operation("refuse", {}, () => {
    throw new Rejected(new Map());
  });
  assert.equal((await thrown(OperationRejected, odd({}, { operation: "refuse-2" }))).receipt?.body, null);
});

test("heartbeats_keep_a_long_run_alive_and_one_that_fails_stops_nothing", async () => {
  const settleWithinMs = 600;
  const make = client.operation("long", { settleWithinMs }, async () => {
    await pause(4 * settleWithinMs); // sleeps: it has to run longer than its claim would hold
    return (await state("long-1")).state;
  });
  const lost = loseReply(client, { to: "heartbeat", times: 2 });
  assert.equal(await make({}, { operation: "long-1" }), "pending");
  lost.restore();
  assert.equal(lost.count, 2);
  assert.equal((await state("long-1")).outcome, "replayed");
});

test("a_run_whose_claim_was_lost_is_settled_as_evidence", async () => {
  const whole = client.transport;
  const make = client.operation("late", { settleWithinMs: 300 }, async () => {
    await until("its claim is lost", async () => (await state("late-1")).state === "unknown");
    return "done";
  });
  client.transport = (url, init) => (url.endsWith("/heartbeat") ? Promise.reject(new Error("no network")) : whole(url, init));
  try {
    assert.equal(await make({}, { operation: "late-1" }), "done");
  } finally {
    client.transport = whole;
  }
  const status = await state("late-1");
  assert.deepEqual([status.state, status.receipt?.body], ["succeeded", "done"]);
});

test("a_claim_that_is_answered_too_late_is_not_run_on", async () => {
  const run = counted(() => "done");
  const make = client.operation("stale", { settleWithinMs: 100 }, run);
  const whole = client.transport;
  client.transport = async (url, init) => {
    const response = await whole(url, init);
    if (url.endsWith("/v1/claims")) await pause(150); // sleeps: the reply has to be older than the claim
    return response;
  };
  try {
    await thrown(NotDispatched, make({}, { operation: "stale-1" }));
  } finally {
    client.transport = whole;
  }
  assert.equal(run.runs, 0);
  assert.equal(await make({}, { operation: "stale-1" }), "done");
});

test("a_settlement_that_cannot_be_recorded_carries_the_value_and_forbids_another_run", async () => {
  const whole = client.transport;
  const make = client.operation("unsettled", {}, () => ({ id: 7 }));
  const denied = JSON.stringify({ code: "denied", detail: "revoked" });
  client.transport = (url, init) =>
    url.endsWith("/settlement") ? Promise.resolve(new Response(denied, { status: 403 })) : whole(url, init);
  try {
    const error = await thrown(SettlementNotRecorded, make({}, { operation: "unsettled-1" }));
    assert.deepEqual([error.value, error.ended, error.operationId], [{ id: 7 }, "done", "unsettled-1"]);
    assert.match(error.message, /it was done.*Do not run it again/);
    assert.match(String(error.cause), /denied/);
  } finally {
    client.transport = whole;
  }
  await thrown(OperationInProgress, make({}, { operation: "unsettled-1", waitMs: 0 }));
});

test("a_value_that_cannot_be_kept_was_done_all_the_same", async () => {
  const values = [new Map(), { at: [Number.NaN] }, 1n, new Uint8Array(1), "x".repeat(1024 * 1024), "\u0001".repeat(300_000)];
  for (const [at, value] of values.entries()) {
    const run = counted(() => value);
    const make = client.operation("unkept", { effectId: () => `E-${at}` }, run);
    const error = await thrown(ReceiptNotKept, make({}, { operation: `unkept-${at}` }));
    assert.equal(error.value, value);
    assert.equal(await make({}, { operation: `unkept-${at}` }), null);
    assert.equal(run.runs, 1);
    assert.equal((await state(`unkept-${at}`)).operation["effect_id"], `E-${at}`);
  }
});

test("a_gateway_that_takes_less_gets_the_settlement_without_the_value", async () => {
  const whole = client.transport;
  const tooLarge = JSON.stringify({ code: "too_large", detail: "…" });
  client.transport = (url, init) =>
    url.endsWith("/settlement") && String(init.body).length > 1_000
      ? Promise.resolve(new Response(tooLarge, { status: 413 }))
      : whole(url, init);
  const make = client.operation("large", {}, () => "x".repeat(1_000));
  try {
    await thrown(ReceiptNotKept, make({}, { operation: "large-1" }));
  } finally {
    client.transport = whole;
  }
  assert.equal((await state("large-1")).state, "succeeded");
});

test("the_first_call_and_a_repetition_give_equal_values", async () => {
  const options = {
    encode: (made: { at: Date }) => ({ at: made.at.getTime() }),
    decode: (body: { at: number }) => ({ at: new Date(body.at) }),
  };
  const dated = client.operation("dated", options, () => ({ at: new Date(1_000) }));
  for (const _ of [1, 2]) assert.deepEqual(await dated({}, { operation: "dated-1" }), { at: new Date(1_000) });
  const kinds: [string, () => unknown, unknown][] = [
    ["nothing", () => undefined, null],
    ["null", () => null, null],
    ["text", () => "text", "text"],
    ["members", () => ({ a: undefined, d: new Date(0) }), { d: "1970-01-01T00:00:00.000Z" }],
  ];
  for (const [name, run, value] of kinds) {
    const make = client.operation(`kind_${name}`, {}, run);
    for (const _ of [1, 2]) assert.deepEqual(await make({}, { operation: `kind-${name}` }), value, name);
  }
});

test("an_effects_name_that_cannot_be_made_is_no_reason_to_lose_the_effect", async () => {
  const warned = new Promise<Error>((resolve) => process.once("warning", resolve));
  const effectId = (): string => {
    throw new Error("no id");
  };
  const make = client.operation("nameless", { effectId }, () => "done");
  assert.equal(await make({}, { operation: "nameless-1" }), "done");
  assert.match((await warned).message, /no id/);
});

test("an_effects_name_of_any_kind_is_recorded_as_text", async () => {
  const names: [unknown, unknown][] = [
    [7, "7"],
    [undefined, null],
    ["\ud800", "\ufffd"],
  ];
  for (const [at, [name, kept]] of names.entries()) {
    const make = client.operation("named", { effectId: () => name as string }, () => "half of a pair: \ud800");
    for (const _ of [1, 2]) assert.equal(await make({}, { operation: `named-${at}` }), "half of a pair: \ud800");
    const { operation, state } = await client.status(`named-${at}`);
    if (kept !== "\ufffd") assert.equal(operation["effect_id"], kept);
    assert.equal(state, "succeeded");
  }
});

test("a_claim_that_is_aborted_while_its_grant_is_on_the_way_is_given_back", async () => {
  const abort = new AbortController();
  const reason = new Error("enough");
  const aborting = bench.client();
  const whole = aborting.transport;
  aborting.transport = async (url, init) => {
    const response = await whole(url, { ...init, signal: null });
    if (abort.signal.aborted) return response;
    abort.abort(reason);
    throw reason;
  };
  const run = counted(() => "done");
  const make = aborting.operation("given_back", {}, run);
  await assert.rejects(make({}, { operation: "back-1", signal: abort.signal }), reason);
  await until("it was given back", async () => (await state("back-1").catch(() => null))?.state === "approved");
  assert.equal(run.runs, 0);
  assert.equal(await make({}, { operation: "back-1" }), "done");
  assert.equal((await state("back-1")).operation["attempts"], 2);
});

test("an_aborted_run_settles_as_failed_and_throws_what_the_function_threw", async () => {
  const abort = new AbortController();
  const make = client.operation("abortable", {}, async (_args: object, { signal }) => {
    abort.abort(new Error("enough"));
    signal.throwIfAborted();
  });
  await assert.rejects(make({}, { operation: "abort-1", signal: abort.signal }), { message: "enough" });
  assert.equal((await state("abort-1")).outcome, "unknown");
  const heedless = client.operation("heedless", {}, () => "done");
  const later = new AbortController();
  const done = client.operation("heedless", {}, () => {
    later.abort();
    return heedless.name;
  });
  assert.equal(await done({}, { operation: "abort-2", signal: later.signal }), "heedless");
});

test("a_schema_reads_the_arguments_before_anything_is_claimed", async () => {
  const run = counted(({ name, rows }: { name: string; rows: number }) => ({ name, rows }));
  const input = z.object({ name: z.string().describe("Which report"), rows: z.number().int().default(5) });
  const report = client.operation("create_report", { input, description: "Makes a report." }, run);
  assert.deepEqual(await report({ name: "Q3" }, { operation: "schema-1" }), { name: "Q3", rows: 5 });
  assert.deepEqual(await report({ name: "Q3", rows: 5 }, { operation: "schema-1" }), { name: "Q3", rows: 5 });
  assert.equal(run.runs, 1);
  const wrong = { name: 1, rows: 1.5 } as unknown as { name: string };
  const error = await thrown(InvalidArguments, report(wrong, { operation: "schema-2" }));
  assert.deepEqual(
    error.issues.map(({ path }) => path),
    ["/name", "/rows"],
  );
  await assert.rejects(state("schema-2"), { code: "not_found" });
  const { name, description, inputSchema } = report.definition;
  assert.deepEqual([name, description, inputSchema["required"]], ["create_report", "Makes a report.", ["name"]]);
  const properties = inputSchema["properties"] as Record<string, { description?: string }>;
  assert.equal(properties["name"]?.description, "Which report");
});

test("a_definition_without_a_schema_says_the_way_out", () => {
  assert.throws(() => client.operation("plain", {}, (_: object) => 1).definition, /give its operation an `input`/);
});

test("a_time_that_no_gateway_grants_is_refused_where_it_is_written", () => {
  for (const settleWithinMs of [0, 1.5, Number.NaN, 15 * 60_000 + 1]) {
    assert.throws(() => client.operation("too_long", { settleWithinMs }, () => 1), /settleWithinMs.*900000/);
  }
  client.operation("as_long_as_can_be", { settleWithinMs: 15 * 60_000 }, () => 1);
});

test("without_an_operation_id_or_with_arguments_that_are_no_json_nothing_is_claimed", async () => {
  const run = counted((_: object) => 1);
  const make = client.operation("make_nothing", {}, run);
  for (const operation of [undefined, "", "two words", "ü", "x".repeat(256), ".", ".."]) {
    await assert.rejects(make({}, { operation: operation as string }), TypeError);
  }
  await assert.rejects(make({ at: new Date() }, { operation: "json-1" }), { name: "InvalidJson" });
  assert.equal(run.runs, 0);
  await assert.rejects(state("json-1"), { code: "not_found" });
});

test("every_error_of_an_own_function_is_one_of_ours", () => {
  for (const error of [new NotSent(), new Rejected(1), new ReceiptNotKept("o", 1, undefined)]) {
    assert(error instanceof OncewardError);
    assert.equal(error.name, error.constructor.name);
  }
});
