//! Who may do what: evaluated on every call, before execution *and* before replay, status, lookup and decision.
//!
//! The answer is a value. [`Authorized`] has no public constructor, and everything that reads or writes an operation for a
//! caller asks for one: delete a check and the code does not compile. Background work has a proof of its own
//! ([`Background`]), never a twin without authorization.

use std::marker::PhantomData;

use onceward_core::key::{InvalidName, Principal, TenantId, ToolName};
use onceward_core::operation::Operation;
use serde::{Deserialize, Serialize};

/// What a caller may do, within one tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "GrantParts", into = "GrantParts")]
pub struct Grant {
    tenant: TenantId,
    principal: Principal,
    tools: Vec<ToolPattern>,
    scopes: Vec<Scope>,
}

#[derive(Serialize, Deserialize)]
struct GrantParts {
    tenant: TenantId,
    principal: Principal,
    tools: Vec<ToolPattern>,
    scopes: Vec<Scope>,
}

impl TryFrom<GrantParts> for Grant {
    type Error = GrantError;
    fn try_from(parts: GrantParts) -> Result<Self, GrantError> {
        Self::new(parts.tenant, parts.principal, parts.tools, parts.scopes)
    }
}

impl From<Grant> for GrantParts {
    fn from(grant: Grant) -> Self {
        Self { tenant: grant.tenant, principal: grant.principal, tools: grant.tools, scopes: grant.scopes }
    }
}

/// One thing that a grant permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Call tools: execute, repeat, claim and settle own claims, withdraw.
    Execute,
    /// See operations and their journals.
    Read,
    /// Ask a destination what became of an operation.
    Lookup,
    /// Record a decision on an unknown operation.
    Decide,
    /// Approve or decline a proposed operation.
    Approve,
    /// Erase payloads of settled operations.
    Purge,
    /// Make and revoke credentials.
    Administer,
}

impl Scope {
    /// The word for it in configuration and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Read => "read",
            Self::Lookup => "lookup",
            Self::Decide => "decide",
            Self::Approve => "approve",
            Self::Purge => "purge",
            Self::Administer => "administer",
        }
    }

    /// All scopes of a person who operates the ledger.
    pub const OPERATOR: [Self; 6] =
        [Self::Read, Self::Lookup, Self::Decide, Self::Approve, Self::Purge, Self::Administer];

    /// All scopes of an agent.
    pub const AGENT: [Self; 2] = [Self::Execute, Self::Read];

    /// All scopes of an application that runs its own functions, and asks its own destinations what became of them.
    pub const APPLICATION: [Self; 3] = [Self::Execute, Self::Read, Self::Lookup];
}

/// Why a grant is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// Whoever makes calls must not decide on them (R19).
    #[error("one credential cannot both execute and {}: whoever calls must not settle its own calls; make two credentials", .0.name())]
    MixedRoles(Scope),
    /// It permits nothing.
    #[error("a credential needs at least one scope and one tool pattern (`*` for all tools)")]
    Empty,
}

impl Grant {
    /// A grant of these scopes for tools that match any of these patterns.
    ///
    /// # Errors
    /// [`GrantError`] when it would let a caller decide on its own calls, or permits nothing.
    pub fn new(
        tenant: TenantId,
        principal: Principal,
        tools: Vec<ToolPattern>,
        scopes: Vec<Scope>,
    ) -> Result<Self, GrantError> {
        if scopes.is_empty() || tools.is_empty() {
            return Err(GrantError::Empty);
        }
        if scopes.contains(&Scope::Execute) {
            for forbidden in [Scope::Decide, Scope::Approve, Scope::Purge, Scope::Administer] {
                if scopes.contains(&forbidden) {
                    return Err(GrantError::MixedRoles(forbidden));
                }
            }
        }
        Ok(Self { tenant, principal, tools, scopes })
    }

    /// Whose operations.
    #[must_use]
    pub const fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Who.
    #[must_use]
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The scopes.
    #[must_use]
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// The tool patterns.
    #[must_use]
    pub fn tools(&self) -> &[ToolPattern] {
        &self.tools
    }

    /// Whether it has this scope for any tool at all.
    #[must_use]
    pub fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Permission to call this tool, and to be told what became of earlier calls of it.
    ///
    /// # Errors
    /// [`Denied`]; nothing was looked up.
    pub fn to_execute(&self, tool: &ToolName) -> Result<Authorized<Execute>, Denied> {
        self.permit(Scope::Execute, tool)
    }

    /// Permission to see this operation.
    ///
    /// # Errors
    /// [`Denied`]: to this caller the operation does not exist. It is told apart from a missing one by nothing.
    pub fn to_read(&self, operation: &Operation) -> Result<Authorized<Read>, Denied> {
        self.same_tenant(operation)?;
        self.permit(Scope::Read, &operation.binding.tool)
    }

    /// Permission to ask what a call of this tool would come to: whoever sees its operations may.
    ///
    /// # Errors
    /// [`Denied`]; nothing was looked up.
    pub fn to_explain(&self, tool: &ToolName) -> Result<Authorized<Read>, Denied> {
        self.permit(Scope::Read, tool)
    }

    /// Permission to withdraw this operation, which is part of calling its tool.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn to_withdraw(&self, operation: &Operation) -> Result<Authorized<Execute>, Denied> {
        self.same_tenant(operation)?;
        self.permit(Scope::Execute, &operation.binding.tool)
    }

    /// Permission to ask the destination what became of this operation, and to report what it answered.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn to_lookup(&self, operation: &Operation) -> Result<Authorized<Lookup>, Denied> {
        self.same_tenant(operation)?;
        self.permit(Scope::Lookup, &operation.binding.tool)
    }

    /// Permission to report what was found of this operation's effect. Whoever makes calls reports on its own: a report can free
    /// an operation, and another caller's is settled by the secret of its claim alone (R19).
    ///
    /// # Errors
    /// [`Denied`].
    pub fn to_report(&self, operation: &Operation) -> Result<Authorized<Reporting>, Denied> {
        self.same_tenant(operation)?;
        if self.has(Scope::Execute) && operation.terms.principal != self.principal {
            return Err(Denied);
        }
        self.permit(Scope::Lookup, &operation.binding.tool)
    }

    /// Permission to record a decision on this operation; never for the principal whose call it was.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn to_decide(&self, operation: &Operation) -> Result<Authorized<Decide>, Denied> {
        self.same_tenant(operation)?;
        if operation.terms.principal == self.principal {
            return Err(Denied);
        }
        self.permit(Scope::Decide, &operation.binding.tool)
    }

    /// Permission to approve or decline this operation; never for the principal whose call it was.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn to_approve(&self, operation: &Operation) -> Result<Authorized<Approve>, Denied> {
        self.same_tenant(operation)?;
        if operation.terms.principal == self.principal {
            return Err(Denied);
        }
        self.permit(Scope::Approve, &operation.binding.tool)
    }

    /// Permission to ask that a person allow a second one of this operation. Whoever may call its tool asks for a call of its
    /// own; whoever approves asks in the name of the principal whose call this one was. Nothing is sent by asking.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn to_ask(&self, operation: &Operation) -> Result<Authorized<Ask>, Denied> {
        self.same_tenant(operation)?;
        let tool = &operation.binding.tool;
        self.permit(Scope::Execute, tool).or_else(|Denied| {
            let allowed = self.permit(Scope::Approve, tool)?;
            Ok(Authorized { principal: operation.terms.principal.clone(), ..allowed })
        })
    }

    /// Permission to erase payloads of this operation.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn to_purge(&self, operation: &Operation) -> Result<Authorized<Purge>, Denied> {
        self.same_tenant(operation)?;
        self.permit(Scope::Purge, &operation.binding.tool)
    }

    fn same_tenant(&self, operation: &Operation) -> Result<(), Denied> {
        if operation.key.tenant == self.tenant { Ok(()) } else { Err(Denied) }
    }

    fn permit<A>(&self, scope: Scope, tool: &ToolName) -> Result<Authorized<A>, Denied> {
        if self.scopes.contains(&scope) && self.tools.iter().any(|pattern| pattern.matches(tool)) {
            Ok(Authorized {
                tenant: self.tenant.clone(),
                principal: self.principal.clone(),
                tool: tool.clone(),
                action: PhantomData,
            })
        } else {
            Err(Denied)
        }
    }
}

/// It is not permitted. Says no more: what one may not see does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not permitted")]
pub struct Denied;

/// Proof that a caller may do `A` with a tool. Made by [`Grant`] only.
#[derive(Clone, Debug)]
pub struct Authorized<A> {
    tenant: TenantId,
    principal: Principal,
    tool: ToolName,
    action: PhantomData<fn() -> A>,
}

impl<A> Authorized<A> {
    /// Whose operations.
    #[must_use]
    pub const fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Who.
    #[must_use]
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// For which tool.
    #[must_use]
    pub const fn tool(&self) -> &ToolName {
        &self.tool
    }
}

/// Calling a tool.
#[derive(Clone, Copy, Debug)]
pub enum Execute {}
/// Seeing an operation.
#[derive(Clone, Copy, Debug)]
pub enum Read {}
/// Asking a destination what became of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Lookup {}
/// Reporting what was found of an effect.
#[derive(Clone, Copy, Debug)]
pub enum Reporting {}
/// Recording a decision.
#[derive(Clone, Copy, Debug)]
pub enum Decide {}
/// Approving or declining.
#[derive(Clone, Copy, Debug)]
pub enum Approve {}
/// Asking for the approval of a second one, by whose call it will be.
#[derive(Clone, Copy, Debug)]
pub enum Ask {}
/// Erasing payloads.
#[derive(Clone, Copy, Debug)]
pub enum Purge {}

/// Proof that work belongs to the engine itself: recovery, sweeps, lookups. It can observe and forget; it has no way to a send.
#[derive(Debug)]
pub struct Background(());

impl Background {
    pub(crate) const fn of_engine() -> Self {
        Self(())
    }
}

/// Which tools: a name, or a beginning followed by `*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolPattern(String);

impl ToolPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`InvalidPattern`] when a `*` stands anywhere but at the end, or the rest is no tool name.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        let stem = text.strip_suffix('*').unwrap_or(text);
        if stem.contains('*') {
            return Err(InvalidPattern::Star);
        }
        if !(stem.is_empty() && text == "*") {
            ToolName::parse(stem).map_err(InvalidPattern::Name)?;
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether the tool is meant.
    #[must_use]
    pub fn matches(&self, tool: &ToolName) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => tool.as_str().starts_with(beginning),
            None => self.0 == tool.as_str(),
        }
    }

    /// The pattern as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ToolPattern {
    type Error = InvalidPattern;
    fn try_from(text: String) -> Result<Self, InvalidPattern> {
        Self::parse(&text)
    }
}

impl From<ToolPattern> for String {
    fn from(pattern: ToolPattern) -> Self {
        pattern.0
    }
}

/// Why a text is no tool pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPattern {
    /// A star in the middle.
    #[error("a tool pattern is a name, or a beginning followed by one `*`")]
    Star,
    /// No name.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(scopes: &[Scope], tools: &[&str]) -> Result<Grant, GrantError> {
        Grant::new(
            TenantId::parse("acme").unwrap(),
            Principal::parse("agent").unwrap(),
            tools.iter().map(|text| ToolPattern::parse(text).unwrap()).collect(),
            scopes.to_vec(),
        )
    }

    #[test]
    fn a_credential_that_calls_cannot_decide_approve_or_administer() {
        for scope in [Scope::Decide, Scope::Approve, Scope::Purge, Scope::Administer] {
            assert_eq!(grant(&[Scope::Execute, scope], &["*"]), Err(GrantError::MixedRoles(scope)));
        }
        assert!(grant(&Scope::AGENT, &["*"]).is_ok());
        assert!(grant(&Scope::OPERATOR, &["*"]).is_ok());
    }

    #[test]
    fn a_stored_grant_with_mixed_roles_is_refused_when_it_is_read() {
        let text = r#"{"tenant":"a","principal":"p","tools":["*"],"scopes":["execute","decide"]}"#;
        assert!(serde_json::from_str::<Grant>(text).is_err());
    }

    #[test]
    fn a_grant_reaches_only_the_tools_it_names() {
        let grant = grant(&Scope::AGENT, &["jira.*", "create_ticket"]).unwrap();
        let may = |tool: &str| grant.to_execute(&ToolName::parse(tool).unwrap()).is_ok();
        assert!(may("jira.create_issue") && may("create_ticket"));
        assert!(!may("create_tickets") && !may("mail.send"));
        assert!(ToolPattern::parse("a*b").is_err());
    }
}
