//! Who a call is: the `Idempotency-Key` header, the body's `operation_id`, a run's scope, or nothing.

use http::{HeaderMap, HeaderName};
use onceward_core::canonical::Canonical;
use onceward_core::code::Code;
use onceward_core::hex;
use onceward_core::key::OperationId;
use onceward_core::time::Timestamp;
use onceward_destinations::tool::{Tool, WithoutIdentity};
use onceward_ledger::authorize::Grant;
use onceward_ledger::call::{Approval, Identity};
use sha2::{Digest, Sha256};

use crate::problem::Problem;

/// The header that names an operation.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The header by which trusted code names a run; equal calls in one run are one intention (R16).
pub const SCOPE: HeaderName = HeaderName::from_static("onceward-scope");

/// Who a call says it is, before the tool's policy is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The application names the operation.
    Operation(OperationId),
    /// A model gave an operation id among its arguments. It may point at an operation that exists, of the same principal
    /// and tool, and never makes one (R17).
    Handle(OperationId),
    /// Nothing names it.
    Nothing,
    /// Nothing names it, and trusted code says in which run it is made.
    Run(OperationId),
    /// Nothing names it, it was held as a possible repetition of a settled operation, and the person at the host says that a
    /// second one is meant.
    Second {
        /// The id that it was given when the person was asked, so that the answer names one operation however often it comes.
        id: OperationId,
        /// The operation that it was held for.
        of: OperationId,
    },
    /// What names it is malformed, or contradicts itself. It is refused, unless its tool is only observed.
    Unusable(Box<Problem>),
}

impl From<Result<Self, Problem>> for Claimed {
    fn from(read: Result<Self, Problem>) -> Self {
        read.unwrap_or_else(|problem| Self::Unusable(Box::new(problem)))
    }
}

/// The identity that an HTTP call carries: of header and body, both must be equal where both are there.
///
/// # Errors
/// `invalid_request` for a malformed one, `identity_conflict` for two that differ.
pub fn of_http(headers: &HeaderMap, in_body: Option<&str>) -> Result<Claimed, Problem> {
    let header = idempotency_key(headers)?;
    let body = in_body.map(OperationId::parse).transpose()?;
    match (header, body) {
        (Some(header), Some(body)) if header != body => Err(Problem::new(
            Code::IdentityConflict,
            "the header Idempotency-Key and the body's operation_id name two operations; send one, or both the same",
        )),
        (Some(id), _) | (None, Some(id)) => Ok(Claimed::Operation(id)),
        (None, None) => match run(headers)? {
            Some(run) => Ok(Claimed::Run(run)),
            None => Ok(Claimed::Nothing),
        },
    }
}

/// The `Idempotency-Key` of a request, whether it is written as a structured string (`"k"`) or bare (`k`): both name the
/// same operation.
///
/// # Errors
/// `invalid_request`: it is given twice, or it is no key.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<OperationId>, Problem> {
    named(headers, &IDEMPOTENCY_KEY)
}

/// The run that `Onceward-Scope` names.
///
/// # Errors
/// As for [`idempotency_key`].
pub fn run(headers: &HeaderMap) -> Result<Option<OperationId>, Problem> {
    named(headers, &SCOPE)
}

/// The name in a header of that name, written either way.
pub(crate) fn named(headers: &HeaderMap, name: &HeaderName) -> Result<Option<OperationId>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::invalid_request(format!("the header {name} is given more than once; send it once")));
    }
    let wrong = |why: String| Problem::invalid_request(format!("the header {name}: {why}"));
    let text = value.to_str().map_err(|_| wrong("it has a character that is not visible ASCII".to_owned()))?.trim();
    let text = match text.starts_with('"') {
        true => structured_string(text).ok_or_else(|| {
            wrong(
                "it begins like a structured string and does not end like one; write \"key\", or the key alone"
                    .to_owned(),
            )
        })?,
        false => text.to_owned(),
    };
    OperationId::parse(&text).map(Some).map_err(|invalid| wrong(invalid.to_string()))
}

/// The content of a string of RFC 9651. Parameters after it would be lost by whoever passes the key on, so they are refused.
fn structured_string(text: &str) -> Option<String> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut content = String::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next()? {
                escaped @ ('"' | '\\') => content.push(escaped),
                _ => return None,
            },
            '"' => return None,
            plain => content.push(plain),
        }
    }
    // A lone quotation mark is not a string.
    (text.len() >= 2).then_some(content)
}

/// What the ledger is told about a call's identity, after the tool's policy was asked.
pub(crate) struct Settled {
    pub(crate) identity: Identity,
    pub(crate) approval: Approval,
}

/// Applies the tool's `without_identity` to a call that nothing names.
pub(crate) fn without_identity(
    tool: &Tool,
    grant: &Grant,
    arguments: &Canonical,
    run: Option<&OperationId>,
    now: Timestamp,
) -> Result<Settled, Problem> {
    let held = |approval| -> Result<Settled, Problem> {
        let identity = Identity::Held { minted: mint(now)?, business_key: tool.business_key().to_vec() };
        Ok(Settled { identity, approval })
    };
    match (tool.without_identity(), run) {
        (WithoutIdentity::Refuse, _) => Err(Problem::new(
            Code::IdentityRequired,
            "this tool takes no call without identity; send the header Idempotency-Key (or operation_id), the same one \
             whenever the same intention is sent again, and a new one for a new intention",
        )),
        (WithoutIdentity::Hold, _) => held(Approval::NotNeeded),
        (WithoutIdentity::Approve, _) => held(Approval::Required),
        (WithoutIdentity::Scope, Some(run)) => Ok(Settled {
            identity: Identity::Given(of_run(tool, grant, arguments, run)?),
            approval: Approval::NotNeeded,
        }),
        (WithoutIdentity::Scope, None) => Err(Problem::new(
            Code::IdentityRequired,
            "this tool takes a call without identity only within a run; send the header Onceward-Scope with a name of the \
             run, or Idempotency-Key",
        )),
    }
}

/// In one run of one principal, equal calls of a tool are one operation.
fn of_run(tool: &Tool, grant: &Grant, arguments: &Canonical, run: &OperationId) -> Result<OperationId, Problem> {
    let mut hash = Sha256::new();
    hash.update(b"onceward run v1\0");
    let compared = tool.comparison().compared_text(arguments);
    for part in [grant.principal().as_str(), run.as_str(), tool.name().as_str(), compared.as_str()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest: [u8; 32] = hash.finalize().into();
    Ok(OperationId::parse(&format!("run-{}", hex::encode(&digest)))?)
}

/// An id for an operation whose host sends none: random, and sorted by time.
pub(crate) fn mint(now: Timestamp) -> Result<OperationId, Problem> {
    let mut random = [0; 10];
    getrandom::fill(&mut random).map_err(|error| {
        tracing::error!(%error, "the system gives no random bytes");
        Problem::plain(Code::Internal)
    })?;
    let millis = u64::try_from(now.as_micros() / 1000).unwrap_or(0);
    let id = uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
    Ok(OperationId::parse(&id.to_string())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, value.parse().unwrap());
        }
        headers
    }

    fn key(value: &str) -> Result<Option<String>, Code> {
        idempotency_key(&headers(&[value])).map(|id| id.map(String::from)).map_err(|problem| problem.code)
    }

    #[test]
    fn a_structured_string_and_a_bare_key_name_the_same_operation() {
        for value in ["order-17", "\"order-17\"", "  order-17 "] {
            assert_eq!(key(value), Ok(Some("order-17".to_owned())), "{value}");
        }
        assert_eq!(key(r#""a\"b\\c""#), Ok(Some(r#"a"b\c"#.to_owned())));
    }

    #[test]
    fn a_malformed_key_is_refused_and_never_cut_to_fit() {
        let long = "x".repeat(256);
        for value in ["", "\"", "\"\"", "a b", "\"a", "\"a\";p=1", r#""a\x""#, "\"a\"b\"", &long] {
            assert_eq!(key(value), Err(Code::InvalidRequest), "{value}");
        }
        assert!(key(&"x".repeat(255)).is_ok());
        assert_eq!(idempotency_key(&headers(&["a", "a"])).unwrap_err().code, Code::InvalidRequest);
        assert_eq!(idempotency_key(&headers(&[])), Ok(None));
    }

    #[test]
    fn two_identities_of_one_call_must_be_equal() {
        assert_eq!(
            of_http(&headers(&["\"a\""]), Some("a")).unwrap(),
            Claimed::Operation(OperationId::parse("a").unwrap())
        );
        assert_eq!(of_http(&headers(&["a"]), Some("b")).unwrap_err().code, Code::IdentityConflict);
    }

    #[test]
    fn minted_ids_differ_and_are_sorted_by_time() {
        let at = |micros| mint(Timestamp::from_micros(micros)).unwrap();
        assert_ne!(at(5_000_000), at(5_000_000));
        assert!(at(5_000_000) < at(6_000_000));
    }
}
