//! Parsing of dates: ISO 8601, and texts in a given format.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

use super::format::{MONTHS, tokens};
use super::to_zoned;

/// Parses a text that is a date: `2026-03`, `2026-03-01`, `2026-03-01T10:30:00.000+02:00`.
pub(crate) fn parse_date(text: &str, zone: &TimeZone) -> Option<Zoned> {
    parse_date_prefix(text, zone).filter(|(_, rest)| rest.is_empty()).map(|(date, _)| date)
}

/// Parses a date at the start of a text; returns the rest too.
fn parse_date_prefix<'t>(text: &'t str, zone: &TimeZone) -> Option<(Zoned, &'t str)> {
    let (year, rest) = digits(text, 4)?;
    let (month, rest) = digits(rest.strip_prefix('-')?, 2)?;
    let narrow = |number: i32| i8::try_from(number).ok();
    let day_part = rest.strip_prefix('-').and_then(|rest| digits(rest, 2));
    let (day, mut rest) = day_part.unwrap_or((1, rest));
    let date = Date::new(i16::try_from(year).ok()?, narrow(month)?, narrow(day)?).ok()?;
    let mut time = [0, 0, 0, 0];
    let mut zone = zone.clone();
    if let Some((hour, after)) = rest.strip_prefix('T').filter(|_| day_part.is_some()).and_then(|r| digits(r, 2)) {
        (time[0], rest) = (hour, after);
        for part in &mut time[1..3] {
            let Some((number, after)) = rest.strip_prefix(':').and_then(|rest| digits(rest, 2)) else { break };
            (*part, rest) = (number, after);
        }
        if let Some(fraction) = rest.strip_prefix('.') {
            let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
            let padded: String = fraction[..end].chars().chain("000000000".chars()).take(9).collect();
            (time[3], rest) = (padded.parse().ok().filter(|_| end > 0)?, &fraction[end..]);
        }
        (zone, rest) = offset(rest).unwrap_or((zone, rest));
    }
    let [hour, minute, second, nanosecond] = time;
    let time = Time::new(narrow(hour)?, narrow(minute)?, narrow(second)?, nanosecond).ok()?;
    Some((to_zoned(date.to_datetime(time), &zone)?, rest))
}

/// Exactly so many digits, not followed by another one.
fn digits(text: &str, count: usize) -> Option<(i32, &str)> {
    let (number, rest) = text.split_at_checked(count)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let ends = !rest.starts_with(|c: char| c.is_ascii_digit());
    (is_number && ends).then(|| number.parse().ok()).flatten().map(|number| (number, rest))
}

/// `Z`, `+02`, `+02:00`, `+0200`, or a zone in brackets.
fn offset(text: &str) -> Option<(TimeZone, &str)> {
    if let Some(rest) = text.strip_prefix(['Z', 'z']) {
        return Some((TimeZone::UTC, rest));
    }
    if let Some((name, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        return Some((TimeZone::get(name).ok()?, rest));
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let rest = text.strip_prefix(['+', '-'])?;
    let (hours, rest) = rest.split_at_checked(2)?;
    let hours: i32 = hours.parse().ok()?;
    let minutes = rest.strip_prefix(':').unwrap_or(rest);
    let (minutes, rest) = digits(minutes, 2).unwrap_or((0, rest));
    let offset = Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()?;
    Some((TimeZone::fixed(offset), rest))
}

/// Parses a text with a luxon format; `None` when they do not match.
pub(crate) fn parse_with_format(text: &str, format: &str, now: &Zoned) -> Option<Zoned> {
    let mut parts = DateParts::default();
    let mut rest = text.trim();
    for token in tokens(format.trim()) {
        if token.is_literal {
            rest = rest.strip_prefix(token.text)?;
        } else {
            rest = parts.read(token.text, rest)?;
        }
    }
    if rest.is_empty() { parts.build(now) } else { None }
}

#[derive(Default)]
struct DateParts {
    timestamp: Option<i64>,
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    hour: i8,
    minute: i8,
    second: i8,
    millisecond: i32,
    is_afternoon: Option<bool>,
    zone: Option<TimeZone>,
}

impl DateParts {
    /// Reads one token; returns the rest of the text.
    fn read<'t>(&mut self, token: &str, text: &'t str) -> Option<&'t str> {
        let number = |max: usize| {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()).min(max);
            Some((text[..end].parse::<i64>().ok()?, &text[end..]))
        };
        let fixed = |width: usize| number(width).filter(|(_, rest)| text.len() - rest.len() == width);
        let rest = match token {
            "y" => self.set_year(number(6)?)?,
            "yyyy" => self.set_year(fixed(4)?)?,
            "yy" => {
                let (year, rest) = fixed(2)?;
                self.set_year((if year > 60 { 1900 } else { 2000 } + year, rest))?
            }
            "M" | "L" => set(&mut self.month, number(2)?)?,
            "MM" | "LL" => set(&mut self.month, fixed(2)?)?,
            "MMM" | "LLL" | "MMMM" | "LLLL" => {
                let length = if token.len() == 3 { 3 } else { usize::MAX };
                let is_prefix = |name: &&str| {
                    let name = &name[..name.len().min(length)];
                    text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
                };
                let index = MONTHS.iter().position(is_prefix)?;
                self.month = Some(i8::try_from(index + 1).ok()?);
                &text[MONTHS[index].len().min(length)..]
            }
            "d" => set(&mut self.day, number(2)?)?,
            "dd" => set(&mut self.day, fixed(2)?)?,
            "H" | "h" => put(&mut self.hour, number(2)?)?,
            "HH" | "hh" => put(&mut self.hour, fixed(2)?)?,
            "m" => put(&mut self.minute, number(2)?)?,
            "mm" => put(&mut self.minute, fixed(2)?)?,
            "s" => put(&mut self.second, number(2)?)?,
            "ss" => put(&mut self.second, fixed(2)?)?,
            "S" | "u" => put(&mut self.millisecond, number(3)?)?,
            "SSS" => put(&mut self.millisecond, fixed(3)?)?,
            "a" => {
                self.is_afternoon = Some(text.get(..2)?.eq_ignore_ascii_case("pm"));
                &text[2..]
            }
            "x" | "X" => {
                let (number, rest) = number(18)?;
                self.timestamp = Some(if token == "X" { number.checked_mul(1000)? } else { number });
                rest
            }
            "Z" | "ZZ" | "ZZZ" => {
                let (zone, rest) = offset(text)?;
                self.zone = Some(zone);
                rest
            }
            "E" | "EEE" | "EEEE" | "c" | "ccc" | "cccc" => text.trim_start_matches(|c: char| c.is_ascii_alphanumeric()),
            _ => return None,
        };
        Some(rest)
    }

    fn set_year<'t>(&mut self, (year, rest): (i64, &'t str)) -> Option<&'t str> {
        self.year = Some(i16::try_from(year).ok()?);
        Some(rest)
    }

    fn build(self, now: &Zoned) -> Option<Zoned> {
        let zone = self.zone.unwrap_or_else(|| now.time_zone().clone());
        if let Some(timestamp) = self.timestamp {
            return Some(Timestamp::from_millisecond(timestamp).ok()?.to_zoned(zone));
        }
        let hour = match self.is_afternoon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        // Missing larger units are those of today, missing smaller ones the first.
        let month = self.month.unwrap_or(if self.year.is_some() { 1 } else { now.month() });
        let day = self.day.unwrap_or(if self.year.is_some() || self.month.is_some() { 1 } else { now.day() });
        let date = Date::new(self.year.unwrap_or_else(|| now.year()), month, day).ok()?;
        let time = Time::new(hour, self.minute, self.second, self.millisecond * 1_000_000).ok()?;
        to_zoned(DateTime::from_parts(date, time), &zone)
    }
}

fn set<'t>(slot: &mut Option<i8>, (number, rest): (i64, &'t str)) -> Option<&'t str> {
    *slot = Some(i8::try_from(number).ok()?);
    Some(rest)
}

fn put<'t, N: TryFrom<i64>>(slot: &mut N, (number, rest): (i64, &'t str)) -> Option<&'t str> {
    *slot = N::try_from(number).ok()?;
    Some(rest)
}
