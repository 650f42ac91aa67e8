//! What a scenario's findings must be, as data.

use std::fmt;

use serde_json::Value;

use super::findings::Findings;

/// One field of the findings, and what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The field.
    pub field: &'static str,
    /// What it must be.
    pub is: Is,
}

/// What a field must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    /// This number.
    Number(i64),
    /// This text.
    Text(&'static str),
    /// The name of a ticket, such as `T-1001`.
    Ticket,
    /// A list of exactly one ticket's name.
    OneTicket,
    /// True.
    True,
    /// False.
    False,
    /// The same as another field.
    SameAs(&'static str),
}

/// A field that is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The field.
    pub field: &'static str,
    /// What it must be, in words.
    pub expected: String,
    /// What it is.
    pub found: Value,
}

impl Expectation {
    /// The field must be a number.
    pub(crate) const fn number(field: &'static str, number: i64) -> Self {
        Self { field, is: Is::Number(number) }
    }

    /// The field must be a text.
    pub(crate) const fn text(field: &'static str, text: &'static str) -> Self {
        Self { field, is: Is::Text(text) }
    }

    /// The field must be something else.
    pub(crate) const fn is(field: &'static str, is: Is) -> Self {
        Self { field, is }
    }

    /// What is broken, if anything is. A field that is missing is null, and nothing must be null.
    #[must_use]
    pub fn check(&self, findings: &Findings) -> Option<Broken> {
        let found = findings.get(self.field);
        let (holds, expected) = match self.is {
            Is::Number(number) => (found == number, number.to_string()),
            Is::Text(text) => (found == text, format!("{text:?}")),
            Is::True => (found == true, "true".to_owned()),
            Is::False => (found == false, "false".to_owned()),
            Is::Ticket => (is_ticket(&found), "the name of a ticket".to_owned()),
            Is::OneTicket => {
                let one = found.as_array().is_some_and(|list| matches!(list.as_slice(), [one] if is_ticket(one)));
                (one, "a list with one ticket".to_owned())
            }
            Is::SameAs(other) => {
                let value = findings.get(other);
                (found == value && !found.is_null(), format!("{value}, as {other} is"))
            }
        };
        (!holds).then_some(Broken { field: self.field, expected, found })
    }
}

fn is_ticket(value: &Value) -> bool {
    value.as_str().and_then(|text| text.strip_prefix("T-")).is_some_and(|number| number.parse::<u32>().is_ok())
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.field, self.expected, self.found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_expectation_names_the_field_what_it_must_be_and_what_it_is() {
        let findings = Findings::new().with("tickets", 2);
        let broken = Expectation::number("tickets", 1).check(&findings).expect("broken");
        assert_eq!(broken.to_string(), "tickets: expected 1, found 2");
        assert_eq!(Expectation::number("tickets", 2).check(&findings), None);
    }

    #[test]
    fn a_missing_field_satisfies_nothing() {
        let findings = Findings::new();
        let every =
            [Is::Number(0), Is::Text(""), Is::Ticket, Is::OneTicket, Is::True, Is::False, Is::SameAs("also_missing")];
        for is in every {
            assert!(Expectation::is("missing", is).check(&findings).is_some(), "{is:?}");
        }
    }

    #[test]
    fn two_tickets_are_not_one() {
        let findings = Findings::new().with("ids", json!(["T-1001", "T-1002"])).with("one", json!(["T-1001"]));
        assert!(Expectation::is("ids", Is::OneTicket).check(&findings).is_some());
        assert!(Expectation::is("one", Is::OneTicket).check(&findings).is_none());
    }
}
