//! Notices to the operator's own systems: a signed POST that says that a person is needed. No operation rests on one.
//!
//! Signed as Standard Webhooks has it (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>,
//! read 2026-11-29): `webhook-id`, `webhook-timestamp` in seconds, and `webhook-signature: v1,` with the base64 of an HMAC-SHA-256
//! over `id.timestamp.body`. A notice may be sent again: its id stays, so that its receiver takes it once.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use onceward_core::time::Timestamp;
use onceward_ledger::clock::SystemClock;
use reqwest::Url;
use sha2::Sha256;

use crate::client::{ClientError, ClientSettings, client};
use crate::limits::{CONNECT_TIMEOUT, NOTICE_SECRET_BYTES, NOTICE_WITHIN};
use crate::secrets::{self, InvalidReference, SecretError, SecretSource};

/// Where notices go.
pub struct NoticeTarget {
    url: Url,
    secret: SigningSecret,
    client: reqwest::Client,
}

impl fmt::Debug for NoticeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NoticeTarget({})", self.url.host_str().unwrap_or_default())
    }
}

/// One notice, the same each time that it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// By which its receiver knows it again.
    pub id: String,
    /// Its JSON.
    pub body: Vec<u8>,
}

/// What became of sending one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Its receiver has it.
    Taken,
    /// It answered with this status, which is no success.
    Refused(u16),
    /// No answer came. Why, for the log; the address is not repeated.
    NoAnswer(&'static str),
}

/// Why notices cannot be sent as configured. No secret and no address is repeated: either may hold a credential.
#[derive(Debug, thiserror::Error)]
pub enum InvalidTarget {
    /// It is no address for notices.
    #[error("notices go to an address with https, or with http on this machine, and without a user or password in it")]
    Url,
    /// The secret is given in the file itself.
    #[error(transparent)]
    Reference(#[from] InvalidReference),
    /// The secret cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The secret is none.
    #[error(
        "the secret is {} to {} bytes as base64, with or without whsec_ before it; `openssl rand -base64 32` makes one",
        NOTICE_SECRET_BYTES.start(),
        NOTICE_SECRET_BYTES.end()
    )]
    Form,
    /// No client.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl NoticeTarget {
    /// Reads the secret and makes the client. Nothing is sent.
    ///
    /// # Errors
    /// [`InvalidTarget`].
    pub fn new(url: &str, secret: &str, base_dir: &Path, source: &dyn SecretSource) -> Result<Self, InvalidTarget> {
        let url = Url::parse(url).ok().filter(is_for_notices).ok_or(InvalidTarget::Url)?;
        let secret = secrets::read(&secret.parse()?, base_dir, source)?;
        let secret = SigningSecret::parse(secret.expose()).ok_or(InvalidTarget::Form)?;
        let settings =
            ClientSettings { connect_timeout: CONNECT_TIMEOUT, idle_connections: 1, clock: Arc::new(SystemClock) };
        Ok(Self { url, secret, client: client(settings)? })
    }

    /// Sends a notice, once.
    pub async fn send(&self, notice: &Notice, now: Timestamp) -> Delivery {
        let seconds = now.as_micros().div_euclid(1_000_000);
        let request = self
            .client
            .post(self.url.clone())
            .timeout(NOTICE_WITHIN)
            .header("content-type", "application/json")
            .header("webhook-id", &notice.id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", self.secret.sign(&notice.id, seconds, &notice.body))
            .body(notice.body.clone());
        match request.send().await {
            Ok(response) if response.status().is_success() => Delivery::Taken,
            Ok(response) => Delivery::Refused(response.status().as_u16()),
            Err(error) if error.is_connect() => Delivery::NoAnswer("no connection"),
            Err(error) if error.is_timeout() => Delivery::NoAnswer("it took too long"),
            Err(_) => Delivery::NoAnswer("the exchange broke off"),
        }
    }
}

fn is_for_notices(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    url.username().is_empty() && url.password().is_none() && (url.scheme() == "https" || url.scheme() == "http" && here)
}

/// The key that notices are signed with. Never printed.
struct SigningSecret(Vec<u8>);

impl SigningSecret {
    fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix("whsec_").unwrap_or(text)).ok()?;
        NOTICE_SECRET_BYTES.contains(&bytes.len()).then_some(Self(bytes))
    }

    fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!("HMAC takes a key of any length"));
        for part in [id.as_bytes(), b".", seconds.to_string().as_bytes(), b".", body] {
            mac.update(part);
        }
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference libraries.
    #[test]
    fn a_signature_is_the_one_that_the_specification_shows() {
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_is_base64_of_enough_bytes() {
        let of = |bytes: usize| STANDARD.encode(vec![7; bytes]);
        assert!(
            SigningSecret::parse(&of(24)).is_some() && SigningSecret::parse(&format!("whsec_{}", of(64))).is_some()
        );
        for wrong in [of(23), of(65), "not base64!".to_owned(), String::new()] {
            assert!(SigningSecret::parse(&wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn notices_leave_this_machine_encrypted_and_carry_no_password_in_their_address() {
        let good = |text: &str| Url::parse(text).is_ok_and(|url| is_for_notices(&url));
        assert!(
            good("https://chat.example.com/hook?channel=a") && good("http://127.0.0.1:9/x") && good("http://[::1]/")
        );
        for wrong in ["http://chat.example.com/", "ftp://localhost/", "https://u:p@chat.example.com/", "chat"] {
            assert!(!good(wrong), "{wrong}");
        }
    }
}
