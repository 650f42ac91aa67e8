use bytes::Bytes;
use http::{HeaderMap, Method};
use onceward_core::canonical::Canonical;
use onceward_core::fingerprint::{FingerprintKeyId, FingerprintKeys};
use onceward_core::key::OutboundKey;
use onceward_core::time::Timestamp;
use serde_json::json;

use super::{Incoming, Proxy, Taken};
use crate::carrier::Carried;
use crate::mapping::Rendered;
use crate::testing::{catalog, errors};

const KEY: &str = "01234567-89ab-8def-8123-456789abcdef";

fn text(contract: &str, more: &str) -> String {
    format!(
        "[destination.pay]\nurl = \"http://127.0.0.1:1/base\"\n{contract}\nauth = {{ bearer = \"env:TOKEN\" }}\n\
         scope = {{ mode = \"test\" }}\naccount = \"acct_1\"\n[destination.pay.proxy]\n{more}\n"
    )
}

fn proxy(contract: &str, more: &str) -> std::sync::Arc<Proxy> {
    std::sync::Arc::clone(catalog(&text(contract, more)).proxy("pay").expect("a proxy"))
}

fn stripe(more: &str) -> std::sync::Arc<Proxy> {
    proxy("contract = \"stripe.v1\"", more)
}

fn incoming(target: &str, headers: &[(&str, &str)], body: &[u8]) -> Incoming {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    Incoming { method: Method::POST, target: target.to_owned(), headers: map, body: Bytes::copy_from_slice(body) }
}

fn charge(headers: &[(&str, &str)], body: &str) -> Incoming {
    let form = [("content-type", "application/x-www-form-urlencoded")];
    incoming("/v1/charges", &[&form[..], headers].concat(), body.as_bytes())
}

fn render(proxy: &Proxy, taken: &Taken) -> Rendered {
    let key = OutboundKey::parse(KEY).unwrap();
    let destination = &proxy.destination;
    let carried = Carried::new(destination.plan(), proxy.contract(), Some(&key), Timestamp::EPOCH).unwrap();
    destination.render(&taken.arguments, &carried).unwrap()
}

/// What makes two requests one intention, as the ledger sees it.
fn print(proxy: &Proxy, arguments: &Canonical) -> String {
    FingerprintKeys::unkeyed()
        .fingerprint(FingerprintKeyId::UNKEYED, proxy.tool().as_str(), "1", arguments, proxy.comparison())
        .unwrap()
        .to_string()
}

fn same(proxy: &Proxy, one: &Incoming, other: &Incoming) -> bool {
    print(proxy, &proxy.take(one).unwrap().arguments) == print(proxy, &proxy.take(other).unwrap().arguments)
}

#[test]
fn bytes_leave_as_they_came_with_our_key_and_only_with_headers_that_are_allowed() {
    let proxy = stripe("");
    let body = "amount=%35%30&currency=eur&metadata[x]=+";
    let request = charge(
        &[
            ("idempotency-key", "order-17"),
            ("authorization", "Bearer ow_agent_x"),
            ("cookie", "a=b"),
            ("stripe-version", "2026-01-01"),
            ("stripe-account", "acct_9"),
            ("x-stripe-client-user-agent", "{}"),
            ("connection", "keep-alive, stripe-version"),
        ],
        body,
    );
    let taken = proxy.take(&request).unwrap();
    assert_eq!(taken.key.as_deref(), Some("order-17"));
    let rendered = render(&proxy, &taken);
    assert_eq!((rendered.method.as_str(), rendered.target.as_str()), ("POST", "/v1/charges"));
    assert_eq!(rendered.body.as_deref(), Some(body.as_bytes()));
    let mut names: Vec<&str> = rendered.headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-type", "idempotency-key", "stripe-account", "stripe-version"]);
    assert_eq!(rendered.headers["idempotency-key"], KEY);
    assert!(!taken.arguments.text().contains("ow_agent_x"), "a caller's token is never kept");
}

#[test]
fn what_is_only_written_differently_is_the_same_intention() {
    let proxy = stripe("");
    let base = charge(&[], "amount=50&currency=eur");
    assert!(same(&proxy, &base, &charge(&[], "amount=%35%30&currency=eur")));
    assert!(same(&proxy, &base, &charge(&[("stripe-version", "2099-01-01")], "amount=50&currency=eur")), "an upgrade");
    assert!(same(&proxy, &base, &charge(&[("idempotency-key", "k")], "amount=50&currency=eur")));
    assert!(!same(&proxy, &base, &charge(&[], "amount=51&currency=eur")));
    assert!(!same(&proxy, &base, &charge(&[], "currency=eur&amount=50")), "a form is read in its order");
    assert!(!same(&proxy, &base, &charge(&[("stripe-account", "acct_9")], "amount=50&currency=eur")), "another scope");
    let json = |body: &str| incoming("/x", &[("content-type", "application/json; charset=utf-8")], body.as_bytes());
    assert!(same(&proxy, &json(r#"{"a":1,"b":2}"#), &json("{ \"b\": 2.0, \"a\": 1 }")));
    assert!(!same(&proxy, &json(r#"{"a":1}"#), &json(r#"{"a":2}"#)));
    let upload = |boundary: &str, file: &str| {
        let body = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n{file}\r\n--{boundary}--\r\n"
        );
        incoming("/f", &[("content-type", &format!("multipart/form-data; boundary={boundary}"))], body.as_bytes())
    };
    assert!(same(&proxy, &upload("one", "PNG"), &upload("two", "PNG")), "clients make a boundary for each repetition");
    assert!(!same(&proxy, &upload("one", "PNG"), &upload("one", "JPG")));
    let binary = |body: &[u8]| incoming("/b", &[("content-type", "application/octet-stream")], body);
    assert!(
        same(&proxy, &binary(b"\x00\xff"), &binary(b"\x00\xff")) && !same(&proxy, &binary(b"\x00"), &binary(b"\x01"))
    );
}

#[test]
fn a_binary_body_leaves_byte_for_byte() {
    let proxy = stripe("");
    let bytes: Vec<u8> = (0..=255).collect();
    let taken = proxy.take(&incoming("/b", &[("content-type", "application/pdf")], &bytes)).unwrap();
    assert_eq!(render(&proxy, &taken).body, Some(bytes));
}

#[test]
fn a_key_is_one_operation_in_one_scope_and_survives_a_move_of_the_destination() {
    let proxy = stripe("");
    let id = |proxy: &Proxy, request: &Incoming, key: &str| {
        proxy.operation_id(&proxy.take(request).unwrap(), key).unwrap().to_string()
    };
    let base = id(&proxy, &charge(&[], "amount=50"), "order-17");
    assert_eq!(base, id(&proxy, &charge(&[], "amount=51"), "order-17"), "other input under the key is a conflict");
    assert_ne!(base, id(&proxy, &charge(&[], "amount=50"), "order-18"));
    assert_ne!(base, id(&proxy, &charge(&[("stripe-account", "acct_9")], "amount=50"), "order-17"));
    let moved = catalog(&text("contract = \"stripe.v1\"", "").replace("127.0.0.1:1", "127.0.0.1:2"));
    assert_eq!(base, id(moved.proxy("pay").unwrap(), &charge(&[], "amount=50"), "order-17"));
    let live = catalog(&text("contract = \"stripe.v1\"", "").replace("\"test\"", "\"live\""));
    assert_ne!(base, id(live.proxy("pay").unwrap(), &charge(&[], "amount=50"), "order-17"));
}

#[test]
fn only_keys_that_the_application_chose_name_an_intention() {
    let proxy = stripe("identity = [\"order-*\"]");
    assert!(proxy.names_an_intention("order-17"));
    assert!(!proxy.names_an_intention("a41c9b62-5b0e-4d3a-9c59-0a3f5e9c8d11"));
    assert!(!stripe("").names_an_intention("order-17"), "nothing said means nothing believed");
    let told = errors(&text("contract = \"stripe.v1\"", "identity = [\"*\"]"));
    assert!(told.iter().any(|error| error.contains("every key")), "{told:?}");
}

const IN_BODY: &str =
    "contract = { version = 1, key = { carriers = [{ in = \"body\", name = \"/idempotency_key\" }] } }";

#[test]
fn a_key_in_the_body_is_replaced_there_and_makes_no_other_intention() {
    let proxy = proxy(IN_BODY, "");
    let request = |key: &str| {
        let body = format!("{{ \"amount\": 1.50, \"idempotency_key\": \"{key}\" }}");
        incoming("/v2/payments", &[("content-type", "application/json")], body.as_bytes())
    };
    assert!(same(&proxy, &request("a"), &request("b")));
    let taken = proxy.take(&request("a")).unwrap();
    assert_eq!(taken.key.as_deref(), Some("a"));
    let sent = String::from_utf8(render(&proxy, &taken).body.unwrap()).unwrap();
    assert_eq!(sent, format!("{{ \"amount\": 1.50, \"idempotency_key\": \"{KEY}\" }}"));
}

#[test]
fn the_callers_own_key_goes_out_only_where_one_tenant_is_served() {
    let told = errors(&text("contract = \"stripe.v1\"", "key = \"caller\""));
    assert!(told.iter().any(|error| error.contains("tenant")), "{told:?}");
    let proxy = stripe("key = \"caller\"\ntenant = \"acme\"");
    let with = proxy.take(&charge(&[("idempotency-key", "order-17")], "amount=50")).unwrap();
    assert_eq!(render(&proxy, &with).headers["idempotency-key"], "order-17");
    let without = proxy.take(&charge(&[], "amount=50")).unwrap();
    assert_eq!(render(&proxy, &without).headers["idempotency-key"], KEY);
}

#[test]
fn a_path_that_leads_elsewhere_is_not_taken() {
    let proxy = stripe("");
    for target in ["/v1/../admin", "/v1/%2E%2e/admin", "//evil.example/x", "/v1/./x", "/v1/a\\b", "v1"] {
        assert!(proxy.take(&incoming(target, &[], b"")).is_err(), "{target}");
    }
    assert!(proxy.take(&incoming("/v1/charges?expand[]=a&x=%2e%2e", &[], b"")).is_ok());
}

#[test]
fn what_makes_a_write_conditional_goes_on_and_is_compared() {
    let proxy = stripe("");
    let put = |tag: &str| incoming("/things/1", &[("content-type", "application/json"), ("if-match", tag)], b"{}");
    assert!(same(&proxy, &put("\"a\""), &put("\"a\"")) && !same(&proxy, &put("\"a\""), &put("\"b\"")));
    let taken = proxy.take(&put("\"a\"")).unwrap();
    assert_eq!(render(&proxy, &taken).headers["if-match"], "\"a\"");
    let id = |request: &Incoming| proxy.operation_id(&proxy.take(request).unwrap(), "order-17").unwrap();
    assert_eq!(id(&put("\"a\"")), id(&put("\"b\"")), "it is no scope of a key");
}

#[test]
fn a_packed_body_goes_on_as_one_and_is_compared_by_its_bytes() {
    let proxy = stripe("");
    let packed =
        |body: &[u8]| incoming("/x", &[("content-type", "application/json"), ("content-encoding", "gzip")], body);
    assert!(
        same(&proxy, &packed(b"\x1f\x8b1"), &packed(b"\x1f\x8b1")) && !same(&proxy, &packed(b"{}"), &packed(b"{ }"))
    );
    assert_eq!(render(&proxy, &proxy.take(&packed(b"\x1f\x8b1")).unwrap()).headers["content-encoding"], "gzip");
}

#[test]
fn a_request_that_asks_to_be_another_is_not_taken() {
    let request = charge(&[("x-http-method-override", "DELETE")], "amount=50");
    assert!(matches!(stripe("").take(&request), Err(super::NotTaken::Override(_))));
}

#[test]
fn a_check_says_what_a_lost_reply_through_the_proxy_becomes() {
    let line =
        catalog(&text("contract = \"stripe.v1\"", "")).explain().into_iter().find(|line| line.tool == "pay.proxy");
    let line = line.expect("a line for the proxy").to_string();
    assert!(line.contains("same-key retry until 23 h") && line.contains("header idempotency-key"), "{line}");
}

#[test]
fn a_header_that_matters_is_never_guessed_from_two() {
    let proxy = stripe("");
    for name in ["idempotency-key", "stripe-account", "stripe-version", "content-type"] {
        assert!(proxy.take(&incoming("/x", &[(name, "a"), (name, "b")], b"")).is_err(), "{name}");
    }
}

#[test]
fn reads_are_named_and_everything_else_is_a_write() {
    let usual = stripe("");
    assert!(usual.reads(&Method::GET, "/v1/charges?limit=3") && !usual.reads(&Method::POST, "/v1/search"));
    let own = stripe("reads = [\"GET\", \"POST /v1/search/*\"]");
    assert!(own.reads(&Method::POST, "/v1/search/x?q=1") && !own.reads(&Method::HEAD, "/v1/charges"));
}

#[test]
fn a_proxy_puts_no_marker_into_a_request_and_so_believes_no_absence_of_one() {
    let proxy = stripe("");
    assert_eq!((proxy.contract().marker.as_ref(), proxy.contract().lookup.as_ref()), (None, None));
}

#[test]
fn a_destination_is_asked_about_the_key_that_it_was_sent() {
    let callers = stripe("key = \"caller\"\ntenant = \"acme\"");
    let taken = callers.take(&charge(&[("idempotency-key", "order-17")], "amount=50")).unwrap();
    assert_eq!(callers.destination.asked_key(&taken.arguments).as_deref(), Some("order-17"));
    assert_eq!(stripe("").destination.asked_key(&taken.arguments), None);
}

#[test]
fn mistakes_of_a_proxy_are_named_in_its_configuration() {
    let says = |more: &str, word: &str| {
        let told = errors(&text("contract = \"stripe.v1\"", more));
        assert!(told.iter().any(|error| error.contains(word)), "{more}: {told:?}");
    };
    says("reads = [\"get\"]", "names no requests");
    says("pinned_headers = [\"Cookie\"]", "cannot be passed on");
    says("scope_headers = [\"Authorization\"]", "cannot be passed on");
    says("identiy = [\"a*\"]", "identiy");
    says("effect_id = \"id\"", "effect_id");
    says("deadline = \"48h\"", "deadline");
    let clash = format!(
        "{}\n[destination.pay.tool.x]\nname = \"pay.proxy\"\nrequest = {{ method = \"POST\", path = \"/x\" }}\n",
        text("contract = \"stripe.v1\"", "")
    );
    assert!(errors(&clash).iter().any(|error| error.contains("pay.proxy")), "{:?}", errors(&clash));
}

#[test]
fn what_is_compared_can_be_read_by_a_person() {
    let proxy = stripe("");
    let taken = proxy.take(&charge(&[("idempotency-key", "order-17")], "amount=50&currency=eur")).unwrap();
    let mut value = taken.arguments.value().clone();
    value.as_object_mut().unwrap().remove("sent");
    assert_eq!(
        value,
        json!({
            "content": { "form": [["amount", "50"], ["currency", "eur"]] },
            "media_type": "application/x-www-form-urlencoded", "method": "POST", "target": "/v1/charges",
        })
    );
    assert_eq!(proxy.title(&taken), "POST /v1/charges (order-17)");
}
