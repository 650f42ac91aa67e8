//! Whose an event is, and what it says.

use http::{HeaderMap, HeaderName, HeaderValue};
use onceward_ledger::evidence::Says;
use onceward_ledger::mark::Mark;
use serde_json::json;

use super::signature::InvalidSecret;
use super::*;
use crate::testing::{catalog, errors};

/// The example of the specification's reference libraries.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const SIGNED_AT: i64 = 1_614_265_330;
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

const STRIPE_SECRET: &str = "whsec_stripe_s3cret";
const STRIPE_BODY: &[u8] = br#"{"id":"evt_1","type":"charge.succeeded"}"#;
/// Made by another implementation of HMAC.
const STRIPE_CODE: &str = "28eef020eec23486a306bf6e86d6f81ba9b1f8b8ba1964911a36391ee7fd2bd5";

fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
    list.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())).collect()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn verify(kind: Kind, secret: &str, sent: &[(&'static str, &str)], body: &[u8], now: i64) -> Result<(), Unauthentic> {
    let secrets = [WebhookSecret::parse(kind, secret).unwrap()];
    signature::verify(kind, &secrets, Duration::from_secs(300), &headers(sent), body, at(now)).map(drop)
}

fn standard(sent: &[(&'static str, &str)], body: &[u8], now: i64) -> Result<(), Unauthentic> {
    verify(Kind::Standard, SECRET, sent, body, now)
}

const TIME: &str = "1614265330";

#[test]
fn a_standard_signature_proves_the_id_the_time_and_the_body_together() {
    let right = [("webhook-id", ID), ("webhook-timestamp", TIME), ("webhook-signature", SIGNATURE)];
    assert_eq!(standard(&right, BODY, SIGNED_AT), Ok(()));
    let svix = [("svix-id", ID), ("svix-timestamp", TIME), ("svix-signature", SIGNATURE)];
    assert_eq!(standard(&svix, BODY, SIGNED_AT), Ok(()));
    let several = format!("v1a,AAAA v1,AAAA {SIGNATURE}");
    let several = [("webhook-id", ID), ("webhook-timestamp", TIME), ("webhook-signature", several.as_str())];
    assert_eq!(standard(&several, BODY, SIGNED_AT), Ok(()), "one of several is enough");
    for (changed, body) in [
        ([("webhook-id", "msg_2"), right[1], right[2]], BODY),
        ([right[0], ("webhook-timestamp", "1614265331"), right[2]], BODY),
        ([right[0], right[1], ("webhook-signature", "v1,AAAA")], BODY),
        ([right[0], right[1], ("webhook-signature", &SIGNATURE[3..])], BODY),
        (right, &br#"{"test": 2432232315}"#[..]),
    ] {
        assert_eq!(standard(&changed, body, SIGNED_AT), Err(Unauthentic::Signature), "{changed:?}");
    }
}

#[test]
fn an_event_is_believed_for_five_minutes_and_not_from_the_future() {
    let right = [("webhook-id", ID), ("webhook-timestamp", TIME), ("webhook-signature", SIGNATURE)];
    for (now, expected) in
        [(300, Ok(())), (-300, Ok(())), (301, Err(Unauthentic::Time)), (-301, Err(Unauthentic::Time))]
    {
        assert_eq!(standard(&right, BODY, SIGNED_AT + now), expected, "{now}");
    }
}

#[test]
fn a_missing_or_a_doubled_header_proves_nothing() {
    let all = [("webhook-id", ID), ("webhook-timestamp", TIME), ("webhook-signature", SIGNATURE)];
    for left_out in 0..3 {
        let mut some = all.to_vec();
        some.remove(left_out);
        assert_eq!(standard(&some, BODY, SIGNED_AT), Err(Unauthentic::Headers), "{some:?}");
    }
    let mut doubled = headers(&all);
    doubled.append("webhook-timestamp", HeaderValue::from_static(TIME));
    let secrets = [WebhookSecret::parse(Kind::Standard, SECRET).unwrap()];
    let verified = signature::verify(Kind::Standard, &secrets, Duration::MAX, &doubled, BODY, at(SIGNED_AT));
    assert_eq!(verified, Err(Unauthentic::Headers));
    for time in ["", "soon", "-1", "+1614265330", "99999999999999999999"] {
        let odd = [all[0], ("webhook-timestamp", time), all[2]];
        assert_eq!(standard(&odd, BODY, SIGNED_AT), Err(Unauthentic::Headers), "{time}");
    }
}

#[test]
fn stripes_signature_proves_the_time_and_the_body() {
    let stripe = |header: &str, body: &[u8], now: i64| {
        verify(Kind::Stripe, STRIPE_SECRET, &[("stripe-signature", header)], body, now)
    };
    let right = format!("t={TIME},v1={STRIPE_CODE}");
    assert_eq!(stripe(&right, STRIPE_BODY, SIGNED_AT), Ok(()));
    assert_eq!(stripe(&format!("t={TIME},v0=00,v1=00,v1={STRIPE_CODE}"), STRIPE_BODY, SIGNED_AT), Ok(()));
    assert_eq!(stripe(&right, STRIPE_BODY, SIGNED_AT + 301), Err(Unauthentic::Time));
    for wrong in [
        format!("t=1614265331,v1={STRIPE_CODE}"),
        format!("t={TIME},v0={STRIPE_CODE}"),
        format!("t={TIME}"),
        format!("t={TIME},v1=zz"),
    ] {
        assert_eq!(stripe(&wrong, STRIPE_BODY, SIGNED_AT), Err(Unauthentic::Signature), "{wrong}");
    }
    assert_eq!(stripe(&right, b"{}", SIGNED_AT), Err(Unauthentic::Signature));
    for broken in [format!("v1={STRIPE_CODE}"), format!("t={TIME},t={TIME},v1={STRIPE_CODE}"), String::new()] {
        assert_eq!(stripe(&broken, STRIPE_BODY, SIGNED_AT), Err(Unauthentic::Headers), "{broken}");
    }
}

#[test]
fn while_a_secret_is_exchanged_both_are_believed() {
    let secrets: Vec<_> = ["bmV3IHNlY3JldCBvZiAxNisgYnl0ZXM=", SECRET]
        .map(|text| WebhookSecret::parse(Kind::Standard, text).unwrap())
        .into();
    let sent = headers(&[("webhook-id", ID), ("webhook-timestamp", TIME), ("webhook-signature", SIGNATURE)]);
    let verified = |secrets: &[WebhookSecret]| {
        signature::verify(Kind::Standard, secrets, Duration::from_secs(300), &sent, BODY, at(SIGNED_AT))
    };
    assert_eq!(verified(&secrets), Ok(Some(ID.to_owned())));
    assert_eq!(verified(&secrets[..1]), Err(Unauthentic::Signature));
}

#[test]
fn a_secret_is_long_enough_and_never_printed() {
    assert_eq!(WebhookSecret::parse(Kind::Standard, "whsec_no base64").unwrap_err(), InvalidSecret::Base64);
    assert_eq!(WebhookSecret::parse(Kind::Standard, "whsec_AAAA").unwrap_err(), InvalidSecret::Short);
    assert_eq!(WebhookSecret::parse(Kind::Stripe, "whsec_short").unwrap_err(), InvalidSecret::Short);
    assert_eq!(format!("{:?}", WebhookSecret::parse(Kind::Stripe, STRIPE_SECRET)), "Ok(WebhookSecret(…))");
}

const SHOP: &str = r#"
[destination.shop]
url = "http://127.0.0.1:9"
contract = "none"
[destination.shop.tool.order]
request = { method = "POST", path = "/orders", body = "arguments" }
[destination.shop.webhook]
kind = "stripe"
secrets = ["env:TOKEN"]
effect_if = { body_in = { at = "/type", values = ["order.created", "odd"] } }
refused_if = { body_in = { at = "/type", values = ["order.refused", "odd"] } }
recognise = [{ at = "/data/reference" }, { at = "/data/note", how = "contains" }, { at = "/data/labels", how = "contains" }]
handle = "/data/job"
effect_id = "/data/id"
answer = "/data"
"#;

fn read(event: &serde_json::Value) -> Result<Heard, NotHeard> {
    let catalog = catalog(SHOP);
    let webhook = catalog.webhook("shop").unwrap();
    webhook.rules.read(webhook.kind(), None, event.to_string().as_bytes(), at(7))
}

const KEY: &str = "0b0e0c3a-8c3f-8000-9000-000000000001";

#[test]
fn an_event_says_that_there_is_an_effect_or_that_it_was_refused() {
    let data = json!({ "id": 7, "reference": KEY, "amount": 5 });
    let created = read(&json!({ "id": "evt_1", "type": "order.created", "data": data })).unwrap();
    assert_eq!(created.delivery, "evt_1");
    let Says::Effect(receipt) = &created.says else { panic!("{created:?}") };
    assert_eq!(receipt.effect_id.as_ref().map(|id| id.as_str()), Some("7"));
    assert_eq!(receipt.answer.body_json(), Some(data.clone()));
    let refused = read(&json!({ "id": "evt_2", "type": "order.refused", "data": data })).unwrap();
    assert!(matches!(refused.says, Says::Refused(_)));
    for (event, why) in [
        (json!({ "id": "evt_3", "type": "order.viewed", "data": data }), NotHeard::Ignored),
        (json!({ "id": "evt_4", "type": "odd", "data": data }), NotHeard::Ignored),
        (json!({ "id": "evt_5", "type": "order.created", "data": { "id": 7 } }), NotHeard::NamesNothing),
        (json!({ "type": "order.created", "data": data }), NotHeard::Unreadable),
        (json!({ "id": "a b", "type": "order.created", "data": data }), NotHeard::Unreadable),
        (json!("text"), NotHeard::Unreadable),
    ] {
        assert_eq!(read(&event).unwrap_err(), why, "{event}");
    }
}

#[test]
fn keys_are_found_as_a_whole_field_in_a_list_and_in_a_text_and_handles_beside_them() {
    let marks = |data: serde_json::Value| {
        read(&json!({ "id": "evt_1", "type": "order.created", "data": data })).map(|heard| heard.marks)
    };
    let key = |text: &str| Mark::Key(onceward_core::key::OutboundKey::parse(text).unwrap());
    assert_eq!(marks(json!({ "reference": "caller-7" })), Ok(vec![key("caller-7")]));
    assert_eq!(marks(json!({ "labels": ["red", KEY] })), Ok(vec![key(KEY), key("red")]));
    assert_eq!(marks(json!({ "note": format!("for Ann [{KEY}].") })), Ok(vec![key(KEY)]));
    assert_eq!(marks(json!({ "note": format!("x{KEY} and {KEY}-2") })), Err(NotHeard::NamesNothing));
    assert_eq!(marks(json!({ "job": 12 })), Ok(vec![Mark::Handle("12".to_owned())]));
    let many: Vec<String> = (0..20).map(|n| format!("k{n}")).collect();
    assert_eq!(marks(json!({ "labels": many })), Err(NotHeard::NamesTooMuch));
}

#[test]
fn a_webhook_that_could_never_say_anything_is_a_mistake_with_its_way_out() {
    let found = |from: &str, to: &str, words: &str| {
        assert!(SHOP.contains(from), "{from}");
        let errors = errors(&SHOP.replace(from, to));
        assert!(errors.iter().any(|error| error.contains(words)), "{words} is not in {errors:#?}");
        assert!(errors.iter().all(|error| !error.contains(crate::testing::SECRET)), "{errors:#?}");
    };
    found("secrets = [\"env:TOKEN\"]", "secrets = []", "at least one secret");
    found("secrets = [\"env:TOKEN\"]", "secrets = [\"whsec_abc\"]", "env:NAME");
    found("kind = \"stripe\"", "kind = \"standard\"", "no base64");
    found("kind = \"stripe\"", "kind = \"github\"", "unknown variant");
    found("handle = ", "hanlde = ", "hanlde");
    found(
        "effect_if = { body_in = { at = \"/type\", values = [\"order.created\", \"odd\"] } }",
        "effect_if = { all_of = [] }",
        "every event or for none",
    );
    let nothing_named = SHOP.replace("handle = \"/data/job\"\n", "");
    let line = nothing_named.lines().find(|line| line.starts_with("recognise")).unwrap().to_owned();
    assert!(errors(&nothing_named.replace(&line, "")).iter().any(|error| error.contains("by what an event names")));
    let no_rule: String =
        SHOP.lines().filter(|line| !line.contains("_if = ")).map(|line| format!("{line}\n")).collect();
    assert!(errors(&no_rule).iter().any(|error| error.contains("which events speak of an effect")));
    found("kind = \"stripe\"", "kind = \"stripe\"\ntolerance = \"2h\"", "out of range");
}

#[test]
fn a_webhook_speaks_for_the_tools_of_its_own_destination_only() {
    let text = format!(
        "{SHOP}\n[destination.other]\nurl = \"http://127.0.0.1:9\"\ncontract = \"none\"\n[destination.other.tool.mail]\n\
         request = {{ method = \"POST\", path = \"/mails\", body = \"arguments\" }}\n"
    );
    let catalog = catalog(&text);
    let tool = |name: &str| onceward_core::key::ToolName::parse(name).unwrap();
    assert!(catalog.speaks_for("shop", &tool("order")));
    assert!(!catalog.speaks_for("shop", &tool("mail")) && !catalog.speaks_for("shop", &tool("made_up")));
    assert!(catalog.webhook("other").is_none());
}
