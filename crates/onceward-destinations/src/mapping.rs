//! From a tool's arguments to an HTTP request, as data.

use std::collections::BTreeMap;

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use onceward_core::canonical::{Canonical, InvalidJson};
use onceward_core::pointer::Pointer;
use serde_json::Value;

use crate::carrier::Carried;
use crate::limits::{BODY_BYTES_MAX, HEADER_VALUE_BYTES_MAX, TARGET_BYTES_MAX};
use crate::places::CannotPlace;
use crate::template::{JsonTemplate, NoText, Template, percent_encode, scalar_text};

/// How a tool's arguments become a request.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub(crate) method: Method,
    pub(crate) path: Template,
    pub(crate) query: BTreeMap<String, Template>,
    pub(crate) headers: Vec<(HeaderName, Template)>,
    pub(crate) body: BodyMapping,
    pub(crate) encoding: Encoding,
    /// Fields without which there is no request, though a placeholder that lacks them could be left out.
    pub(crate) required: Vec<Pointer>,
}

/// What the body is.
#[derive(Clone, Debug)]
pub(crate) enum BodyMapping {
    None,
    /// The arguments as they are.
    Arguments,
    Template(JsonTemplate),
}

/// How a body is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Encoding {
    #[default]
    Json,
    Form,
}

/// A request without its host and its credential.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) method: Method,
    /// Path and query, encoded.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
}

/// Why these arguments make no request. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmappable {
    /// A placeholder of the path, or a required field, has no value.
    #[error("the arguments have no {at}, and the request needs it")]
    Absent {
        /// The field.
        at: Pointer,
    },
    /// A list, an object or null stands where the request needs a text.
    #[error("{at} is a list, an object or null; the request needs a text, a number or a truth value there")]
    NotText {
        /// The field.
        at: Pointer,
    },
    /// The path would lead elsewhere.
    #[error("the path would have an empty segment, or one that is \".\" or \"..\", and lead to another resource")]
    Path,
    /// The path and query are too long.
    #[error("the path and query have {bytes} bytes, more than {TARGET_BYTES_MAX}")]
    TargetTooLong {
        /// Their length.
        bytes: usize,
    },
    /// A header's value has a line break or another character that no header carries, or is too long.
    #[error(
        "the header {header} would have a character that no header carries, or more than {HEADER_VALUE_BYTES_MAX} bytes"
    )]
    Header {
        /// Its name.
        header: String,
    },
    /// Something stands where the key or marker must go, or there is no room for it.
    #[error("{message}")]
    Place {
        /// What is in the way.
        message: String,
    },
    /// The body is too large, or a number in it is out of range.
    #[error("the request body cannot be written: {message}")]
    Body {
        /// Why.
        message: String,
    },
}

impl From<NoText> for Unmappable {
    fn from(error: NoText) -> Self {
        match error {
            NoText::Absent(at) => Self::Absent { at },
            NoText::NotText(at) => Self::NotText { at },
        }
    }
}

impl From<CannotPlace> for Unmappable {
    fn from(error: CannotPlace) -> Self {
        Self::Place { message: error.to_string() }
    }
}

impl From<InvalidJson> for Unmappable {
    fn from(error: InvalidJson) -> Self {
        Self::Body { message: error.to_string() }
    }
}

impl Mapping {
    /// The request for these arguments, with the key and whatever travels beside it.
    ///
    /// The same arguments and the same key give the same bytes: destinations compare them when they see a key again.
    pub(crate) fn render(&self, arguments: &Canonical, carried: &Carried<'_>) -> Result<Rendered, Unmappable> {
        let value = arguments.value();
        if let Some(absent) = self.required.iter().find(|pointer| pointer.get(value).is_none()) {
            return Err(Unmappable::Absent { at: absent.clone() });
        }
        let mut headers = self.headers(value)?;
        for (name, text) in carried.headers() {
            headers.insert(name.clone(), header_value(name.as_str(), text)?);
        }
        let body = self.body(arguments, carried)?;
        if body.is_some() {
            headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(self.encoding.content_type()));
        }
        Ok(Rendered { method: self.method.clone(), target: self.target(value, carried)?, headers, body })
    }

    fn headers(&self, arguments: &Value) -> Result<HeaderMap, Unmappable> {
        let mut headers = HeaderMap::new();
        for (name, template) in &self.headers {
            if let Some(text) = optional(template, arguments)? {
                headers.insert(name.clone(), header_value(name.as_str(), &text)?);
            }
        }
        Ok(headers)
    }

    fn target(&self, arguments: &Value, carried: &Carried<'_>) -> Result<String, Unmappable> {
        let named = |name: &str| carried.path_segment(name).map(ToOwned::to_owned);
        let mut target = self.path.render(arguments, &named, &percent_encode)?;
        // A dot segment is resolved away even when its dots are percent-encoded, and an empty one is another resource.
        let stays =
            target.split('/').skip(1).enumerate().all(|(at, segment)| {
                !matches!(segment, "." | "..") && (!segment.is_empty() || (at == 0 && target == "/"))
            });
        if !stays {
            return Err(Unmappable::Path);
        }
        let mut pairs = Vec::new();
        for (name, template) in &self.query {
            if let Some(text) = optional(template, arguments)? {
                pairs.push(format!("{}={}", percent_encode(name), percent_encode(&text)));
            }
        }
        pairs.extend(carried.query().map(|(name, text)| format!("{}={}", percent_encode(name), percent_encode(text))));
        if !pairs.is_empty() {
            target.push('?');
            target.push_str(&pairs.join("&"));
        }
        match target.len() {
            bytes if bytes > TARGET_BYTES_MAX => Err(Unmappable::TargetTooLong { bytes }),
            _ => Ok(target),
        }
    }

    fn body(&self, arguments: &Canonical, carried: &Carried<'_>) -> Result<Option<Vec<u8>>, Unmappable> {
        let value = match &self.body {
            BodyMapping::None => return Ok(None),
            BodyMapping::Arguments => Some(arguments.value().clone()),
            BodyMapping::Template(template) => template.render(arguments.value(), &|_| None)?,
        };
        let mut value = value.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        carried.put_into(&mut value)?;
        let bytes = match self.encoding {
            Encoding::Json => Canonical::from_value(value)?.text().as_bytes().to_vec(),
            Encoding::Form => form(&value, carried)?.into_bytes(),
        };
        match bytes.len() {
            length if length > BODY_BYTES_MAX => {
                Err(Unmappable::Body { message: format!("it has {length} bytes, more than {BODY_BYTES_MAX}") })
            }
            _ => Ok(Some(bytes)),
        }
    }

    /// Every field that a placeholder names.
    pub(crate) fn fields(&self) -> Vec<&Pointer> {
        let mut fields: Vec<&Pointer> = self.path.fields().collect();
        fields.extend(self.query.values().flat_map(Template::fields));
        fields.extend(self.headers.iter().flat_map(|(_, template)| template.fields()));
        if let BodyMapping::Template(template) = &self.body {
            fields.extend(template.fields());
        }
        fields
    }
}

impl Encoding {
    const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Form => "application/x-www-form-urlencoded",
        }
    }
}

/// The text of a template that may lack its field.
fn optional(template: &Template, arguments: &Value) -> Result<Option<String>, Unmappable> {
    match template.render(arguments, &|_| None, &str::to_owned) {
        Ok(text) => Ok(Some(text)),
        Err(NoText::Absent(_)) => Ok(None),
        Err(error @ NoText::NotText(_)) => Err(error.into()),
    }
}

fn header_value(name: &str, text: &str) -> Result<HeaderValue, Unmappable> {
    let refused = || Unmappable::Header { header: name.to_owned() };
    // Visible ASCII and spaces: anything else is read differently by different servers, and a line break is another header.
    let sound =
        text.len() <= HEADER_VALUE_BYTES_MAX && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    match sound {
        true => HeaderValue::from_str(text).map_err(|_| refused()),
        false => Err(refused()),
    }
}

/// Writes an object as a form. What lies inside another is named `a[b]` and `a[0]`; null and empty ones are left out,
/// because a form has no word for them.
fn form(value: &Value, carried: &Carried<'_>) -> Result<String, Unmappable> {
    let mut pairs = Vec::new();
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                form_field(name.clone(), member, &mut pairs);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(Unmappable::Body { message: "a form is written from an object".to_owned() });
        }
    }
    for (name, text) in carried.form() {
        if pairs.iter().any(|(taken, _)| taken == name) {
            return Err(Unmappable::Place {
                message: format!("the form has a field {name:?} already, where the key goes"),
            });
        }
        pairs.push((name.to_owned(), text.to_owned()));
    }
    let pairs: Vec<String> =
        pairs.iter().map(|(name, text)| format!("{}={}", percent_encode(name), percent_encode(text))).collect();
    Ok(pairs.join("&"))
}

fn form_field(name: String, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            pairs.push((name, scalar_text(value).unwrap_or_default()));
        }
        Value::Array(elements) => {
            for (at, element) in elements.iter().enumerate() {
                form_field(format!("{name}[{at}]"), element, pairs);
            }
        }
        Value::Object(members) => {
            for (member, value) in members {
                form_field(format!("{name}[{member}]"), value, pairs);
            }
        }
    }
}

#[cfg(test)]
mod tests;
