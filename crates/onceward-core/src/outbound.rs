//! The key that a destination sees (R4): derived, so that it can be rebuilt after a restore, and keyed, so that two tenants
//! behind one vendor account cannot meet and nobody can guess another's.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::hex;
use crate::key::{Generation, OperationKey, OutboundKey};

const DOMAIN: &[u8] = b"onceward outbound key v1\0";

/// The ledger's secret. It lies beside the database, never in it, and belongs into backups apart from it.
#[derive(Clone)]
pub struct LedgerSecret([u8; 32]);

impl LedgerSecret {
    /// From its text: 64 hex digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        crate::hex::decode(text.trim())?.try_into().ok().map(Self)
    }

    /// 32 random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A keyed hash for another purpose; `domain` keeps purposes apart.
    #[must_use]
    pub fn keyed_hash(&self, domain: &[u8], parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.mac();
        mac.update(domain);
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// The outbound key of this operation and generation: shaped like a version 8 UUID, which every vendor's syntax takes.
    #[must_use]
    pub fn outbound_key(&self, key: &OperationKey, generation: Generation) -> OutboundKey {
        let hash = self.keyed_hash(
            DOMAIN,
            &[key.tenant.as_str().as_bytes(), key.id.as_str().as_bytes(), &generation.0.to_be_bytes()],
        );
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        bytes[6] = (bytes[6] & 0x0f) | 0x80;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let text = hex::encode(&bytes);
        let uuid = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-");
        // Hex digits and hyphens are visible ASCII, and 36 of them are within every limit.
        OutboundKey::parse(&uuid).unwrap_or_else(|_| unreachable!("a UUID is a name"))
    }

    fn mac(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!("HMAC takes a key of any length"))
    }
}

impl core::fmt::Debug for LedgerSecret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("LedgerSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{OperationId, TenantId};

    fn key(tenant: &str, id: &str) -> OperationKey {
        OperationKey { tenant: TenantId::parse(tenant).unwrap(), id: OperationId::parse(id).unwrap() }
    }

    #[test]
    fn tenants_ids_generations_and_ledgers_never_share_an_outbound_key() {
        let secret = LedgerSecret::new([1; 32]);
        let keys = [
            secret.outbound_key(&key("a", "bc"), Generation(1)),
            secret.outbound_key(&key("ab", "c"), Generation(1)),
            secret.outbound_key(&key("a", "bc"), Generation(2)),
            LedgerSecret::new([2; 32]).outbound_key(&key("a", "bc"), Generation(1)),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert_eq!(one.as_str().len(), 36);
            assert!(keys[at + 1..].iter().all(|other| other != one));
        }
        assert_eq!(keys[0], secret.outbound_key(&key("a", "bc"), Generation(1)), "it can be rebuilt");
    }

    #[test]
    fn the_secret_is_never_printed() {
        assert_eq!(format!("{:?}", LedgerSecret::new([7; 32])), "LedgerSecret(…)");
    }
}
