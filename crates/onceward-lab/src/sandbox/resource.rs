//! The things the sandbox holds, and what a request for one must say.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::limits::{TEXT_CHARS_MAX, TITLE_CHARS_MAX};
use super::problem::Answer;

/// An amount, in minor units, that every payment is declined for.
pub const DECLINED_AMOUNT: u64 = 4002;

/// A kind of thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Tickets,
    Orders,
    Payments,
    Mail,
    Reports,
}

/// What an effect is of: a kind of the sandbox's own, or a path of the interface that it speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One of the sandbox's own.
    Own(Resource),
    /// Whatever is made at this path, such as `/v1/payment_intents`.
    Spoken(String),
}

impl Kind {
    /// The name in the database and for the auditor. Paths begin with a slash and the sandbox's own names do not.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Own(resource) => resource.name(),
            Self::Spoken(path) => path,
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        if name.starts_with('/') {
            return Some(Self::Spoken(name.to_owned()));
        }
        Resource::from_name(name).map(Self::Own)
    }
}

/// What somebody else may do to a thing between two attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    /// The last part of the path.
    pub(crate) verb: &'static str,
    /// What the thing's status is from then on.
    pub(crate) status: &'static str,
}

/// What kind of value a field takes.
#[derive(Debug, Clone, Copy)]
enum Takes {
    Title,
    Text,
    Address,
    Currency,
    /// A whole number from 1 to this.
    Count(u64),
    Table,
}

struct Field {
    name: &'static str,
    kind: Takes,
    presence: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

const fn required(name: &'static str, kind: Takes) -> Field {
    Field { name, kind, presence: Presence::Required }
}

const fn optional(name: &'static str, kind: Takes) -> Field {
    Field { name, kind, presence: Presence::Optional }
}

const REFERENCE: Field = optional("reference", Takes::Title);
const TICKET: &[Field] =
    &[required("title", Takes::Title), required("body", Takes::Text), optional("customer", Takes::Title), REFERENCE];
const ORDER: &[Field] = &[
    required("item", Takes::Title),
    required("quantity", Takes::Count(10_000)),
    optional("customer", Takes::Title),
    REFERENCE,
];
const PAYMENT: &[Field] = &[
    required("amount", Takes::Count(99_999_999)),
    required("currency", Takes::Currency),
    optional("customer", Takes::Title),
    REFERENCE,
];
const MAIL: &[Field] =
    &[required("to", Takes::Address), required("subject", Takes::Title), required("body", Takes::Text), REFERENCE];
const REPORT: &[Field] = &[required("name", Takes::Title), optional("parameters", Takes::Table), REFERENCE];

impl Resource {
    pub(crate) const ALL: [Self; 5] = [Self::Tickets, Self::Orders, Self::Payments, Self::Mail, Self::Reports];

    /// The name in the path, and in the database.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tickets => "tickets",
            Self::Orders => "orders",
            Self::Payments => "payments",
            Self::Mail => "mail",
            Self::Reports => "reports",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.name() == name)
    }

    /// The id of the thing with this number: `T-1001`.
    pub(crate) fn id(self, number: i64) -> String {
        let letter = match self {
            Self::Tickets => 'T',
            Self::Orders => 'O',
            Self::Payments => 'P',
            Self::Mail => 'M',
            Self::Reports => 'R',
        };
        format!("{letter}-{number}")
    }

    /// The number in an id of this resource.
    pub(crate) fn number(self, id: &str) -> Option<i64> {
        let number = id.split_once('-')?.1.parse().ok()?;
        (self.id(number) == id).then_some(number)
    }

    /// The status of a thing that nobody has changed.
    pub(crate) fn first_status(self) -> &'static str {
        match self {
            Self::Tickets => "open",
            Self::Orders => "placed",
            Self::Payments => "succeeded",
            Self::Mail => "sent",
            Self::Reports => "done",
        }
    }

    pub(crate) fn change(self) -> Option<Change> {
        match self {
            Self::Tickets => Some(Change { verb: "close", status: "closed" }),
            Self::Orders => Some(Change { verb: "cancel", status: "cancelled" }),
            Self::Payments => Some(Change { verb: "refund", status: "refunded" }),
            // What is sent is sent, and a report is made once.
            Self::Mail | Self::Reports => None,
        }
    }

    /// What a creation is answered with: a report is only accepted.
    pub(crate) fn created_status(self) -> StatusCode {
        match self {
            Self::Tickets | Self::Orders | Self::Payments | Self::Mail => StatusCode::CREATED,
            Self::Reports => StatusCode::ACCEPTED,
        }
    }

    fn fields(self) -> &'static [Field] {
        match self {
            Self::Tickets => TICKET,
            Self::Orders => ORDER,
            Self::Payments => PAYMENT,
            Self::Mail => MAIL,
            Self::Reports => REPORT,
        }
    }

    /// The fields of a request, if the request can be carried out.
    ///
    /// # Errors
    /// 400 for what is not a request for this thing at all (no JSON object, a field missing, unknown, or of another type);
    /// 422 for one that is well formed and unacceptable. Nothing has been done in either case.
    pub(crate) fn read(self, body: &[u8]) -> Result<Map<String, Value>, Answer> {
        let malformed = |detail: String| Answer::problem(StatusCode::BAD_REQUEST, "malformed", detail);
        let value: Value =
            serde_json::from_slice(body).map_err(|error| malformed(format!("The body is not JSON: {error}.")))?;
        let Value::Object(fields) = value else {
            return Err(malformed("The body is not a JSON object.".to_owned()));
        };
        let known = self.fields();
        if let Some(name) = fields.keys().find(|name| known.iter().all(|field| field.name != *name)) {
            return Err(malformed(format!("{} have no field {name:?}.", self.name())));
        }
        for field in known {
            match fields.get(field.name) {
                None | Some(Value::Null) if field.presence == Presence::Optional => {}
                None | Some(Value::Null) => return Err(malformed(format!("The field {:?} is missing.", field.name))),
                Some(value) => field.kind.check(field.name, value)?,
            }
        }
        Ok(fields)
    }

    /// SHA-256, in hexadecimal, over what was asked for: equal requests are equal here whatever the order of their fields.
    pub(crate) fn fingerprint(self, fields: &Map<String, Value>) -> String {
        let asked = json!({ "resource": self.name(), "fields": fields });
        let canonical = serde_json_canonicalizer::to_vec(&asked).unwrap_or_else(|_| asked.to_string().into_bytes());
        Sha256::digest(&canonical).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether this payment is one that the bank declines. A decline is an answer of an execution, and leaves no effect.
    pub(crate) fn is_declined(self, fields: &Map<String, Value>) -> bool {
        self == Self::Payments && fields.get("amount").and_then(Value::as_u64) == Some(DECLINED_AMOUNT)
    }
}

impl Takes {
    fn check(self, name: &str, value: &Value) -> Result<(), Answer> {
        let text = || {
            value.as_str().ok_or_else(|| {
                Answer::problem(StatusCode::BAD_REQUEST, "malformed", format!("The field {name:?} is not a text."))
            })
        };
        let unacceptable = match self {
            Self::Title => text_problem(text()?, TITLE_CHARS_MAX),
            Self::Text => text_problem(text()?, TEXT_CHARS_MAX),
            Self::Address => {
                let address = text()?;
                let named = address.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty());
                text_problem(address, TITLE_CHARS_MAX).or_else(|| (!named).then(|| "is not an address".to_owned()))
            }
            Self::Currency => {
                let currency = text()?;
                let three = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
                (!three).then(|| "is not three capital letters".to_owned())
            }
            Self::Count(max) => {
                let Some(count) = value.as_i64() else {
                    return Err(Answer::problem(
                        StatusCode::BAD_REQUEST,
                        "malformed",
                        format!("The field {name:?} is not a whole number."),
                    ));
                };
                let inside = u64::try_from(count).is_ok_and(|count| (1..=max).contains(&count));
                (!inside).then(|| format!("is not between 1 and {max}"))
            }
            Self::Table => (!value.is_object()).then(|| "is not an object".to_owned()),
        };
        match unacceptable {
            None => Ok(()),
            Some(why) => Err(Answer::problem(
                StatusCode::UNPROCESSABLE_ENTITY,
                "unacceptable",
                format!("The field {name:?} {why}."),
            )),
        }
    }
}

fn text_problem(text: &str, chars_max: usize) -> Option<String> {
    match text.chars().count() {
        0 => Some("is empty".to_owned()),
        chars if chars > chars_max => Some(format!("has {chars} characters; {chars_max} is the most")),
        _ => None,
    }
}
