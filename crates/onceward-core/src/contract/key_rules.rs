//! Where the idempotency key travels, and what it may look like there.

use serde::{Deserialize, Serialize};

use crate::key::OutboundKey;

/// The key's place and syntax.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRules {
    /// Where it may travel. The first one is used, and no other: some destinations refuse two.
    pub carriers: Vec<Carrier>,
    /// Whether the destination insists on one.
    #[serde(default)]
    pub required: Required,
    /// How it is written.
    #[serde(default)]
    pub encoding: Encoding,
    /// Which characters it may have.
    #[serde(default)]
    pub format: Format,
    /// The shortest allowed.
    #[serde(default)]
    pub min_length: Option<u32>,
    /// The longest allowed.
    #[serde(default)]
    pub max_length: Option<u32>,
    /// What the lengths count.
    #[serde(default)]
    pub length_unit: LengthUnit,
    /// What must travel beside it.
    #[serde(default)]
    pub companions: Vec<Companion>,
    /// Whether the vendor's own client makes up a key when the caller gives none: then a key that arrives at the proxy
    /// names a call, not an intention. Assumed unless the contract says otherwise.
    #[serde(default = "yes")]
    pub sdk_may_invent_key: bool,
}

const fn yes() -> bool {
    true
}

/// One place in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carrier {
    /// What kind of place.
    #[serde(rename = "in")]
    pub place: Place,
    /// Its name: a header's or field's name, or a JSON Pointer for `body`.
    pub name: String,
    /// Whether the key is only a key there, or names the thing itself.
    #[serde(default)]
    pub role: Role,
    /// On which requests, in words, where not on all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

/// Kinds of places in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A header.
    Header,
    /// A place in a JSON body, by JSON Pointer.
    Body,
    /// A field of a form body.
    Form,
    /// A query parameter.
    Query,
    /// A segment of the path, named as a placeholder.
    Path,
    /// A parameter of the operation, wherever its protocol puts parameters.
    Param,
    /// A field of the thing that is written.
    Field,
    /// The `_meta` of an MCP request.
    McpMeta,
    /// An argument of an MCP tool.
    Argument,
    /// A GraphQL directive.
    GraphqlDirective,
    /// A claim of a signed token.
    Jwt,
    /// A header inside a mail.
    SmtpHeader,
}

/// What the key is in its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Only a key.
    #[default]
    Key,
    /// The name of the thing, which may exist only once.
    NaturalKey,
}

/// Whether a key is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Required {
    /// Always.
    Yes,
    /// Never: a request without one is executed unprotected.
    No,
    /// On some requests.
    #[default]
    Conditional,
}

/// How a key is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// As it is.
    #[default]
    Raw,
    /// As a string of RFC 9651, in double quotes. Quoted and bare may be two keys to a server, so one form is used always.
    SfString,
}

/// Which characters a key may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Any visible ASCII.
    #[default]
    Any,
    /// A UUID.
    Uuid,
    /// Printable ASCII.
    PrintableAscii,
    /// Letters, digits, `-` and `_`.
    AlnumDashUnderscore,
}

/// What a length counts. Outbound keys are ASCII, so both are the same for ours; a caller's own may differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthUnit {
    /// Characters.
    Chars,
    /// Bytes.
    #[default]
    Bytes,
}

/// Something that travels beside the key and must be the same in every attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Companion {
    /// What kind of place.
    #[serde(rename = "in")]
    pub place: Place,
    /// Its name there.
    pub name: String,
    /// What is written there.
    pub value: CompanionValue,
}

/// What a companion says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompanionValue {
    /// The time of the first attempt as an HTTP date: that of the earliest claim, and the same in every later one.
    FirstSentHttpDate,
    /// This text.
    Text(String),
    /// Something that the sender of the request makes itself, such as a signature over the key.
    Made(String),
}

/// Why a key cannot be sent to this destination. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key of {length} characters does not fit the destination, which takes {wants}")]
pub struct KeyDoesNotFit {
    /// The key's length.
    pub length: usize,
    /// What would fit.
    pub wants: String,
}

impl KeyRules {
    /// The place that is used.
    #[must_use]
    pub fn carrier(&self) -> Option<&Carrier> {
        self.carriers.first()
    }

    /// The key as it is written at its place.
    ///
    /// # Errors
    /// [`KeyDoesNotFit`]: the destination would refuse or, worse, cut it. No dispatch may follow.
    pub fn written(&self, key: &OutboundKey) -> Result<String, KeyDoesNotFit> {
        let text = key.as_str();
        let long_enough = self.min_length.is_none_or(|min| text.len() >= min as usize);
        let short_enough = self.max_length.is_none_or(|max| text.len() <= max as usize);
        if !(long_enough && short_enough && self.format.admits(text)) {
            return Err(KeyDoesNotFit { length: text.len(), wants: self.wants() });
        }
        Ok(match self.encoding {
            Encoding::Raw => text.to_owned(),
            // RFC 9651 §3.3.3: only the quote and the backslash are escaped.
            Encoding::SfString => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        })
    }

    fn wants(&self) -> String {
        let characters = match self.format {
            Format::Any | Format::PrintableAscii => "printable ASCII characters",
            Format::Uuid => "characters of a UUID",
            Format::AlnumDashUnderscore => "letters, digits, '-' or '_'",
        };
        match self.max_length {
            Some(max) => format!("{} to {max} {characters}", self.min_length.unwrap_or(1)),
            None => format!("{} or more {characters}", self.min_length.unwrap_or(1)),
        }
    }
}

impl Format {
    fn admits(self, text: &str) -> bool {
        match self {
            Self::Any | Self::PrintableAscii => true,
            Self::Uuid => is_uuid(text),
            Self::AlnumDashUnderscore => {
                text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            }
        }
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> KeyRules {
        toml::from_str(text).unwrap()
    }

    fn key(text: &str) -> OutboundKey {
        OutboundKey::parse(text).unwrap()
    }

    const HEADER: &str = "carriers = [{ in = \"header\", name = \"Idempotency-Key\" }]\n";

    #[test]
    fn a_structured_string_is_quoted_and_escaped() {
        let rules = rules(&format!("{HEADER}encoding = \"sf_string\""));
        assert_eq!(rules.written(&key("a\"b\\c")).unwrap(), "\"a\\\"b\\\\c\"");
    }

    #[test]
    fn a_key_that_does_not_fit_is_never_cut() {
        assert!(rules(&format!("{HEADER}max_length = 3")).written(&key("abcd")).is_err());
        assert!(rules(&format!("{HEADER}min_length = 5")).written(&key("abcd")).is_err());
        assert!(rules(&format!("{HEADER}format = \"uuid\"")).written(&key("abcd")).is_err());
        assert!(rules(&format!("{HEADER}format = \"alnum_dash_underscore\"")).written(&key("a.b")).is_err());
        let uuid = key("01234567-89ab-8def-8123-456789abcdef");
        assert!(rules(&format!("{HEADER}format = \"uuid\"\nmax_length = 36")).written(&uuid).is_ok());
    }

    #[test]
    fn a_vendors_client_is_assumed_to_make_up_keys() {
        assert!(rules(HEADER).sdk_may_invent_key);
    }
}
