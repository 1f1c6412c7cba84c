//! Durations of calendar and clock units.

use jiff::{Span, Zoned};

/// Milliseconds of the units, from years to milliseconds: a month has 30 days, a year 365.
const UNIT_MILLISECONDS: [f64; 8] =
    [31_536_000_000.0, 2_592_000_000.0, 604_800_000.0, 86_400_000.0, 3_600_000.0, 60_000.0, 1000.0, 1.0];

const UNIT_NAMES: [&str; 8] = ["years", "months", "weeks", "days", "hours", "minutes", "seconds", "milliseconds"];

/// An amount of each unit. Amounts are not carried over: 90 minutes stay 90 minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Duration {
    /// Years.
    pub years: f64,
    /// Months.
    pub months: f64,
    /// Weeks.
    pub weeks: f64,
    /// Days.
    pub days: f64,
    /// Hours.
    pub hours: f64,
    /// Minutes.
    pub minutes: f64,
    /// Seconds.
    pub seconds: f64,
    /// Milliseconds.
    pub milliseconds: f64,
}

impl Duration {
    const fn to_array(self) -> [f64; 8] {
        [self.years, self.months, self.weeks, self.days, self.hours, self.minutes, self.seconds, self.milliseconds]
    }

    const fn from_array(amounts: [f64; 8]) -> Self {
        let [years, months, weeks, days, hours, minutes, seconds, milliseconds] = amounts;
        Self { years, months, weeks, days, hours, minutes, seconds, milliseconds }
    }

    /// The names and amounts of the units that are not zero. Months are carried over to years, and
    /// smaller units to days or weeks: without a calendar, days are no months.
    #[must_use]
    pub fn units(&self, with_weeks: bool) -> Vec<(&'static str, f64)> {
        let months = self.total_months();
        let years = (months / 12.0).trunc();
        let mut amounts = Self::split(self.milliseconds_below_months(), if with_weeks { 2 } else { 3 });
        (amounts[0], amounts[1]) = (years, months - years * 12.0);
        UNIT_NAMES.into_iter().zip(amounts).filter(|(_, amount)| *amount != 0.0).collect()
    }

    fn total_months(&self) -> f64 {
        self.years * 12.0 + self.months
    }

    fn milliseconds_below_months(&self) -> f64 {
        self.to_array().iter().zip(UNIT_MILLISECONDS).skip(2).map(|(amount, unit)| amount * unit).sum()
    }

    pub(crate) fn total_milliseconds(&self) -> f64 {
        // Twelve months are a year, not 360 days.
        let months = self.total_months();
        let years = (months / 12.0).trunc();
        let calendar = years * UNIT_MILLISECONDS[0] + (months - years * 12.0) * UNIT_MILLISECONDS[1];
        calendar + self.milliseconds_below_months()
    }

    /// The complete duration in one unit; `None` for an unknown unit.
    pub(crate) fn total_in(&self, unit: &str) -> Option<f64> {
        let is_unit = |name: &&str| *name == unit || name.strip_suffix('s') == Some(unit);
        let index = UNIT_NAMES.iter().position(is_unit)?;
        Some(match index {
            0 => self.total_months() / 12.0 + self.milliseconds_below_months() / UNIT_MILLISECONDS[0],
            1 => self.total_months() + self.milliseconds_below_months() / UNIT_MILLISECONDS[1],
            index => self.total_milliseconds() / UNIT_MILLISECONDS[index],
        })
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let mut sum = self.to_array();
        sum.iter_mut().zip(other.to_array()).for_each(|(amount, more)| *amount += more);
        Self::from_array(sum)
    }

    pub(crate) fn times(self, factor: f64) -> Self {
        Self::from_array(self.to_array().map(|amount| amount * factor))
    }

    /// Splits milliseconds into units, the largest being that of `first`.
    fn split(total: f64, first: usize) -> [f64; 8] {
        let mut amounts = [0.0; 8];
        let mut rest = total.abs().round();
        for (index, unit) in UNIT_MILLISECONDS.iter().enumerate().skip(first) {
            amounts[index] = (rest / unit).floor() * total.signum();
            rest %= unit;
        }
        amounts
    }

    /// Parses `1 d 2 hours`, `6hr4min`, `9 years, 8 months`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut duration = Self::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let number_end =
                rest.char_indices().find(|(at, c)| !(c.is_ascii_digit() || *c == '.' || *at == 0 && *c == '-'));
            let (number, unit) = rest.split_at(number_end?.0);
            let amount: f64 = number.parse().ok()?;
            let unit = unit.trim_start();
            let unit_end = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
            let (name, after) = unit.split_at(unit_end);
            *duration.unit_mut(&name.to_ascii_lowercase())? += amount;
            rest = after.trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        (!text.trim().is_empty()).then_some(duration)
    }

    fn unit_mut(&mut self, name: &str) -> Option<&mut f64> {
        Some(match name {
            "yr" | "yrs" | "year" | "years" => &mut self.years,
            "mo" | "month" | "months" => &mut self.months,
            "w" | "wk" | "wks" | "week" | "weeks" => &mut self.weeks,
            "d" | "day" | "days" => &mut self.days,
            "h" | "hr" | "hrs" | "hour" | "hours" => &mut self.hours,
            "m" | "min" | "mins" | "minute" | "minutes" => &mut self.minutes,
            "s" | "sec" | "secs" | "second" | "seconds" => &mut self.seconds,
            _ => return None,
        })
    }

    /// The duration in words, such as `1 year, 2 days`.
    pub(crate) fn to_text(self) -> String {
        let word = |(name, amount): (&'static str, f64)| {
            let name = if amount.abs() == 1.0 { name.trim_end_matches('s') } else { name };
            format!("{} {name}", crate::value::number_text(amount))
        };
        let words: Vec<String> = self.units(true).into_iter().map(word).collect();
        if words.is_empty() { "0 seconds".to_owned() } else { words.join(", ") }
    }

    /// The date that comes this much later; `None` beyond the range of dates.
    pub(crate) fn add_to(self, date: &Zoned) -> Option<Zoned> {
        #[expect(clippy::cast_possible_truncation, reason = "saturates; the limits of Span are checked")]
        let [years, months, weeks, days, hours, minutes, seconds, milliseconds] =
            self.to_array().map(|amount| amount.trunc() as i64);
        let fraction: f64 =
            self.to_array().iter().zip(UNIT_MILLISECONDS).map(|(amount, unit)| amount.fract() * unit).sum();
        #[expect(clippy::cast_possible_truncation, reason = "less than the sum of the units")]
        let fraction = fraction.round() as i64;
        let span = Span::new().try_years(years).ok()?.try_months(months).ok()?.try_weeks(weeks).ok()?;
        let span = span.try_days(days).ok()?.try_hours(hours).ok()?.try_minutes(minutes).ok()?;
        let span = span.try_seconds(seconds).ok()?.try_milliseconds(milliseconds).ok()?;
        let date = date.checked_add(span).ok()?;
        date.checked_add(Span::new().try_milliseconds(fraction).ok()?).ok()
    }
}

/// Formats a duration with the tokens `S s m h d w M y`; the number of letters is the width.
pub(crate) fn format_duration(duration: &Duration, format: &str) -> String {
    let tokens = super::format::tokens(format);
    let unit_of = |token: &str| "yMwdhmsS".find(token.chars().next().unwrap_or(' '));
    let mut used: Vec<usize> =
        tokens.iter().filter(|token| !token.is_literal).filter_map(|t| unit_of(t.text)).collect();
    used.sort_unstable();
    used.dedup();
    let (mut rest, mut amounts) = (duration.total_milliseconds(), [0.0; 8]);
    let mut months = if duration.milliseconds_below_months() == 0.0 { duration.total_months() } else { 0.0 };
    for unit in &used {
        let exact = if *unit <= 1 && months != 0.0 {
            // Years and months convert exactly into each other.
            let per_unit = if *unit == 0 { 12.0 } else { 1.0 };
            let whole = (months / per_unit).trunc();
            months -= whole * per_unit;
            rest -= whole * per_unit / 12.0 * UNIT_MILLISECONDS[0];
            whole
        } else {
            let whole = (rest / UNIT_MILLISECONDS[*unit]).trunc();
            rest -= whole * UNIT_MILLISECONDS[*unit];
            whole
        };
        amounts[*unit] = exact;
    }
    let mut text = String::new();
    for token in tokens {
        match unit_of(token.text).filter(|_| !token.is_literal) {
            Some(unit) => text.push_str(&format!("{:0width$}", amounts[unit], width = token.text.len())),
            None => text.push_str(token.text),
        }
    }
    text
}
