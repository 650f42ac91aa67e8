//! Fingerprint keys: without one, whoever reads a ledger file could test guesses at arguments against its hashes.

use std::collections::BTreeMap;
use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Comparison, Fingerprint, fingerprint_bytes};
use crate::canonical::Canonical;
use crate::hex;
use crate::limits::{FINGERPRINT_KEY_BYTES_MAX, FINGERPRINT_KEY_BYTES_MIN};

/// Names the fingerprint key that a row was made with; 0 is "no key".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FingerprintKeyId(pub u32);

impl FingerprintKeyId {
    /// Plain SHA-256, without a key.
    pub const UNKEYED: FingerprintKeyId = FingerprintKeyId(0);
}

impl fmt::Display for FingerprintKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The secret of one fingerprint key. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct FingerprintKey(Vec<u8>);

impl FingerprintKey {
    /// Takes [`FINGERPRINT_KEY_BYTES_MIN`] to [`FINGERPRINT_KEY_BYTES_MAX`] random bytes.
    ///
    /// # Errors
    /// [`InvalidFingerprintKeys::Length`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<FingerprintKey, InvalidFingerprintKeys> {
        match bytes.len() {
            FINGERPRINT_KEY_BYTES_MIN..=FINGERPRINT_KEY_BYTES_MAX => Ok(FingerprintKey(bytes)),
            bytes => Err(InvalidFingerprintKeys::Length { bytes }),
        }
    }

    /// The same, from hex digits, as a file or an environment variable holds them.
    ///
    /// # Errors
    /// The text is not hex, or the key has the wrong length.
    pub fn from_hex(text: &str) -> Result<FingerprintKey, InvalidFingerprintKeys> {
        FingerprintKey::from_bytes(hex::decode(text).ok_or(InvalidFingerprintKeys::NotHex)?)
    }
}

impl fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintKey(secret)")
    }
}

/// All fingerprint keys that some row still names, and the one that new operations are made with.
///
/// A repetition is compared under the key that its row names. A key therefore stays here while any row names it,
/// tombstones included; a row made before the first key was configured names [`FingerprintKeyId::UNKEYED`], which is
/// always known.
#[derive(Debug, Clone)]
pub struct FingerprintKeys {
    keys: BTreeMap<FingerprintKeyId, FingerprintKey>,
    current: FingerprintKeyId,
}

impl FingerprintKeys {
    /// No key at all: plain SHA-256.
    pub fn unkeyed() -> FingerprintKeys {
        FingerprintKeys { keys: BTreeMap::new(), current: FingerprintKeyId::UNKEYED }
    }

    /// These keys, with `current` for new operations.
    ///
    /// # Errors
    /// Id 0 is given a key, an id is given two, or `current` has none (and is not 0).
    pub fn new(
        current: FingerprintKeyId,
        keys: impl IntoIterator<Item = (FingerprintKeyId, FingerprintKey)>,
    ) -> Result<FingerprintKeys, InvalidFingerprintKeys> {
        let mut known = BTreeMap::new();
        for (id, key) in keys {
            if id == FingerprintKeyId::UNKEYED {
                return Err(InvalidFingerprintKeys::ZeroHasNoKey);
            }
            if known.insert(id, key).is_some() {
                return Err(InvalidFingerprintKeys::GivenTwice { id });
            }
        }
        if current != FingerprintKeyId::UNKEYED && !known.contains_key(&current) {
            return Err(InvalidFingerprintKeys::NoCurrent { id: current });
        }
        Ok(FingerprintKeys { keys: known, current })
    }

    /// The key for new operations.
    pub fn current(&self) -> FingerprintKeyId {
        self.current
    }

    /// Every id that can be compared under, "no key" included, in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = FingerprintKeyId> + '_ {
        std::iter::once(FingerprintKeyId::UNKEYED).chain(self.keys.keys().copied())
    }

    /// The fingerprint of a call, under the key that the row names (or [`current`](Self::current) for a new row).
    ///
    /// # Errors
    /// [`UnknownKey`]: then nothing can be compared, and nothing may be dispatched.
    pub fn fingerprint(
        &self,
        key_id: FingerprintKeyId,
        tool: &str,
        tool_version: &str,
        arguments: &Canonical,
        comparison: &Comparison,
    ) -> Result<Fingerprint, UnknownKey> {
        let bytes = fingerprint_bytes(tool, tool_version, arguments, comparison);
        self.digest(key_id, &bytes).map(Fingerprint::from_bytes)
    }

    /// SHA-256 of the bytes, or HMAC-SHA-256 where the id names a key. The bytes must start with a domain of their own.
    ///
    /// # Errors
    /// [`UnknownKey`].
    pub fn digest(&self, key_id: FingerprintKeyId, bytes: &[u8]) -> Result<[u8; 32], UnknownKey> {
        if key_id == FingerprintKeyId::UNKEYED {
            return Ok(Sha256::digest(bytes).into());
        }
        let key = self.keys.get(&key_id).ok_or(UnknownKey(key_id))?;
        let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).expect("HMAC takes a key of any length");
        mac.update(bytes);
        Ok(mac.finalize().into_bytes().into())
    }
}

/// A row names a fingerprint key that is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "fingerprint key {0} is not configured, but an operation was made with it: put the key back; it stays as long as \
     an operation names it"
)]
pub struct UnknownKey(pub FingerprintKeyId);

/// Why fingerprint keys are refused when the configuration is read. None shows a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFingerprintKeys {
    /// 0 means "no key".
    #[error("fingerprint key 0 means \"no key\": number keys from 1")]
    ZeroHasNoKey,
    /// Rows name a key by its id, so an id means one key for ever.
    #[error("fingerprint key {id} is given twice: give the newer one another number")]
    GivenTwice {
        /// The id.
        id: FingerprintKeyId,
    },
    /// The current key must be there.
    #[error("fingerprint key {id} is to be the current one, but is not among the keys")]
    NoCurrent {
        /// The id.
        id: FingerprintKeyId,
    },
    /// Too short to be secret, or longer than the hash takes in.
    #[error(
        "a fingerprint key of {bytes} bytes: use {FINGERPRINT_KEY_BYTES_MIN} to {FINGERPRINT_KEY_BYTES_MAX} random bytes"
    )]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// A key is written in hex.
    #[error("a fingerprint key is written as pairs of hex digits")]
    NotHex,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::parse;

    fn key(byte: u8) -> FingerprintKey {
        FingerprintKey::from_bytes(vec![byte; FINGERPRINT_KEY_BYTES_MIN]).expect("long enough")
    }

    fn id(number: u32) -> FingerprintKeyId {
        FingerprintKeyId(number)
    }

    #[test]
    fn each_key_makes_its_own_fingerprint_and_an_old_one_stays_comparable() {
        let arguments = parse(b"{}").expect("valid");
        let of = |keys: &FingerprintKeys, id| keys.fingerprint(id, "t", "1", &arguments, &Comparison::default());
        let before = FingerprintKeys::new(id(1), [(id(1), key(1))]).expect("valid");
        let after = FingerprintKeys::new(id(2), [(id(1), key(1)), (id(2), key(2))]).expect("valid");
        assert_eq!(of(&before, id(1)), of(&after, id(1)));
        assert_ne!(of(&after, id(1)), of(&after, id(2)));
        assert_eq!(of(&after, FingerprintKeyId::UNKEYED), of(&FingerprintKeys::unkeyed(), FingerprintKeyId::UNKEYED));
        assert_ne!(of(&after, FingerprintKeyId::UNKEYED), of(&after, id(1)));
        assert_eq!(of(&before, id(2)), Err(UnknownKey(id(2))));
        assert_eq!(after.current(), id(2));
        assert_eq!(after.ids().collect::<Vec<_>>(), [id(0), id(1), id(2)]);
    }

    #[test]
    fn the_hmac_is_that_of_rfc_4231() {
        let (secret, data) = (vec![0xaa; 20], vec![0xdd; 50]);
        let keys = FingerprintKeys { keys: BTreeMap::from([(id(1), FingerprintKey(secret))]), current: id(1) };
        let digest = keys.digest(id(1), &data).expect("known");
        assert_eq!(hex::encode(&digest), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    }

    #[test]
    fn keys_that_could_be_guessed_or_confused_are_refused() {
        let refused = |current, keys: Vec<_>| FingerprintKeys::new(current, keys).expect_err("refused");
        assert_eq!(refused(id(0), vec![(id(0), key(1))]), InvalidFingerprintKeys::ZeroHasNoKey);
        assert_eq!(
            refused(id(1), vec![(id(1), key(1)), (id(1), key(2))]),
            InvalidFingerprintKeys::GivenTwice { id: id(1) }
        );
        assert_eq!(refused(id(2), vec![(id(1), key(1))]), InvalidFingerprintKeys::NoCurrent { id: id(2) });
        for bytes in [0, FINGERPRINT_KEY_BYTES_MIN - 1, FINGERPRINT_KEY_BYTES_MAX + 1] {
            let refused = FingerprintKey::from_bytes(vec![1; bytes]);
            assert_eq!(refused, Err(InvalidFingerprintKeys::Length { bytes }));
        }
        assert_eq!(FingerprintKey::from_hex("xy"), Err(InvalidFingerprintKeys::NotHex));
    }

    #[test]
    fn no_debug_output_shows_a_key() {
        let keys = FingerprintKeys::new(id(7), [(id(7), key(0x5a))]).expect("valid");
        let shown = format!("{keys:?}");
        assert!(shown.contains("secret") && !shown.contains("90") && !shown.contains("5a"), "{shown}");
    }
}
