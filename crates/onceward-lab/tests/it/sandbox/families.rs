//! Every contract of the catalog, spoken by the sandbox and checked over HTTP against its own TOML, field by field.
//!
//! What an answer must look like is read with the contract's own conditions, as whoever receives it would.

mod tried;

use onceward_core::contract::{
    AfterExpiry, Encoding, HorizonClock, HorizonKind, InFlight, Kept, LookupRequest, OtherInput, Required, SameInput,
};
use onceward_lab::sandbox::SandboxContract;
use serde_json::{Value, json};

use super::{Ask, TestSandbox};
use tried::{DAY_MS, KEY, OTHER_KEY, Tried, catalog, holds, is_success, text_at};

#[tokio::test]
async fn every_contract_makes_an_effect_that_its_answer_names() {
    for contract in catalog() {
        let tried = Tried::start(&contract).await;
        let reply = tried.send(tried.write(Some(KEY), 5)).await;
        assert!(is_success(&reply), "{}: {}", contract.id, reply.text());
        assert!(tried.effect_id(&reply).is_some_and(|id| id.ends_with("1001")), "{}: {}", contract.id, reply.text());
        if let Some(handle) = &contract.effect.handle {
            assert!(text_at(handle, &reply).is_some_and(|handle| handle.ends_with("1001")), "{}", contract.id);
        }
        let audit = tried.sandbox.get(&format!("/admin/effects?resource={}", tried.path)).await;
        assert_eq!((&audit["count"], &audit["requests"]), (&json!(1), &json!(1)), "{}", contract.id);
        let key = contract.key.as_ref().map_or(Value::Null, |_| json!(KEY));
        assert_eq!(audit["effects"][0]["idempotency_key"], key, "{}", contract.id);
        for condition in [&contract.other_input.when, &contract.in_flight.when, &contract.same_input.duplicate] {
            let read_as_a_refusal = condition.as_ref().is_some_and(|condition| holds(condition, &reply));
            assert!(!read_as_a_refusal, "{}: a success reads as a refusal: {}", contract.id, reply.text());
        }
    }
}

#[tokio::test]
async fn the_same_key_with_the_same_input_finds_what_the_contract_says() {
    for contract in catalog().into_iter().filter(|contract| contract.key.is_some()) {
        let tried = Tried::start(&contract).await;
        let first = tried.send(tried.write(Some(KEY), 5)).await;
        let again = tried.send(tried.write(Some(KEY), 5)).await;
        let what = format!("{}: {}", contract.id, again.text());
        match contract.same_input.behaviour {
            SameInput::ReplaysStored => {
                assert_eq!((again.status(), again.body()), (first.status(), first.body()), "{what}")
            }
            SameInput::Continues
            | SameInput::ReturnsCurrent
            | SameInput::ReturnsExistingResource
            | SameInput::AcceptedNoEffect => {
                assert!(is_success(&again), "{what}");
                assert_eq!(tried.effect_id(&again), tried.effect_id(&first), "{what}");
            }
            SameInput::RejectsDuplicateWithPointer => {
                assert!(holds(contract.same_input.duplicate.as_ref().expect("a condition"), &again), "{what}");
                let existing = contract.same_input.existing.as_ref().expect("a pointer");
                assert_eq!(text_at(existing, &again), tried.effect_id(&first), "{what}");
            }
            SameInput::RejectsDuplicateNoReceipt => {
                assert!(holds(contract.same_input.duplicate.as_ref().expect("a condition"), &again), "{what}");
            }
            SameInput::Undocumented => assert_ne!(tried.effect_id(&again), tried.effect_id(&first), "{what}"),
        }
        let refuses = !is_success(&again);
        assert!(refuses || contract.replay_marker.is_none() || tried.is_marked(&again), "no mark. {what}");
        let effects = if tried.knows_keys() { 1 } else { 2 };
        assert_eq!(tried.effects().await, effects, "{what}");
        let other = tried.send(tried.write(Some(OTHER_KEY), 5)).await;
        assert!(is_success(&other), "another key is another request: {}: {}", contract.id, other.text());
        assert_eq!(tried.effects().await, effects + 1, "{}", contract.id);
    }
}

#[tokio::test]
async fn the_same_key_with_other_input_is_met_as_the_contract_says() {
    for contract in catalog().into_iter().filter(|contract| contract.key.is_some()) {
        let tried = Tried::start(&contract).await;
        let first = tried.send(tried.write(Some(KEY), 5)).await;
        let other = tried.send(tried.write(Some(KEY), 6)).await;
        let what = format!("{}: {}", contract.id, other.text());
        let effects = match contract.other_input.behaviour {
            OtherInput::Rejects => {
                let statuses = &contract.other_input.statuses;
                assert!(statuses.is_empty() || statuses.contains(&other.status()), "{what}");
                assert!(!is_success(&other), "{what}");
                assert!(contract.other_input.when.as_ref().is_none_or(|condition| holds(condition, &other)), "{what}");
                1
            }
            OtherInput::ExecutesAsNew => 2,
            OtherInput::ReplaysOriginalSilently
            | OtherInput::AcceptedNoEffect
            | OtherInput::Indistinguishable
            | OtherInput::Undocumented => {
                let again = tried.send(tried.write(Some(KEY), 5)).await;
                assert_eq!(other.status(), again.status(), "it looks like the same input. {what}");
                assert!(!is_success(&other) || tried.effect_id(&other) == tried.effect_id(&first), "{what}");
                1
            }
        };
        assert_eq!(tried.effects().await, effects, "{what}");
        let in_flight = contract.in_flight.when.as_ref().is_some_and(|condition| holds(condition, &other));
        assert!(!in_flight, "a mismatch reads as in flight. {what}");
    }
}

#[tokio::test]
async fn a_key_under_way_is_met_as_the_contract_says() {
    for contract in catalog().into_iter().filter(|contract| contract.key.is_some()) {
        let tried = Tried::start(&contract).await;
        let slow = tried.write(Some(KEY), 5).fault("delay_before_commit;ms=600000");
        let first = slow.begin(tried.sandbox.running.address()).await;
        tried.sandbox.until("/admin/requests", |log| log["count"] == 1).await;
        match contract.in_flight.behaviour {
            InFlight::Rejects | InFlight::SecondMayFail | InFlight::SecondRejectedPresumed => {
                let second = tried.send(tried.write(Some(KEY), 5)).await;
                let what = format!("{}: {}", contract.id, second.text());
                let statuses = &contract.in_flight.statuses;
                assert!(statuses.contains(&second.status()) || statuses.is_empty(), "{what}");
                assert!(contract.in_flight.when.as_ref().is_none_or(|condition| holds(condition, &second)), "{what}");
                let header = contract.in_flight.retry_after_header.as_deref().unwrap_or("Retry-After");
                assert!(second.header(header).is_some(), "{what}");
                if let Some(hint) = &contract.retry_hint {
                    assert_eq!(second.header(&hint.header).as_ref(), Some(&hint.again), "{what}");
                }
                let mismatch = contract.other_input.when.as_ref().is_some_and(|condition| holds(condition, &second));
                assert!(!mismatch, "a key in flight reads as a mismatch. {what}");
                assert_eq!(tried.effects().await, 0, "{what}");
            }
            InFlight::WaitsThenMayExecute => {
                // It waits for the time that the contract names, and then runs beside the first.
                assert!(contract.in_flight.lock_ttl.is_some(), "{}: how long does it wait?", contract.id);
                let second = tried.send(tried.write(Some(KEY), 5)).await;
                assert!(is_success(&second), "{}: {}", contract.id, second.text());
                assert_eq!(tried.effects().await, 1, "{}", contract.id);
            }
            InFlight::Undocumented => {
                let second = tried.send(tried.write(Some(KEY), 5)).await;
                assert!(is_success(&second), "nobody looks. {}: {}", contract.id, second.text());
            }
        }
        drop(first);
    }
}

#[tokio::test]
async fn a_500_after_the_commit_is_stored_continued_or_done_again_as_the_contract_says() {
    for contract in catalog() {
        let tried = Tried::start(&contract).await;
        let failed = tried.send(tried.write(Some(KEY), 5).fault("error_500_after_commit")).await;
        assert_eq!(failed.status(), 500, "{}: {}", contract.id, failed.text());
        // The marker names the thing in some interfaces; here only the key is to speak.
        let again = tried.send(tried.write(Some(KEY), 5)).await;
        let what = format!("{}: {}", contract.id, again.text());
        let stored = contract.same_input.behaviour == SameInput::ReplaysStored
            && contract.same_input.saved.server_error == Kept::Stored;
        let found = contract.key.is_some()
            && match contract.same_input.behaviour {
                SameInput::ReplaysStored => contract.execution.effect_atomic_with_key,
                SameInput::Undocumented => false,
                SameInput::Continues
                | SameInput::ReturnsCurrent
                | SameInput::ReturnsExistingResource
                | SameInput::RejectsDuplicateWithPointer
                | SameInput::RejectsDuplicateNoReceipt
                | SameInput::AcceptedNoEffect => true,
            };
        let names_the_thing = contract.responses.iter().any(|rule| holds(&rule.when, &again));
        match (stored, found || names_the_thing) {
            (true, _) => assert_eq!((again.status(), tried.effects().await), (500, 1), "{what}"),
            (false, true) => assert_eq!(tried.effects().await, 1, "{what}"),
            (false, false) => assert_eq!((is_success(&again), tried.effects().await), (true, 2), "{what}"),
        }
    }
}

#[tokio::test]
async fn a_500_that_was_rolled_back_is_stored_or_done_again_as_the_contract_says() {
    for contract in catalog() {
        let tried = Tried::start(&contract).await;
        let failed = tried.send(tried.write(Some(KEY), 5).fault("error_500_rolled_back")).await;
        assert_eq!((failed.status(), tried.effects().await), (500, 0), "{}", contract.id);
        let again = tried.send(tried.write(Some(KEY), 5)).await;
        let stored = contract.same_input.behaviour == SameInput::ReplaysStored
            && contract.same_input.saved.server_error == Kept::Stored;
        let (status, effects) = if stored { (5, 0) } else { (2, 1) };
        let what = format!("{}: {}", contract.id, again.text());
        assert_eq!((again.status() / 100, tried.effects().await), (status, effects), "{what}");
    }
}

#[tokio::test]
async fn a_decline_is_stored_or_decided_again_as_the_contract_says() {
    for contract in catalog().into_iter().filter(|contract| contract.replay_marker.is_some()) {
        let tried = Tried::start(&contract).await;
        assert_eq!(tried.send(tried.write(Some(KEY), 4002)).await.status(), 402, "{}", contract.id);
        let again = tried.send(tried.write(Some(KEY), 4002)).await;
        let stored = contract.same_input.behaviour == SameInput::ReplaysStored
            && contract.same_input.saved.refused_after_execution == Kept::Stored;
        assert_eq!((again.status(), tried.is_marked(&again)), (402, stored), "{}: {}", contract.id, again.text());
        assert_eq!(tried.effects().await, 0, "{}", contract.id);
    }
}

#[tokio::test]
async fn past_its_horizon_a_key_is_new_or_refused_as_the_contract_says() {
    for contract in catalog() {
        let tried = Tried::start(&contract).await;
        if !tried.knows_keys() {
            continue;
        }
        let horizon = &contract.horizon;
        let ends = match (horizon.kind, horizon.clock, horizon.min) {
            (HorizonKind::Indefinite | HorizonKind::ResourceLifetime, _, None) | (_, HorizonClock::ObjectEnd, _) => {
                None
            }
            (_, _, Some(min)) => Some(u64::try_from(min.duration().as_millis()).expect("a length")),
            (_, _, None) => Some(DAY_MS),
        };
        let first = tried.send(tried.write(Some(KEY), 5)).await;
        let Some(ends) = ends else {
            tried.sandbox.advance_clock(365 * DAY_MS).await;
            tried.send(tried.write(Some(KEY), 5)).await;
            assert_eq!(tried.effects().await, 1, "{}", contract.id);
            continue;
        };
        tried.sandbox.advance_clock(ends - 2_000).await;
        tried.send(tried.write(Some(KEY), 5)).await;
        assert_eq!(tried.effects().await, 1, "{}: two seconds before its end the key is known", contract.id);
        tried.sandbox.advance_clock(3_000).await;
        // Where the marker names the thing, that outlives the key; here only the key is to speak.
        let late = tried.send(tried.write_marked(Some(KEY), Some("another-marker"), 5)).await;
        let what = format!("{}: {}", contract.id, late.text());
        match horizon.after_expiry {
            AfterExpiry::Rejects => {
                assert!(contract.execution.refused_before_effect.contains(&late.status()), "{what}");
                assert_eq!(tried.effects().await, 1, "{what}");
            }
            AfterExpiry::Reexecutes | AfterExpiry::NotApplicable | AfterExpiry::Unknown => {
                assert!(is_success(&late) && tried.effect_id(&late) != tried.effect_id(&first), "{what}");
                assert_eq!(tried.effects().await, 2, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_key_that_is_missing_malformed_or_without_its_companion_is_refused_before_anything_is_done() {
    for contract in catalog() {
        let tried = Tried::start(&contract).await;
        let Some(rules) = &contract.key else { continue };
        let without = tried.send(tried.write(None, 5)).await;
        assert_eq!(is_success(&without), rules.required != Required::Yes, "{}: {}", contract.id, without.text());
        let before = tried.effects().await;
        let mut malformed = Vec::new();
        malformed.extend(rules.max_length.map(|max| "k".repeat(max as usize + 1)));
        malformed.extend((rules.format != onceward_core::contract::Format::Any).then(|| "a b".to_owned()));
        for key in malformed {
            let refused = tried.send(tried.write(Some(&key), 5)).await;
            assert_eq!(refused.status(), 400, "{}: {}", contract.id, refused.text());
        }
        if let (Encoding::SfString, Some(carrier)) = (rules.encoding, rules.carrier()) {
            let bare = tried.write(None, 5).header(&carrier.name, KEY);
            assert_eq!(tried.send(bare).await.status(), 400, "{}", contract.id);
        }
        if let (Some(carrier), false) = (rules.carrier(), rules.companions.is_empty()) {
            let alone = tried.write(None, 5).header(&carrier.name, KEY);
            assert_eq!(tried.send(alone).await.status(), 400, "{}: without what travels with it", contract.id);
        }
        assert_eq!(tried.effects().await, before, "{}", contract.id);
    }
}

#[tokio::test]
async fn a_key_is_unique_in_what_the_contract_says_and_never_across_accounts() {
    for contract in catalog() {
        let tried = Tried::start(&contract).await;
        if !tried.knows_keys() {
            continue;
        }
        tried.send(tried.write(Some(KEY), 5)).await;
        let token = |token: &str| {
            let mut ask = tried.write(Some(KEY), 5);
            ask.headers.retain(|(name, _)| name != "Authorization");
            ask.header("Authorization", &format!("Bearer {token}"))
        };
        tried.send(token("sandbox-globex")).await;
        assert_eq!(tried.effects().await, 2, "{}: another account", contract.id);
        let dimension = |name: &str| contract.scope.dimensions.iter().any(|dimension| dimension == name);
        tried.send(token("sandbox-acme.rotated")).await;
        let names_the_thing = !contract.responses.is_empty();
        let rotated = if dimension("credential") && !names_the_thing { 3 } else { 2 };
        assert_eq!(tried.effects().await, rotated, "{}: a rotated token", contract.id);
        if dimension("endpoint") {
            let mut elsewhere = tried.write(Some(KEY), 5);
            elsewhere.path = format!("{}_elsewhere", tried.path);
            assert!(is_success(&tried.send(elsewhere).await), "{}: another endpoint", contract.id);
        }
    }
}

#[tokio::test]
async fn the_lookup_of_a_contract_finds_its_own_effect_after_the_visibility_delay_and_no_other() {
    let mut asked = Vec::new();
    for contract in catalog() {
        let Some(lookup) = &contract.lookup else { continue };
        let LookupRequest::Http { method, path, query, body } = &lookup.request else { continue };
        let tried = Tried::start(&contract).await;
        let first = tried.send(tried.write(Some(KEY), 5)).await;
        tried.send(tried.write(Some(OTHER_KEY), 5)).await;
        let id = tried.effect_id(&first).expect("an id");
        let fill = |text: &str, ours: &str| {
            text.replace("{path}", tried.path)
                .replace("{marker}", ours)
                .replace("{key}", ours)
                .replace("{handle}", &id)
                .replace("{sent_from_unix}", "0")
                .replace("{sent_from}", "1970-01-01T00:00:00Z")
        };
        let question = |ours: &str| {
            let pairs: Vec<String> =
                query.iter().map(|(name, value)| format!("{name}={}", fill(value, ours))).collect();
            let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
            let ask = Ask::new(method, &format!("{}{query}", fill(path, ours)))
                .header("Authorization", "Bearer sandbox-acme");
            match body {
                Some(body) => {
                    let text = fill(&body.to_string(), ours);
                    ask.json(&serde_json::from_str(&text).expect("JSON"))
                }
                None => ask,
            }
        };
        if let Some(delay) = lookup.visibility_delay {
            tried.sandbox.advance_clock(u64::try_from(delay.duration().as_millis()).expect("a delay") + 1).await;
        }
        let found = tried.send(question(KEY)).await;
        let what = format!("{}: {}", contract.id, found.text());
        assert_eq!(found.status(), 200, "{what}");
        let answer = found.json();
        let items = match &lookup.items {
            Some(at) => at.get(&answer).and_then(Value::as_array).expect("a list").clone(),
            None => vec![answer],
        };
        let name = |item: &Value| lookup.effect_id.as_ref().and_then(|at| at.get(item)).cloned();
        assert!(items.iter().any(|item| name(item) == Some(json!(id))), "{what}");
        let whole = lookup.whole_if.as_ref().is_none_or(|condition| holds(condition, &found));
        assert!(whole, "{what}");
        let ours = |item: &&Value| {
            lookup.recognise.iter().any(|recognise| match (recognise.how, recognise.at.get(item)) {
                (_, Some(Value::String(text))) => text.contains(KEY),
                (_, Some(Value::Array(elements))) => elements.contains(&json!(KEY)),
                (_, _) => false,
            })
        };
        if !lookup.recognise.is_empty() {
            assert_eq!(items.iter().filter(ours).count(), 1, "ours, and only ours, is recognised. {what}");
        }
        if query.values().chain([path]).any(|text| text.contains("{marker}") || text.contains("{key}")) {
            let absent = tried.send(question("nobody-has-this")).await;
            let empty = match &lookup.items {
                Some(at) => at.get(&absent.json()).and_then(Value::as_array).is_some_and(Vec::is_empty),
                None => absent.status() == 404 || lookup.absent_statuses.contains(&absent.status()),
            };
            assert!(empty, "{}: {}", contract.id, absent.text());
        }
        asked.push(contract.id.clone());
    }
    assert!(asked.len() >= 8, "hardly any lookup was asked: {asked:?}");
}

#[tokio::test]
async fn throttling_is_answered_with_a_time_and_the_vendors_advice() {
    for contract in catalog() {
        let tried = Tried::start(&contract).await;
        let reply = tried.send(tried.write(Some(KEY), 5).fault("throttle_429;ms=2000")).await;
        assert_eq!((reply.status(), reply.header("Retry-After").as_deref()), (429, Some("2")), "{}", contract.id);
        if let Some(hint) = &contract.retry_hint {
            assert_eq!(reply.header(&hint.header).as_ref(), Some(&hint.again), "{}", contract.id);
        }
        assert_eq!(tried.effects().await, 0, "{}", contract.id);
    }
}

#[tokio::test]
async fn errors_have_the_shape_of_the_vendors_own() {
    for contract in catalog() {
        let Some(shape) =
            contract.indeterminate.as_ref().and_then(|answer| serde_json::from_str::<Value>(&answer.body).ok())
        else {
            continue;
        };
        let tried = Tried::start(&contract).await;
        let failed = tried.send(tried.write(Some(KEY), 5).fault("fail_before_commit")).await;
        let (Value::Object(wanted), Value::Object(got)) = (&shape, failed.json()) else { panic!("{}", failed.text()) };
        let speaking = wanted.iter().filter(|(_, value)| !value.to_string().contains("{operation_id}"));
        for (name, _) in speaking {
            assert!(got.contains_key(name), "{}: no {name:?} in {}", contract.id, failed.text());
        }
        assert!(!failed.text().to_lowercase().contains("onceward_"), "{}: {}", contract.id, failed.text());
    }
}

#[tokio::test]
async fn a_sandbox_learns_another_interface_while_it_runs_and_a_reset_takes_it_back() {
    let sandbox = TestSandbox::start(SandboxContract::default()).await;
    let spoken = sandbox.admin("PUT", "/admin/contract", json!({ "family": "square.payments" })).await;
    assert_eq!(spoken["family"]["id"], json!("square.payments"));
    let pay = Ask::new("POST", "/v2/payments").json(&json!({ "idempotency_key": KEY, "amount": 5 }));
    assert_eq!(sandbox.send(pay.clone()).await.json()["payment"]["amount"], json!(5));
    let refused = Ask::new("PUT", "/admin/contract").json(&json!({ "family": "square.paymints" }));
    assert_eq!(sandbox.send(refused).await.status(), 400);
    sandbox.admin("POST", "/admin/reset", Value::Null).await;
    assert_eq!(sandbox.send(pay).await.status(), 405, "nothing of the sandbox's own is made there");
    assert_eq!(sandbox.send(Ask::ticket("Printer")).await.status(), 201);
}

#[tokio::test]
async fn a_precondition_refuses_to_overwrite_what_somebody_else_wrote() {
    let mut contract = catalog().into_iter().find(|contract| contract.id == "none").expect("none");
    contract.precondition = serde_json::from_value(json!({ "header": "If-Match" })).expect("a precondition");
    let sandbox = TestSandbox::start(SandboxContract::speaking(contract)).await;
    let put = |version: &str| Ask::new("PUT", "/pages/1").header("If-Match", version).json(&json!({ "text": "x" }));
    assert_eq!(sandbox.send(put("\"7\"")).await.status(), 412);
    let written = sandbox.send(put("\"0\"")).await;
    assert_eq!((written.status(), written.header("ETag").as_deref()), (201, Some("\"1\"")));
    assert_eq!(sandbox.send(put("\"0\"")).await.status(), 412, "a repetition that comes late overwrites nothing");
    assert_eq!(sandbox.send(put("\"1\"")).await.status(), 201);
    assert_eq!(sandbox.effects("/pages/1").await, 2);
}

#[tokio::test]
async fn a_lookup_misses_what_is_younger_than_the_visibility_delay() {
    let mut contract = catalog().into_iter().find(|contract| contract.id == "generic.lookup_only").expect("one");
    let lookup = contract.lookup.as_mut().expect("a lookup");
    lookup.visibility_delay = Some("60s".parse().expect("a span"));
    let tried = Tried::start(&contract).await;
    tried.send(tried.write(Some(KEY), 5)).await;
    let question = || Ask::get(&format!("/things?reference={KEY}")).header("Authorization", "Bearer sandbox-acme");
    let shown = async || tried.send(question()).await.json()["data"].as_array().map(Vec::len);
    tried.sandbox.advance_clock(55_000).await;
    assert_eq!((shown().await, tried.effects().await), (Some(0), 1), "it is there, and not to be seen yet");
    tried.sandbox.advance_clock(5_001).await;
    assert_eq!(shown().await, Some(1));
}
