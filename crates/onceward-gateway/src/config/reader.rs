//! The top of a configuration, field by field, with the mistakes found so far.

use std::ops::Range;

use onceward_destinations::error::ConfigError;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The fields that nobody has taken yet.
pub(super) struct Reader<'t> {
    file: &'t str,
    text: &'t str,
    fields: Vec<(String, Range<usize>, Option<Spanned<DeValue<'t>>>)>,
    errors: Vec<ConfigError>,
}

impl<'t> Reader<'t> {
    /// Splits the text into its top fields; where it is no TOML there is one mistake.
    pub(super) fn parse(file: &'t str, text: &'t str) -> Result<Self, Vec<ConfigError>> {
        let mut reader = Self { file, text, fields: Vec::new(), errors: Vec::new() };
        match DeTable::parse(text) {
            Ok(table) => {
                for (key, value) in table.into_inner() {
                    reader.fields.push((key.get_ref().to_string(), key.span(), Some(value)));
                }
                Ok(reader)
            }
            Err(error) => {
                reader.push(error.span(), "", error.message().to_owned(), "correct the TOML there");
                Err(reader.errors)
            }
        }
    }

    /// The field as a type. A mistake inside it is recorded at its own place.
    pub(super) fn take<T: DeserializeOwned>(&mut self, key: &str) -> Option<T> {
        let (_, place, value) = self.fields.iter_mut().find(|(name, ..)| name == key)?;
        let place = place.clone();
        let value = value.take()?;
        match T::deserialize(toml::de::ValueDeserializer::from(value)) {
            Ok(read) => Some(read),
            Err(error) => {
                let span = error.span().filter(|span| !span.is_empty()).unwrap_or(place);
                self.push(Some(span), key, error.message().trim().to_owned(), "");
                None
            }
        }
    }

    /// The same for a field that must be there.
    pub(super) fn take_required<T: DeserializeOwned>(&mut self, key: &str, way_out: &str) -> Option<T> {
        if !self.fields.iter().any(|(name, ..)| name == key) {
            self.push(None, key, "it is missing".to_owned(), way_out);
        }
        self.take(key)
    }

    /// Leaves a field to somebody else.
    pub(super) fn pass_over(&mut self, key: &str) {
        if let Some((_, _, value)) = self.fields.iter_mut().find(|(name, ..)| name == key) {
            *value = None;
        }
    }

    /// Whatever nobody took is a mistake, a misspelt name most of the time.
    pub(super) fn refuse_the_rest(&mut self, known: &[&str]) {
        let unknown: Vec<_> = self
            .fields
            .iter()
            .filter(|(name, _, value)| value.is_some() && !known.contains(&name.as_str()))
            .map(|(name, place, _)| (name.clone(), place.clone()))
            .collect();
        for (name, place) in unknown {
            let way_out = format!("remove it, or write one of: {}", known.join(", "));
            self.push(Some(place), &name, "no such field".to_owned(), &way_out);
        }
    }

    /// Records a mistake in a field; `table.key` is the field of a table that was taken whole.
    pub(super) fn add(&mut self, key: &str, problem: String, way_out: &str) {
        let (top, inner) = key.split_once('.').unwrap_or((key, ""));
        let place = self.fields.iter().find(|(name, ..)| name == top).map(|(_, place, _)| place.clone());
        let place = match (place, inner) {
            (Some(place), inner) if !inner.is_empty() => Some(self.inner_place(place, inner)),
            (place, _) => place,
        };
        self.push(place, key, problem, way_out);
    }

    pub(super) fn into_errors(mut self) -> Vec<ConfigError> {
        self.errors.sort_by_key(|error| (error.line, error.column));
        self.errors
    }

    /// Where `key = …` stands after the table's header; the header itself where it is not written so.
    fn inner_place(&self, table: Range<usize>, key: &str) -> Range<usize> {
        let mut at = table.start;
        for line in self.text[table.start..].split_inclusive('\n') {
            let bare = line.trim_start();
            if bare.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('=')) {
                let start = at + (line.len() - bare.len());
                return start..start + key.len();
            }
            at += line.len();
        }
        table
    }

    fn push(&mut self, span: Option<Range<usize>>, key: &str, problem: String, way_out: &str) {
        let before = self.text.get(..span.map_or(0, |span| span.start)).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        self.errors.push(ConfigError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            key: key.to_owned(),
            problem,
            way_out: way_out.to_owned(),
        });
    }
}
