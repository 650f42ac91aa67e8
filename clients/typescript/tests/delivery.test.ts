import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { GatewayUnreachable, Onceward, OperationError, Refused } from "../src/index.js";
import { thrown } from "./bench.js";

type Behaviour =
  { status: number; body: object | string; headers?: Record<string, string> } | "lost" | "refused" | "refused_everywhere";

/** A client whose requests meet one behaviour after the other, the last one for good; and the bodies that were sent. */
function meeting(...behaviours: Behaviour[]): { client: Onceward; sent: string[]; paths: string[] } {
  const sent: string[] = [];
  const paths: string[] = [];
  const client = new Onceward({
    url: "http://gateway.test/base/",
    token: "t",
    transport: (url, init) => {
      const behaviour = behaviours[Math.min(sent.length, behaviours.length - 1)] as Behaviour;
      sent.push(String(init.body));
      paths.push(new URL(url).pathname);
      assert.equal(init.redirect, "manual");
      if (behaviour === "lost") throw Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNRESET" } });
      if (behaviour === "refused") {
        const cause = Object.assign(new Error("connect"), { code: "ECONNREFUSED", syscall: "connect" });
        throw new TypeError("fetch failed", { cause });
      }
      // A name with more than one address: each was tried.
      if (behaviour === "refused_everywhere") {
        const cause = new AggregateError([1, 2].map(() => Object.assign(new Error("connect"), { syscall: "connect" })));
        throw new TypeError("fetch failed", { cause });
      }
      const body = typeof behaviour.body === "string" ? behaviour.body : JSON.stringify(behaviour.body);
      return Promise.resolve(
        new Response(body, { status: behaviour.status, ...(behaviour.headers && { headers: behaviour.headers }) }),
      );
    },
  });
  return { client, sent, paths };
}

const problem = (status: number, code: string): Behaviour => ({ status, body: { code, detail: "…", dispatched: "no" } });
const executed: Behaviour = {
  status: 200,
  body: {
    outcome: "executed",
    operation_id: "o-1",
    receipt: { status: 200, headers: {}, body: 7 },
    observed: { outcome: "conflict" },
  },
};

test("a_call_with_an_operation_id_is_sent_again_the_same_bytes_until_it_is_answered", async () => {
  const passing = ["overloaded", "ledger_busy", "ledger_unavailable", "commit_unknown", "shutting_down", "tools_not_known"];
  for (const first of ["lost", "refused", ...passing.map((code) => problem(503, code))] as Behaviour[]) {
    const { client, sent, paths } = meeting(first, first, executed);
    const answer = await client.call("pay", { b: 1, a: 2 }, { operation: "o-1" });
    assert.equal(answer.body, 7);
    assert.deepEqual(sent, Array(3).fill('{"arguments":{"a":2,"b":1},"operation_id":"o-1"}'));
    assert.deepEqual(paths, Array(3).fill("/base/v1/tools/pay/calls"));
  }
});

test("given_up_after_three_times_it_says_that_it_may_have_been_done_and_how_to_repeat_it", async () => {
  const { client, sent } = meeting("lost");
  const error = await thrown(GatewayUnreachable, client.call("pay", {}, { operation: "o-1" }));
  assert.equal(sent.length, 3);
  assert.equal(error.mayHaveBeenSent, true);
  assert.match(error.message, /same operation id/);
  const unsent = meeting("refused");
  assert.equal((await thrown(GatewayUnreachable, unsent.client.call("pay", {}, { operation: "o-1" }))).mayHaveBeenSent, false);
  const mixed = meeting("lost", "refused");
  assert.equal((await thrown(GatewayUnreachable, mixed.client.call("pay", {}, { operation: "o-1" }))).mayHaveBeenSent, true);
});

test("a_call_without_an_operation_id_is_sent_again_only_if_surely_nothing_was_sent", async () => {
  const lost = meeting("lost", executed);
  const error = await thrown(GatewayUnreachable, lost.client.call("pay", {}));
  assert.equal(error.mayHaveBeenSent, true);
  assert.match(error.message, /no operation id/);
  assert.deepEqual(lost.sent, ['{"arguments":{}}']);
  const busy = meeting(problem(503, "ledger_busy"), executed);
  assert.equal((await thrown(Refused, busy.client.call("pay", {}))).code, "ledger_busy");
  assert.equal(busy.sent.length, 1);
  const refused = meeting("refused", "refused_everywhere", executed);
  assert.equal((await refused.client.call("pay", {})).body, 7);
  const then = meeting("refused", "lost", executed);
  await thrown(GatewayUnreachable, then.client.call("pay", {}));
  assert.equal(then.sent.length, 2);
});

test("what_is_an_answer_is_told_and_not_sent_again", async () => {
  for (const outcome of ["not_dispatched", "unknown", "in_progress"]) {
    const { client, sent } = meeting({ status: 503, body: { outcome, code: outcome, message: "…" } });
    await assert.rejects(client.call("pay", {}, { operation: "o-1" }), OperationError);
    assert.equal(sent.length, 1, outcome);
  }
  for (const code of ["denied", "timeout", "internal"]) {
    const { client, sent } = meeting(problem(500, code));
    await thrown(Refused, client.call("pay", {}, { operation: "o-1" }));
    assert.equal(sent.length, 1, code);
  }
});

test("the_gateways_pause_is_heeded_up_to_two_seconds", async () => {
  const { client } = meeting({ status: 503, body: { code: "ledger_busy" }, headers: { "retry-after": "1" } }, executed);
  const began = performance.now();
  await client.call("pay", {}, { operation: "o-1" });
  assert(performance.now() - began >= 990);
});

test("an_outcome_or_a_code_of_a_newer_gateway_is_not_swallowed", async () => {
  const outcome = meeting({ status: 200, body: { outcome: "half_done", operation_id: "o-1" } });
  const error = await thrown(OperationError, outcome.client.call("pay", {}, { operation: "o-1" }));
  assert.deepEqual([error.outcome, error.dispatched, error.operationId], ["half_done", "maybe", "o-1"]);
  const own = meeting({ status: 200, body: { outcome: "constructor" } });
  await thrown(OperationError, own.client.call("pay", {}, { operation: "o-1" }));
  const nothing = meeting({ status: 200, body: {} });
  await thrown(OperationError, nothing.client.call("pay", {}, { operation: "o-1" }));
  const code = meeting({ status: 418, body: { code: "teapot", detail: "short and stout" } });
  const refused = await thrown(Refused, code.client.call("pay", {}, { operation: "o-1" }));
  assert.deepEqual([refused.code, refused.status, refused.detail, refused.repeat], ["teapot", 418, "short and stout", "never"]);
});

test("the_repeat_of_every_code_is_that_of_the_documents_table", () => {
  const page = readFileSync(new URL("../../../../docs/http.md", import.meta.url), "utf8");
  const rows = [...page.matchAll(/^\| \[`(\w+)`\]\(errors\/\w+\.md\) \| (\d+) \| ([^|]+) \|/gm)];
  assert(rows.length >= 25);
  for (const [, code, status, same] of rows) {
    const error = new Refused(Number(status), { code });
    assert.equal(error.repeat, same === "will be refused again" ? "never" : "same_identity", code);
  }
});

test("what_something_else_answers_is_no_answer", async () => {
  const redirect: Behaviour = { status: 302, body: "", headers: { location: "http://elsewhere.test/" } };
  for (const other of [
    redirect,
    { status: 200, body: "<html>" },
    { status: 502, body: { error: "bad gateway" } },
  ] as Behaviour[]) {
    const { client, sent } = meeting(other);
    const error = await thrown(GatewayUnreachable, client.call("pay", {}, { operation: "o-1" }));
    assert.match(error.message, /not Onceward/);
    assert.equal(sent.length, 3);
  }
  const { client } = meeting({ status: 502, body: "bad gateway" }, executed);
  assert.equal((await client.call("pay", {}, { operation: "o-1" })).outcome, "executed");
});

test("a_connection_that_was_never_made_is_known_from_one_that_broke", async () => {
  const server = createServer((request) => request.socket.destroy()).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const broke = await thrown(GatewayUnreachable, new Onceward({ url }).call("pay", {}));
  assert.equal(broke.mayHaveBeenSent, true);
  server.close();
  await once(server, "close");
  for (const host of [url, url.replace("127.0.0.1", "localhost")]) {
    const refused = await thrown(GatewayUnreachable, new Onceward({ url: host }).call("pay", {}));
    assert.equal(refused.mayHaveBeenSent, false, host);
  }
});

test("what_an_observing_gateway_would_have_said_is_in_the_answer", async () => {
  const answer = await meeting(executed).client.call("pay", {}, { operation: "o-1" });
  assert.deepEqual(answer.observed, { outcome: "conflict" });
  assert.equal(answer.envelope["operation_id"], "o-1");
});

test("digits_that_a_number_cannot_hold_are_in_the_text", async () => {
  const body = '{"outcome":"executed","operation_id":"o-1","receipt":{"status":200,"headers":{},"body":12345678901234567890}}';
  const answer = await meeting({ status: 200, body }).client.call("pay", {}, { operation: "o-1" });
  assert.match(answer.text, /"body":12345678901234567890/);
});

test("arguments_that_are_no_json_are_refused_before_anything_is_sent", async () => {
  const { client, sent } = meeting(executed);
  await assert.rejects(client.call("pay", { at: new Date() }), { name: "InvalidJson", place: "/at" });
  await assert.rejects(client.call("pay", []), { code: "not_an_object" });
  assert.equal(sent.length, 0);
});

test("a_caller_that_stops_waiting_gets_its_own_reason", async () => {
  const { client, sent } = meeting("lost");
  const reason = new Error("enough");
  await assert.rejects(client.call("pay", {}, { operation: "o-1", signal: AbortSignal.abort(reason) }), reason);
  assert.equal(sent.length, 0);
});

test("a_gateway_that_does_not_say_its_version_is_spoken_to_all_the_same", async () => {
  const { client } = meeting({ status: 200, body: { live: true } }, { status: 503, body: { ready: false } });
  const gateway = await client.handshake();
  assert.deepEqual([gateway.version, gateway.ready, gateway.ledgerId], [null, false, null]);
});
