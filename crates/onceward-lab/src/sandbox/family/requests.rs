//! What a request to a spoken interface says: who asks, under which key, with which parameters.

use axum::body::Bytes;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use onceward_core::contract::{Contract, LookupRequest, Place};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::draft::put_at;
use super::keys::{self, Sighting};
use super::reading::captures;
use crate::sandbox::contract::{Accounts, SandboxContract};
use crate::sandbox::in_flight::AccountKey;
use crate::sandbox::problem::Answer;

/// What the tokens of test systems begin with. Behind a dot stands which of an account's tokens it is: rotating a token
/// changes nothing else.
const TEST_PREFIXES: [&str; 3] = ["sandbox-", "sk_test_", "rk_test_"];

/// A request, read.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) family: &'a Contract,
    pub(super) parts: &'a Parts,
    pub(super) purpose: Purpose,
    pub(super) caller: Result<Caller, Box<Answer>>,
    /// The key in its place, as it was written there.
    pub(super) sighting: Option<Sighting>,
    /// The marker in the field that the contract names.
    pub(super) marker: Option<String>,
    pub(super) query: Vec<(String, String)>,
    /// The parameters, or why they cannot be read.
    pub(super) body: Result<Value, Box<Answer>>,
    /// The path of what is made or read, without a key that stands in it.
    pub(super) collection: String,
}

/// Whether a request may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Write,
    Read,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    account: String,
    mode: Mode,
    token: String,
}

/// Test or live: two worlds of one account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Test,
    Live,
}

impl Caller {
    /// Whose things it sees: those of its account, in its mode.
    pub(super) fn world(&self) -> String {
        match self.mode {
            Mode::Test => self.account.clone(),
            Mode::Live => format!("{}/live", self.account),
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.mode == Mode::Live
    }

    fn read(contract: &SandboxContract, family: &Contract, headers: &HeaderMap) -> Result<Self, Box<Answer>> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let Some(token) = text(AUTHORIZATION.as_str()).or_else(|| text("x-api-key")) else {
            return match contract.accounts {
                Accounts::Open => Ok(Self { account: "default".to_owned(), mode: Mode::Test, token: String::new() }),
                Accounts::BearerRequired => {
                    Err(Box::new(Answer::problem(StatusCode::UNAUTHORIZED, "unauthorized", "There is no credential.")))
                }
            };
        };
        let token = token.strip_prefix("Bearer ").or_else(|| token.strip_prefix("Basic ")).unwrap_or(token).trim();
        let live = family.live_credential.iter().flat_map(|live| &live.prefixes).find(|live| token.starts_with(*live));
        let test = TEST_PREFIXES.into_iter().find(|prefix| token.starts_with(prefix)).unwrap_or_default();
        let named = token.get(live.map_or(test.len(), String::len)..).unwrap_or(token);
        let own = named.split('.').next().filter(|account| !account.is_empty()).unwrap_or("default");
        Ok(Self {
            account: text("stripe-account").unwrap_or(own).to_owned(),
            mode: if live.is_some() { Mode::Live } else { Mode::Test },
            token: token.to_owned(),
        })
    }
}

impl<'a> Asked<'a> {
    pub(super) fn read(
        contract: &SandboxContract,
        family: &'a Contract,
        parts: &'a Parts,
        body: Result<Bytes, Answer>,
    ) -> Self {
        let query = parts.uri.query().map(pairs).unwrap_or_default();
        let body = body.map_err(Box::new).and_then(|body| parameters(&parts.headers, &body).map_err(Box::new));
        let nothing = Value::Null;
        let said = body.as_ref().unwrap_or(&nothing);
        let sighting = family.key.as_ref().and_then(|rules| keys::sighted(rules, parts, &query, said));
        let marker = family.marker.as_ref().and_then(|field| match field.at.get(said)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        });
        let path = parts.uri.path().trim_end_matches('/');
        let collection = match &sighting {
            Some(sighting) if sighting.place == Place::Path => path.rsplit_once('/').map_or(path, |(before, _)| before),
            Some(_) | None => path,
        };
        Self {
            purpose: purpose(family, parts),
            caller: Caller::read(contract, family, &parts.headers),
            sighting,
            marker,
            collection: if collection.is_empty() { "/".to_owned() } else { collection.to_owned() },
            query,
            body,
            family,
            parts,
        }
    }

    /// The key as it was written, for the log and the auditor.
    pub(super) fn key_text(&self) -> Option<String> {
        self.sighting.as_ref().map(|sighting| sighting.plain())
    }

    /// The key within what it is unique in: the contract's dimensions. Two accounts never share one.
    pub(super) fn scoped(&self, caller: &Caller, key: &str) -> AccountKey {
        let dimension = |name: &String| match name.as_str() {
            "mode" | "mode_or_sandbox" | "account_or_sandbox" | "environment" => caller.world(),
            "endpoint" | "operation" | "resource" => format!("{} {}", self.parts.method, self.collection),
            "credential" | "token" | "api_key" => caller.token.clone(),
            _ => caller.account.clone(),
        };
        let scope: Vec<String> = self.family.scope.dimensions.iter().map(dimension).collect();
        AccountKey { account: format!("{} {}", caller.account, scope.join(" ")), key: key.to_owned() }
    }

    /// SHA-256, in hexadecimal, over what was asked for, without the key and what travels with it.
    pub(super) fn fingerprint(&self, body: &Value) -> String {
        let mut body = body.clone();
        let mut query = self.query.clone();
        if let Some(sighting) = &self.sighting {
            sighting.take_out_of(&mut body, &mut query);
        }
        let asked =
            json!({ "method": self.parts.method.as_str(), "at": self.collection, "query": query, "body": body });
        let canonical = serde_json_canonicalizer::to_vec(&asked).unwrap_or_else(|_| asked.to_string().into_bytes());
        hex(&canonical)
    }
}

/// A request that the contract's lookup describes reads, whatever its method is.
fn purpose(family: &Contract, parts: &Parts) -> Purpose {
    if matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) || parts.method.as_str() == "QUERY" {
        return Purpose::Read;
    }
    if let Some(LookupRequest::Http { method, path, .. }) = family.lookup.as_ref().map(|lookup| &lookup.request)
        && method == parts.method.as_str()
        && captures(path, parts.uri.path()).is_some()
    {
        return Purpose::Read;
    }
    Purpose::Write
}

/// The parameters of a body: a JSON object, or a form, whose nested names are read as vendors write them: `metadata[x]`.
fn parameters(headers: &HeaderMap, body: &Bytes) -> Result<Value, Answer> {
    let malformed = |detail: String| Answer::problem(StatusCode::BAD_REQUEST, "malformed", detail);
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("application/json");
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        _ if body.is_empty() => Ok(Value::Object(Map::new())),
        "application/x-www-form-urlencoded" => {
            let text =
                std::str::from_utf8(body).map_err(|error| malformed(format!("The form is no text: {error}.")))?;
            let mut form = Value::Object(Map::new());
            for (name, value) in pairs(text) {
                put_at(&mut form, &steps(&name), value.into());
            }
            Ok(form)
        }
        kind if kind == "application/json" || kind.ends_with("+json") || kind.contains("amz-json") => {
            let value: Value =
                serde_json::from_slice(body).map_err(|error| malformed(format!("The body is not JSON: {error}.")))?;
            match value {
                Value::Object(_) => Ok(value),
                _ => Err(malformed("The body is not a JSON object.".to_owned())),
            }
        }
        // A file or a multipart body: what it is made of does not matter here, only whether it is the same.
        _ => Ok(json!({ "content": hex(body) })),
    }
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `a[b][]` as its steps.
fn steps(name: &str) -> Vec<&str> {
    let mut steps = name.split('[').map(|part| part.trim_end_matches(']'));
    steps.next().into_iter().chain(steps).collect()
}

/// Names and values of a form or a query, decoded.
pub(super) fn pairs(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

/// Percent-decoded; a plus is a space. What decodes to no text keeps its replacement characters.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = |at: usize| after.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        (rest, _) = match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                (&after[2..], bytes.push(u8::try_from(high * 16 + low).unwrap_or_default()))
            }
            (b'+', _, _) => (after, bytes.push(b' ')),
            (other, _, _) => (after, bytes.push(*other)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_as_vendors_nest_it() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "application/x-www-form-urlencoded".parse().expect("a kind"));
        let text = "amount=5&metadata[order]=a%20b&metadata[x]=1%2B1&items[0][price]=p&items[1][price]=q&expand[]=a&expand[]=b";
        let body = parameters(&headers, &Bytes::from(text)).expect("readable");
        assert_eq!(
            body,
            json!({ "amount": "5", "metadata": { "order": "a b", "x": "1+1" },
                "items": [{ "price": "p" }, { "price": "q" }], "expand": ["a", "b"] })
        );
    }

    #[test]
    fn a_token_names_its_account_and_its_mode_and_a_rotated_one_names_the_same() {
        let family = onceward_core::contract::built_in().expect("contracts").remove(0);
        let who = |token: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, token.parse().expect("a value"));
            Caller::read(&SandboxContract::default(), &family, &headers).expect("a caller").world()
        };
        for token in ["Bearer sk_test_acme", "Bearer sk_test_acme.2", "Bearer rk_test_acme", "Bearer sandbox-acme"] {
            assert_eq!(who(token), "acme", "{token}");
        }
        assert_eq!(who("Bearer sk_live_acme"), "acme/live");
    }
}
