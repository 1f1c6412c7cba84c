//! The typed value of an inline field.

use jiff::civil::Date;
use serde_json::{Number, Value};

/// Largest integer that a 64-bit float stores exactly; a larger number is text.
const MAX_EXACT: i64 = 1 << 53;

/// The value of an inline field, typed as Dataview documents it.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// No value, or `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// `3`, `-1.5`. Leading zeros make a text.
    Number(Number),
    /// `2026-01-31`, `2026-01`, `2026-01-31T10:00`, as written.
    Date(String),
    /// `3 days`, `1h 30m`, `1 day, 4 hours`, as written.
    Duration(String),
    /// `[[page]]` or `![[page]]`, as written.
    Link(String),
    /// `"quoted"`, without the quotes.
    Quoted(String),
    /// Anything else, tags included.
    Text(String),
    /// Two or more of the above except `Text`, separated by commas; tags are allowed.
    List(Vec<FieldValue>),
}

impl FieldValue {
    /// Reads the text of a value.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if is_duration(text) {
            return Self::Duration(text.to_owned());
        }
        let mut items = Vec::new();
        let mut rest = text;
        while let Some((value, after)) = atom(rest) {
            items.push(value);
            match after.strip_prefix(',') {
                Some(next) => rest = next.trim_start(),
                None if after.is_empty() => {
                    let single = if items.len() == 1 { items.pop() } else { None };
                    return single.unwrap_or(Self::List(items));
                }
                None => break,
            }
        }
        if text.is_empty() { Self::Null } else { Self::Text(text.to_owned()) }
    }

    /// The value as in frontmatter: dates, durations and links as texts.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(boolean) => Value::Bool(*boolean),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Date(text) | Self::Duration(text) | Self::Link(text) | Self::Quoted(text) | Self::Text(text) => {
                Value::String(text.clone())
            }
            Self::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
        }
    }
}

/// The value at the start of a text, up to a comma or the end, and the text from there on.
fn atom(text: &str) -> Option<(FieldValue, &str)> {
    let (value, rest) = if text.starts_with('"') {
        let (quoted, rest) = quoted(text)?;
        (FieldValue::Quoted(quoted), rest)
    } else if text.starts_with("[[") || text.starts_with("![[") {
        let end = text.find("]]")? + 2;
        let is_one = text.find("[[").is_some_and(|open| !text[open + 2..end].contains(['[', '\n']));
        if !is_one {
            return None;
        }
        (FieldValue::Link(text[..end].to_owned()), &text[end..])
    } else {
        let (word, rest) = text.split_at(text.find(',').unwrap_or(text.len()));
        (plain(word.trim_end())?, rest)
    };
    let rest = rest.trim_start();
    (rest.is_empty() || rest.starts_with(',')).then_some((value, rest))
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.strip_prefix('"')?.chars();
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => match characters.next()? {
                escaped @ ('"' | '\\') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            character => value.push(character),
        }
    }
}

fn plain(word: &str) -> Option<FieldValue> {
    match word {
        "true" | "True" => return Some(FieldValue::Boolean(true)),
        "false" | "False" => return Some(FieldValue::Boolean(false)),
        "null" => return Some(FieldValue::Null),
        _ => {}
    }
    if is_date(word) {
        return Some(FieldValue::Date(word.to_owned()));
    }
    if is_duration(word) {
        return Some(FieldValue::Duration(word.to_owned()));
    }
    if word.strip_prefix('#').is_some_and(|tag| super::tags::tag_len(tag) == tag.len() && super::tags::is_tag(tag)) {
        return Some(FieldValue::Text(word.to_owned()));
    }
    number(word).map(FieldValue::Number)
}

fn number(word: &str) -> Option<Number> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || (whole.len() > 1 && whole.starts_with('0')) || !fraction.is_none_or(is_digits) {
        return None;
    }
    if fraction.is_some() {
        return if digits.len() <= 16 { Number::from_f64(word.parse().ok()?) } else { None };
    }
    word.parse::<i64>().ok().filter(|number| number.abs() <= MAX_EXACT).map(Number::from)
}

/// `YYYY-MM`, `YYYY-MM-DD`, or the latter with `T`, a time and a zone.
fn is_date(word: &str) -> bool {
    let bytes = word.as_bytes();
    if bytes.len() < 7 || bytes[4] != b'-' || !bytes[..4].iter().all(u8::is_ascii_digit) {
        return false;
    }
    let (day, time) = match word.split_once('T') {
        Some((day, time)) => (day, Some(time)),
        None => (word, None),
    };
    let is_day = match day.len() {
        7 => time.is_none() && format!("{day}-01").parse::<Date>().is_ok(),
        10 => day.parse::<Date>().is_ok(),
        _ => false,
    };
    is_day && time.is_none_or(is_time)
}

/// `HH`, `HH:MM`, `HH:MM:SS`, `HH:MM:SS.SSS`, with `Z` or `+HH:MM` after it.
fn is_time(time: &str) -> bool {
    let (clock, zone) = match time.find(['Z', '+', '-']) {
        Some(at) => (&time[..at], &time[at..]),
        None => (time, ""),
    };
    let (clock, fraction) = match clock.split_once('.') {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (clock, None),
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let fields: Vec<&str> = clock.split(':').collect();
    let limits = [24, 60, 60];
    let is_clock = fields.len() <= 3
        && fields.iter().zip(limits).all(|(field, limit)| {
            field.len() == 2 && is_digits(field) && field.parse::<u8>().is_ok_and(|number| number < limit)
        });
    let is_zone = matches!(zone, "" | "Z")
        || (zone[1..].len() <= 5 && zone[1..].split(':').all(|part| is_digits(part) && part.len() <= 4));
    is_clock && fraction.is_none_or(|fraction| fields.len() == 3 && is_digits(fraction)) && is_zone
}

const DURATION_UNITS: [&str; 31] = [
    "year", "years", "yr", "yrs", "y", "month", "months", "mo", "mos", "week", "weeks", "wk", "wks", "w", "day",
    "days", "d", "hour", "hours", "hr", "hrs", "h", "minute", "minutes", "min", "mins", "m", "second", "seconds",
    "sec", "s",
];

/// Numbers with units, separated by spaces or commas.
fn is_duration(text: &str) -> bool {
    if !text.starts_with(|first: char| first.is_ascii_digit()) || text.len() > 128 {
        return false;
    }
    let mut rest = text;
    loop {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        if digits == 0 || rest[..digits].parse::<f64>().is_err() {
            return false;
        }
        rest = rest[digits..].trim_start();
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = &rest[..letters];
        if !DURATION_UNITS.iter().any(|known| known.eq_ignore_ascii_case(unit)) && !unit.eq_ignore_ascii_case("secs") {
            return false;
        }
        rest = rest[letters..].trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        if rest.is_empty() {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_typed_as_dataview_documents_them() {
        let text = |text: &str| text.to_owned();
        for (written, expected) in [
            ("", FieldValue::Null),
            ("null", FieldValue::Null),
            ("true", FieldValue::Boolean(true)),
            ("False", FieldValue::Boolean(false)),
            ("yes", FieldValue::Text(text("yes"))),
            ("42", FieldValue::Number(42.into())),
            ("007", FieldValue::Text(text("007"))),
            ("1.2.3", FieldValue::Text(text("1.2.3"))),
            ("9007199254740993", FieldValue::Text(text("9007199254740993"))),
            ("2026-01-31", FieldValue::Date(text("2026-01-31"))),
            ("2026-01", FieldValue::Date(text("2026-01"))),
            ("2026-01-31T10:30:05.250+02:00", FieldValue::Date(text("2026-01-31T10:30:05.250+02:00"))),
            ("2026-13-31", FieldValue::Text(text("2026-13-31"))),
            ("2026-01-31T25:00", FieldValue::Text(text("2026-01-31T25:00"))),
            ("3 days", FieldValue::Duration(text("3 days"))),
            ("1 day, 4 hours", FieldValue::Duration(text("1 day, 4 hours"))),
            ("1h30m", FieldValue::Duration(text("1h30m"))),
            ("3 cats", FieldValue::Text(text("3 cats"))),
            ("[[Ann B]]", FieldValue::Link(text("[[Ann B]]"))),
            ("![[a.png|20]]", FieldValue::Link(text("![[a.png|20]]"))),
            ("see [[Ann]]", FieldValue::Text(text("see [[Ann]]"))),
            (r#""a, \"b\"""#, FieldValue::Quoted(text(r#"a, "b""#))),
            ("\"2026-01-31\"", FieldValue::Quoted(text("2026-01-31"))),
            ("a, b", FieldValue::Text(text("a, b"))),
            ("12, apples", FieldValue::Text(text("12, apples"))),
            ("été, 日本", FieldValue::Text(text("été, 日本"))),
        ] {
            assert_eq!(FieldValue::parse(written), expected, "{written}");
        }
        for (written, expected) in [
            ("-1.5", json!(-1.5)),
            ("\"a\", \"b,c\"", json!(["a", "b,c"])),
            ("[[a]], [[b|c]]", json!(["[[a]]", "[[b|c]]"])),
            ("1, 2,3", json!([1, 2, 3])),
            ("#a, #b/c", json!(["#a", "#b/c"])),
            ("[[a]], b", json!("[[a]], b")),
        ] {
            assert_eq!(FieldValue::parse(written).to_json(), expected, "{written}");
        }
    }
}
