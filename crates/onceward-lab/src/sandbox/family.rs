//! The sandbox as somebody else's system: it speaks the interface that a contract describes, and keeps what the contract
//! says, no more and no less. What is unsaid it does in the least favourable way.
//!
//! The contract is read as data. What the gateway makes of it (classification, evidence) is not used here: the sandbox decides
//! by itself what such a system would do, so that the two can disagree.

mod answers;
mod draft;
mod keys;
mod reading;
mod requests;
mod stripe;
mod things;
mod versions;
mod writing;

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use axum::middleware::Next;
use axum::response::IntoResponse;
use onceward_core::contract::Contract;

pub(crate) use answers::{DUPLICATE, accepted, dressed, partial};
pub(crate) use draft::put;

use super::contract::SandboxContract;
use super::limits::BODY_BYTES_MAX;
use super::problem::Answer;
use super::state::Shared;
use super::visit::{BeforeCommit, Said, Visit, attend_to};
use super::wire::Scissors;
use requests::{Asked, Purpose};

/// Answers as the contract's interface, where the sandbox speaks one; the auditor's routes and `/healthz` stay its own.
pub(crate) async fn divert(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response<Body> {
    let contract = shared.contract();
    let path = request.uri().path();
    let own = path.starts_with("/admin/") || path == "/healthz";
    match contract.family.clone() {
        Some(family) if !own => speak(&shared, contract, &family, request).await,
        Some(_) | None => next.run(request).await,
    }
}

async fn speak(shared: &Shared, contract: SandboxContract, family: &Arc<Contract>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Some(scissors) = parts.extensions.get::<Scissors>().cloned() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let body: Result<Bytes, Answer> = to_bytes(body, BODY_BYTES_MAX)
        .await
        .map_err(|error| Answer::problem(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error.to_string()));
    let asked = Asked::read(&contract, family, &parts, body);
    let account = asked.caller.as_ref().map(|caller| caller.world()).map_err(Clone::clone);
    let said = Said::of_family(shared, &parts, contract, asked.key_text(), account, asked.marker.clone());
    let (resource, before) = match asked.purpose {
        Purpose::Write => (Some(asked.collection.as_str()), BeforeCommit::OwnPoint),
        Purpose::Read => (None, BeforeCommit::AtOnce),
    };
    attend_to(shared, &scissors, &parts, resource, said, before, async |visit: &Visit| match asked.purpose {
        Purpose::Write => writing::write(shared, visit, &asked).await,
        Purpose::Read => reading::read(shared, visit, &asked),
    })
    .await
}
