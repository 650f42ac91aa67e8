//! Credentials: a random secret that is stored hashed, and the grant that it stands for.

use onceward_core::hex;
use onceward_core::time::Timestamp;
use sha2::{Digest, Sha256};

use crate::authorize::Grant;

/// SHA-256 of a credential's secret. The secret has 256 random bits, so that it needs no slow hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CredentialHash(pub [u8; 32]);

impl CredentialHash {
    /// The hash of this secret.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }
}

impl std::fmt::Display for CredentialHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

/// A stored credential. The secret itself is shown once, when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Its public id, for lists, logs and revocation.
    pub id: String,
    /// The hash by which it is found.
    pub hash: CredentialHash,
    /// What it permits.
    pub grant: Grant,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}
