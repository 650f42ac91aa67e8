import assert from "node:assert/strict";
import { test } from "node:test";

import { newOperationId, OperationIds } from "../src/index.js";

test("a_new_operation_id_is_a_uuid_of_version_7_that_carries_its_time", () => {
  const before = Date.now();
  const ids = new Set(Array.from({ length: 1000 }, newOperationId));
  assert.equal(ids.size, 1000);
  for (const id of ids) {
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const made = Number.parseInt(id.replace("-", "").slice(0, 12), 16);
    assert(made >= before && made <= Date.now());
  }
});

test("a_call_that_is_made_anew_after_a_restart_gets_its_first_id", () => {
  const ids = new OperationIds();
  const first = ids.of("pay", { to: "a", amount: 1 });
  assert.equal(ids.of("pay", { amount: 1.0, to: "a" }), first);
  assert.notEqual(ids.of("pay", { to: "a", amount: 2 }), first);
  assert.notEqual(ids.of("refund", { to: "a", amount: 1 }), first);
  const restored = new OperationIds(JSON.parse(JSON.stringify(ids.state)) as Record<string, string>);
  assert.equal(restored.of("pay", { to: "a", amount: 1 }), first);
});

test("a_deliberate_second_one_has_an_id_of_its_own_and_is_the_current_one", () => {
  const ids = new OperationIds();
  const first = ids.of("pay", { to: "a" });
  const second = ids.second("pay", { to: "a" });
  assert.notEqual(second, first);
  assert.equal(ids.of("pay", { to: "a" }), second);
});

test("the_state_has_no_arguments_in_it", () => {
  const ids = new OperationIds();
  ids.of("pay", { card: "4242" });
  assert(!JSON.stringify(ids.state).includes("4242"));
});
