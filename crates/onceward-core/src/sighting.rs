//! Observe mode: what a call would have come to if the rules bound it, kept with the operation that it became.
//!
//! Each observed call is an operation of its own. The first one of an intention is made under its own id, as it would be anyway;
//! whatever would have been held back, replayed or refused is made under a spare id and names the operation that it met.

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::key::{OperationId, OutboundKey};
use crate::outcome::Outcome;

/// What was seen of a call in observe mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// What it would have come to.
    pub would: WouldBe,
    /// The operation that it met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<OperationId>,
    /// The key that goes out in place of its own: of the operation that it met, so that the destination sees what it would see
    /// without us and recognises a repetition if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<OutboundKey>,
}

/// What a call would have come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WouldBe {
    /// It would have been sent: nothing like it was there, or surely nothing of it had happened.
    Sent,
    /// It would have been sent again under the same key, as its destination's contract permits.
    Redriven,
    /// It would have been told this, and nothing would have been sent.
    Told(Outcome),
    /// It would have been refused with this code.
    #[serde(with = "code_by_name")]
    Refused(Code),
}

impl WouldBe {
    /// The word for it: of an outcome or code its own.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Redriven => "redriven",
            Self::Told(outcome) => outcome.name(),
            Self::Refused(code) => code.name(),
        }
    }

    /// Whether the rules would have kept it from being sent.
    #[must_use]
    pub const fn is_blocked(self) -> bool {
        match self {
            Self::Sent | Self::Redriven => false,
            Self::Told(_) | Self::Refused(_) => true,
        }
    }
}

impl Sighting {
    /// Of a call that would have been sent.
    pub const SENT: Self = Self { would: WouldBe::Sent, met: None, key: None };

    /// Whether the effect of its call may be another operation's: it was sent beside that one.
    #[must_use]
    pub const fn is_beside_another(&self) -> bool {
        self.met.is_some()
    }
}

mod code_by_name {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::code::Code;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
    pub(super) fn serialize<S: Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(code.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Code, D::Error> {
        let name = String::deserialize(deserializer)?;
        // A code of a later version: the row is still read.
        Ok(Code::of_name(&name).unwrap_or(Code::Internal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sighting_reads_back_as_it_was_written() {
        let all = [
            WouldBe::Sent,
            WouldBe::Redriven,
            WouldBe::Told(Outcome::PossibleDuplicate),
            WouldBe::Refused(Code::IdentityRequired),
        ];
        for would in all {
            let met = OperationId::parse("op-1").ok().filter(|_| would.is_blocked());
            let sighting = Sighting { would, met, key: None };
            let text = serde_json::to_string(&sighting).unwrap();
            assert_eq!(serde_json::from_str::<Sighting>(&text).unwrap(), sighting, "{text}");
        }
        assert_eq!(
            serde_json::to_string(&WouldBe::Refused(Code::IdentityRequired)).unwrap(),
            r#"{"refused":"identity_required"}"#
        );
    }
}
