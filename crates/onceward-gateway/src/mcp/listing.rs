//! The tools that a caller sees, and the handle that each write tool gets.

use std::sync::Arc;

use onceward_destinations::tool::{Effect, Tool};
use rmcp::model::{JsonObject, Tool as Listed, ToolAnnotations};
use serde_json::{Value, json};

/// The argument by which a model may ask again about an operation.
const HANDLE: &str = "operation_id";

const HANDLE_IN_WORDS: &str = "Only to ask again about an operation that an earlier result of this tool named: its operation_id, with \
                               the same arguments. Leave it out on a first call, and never make one up.";

/// The question about an operation.
pub(crate) const STATUS_TOOL: &str = "check_operation_status";

/// A tool as a host sees it.
pub(crate) fn listed(tool: &Tool) -> Listed {
    let hints = tool.annotations();
    let mut annotations = ToolAnnotations::new().read_only(tool.effect() == Effect::Read);
    annotations.title.clone_from(&hints.title);
    annotations.destructive_hint = hints.destructive;
    annotations.open_world_hint = hints.open_world;
    let mut listed = Listed::new(
        tool.name().to_string(),
        tool.description().to_owned(),
        Arc::new(schema(tool.schema(), handle(tool))),
    );
    listed.title.clone_from(&hints.title);
    listed.with_annotations(annotations)
}

/// A tool in a list. One of an MCP server is shown as the server defines it, every field; ours is the handle of a write, and the
/// argument that the ledger fills in is not shown.
pub(crate) fn shown(tool: &Tool) -> Value {
    let Some(mcp) = tool.mcp() else { return json!(listed(tool)) };
    let mut shown = mcp.definition().clone();
    shown["name"] = Value::from(tool.name().as_str());
    let mut own = shown.get("inputSchema").cloned().unwrap_or_else(|| json!({}));
    if let Some(key) = mcp.key_argument() {
        hide(&mut own, key.trim_start_matches('/'));
    }
    shown["inputSchema"] = Value::Object(schema(&own, handle(tool)));
    shown
}

/// What a tool says that its structured content is like, if it says so.
pub(crate) fn output_schema(tool: &Tool) -> Option<&Value> {
    tool.mcp()?.definition().get("outputSchema").filter(|schema| schema.is_object())
}

/// Where a tool stands in a list: ours by name, then those of each server as the server lists them.
pub(crate) fn in_order(tool: &Tool) -> (Option<String>, usize, String) {
    let name = tool.name().to_string();
    let Some(mcp) = tool.mcp() else { return (None, 0, name) };
    let offered = mcp.upstream().tools();
    let place = offered.iter().position(|offered| offered.get("name") == mcp.definition().get("name"));
    (Some(mcp.upstream().name().to_owned()), place.unwrap_or(offered.len()), name)
}

/// Takes an argument out of a schema.
fn hide(schema: &mut Value, argument: &str) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.shift_remove(argument);
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != argument);
    }
}

/// The status tool as a host sees it.
pub(crate) fn status_tool() -> Listed {
    let schema = json!({
        "type": "object",
        "properties": {
            "operation_id": { "type": "string", "description": "The operation_id that an earlier result named." },
            "wait_ms": {
                "type": "integer",
                "minimum": 0,
                "description": "How long to wait for a running operation, in milliseconds. 0 when left out."
            }
        },
        "required": ["operation_id"],
        "additionalProperties": false
    });
    let schema = schema.as_object().cloned().unwrap_or_default();
    let words = "Tells what became of an operation: whether it was done (with its receipt), was refused, runs, or is not known. It \
                 sends nothing and changes nothing. Use it instead of calling a tool again.";
    Listed::new(STATUS_TOOL, words, Arc::new(schema))
        .with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}

/// The name of the handle among a tool's arguments; none for a read, which has no operation.
pub(crate) fn handle(tool: &Tool) -> Option<String> {
    match tool.effect() {
        Effect::Read => None,
        Effect::Write => Some(free_name(tool.schema())),
    }
}

/// `operation_id`, unless the tool has an argument of that name itself.
fn free_name(schema: &Value) -> String {
    let taken = |name: &str| schema.get("properties").is_some_and(|properties| properties.get(name).is_some());
    let mut name = HANDLE.to_owned();
    while taken(&name) {
        name = format!("onceward_{name}");
    }
    name
}

/// The tool's schema with the handle in it.
fn schema(own: &Value, handle: Option<String>) -> JsonObject {
    let mut schema = own.as_object().cloned().unwrap_or_default();
    // The protocol wants an object on top; a schema that says nothing about its type means one all the same.
    schema.entry("type").or_insert_with(|| "object".into());
    if let Some(handle) = handle {
        let properties = schema.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert(handle, json!({ "type": "string", "description": HANDLE_IN_WORDS }));
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handle_is_an_optional_argument_beside_the_tools_own() {
        let own = json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]});
        let shown = schema(&own, Some(free_name(&own)));
        assert_eq!(shown["properties"]["operation_id"]["type"], "string");
        assert_eq!(shown["properties"]["title"], own["properties"]["title"]);
        assert_eq!(shown["required"], own["required"]);
    }

    #[test]
    fn a_tool_that_has_such_an_argument_itself_keeps_it_and_the_handle_is_renamed() {
        let own = json!({"type": "object", "properties": {"operation_id": {"type": "integer"}}});
        let shown = schema(&own, Some(free_name(&own)));
        assert_eq!(shown["properties"]["operation_id"], json!({"type": "integer"}));
        assert_eq!(shown["properties"]["onceward_operation_id"]["type"], "string");
    }

    #[test]
    fn a_schema_without_a_type_or_properties_becomes_an_object() {
        assert_eq!(schema(&json!({}), Some("operation_id".to_owned()))["type"], "object");
        assert_eq!(schema(&json!({}), None).len(), 1);
    }
}
