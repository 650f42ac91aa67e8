//! Calls that are kept now and sent later.

use serde_json::json;

use crate::bench::{Bench, ticket};

#[tokio::test]
async fn a_call_for_later_is_kept_and_sent_once_by_the_dispatcher() {
    let bench = Bench::start().await;
    let later =
        json!({ "tool": "named_ticket", "operation_id": "l-1", "arguments": ticket("Printer"), "lane": "floor-3" });
    bench.agent.post("/v1/operations", later.clone()).await.is(202, "not_dispatched");
    bench.agent.until_state("l-1", "succeeded").await;
    let told = bench.agent.post("/v1/operations", later).await.is(200, "replayed");
    assert_eq!(told["receipt"]["body"]["title"], "Printer");
    let other = json!({ "tool": "named_ticket", "operation_id": "l-1", "arguments": ticket("Scanner") });
    bench.agent.post("/v1/operations", other).await.is(422, "conflict");
    assert_eq!(bench.tickets().await, 1);
}

#[tokio::test]
async fn a_call_for_later_needs_an_identity_and_the_approval_that_its_tool_needs() {
    let bench = Bench::start().await;
    let nobody = json!({ "tool": "held_ticket", "arguments": ticket("Printer") });
    assert_eq!(bench.agent.post("/v1/operations", nobody).await.status, 400);
    let waits = json!({ "tool": "approved_ticket", "operation_id": "l-2", "arguments": ticket("Printer") });
    bench.agent.post("/v1/operations", waits).await.is(409, "approval_required");
    assert_eq!(bench.tickets().await, 0);
    bench.operator.post("/v1/operations/l-2/approval", json!({ "decision": "approve" })).await;
    bench.agent.until_state("l-2", "succeeded").await;
    assert_eq!(bench.tickets().await, 1);
}
