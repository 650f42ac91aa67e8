//! Identities: the operation key (tenant, operation id) and the other names that rules compare.
//!
//! Every name is parsed once, at the edge; afterwards its type says that it is whole.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{NAME_BYTES_MAX, OPERATION_ID_BYTES_MAX};

/// Why a text is not a name. Nothing was looked up and nothing was stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The text is empty.
    #[error("{what} is empty; give 1 to {max} visible ASCII characters")]
    Empty {
        /// Which name.
        what: &'static str,
        /// The longest allowed, in bytes.
        max: usize,
    },
    /// The text is longer than allowed.
    #[error("{what} has {length} bytes; the most is {max}")]
    TooLong {
        /// Which name.
        what: &'static str,
        /// Its length in bytes.
        length: usize,
        /// The longest allowed, in bytes.
        max: usize,
    },
    /// A character is not visible ASCII.
    #[error("{what} has a character at byte {at} that is not visible ASCII (0x21 to 0x7e)")]
    Character {
        /// Which name.
        what: &'static str,
        /// Byte offset of the first such character.
        at: usize,
    },
}

fn visible_ascii(what: &'static str, text: &str, max: usize) -> Result<(), InvalidName> {
    if text.is_empty() {
        return Err(InvalidName::Empty { what, max });
    }
    if text.len() > max {
        return Err(InvalidName::TooLong { what, length: text.len(), max });
    }
    match text.bytes().position(|byte| !byte.is_ascii_graphic()) {
        Some(at) => Err(InvalidName::Character { what, at }),
        None => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Parses the text; visible ASCII, not empty, not too long.
            ///
            /// # Errors
            /// [`InvalidName`] names the fault; nothing was looked up.
            pub fn parse(text: &str) -> Result<Self, InvalidName> {
                visible_ascii($what, text, $max)?;
                Ok(Self(text.into()))
            }

            /// The text as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// Whose operations these are. It comes from a credential or from trusted code, never from an argument.
    TenantId, "tenant", NAME_BYTES_MAX
);
name!(
    /// The caller's name of one approved operation, unique within its tenant.
    OperationId, "operation id", OPERATION_ID_BYTES_MAX
);
name!(
    /// Who acts: the holder of a credential, or a name that trusted code gives.
    Principal, "principal", NAME_BYTES_MAX
);
name!(
    /// What is called.
    ToolName, "tool", NAME_BYTES_MAX
);
name!(
    /// The version of a tool's definition. It comes from configuration, never from hashing a schema: an upgrade
    /// must not turn a repetition into a conflict.
    ToolVersion, "tool version", NAME_BYTES_MAX
);
name!(
    /// One running process that claims attempts; random at every start, so that no restart inherits a claim.
    OwnerId, "owner", NAME_BYTES_MAX
);
name!(
    /// The idempotency key that is sent to a destination.
    OutboundKey, "outbound key", OPERATION_ID_BYTES_MAX
);
name!(
    /// The destination's own name of the effect (an order number, a payment id); receipts are compared by it.
    EffectId, "effect id", OPERATION_ID_BYTES_MAX
);
name!(
    /// Where operations of one kind are dispatched one after the other.
    Lane, "lane", NAME_BYTES_MAX
);

/// The durable identity of an operation. Tenant and id are two fields and never one text, so that no separator
/// inside an id can make two keys meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationKey {
    /// Whose it is.
    pub tenant: TenantId,
    /// Which one.
    pub id: OperationId,
}

impl fmt::Display for OperationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.id)
    }
}

/// The number of a dispatch within its operation, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AttemptNumber(pub u32);

impl fmt::Display for AttemptNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which outbound key of the operation: a burnt key starts a new generation (R4). From 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_visible_ascii_of_bounded_length() {
        assert!(OperationId::parse("order-17/ß").is_err());
        assert!(matches!(OperationId::parse(""), Err(InvalidName::Empty { .. })));
        assert!(matches!(OperationId::parse("a b"), Err(InvalidName::Character { at: 1, .. })));
        assert!(OperationId::parse(&"x".repeat(255)).is_ok());
        assert!(matches!(OperationId::parse(&"x".repeat(256)), Err(InvalidName::TooLong { length: 256, .. })));
    }

    #[test]
    fn a_separator_inside_an_id_never_makes_two_keys_meet() {
        let key = |tenant: &str, id: &str| OperationKey {
            tenant: TenantId::parse(tenant).unwrap(),
            id: OperationId::parse(id).unwrap(),
        };
        assert_ne!(key("A", "B:k"), key("A:B", "k"));
        assert_ne!(key("A", "B/k"), key("A/B", "k"));
    }
}
