//! Dates and durations.

mod duration;
mod format;
mod parse;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{ToSpan, Unit, Zoned};

pub use duration::Duration;
pub(crate) use duration::format_duration;
pub(crate) use format::{format_date, weekday_number};
pub(crate) use parse::{parse_date, parse_with_format};

/// Names of dates relative to the current time: `date(today)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DateWord {
    Now,
    Today,
    Yesterday,
    Tomorrow,
    StartOfWeek,
    EndOfWeek,
    StartOfMonth,
    EndOfMonth,
    StartOfYear,
    EndOfYear,
}

impl DateWord {
    pub(crate) const ALL: [(&'static str, Self); 15] = [
        ("now", Self::Now),
        ("today", Self::Today),
        ("yesterday", Self::Yesterday),
        ("tomorrow", Self::Tomorrow),
        ("sow", Self::StartOfWeek),
        ("start-of-week", Self::StartOfWeek),
        ("eow", Self::EndOfWeek),
        ("end-of-week", Self::EndOfWeek),
        ("som", Self::StartOfMonth),
        ("start-of-month", Self::StartOfMonth),
        ("eom", Self::EndOfMonth),
        ("end-of-month", Self::EndOfMonth),
        ("soy", Self::StartOfYear),
        ("eoy", Self::EndOfYear),
        ("end-of-year", Self::EndOfYear),
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, word)| *word)
    }

    /// The date, for the current time. Ends of periods are their last millisecond.
    pub(crate) fn resolve(self, now: &Zoned) -> Option<Zoned> {
        let today = now.date();
        let start_of_week = today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days()).ok()?;
        let (day, is_end) = match self {
            Self::Now => return Some(now.clone()),
            Self::Today => (today, false),
            Self::Yesterday => (today.yesterday().ok()?, false),
            Self::Tomorrow => (today.tomorrow().ok()?, false),
            Self::StartOfWeek => (start_of_week, false),
            Self::EndOfWeek => (start_of_week.checked_add(6.days()).ok()?, true),
            Self::StartOfMonth => (today.first_of_month(), false),
            Self::EndOfMonth => (today.last_of_month(), true),
            Self::StartOfYear => (today.first_of_year(), false),
            Self::EndOfYear => (today.last_of_year(), true),
        };
        let time = if is_end { Time::constant(23, 59, 59, 999_000_000) } else { Time::midnight() };
        to_zoned(day.to_datetime(time), now.time_zone())
    }
}

pub(crate) fn to_zoned(civil: DateTime, zone: &TimeZone) -> Option<Zoned> {
    civil.to_zoned(zone.clone()).ok()
}

/// Midnight of a day.
pub(crate) fn at_midnight(day: Date, zone: &TimeZone) -> Option<Zoned> {
    to_zoned(day.to_datetime(Time::midnight()), zone)
}

/// The date without its time.
pub(crate) fn strip_time(date: &Zoned) -> Option<Zoned> {
    at_midnight(date.date(), date.time_zone())
}

/// The date that a file name contains: `2026-03-01` or `20260301`.
pub(crate) fn day_of_name(name: &str, zone: &TimeZone) -> Option<Zoned> {
    let bytes = name.as_bytes();
    let digits = |from: usize, to: usize| {
        let part = bytes.get(from..to).filter(|part| part.iter().all(u8::is_ascii_digit))?;
        std::str::from_utf8(part).ok()?.parse::<i16>().ok()
    };
    let day = |year: Option<i16>, month: Option<i16>, day: Option<i16>| {
        Date::new(year?, i8::try_from(month?).ok()?, i8::try_from(day?).ok()?).ok()
    };
    let with_dashes = |at: usize| {
        let has_dashes = bytes.get(at + 4) == Some(&b'-') && bytes.get(at + 7) == Some(&b'-');
        has_dashes.then(|| day(digits(at, at + 4), digits(at + 5, at + 7), digits(at + 8, at + 10))).flatten()
    };
    let without = |at: usize| day(digits(at, at + 4), digits(at + 4, at + 6), digits(at + 6, at + 8));
    let found = (0..bytes.len()).find_map(with_dashes).or_else(|| (0..bytes.len()).find_map(without));
    at_midnight(found?, zone)
}

/// The time from `start` to `end` in calendar units, counted from the earlier of the two.
pub(crate) fn difference(end: &Zoned, start: &Zoned) -> Option<Duration> {
    let start = start.with_time_zone(end.time_zone().clone());
    if *end < start {
        return difference(&start, end).map(|duration| duration.times(-1.0));
    }
    let (earlier, later) = (start, end);
    let span = earlier.until((Unit::Year, later)).ok()?;
    let milliseconds = f64::from(span.get_milliseconds() as i32) + (span.get_microseconds() / 1000) as f64;
    Some(Duration {
        years: f64::from(span.get_years()),
        months: f64::from(span.get_months()),
        weeks: f64::from(span.get_weeks()),
        days: f64::from(span.get_days()),
        hours: f64::from(span.get_hours()),
        minutes: span.get_minutes() as f64,
        seconds: span.get_seconds() as f64,
        milliseconds,
    })
}

/// A date as Dataview shows it by default.
pub(crate) fn render_date(date: &Zoned) -> String {
    let format = if date.time() == Time::midnight() { "MMMM dd, yyyy" } else { "h:mm a - MMMM dd, yyyy" };
    format_date(date, format)
}

/// ISO 8601: a day, or a time with its offset.
pub(crate) fn iso_date(date: &Zoned) -> String {
    if date.time() == Time::midnight() { date.date().to_string() } else { format_date(date, "yyyy-MM-dd'T'HH:mm:ssZZ") }
}

/// ISO 8601 without offset.
pub(crate) fn local_iso(date: &Zoned) -> String {
    format_date(date, "yyyy-MM-dd'T'HH:mm:ss.SSS")
}
