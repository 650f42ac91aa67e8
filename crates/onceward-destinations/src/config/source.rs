//! Where each field stands in the text, and the mistakes found so far.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::ConfigError;

/// A table whose values know where they stand.
pub(crate) type TextTable<'t> = DeTable<'t>;

/// The mistakes of one file.
pub(crate) struct Problems<'t> {
    file: &'t str,
    text: &'t str,
    /// Each field and where it stands, enclosing fields first.
    fields: Vec<(Vec<String>, Range<usize>)>,
    errors: Vec<ConfigError>,
}

impl<'t> Problems<'t> {
    /// Reads the text; `None` and one mistake where it is no TOML.
    pub(crate) fn parse(file: &'t str, text: &'t str) -> Result<(Self, TextTable<'t>), Vec<ConfigError>> {
        let mut problems = Self { file, text, fields: Vec::new(), errors: Vec::new() };
        match DeTable::parse(text) {
            Ok(table) => {
                let table = table.into_inner();
                problems.index(&mut Vec::new(), &table);
                Ok((problems, table))
            }
            Err(error) => {
                problems.push(error.span(), String::new(), error.message(), "correct the TOML there");
                Err(problems.errors)
            }
        }
    }

    /// Records a mistake in a field, or in the nearest field around it that is written down.
    pub(crate) fn add(&mut self, path: &[&str], problem: impl AsRef<str>, way_out: impl AsRef<str>) {
        let span = (0..=path.len()).rev().find_map(|length| self.span_of(&path[..length]));
        self.push(span, dotted(path), problem.as_ref(), way_out.as_ref());
    }

    /// Reads a value as a type; a mistake is recorded.
    pub(crate) fn read<T: DeserializeOwned>(&mut self, path: &[&str], value: Spanned<DeValue<'_>>) -> Option<T> {
        match T::deserialize(toml::de::ValueDeserializer::from(value)) {
            Ok(read) => Some(read),
            Err(error) => {
                // A missing field has no place of its own, and then the table around it is named.
                let span = error.span().filter(|span| !span.is_empty()).or_else(|| self.span_of(path));
                let place = span.as_ref().map_or_else(|| dotted(path), |span| self.name_of(path, span));
                self.push(span, place, error.message().trim(), "");
                None
            }
        }
    }

    /// Whether nothing was found so far.
    pub(crate) fn count(&self) -> usize {
        self.errors.len()
    }

    /// The mistakes in the order of the lines.
    pub(crate) fn into_errors(mut self) -> Vec<ConfigError> {
        self.errors.sort_by_key(|error| (error.line, error.column));
        self.errors
    }

    fn index(&mut self, path: &mut Vec<String>, table: &DeTable<'_>) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            // A table that is opened by its header has the header as its place, any other field its key.
            self.fields.push((path.clone(), key.span().start..value.span().end.max(key.span().end)));
            self.index_value(path, value);
            path.pop();
        }
    }

    fn index_value(&mut self, path: &mut Vec<String>, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) => self.index(path, table),
            DeValue::Array(elements) => {
                for (at, element) in elements.iter().enumerate() {
                    path.push(at.to_string());
                    self.fields.push((path.clone(), element.span()));
                    self.index_value(path, element);
                    path.pop();
                }
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_) => {}
        }
    }

    fn span_of(&self, path: &[&str]) -> Option<Range<usize>> {
        self.fields.iter().find(|(field, _)| field == path).map(|(_, span)| span.clone())
    }

    /// The innermost field below `path` that stands at `span`.
    fn name_of(&self, path: &[&str], span: &Range<usize>) -> String {
        let around = |field: &Range<usize>| field.start <= span.start && span.end <= field.end;
        let innermost = self
            .fields
            .iter()
            .filter(|(field, at)| field.len() >= path.len() && field[..path.len()] == *path && around(at))
            .max_by_key(|(field, _)| field.len());
        innermost
            .map_or_else(|| dotted(path), |(field, _)| dotted(&field.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    fn push(&mut self, span: Option<Range<usize>>, key: String, problem: &str, way_out: &str) {
        let before = self.text.get(..span.map_or(0, |span| span.start)).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        self.errors.push(ConfigError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            key,
            problem: problem.to_owned(),
            way_out: way_out.to_owned(),
        });
    }
}

/// Takes a field out of a table.
pub(crate) fn take<'t>(table: &mut TextTable<'t>, key: &str) -> Option<Spanned<DeValue<'t>>> {
    table.remove(key)
}

/// The table that a value is, or the value back.
pub(crate) fn table_of(value: Spanned<DeValue<'_>>) -> Result<(TextTable<'_>, Range<usize>), Spanned<DeValue<'_>>> {
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => Ok((table, span)),
        other => Err(Spanned::new(span, other)),
    }
}

fn dotted(path: &[&str]) -> String {
    let words = path.iter().map(|token| {
        let bare = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if bare { (*token).to_owned() } else { format!("{token:?}") }
    });
    words.collect::<Vec<_>>().join(".")
}
