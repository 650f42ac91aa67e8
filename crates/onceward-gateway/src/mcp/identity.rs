//! Which operation a call says that it is.
//!
//! Three carriers, and nothing else: the request's `_meta`, the header of that very POST, and the handle among the
//! arguments. The id of a JSON-RPC request, a session and a progress token change with every repetition, so they are never one.

use http::HeaderMap;
use onceward_core::code::Code;
use onceward_core::key::OperationId;
use onceward_destinations::tool::WithoutIdentity;
use serde_json::{Map, Value};

use crate::identity::{Claimed, idempotency_key, run};
use crate::problem::Problem;

/// Set by the application on `tools/call`, out of a model's sight.
pub(crate) const META_KEY: &str = "dev.onceward/operation-id";

/// Everything of a call that may carry an identity.
#[derive(Clone, Copy)]
pub(crate) struct Carriers<'a> {
    /// The `_meta` of the request.
    pub(crate) meta: &'a Map<String, Value>,
    /// The headers of its POST; a pipe has none.
    pub(crate) headers: Option<&'a HeaderMap>,
    /// The handle that a model gave.
    pub(crate) handle: Option<&'a Value>,
}

/// The identity of a call, from all that may carry it. All that are there must agree.
///
/// # Errors
/// `invalid_request` for a malformed one, `identity_conflict` for two that differ; nothing was looked up.
pub(crate) fn gather(carriers: Carriers<'_>, policy: WithoutIdentity) -> Result<Claimed, Problem> {
    let in_meta = carriers.meta.get(META_KEY).map(|value| text_id(META_KEY, value)).transpose()?;
    let in_header = carriers.headers.map(idempotency_key).transpose()?.flatten();
    let handle = carriers.handle.map(handle_id).transpose()?.flatten();
    let present = [
        (format!("_meta[{META_KEY:?}]"), &in_meta),
        ("the header Idempotency-Key".to_owned(), &in_header),
        ("the argument operation_id".to_owned(), &handle),
    ];
    let mut present = present.iter().filter_map(|(carrier, id)| Some((carrier, id.as_ref()?)));
    if let Some((one, first)) = present.next()
        && let Some((other, _)) = present.find(|(_, id)| *id != first)
    {
        return Err(Problem::new(
            Code::IdentityConflict,
            format!(
                "{one} and {other} name different operations; nothing was sent. Send one identity: where the \
                 application puts one on each call, leave the argument out. A header that is the same for every call of a client does \
                 this too"
            ),
        ));
    }
    if let Some(id) = in_meta.or(in_header) {
        return Ok(Claimed::Operation(id));
    }
    let run = carriers.headers.map(run).transpose()?.flatten();
    Ok(match (run, handle, policy) {
        // Where a run makes equal calls one operation, it finds what a model's handle could point at.
        (Some(run), _, WithoutIdentity::Scope) | (Some(run), None, _) => Claimed::Run(run),
        (_, Some(handle), _) => Claimed::Handle(handle),
        (None, None, _) => Claimed::Nothing,
    })
}

fn handle_id(value: &Value) -> Result<Option<OperationId>, Problem> {
    match value {
        // Models fill optional arguments with nothing in several ways.
        Value::Null => Ok(None),
        Value::String(text) if text.trim().is_empty() => Ok(None),
        value => text_id("the argument operation_id", value).map(Some),
    }
}

fn text_id(carrier: &str, value: &Value) -> Result<OperationId, Problem> {
    let text = value.as_str().ok_or_else(|| Problem::invalid_request(format!("{carrier} must be a string")))?;
    OperationId::parse(text).map_err(|why| Problem::invalid_request(format!("{carrier}: {why}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(meta: Value, headers: &[(&'static str, &str)], handle: Option<Value>) -> Result<Claimed, Code> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let carriers = Carriers { meta: meta.as_object().unwrap(), headers: Some(&map), handle: handle.as_ref() };
        gather(carriers, WithoutIdentity::Hold).map_err(|problem| problem.code)
    }

    fn id(text: &str) -> OperationId {
        OperationId::parse(text).unwrap()
    }

    const KEY: &str = "idempotency-key";

    #[test]
    fn each_carrier_alone_names_the_operation_and_the_argument_only_points_at_one() {
        assert_eq!(check(json!({}), &[], None), Ok(Claimed::Nothing));
        assert_eq!(check(json!({ META_KEY: "op-1" }), &[], None), Ok(Claimed::Operation(id("op-1"))));
        assert_eq!(check(json!({}), &[(KEY, "op-1")], None), Ok(Claimed::Operation(id("op-1"))));
        assert_eq!(check(json!({}), &[(KEY, "\"op-1\"")], None), Ok(Claimed::Operation(id("op-1"))));
        assert_eq!(check(json!({}), &[], Some(json!("op-1"))), Ok(Claimed::Handle(id("op-1"))));
        assert_eq!(check(json!({}), &[("onceward-scope", "run-1")], None), Ok(Claimed::Run(id("run-1"))));
    }

    #[test]
    fn carriers_that_agree_are_one_identity() {
        let all = check(json!({ META_KEY: "op-1" }), &[(KEY, "\"op-1\"")], Some(json!("op-1")));
        assert_eq!(all, Ok(Claimed::Operation(id("op-1"))));
    }

    #[test]
    fn carriers_that_differ_are_a_conflict_whichever_two_they_are() {
        for (meta, headers, handle) in [
            (json!({ META_KEY: "op-1" }), &[(KEY, "op-2")][..], None),
            (json!({ META_KEY: "op-1" }), &[], Some(json!("op-2"))),
            (json!({}), &[(KEY, "op-1")], Some(json!("op-2"))),
            (json!({ META_KEY: "op-1" }), &[(KEY, "op-1")], Some(json!("op-2"))),
        ] {
            assert_eq!(check(meta, headers, handle), Err(Code::IdentityConflict));
        }
    }

    #[test]
    fn ids_of_the_transport_and_of_the_model_are_no_identity() {
        let meta = json!({ "progressToken": 1, "idempotencyKey": "x", "toolCallId": "call_1" });
        assert_eq!(check(meta, &[("mcp-session-id", "s-1")], None), Ok(Claimed::Nothing));
    }

    #[test]
    fn an_empty_handle_is_none_and_a_malformed_carrier_is_refused() {
        for empty in [json!(null), json!(""), json!("  ")] {
            assert_eq!(check(json!({}), &[], Some(empty)), Ok(Claimed::Nothing));
        }
        assert_eq!(check(json!({ META_KEY: 7 }), &[], None), Err(Code::InvalidRequest));
        assert_eq!(check(json!({}), &[], Some(json!(7))), Err(Code::InvalidRequest));
        assert_eq!(check(json!({}), &[(KEY, "a b")], None), Err(Code::InvalidRequest));
    }

    #[test]
    fn a_run_counts_before_a_models_handle_where_the_tool_goes_by_runs() {
        let mut headers = HeaderMap::new();
        headers.insert("onceward-scope", "run-1".parse().unwrap());
        let (meta, handle) = (Map::new(), json!("op-1"));
        let carriers = Carriers { meta: &meta, headers: Some(&headers), handle: Some(&handle) };
        assert_eq!(gather(carriers, WithoutIdentity::Scope), Ok(Claimed::Run(id("run-1"))));
        assert_eq!(gather(carriers, WithoutIdentity::Hold), Ok(Claimed::Handle(id("op-1"))));
    }
}
