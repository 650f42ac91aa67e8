use std::net::TcpListener;

use onceward_core::classify::NoAnswer;
use serde_json::json;

use super::fault_server::{Fault, FaultServer};
use super::*;
use crate::limits::ANSWER_BYTES_MAX;
use crate::testing::{SECRET, arguments, catalog, tool};
use crate::tool::Tool;

const CREATED: &str =
    "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{\"id\":\"7\"}";

fn configuration(url: &str) -> String {
    format!(
        r#"
[destination.helpdesk]
url = "{url}"
contract = "ietf.idempotency_key"
auth = {{ bearer = "env:TOKEN" }}
connect_timeout = "1s"
max_in_flight = 1
[destination.helpdesk.tool.create]
request = {{ method = "POST", path = "/tickets", body = "arguments" }}
[destination.helpdesk.tool.remove]
request = {{ method = "DELETE", path = "/tickets/{{/id}}" }}
[destination.helpdesk.tool.get]
read = true
timeout = "200ms"
request = {{ method = "GET", path = "/tickets/{{/id}}" }}
"#
    )
}

fn at(url: &str, name: &str) -> Arc<Tool> {
    tool(&catalog(&configuration(url)), name)
}

fn enough() -> Option<Duration> {
    Some(Duration::from_secs(10))
}

async fn send(tool: &Tool, time_to_send: &(dyn Fn() -> Option<Duration> + Send + Sync)) -> Observed {
    tool.http()
        .attempt(Outgoing {
            arguments: &arguments(json!({ "id": "1", "title": "Printer" })),
            key: crate::tool::sample_key().as_ref(),
            first_claimed_at: Timestamp::EPOCH,
            time_to_send,
            may_still_be_sent: Box::new(|| true),
            answer_within: Duration::from_millis(200),
        })
        .await
}

#[tokio::test]
async fn an_answer_is_handed_over_whole_and_the_request_carries_key_credential_and_body() {
    let server = FaultServer::start(&[Fault::Answer(CREATED)]);
    let observed = send(&at(&server.url(), "create"), &enough).await;
    let Observed::Http { status: 201, headers, body: Body::Whole(body) } = observed else { panic!("{observed:?}") };
    assert_eq!(body, b"{\"id\":\"7\"}");
    assert!(headers.contains(&("content-type".to_owned(), "application/json".to_owned())));
    let requests = server.requests();
    let request = requests[0].to_ascii_lowercase();
    assert_eq!(requests.len(), 1);
    assert!(request.starts_with("post /tickets http/1.1\r\n"), "{request}");
    assert!(request.contains("idempotency-key: \"00000000-0000-8000-8000-000000000000\"\r\n"), "{request}");
    assert!(request.contains(&format!("authorization: bearer {SECRET}\r\n")), "{request}");
    assert!(requests[0].ends_with("{\"id\":\"1\",\"title\":\"Printer\"}"), "{request}");
}

/// Every place where a connection can break once it exists: the request counts as sent, and nothing is sent again.
#[tokio::test]
async fn whatever_breaks_after_connecting_counts_as_sent_and_is_not_sent_again() {
    for name in ["create", "remove"] {
        for faults in [
            &[Fault::CloseUnread] as &'static [Fault],
            &[Fault::ResetWhileReading],
            &[Fault::CloseAfterRequest],
            &[Fault::NeverAnswer],
            &[Fault::Answer("HTTP/1.1 201 Cre")],
            &[Fault::Answer("not http at all\r\n\r\n")],
        ] {
            let server = FaultServer::start(faults);
            let observed = send(&at(&server.url(), name), &enough).await;
            assert!(
                matches!(observed, Observed::NoAnswer(_) | Observed::WriteFailed),
                "{name} {faults:?} {observed:?}"
            );
            assert_eq!(server.connections(), 1, "{name} {faults:?}");
            assert!(server.requests().len() <= 1, "{name} {faults:?}");
        }
    }
}

#[tokio::test]
async fn a_destination_that_read_the_request_and_keeps_silent_is_a_timeout_after_sending() {
    let server = FaultServer::start(&[Fault::NeverAnswer]);
    let observed = send(&at(&server.url(), "create"), &enough).await;
    assert_eq!(observed, Observed::NoAnswer(NoAnswer::TimedOut));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_answer_that_ends_early_is_cut_and_keeps_its_status() {
    for fault in [
        &[Fault::Answer("HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{\"id\"")] as &'static [Fault],
        &[Fault::Answer("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n")],
        &[Fault::AnswerAndHang("HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{\"id\"")],
        &[Fault::AnswerAndHang("HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n")],
    ] {
        let server = FaultServer::start(fault);
        let observed = send(&at(&server.url(), "create"), &enough).await;
        assert!(matches!(observed, Observed::Http { status: 201, body: Body::Cut(_), .. }), "{fault:?} {observed:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_over_the_limit_is_cut_and_one_at_the_limit_is_whole() {
    for (bytes, whole) in [(ANSWER_BYTES_MAX, true), (ANSWER_BYTES_MAX + 1, false)] {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{}", "x".repeat(bytes));
        let faults: &'static [Fault] = Vec::leak(vec![Fault::Answer(String::leak(answer))]);
        let server = FaultServer::start(faults);
        match send(&at(&server.url(), "create"), &enough).await {
            Observed::Http { body: Body::Whole(body), .. } => assert!(whole && body.len() == bytes),
            Observed::Http { body: Body::Cut(body), .. } => assert!(!whole && !body.is_empty()),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    const MOVED: &str = "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n";
    let server = FaultServer::start(&[Fault::Answer(MOVED), Fault::Answer(CREATED)]);
    let observed = send(&at(&server.url(), "create"), &enough).await;
    assert!(matches!(observed, Observed::Http { status: 307, .. }), "{observed:?}");
    assert_eq!((server.connections(), server.requests().len()), (1, 1));
}

#[tokio::test]
async fn without_a_connection_nothing_was_sent() {
    let nobody = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let refused = send(&at(&format!("http://{nobody}"), "create"), &enough).await;
    assert_eq!(refused, Observed::NotSent(NotSent::NoConnection));
    // A handshake that fails, and one that never ends.
    for faults in [&[Fault::CloseUnread] as &'static [Fault], &[Fault::AnswerAndHang("")]] {
        let server = FaultServer::start(faults);
        let url = server.url().replace("http://", "https://");
        let observed = send(&at(&url, "create"), &enough).await;
        assert_eq!(observed, Observed::NotSent(NotSent::NoConnection), "{faults:?}");
        assert!(server.requests().is_empty());
    }
}

/// A machine that sleeps for an hour whenever somebody looks away.
struct Sleepy(std::sync::atomic::AtomicU64);

impl onceward_ledger::clock::Clock for Sleepy {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH
    }
    fn uptime(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(3600, std::sync::atomic::Ordering::Relaxed))
    }
}

#[tokio::test]
async fn a_machine_that_sleeps_while_connecting_sends_nothing_when_it_wakes() {
    let server = FaultServer::start(&[Fault::Answer(CREATED)]);
    let clock = Arc::new(Sleepy(std::sync::atomic::AtomicU64::new(0)));
    let settings =
        crate::client::ClientSettings { connect_timeout: Duration::from_secs(5), idle_connections: 1, clock };
    let client = crate::client::client(settings).unwrap();
    let error = client.post(server.url()).body("{}").send().await.unwrap_err();
    assert_eq!(answer::unanswered(&error), Observed::NotSent(NotSent::NoConnection));
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn when_the_time_to_send_has_passed_or_is_too_short_to_connect_nobody_connects() {
    let server = FaultServer::start(&[Fault::Answer(CREATED)]);
    let tool = at(&server.url(), "create");
    for left in [None, Some(Duration::from_millis(999))] {
        let observed = send(&tool, &|| left).await;
        assert_eq!(observed, Observed::NotSent(NotSent::TooLate), "{left:?}");
    }
    assert_eq!(server.connections(), 0);
}

/// A process that is stopped between its last look and the write sends nothing when it goes on.
#[tokio::test]
async fn time_that_passes_before_the_connection_takes_the_request_counts() {
    let server = FaultServer::start(&[Fault::Answer(CREATED)]);
    let tool = at(&server.url(), "create");
    let observed = tool
        .http()
        .attempt(Outgoing {
            arguments: &arguments(json!({ "id": "1", "title": "Printer" })),
            key: crate::tool::sample_key().as_ref(),
            first_claimed_at: Timestamp::EPOCH,
            time_to_send: &enough,
            may_still_be_sent: Box::new(|| false),
            answer_within: Duration::from_millis(200),
        })
        .await;
    // Nothing left, but nobody proves that here: it reads as possibly sent, which is the safe side.
    assert!(!matches!(observed, Observed::Http { .. }), "{observed:?}");
    assert!(server.requests().is_empty(), "{:?}", server.requests());
}

/// The clock is asked again after waiting for a place among those in flight.
#[tokio::test]
async fn time_that_passes_while_waiting_for_a_place_counts() {
    let server = FaultServer::start(&[Fault::Answer(CREATED)]);
    let tool = at(&server.url(), "create");
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let runs_out = || match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => enough(),
        _ => None,
    };
    assert_eq!(send(&tool, &runs_out).await, Observed::NotSent(NotSent::TooLate));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn more_requests_than_may_be_in_flight_wait_and_are_then_not_sent() {
    let server = FaultServer::start(&[Fault::NeverAnswer]);
    let tool = at(&server.url(), "create");
    let short = || Some(Duration::from_millis(1050));
    let (first, second) = tokio::join!(send(&tool, &enough), send(&tool, &short));
    assert_eq!(first, Observed::NoAnswer(NoAnswer::TimedOut));
    assert_eq!(second, Observed::NotSent(NotSent::NoConnection));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn arguments_that_make_no_request_are_held_back() {
    let server = FaultServer::start(&[Fault::Answer(CREATED)]);
    let tool = at(&server.url(), "remove");
    let observed = tool
        .http()
        .attempt(Outgoing {
            arguments: &arguments(json!({ "id": ".." })),
            key: crate::tool::sample_key().as_ref(),
            first_claimed_at: Timestamp::EPOCH,
            time_to_send: &enough,
            may_still_be_sent: Box::new(|| true),
            answer_within: Duration::from_secs(1),
        })
        .await;
    assert_eq!(observed, Observed::HeldBack);
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_dispatch_without_the_key_that_the_contract_wants_is_held_back() {
    let server = FaultServer::start(&[Fault::Answer(CREATED)]);
    let observed = at(&server.url(), "create")
        .http()
        .attempt(Outgoing {
            arguments: &arguments(json!({})),
            key: None,
            first_claimed_at: Timestamp::EPOCH,
            time_to_send: &enough,
            may_still_be_sent: Box::new(|| true),
            answer_within: Duration::from_secs(1),
        })
        .await;
    assert_eq!(observed, Observed::HeldBack);
    assert_eq!(server.connections(), 0);
}

/// A kept connection that the peer closed: the next write goes out once, over a new one or not at all.
#[tokio::test]
async fn a_kept_connection_that_closed_does_not_make_a_second_request() {
    const KEPT: &str = "HTTP/1.1 201 Created\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}";
    let server = FaultServer::start(&[Fault::Answer(KEPT), Fault::Answer(CREATED)]);
    let tool = at(&server.url(), "create");
    send(&tool, &enough).await;
    let second = send(&tool, &enough).await;
    match second {
        Observed::Http { status: 201, .. } => assert_eq!(server.requests().len(), 2),
        Observed::NoAnswer(_) | Observed::WriteFailed => assert_eq!(server.requests().len(), 1),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_read_is_tried_again_and_says_what_was_answered() {
    const FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nSet-Cookie: a=b\r\n\r\nnone";
    let server = FaultServer::start(&[Fault::CloseAfterRequest, Fault::Answer(FOUND)]);
    let answer = at(&server.url(), "get").read(&arguments(json!({ "id": "a b" }))).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice(), answer.headers.len()), (404, &b"none"[..], 0));
    assert!(server.requests()[1].starts_with("GET /tickets/a%20b HTTP/1.1\r\n"));
    assert!(!server.requests()[1].to_ascii_lowercase().contains("idempotency-key"));
}

#[tokio::test]
async fn a_read_gives_up_after_a_few_attempts_and_a_write_is_never_read() {
    let server = FaultServer::start(&[Fault::CloseAfterRequest]);
    let get = at(&server.url(), "get");
    assert_eq!(get.read(&arguments(json!({ "id": "1" }))).await, Err(ReadError::NoAnswer));
    assert_eq!(server.requests().len(), READ_ATTEMPTS_MAX as usize);
    let create = at(&server.url(), "create");
    assert_eq!(create.read(&arguments(json!({}))).await, Err(ReadError::NotARead));
    assert!(matches!(get.read(&arguments(json!({}))).await, Err(ReadError::Arguments(_))));
}

#[test]
fn the_credential_is_nowhere_in_what_is_printed() {
    let tool = at("http://127.0.0.1:1", "create");
    let printed = format!("{tool:?} {:?}", tool.http());
    assert!(!printed.contains(SECRET), "{printed}");
    assert!(printed.contains("authorization"), "the test looks at the right thing");
}
