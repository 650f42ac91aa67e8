//! `/v1/credentials`: for whoever administers a tenant. A credential is of the maker's own tenant, always.

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use onceward_core::key::Principal;
use onceward_ledger::LedgerError;
use onceward_ledger::authorize::{Grant, Scope, ToolPattern};
use onceward_ledger::credential::Credential;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::json as answer_json;
use super::request::{Body, Caller};
use super::views::text;
use crate::app::App;
use crate::auth::{self, Role};
use crate::problem::Problem;

pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    let grant = caller.with(Scope::Administer)?;
    let known = app.ledger().store().credentials().await.map_err(LedgerError::Store)?;
    let own: Vec<Value> =
        known.iter().filter(|credential| credential.grant.tenant() == grant.tenant()).map(view).collect();
    Ok(answer_json(StatusCode::OK, &json!({ "credentials": own })))
}

fn view(credential: &Credential) -> Value {
    json!({
        "id": credential.id,
        "principal": credential.grant.principal(),
        "scopes": credential.grant.scopes(),
        "tools": credential.grant.tools(),
        "created_at": text(credential.created_at),
        "revoked_at": credential.revoked_at.map(text),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCredential {
    principal: Principal,
    role: Role,
    tools: Vec<ToolPattern>,
    scopes: Option<Vec<Scope>>,
}

pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Body(body): Body<NewCredential>,
) -> Result<Response, Problem> {
    let maker = caller.with(Scope::Administer)?;
    let scopes = body.scopes.unwrap_or_else(|| body.role.scopes().to_vec());
    if let Some(foreign) = scopes.iter().find(|scope| !body.role.scopes().contains(scope)) {
        let problem = format!("the scope {} is none of this role; make another credential for it", foreign.name());
        return Err(Problem::invalid_request(problem));
    }
    // Whoever administers a part of the tools must not make a credential for the others.
    if !maker.tools().iter().any(|pattern| pattern.as_str() == "*")
        && body.tools.iter().any(|wanted| !maker.tools().contains(wanted))
    {
        let problem = "a credential reaches no tools that its maker's does not; name some of your own patterns";
        return Err(Problem::new(onceward_core::code::Code::Denied, problem));
    }
    let grant = Grant::new(maker.tenant().clone(), body.principal, body.tools, scopes)
        .map_err(|error| Problem::invalid_request(error.to_string()))?;
    let ledger = app.ledger().clone();
    let issued = app.detached(async move { auth::issue(&**ledger.store(), &**ledger.clock(), grant).await }).await??;
    let mut made = view(&issued.credential);
    if let Some(members) = made.as_object_mut() {
        members.insert("token".to_owned(), issued.reveal().into());
    }
    Ok(answer_json(StatusCode::CREATED, &made))
}

pub(super) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let grant = caller.with(Scope::Administer)?;
    let ledger = app.ledger().clone();
    let tenant = grant.tenant().clone();
    let revoked = id.clone();
    app.detached(async move { auth::revoke(&**ledger.store(), &tenant, &revoked).await }).await??;
    Ok(answer_json(StatusCode::OK, &json!({ "id": id, "revoked": true })))
}
