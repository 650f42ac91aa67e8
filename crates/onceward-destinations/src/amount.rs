//! The amount that a call is about, for people: shown and added up, never compared.

use onceward_core::pointer::Pointer;
use rust_decimal::Decimal;
use serde::Deserialize;
use serde_json::Value;

use crate::limits::{AMOUNT_DIGITS_MAX, CURRENCY_CHARS_MAX};

/// `amount = { value = "/amount", currency = "/currency", minor_digits = 2 }`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AmountText {
    value: Pointer,
    currency: String,
    #[serde(default)]
    minor_digits: u32,
}

/// Where an amount stands in the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmountPlace {
    value: Pointer,
    currency: Currency,
    minor_digits: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Currency {
    Fixed(String),
    At(Pointer),
}

/// An amount of money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    /// How much, in whole units.
    pub value: Decimal,
    /// Of which currency, in capitals.
    pub currency: String,
}

impl AmountText {
    /// What it says.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    pub(crate) fn read(&self) -> Result<AmountPlace, String> {
        if self.minor_digits > AMOUNT_DIGITS_MAX {
            return Err(format!("minor_digits is 0 to {AMOUNT_DIGITS_MAX}: 2 where amounts are in cents"));
        }
        let currency = if self.currency.starts_with('/') {
            Currency::At(Pointer::parse(&self.currency).map_err(|error| error.to_string())?)
        } else {
            Currency::Fixed(
                currency(&self.currency).ok_or("a currency is a short word such as EUR, or a pointer to one")?,
            )
        };
        Ok(AmountPlace { value: self.value.clone(), currency, minor_digits: self.minor_digits })
    }
}

impl AmountPlace {
    /// The amount that these arguments are about; `None` where there is none, or none that can be read.
    #[must_use]
    pub fn read(&self, arguments: &Value) -> Option<Amount> {
        let text = match self.value.get(arguments)? {
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.trim().to_owned(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        let value = Decimal::from_str_exact(&text).ok()?;
        let scale = value.scale().checked_add(self.minor_digits)?;
        let value = Decimal::try_from_i128_with_scale(value.mantissa(), scale).ok()?;
        let currency = match &self.currency {
            Currency::Fixed(currency) => currency.clone(),
            Currency::At(at) => currency(at.get(arguments)?.as_str()?)?,
        };
        Some(Amount { value: value.normalize(), currency })
    }
}

fn currency(text: &str) -> Option<String> {
    let fits = (1..=CURRENCY_CHARS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    fits.then(|| text.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn amount(place: Value, arguments: Value) -> Option<String> {
        let place = serde_json::from_value::<AmountText>(place).unwrap().read().unwrap();
        place.read(&arguments).map(|amount| format!("{} {}", amount.value, amount.currency))
    }

    #[test]
    fn an_amount_is_read_digit_for_digit_from_a_number_or_a_text() {
        let place = || json!({ "value": "/amount", "currency": "/currency" });
        let of = |amount_value: Value| amount(place(), json!({ "amount": amount_value, "currency": "eur" }));
        assert_eq!(of(json!(19.9)), Some("19.9 EUR".to_owned()));
        assert_eq!(of(json!("1200.50")), Some("1200.5 EUR".to_owned()));
        assert_eq!(of(json!(-3)), Some("-3 EUR".to_owned()));
        for none in [json!(null), json!("much"), json!([1]), json!(true)] {
            assert_eq!(of(none), None);
        }
        assert_eq!(amount(place(), json!({ "amount": 1 })), None, "an amount of no currency is none");
    }

    #[test]
    fn cents_are_told_in_whole_units() {
        let place = json!({ "value": "/amount", "currency": "USD", "minor_digits": 2 });
        assert_eq!(amount(place, json!({ "amount": 2_050 })), Some("20.5 USD".to_owned()));
    }

    #[test]
    fn what_is_no_currency_is_a_mistake_in_the_configuration() {
        let read = |place: Value| serde_json::from_value::<AmountText>(place).unwrap().read();
        assert!(read(json!({ "value": "/a", "currency": "a lot" })).is_err());
        assert!(read(json!({ "value": "/a", "currency": "EUR", "minor_digits": 99 })).is_err());
    }
}
