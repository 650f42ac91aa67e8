//! `auth = { … }`: the credential of a destination.

use onceward_core::contract::Contract;
use toml::Spanned;
use toml::de::DeValue;

use super::{Environment, Surroundings};
use crate::auth::Auth;
use crate::config::{AuthText, Problems, table_of};
use crate::secrets::{self, Secret, SecretReference};

const AUTH_WAYS: &str = "write { bearer = \"env:NAME\" }, { header = \"X-Key\", value = \"env:NAME\" } or \
                         { user = \"NAME\", password = \"env:NAME\" }";

/// Reads the credential; mistakes are recorded, and none repeats the secret.
pub(super) fn auth(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    written: Spanned<DeValue<'_>>,
) -> Option<(Auth, Secret)> {
    let path = [path, &["auth"]].concat();
    let Ok((table, span)) = table_of(written) else {
        problems.add(&path, "a credential is a table that names its secret", AUTH_WAYS);
        return None;
    };
    // What the reader would say could repeat the secret, so only the place is taken from it.
    let text = <AuthText as serde::Deserialize>::deserialize(toml::de::ValueDeserializer::from(Spanned::new(
        span,
        DeValue::Table(table),
    )));
    let AuthText { bearer, header, value, user, password } = match text {
        Ok(text) => text,
        Err(_) => {
            problems.add(&path, "a field is unknown or no text", AUTH_WAYS);
            return None;
        }
    };
    let mut secret = |field: &str, reference: &str| {
        let path = [&path[..], &[field]].concat();
        let reference: SecretReference = match reference.parse() {
            Ok(reference) => reference,
            Err(error) => {
                problems.add(&path, error.to_string(), "");
                return None;
            }
        };
        match secrets::read(&reference, surroundings.base_dir, surroundings.secrets) {
            Ok(secret) => Some(secret),
            Err(error) => {
                problems.add(&path, error.to_string(), "");
                None
            }
        }
    };
    let built = match (bearer, header, value, user, password) {
        (Some(bearer), None, None, None, None) => {
            let secret = secret("bearer", &bearer)?;
            Auth::bearer(&secret).map(|auth| (auth, secret))
        }
        (None, Some(header), Some(value), None, None) => {
            let secret = secret("value", &value)?;
            match header.parse() {
                Ok(name) => Auth::header(name, &secret).map(|auth| (auth, secret)),
                Err(_) => {
                    problems.add(&[&path[..], &["header"]].concat(), "this is no header name", AUTH_WAYS);
                    return None;
                }
            }
        }
        (None, None, None, Some(user), Some(password)) => {
            let secret = secret("password", &password)?;
            Auth::basic(&user, &secret).map(|auth| (auth, secret))
        }
        _ => {
            problems.add(&path, "a credential is given in one of three ways", AUTH_WAYS);
            return None;
        }
    };
    if built.is_err() {
        problems.add(
            &path,
            "the secret has a character that no header carries",
            "write it as one line of visible ASCII",
        );
    }
    built.ok()
}

/// A development environment does not write into a live system.
pub(super) fn check_live(
    problems: &mut Problems<'_>,
    surroundings: &Surroundings<'_>,
    path: &[&str],
    contract: &Contract,
    auth: Option<&(Auth, Secret)>,
) {
    let (Some(live), Some((_, secret))) = (&contract.live_credential, auth) else { return };
    match surroundings.environment {
        Environment::Dev if live.recognises(secret.expose()) => problems.add(
            &[path, &["auth"]].concat(),
            format!("{} is a credential of the live system, and this is a development environment", secret.reference()),
            "use a test credential, or write environment = \"production\"",
        ),
        Environment::Dev | Environment::Production => {}
    }
}
