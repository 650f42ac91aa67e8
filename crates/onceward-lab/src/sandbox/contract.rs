//! What the sandbox promises about a repeated key: configurable, because the world's destinations differ in exactly this.

use std::sync::Arc;

use onceward_core::contract::Contract;
use serde::{Deserialize, Serialize};

use super::limits::{INTERLEAVING_CALLERS_MAX, SPAN_MS_MAX};

/// How this destination treats keys, lists and accounts. Read from TOML or JSON; what is left out is the default.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxContract {
    /// The header a key travels in.
    pub key_header: KeyHeader,
    /// What a repeated key is answered with.
    pub repeated_key: RepeatedKey,
    /// What a repeated key with other arguments is answered with.
    pub other_arguments: OtherArguments,
    /// What a key is answered with while another request executes it.
    pub in_flight: InFlight,
    /// Milliseconds after its first use at which a key is forgotten, and executes again. Left out: never.
    pub key_horizon_ms: Option<u64>,
    /// Whether the effect itself carries the key under a unique constraint.
    pub key_constraint: KeyConstraint,
    /// Makes concurrent callers meet between looking a key up and acting on it.
    pub interleaving: Option<Interleaving>,
    /// The header that is `true` on an answer that was given before, or `none`.
    pub replay_marker: ReplayMarker,
    /// Milliseconds for which a new row is missing from lists. Reading it by id finds it at once.
    pub list_visibility_ms: u64,
    /// Milliseconds from accepting a report to its being done.
    pub report_delay_ms: u64,
    /// Whether a caller must say which account it is.
    pub accounts: Accounts,
    /// Whose interface it speaks: a contract of the catalog, by its id or as a table. Left out: the sandbox's own, to which
    /// the fields above belong; with one, only lists, interleaving and accounts are still said by them.
    #[serde(deserialize_with = "family", skip_serializing_if = "Option::is_none")]
    pub family: Option<Arc<Contract>>,
}

/// A family as it is written: `"none"`, the id of a built-in contract, or the contract itself.
fn family<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<Contract>>, D::Error> {
    use serde::de::Error;
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Name(String),
        Whole(Box<Contract>),
    }
    match Written::deserialize(deserializer)? {
        Written::Name(name) if name == "none" => Ok(None),
        Written::Name(name) => match built_in(&name).map_err(D::Error::custom)? {
            Some(contract) => Ok(Some(Arc::new(contract))),
            None => Err(D::Error::custom(format!("no built-in contract is called {name:?}"))),
        },
        Written::Whole(contract) => {
            contract.validate().map_err(D::Error::custom)?;
            Ok(Some(Arc::new(*contract)))
        }
    }
}

fn built_in(id: &str) -> Result<Option<Contract>, onceward_core::contract::ContractError> {
    Ok(onceward_core::contract::built_in()?.into_iter().find(|contract| contract.id == id))
}

impl Default for SandboxContract {
    /// A destination that keeps its word: keys in `Idempotency-Key`, every answer stored, one row for each key.
    fn default() -> Self {
        Self {
            key_header: KeyHeader::Named("idempotency-key".to_owned()),
            repeated_key: RepeatedKey::StoresAll,
            other_arguments: OtherArguments::Reject422,
            in_flight: InFlight::Conflict409,
            key_horizon_ms: None,
            key_constraint: KeyConstraint::Unique,
            interleaving: None,
            replay_marker: ReplayMarker::Named("idempotent-replayed".to_owned()),
            list_visibility_ms: 0,
            report_delay_ms: 0,
            accounts: Accounts::Open,
            family: None,
        }
    }
}

impl SandboxContract {
    /// A destination that knows no keys: every request is a new effect, as most systems in the world are.
    #[must_use]
    pub fn without_keys() -> Self {
        Self { key_header: KeyHeader::None, ..Self::default() }
    }

    /// A destination that speaks this contract's interface and keeps exactly what it promises.
    #[must_use]
    pub fn speaking(family: Contract) -> Self {
        Self { family: Some(Arc::new(family)), ..Self::default() }
    }

    /// This contract with what `changes` names replaced, checked as a whole.
    pub(crate) fn with(&self, changes: &serde_json::Map<String, serde_json::Value>) -> Result<Self, ContractError> {
        let serde_json::Value::Object(mut fields) =
            serde_json::to_value(self).map_err(|error| ContractError::Field(error.to_string()))?
        else {
            return Err(ContractError::Field("a contract is a table".to_owned()));
        };
        fields.extend(changes.iter().map(|(name, value)| (name.clone(), value.clone())));
        let contract: Self = serde_json::from_value(serde_json::Value::Object(fields))
            .map_err(|error| ContractError::Field(error.to_string()))?;
        contract.checked()
    }

    /// This contract with the changes that the header `Sandbox-Contract` names: `in_flight=waits; key_horizon_ms=0`.
    ///
    /// # Errors
    /// [`ContractError`] names the field.
    pub fn with_header(&self, header: &str) -> Result<Self, ContractError> {
        let mut changes = serde_json::Map::new();
        for setting in header.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = setting
                .split_once('=')
                .ok_or_else(|| ContractError::Field(format!("{setting:?} is not name=value")))?;
            let (name, value) = (name.trim(), value.trim());
            let value = value.parse::<u64>().map_or_else(|_| value.into(), serde_json::Value::from);
            changes.insert(name.to_owned(), value);
        }
        self.with(&changes)
    }

    /// The contract, if its numbers are inside the limits.
    pub(crate) fn checked(self) -> Result<Self, ContractError> {
        let spans = [self.key_horizon_ms.unwrap_or(0), self.list_visibility_ms, self.report_delay_ms];
        if spans.into_iter().any(|ms| ms > SPAN_MS_MAX) {
            return Err(ContractError::Span);
        }
        if let Some(interleaving) = self.interleaving
            && (!(2..=INTERLEAVING_CALLERS_MAX).contains(&interleaving.callers)
                || interleaving.wait_ms_max > SPAN_MS_MAX)
        {
            return Err(ContractError::Interleaving);
        }
        Ok(self)
    }
}

/// Why a contract was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContractError {
    /// A field has no such name or no such value.
    #[error("the contract cannot be read: {0}")]
    Field(String),
    /// A time is longer than a year.
    #[error("a time in a contract is {SPAN_MS_MAX} ms at most")]
    Span,
    /// An interleaving needs at least two callers to meet.
    #[error("an interleaving brings 2 to {INTERLEAVING_CALLERS_MAX} callers together")]
    Interleaving,
}

/// The header a key travels in: its name, or `none`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum KeyHeader {
    /// This destination knows no keys. One that is sent all the same is recorded, and recognised by nobody.
    None,
    /// The header's name, in lower case.
    Named(String),
}

/// The header that marks a replay: its name, or `none`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum ReplayMarker {
    /// A replay looks like a first answer.
    None,
    /// The header's name, in lower case.
    Named(String),
}

fn header_name(text: &str) -> Result<Option<String>, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    axum::http::HeaderName::try_from(text)
        .map(|name| Some(name.as_str().to_owned()))
        .map_err(|_| format!("{text:?} is not a header's name"))
}

impl TryFrom<String> for KeyHeader {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Ok(header_name(&text)?.map_or(Self::None, Self::Named))
    }
}

impl From<KeyHeader> for String {
    fn from(header: KeyHeader) -> Self {
        match header {
            KeyHeader::None => "none".to_owned(),
            KeyHeader::Named(name) => name,
        }
    }
}

impl TryFrom<String> for ReplayMarker {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Ok(header_name(&text)?.map_or(Self::None, Self::Named))
    }
}

impl From<ReplayMarker> for String {
    fn from(header: ReplayMarker) -> Self {
        match header {
            ReplayMarker::None => "none".to_owned(),
            ReplayMarker::Named(name) => name,
        }
    }
}

/// What a repeated key is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepeatedKey {
    /// Every answer that an execution gave is stored and given again: 2xx, a decline, and a 500, which stays a 500 for ever.
    StoresAll,
    /// Only a success is stored. Whether a repetition after a 5xx runs again depends on [`KeyConstraint`].
    StoresSuccesses,
    /// A repetition finishes what the first attempt left unfinished, and answers with the result.
    Continues,
    /// The key finds the thing, and the answer shows it as it is now, not as it was answered.
    CurrentState,
}

/// What a repeated key with other arguments is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherArguments {
    /// The first arguments' answer, as if nothing were wrong.
    FirstAnswer,
    /// 400.
    #[serde(rename = "reject_400")]
    Reject400,
    /// 409.
    #[serde(rename = "reject_409")]
    Reject409,
    /// 422.
    #[serde(rename = "reject_422")]
    Reject422,
}

/// What a key is answered with while another request executes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InFlight {
    /// 409 at once.
    #[serde(rename = "conflict_409")]
    Conflict409,
    /// The answer of the one that executes.
    Waits,
    /// Nobody looks: both check, both act, and only the constraint is left.
    Unguarded,
}

/// Whether the effect itself carries the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyConstraint {
    /// One row for each key, by a unique index, in the transaction that creates the row: the effect is atomic with the key.
    Unique,
    /// Only the stored answer protects. Where none was stored, or two callers act at once, the effect is doubled.
    None,
}

/// Makes callers of one key meet after each has found the key absent, and before any of them acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Interleaving {
    /// How many callers meet.
    pub callers: usize,
    /// Milliseconds after which a caller goes on alone, so that a single one is not stuck.
    pub wait_ms_max: u64,
}

/// Whether a caller must say which account it is, by `Authorization: Bearer sandbox-<account>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Accounts {
    /// A caller without a token is the account `default`.
    Open,
    /// A caller without a token gets 401.
    BearerRequired,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_reads_from_toml_and_what_is_left_out_is_the_default() {
        let text = r#"
            key_header = "X-Request-Key"
            repeated_key = "stores_successes"
            other_arguments = "reject_409"
            in_flight = "conflict_409"
            key_horizon_ms = 5
            key_constraint = "none"
            replay_marker = "none"
            accounts = "bearer_required"
            [interleaving]
            callers = 2
            wait_ms_max = 10
        "#;
        let read: SandboxContract = toml::from_str(text).expect("readable");
        let expected = SandboxContract {
            key_header: KeyHeader::Named("x-request-key".to_owned()),
            repeated_key: RepeatedKey::StoresSuccesses,
            other_arguments: OtherArguments::Reject409,
            in_flight: InFlight::Conflict409,
            key_horizon_ms: Some(5),
            key_constraint: KeyConstraint::None,
            replay_marker: ReplayMarker::None,
            accounts: Accounts::BearerRequired,
            interleaving: Some(Interleaving { callers: 2, wait_ms_max: 10 }),
            ..SandboxContract::default()
        };
        assert_eq!(read, expected);
        assert_eq!(toml::from_str::<SandboxContract>("").expect("readable"), SandboxContract::default());
    }

    #[test]
    fn every_word_of_a_contract_is_written_as_the_documentation_writes_it() {
        let words = [
            ("repeated_key", vec!["stores_all", "stores_successes", "continues", "current_state"]),
            ("other_arguments", vec!["first_answer", "reject_400", "reject_409", "reject_422"]),
            ("in_flight", vec!["conflict_409", "waits", "unguarded"]),
            ("key_constraint", vec!["unique", "none"]),
            ("accounts", vec!["open", "bearer_required"]),
        ];
        for (field, words) in words {
            for word in words {
                let contract = SandboxContract::default().with_header(&format!("{field}={word}")).expect(word);
                assert_eq!(serde_json::to_value(contract).expect("writable")[field], word);
            }
        }
    }

    #[test]
    fn a_header_changes_what_it_names_and_nothing_else() {
        let changed = SandboxContract::default()
            .with_header("in_flight=waits; key_horizon_ms=0; key_header=none")
            .expect("readable");
        assert_eq!(
            changed,
            SandboxContract {
                in_flight: InFlight::Waits,
                key_horizon_ms: Some(0),
                key_header: KeyHeader::None,
                ..SandboxContract::default()
            }
        );
    }

    #[test]
    fn a_contract_with_an_unknown_name_or_an_impossible_number_is_refused() {
        let contract = SandboxContract::default();
        for header in ["in_flght=waits", "in_flight=never", "in_flight", "key_horizon_ms=99999999999999"] {
            assert!(contract.with_header(header).is_err(), "{header}");
        }
        let alone = SandboxContract { interleaving: Some(Interleaving { callers: 1, wait_ms_max: 1 }), ..contract };
        assert_eq!(alone.checked(), Err(ContractError::Interleaving));
    }
}
