//! Points in time. The rules never read a clock: time is an argument.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// A point on the wall clock: microseconds since the Unix epoch.
///
/// It is an integer so that no time zone, text format or driver setting can move it. Surfaces print RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The epoch itself; also the least useful default, so there is no `Default`.
    pub const EPOCH: Self = Self(0);

    /// The point `micros` microseconds after the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This point moved into the future; saturates at the end of time instead of wrapping into the past.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }

    /// This point moved into the past; saturates.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }

    /// The point that an RFC 3339 text names; `None` where it names none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|point| Self(point.as_microsecond()))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// RFC 3339 in UTC; a point that calendars do not reach is printed as a count.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(point) => write!(f, "{point}"),
            Err(_) => write!(f, "{} microseconds after the epoch", self.0),
        }
    }
}
