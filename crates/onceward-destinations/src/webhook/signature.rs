//! Two ways in which vendors sign events.
//!
//! Standard Webhooks (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>, read 2026-11-29):
//! `webhook-id`, `webhook-timestamp`, and `webhook-signature` with one or more `v1,` and the base64 of an HMAC-SHA-256 over
//! `id.timestamp.body`. Vendors that use Svix name the same headers `svix-…`.
//!
//! Stripe (<https://docs.stripe.com/webhooks?verify=verify-manually>, read 2026-11-29): `Stripe-Signature: t=…,v1=…` with the hex of an
//! HMAC-SHA-256 over `t.body`; the secret is the whole text with its `whsec_`.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use onceward_core::hex;
use onceward_core::limits::OPERATION_ID_BYTES_MAX;
use onceward_core::time::Timestamp;
use secrecy::{ExposeSecret as _, SecretSlice};
use sha2::Sha256;

use crate::limits::{WEBHOOK_SECRET_BYTES_MIN, WEBHOOK_SIGNATURES_MAX};

/// How events are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// As Standard Webhooks has it.
    Standard,
    /// As Stripe does.
    Stripe,
}

/// Why an event is not believed. For our log; its sender is told no more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthentic {
    /// A header of the signature is missing, doubled or malformed.
    #[error("a header of the signature is missing, doubled or malformed")]
    Headers,
    /// It was signed too long ago, or in the future.
    #[error("it was not signed within the tolerance")]
    Time,
    /// No signature is one of the configured secrets'.
    #[error("no signature is one of the configured secrets'")]
    Signature,
}

/// One secret that events may be signed with. Never printed.
pub(crate) struct WebhookSecret(SecretSlice<u8>);

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

/// The text is no secret of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidSecret {
    /// It is no base64.
    #[error("the secret is no base64, with or without whsec_ before it")]
    Base64,
    /// It is too short to keep anybody from guessing it.
    #[error("the secret has fewer than {WEBHOOK_SECRET_BYTES_MIN} bytes")]
    Short,
}

impl WebhookSecret {
    pub(crate) fn parse(kind: Kind, text: &str) -> Result<Self, InvalidSecret> {
        let bytes = match kind {
            Kind::Standard => {
                STANDARD.decode(text.strip_prefix("whsec_").unwrap_or(text)).map_err(|_| InvalidSecret::Base64)?
            }
            Kind::Stripe => text.as_bytes().to_vec(),
        };
        if bytes.len() < WEBHOOK_SECRET_BYTES_MIN {
            return Err(InvalidSecret::Short);
        }
        Ok(Self(bytes.into()))
    }

    /// Whether this is the code of these parts; takes as long for a wrong one as for the right one.
    fn signed(&self, parts: &[&[u8]], code: &[u8]) -> bool {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.expose_secret())
            .unwrap_or_else(|_| unreachable!("HMAC takes a key of any length"));
        for part in parts {
            mac.update(part);
        }
        mac.verify_slice(code).is_ok()
    }
}

/// The delivery's id, where the headers have one, once the signature is proved.
pub(super) fn verify(
    kind: Kind,
    secrets: &[WebhookSecret],
    tolerance: Duration,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<Option<String>, Unauthentic> {
    match kind {
        Kind::Standard => standard(secrets, tolerance, headers, body, now).map(Some),
        Kind::Stripe => stripe(secrets, tolerance, headers, body, now).map(|()| None),
    }
}

fn standard(
    secrets: &[WebhookSecret],
    tolerance: Duration,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<String, Unauthentic> {
    let family = if headers.contains_key("webhook-id") { "webhook" } else { "svix" };
    let part = |name: &str| one(headers, &format!("{family}-{name}"));
    let (id, time, signatures) = (part("id")?, part("timestamp")?, part("signature")?);
    if id.is_empty() || id.len() > OPERATION_ID_BYTES_MAX || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Unauthentic::Headers);
    }
    within(time, tolerance, now)?;
    let codes = signatures.split(' ').filter_map(|signature| signature.strip_prefix("v1,"));
    let codes = codes.take(WEBHOOK_SIGNATURES_MAX).filter_map(|code| STANDARD.decode(code).ok());
    let parts = [id.as_bytes(), b".", time.as_bytes(), b".", body];
    any_signed(secrets, &parts, codes).map(|()| id.to_owned())
}

fn stripe(
    secrets: &[WebhookSecret],
    tolerance: Duration,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<(), Unauthentic> {
    let header = one(headers, "stripe-signature")?;
    let fields = || header.split(',').filter_map(|field| field.trim().split_once('='));
    let mut times = fields().filter(|(name, _)| *name == "t").map(|(_, value)| value);
    let (Some(time), None) = (times.next(), times.next()) else { return Err(Unauthentic::Headers) };
    within(time, tolerance, now)?;
    let codes = fields().filter(|(name, _)| *name == "v1").take(WEBHOOK_SIGNATURES_MAX);
    let codes = codes.filter_map(|(_, code)| hex::decode(code));
    any_signed(secrets, &[time.as_bytes(), b".", body], codes)
}

fn any_signed(
    secrets: &[WebhookSecret],
    parts: &[&[u8]],
    codes: impl Iterator<Item = Vec<u8>>,
) -> Result<(), Unauthentic> {
    let codes: Vec<Vec<u8>> = codes.collect();
    let signed = secrets.iter().any(|secret| codes.iter().any(|code| secret.signed(parts, code)));
    if signed { Ok(()) } else { Err(Unauthentic::Signature) }
}

/// A header that is there once.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, Unauthentic> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_| Unauthentic::Headers),
        (Some(_) | None, _) => Err(Unauthentic::Headers),
    }
}

/// A recorded event is not to be played again later, and one from the future would be good for that long.
fn within(seconds: &str, tolerance: Duration, now: Timestamp) -> Result<(), Unauthentic> {
    let digits = !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit());
    let signed: i64 = digits.then(|| seconds.parse().ok()).flatten().ok_or(Unauthentic::Headers)?;
    let apart = now.as_micros().div_euclid(1_000_000).abs_diff(signed);
    if apart <= tolerance.as_secs() { Ok(()) } else { Err(Unauthentic::Time) }
}
