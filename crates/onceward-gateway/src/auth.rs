//! Credentials at the edge: a bearer token, looked up on every call, becomes a grant.
//!
//! Nothing is kept between calls: a revoked credential gets nothing from its next call on, also no replay. The token itself
//! is shown once, when it is made; the ledger has its hash.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use onceward_core::code::Code;
use onceward_core::key::{Principal, TenantId};
use onceward_ledger::LedgerError;
use onceward_ledger::authorize::{Grant, GrantError, Scope, ToolPattern};
use onceward_ledger::clock::Clock;
use onceward_ledger::credential::{Credential, CredentialHash};
use onceward_ledger::store::{Applied, Command, Priority, Store};
use secrecy::{ExposeSecret, SecretString};

use crate::limits::{TOKEN_BYTES, TOKEN_TEXT_BYTES_MAX};
use crate::problem::Problem;

/// What a credential is for. The two never meet in one (R19).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Calls tools.
    Agent,
    /// Runs its own functions under claims, and looks for the effect of one whose settlement was lost.
    Application,
    /// Sees, decides, approves, purges and makes credentials.
    Operator,
}

impl Role {
    /// The scopes of such a credential unless fewer are asked for.
    #[must_use]
    pub const fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Agent => &Scope::AGENT,
            Self::Application => &Scope::APPLICATION,
            Self::Operator => &Scope::OPERATOR,
        }
    }

    /// What the token of such a grant begins with, so that a person and a secret scanner see what it is.
    fn of(grant: &Grant) -> Self {
        match (grant.has(Scope::Execute), grant.has(Scope::Lookup)) {
            (true, true) => Self::Application,
            (true, false) => Self::Agent,
            (false, _) => Self::Operator,
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Agent => "ow_agent_",
            Self::Application => "ow_app_",
            Self::Operator => "ow_operator_",
        }
    }
}

/// A grant of all a role's scopes, for tools that match any of the patterns.
///
/// # Errors
/// [`GrantError`] when it permits nothing.
pub fn grant_of(
    role: Role,
    tenant: TenantId,
    principal: Principal,
    tools: Vec<ToolPattern>,
) -> Result<Grant, GrantError> {
    Grant::new(tenant, principal, tools, role.scopes().to_vec())
}

/// A new credential with its token, which nothing shows again.
#[derive(Debug)]
pub struct Issued {
    /// What is stored.
    pub credential: Credential,
    /// The token, for its holder.
    pub token: SecretString,
}

impl Issued {
    /// The token's text, to be shown once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        self.token.expose_secret()
    }
}

/// Why no credential was made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The ledger could not store it.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Randomness(getrandom::Error),
}

impl From<IssueError> for Problem {
    fn from(error: IssueError) -> Self {
        match error {
            IssueError::Ledger(error) => error.into(),
            IssueError::Randomness(error) => {
                tracing::error!(%error, "the system gives no random bytes");
                Self::plain(Code::Internal)
            }
        }
    }
}

/// Makes a credential and stores it.
///
/// # Errors
/// [`IssueError`]; then no token exists.
pub async fn issue(store: &dyn Store, clock: &dyn Clock, grant: Grant) -> Result<Issued, IssueError> {
    let mut secret = [0; TOKEN_BYTES];
    getrandom::fill(&mut secret).map_err(IssueError::Randomness)?;
    let token = format!("{}{}", Role::of(&grant).prefix(), URL_SAFE_NO_PAD.encode(secret));
    let credential = Credential {
        id: format!("cred-{}", uuid::Uuid::new_v4()),
        hash: CredentialHash::of(&token),
        grant,
        created_at: clock.now(),
        revoked_at: None,
    };
    let command = Command::PutCredential(Box::new(credential.clone()));
    store.submit(command, Priority::Claim).await.map_err(LedgerError::Store)?;
    Ok(Issued { credential, token: SecretString::from(token) })
}

/// Revokes a credential of this tenant. Revoking it again changes nothing.
///
/// # Errors
/// `not_found` also for one of another tenant.
pub async fn revoke(store: &dyn Store, tenant: &TenantId, id: &str) -> Result<(), LedgerError> {
    let known = store.credentials().await?;
    if !known.iter().any(|credential| credential.id == id && credential.grant.tenant() == tenant) {
        return Err(LedgerError::NotFound);
    }
    match store.submit(Command::RevokeCredential { id: id.to_owned() }, Priority::Claim).await? {
        Applied::Done => Ok(()),
        Applied::NoSuchOperation => Err(LedgerError::NotFound),
        Applied::Opened(_)
        | Applied::Existing(_)
        | Applied::Suspected(_)
        | Applied::Stepped(_)
        | Applied::Refused { .. } => Err(LedgerError::Contended),
    }
}

/// The grant that the `Authorization` header stands for, as the ledger knows it at this moment.
///
/// Every kind of refusal is one answer, made after the same work: a hash and a look into the ledger.
///
/// # Errors
/// `unauthenticated`, or the ledger's error: without an answer from it nobody is let in.
pub async fn authenticate(store: &dyn Store, authorization: Option<&str>) -> Result<Grant, Problem> {
    let token = authorization.and_then(bearer).filter(|token| token.len() <= TOKEN_TEXT_BYTES_MAX);
    let hash = CredentialHash::of(token.unwrap_or_default());
    let found = store.credential(&hash).await.map_err(LedgerError::Store)?;
    match (token, found) {
        (Some(_), Some(Credential { grant, revoked_at: None, .. })) => Ok(grant),
        (Some(_) | None, Some(_) | None) => Err(Problem::new(
            Code::Unauthenticated,
            "no credential, or not one that is known: send the header Authorization: Bearer TOKEN; clients and the command line take \
             it from ONCEWARD_TOKEN, and `onceward token create` makes one",
        )),
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' ')).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_read_whatever_the_case_of_its_scheme() {
        for header in ["Bearer ow_agent_x", "bearer ow_agent_x", "BEARER  ow_agent_x "] {
            assert_eq!(bearer(header), Some("ow_agent_x"), "{header}");
        }
        for header in ["ow_agent_x", "Basic ow_agent_x", "Bearer ", ""] {
            assert_eq!(bearer(header), None, "{header}");
        }
    }

    #[test]
    fn the_beginning_of_a_token_says_whether_it_calls_or_decides() {
        let grant = |role| {
            let name = Principal::parse("p").unwrap();
            grant_of(role, TenantId::parse("t").unwrap(), name, vec![ToolPattern::parse("*").unwrap()]).unwrap()
        };
        assert_eq!(Role::of(&grant(Role::Agent)).prefix(), "ow_agent_");
        assert_eq!(Role::of(&grant(Role::Application)).prefix(), "ow_app_");
        assert_eq!(Role::of(&grant(Role::Operator)).prefix(), "ow_operator_");
    }
}
