//! What the stateless revision repeats of a request in its HTTP headers, for those on the way.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use serde_json::Value;

/// `MCP-Protocol-Version`
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// `Mcp-Session-Id`, of the session era.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// `Last-Event-ID`, by which a stream is taken up again.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const PARAM: &str = "mcp-param-";

/// `Mcp-Method` and `Mcp-Name` of a request.
pub(crate) fn standard(method: &str, params: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(method) {
        headers.insert(METHOD, value);
    }
    let named_by = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return headers,
    };
    if let Some(value) = params.get(named_by).and_then(Value::as_str).and_then(value) {
        headers.insert(NAME, value);
    }
    headers
}

/// `Mcp-Param-…`: the arguments that a tool's schema marks with `x-mcp-header`.
pub(crate) fn params(schema: &Value, arguments: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    marked(schema, arguments, &mut headers);
    headers
}

/// The headers that mean something to a server of the session era, too.
pub(crate) fn without_params(headers: HeaderMap) -> HeaderMap {
    let mut last = None;
    let named = headers.into_iter().filter_map(|(name, value)| {
        last = name.or(last.take());
        Some((last.clone()?, value))
    });
    named.filter(|(name, _)| !name.as_str().starts_with(PARAM)).collect()
}

fn marked(schema: &Value, arguments: &Value, headers: &mut HeaderMap) {
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let Some(argument) = arguments.get(name) else { continue };
        if let Some(header) = property.get("x-mcp-header").and_then(Value::as_str)
            && let Ok(header) = format!("{PARAM}{header}").to_ascii_lowercase().parse::<HeaderName>()
            && let Some(value) = crate::template::scalar_text(argument).as_deref().and_then(value)
        {
            headers.insert(header, value);
        }
        marked(property, argument, headers);
    }
}

/// A text as a header's value: what a header cannot carry as it is travels as base64.
fn value(text: &str) -> Option<HeaderValue> {
    const PREFIX: &str = "=?base64?";
    const SUFFIX: &str = "?=";
    let blank = |char: Option<char>| matches!(char, Some(' ' | '\t'));
    let wrapped = text.starts_with(PREFIX) && text.ends_with(SUFFIX);
    let bare = text.chars().all(|char| (' '..='~').contains(&char));
    let text = match bare && !wrapped && !blank(text.chars().next()) && !blank(text.chars().last()) {
        true => text.to_owned(),
        false => format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text)),
    };
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_names_its_method_and_what_it_is_about() {
        let headers = standard("tools/call", &json!({ "name": "größe" }));
        assert_eq!(headers["mcp-method"], "tools/call");
        assert_eq!(headers["mcp-name"], "=?base64?Z3LDtsOfZQ==?=");
        assert_eq!(standard("resources/read", &json!({ "uri": "a:b" }))["mcp-name"], "a:b");
        assert!(!standard("tools/list", &json!({})).contains_key("mcp-name"));
    }

    #[test]
    fn arguments_that_a_schema_marks_are_repeated_also_inside_objects() {
        let schema = json!({ "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "at": { "properties": { "tenant": { "type": "integer", "x-mcp-header": "Tenant" } } },
            "absent": { "x-mcp-header": "Absent" },
        } });
        let headers = params(&schema, &json!({ "region": " eu", "at": { "tenant": 7 }, "more": 1 }));
        assert_eq!(headers["mcp-param-region"], "=?base64?IGV1?=");
        assert_eq!(headers["mcp-param-tenant"], "7");
        assert_eq!(headers.len(), 2);
    }
}
