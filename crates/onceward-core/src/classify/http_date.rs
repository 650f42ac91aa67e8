//! HTTP dates and `Retry-After`, read and written without a clock.

use core::time::Duration;

use crate::time::Timestamp;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// How long a `Retry-After` asks for: seconds, or an HTTP date. A date that has passed asks for no time at all.
#[must_use]
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number holds mean "not in your lifetime", which the deadline cuts.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::from(u32::MAX))));
    }
    parse(value).map(|date| date.since(now))
}

/// Reads an IMF-fixdate (RFC 9110 §5.6.7), the only form that may be sent today: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[must_use]
pub fn parse(text: &str) -> Option<Timestamp> {
    let (_, rest) = text.split_once(", ")?;
    let mut parts = rest.split(' ');
    let day: i64 = number(parts.next()?, 2)?;
    let month_name = parts.next()?;
    let month = MONTHS.iter().position(|name| *name == month_name)?;
    let year = number(parts.next()?, 4)?;
    let mut clock = parts.next()?.split(':');
    let (hour, minute, second) = (number(clock.next()?, 2)?, number(clock.next()?, 2)?, number(clock.next()?, 2)?);
    let ends = parts.next() == Some("GMT") && parts.next().is_none() && clock.next().is_none();
    let in_range = (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !(ends && in_range) {
        return None;
    }
    let days = days_from_civil(year, i64::try_from(month).ok()? + 1, day);
    Some(Timestamp::from_micros((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000))
}

/// Writes an IMF-fixdate; parts of a second are dropped.
#[must_use]
pub fn format(at: Timestamp) -> String {
    let seconds = at.as_micros().div_euclid(1_000_000);
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    let day_name = DAYS[usize::try_from(days.rem_euclid(7)).unwrap_or(0)];
    let month_name = MONTHS[usize::try_from(month - 1).unwrap_or(0)];
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{day_name}, {day:02} {month_name} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Days since 1970-01-01 of a date in the Gregorian calendar. Years are counted from March, so that the leap day is the last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_read_as_it_is_written() {
        let written = "Sun, 06 Nov 1994 08:49:37 GMT";
        let at = parse(written).unwrap();
        assert_eq!(at.as_micros(), 784_111_777_000_000);
        assert_eq!(format(at), written);
        // Every thousandth day of a few centuries, the leap days of 2000 and 2400 and the missing one of 2100 among them.
        for day in (-30_000..200_000).step_by(997) {
            let at = Timestamp::from_micros(day * 86_400_000_000 + 86_399_000_000);
            assert_eq!(parse(&format(at)), Some(at), "{}", format(at));
        }
        assert_eq!(format(Timestamp::from_micros(951_782_400_000_000)), "Tue, 29 Feb 2000 00:00:00 GMT");
    }

    #[test]
    fn what_is_not_a_date_asks_for_nothing() {
        for text in [
            "",
            "soon",
            "-5",
            "1.5",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(retry_after(text, Timestamp::EPOCH), None, "{text}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = parse("Sun, 06 Nov 1994 08:49:30 GMT").unwrap();
        assert_eq!(retry_after("120", now), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:00 GMT", now), Some(Duration::ZERO));
        assert!(retry_after("99999999999999999999999", now).unwrap() > Duration::from_secs(86_400 * 365));
    }
}
