//! Strict bodies, and what is too much.

use onceward_gateway::limits::Limits;
use reqwest::Method;
use serde_json::json;

use crate::bench::{Answer, Bench, ticket, until};

async fn raw(bench: &Bench, body: impl Into<reqwest::Body>) -> Answer {
    let request = bench
        .agent
        .request(Method::POST, "/v1/tools/create_ticket/calls")
        .header("idempotency-key", "t-1")
        .header("content-type", "application/json")
        .body(body);
    bench.agent.send(request).await
}

#[tokio::test]
async fn a_body_that_two_readers_could_read_differently_is_refused_with_the_place() {
    let bench = Bench::start().await;
    let cases = [
        (r#"{"arguments":{"title":"a","title":"b"}}"#, "/arguments/title"),
        (r#"{"arguments":{},"arguments":{}}"#, "/arguments"),
        (r#"{"arguments":{"n":NaN}}"#, "/arguments/n"),
        (r#"{"arguments":{"n":9007199254740993}}"#, "/arguments/n"),
        (r#"{"arguments":{"n":"\ud800"}}"#, "/arguments/n"),
        (r#"{"arguments":{}} {}"#, "end"),
        ("", "JSON"),
    ];
    for (body, place) in cases {
        let refused = raw(&bench, body).await;
        refused.is(400, "invalid_json");
        assert!(refused.text.contains(place), "{body}: {}", refused.text);
    }
    raw(&bench, r#"{"arguments":[1]}"#).await.is(400, "invalid_json");
    raw(&bench, r#"{"argumnets":{}}"#).await.is(400, "invalid_request");
    assert_eq!(bench.writes().await, 0);
    let listed = bench.operator.get("/v1/operations").await.json();
    assert!(listed["operations"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whether_or_not_its_length_is_announced() {
    let bench = Bench::with(Limits { body_bytes_max: 1000, ..Limits::default() }).await;
    let body = json!({ "arguments": ticket(&"x".repeat(2000)) }).to_string();
    raw(&bench, body.clone()).await.is(413, "too_large");
    let chunks: Vec<Result<String, std::io::Error>> =
        body.as_bytes().chunks(100).map(|chunk| Ok(String::from_utf8_lossy(chunk).into_owned())).collect();
    let stream = reqwest::Body::wrap_stream(futures_util::stream::iter(chunks));
    raw(&bench, stream).await.is(413, "too_large");
    assert_eq!(bench.writes().await, 0);
}

#[tokio::test]
async fn headers_over_the_limit_are_refused() {
    let bench = Bench::start().await;
    let request = bench.agent.request(Method::GET, "/v1/tools").header("x-long", "x".repeat(33 * 1024));
    bench.agent.send(request).await.is(431, "too_large");
}

#[tokio::test]
async fn one_request_too_many_is_told_so_and_nothing_of_it_is_sent() {
    let bench = Bench::with(Limits { requests_max: 1, ..Limits::default() }).await;
    bench.fault(json!({ "match": { "path": "/tickets" }, "fault": "delay_after_commit;ms=1000" })).await;
    let (slow, crowded) = tokio::join!(bench.agent.call("create_ticket", "t-1", ticket("Printer")), async {
        until("the slow call", async || (bench.writes().await == 1).then_some(())).await;
        assert_eq!(bench.nobody().get("/healthz").await.status, 200, "a busy gateway lives");
        bench.agent.call("create_ticket", "t-2", ticket("Scanner")).await
    });
    slow.is(200, "executed");
    crowded.is(429, "overloaded");
    assert!(crowded.header("retry-after").is_some());
    bench.agent.call("create_ticket", "t-2", ticket("Scanner")).await.is(200, "executed");
    assert_eq!(bench.tickets().await, 2);
}
