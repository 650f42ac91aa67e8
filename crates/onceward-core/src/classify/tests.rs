//! The whole table: every row for every kind of contract, as text that can be laid beside the published one.

use core::fmt::Write as _;
use core::time::Duration;

use serde_json::json;

use super::*;
use crate::time::Timestamp;

/// What each column promises. The effect of K2 is not atomic with its key; that of K2a is.
const COLUMNS: [(&str, &str); 7] = [
    ("K1", "[same_input]\nbehaviour = \"replays_stored\"\nsaved = { 2xx = \"stored\", 500 = \"stored\" }\n"),
    ("K2", "[same_input]\nbehaviour = \"replays_stored\"\nsaved = { 2xx = \"stored\" }\n"),
    ("K2a", "[same_input]\nbehaviour = \"replays_stored\"\n"),
    ("K3", "[same_input]\nbehaviour = \"reexecutes_failures\"\n"),
    ("L", "[lookup]\npath = \"/tickets\"\nvisibility_delay = \"60s\"\n"),
    ("N", ""),
    ("I", "[precondition]\nheader = \"If-Match\"\n"),
];

const KEY: &str = "[key]\ncarriers = [{ in = \"header\", name = \"Idempotency-Key\" }]\n";

fn contract(column: &str, execution: &str, more: &str) -> Contract {
    let (_, promises) = COLUMNS.into_iter().find(|(name, _)| *name == column).unwrap();
    let key = if column.starts_with('K') { KEY } else { "" };
    let atomic = if column == "K2a" { "effect_atomic_with_key = true\n" } else { "" };
    let text = format!("id = \"test\"\nversion = 1\n{more}[execution]\n{atomic}{execution}\n{key}{promises}");
    Contract::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

const FIRST: AttemptFacts<'_> =
    AttemptFacts { redrive: false, earlier_uncertain: false, arguments: None, now: Timestamp::EPOCH };
const AGAIN: AttemptFacts<'_> =
    AttemptFacts { redrive: true, earlier_uncertain: true, arguments: None, now: Timestamp::EPOCH };

fn http(status: u16, body: &str) -> Observed {
    answered(status, &[("Content-Type", "application/json")], Body::Whole(body.as_bytes().to_vec()))
}

fn answered(status: u16, headers: &[(&str, &str)], body: Body) -> Observed {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Observed::Http { status, headers, body }
}

fn rpc_error(code: i64) -> Observed {
    Observed::McpError { code, message: "no".to_owned(), data: None }
}

fn tool_result(is_error: bool, text: &str) -> Observed {
    let answer = Answer::json(&json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }));
    Observed::McpResult { is_error, answer, text: text.to_owned() }
}

fn cell(classified: &Classified) -> String {
    let verdict = match &classified.verdict {
        Verdict::Effect(_) => "effect",
        Verdict::Refusal(_) => "refusal",
        Verdict::NotSent(_) => "not_sent",
        Verdict::NoEffect(_) => "no_effect",
        Verdict::Lost(_) => "lost",
        Verdict::OtherEffect(_) => "other",
    };
    let next = match classified.then {
        Next::Settle => "-",
        Next::RetrySameKey { .. } => "retry",
        Next::Poll => "poll",
        Next::LookupAfter(_) => "lookup",
        Next::Wait { .. } => "wait",
        Next::Operator => "person",
        Next::RefreshCredential => "credential",
    };
    format!("{verdict} {next}")
}

/// Row, what is seen, the attempt, `[execution]`, other promises, and what each column must say. One cell stands for all.
type Line = (u8, &'static str, Observed, AttemptFacts<'static>, &'static str, &'static str, &'static [&'static str]);

fn lines() -> Vec<Line> {
    const LOST: &[&str] =
        &["lost retry", "lost person", "lost retry", "lost retry", "lost lookup", "lost person", "lost retry"];
    const STORED_FAILURE: &[&str] =
        &["lost person", "lost person", "lost retry", "lost retry", "lost lookup", "lost person", "lost retry"];
    const UNREADABLE: &[&str] =
        &["lost retry", "lost retry", "lost retry", "lost retry", "lost lookup", "lost person", "lost person"];
    const ASK: &[&str] =
        &["lost person", "lost person", "lost person", "lost person", "lost lookup", "lost person", "lost person"];
    const PARTIAL: &[&str] =
        &["lost person", "lost person", "lost person", "lost retry", "lost lookup", "lost person", "lost person"];
    const ACCEPTED: &[&str] =
        &["lost person", "lost person", "lost person", "lost person", "lost poll", "lost person", "lost person"];
    const IN_FLIGHT: &[&str] =
        &["lost wait", "lost wait", "lost wait", "lost wait", "lost lookup", "lost person", "lost person"];
    const MALFORMED: &[&str] =
        &["refusal -", "refusal -", "refusal -", "refusal -", "refusal -", "lost person", "refusal -"];
    const CREDENTIAL: &[&str] = &[
        "no_effect credential",
        "no_effect credential",
        "no_effect credential",
        "no_effect credential",
        "lost lookup",
        "lost person",
        "no_effect credential",
    ];
    const PRECONDITION: &[&str] =
        &["lost person", "lost person", "lost person", "lost person", "lost lookup", "lost person", "refusal -"];
    const EXISTS: &str = "responses = [{ when = { status = [409] }, is = \"already_exists\" }]\n";
    const PART: &str = "responses = [{ when = { body_exists = \"/failed\" }, is = \"partial\" }]\n";
    const IN_USE: &str = "in_flight = { behaviour = \"rejects\", statuses = [409] }\n";
    const OTHER: &str = "other_input = { behaviour = \"rejects\", statuses = [422] }\n";
    const REFUSED_IF: &str = "refused_if = { text_contains = [\"does not exist\"] }\n";
    let ok = || http(201, "{\"id\":\"T-1\"}");
    vec![
        (1, "held back by us", Observed::HeldBack, FIRST, "", "", &["not_sent -"]),
        (2, "no connection", Observed::NotSent(NotSent::NoConnection), FIRST, "", "", &["not_sent retry"]),
        (2, "too late to send", Observed::NotSent(NotSent::TooLate), FIRST, "", "", &["not_sent retry"]),
        (3, "refused stream", Observed::RefusedStream, FIRST, "", "", LOST),
        (
            3,
            "refused stream, trusted",
            Observed::RefusedStream,
            FIRST,
            "trusts_refused_stream = true",
            "",
            &["no_effect retry"],
        ),
        (4, "write failed", Observed::WriteFailed, FIRST, "", "", LOST),
        (5, "timed out", Observed::NoAnswer(NoAnswer::TimedOut), FIRST, "", "", LOST),
        (5, "reset", Observed::NoAnswer(NoAnswer::Reset), FIRST, "", "", LOST),
        (5, "end of stream", Observed::NoAnswer(NoAnswer::Eof), FIRST, "", "", LOST),
        (5, "reused connection closed", Observed::NoAnswer(NoAnswer::ReusedConnectionClosed), FIRST, "", "", LOST),
        (6, "owner lost", Observed::OwnerLost, FIRST, "", "", LOST),
        (8, "201", ok(), FIRST, "", "", &["effect -"]),
        (8, "201 of a repetition", ok(), AGAIN, "", "", &["effect -"]),
        (9, "201, cut", answered(201, &[], Body::Cut(b"{\"id\"".to_vec())), FIRST, "", "", UNREADABLE),
        (9, "201, not the JSON it says", http(201, "<html>"), FIRST, "", "", UNREADABLE),
        (9, "201 without its id", http(201, "{}"), FIRST, "", "effect = { id = { body = \"/id\" } }\n", UNREADABLE),
        (10, "200, a part failed", http(200, "{\"failed\":1}"), FIRST, "", PART, PARTIAL),
        (11, "202", http(202, "{}"), FIRST, "", "", ACCEPTED),
        (8, "202 is the effect", http(202, "{}"), FIRST, "accept_is_effect = true", "", &["effect -"]),
        (12, "303", http(303, ""), FIRST, "", "", LOST),
        (12, "307", http(307, ""), FIRST, "", "", LOST),
        (13, "400", http(400, "{}"), FIRST, "", "", MALFORMED),
        (13, "415", http(415, "{}"), FIRST, "", "", MALFORMED),
        (13, "400, listed", http(400, "{}"), FIRST, "refused_before_effect = [400]", "", &["refusal -"]),
        (13, "422, listed", http(422, "{}"), FIRST, "refused_before_effect = [422]", "", &["refusal -"]),
        (14, "401", http(401, "{}"), FIRST, "", "", CREDENTIAL),
        (14, "403, listed", http(403, "{}"), FIRST, "refused_before_effect = [403]", "", &["no_effect credential"]),
        (15, "402", http(402, "{}"), FIRST, "", "", &["refusal -"]),
        (16, "409", http(409, "{}"), FIRST, "", "", IN_FLIGHT),
        (16, "409 in use", http(409, "{}"), AGAIN, "", IN_USE, IN_FLIGHT),
        (17, "exists, first attempt", http(409, "{}"), FIRST, "", EXISTS, &["refusal -"]),
        (17, "exists, repetition", http(409, "{}"), AGAIN, "", EXISTS, ASK),
        (18, "422, repetition", http(422, "{}"), AGAIN, "", OTHER, &["other person"]),
        (0, "422, first attempt", http(422, "{}"), FIRST, "", OTHER, LOST),
        (19, "408", http(408, ""), FIRST, "", "", LOST),
        (19, "425", http(425, ""), FIRST, "", "", &["no_effect retry"]),
        (20, "412, first attempt", http(412, ""), FIRST, "", "", PRECONDITION),
        (20, "412, repetition", http(412, ""), AGAIN, "", "", ASK),
        (20, "412, repetition, listed", http(412, ""), AGAIN, "refused_before_effect = [412]", "", ASK),
        (21, "429", http(429, ""), FIRST, "", "", LOST),
        (21, "429, limiter first", http(429, ""), FIRST, "limiter_before_work = true", "", &["no_effect retry"]),
        (22, "500", http(500, ""), FIRST, "", "", STORED_FAILURE),
        (23, "502", http(502, ""), FIRST, "", "", LOST),
        (23, "504", http(504, ""), FIRST, "", "", LOST),
        (24, "503", http(503, ""), FIRST, "", "", LOST),
        (24, "503, shed first", http(503, ""), FIRST, "shed_before_work = true", "", &["no_effect retry"]),
        (25, "501", http(501, ""), FIRST, "", "", &["refusal -"]),
        (26, "MCP: unknown tool", rpc_error(-32601), FIRST, "", "", &["refusal -"]),
        (26, "MCP: invalid params", rpc_error(-32602), FIRST, "", "", &["refusal -"]),
        (26, "MCP: internal error", rpc_error(-32603), FIRST, "", "", LOST),
        (27, "MCP: isError", tool_result(true, "broken"), FIRST, "", "", STORED_FAILURE),
        (
            27,
            "MCP: isError, refused_if",
            tool_result(true, "board does not exist"),
            FIRST,
            "",
            REFUSED_IF,
            &["refusal -"],
        ),
        (27, "MCP: isError, other words", tool_result(true, "broken"), FIRST, "", REFUSED_IF, STORED_FAILURE),
        (
            27,
            "MCP: isError, risk taken",
            tool_result(true, "broken"),
            FIRST,
            "is_error = \"refused\"",
            "",
            &["refusal -"],
        ),
        (8, "MCP: result", tool_result(false, "does not exist"), FIRST, "", REFUSED_IF, &["effect -"]),
        (28, "MCP: stream lost", Observed::McpStreamLost, FIRST, "", "", LOST),
        (5, "function failed", Observed::Function(FunctionEnd::Failed), FIRST, "", "", LOST),
        (2, "function sent nothing", Observed::Function(FunctionEnd::NothingSent), FIRST, "", "", &["not_sent retry"]),
        (0, "520", http(520, ""), FIRST, "", "", LOST),
        (0, "418", http(418, ""), FIRST, "", "", LOST),
        (0, "101", http(101, ""), FIRST, "", "", LOST),
    ]
}

#[test]
fn every_row_says_for_every_kind_what_the_table_says() {
    let mut table = String::new();
    let mut wrong = Vec::new();
    for (row, what, observed, facts, execution, more, expected) in lines() {
        write!(table, "{row:>2} {what:<28}").unwrap();
        for (at, (column, _)) in COLUMNS.iter().enumerate() {
            let classified = classify(&contract(column, execution, more), &facts, &observed);
            let found = cell(&classified);
            write!(table, "| {found:<20} ").unwrap();
            let expected = if expected.len() == 1 { expected[0] } else { expected[at] };
            if found != expected || classified.row != row {
                wrong.push(format!("{what}, {column}: row {} {found}, expected row {row} {expected}", classified.row));
            }
        }
        table.push('\n');
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_published_table_is_this_one() {
    let published = include_str!("../../../../docs/contracts/classification.md");
    let mut missing = String::new();
    for (row, what, observed, facts, execution, more, _) in lines() {
        let cells = COLUMNS.map(|(column, _)| cell(&classify(&contract(column, execution, more), &facts, &observed)));
        let line = format!("| {row} | {what} | {} |", cells.join(" | "));
        if !published.lines().any(|present| present == line) {
            writeln!(missing, "{line}").unwrap();
        }
    }
    assert!(missing.is_empty(), "docs/contracts/classification.md lacks these lines:\n{missing}");
}

#[test]
fn every_row_of_the_table_has_a_line() {
    let covered: Vec<u8> = lines().iter().map(|line| line.0).collect();
    // 7 is a caller that hangs up, which is no observation; 29 to 32 are evidence about attempts, and tested with it.
    let missing: Vec<u8> = (1..=28).filter(|row| *row != 7 && !covered.contains(row)).collect();
    assert_eq!(missing, Vec::<u8>::new());
}

#[test]
fn no_status_that_nobody_listed_is_ever_read_as_no_effect_or_refused() {
    let nothing = contract("N", "", "");
    for status in 100..=599 {
        let classified = classify(&nothing, &FIRST, &http(status, "{}"));
        let settled_without_effect = match classified.verdict {
            Verdict::Refusal(_) | Verdict::NoEffect(_) | Verdict::NotSent(_) => true,
            Verdict::Effect(_) | Verdict::Lost(_) | Verdict::OtherEffect(_) => false,
        };
        // Declines, "too early" and "not implemented" are refusals in HTTP's own words, whoever answers.
        let by_the_word_of_http = [402, 425, 501, 505].contains(&status);
        assert_eq!(settled_without_effect, by_the_word_of_http, "{status}");
    }
}

#[test]
fn a_repetition_answered_without_the_promised_marker_is_a_disagreement_and_keeps_its_receipt() {
    let marked =
        contract("K1", "", "replay_marker = { at = { header = \"Idempotent-Replayed\" }, values = [\"true\"] }\n");
    let bare = http(201, "{\"id\":\"T-2\"}");
    let classified = classify(&marked, &AGAIN, &bare);
    assert_eq!(classified.verdict, Verdict::OtherEffect(OtherEffect::ReplayMarkerMissing));
    assert_eq!(classified.then, Next::Operator);
    assert_eq!(classified.late_receipt.unwrap().answer.body, b"{\"id\":\"T-2\"}");

    assert!(matches!(classify(&marked, &FIRST, &bare).verdict, Verdict::Effect(_)));
    let replayed = answered(201, &[("idempotent-replayed", "TRUE")], Body::Whole(b"{}".to_vec()));
    assert!(matches!(classify(&marked, &AGAIN, &replayed).verdict, Verdict::Effect(_)));

    let now_and_then = contract("K1", "", "replay_marker = { at = { header = \"X\" }, missing = \"says_nothing\" }\n");
    assert!(matches!(classify(&now_and_then, &AGAIN, &bare).verdict, Verdict::Effect(_)));
}

#[test]
fn a_success_with_other_parameters_than_were_asked_for_is_a_disagreement() {
    let rules = "effect = { correlate = [{ argument = \"/amount\", effect = \"/amount\" }] }\n";
    let (asked, other) = (json!({ "amount": 100 }), json!({ "amount": 250 }));
    let with = |arguments| AttemptFacts { arguments: Some(arguments), ..FIRST };
    let observed = http(201, "{\"amount\":\"100\"}");
    let contract = contract("N", "", rules);
    assert!(matches!(classify(&contract, &with(&asked), &observed).verdict, Verdict::Effect(_)));
    let classified = classify(&contract, &with(&other), &observed);
    assert_eq!(classified.verdict, Verdict::OtherEffect(OtherEffect::OtherParameters));
    assert!(classified.late_receipt.is_some());
}

#[test]
fn the_effect_id_is_taken_from_where_the_contract_says() {
    let id = |rules: &str, observed: &Observed| match classify(&contract("N", "", rules), &FIRST, observed).verdict {
        Verdict::Effect(receipt) => receipt.effect_id.map(|id| id.as_str().to_owned()),
        other => panic!("{other:?}"),
    };
    let observed = answered(201, &[("Location", "/tickets/7")], Body::Whole(b"{\"ticket\":{\"id\":7}}".to_vec()));
    assert_eq!(id("effect = { id = { body = \"/ticket/id\" } }\n", &observed).as_deref(), Some("7"));
    assert_eq!(id("effect = { id = { header = \"location\" } }\n", &observed).as_deref(), Some("/tickets/7"));
    assert_eq!(id("", &observed), None);
}

#[test]
fn only_allowed_headers_are_kept_and_credentials_never() {
    let greedy = contract("N", "", "effect = { keep_headers = [\"X-Request\", \"Set-Cookie\", \"Date\"] }\n");
    let headers = ["Content-Type", "Set-Cookie", "Date", "x-request", "X-RateLimit-Remaining", "ETag", "Authorization"]
        .map(|name| (name.to_owned(), "v".to_owned()));
    let kept: Vec<String> = kept_headers(&greedy, &headers).into_iter().map(|(name, _)| name).collect();
    assert_eq!(kept, ["Content-Type", "x-request", "ETag"]);
}

#[test]
fn retry_after_travels_with_the_advice() {
    let later = answered(429, &[("Retry-After", "7")], Body::Whole(Vec::new()));
    let contract_with = |more| contract("K1", "limiter_before_work = true", more);
    let wait = |more| classify(&contract_with(more), &FIRST, &later).then;
    let seconds = |seconds| Next::RetrySameKey { not_before: Some(Duration::from_secs(seconds)) };
    assert_eq!(wait(""), seconds(7));
    assert_eq!(wait("min_retry_delay = \"60s\"\n"), seconds(60));
}

#[test]
fn the_destinations_hint_moves_what_happens_next_and_never_the_verdict() {
    let hint = "retry_hint = { header = \"Stripe-Should-Retry\", again = \"true\", stop = \"false\" }\n";
    let says = |status, value| answered(status, &[("Stripe-Should-Retry", value)], Body::Whole(Vec::new()));
    let stop = classify(&contract("K1", "", hint), &FIRST, &says(503, "false"));
    assert_eq!(cell(&stop), "lost person");
    let again = classify(&contract("K1", "", hint), &FIRST, &says(500, "true"));
    assert_eq!(cell(&again), "lost retry");
    // A destination that recognises no key cannot invite a repetition.
    let unheard = classify(&contract("N", "", hint), &FIRST, &says(500, "true"));
    assert_eq!(cell(&unheard), "lost person");
}

#[test]
fn accepted_work_keeps_its_handle() {
    let observed = answered(202, &[("Location", "/jobs/9")], Body::Whole(Vec::new()));
    let classified = classify(&contract("L", "", ""), &FIRST, &observed);
    assert_eq!(classified.verdict, Verdict::Lost(Cause::Accepted { handle: Some("/jobs/9".to_owned()) }));
}

#[test]
fn stripes_own_errors_are_told_apart() {
    let stripe = crate::contract::built_in().unwrap().into_iter().find(|contract| contract.id == "stripe.v1").unwrap();
    let says = |status, body: &str| cell(&classify(&stripe, &FIRST, &http(status, body)));
    assert_eq!(says(400, r#"{"error":{"type":"idempotency_error"}}"#), "other person");
    assert_eq!(says(400, r#"{"error":{"type":"invalid_request_error"}}"#), "refusal -");
    assert_eq!(says(409, r#"{"error":{"code":"idempotency_key_in_use"}}"#), "lost wait");
    assert_eq!(says(402, r#"{"error":{"type":"card_error"}}"#), "refusal -");
    assert_eq!(says(429, "{}"), "no_effect retry");
    assert_eq!(says(500, "{}"), "lost lookup");
    assert_eq!(says(200, r#"{"id":"pi_1"}"#), "effect -");
}
