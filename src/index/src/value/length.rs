//! Time spans: `7d`, `2w`, `1mo`.

use std::cmp::Ordering;
use std::fmt;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use crate::dates::WrittenDate;

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// Microseconds of a day. Days are UTC days, which are equally long.
pub(crate) const DAY: i64 = 24 * HOUR;
/// Microseconds of a month for comparisons: a twelfth of 365.2425 days.
const MONTH: i64 = 2_629_746 * SECOND;

/// The units of a span. `m` is not one: it could be a minute or a month.
const UNITS: [(&str, DateLength); 9] = [
    ("ms", DateLength { months: 0, microseconds: 1_000 }),
    ("s", DateLength { months: 0, microseconds: SECOND }),
    ("min", DateLength { months: 0, microseconds: MINUTE }),
    ("h", DateLength { months: 0, microseconds: HOUR }),
    ("d", DateLength { months: 0, microseconds: DAY }),
    ("w", DateLength { months: 0, microseconds: 7 * DAY }),
    ("mo", DateLength { months: 1, microseconds: 0 }),
    ("y", DateLength { months: 12, microseconds: 0 }),
    ("yr", DateLength { months: 12, microseconds: 0 }),
];

/// Months, whose length varies, and microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DateLength {
    months: i32,
    microseconds: i64,
}

impl DateLength {
    /// A number of units; `None` for an unknown unit and on overflow.
    pub(crate) fn of(count: i64, unit: &str) -> Option<Self> {
        let (_, base) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
        base.times(count)
    }

    pub(crate) fn between(from: WrittenDate, to: WrittenDate) -> Option<Self> {
        Some(Self { months: 0, microseconds: to.microsecond()?.checked_sub(from.microsecond()?)? })
    }

    pub(crate) fn times(self, count: i64) -> Option<Self> {
        Some(Self {
            months: i64::from(self.months).checked_mul(count)?.try_into().ok()?,
            microseconds: self.microseconds.checked_mul(count)?,
        })
    }

    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        Some(Self {
            months: self.months.checked_add(other.months)?,
            microseconds: self.microseconds.checked_add(other.microseconds)?,
        })
    }

    pub(crate) fn days(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "exact for 285 years")]
        let microseconds = self.approximate_microseconds() as f64;
        #[expect(clippy::cast_precision_loss, reason = "a constant far below 2^53")]
        let day = DAY as f64;
        microseconds / day
    }

    /// Adds the span to a date. A full day stays one when full days are added.
    pub(crate) fn add_to(self, date: WrittenDate) -> Option<WrittenDate> {
        match date {
            WrittenDate::Day(day) if self.microseconds % DAY == 0 => {
                let span = Span::new().try_months(self.months).ok()?.try_days(self.microseconds / DAY).ok()?;
                day.checked_add(span).ok().map(WrittenDate::Day)
            }
            WrittenDate::Day(day) => self.add_to(WrittenDate::Instant(midnight(day)?)),
            WrittenDate::Instant(instant) => {
                let months = Span::new().try_months(self.months).ok()?;
                let later = instant.to_zoned(TimeZone::UTC).checked_add(months).ok()?.timestamp();
                later.checked_add(Span::new().try_microseconds(self.microseconds).ok()?).ok().map(WrittenDate::Instant)
            }
        }
    }

    fn approximate_microseconds(self) -> i64 {
        i64::from(self.months).saturating_mul(MONTH).saturating_add(self.microseconds)
    }
}

fn midnight(day: Date) -> Option<Timestamp> {
    Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

impl PartialOrd for DateLength {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DateLength {
    fn cmp(&self, other: &Self) -> Ordering {
        self.approximate_microseconds().cmp(&other.approximate_microseconds()).then(self.months.cmp(&other.months))
    }
}

/// In query syntax, the largest unit first: `1mo 2d 3h`.
impl fmt::Display for DateLength {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.microseconds.unsigned_abs();
        let mut parts = Vec::new();
        let mut part = |count: u64, sign: &str, unit: &str| {
            if count > 0 {
                parts.push(format!("{sign}{count}{unit}"));
            }
        };
        let sign = if self.months < 0 { "-" } else { "" };
        part(u64::from(self.months.unsigned_abs() / 12), sign, "y");
        part(u64::from(self.months.unsigned_abs() % 12), sign, "mo");
        let sign = if self.microseconds < 0 { "-" } else { "" };
        for (unit, size) in [("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND), ("ms", 1_000)] {
            let size = size.unsigned_abs();
            part(rest / size, sign, unit);
            rest %= size;
        }
        formatter.write_str(if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }.as_str())
    }
}
