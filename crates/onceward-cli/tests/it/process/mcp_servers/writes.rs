//! Writes of the reference servers are operations: one effect, however often they are repeated.

use super::*;

fn outcome(result: &Value) -> &Value {
    &result["_meta"][OURS]["outcome"]
}

#[tokio::test]
async fn a_repetition_of_an_edit_finds_its_receipt_and_the_file_is_edited_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let servers = Servers::in_folder(folder.path());
    let before = Before::start(folder, &servers.sections());
    let note = format!("{}/note.txt", servers.files);
    // Made again it would append again.
    let edit = json!({ "path": note, "edits": [{ "oldText": "second", "newText": "second\nsecond" }] });
    let first = before.call("edit_file", &edit, "edit-1").await;
    assert_eq!((&first["isError"], outcome(&first)), (&Value::Null, &json!("executed")), "{first}");
    let again = before.call("edit_file", &edit, "edit-1").await;
    assert_eq!(outcome(&again), "replayed");
    for part in ["content", "structuredContent", "isError"] {
        assert_eq!(again[part], first[part], "the receipt is the server's own answer");
    }
    assert_eq!(std::fs::read_to_string(&note).expect("read"), "first\nsecond\nsecond\n");

    let other = json!({ "path": note, "edits": [{ "oldText": "first", "newText": "1st" }] });
    let conflict = before.call("edit_file", &other, "edit-1").await;
    assert_eq!((&conflict["isError"], &conflict["structuredContent"]["outcome"]), (&json!(true), &json!("conflict")));
    assert_eq!(std::fs::read_to_string(&note).expect("read"), "first\nsecond\nsecond\n");
}

#[tokio::test]
async fn entities_are_made_once_and_both_client_generations_get_the_same_receipt() {
    let folder = tempfile::tempdir().expect("a folder");
    let servers = Servers::in_folder(folder.path());
    let before = Before::start(folder, &servers.sections());
    let entity = json!({ "name": "Ada", "entityType": "person", "observations": ["writes programs"] });
    let call = json!({ "tool": "create_entities", "arguments": { "entities": [entity] }, "operation_id": "ada-1" });
    let reach = [("GATEWAY", before.gateway.url.clone()), ("TOKEN", before.agent.clone())];
    let mut receipts = Vec::new();
    for environment in ["mcp1", "mcp2"] {
        let told = python(environment, &reach, &json!([call, call]));
        for seen in told["seen"].as_array().expect("two") {
            assert_eq!(seen["result"]["isError"], false, "{seen}");
            receipts.push(seen["result"]["structuredContent"].clone());
        }
    }
    // The server itself answers a second creation with an empty list.
    assert_eq!(receipts, vec![json!({ "entities": [entity] }); 4]);
    assert_eq!(std::fs::read_to_string(&servers.memory).expect("read").lines().count(), 1);
}

#[tokio::test]
async fn a_write_that_takes_long_tells_its_caller_how_far_the_server_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = server("server-everything", &["stdio"]);
    // Nothing is named in `reads`, so this is a write too.
    let before = Before::start(folder, &format!("[mcp.everything]\ncommand = {}\n", toml_list(&command)));
    let reach = [("GATEWAY", before.gateway.url.clone()), ("TOKEN", before.agent.clone())];
    for (environment, id) in [("mcp1", "long-1"), ("mcp2", "long-2")] {
        let arguments = json!({ "duration": 1, "steps": 4 });
        let call = json!({ "tool": "trigger-long-running-operation", "arguments": arguments, "operation_id": id, "progress": true });
        let told = python(environment, &reach, &json!([call]));
        let steps: Vec<&Value> =
            told["seen"][0]["progress"].as_array().expect("progress").iter().map(|step| &step[0]).collect();
        assert_eq!(steps, [&json!(1.0), &json!(2.0), &json!(3.0), &json!(4.0)], "{environment}: {told}");
    }
}
