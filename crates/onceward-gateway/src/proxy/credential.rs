//! The caller's token, where a vendor's client puts its vendor's credential.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

/// How our tokens begin, whatever they are for.
const OURS: &str = "ow_";

/// The token as an `Authorization` header would carry it here: out of the header in which the destination takes its
/// credential, out of a bearer token, or out of the user name or password of `Basic`.
///
/// A header that is given twice is nobody's credential.
pub(super) fn bearer(headers: &HeaderMap, slot: Option<&HeaderName>) -> Option<String> {
    match slot.filter(|name| **name != AUTHORIZATION && headers.contains_key(*name)) {
        Some(name) => one(headers, name).map(|token| format!("Bearer {token}")),
        None => {
            let value = one(headers, &AUTHORIZATION)?;
            let (scheme, rest) = value.split_once(' ')?;
            match scheme.eq_ignore_ascii_case("basic") {
                true => basic(rest.trim()).map(|token| format!("Bearer {token}")),
                false => Some(value.to_owned()),
            }
        }
    }
}

fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok().map(str::trim),
        (Some(_) | None, Some(_) | None) => None,
    }
}

/// Clients put a key into the user name, some into the password.
fn basic(encoded: &str) -> Option<String> {
    let decoded = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    let token = if password.starts_with(OURS) && !user.starts_with(OURS) { password } else { user };
    Some(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(headers: &[(&str, &str)], slot: Option<&str>) -> Option<String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        bearer(&map, slot.map(|name| HeaderName::from_bytes(name.as_bytes()).unwrap()).as_ref())
    }

    #[test]
    fn a_token_is_found_wherever_a_client_puts_a_key() {
        let token = Some("Bearer ow_agent_x".to_owned());
        assert_eq!(found(&[("authorization", "Bearer ow_agent_x")], None), token);
        assert_eq!(found(&[("x-api-key", "ow_agent_x")], Some("x-api-key")), token);
        for pair in ["ow_agent_x:", "ow_agent_x:anything", "user:ow_agent_x"] {
            let header = format!("Basic {}", STANDARD.encode(pair));
            assert_eq!(found(&[("authorization", &header)], None), token, "{pair}");
        }
    }

    #[test]
    fn no_credential_is_guessed() {
        for headers in [
            &[][..],
            &[("authorization", "ow_agent_x")],
            &[("authorization", "Bearer a"), ("authorization", "Bearer b")],
            &[("authorization", "Basic ???")],
            &[("x-api-key", "ow_agent_x")],
        ] {
            assert_eq!(found(headers, None), None, "{headers:?}");
        }
    }
}
