//! Texts with placeholders: `Ticket {/title}`, `/orders/{/id}`. Data, not a language.

use onceward_core::pointer::{InvalidPointer, Pointer};
use serde_json::Value;

/// What the placeholders without `/` stand for.
pub(crate) type Named<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// A text with placeholders. `{{` and `}}` stand for the braces themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// `{/pointer}`: a field of the arguments.
    Field(Pointer),
    /// `{name}`: something that is no argument, such as the key.
    Named(String),
}

/// Why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidTemplate {
    /// A `{` without its `}`.
    #[error("{text:?} has a \"{{\" that is not closed; write \"{{{{\" for the brace itself")]
    Open { text: String },
    /// A `}` without its `{`.
    #[error("{text:?} has a \"}}\" that closes nothing; write \"}}}}\" for the brace itself")]
    Close { text: String },
    /// Not a pointer.
    #[error("{0}")]
    Pointer(#[from] InvalidPointer),
    /// A placeholder that names nothing known here.
    #[error("{{{name}}} names nothing; a field of the arguments is written {{/{name}}}")]
    Name { name: String },
    /// The whole arguments have no text.
    #[error("\"{{}}\" names no field; a field of the arguments is written {{/name}}")]
    Empty,
}

/// Why a template has no text for these arguments. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoText {
    /// The field is not there.
    #[error("the arguments have no {0}")]
    Absent(Pointer),
    /// The field is a list, an object or null.
    #[error("{0} is a list, an object or null, and has no place in a text")]
    NotText(Pointer),
}

impl Template {
    /// Parses a text; `names` are the placeholders without `/` that mean something here.
    pub(crate) fn parse(text: &str, names: &[&str]) -> Result<Self, InvalidTemplate> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return Err(InvalidTemplate::Close { text: text.to_owned() });
            }
            let Some((name, after)) = after.split_once('}') else {
                return Err(InvalidTemplate::Open { text: text.to_owned() });
            };
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(placeholder(name, names)?);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { parts })
    }

    /// The text for these arguments; `encode` is applied to what is put in, not to what the configuration wrote.
    pub(crate) fn render(
        &self,
        arguments: &Value,
        named: &Named<'_>,
        encode: &dyn Fn(&str) -> String,
    ) -> Result<String, NoText> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Field(pointer) => {
                    let value = pointer.get(arguments).ok_or_else(|| NoText::Absent(pointer.clone()))?;
                    let value = scalar_text(value).ok_or_else(|| NoText::NotText(pointer.clone()))?;
                    text.push_str(&encode(&value));
                }
                Part::Named(name) => text.push_str(&encode(&named(name).unwrap_or_default())),
            }
        }
        Ok(text)
    }

    /// The text for people: what has no text is left out.
    pub(crate) fn render_leniently(&self, arguments: &Value) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Field(pointer) => {
                    text.push_str(&pointer.get(arguments).and_then(scalar_text).unwrap_or_default());
                }
                Part::Named(_) => {}
            }
        }
        text
    }

    /// The pointer, if the whole text is one placeholder of a field.
    pub(crate) fn sole_field(&self) -> Option<&Pointer> {
        match self.parts.as_slice() {
            [Part::Field(pointer)] => Some(pointer),
            _ => None,
        }
    }

    /// The fields it names.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Pointer> {
        self.parts.iter().filter_map(|part| match part {
            Part::Field(pointer) => Some(pointer),
            Part::Text(_) | Part::Named(_) => None,
        })
    }

    /// Whether it has the placeholder `{name}`.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Named(named) if named == name))
    }
}

fn placeholder(name: &str, names: &[&str]) -> Result<Part, InvalidTemplate> {
    if name.is_empty() {
        return Err(InvalidTemplate::Empty);
    }
    if name.starts_with('/') {
        return Ok(Part::Field(Pointer::parse(name)?));
    }
    match names.contains(&name) {
        true => Ok(Part::Named(name.to_owned())),
        false => Err(InvalidTemplate::Name { name: name.to_owned() }),
    }
}

/// The text of a value that has one; a number counts as its digits.
pub(crate) fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(bool) => Some(bool.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Percent-encodes everything but the unreserved characters of RFC 3986, so that a value stays inside its segment or
/// parameter whatever it is.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => {
                out.push('%');
                out.push_str(&onceward_core::hex::encode(&[byte]).to_ascii_uppercase());
            }
        }
    }
    out
}

/// A JSON value in which texts are templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JsonTemplate {
    /// Taken as it stands.
    Fixed(Value),
    /// A text that is exactly one `{/pointer}`: the value itself, whatever its type.
    Value(Pointer),
    /// Any other text.
    Text(Template),
    /// A list.
    List(Vec<JsonTemplate>),
    /// An object, in the order in which it was written.
    Object(Vec<(String, JsonTemplate)>),
}

impl JsonTemplate {
    /// Parses the value; an error names the place inside it.
    pub(crate) fn parse(value: &Value, names: &[&str]) -> Result<Self, (Vec<String>, InvalidTemplate)> {
        let inside = |token: String, value: &Value| {
            Self::parse(value, names).map_err(|(mut place, error)| {
                place.insert(0, token);
                (place, error)
            })
        };
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Self::Fixed(value.clone())),
            Value::String(text) => {
                let template = Template::parse(text, names).map_err(|error| (Vec::new(), error))?;
                Ok(match template.sole_field() {
                    Some(pointer) => Self::Value(pointer.clone()),
                    None => Self::Text(template),
                })
            }
            Value::Array(elements) => elements
                .iter()
                .enumerate()
                .map(|(at, element)| inside(at.to_string(), element))
                .collect::<Result<_, _>>()
                .map(Self::List),
            Value::Object(members) => members
                .iter()
                .map(|(name, member)| Ok((name.clone(), inside(name.clone(), member)?)))
                .collect::<Result<_, _>>()
                .map(Self::Object),
        }
    }

    /// The value for these arguments; `None` where it names a field that is not there, so that its key is left out.
    pub(crate) fn render(&self, arguments: &Value, named: &Named<'_>) -> Result<Option<Value>, NoText> {
        match self {
            Self::Fixed(value) => Ok(Some(value.clone())),
            Self::Value(pointer) => Ok(pointer.get(arguments).cloned()),
            Self::Text(template) => match template.render(arguments, named, &str::to_owned) {
                Ok(text) => Ok(Some(Value::String(text))),
                Err(NoText::Absent(_)) => Ok(None),
                Err(error @ NoText::NotText(_)) => Err(error),
            },
            Self::List(elements) => {
                let rendered: Result<Vec<Option<Value>>, NoText> =
                    elements.iter().map(|element| element.render(arguments, named)).collect();
                Ok(Some(Value::Array(rendered?.into_iter().flatten().collect())))
            }
            Self::Object(members) => {
                let mut object = serde_json::Map::new();
                for (name, member) in members {
                    if let Some(value) = member.render(arguments, named)? {
                        object.insert(name.clone(), value);
                    }
                }
                Ok(Some(Value::Object(object)))
            }
        }
    }

    /// Whether it has the placeholder `{name}` anywhere.
    pub(crate) fn names(&self, name: &str) -> bool {
        match self {
            Self::Fixed(_) | Self::Value(_) => false,
            Self::Text(template) => template.names(name),
            Self::List(elements) => elements.iter().any(|element| element.names(name)),
            Self::Object(members) => members.iter().any(|(_, member)| member.names(name)),
        }
    }

    /// The fields it names.
    pub(crate) fn fields(&self) -> Vec<&Pointer> {
        match self {
            Self::Fixed(_) => Vec::new(),
            Self::Value(pointer) => vec![pointer],
            Self::Text(template) => template.fields().collect(),
            Self::List(elements) => elements.iter().flat_map(Self::fields).collect(),
            Self::Object(members) => members.iter().flat_map(|(_, member)| member.fields()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(template: &str, arguments: &Value) -> Result<String, NoText> {
        Template::parse(template, &["key"]).unwrap().render(arguments, &|_| Some("K".to_owned()), &percent_encode)
    }

    #[test]
    fn placeholders_take_fields_and_braces_can_be_written() {
        let arguments = json!({ "id": "a/b ü", "n": { "x": 7 }, "yes": true });
        assert_eq!(render("/t/{/id}/{/n/x}", &arguments).unwrap(), "/t/a%2Fb%20%C3%BC/7");
        assert_eq!(render("{{{/yes}}}", &arguments).unwrap(), "{true}");
        assert_eq!(render("{key}", &arguments).unwrap(), "K");
        assert_eq!(render("plain", &arguments).unwrap(), "plain");
    }

    #[test]
    fn a_field_that_is_absent_or_no_text_is_an_error_and_not_an_empty_text() {
        let arguments = json!({ "list": [], "none": null });
        assert!(matches!(render("{/id}", &arguments), Err(NoText::Absent(_))));
        assert!(matches!(render("{/list}", &arguments), Err(NoText::NotText(_))));
        assert!(matches!(render("{/none}", &arguments), Err(NoText::NotText(_))));
    }

    #[test]
    fn a_misspelled_template_is_refused() {
        for text in ["{", "a}", "{/a", "{}", "{title}", "{/a~2}"] {
            assert!(Template::parse(text, &["key"]).is_err(), "{text}");
        }
    }

    #[test]
    fn a_leaf_that_is_one_placeholder_takes_the_value_itself_and_an_absent_one_leaves_its_key_out() {
        let template = JsonTemplate::parse(&json!({
            "n": "{/n}", "text": "n is {/n}", "gone": "{/gone}", "line": "see {/gone}", "list": ["{/gone}", "{/l}", 1],
            "fixed": true,
        }), &[])
        .unwrap();
        let rendered = template.render(&json!({ "n": 7, "l": ["x"] }), &|_| None).unwrap().unwrap();
        assert_eq!(rendered, json!({ "n": 7, "text": "n is 7", "list": [["x"], 1], "fixed": true }));
    }

    #[test]
    fn an_error_inside_a_body_names_its_place() {
        let (place, _) = JsonTemplate::parse(&json!({ "a": ["ok", { "b": "{x" }] }), &[]).unwrap_err();
        assert_eq!(place, ["a", "1", "b"]);
    }
}
