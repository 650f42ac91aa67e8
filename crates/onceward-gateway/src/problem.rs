//! Why a call has no result, and what every outcome and code is as an HTTP status. The one place that knows HTTP statuses.

use std::fmt::Write as _;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use onceward_core::canonical::InvalidJson;
use onceward_core::code::{Code, Repeat};
use onceward_core::key::InvalidName;
use onceward_core::outcome::Outcome;
use onceward_destinations::http::ReadError;
use onceward_destinations::proxy::NotTaken;
use onceward_destinations::schema::Violation;
use onceward_destinations::tool::InvalidArguments;
use onceward_ledger::LedgerError;
use onceward_ledger::authorize::Scope;
use serde_json::{Map, Value, json};

use crate::limits;

/// A refusal: no operation answers the call. Nothing was dispatched by it, unless its code says that only the same identity
/// may be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which kind.
    pub code: Code,
    /// What is wrong here, for the caller. Names places and rules, never values.
    pub detail: String,
    /// The fields that are wrong, for [`Code::InvalidArguments`].
    pub violations: Vec<Violation>,
}

impl Problem {
    /// A problem with words of its own.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), violations: Vec::new() }
    }

    /// A problem that says no more than its code does. What a caller may not see is answered by this, so that two answers
    /// cannot differ.
    #[must_use]
    pub fn plain(code: Code) -> Self {
        Self::new(code, code.meaning())
    }

    /// A malformed field or header.
    #[must_use]
    pub fn invalid_request(detail: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, detail)
    }

    /// A credential that has not this scope for any tool.
    #[must_use]
    pub fn lacks(scope: Scope) -> Self {
        let roles = match scope {
            Scope::Execute => "agent or application",
            Scope::Read => "agent, application or operator",
            Scope::Lookup => "application or operator",
            Scope::Decide | Scope::Approve | Scope::Purge | Scope::Administer => "operator",
        };
        Self::new(
            Code::Denied,
            format!(
                "this needs the scope {}, which a credential of the role {roles} has; this one has it not",
                scope.name()
            ),
        )
    }

    /// The body of the answer (RFC 9457).
    #[must_use]
    pub fn body(&self) -> Value {
        let mut body = json!({
            "type": problem_type(self.code.name()),
            "title": self.code.meaning(),
            "status": status_of_code(self.code).as_u16(),
            "detail": self.detail,
            "code": self.code.name(),
            "dispatched": match self.code.repeat() {
                Repeat::SameIdentity | Repeat::AfterCorrection => "no",
                // This call may have begun what it was asked for, or an earlier one did.
                Repeat::SameIdentityOnly => "maybe",
            },
        });
        if let (false, Some(members)) = (self.violations.is_empty(), body.as_object_mut()) {
            members.insert("violations".to_owned(), json!(self.violations));
        }
        body
    }
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        match &error {
            // What the machine says about its files is for the operator; the caller gets the code's own sentence.
            LedgerError::Store(store) => {
                tracing::error!(%store, "the ledger could not answer");
                Self::plain(error.code())
            }
            LedgerError::FingerprintKey(_) => {
                tracing::error!(%error, "the ledger could not answer");
                Self::plain(error.code())
            }
            LedgerError::NotFound | LedgerError::Denied => Self::plain(error.code()),
            LedgerError::Illegal(_)
            | LedgerError::OtherRunner { .. }
            | LedgerError::Moved(_)
            | LedgerError::ApprovalVoid
            | LedgerError::Unresolved { .. }
            | LedgerError::ClaimLost
            | LedgerError::WrongSecret
            | LedgerError::Overloaded { .. }
            | LedgerError::Contended
            | LedgerError::OutOfSight
            | LedgerError::ShuttingDown => Self::new(error.code(), error.to_string()),
        }
    }
}

impl From<InvalidJson> for Problem {
    fn from(invalid: InvalidJson) -> Self {
        use onceward_core::canonical::JsonProblem;
        let code = match invalid.problem {
            JsonProblem::TooLarge { .. } => Code::TooLarge,
            _ => Code::InvalidJson,
        };
        Self::new(code, invalid.to_string())
    }
}

impl From<InvalidArguments> for Problem {
    fn from(invalid: InvalidArguments) -> Self {
        let detail = invalid.to_string();
        let violations = match invalid {
            InvalidArguments::Schema(violations) => violations.violations,
            InvalidArguments::Request(_) => Vec::new(),
        };
        Self { code: Code::InvalidArguments, detail, violations }
    }
}

impl From<InvalidName> for Problem {
    fn from(invalid: InvalidName) -> Self {
        Self::invalid_request(invalid.to_string())
    }
}

impl From<NotTaken> for Problem {
    fn from(refused: NotTaken) -> Self {
        match refused {
            NotTaken::Arguments(invalid) => invalid.into(),
            NotTaken::Request(_) | NotTaken::Header(_) | NotTaken::Override(_) => {
                Self::invalid_request(refused.to_string())
            }
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        let code = match error {
            ReadError::Arguments(_) => Code::InvalidArguments,
            ReadError::NoConnection
            | ReadError::Busy
            | ReadError::NoAnswer
            | ReadError::Unreadable
            | ReadError::Protocol(_) => Code::ReadFailed,
            ReadError::NotARead => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = problem_response(status_of_code(self.code), &self.body());
        if self.code == Code::Unauthenticated {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.code.repeat() == Repeat::SameIdentity {
            response.headers_mut().insert(RETRY_AFTER, seconds(limits::RETRY_AFTER));
        }
        response
    }
}

/// A problem body with its status and type.
pub(crate) fn problem_response(status: StatusCode, body: &impl serde::Serialize) -> Response {
    let text = serde_json::to_vec(body).unwrap_or_else(|_| b"{}".to_vec());
    (status, [(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))], text).into_response()
}

/// Whole seconds, rounded up, as a header.
pub(crate) fn seconds(duration: Duration) -> HeaderValue {
    HeaderValue::from(duration.as_secs() + u64::from(duration.subsec_nanos() > 0))
}

/// The type of a problem: a name that stays, not an address that may not.
#[must_use]
pub fn problem_type(name: &str) -> String {
    format!("urn:onceward:problem:{name}")
}

/// The members that make an envelope a problem body, for an outcome that is no success.
#[must_use]
pub fn outcome_members(outcome: Outcome, message: &str) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("type".to_owned(), problem_type(outcome.name()).into());
    members.insert("title".to_owned(), title_of_outcome(outcome).into());
    members.insert("status".to_owned(), status_of_outcome(outcome).as_u16().into());
    members.insert("detail".to_owned(), message.into());
    members.insert("code".to_owned(), outcome.name().into());
    members
}

/// The status of an answer with this outcome.
#[must_use]
pub const fn status_of_outcome(outcome: Outcome) -> StatusCode {
    match outcome {
        Outcome::Executed | Outcome::Replayed | Outcome::Recovered => StatusCode::OK,
        Outcome::InProgress | Outcome::Unknown | Outcome::ApprovalRequired | Outcome::PossibleDuplicate => {
            StatusCode::CONFLICT
        }
        // Both ask for other input under another operation id.
        Outcome::Conflict | Outcome::Rejected => StatusCode::UNPROCESSABLE_ENTITY,
        // Neither is ever answered otherwise again.
        Outcome::Closed | Outcome::Expired => StatusCode::GONE,
        Outcome::NotDispatched => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// After how long the same call should be made again, for outcomes that change by themselves.
#[must_use]
pub const fn retry_after(outcome: Outcome) -> Option<Duration> {
    match outcome {
        Outcome::InProgress | Outcome::NotDispatched => Some(limits::RETRY_AFTER),
        Outcome::Executed
        | Outcome::Replayed
        | Outcome::Recovered
        | Outcome::Unknown
        | Outcome::Rejected
        | Outcome::Closed
        | Outcome::Conflict
        | Outcome::ApprovalRequired
        | Outcome::PossibleDuplicate
        | Outcome::Expired => None,
    }
}

const fn title_of_outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Executed => "It was done by this call.",
        Outcome::Replayed => "It had been done; this is its receipt.",
        Outcome::Recovered => "An uncertain attempt turned out to have been done.",
        Outcome::InProgress => "An attempt is running.",
        Outcome::Unknown => "It may have been done, and repeating is blocked.",
        Outcome::Rejected => "The destination refused it, and nothing happened.",
        Outcome::Closed => "It will not be done.",
        Outcome::Conflict => "The operation id belongs to another intention.",
        Outcome::ApprovalRequired => "A person must approve it first.",
        Outcome::PossibleDuplicate => "It looks like a repetition of an earlier call.",
        Outcome::NotDispatched => "Surely nothing was sent.",
        Outcome::Expired => "It was settled, and its answer has been erased.",
    }
}

/// The status of an answer with this code.
#[must_use]
pub const fn status_of_code(code: Code) -> StatusCode {
    match code {
        Code::InvalidJson | Code::InvalidRequest | Code::IdentityRequired => StatusCode::BAD_REQUEST,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::InvalidArguments | Code::IdentityConflict => StatusCode::UNPROCESSABLE_ENTITY,
        Code::UnknownTool | Code::NotFound => StatusCode::NOT_FOUND,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Denied => StatusCode::FORBIDDEN,
        Code::IllegalMove | Code::Moved | Code::ApprovalVoid | Code::ClaimLost | Code::EarlierUnresolved => {
            StatusCode::CONFLICT
        }
        Code::Overloaded => StatusCode::TOO_MANY_REQUESTS,
        Code::LedgerBusy | Code::LedgerUnavailable | Code::CommitUnknown | Code::ShuttingDown => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Code::LedgerCorrupt | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Timeout => StatusCode::GATEWAY_TIMEOUT,
        Code::ReadFailed => StatusCode::BAD_GATEWAY,
        Code::ToolsNotKnown => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The two tables of docs/http.md, as Markdown: outcomes, then codes.
#[must_use]
pub fn tables() -> String {
    let mut text = String::from("| outcome | status | `Retry-After` | meaning |\n|---|---|---|---|\n");
    for outcome in Outcome::ALL {
        let after = retry_after(outcome).map_or_else(|| "–".to_owned(), |after| after.as_secs().to_string());
        let (name, status, title) = (outcome.name(), status_of_outcome(outcome).as_u16(), title_of_outcome(outcome));
        let _ = writeln!(text, "| `{name}` | {status} | {after} | {title} |");
    }
    text.push_str("\n| code | status | the same call again | meaning |\n|---|---|---|---|\n");
    for code in Code::ALL {
        let repeat = match code.repeat() {
            Repeat::SameIdentity => "yes, with the same identity",
            Repeat::AfterCorrection => "will be refused again",
            Repeat::SameIdentityOnly => "with the same identity only: it finds what became of it",
        };
        let (name, status, meaning) = (code.name(), status_of_code(*code).as_u16(), code.meaning());
        let _ = writeln!(text, "| [`{name}`](errors/{name}.md) | {status} | {repeat} | {meaning} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_outcome_but_a_success_has_a_status_that_reads_as_done() {
        for outcome in Outcome::ALL {
            assert_eq!(status_of_outcome(outcome).is_success(), outcome.is_success(), "{outcome:?}");
        }
        for code in Code::ALL {
            assert!(!status_of_code(*code).is_success() && !status_of_code(*code).is_redirection(), "{code:?}");
        }
    }

    #[test]
    fn the_document_has_the_tables_that_the_code_makes() {
        let document = include_str!("../../../docs/http.md");
        assert!(document.contains(&tables()), "docs/http.md is stale; its tables should read:\n{}", tables());
    }
}
