//! Which era a server is of, found by asking, and what each era adds to a request. Finding out never calls a tool.

use http::header::HeaderValue;
use serde_json::{Map, Value, json};

/// The stateless revision that is spoken.
pub(crate) const MODERN: &str = "2026-07-28";

/// The revision of the session era that is asked for.
pub(crate) const LEGACY: &str = "2025-11-25";

/// Revisions of the session era that are understood.
const LEGACY_KNOWN: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Errors by which a server of the stateless era refuses: it is no older one.
const MODERN_ERRORS: [i64; 3] = [-32020, -32021, UNSUPPORTED_VERSION];

/// The server does not speak the revision; its data lists those that it speaks.
const UNSUPPORTED_VERSION: i64 = -32022;

/// How a server is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Era {
    /// Every request carries what it is.
    Modern,
    /// There was a handshake.
    Legacy {
        /// The revision that was agreed on.
        version: String,
    },
}

/// What a server said of itself at the beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Greeting {
    /// How it is spoken to.
    pub era: Era,
    /// What it can do, as it said.
    pub capabilities: Value,
    /// Its name and version, as it said. Its own word: no rule goes by it.
    pub server_info: Value,
    /// What it tells hosts about its use.
    pub instructions: Option<String>,
}

impl Greeting {
    /// Whether the server says that it can do this, such as `resources`.
    #[must_use]
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(|value| !value.is_null() && value != &Value::Bool(false))
    }
}

/// A beginning of a conversation.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) era: Era,
    pub(crate) session: Option<HeaderValue>,
}

impl Conversation {
    /// The revision, as it stands in the header.
    pub(crate) fn version(&self) -> &str {
        match &self.era {
            Era::Modern => MODERN,
            Era::Legacy { version } => version,
        }
    }

    /// The parameters with what the era adds.
    pub(crate) fn params(&self, mut params: Value) -> Value {
        if !params.is_object() {
            params = json!({});
        }
        match &self.era {
            Era::Modern => add_context(&mut params),
            Era::Legacy { .. } => {}
        }
        params
    }
}

/// Puts revision, client and capabilities into `_meta`.
fn add_context(params: &mut Value) {
    let Some(params) = params.as_object_mut() else { return };
    let meta = params.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), MODERN.into());
        meta.insert("io.modelcontextprotocol/clientInfo".to_owned(), client_info());
        // What a caller can be asked, where the request is passed on for one; nothing for our own.
        meta.entry("io.modelcontextprotocol/clientCapabilities").or_insert_with(|| json!({}));
    }
}

fn client_info() -> Value {
    json!({ "name": "onceward", "version": env!("CARGO_PKG_VERSION") })
}

/// The question of the stateless era.
pub(crate) fn discover_params() -> Value {
    let mut params = json!({});
    add_context(&mut params);
    params
}

/// The question of the session era.
pub(crate) fn initialize_params() -> Value {
    json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client_info() })
}

/// What the answer to the first question says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Discovered {
    /// The server is of the stateless era.
    Modern(Greeting),
    /// It is asked in the older way.
    Legacy,
    /// It is of the stateless era and does not take us.
    Refused(String),
}

/// Reads the answer to `server/discover`.
pub(crate) fn discovered(result: &Value) -> Discovered {
    let Some(versions) = result.get("supportedVersions").and_then(Value::as_array) else { return Discovered::Legacy };
    if !versions.iter().any(|version| version == MODERN) {
        return Discovered::Legacy;
    }
    Discovered::Modern(Greeting {
        era: Era::Modern,
        capabilities: result.get("capabilities").cloned().unwrap_or_default(),
        server_info: result.pointer("/_meta/io.modelcontextprotocol~1serverInfo").cloned().unwrap_or_default(),
        instructions: result.get("instructions").and_then(Value::as_str).map(ToOwned::to_owned),
    })
}

/// Reads an error that answers `server/discover`.
pub(crate) fn not_discovered(code: i64, message: &str, data: Option<&Value>) -> Discovered {
    if code == UNSUPPORTED_VERSION {
        let spoken = data.and_then(|data| data.get("supported")?.as_array()).cloned().unwrap_or_default();
        return match spoken.iter().filter_map(Value::as_str).any(|version| LEGACY_KNOWN.contains(&version)) {
            true => Discovered::Legacy,
            false => Discovered::Refused(format!("it speaks none of our revisions of the protocol ({message})")),
        };
    }
    match MODERN_ERRORS.contains(&code) {
        true => Discovered::Refused(format!("it refuses the handshake: {message} ({code})")),
        false => Discovered::Legacy,
    }
}

/// Reads the result of `initialize`.
///
/// # Errors
/// What to tell a person.
pub(crate) fn initialized(result: &Value) -> Result<Greeting, String> {
    let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    if version == MODERN {
        return Err("it answered the older handshake with the newer revision".to_owned());
    }
    if !LEGACY_KNOWN.contains(&version) {
        return Err(format!("it speaks revision {version:?} of the protocol, which is not known here"));
    }
    Ok(Greeting {
        era: Era::Legacy { version: version.to_owned() },
        capabilities: result.get("capabilities").cloned().unwrap_or_default(),
        server_info: result.get("serverInfo").cloned().unwrap_or_default(),
        instructions: result.get("instructions").and_then(Value::as_str).map(ToOwned::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_the_stateless_era_does_not_have_means_an_older_server() {
        for code in [-32601, -32602, -32600, -32000, 0] {
            assert_eq!(not_discovered(code, "", None), Discovered::Legacy, "{code}");
        }
        assert!(matches!(not_discovered(-32021, "no", None), Discovered::Refused(_)));
        let speaks = |version: &str| not_discovered(-32022, "", Some(&json!({ "supported": [version] })));
        assert_eq!(speaks("2025-06-18"), Discovered::Legacy);
        assert!(matches!(speaks("2027-01-01"), Discovered::Refused(_)));
    }

    #[test]
    fn a_server_of_both_eras_is_spoken_to_in_the_newer_one() {
        let result = json!({ "supportedVersions": ["2025-11-25", "2026-07-28"], "capabilities": { "tools": {} } });
        let Discovered::Modern(greeting) = discovered(&result) else { panic!("{result}") };
        assert!(greeting.can("tools") && !greeting.can("resources"));
        assert_eq!(discovered(&json!({ "supportedVersions": ["2025-11-25"] })), Discovered::Legacy);
        assert_eq!(discovered(&json!({})), Discovered::Legacy);
    }

    #[test]
    fn a_request_of_the_stateless_era_carries_what_it_is_and_keeps_what_was_there() {
        let modern = Conversation { era: Era::Modern, session: None };
        let params = modern.params(json!({ "name": "t", "_meta": { "own": 1 } }));
        assert_eq!(params["_meta"]["own"], 1);
        assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], MODERN);
        let legacy = Conversation { era: Era::Legacy { version: LEGACY.to_owned() }, session: None };
        assert_eq!(legacy.params(json!({ "name": "t" })), json!({ "name": "t" }));
    }

    #[test]
    fn a_revision_that_is_not_known_is_refused() {
        assert!(initialized(&json!({ "protocolVersion": "2025-06-18" })).is_ok());
        for version in ["2024-01-01", "2026-07-28", ""] {
            assert!(initialized(&json!({ "protocolVersion": version })).is_err(), "{version}");
        }
    }
}
