//! Dates in frontmatter, compared as dates.
//!
//! SQLite has no date type. Every connection gets two functions, `svcfs_instant(text)` and
//! `svcfs_day(text)`. Both return NULL for text that is not a date, so a comparison with it is not
//! true.

use std::cmp::Ordering;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;

/// A date or time as written in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrittenDate {
    /// `2026-01-31`: a full day.
    Day(Date),
    /// `2026-01-31T12:00:00Z` and similar; UTC without a time zone.
    Instant(Timestamp),
}

impl WrittenDate {
    /// Parses RFC 3339 and its usual short forms (`2026-01-31`, `2026-01-31 12:00`).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // Cheap check that rejects ordinary words before the parsers run.
        let bytes = text.as_bytes();
        if bytes.len() < 10 || bytes.len() > 64 || !bytes[..4].iter().all(u8::is_ascii_digit) || bytes[4] != b'-' {
            return None;
        }
        if bytes.len() == 10 {
            return text.parse().ok().map(Self::Day);
        }
        let instant = match text.parse::<Timestamp>() {
            Ok(instant) => instant,
            Err(_) => text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp(),
        };
        Some(Self::Instant(instant))
    }
    /// Compares by day if one of the two is a full day, else by instant.
    pub(crate) fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Instant(a), Self::Instant(b)) => Some(a.cmp(&b)),
            (Self::Day(_) | Self::Instant(_), Self::Day(_) | Self::Instant(_)) => Some(self.day()?.cmp(&other.day()?)),
        }
    }
    /// Its first microsecond since 1970, UTC.
    pub(crate) fn microsecond(self) -> Option<i64> {
        match self {
            Self::Day(date) => Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond()),
            Self::Instant(instant) => Some(instant.as_microsecond()),
        }
    }
    /// Its day in UTC, as days since 1970.
    pub(crate) fn day(self) -> Option<i64> {
        let date = match self {
            Self::Day(date) => date,
            Self::Instant(instant) => instant.to_zoned(TimeZone::UTC).date(),
        };
        let since = date.since((Unit::Day, Date::new(1970, 1, 1).ok()?)).ok()?;
        Some(i64::from(since.get_days()))
    }
}

/// The UTC day of a date in text form; `None` when the text is not a date.
#[must_use]
pub fn parse_day(text: &str) -> Option<Date> {
    match WrittenDate::parse(text)? {
        WrittenDate::Day(day) => Some(day),
        WrittenDate::Instant(instant) => Some(instant.to_zoned(TimeZone::UTC).date()),
    }
}

pub(crate) fn register(connection: &Connection) -> rusqlite::Result<()> {
    add_function(connection, "svcfs_instant", WrittenDate::microsecond)?;
    add_function(connection, "svcfs_day", WrittenDate::day)
}

fn add_function(connection: &Connection, name: &str, convert: fn(WrittenDate) -> Option<i64>) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function(name, 1, flags, move |context| {
        Ok(match context.get_raw(0) {
            ValueRef::Text(text) => std::str::from_utf8(text).ok().and_then(WrittenDate::parse).and_then(convert),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_the_forms_people_write() {
        for (text, day) in [
            ("1970-01-02", 1),
            ("1970-01-02T23:30:00Z", 1),
            ("1970-01-02 23:30", 1),
            ("1970-01-02T23:30:00-05:00", 2),
            ("1969-12-31", -1),
        ] {
            assert_eq!(WrittenDate::parse(text).and_then(WrittenDate::day), Some(day), "{text}");
        }
        for text in ["", "1970", "1970-13-01", "yesterday!!", "1970-01-02T99:00:00Z", "版版版版版版", "1970-01-0版"]
        {
            assert_eq!(WrittenDate::parse(text), None, "{text}");
        }
    }

    #[test]
    fn zones_are_compared_by_their_moment() {
        let noon = WrittenDate::parse("2026-01-01T12:00:00+02:00").and_then(WrittenDate::microsecond);
        assert_eq!(noon, WrittenDate::parse("2026-01-01T10:00:00Z").and_then(WrittenDate::microsecond));
        assert!(noon.is_some());
    }
}
