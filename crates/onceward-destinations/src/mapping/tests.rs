use onceward_core::key::OutboundKey;
use onceward_core::time::Timestamp;
use onceward_ledger::destination::Destination as _;
use serde_json::json;

use super::*;
use crate::testing::{arguments, catalog, tool};

const KEY: &str = "01234567-89ab-8def-8123-456789abcdef";

/// Renders a request under a contract, both as TOML.
fn render(request: &str, contract: &str, value: Value) -> Result<Rendered, Unmappable> {
    let text = format!(
        "[destination.d]\nurl = \"http://127.0.0.1:1\"\n{contract}\n[destination.d.tool.t]\nrequest = {request}\n"
    );
    let catalog = catalog(&text);
    let tool = tool(&catalog, "t");
    let key = OutboundKey::parse(KEY).unwrap();
    let first = Timestamp::from_micros(784_111_777_000_000);
    let carried = Carried::new(tool.http().plan(), tool.http().contract(), Some(&key), first).unwrap();
    tool.http().mapping().render(&arguments(value), &carried)
}

fn body(rendered: &Rendered) -> &str {
    std::str::from_utf8(rendered.body.as_deref().unwrap_or_default()).unwrap()
}

const NONE: &str = "contract = \"none\"";

fn keyed(contract: &str) -> String {
    format!("contract = {{ id = \"c\", version = 1, {contract} }}")
}

#[test]
fn values_stay_inside_their_segment_parameter_and_header() {
    let request = r#"{ method = "POST", path = "/t/{/id}", query = { q = "{/q}", gone = "{/gone}" },
        headers = { X-Id = "no. {/id}", X-Gone = "{/gone}" } }"#;
    let rendered = render(request, NONE, json!({ "id": "a/../b?c#d", "q": "x&y=z ü" })).unwrap();
    assert_eq!(rendered.target, "/t/a%2F..%2Fb%3Fc%23d?q=x%26y%3Dz%20%C3%BC");
    assert_eq!(rendered.headers.get("x-id").unwrap(), "no. a/../b?c#d");
    assert_eq!(rendered.headers.len(), 1);
    assert_eq!(rendered.body, None);
}

#[test]
fn a_line_break_never_becomes_another_header() {
    let request = r#"{ method = "POST", path = "/t", headers = { X-Id = "{/id}" } }"#;
    for value in ["a\r\nX-Evil: 1", "a\nb", "a\0", "ü"] {
        let refused = render(request, NONE, json!({ "id": value }));
        assert!(matches!(refused, Err(Unmappable::Header { .. })), "{value:?} {refused:?}");
    }
    let long = "x".repeat(HEADER_VALUE_BYTES_MAX + 1);
    assert!(matches!(render(request, NONE, json!({ "id": long })), Err(Unmappable::Header { .. })));
}

#[test]
fn a_segment_that_leads_elsewhere_is_refused() {
    let request = r#"{ method = "DELETE", path = "/t/{/id}" }"#;
    for value in ["", ".", ".."] {
        assert_eq!(render(request, NONE, json!({ "id": value })), Err(Unmappable::Path), "{value:?}");
    }
    assert_eq!(render(request, NONE, json!({ "id": "..." })).unwrap().target, "/t/...");
    let long = "x".repeat(TARGET_BYTES_MAX);
    assert!(matches!(render(request, NONE, json!({ "id": long })), Err(Unmappable::TargetTooLong { .. })));
}

#[test]
fn a_body_is_the_arguments_or_a_template_and_a_required_field_must_be_there() {
    let rendered = render(r#"{ method = "POST", path = "/", body = "arguments" }"#, NONE, json!({ "b": 1.0, "a": [] }));
    assert_eq!(body(&rendered.unwrap()), r#"{"a":[],"b":1}"#);
    let request =
        r#"{ method = "POST", path = "/", body = { ticket = { subject = "{/t}", n = "{/n}" } }, required = ["/t"] }"#;
    assert_eq!(body(&render(request, NONE, json!({ "t": "x" })).unwrap()), r#"{"ticket":{"subject":"x"}}"#);
    let absent = Unmappable::Absent { at: Pointer::parse("/t").unwrap() };
    assert_eq!(render(request, NONE, json!({ "n": 1 })), Err(absent));
}

#[test]
fn a_form_names_what_lies_inside_in_brackets() {
    let request = r#"{ method = "POST", path = "/", body = "arguments", encoding = "form" }"#;
    let rendered =
        render(request, NONE, json!({ "a": { "b": "x y" }, "l": [{ "c": 1 }], "n": null, "t": true })).unwrap();
    assert_eq!(body(&rendered), "a%5Bb%5D=x%20y&l%5B0%5D%5Bc%5D=1&t=true");
    assert_eq!(rendered.headers.get("content-type").unwrap(), "application/x-www-form-urlencoded");
}

#[test]
fn the_key_and_what_travels_with_it_stand_where_the_contract_says() {
    let json_body = r#"{ method = "POST", path = "/", body = "arguments" }"#;
    let place =
        |carrier: &str, request: &str| render(request, &keyed(&format!("key = {{ {carrier} }}")), json!({ "a": 1 }));
    let header =
        place("carriers = [{ in = \"header\", name = \"X-Key\" }], encoding = \"sf_string\"", json_body).unwrap();
    assert_eq!(header.headers.get("x-key").unwrap(), &format!("\"{KEY}\""));
    let in_body = place("carriers = [{ in = \"body\", name = \"/m/k\" }]", json_body).unwrap();
    assert_eq!(body(&in_body), format!("{{\"a\":1,\"m\":{{\"k\":\"{KEY}\"}}}}"));
    let query = place("carriers = [{ in = \"query\", name = \"k\" }]", json_body).unwrap();
    assert_eq!(query.target, format!("/?k={KEY}"));
    let in_path = place(
        "carriers = [{ in = \"path\", name = \"id\" }]",
        r#"{ method = "PUT", path = "/t/{id}", body = "arguments" }"#,
    );
    assert_eq!(in_path.unwrap().target, format!("/t/{KEY}"));
    let form = place(
        "carriers = [{ in = \"form\", name = \"m[k]\" }]",
        r#"{ method = "POST", path = "/", body = "arguments", encoding = "form" }"#,
    );
    assert_eq!(body(&form.unwrap()), format!("a=1&m%5Bk%5D={KEY}"));
    let companions = "carriers = [{ in = \"header\", name = \"Repeatability-Request-ID\" }], companions = [
        { in = \"header\", name = \"Repeatability-First-Sent\", value = \"first_sent_http_date\" },
        { in = \"query\", name = \"v\", value = { text = \"1 2\" } }]";
    let rendered = place(companions, json_body).unwrap();
    assert_eq!(rendered.headers.get("repeatability-first-sent").unwrap(), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(rendered.target, "/?v=1%202");
}

#[test]
fn the_key_never_replaces_what_was_approved() {
    let contract = keyed("key = { carriers = [{ in = \"body\", name = \"/k\" }] }");
    let refused = render(r#"{ method = "POST", path = "/", body = "arguments" }"#, &contract, json!({ "k": "mine" }));
    assert!(matches!(refused, Err(Unmappable::Place { .. })), "{refused:?}");
}

#[test]
fn the_marker_goes_into_its_field() {
    let contract = keyed("marker = { at = \"/text\", how = \"contains\", max_length = 60 }");
    let request = r#"{ method = "POST", path = "/", body = "arguments" }"#;
    let rendered = render(request, &contract, json!({ "text": "Hello" })).unwrap();
    assert_eq!(body(&rendered), format!("{{\"text\":\"Hello {KEY}\"}}"));
    let refused = render(request, &contract, json!({ "text": "x".repeat(60) }));
    assert!(matches!(refused, Err(Unmappable::Place { .. })), "{refused:?}");
}

#[test]
fn the_same_arguments_and_key_make_the_same_bytes() {
    let request =
        r#"{ method = "POST", path = "/{/a}", query = { q = "{/b}" }, body = { x = "{/c}", y = "{/a} {/b}" } }"#;
    let contract = keyed("marker = { at = \"/m\" }");
    let once = |text: &str| render(request, &contract, serde_json::from_str(text).unwrap()).unwrap();
    assert_eq!(once(r#"{"a":1,"b":2,"c":{"z":1,"y":2.0}}"#), once(r#"{"c":{"y":2,"z":1},"b":2,"a":1}"#));
}
