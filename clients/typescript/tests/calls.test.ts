import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import {
  ApprovalRequired,
  NotDispatched,
  Onceward,
  OperationClosed,
  OperationConflict,
  OperationExpired,
  OperationInProgress,
  OperationRejected,
  OperationUnknown,
  PossibleDuplicate,
  Refused,
} from "../src/index.js";
import { loseReply } from "../src/testing.js";
import { Bench, thrown, until } from "./bench.js";

let bench: Bench;
let client: Onceward;
before(async () => {
  bench = await Bench.start();
  client = bench.client();
});
after(() => bench.stop());

const ticket = (title: string): object => ({ title, body: "It burns." });

test("a_repetition_gets_the_receipt_of_the_first_call_and_makes_no_second_effect", async () => {
  const before = await bench.effects("tickets");
  const first = await client.call("create_ticket", ticket("a"), { operation: "call-1" });
  assert.deepEqual(
    [first.outcome, first.operationId, first.state, first.attempts, first.replayed],
    ["executed", "call-1", "succeeded", 1, false],
  );
  assert.equal(first.receipt?.status, 201);
  assert.equal(first.receipt.headers["content-type"], "application/json");
  assert.equal(first.observed, null);
  const again = await client.call("create_ticket", ticket("a"), { operation: "call-1" });
  assert.deepEqual([again.outcome, again.replayed, again.body], ["replayed", true, first.body]);
  assert.equal((await bench.effects("tickets")) - before, 1);
});

test("a_lost_reply_of_a_call_is_fetched_and_the_effect_is_one", async () => {
  const before = await bench.effects("tickets");
  const lost = loseReply(client, { to: "call", times: 2 });
  const answer = await client.call("create_ticket", ticket("a"), { operation: "lost-1" });
  lost.restore();
  assert.equal(lost.count, 2);
  assert.equal(answer.outcome, "replayed");
  assert.equal((await bench.effects("tickets")) - before, 1);
});

test("a_lost_reply_of_a_call_without_identity_is_not_sent_again", async () => {
  const before = await bench.effects("tickets");
  const lost = loseReply(client, { to: "call" });
  await assert.rejects(client.call("create_ticket", ticket("no identity")), {
    name: "GatewayUnreachable",
    mayHaveBeenSent: true,
  });
  lost.restore();
  assert.equal((await bench.effects("tickets")) - before, 1);
  const held = await thrown(PossibleDuplicate, client.call("create_ticket", ticket("no identity")));
  assert.equal((held.receipt?.body as { title: string }).title, "no identity");
  assert.equal((await bench.effects("tickets")) - before, 1);
});

test("other_arguments_are_a_conflict_that_names_the_field", async () => {
  await client.call("create_ticket", ticket("a"), { operation: "conflict-1" });
  const error = await thrown(OperationConflict, client.call("create_ticket", ticket("b"), { operation: "conflict-1" }));
  assert.deepEqual(error.differences, [{ at: "/title", kind: "changed" }]);
  assert.deepEqual([error.outcome, error.dispatched, error.nextAction], ["conflict", "no", "correct_input"]);
});

test("a_lost_effect_is_unknown_and_then_closed_by_a_person", async () => {
  await bench.fault("/tickets", "lose_reply_after_commit");
  const error = await thrown(OperationUnknown, client.call("create_ticket", ticket("a"), { operation: "unknown-1" }));
  assert.deepEqual(
    [error.operationId, error.dispatched, error.settlesBy, error.checkAfter],
    ["unknown-1", "maybe", "person", null],
  );
  assert.equal(error.envelope.state, "unknown");
  assert.equal(error.envelope.raw["operation_id"], "unknown-1");
  const status = await client.status("unknown-1");
  assert.deepEqual([status.outcome, status.operation["tool"], status.receipt], ["unknown", "create_ticket", null]);
  await bench.operator("/v1/operations/unknown-1/decisions", {
    choice: "confirmed_not_done",
    reason: "not_at_destination",
    evidence: "looked",
    expected: status.operation["version"],
  });
  await thrown(OperationClosed, client.call("create_ticket", ticket("a"), { operation: "unknown-1" }));
});

test("a_refusal_is_kept_and_told_again", async () => {
  const charge = () => client.call("charge_payment", { amount: 4002, currency: "EUR" }, { operation: "rejected-1" });
  for (const replayed of [false, true]) {
    const error = await thrown(OperationRejected, charge());
    assert.deepEqual([error.receipt?.status, error.envelope.replayed], [402, replayed]);
  }
});

test("a_running_attempt_is_in_progress_and_can_be_waited_for", async () => {
  await bench.fault("/tickets", "delay_before_commit;ms=1200");
  const call = (waitMs: number) => client.call("create_ticket", ticket("slow"), { operation: "slow-1", waitMs });
  const error = await thrown(OperationInProgress, call(0));
  assert.equal(error.nextAction, "wait");
  assert.equal((await client.status("slow-1")).outcome, "in_progress");
  assert.equal((await client.status("slow-1", { waitMs: 10_000 })).outcome, "replayed");
  assert.equal((await call(10_000)).outcome, "replayed");
});

test("what_needs_approval_is_not_sent", async () => {
  const error = await thrown(ApprovalRequired, client.call("approved_ticket", ticket("a"), { operation: "approval-1" }));
  assert.deepEqual([error.dispatched, error.nextAction], ["no", "request_approval"]);
});

test("a_destination_that_cannot_be_reached_is_not_dispatched", async () => {
  const error = await thrown(NotDispatched, client.call("send_nowhere", {}, { operation: "nowhere-1" }));
  assert.equal(error.dispatched, "no");
});

test("an_erased_answer_is_expired", async () => {
  await client.call("create_ticket", ticket("a"), { operation: "expired-1" });
  await bench.operator("/v1/operations/expired-1/purge", { scope: "everything" });
  await thrown(OperationExpired, client.call("create_ticket", ticket("a"), { operation: "expired-1" }));
});

test("a_read_passes_through_whatever_the_destination_says", async () => {
  const { id } = await bench.ticket("a", null);
  const answer = await client.call("get_ticket", { id });
  assert.deepEqual([answer.outcome, answer.operationId, (answer.body as { id: string }).id], ["read", null, id]);
  assert.equal((await client.call("get_ticket", { id: "T-9" })).receipt?.status, 404);
});

test("a_refused_request_says_its_code_and_whether_it_is_worth_repeating", async () => {
  const invalid = await thrown(Refused, client.call("create_ticket", { title: "a" }, { operation: "invalid-1" }));
  assert.deepEqual(
    [invalid.code, invalid.status, invalid.repeat, invalid.dispatched],
    ["invalid_arguments", 422, "never", "no"],
  );
  assert.match(invalid.detail, /body/);
  const stranger = new Onceward({ url: bench.gateway, token: "ow_agent_nobody" });
  assert.equal(
    (await thrown(Refused, stranger.call("create_ticket", ticket("a"), { operation: "x" }))).code,
    "unauthenticated",
  );
  assert.equal((await thrown(Refused, client.status("nobody's"))).code, "not_found");
  await assert.rejects(client.status(".."), TypeError);
});

test("an_operation_id_of_any_visible_characters_is_one_identity", async () => {
  const operation = '"a/b%2F?#\\';
  await client.call("create_ticket", ticket("odd"), { operation });
  assert.equal((await client.call("create_ticket", ticket("odd"), { operation })).outcome, "replayed");
  assert.equal((await client.status(operation)).operationId, operation);
});

test("a_gateway_says_who_it_is", async () => {
  const gateway = await client.handshake();
  assert.match(gateway.version ?? "", /^\d+\.\d+\.\d+/);
  assert.equal(gateway.ready, true);
  assert.match(gateway.ledgerId ?? "", /^[0-9a-f]{32}$/);
});

test("the_address_and_the_token_come_from_the_environment", async () => {
  process.env["ONCEWARD_URL"] = bench.gateway;
  process.env["ONCEWARD_TOKEN"] = bench.token;
  assert.equal((await new Onceward().call("create_ticket", ticket("env"), { operation: "env-1" })).outcome, "executed");
  assert(!JSON.stringify(new Onceward()).includes(bench.token));
  await until("status", async () => (await new Onceward().status("env-1")).outcome === "replayed");
});
