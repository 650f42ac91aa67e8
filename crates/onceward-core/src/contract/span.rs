//! Lengths of time as a person writes them: `"500ms"`, `"60s"`, `"10m"`, `"24h"`, `"30d"`.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// A length of time that was written down. Its unit is always said: a bare number is refused, because half of the readers
/// would take it for milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(Duration);

/// Why a text is not a length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a length of time; write a whole number and a unit, such as \"500ms\", \"60s\", \"10m\", \"24h\" or \"30d\""
)]
pub struct InvalidSpan {
    /// What was written.
    pub text: String,
}

/// Units, longest first, in milliseconds. Printing takes the first that divides the length.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Span {
    /// That many seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// That many milliseconds.
    #[must_use]
    pub const fn milliseconds(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    /// The length.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Span {
    type Err = InvalidSpan;
    fn from_str(text: &str) -> Result<Self, InvalidSpan> {
        let invalid = || InvalidSpan { text: text.to_owned() };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| invalid())?;
        let (_, milliseconds) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(invalid)?;
        number.checked_mul(milliseconds).map(|total| Self(Duration::from_millis(total))).ok_or_else(invalid)
    }
}

impl From<Duration> for Span {
    fn from(length: Duration) -> Self {
        Self(length)
    }
}

impl TryFrom<String> for Span {
    type Error = InvalidSpan;
    fn try_from(text: String) -> Result<Self, InvalidSpan> {
        text.parse()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if total == 0 {
            return f.write_str("0s");
        }
        // Two days read better as "2d", but a day and a half only as "36h": the longest unit that loses nothing.
        let whole = UNITS.into_iter().find(|(_, milliseconds)| total.is_multiple_of(*milliseconds));
        let (name, milliseconds) = whole.unwrap_or(("ms", 1));
        write!(f, "{}{name}", total / milliseconds)
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_printed_as_it_can_be_read() {
        for text in ["0s", "500ms", "60m", "24h", "30d", "90s"] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }
        assert_eq!("60s".parse::<Span>().unwrap().to_string(), "1m");
        assert_eq!("36h".parse::<Span>().unwrap().to_string(), "36h");
    }

    #[test]
    fn a_length_without_a_unit_is_refused() {
        for text in ["60", "", "s", "1.5h", "-1s", "1 h", "1w", "99999999999999999999d", "18446744073709551615d"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
