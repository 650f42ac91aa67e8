//! The HTTP API. One file per kind of thing, one handler per route; none of them decides anything.

mod answer;
mod approvals;
mod calls;
mod claims;
mod credentials;
mod decisions;
mod due;
mod explanations;
mod health;
mod lookups;
mod moves;
mod operations;
mod report;
mod request;
mod timeline;
mod views;

use axum::Router;
use axum::routing::{MethodRouter, delete, get, post};
use onceward_core::code::Code;

use crate::app::App;
use crate::problem::Problem;
use crate::telemetry;

pub(crate) use self::answer::{AnswerView, OPERATION_ID, OUTCOME, REPLAYED};
pub(crate) use self::request::read as read_body;

/// The API's description.
pub const OPENAPI: &str = include_str!("../openapi/openapi.json");

/// Every route: its path, its methods in words, and what answers them.
fn table() -> Vec<(&'static str, &'static [&'static str], MethodRouter<App>)> {
    vec![
        ("/healthz", &["get"], get(health::live)),
        ("/readyz", &["get"], get(health::ready)),
        ("/openapi.json", &["get"], get(health::openapi)),
        ("/metrics", &["get"], get(crate::metrics::scrape)),
        ("/v1/tools", &["get"], get(calls::list_tools)),
        ("/v1/tools/{tool}/calls", &["post"], post(calls::call)),
        ("/v1/tools/{tool}/explanations", &["post"], post(explanations::explain)),
        ("/v1/operations", &["get", "post"], get(operations::list).post(calls::later)),
        ("/v1/operations/{id}", &["get"], get(operations::show)),
        ("/v1/operations/{id}/journal", &["get"], get(operations::journal)),
        ("/v1/operations/{id}/receipt", &["get"], get(operations::receipt)),
        ("/v1/operations/{id}/timeline", &["get"], get(timeline::timeline)),
        ("/v1/operations/{id}/lookups", &["post"], post(lookups::look_up)),
        ("/v1/operations/{id}/withdrawal", &["post"], post(moves::withdraw)),
        ("/v1/operations/{id}/approval", &["post"], post(moves::approve)),
        ("/v1/operations/{id}/decisions", &["get", "post"], get(decisions::choices).post(decisions::decide)),
        ("/v1/operations/{id}/purge", &["post"], post(moves::purge)),
        ("/v1/approvals", &["post"], post(approvals::ask)),
        ("/v1/claims", &["post"], post(claims::claim)),
        ("/v1/claims/{id}/dispatching", &["post"], post(claims::dispatching)),
        ("/v1/claims/{id}/heartbeat", &["post"], post(claims::heartbeat)),
        ("/v1/claims/{id}/settlement", &["post"], post(claims::settle)),
        ("/v1/report", &["get"], get(report::report)),
        ("/v1/lookups/due", &["get"], get(due::due)),
        ("/v1/webhooks/{destination}", &["post"], post(crate::webhooks::deliver)),
        ("/v1/credentials", &["get", "post"], get(credentials::list).post(credentials::create)),
        ("/v1/credentials/{id}", &["delete"], delete(credentials::revoke)),
    ]
}

/// The API without its limits and its log: see [`crate::serve::router`].
pub(crate) fn routes() -> Router<App> {
    table()
        .into_iter()
        .fold(Router::new(), |router, (path, _, answers)| router.route(path, answers.fallback(method_not_allowed)))
}

async fn method_not_allowed(method: http::Method) -> axum::response::Response {
    let problem = Problem::invalid_request(format!("this address does not take {method}; see /openapi.json"));
    telemetry::with_status(problem, http::StatusCode::METHOD_NOT_ALLOWED)
}

/// What an address that does not exist answers: the same as for a thing that does not.
pub(crate) async fn nothing_here() -> Problem {
    Problem::plain(Code::NotFound)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_description_names_every_route_and_no_other() {
        let document: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        let described: BTreeSet<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, methods)| {
                let methods = methods.as_object().unwrap().keys().filter(|key| *key != "parameters");
                methods.map(move |method| (path.clone(), method.clone()))
            })
            .collect();
        let served: BTreeSet<(String, String)> = table()
            .into_iter()
            .flat_map(|(path, methods, _)| methods.iter().map(move |method| (path.to_owned(), (*method).to_owned())))
            .collect();
        assert_eq!(described, served);
    }

    #[test]
    fn the_description_refers_only_to_what_it_has() {
        let document: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        let mut references = Vec::new();
        collect(&document, &mut references);
        assert!(!references.is_empty());
        for reference in references {
            let pointer = reference.strip_prefix('#').expect("a reference inside the document");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    fn collect(value: &serde_json::Value, into: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(members) => {
                if let Some(serde_json::Value::String(reference)) = members.get("$ref") {
                    into.push(reference.clone());
                }
                members.values().for_each(|member| collect(member, into));
            }
            serde_json::Value::Array(elements) => elements.iter().for_each(|element| collect(element, into)),
            serde_json::Value::Null
            | serde_json::Value::Bool(_)
            | serde_json::Value::Number(_)
            | serde_json::Value::String(_) => {}
        }
    }
}
