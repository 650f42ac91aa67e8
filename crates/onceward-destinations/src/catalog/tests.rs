use serde_json::json;

use onceward_core::contract::Recognised;

use super::*;
use crate::testing::{SECRET, arguments, catalog, errors, read_in, tool};
use crate::tool::{Effect, WithoutIdentity};

const HELPDESK: &str = r#"
ledger = "sqlite:onceward.db"

[destination.helpdesk]
url = "http://127.0.0.1:7080/api/"
contract = "none"
account = "sandbox"
auth = { bearer = "env:TOKEN" }
connect_timeout = "5s"
timeout = "30s"
max_in_flight = 64

[destination.helpdesk.tool.create_ticket]
version = "3"
title = "Ticket: {/title}"
description = "Opens a helpdesk ticket"
schema = { type = "object", required = ["title"], properties = { title = { type = "string" }, body = { type = "string" } } }
request = { method = "POST", path = "/tickets", body = "arguments" }
effect_id = "/id"
free_text = ["/body"]
refused_if = { status = [422] }
without_identity = "refuse"
deadline = "10m"

[destination.helpdesk.tool.get_ticket]
read = true
request = { method = "GET", path = "/tickets/{/id}" }
"#;

#[test]
fn a_configuration_becomes_tools() {
    let catalog = catalog(HELPDESK);
    let tools = catalog.tools();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name().as_str()).collect();
    assert_eq!(names, ["create_ticket", "get_ticket"]);
    let create = tool(&catalog, "create_ticket");
    assert_eq!(create.version().as_str(), "3");
    assert_eq!(create.effect(), Effect::Write);
    assert_eq!(create.without_identity(), WithoutIdentity::Refuse);
    assert_eq!(create.title(&arguments(json!({ "title": "Printer" }))), "Ticket: Printer");
    assert_eq!(create.answer_within().as_secs(), 30);
    assert_eq!(create.deadline().map(|deadline| deadline.as_secs()), Some(600));
    assert_eq!(create.destination().scope(), "http://127.0.0.1:7080/api account=\"sandbox\"");
    let effect = create.contract().effect.id.as_ref().map(|at| format!("{at:?}"));
    assert_eq!(effect.as_deref(), Some("Body(Pointer(\"/id\"))"));
    assert!(create.contract().refused_if.is_some());
    assert_eq!(tool(&catalog, "get_ticket").effect(), Effect::Read);
}

#[test]
fn arguments_are_checked_before_anything_is_claimed() {
    let catalog = catalog(HELPDESK);
    let create = tool(&catalog, "create_ticket");
    assert_eq!(create.check(&arguments(json!({ "title": "a" }))), Ok(()));
    assert!(create.check(&arguments(json!({ "title": 1 }))).unwrap_err().to_string().contains("/title"));
    // The schema of this one admits everything; its path does not.
    let get = tool(&catalog, "get_ticket");
    assert_eq!(get.check(&arguments(json!({ "id": 7 }))), Ok(()));
    for bad in [json!({}), json!({ "id": ".." }), json!({ "id": "" }), json!({ "id": ["a"] })] {
        assert!(get.check(&arguments(bad.clone())).is_err(), "{bad}");
    }
}

/// Asserts that the first mistake stands at that line and in that field, and that the message has these words.
fn mistake(text: &str, line: usize, key: &str, words: &str) {
    let errors = errors(text);
    let first = errors.first().map(String::as_str).unwrap_or_default();
    assert!(first.starts_with(&format!("onceward.toml:{line}:")), "line {line}: {errors:#?}");
    assert!(first.contains(&format!(": {key}: ")) && first.contains(words), "{key}, {words}: {errors:#?}");
}

fn with(old: &str, new: &str) -> String {
    assert!(HELPDESK.contains(old), "{old}");
    HELPDESK.replacen(old, new, 1)
}

#[test]
fn a_mistake_names_the_line_the_field_and_the_way_out() {
    let d = "destination.helpdesk";
    let t = "destination.helpdesk.tool.create_ticket";
    mistake(&with("contract = \"none\"", "contract = \"nome\""), 6, &format!("{d}.contract"), "use one of stripe.v1");
    mistake(&with("contract = \"none\"\n", ""), 4, d, "write contract = \"none\"");
    mistake(
        &with("contract = \"none\"", "contract = \"own.toml\""),
        6,
        &format!("{d}.contract"),
        "own.toml cannot be read",
    );
    mistake(&with("http://127", "ftp://127"), 5, &format!("{d}.url"), "only http and https");
    mistake(&with("http://127", "http://user:pw@127"), 5, &format!("{d}.url"), "no place for a credential");
    mistake(&with("\"5s\"", "5"), 9, &format!("{d}.connect_timeout"), "invalid type");
    mistake(&with("\"5s\"", "\"0s\""), 9, &format!("{d}.connect_timeout"), "out of range");
    mistake(&with("= 64", "= 0"), 11, &format!("{d}.max_in_flight"), "from 1 to 4096");
    mistake(&with("account =", "acount ="), 7, &format!("{d}.acount"), "unknown field");
    mistake(&with("version = \"3\"", "version = \"ß\""), 14, &format!("{t}.version"), "visible ASCII");
    mistake(&with("{/title}", "{title}"), 15, &format!("{t}.title"), "{/title}");
    mistake(&with("type = \"object\"", "type = \"list\""), 17, &format!("{t}.schema"), "type = \"object\"");
    mistake(&with("\"POST\"", "\"post\""), 18, &format!("{t}.request.method"), "in capital letters");
    mistake(&with("\"/tickets\"", "\"tickets?a=b\""), 18, &format!("{t}.request.path"), "query = {");
    mistake(&with("body = \"arguments\" }", "boddy = 1 }"), 18, &format!("{t}.request.boddy"), "unknown field");
    mistake(
        &with("body = \"arguments\" }", "body = { a = [\"{x\"] } }"),
        18,
        &format!("{t}.request.body.a.0"),
        "not closed",
    );
    mistake(&with("effect_id = \"/id\"", "effect_id = \"id\""), 19, &format!("{t}.effect_id"), "JSON Pointer");
    mistake(&with("[\"/body\"]", "[\"\"]"), 20, &format!("{t}.free_text"), "whole document");
    mistake(&with("status = [422]", "status = []"), 21, &format!("{t}.refused_if"), "a condition is empty");
    mistake(&with("\"refuse\"", "\"ask\""), 22, &format!("{t}.without_identity"), "unknown variant");
    mistake(
        &with("read = true\n", "read = true\nname = \"create_ticket\"\n"),
        25,
        &format!("{d}.tool.get_ticket"),
        "another name",
    );
    mistake(
        &with("[destination.helpdesk.tool.get_ticket]\nread = true\n", "[destination.helpdesk.tool.get_ticket]\n[x]\n"),
        25,
        &format!("{d}.tool.get_ticket"),
        "nothing says what is sent",
    );
    assert!(errors("a = [").first().is_some_and(|error| error.starts_with("onceward.toml:1:")));
}

#[test]
fn a_connection_must_fit_into_the_time_to_send() {
    let key = "destination.helpdesk.connect_timeout";
    mistake(&with("connect_timeout = \"5s\"", "connect_timeout = \"9s\""), 9, key, "from \"1ms\" to \"8s\"");
}

#[test]
fn all_mistakes_are_found_at_once_and_stand_in_the_order_of_the_lines() {
    let text = with("http://127", "ftp://127")
        .replace("version = \"3\"", "version = \"\"")
        .replace("{/title}", "{title}")
        .replace("\"GET\"", "\"PUT\"")
        .replace("\"env:TOKEN\"", "\"env:NONE\"");
    let errors = errors(&text);
    let lines: Vec<&str> = errors.iter().map(|error| error.split(':').nth(1).unwrap_or_default()).collect();
    // The last one is only seen where the destination itself can be built.
    assert_eq!(lines, ["5", "8", "14", "15"], "{errors:#?}");
}

#[test]
fn no_message_repeats_a_secret() {
    for written in [
        "auth = \"sk_live_s3cret\"".to_owned(),
        "auth = { bearer = \"sk_live_s3cret\" }".to_owned(),
        "auth = { bearer = { a = \"sk_live_s3cret\" } }".to_owned(),
        "auth = { sk_live_s3cret = \"env:TOKEN\" }".to_owned(),
        "auth = { header = \"X-Key\" }".to_owned(),
        "auth = { header = \"a b\", value = \"env:TOKEN\" }".to_owned(),
        "auth = { bearer = \"env:NOT_SET\" }".to_owned(),
        "auth = { bearer = \"file:sk_nothing\" }".to_owned(),
    ] {
        let errors = errors(&with("auth = { bearer = \"env:TOKEN\" }", &written));
        assert_eq!(errors.len(), 1, "{written} {errors:?}");
        assert!(errors[0].starts_with("onceward.toml:8:"), "{errors:?}");
        assert!(!errors[0].contains("s3cret"), "{errors:?}");
    }
}

#[test]
fn a_development_environment_refuses_a_live_credential() {
    let text = with("contract = \"none\"", "contract = \"stripe.v1\"\nscope = { mode = \"live\" }");
    let errors = errors(&text);
    assert!(errors.iter().any(|error| error.contains("env:TOKEN is a credential of the live system")), "{errors:?}");
    assert!(!errors.concat().contains(SECRET));
    assert!(read_in(Environment::Production, &text).is_ok());
}

#[test]
fn a_key_needs_the_scope_in_which_it_is_recognised() {
    let text = with("contract = \"none\"\naccount = \"sandbox\"", "contract = \"stripe.v1\"");
    let errors = errors(&text).concat();
    assert!(errors.contains("write account = ") && errors.contains("write scope = { mode ="), "{errors}");
}

#[test]
fn a_deadline_that_reaches_the_horizon_is_refused() {
    let text = with("contract = \"none\"", "contract = \"stripe.v1\"\nscope = { mode = \"test\" }");
    let late = text.replace("deadline = \"10m\"", "deadline = \"23h\"");
    let found = read_in(Environment::Production, &late).unwrap_err();
    assert!(found[0].key.ends_with("create_ticket.deadline") && found[0].problem.contains("82800 s"), "{found:?}");
    assert!(read_in(Environment::Production, &late.replace("\"23h\"", "\"1379m\"")).is_ok());
}

#[test]
fn retries_that_reach_the_horizon_are_refused_for_every_contract_with_one() {
    let mut tried = 0;
    for contract in onceward_core::contract::built_in().unwrap() {
        let Recognised::For(recognised) = contract.horizon.recognised() else { continue };
        if contract.key.is_none() || crate::carrier::CarrierPlan::new(&contract).is_err() {
            continue;
        }
        tried += 1;
        let id = &contract.id;
        let named: Vec<String> =
            contract.scope.dimensions.iter().map(|dimension| format!("{dimension} = \"x\"")).collect();
        let text = format!(
            "ledger = \"sqlite:onceward.db\"\n[destination.d]\nurl = \"http://127.0.0.1:1\"\ncontract = \"{id}\"\n\
             scope = {{ {} }}\ntimeout = \"1s\"\n[destination.d.tool.t]\n\
             request = {{ method = \"POST\", path = \"/t\", body = \"arguments\" }}\n",
            named.join(", ")
        );
        let with = |lines: String| read_in(Environment::Production, &format!("{text}{lines}"));
        let seconds = recognised.as_secs();
        let two = |cap: u64| format!("retry = {{ attempts_max = 2, throttle_base = \"{cap}s\", cap = \"{cap}s\" }}\n");
        let late = with(two(seconds)).unwrap_err();
        assert!(
            late[0].key.ends_with("t.retry") && late[0].problem.contains(&format!("{seconds} s")),
            "{id}: {late:?}"
        );
        let found = with(two(seconds - 10));
        assert!(found.is_ok(), "{id}: {:?}", found.err());
        let found = with(format!("{}deadline = \"{}s\"\n", two(seconds), seconds - 1));
        assert!(found.is_ok(), "{id}, with a deadline: {:?}", found.err());
        let found = with(format!("deadline = \"{seconds}s\"\n"));
        assert!(found.unwrap_err()[0].key.ends_with("t.deadline"), "{id}");
    }
    assert!(tried >= 8, "{tried}");
}

#[test]
fn what_a_mapping_may_not_write_is_refused() {
    for (headers, words) in [
        ("Host = \"a\"", "leave it out"),
        ("Content-Length = \"1\"", "leave it out"),
        ("authorization = \"Bearer x\"", "leave it out"),
        ("Cookie = \"a=b\"", "env:NAME"),
        ("\"a b\" = \"c\"", "no header name"),
    ] {
        let request = format!("body = \"arguments\", headers = {{ {headers} }} }}");
        let errors = errors(&with("body = \"arguments\" }", &request));
        assert!(errors.first().is_some_and(|error| error.contains(words)), "{headers} {errors:?}");
    }
    let keyed = with("contract = \"none\"", "contract = \"ietf.idempotency_key\"");
    let request = "body = \"arguments\", headers = { Idempotency-Key = \"{/title}\" } }";
    let errors = errors(&keyed.replace("body = \"arguments\" }", request));
    assert!(errors.first().is_some_and(|error| error.contains("leave it out")), "{errors:?}");
}

#[test]
fn check_says_what_a_lost_reply_becomes() {
    let lost = |text: &str| {
        let catalog = read_in(Environment::Production, text).unwrap();
        catalog.explain().into_iter().find(|line| line.tool == "create_ticket").unwrap()
    };
    let none = lost(HELPDESK);
    assert_eq!((none.lost_reply.as_str(), none.carrier.as_str()), ("waits for a person", "none"));
    let stripe = lost(&with("contract = \"none\"", "contract = \"stripe.v1\"\nscope = { mode = \"test\" }"));
    assert_eq!(
        (stripe.lost_reply.as_str(), stripe.carrier.as_str()),
        ("same-key retry until 23 h", "header idempotency-key")
    );
    let lookup = "lookup = { path = \"/tickets\", items = \"\", recognise = [{ at = \"/reference\" }], visibility_delay = \"60s\" }";
    let marked = lost(&with(
        "effect_id = \"/id\"",
        &format!("effect_id = \"/id\"\nmarker = {{ at = \"/reference\" }}\n{lookup}"),
    ));
    assert_eq!((marked.lost_reply.as_str(), marked.lookup.as_str()), ("lookup after 60 s", "GET /tickets"));
    assert!(marked.to_string().contains("create_ticket (helpdesk, none): key the caller's operation id"), "{marked}");
    // A request without a body has no place for the marker, so that looking for it would prove nothing.
    let bodyless = lost(
        &with("effect_id = \"/id\"", &format!("effect_id = \"/id\"\nmarker = {{ at = \"/reference\" }}\n{lookup}"))
            .replace("path = \"/tickets\", body = \"arguments\" }", "path = \"/tickets\" }"),
    );
    assert_eq!((bodyless.lost_reply.as_str(), bodyless.lookup.as_str()), ("waits for a person", "none"));
}

#[test]
fn check_warns_of_what_would_make_two_operations_of_one() {
    let warned = |old: &str, new: &str, words: &str| {
        let catalog = catalog(&with(old, new));
        let line = catalog.explain().remove(0);
        assert!(line.warnings.iter().any(|warning| warning.contains(words)), "{words}: {:?}", line.warnings);
    };
    warned("Opens a helpdesk ticket", "Use a new key for every request", "new key for every");
    warned("body = { type", "request_id = { type", "looks like a key");
    warned("\"POST\"", "\"GET\"", "read = true");
    warned("body = \"arguments\" }", "body = { t = \"{/title}\" } }", "\"body\" is never sent");
    warned("http://127.0.0.1:7080/api/", "http://10.0.0.1", "plain HTTP");
    let catalog = catalog(HELPDESK);
    assert!(catalog.explain().iter().all(|line| line.warnings.is_empty()), "{:?}", catalog.explain());
}

#[test]
fn a_contract_may_stand_in_the_destination_itself() {
    let text = with("contract = \"none\"\n", "")
        + r#"
[destination.helpdesk.contract]
version = 1
key = { carriers = [{ in = "body", name = "/request_id" }] }
same_input = { behaviour = "replays_stored", saved = { 2xx = "stored", 500 = "stored" } }
in_flight = { behaviour = "rejects" }
horizon = { kind = "fixed", min = "48h" }
provenance = { confidence = "operated" }
"#;
    let catalog = catalog(&text);
    let line = catalog.explain().remove(0);
    assert_eq!((line.contract.as_str(), line.carrier.as_str()), ("helpdesk", "body /request_id"));
    assert_eq!(line.lost_reply, "same-key retry until 46 h");
    mistake(&text.replace("version = 1\nkey", "key"), 28, "destination.helpdesk.contract", "write version = 1");
    let carrier = text.replace("in = \"body\", name = \"/request_id\"", "in = \"jwt\", name = \"jti\"");
    mistake(&carrier, 28, "destination.helpdesk.contract", "kind jwt");
    mistake(
        &text.replace("kind = \"fixed\"", "kind = \"fixd\""),
        33,
        "destination.helpdesk.contract.horizon.kind",
        "unknown variant",
    );
}

const NOTES: &str = r#"
[mcp.notes]
command = ["npx", "server"]
env = { A = "plain", B = "env:TOKEN" }
reads = ["get_*", "search"]
refusals = "filesystem"

[mcp.notes.tool.create]
title = "Note {/title}"
marker = { at = "/labels" }
lookup = { tool = "search", args = { q = "{marker}" }, recognise = [{ at = "/q" }] }

[mcp.web]
url = "http://127.0.0.1:1/mcp"
auth = "env:TOKEN"
prefix = "web_"
headers = { X-Team = "blue" }
"#;

#[test]
fn what_is_known_of_an_mcp_server_before_it_is_asked_is_said_by_check() {
    let catalog = catalog(NOTES);
    let lines: Vec<String> = catalog.explain().iter().map(ToString::to_string).collect();
    let tools: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(tools, ["*", "create", "get_*", "search", "web_*"], "{lines:#?}");
    assert!(lines[1].contains("lookup tool search") && lines[2].contains("reads, passes through"), "{lines:#?}");
    assert!(catalog.tools().is_empty() && catalog.server_status().len() == 2);
    let printed = format!("{catalog:?}");
    assert!(!printed.contains(SECRET) && printed.contains("env:TOKEN"), "{printed}");
}

#[test]
fn a_mistake_in_an_mcp_server_names_its_line_and_the_way_out() {
    let mistake = |old: &str, new: &str, key: &str, words: &str| {
        assert!(NOTES.contains(old), "{old}");
        let errors = errors(&NOTES.replacen(old, new, 1));
        let first = errors.first().map(String::as_str).unwrap_or_default();
        assert!(first.contains(&format!(": {key}: ")) && first.contains(words), "{key}, {words}: {errors:#?}");
    };
    mistake("command = [\"npx\", \"server\"]", "command = []", "mcp.notes.command", "the command is empty");
    mistake("command = [\"npx\", \"server\"]\n", "", "mcp.notes", "a program or an address");
    mistake("env = { A", "url = \"http://a\"\nenv = { A", "mcp.notes", "a program or an address");
    mistake("env:TOKEN\" }\nreads", "env:NONE\" }\nreads", "mcp.notes.env.B", "NONE is not set");
    mistake("\"get_*\"", "\"*_get\"", "mcp.notes.reads", "`*` at the end");
    mistake("= \"filesystem\"", "= \"files\"", "mcp.notes.refusals", "there are sets for");
    mistake("tool = \"search\"", "tool = \"find\"", "mcp.notes.tool.create.lookup.tool", "must not write");
    mistake(
        "lookup = { tool = \"search\", args = { q = \"{marker}\" }",
        "lookup = { path = \"/x\"",
        "mcp.notes.tool.create.lookup",
        "asked by a tool",
    );
    mistake("title = \"Note", "titel = \"Note", "mcp.notes.tool.create.titel", "unknown field");
    mistake("auth = \"env:TOKEN\"", "auth = \"s3cret\"", "mcp.web.auth.bearer", "does not stand in the configuration");
    mistake(
        "X-Team = \"blue\"",
        "Authorization = \"Bearer x\"",
        "mcp.web.headers.Authorization",
        "a credential does not stand",
    );
    mistake("X-Team = \"blue\"", "Mcp-Name = \"x\"", "mcp.web.headers.Mcp-Name", "made for each request");
    mistake("prefix = \"web_\"", "cwd = \"/\"", "mcp.web.cwd", "goes with command");
    mistake("prefix = \"web_\"", "contract = \"stripe.v1\"", "mcp.web", "recognised only within one");
}
