//! Formatting of dates with the tokens of luxon, in English.

use jiff::Zoned;
use jiff::civil::Weekday;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A run of one letter, or text that is copied.
pub(super) struct FormatToken<'f> {
    pub(super) text: &'f str,
    pub(super) is_literal: bool,
}

/// Splits a format into tokens; text in single quotes is literal.
pub(super) fn tokens(format: &str) -> Vec<FormatToken<'_>> {
    let mut tokens = Vec::new();
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        let end = if first == '\'' {
            let inner = &rest[1..];
            let end = inner.find('\'').unwrap_or(inner.len());
            tokens.push(FormatToken { text: &inner[..end], is_literal: true });
            (end + 2).min(rest.len())
        } else {
            let end = rest.find(|c| c != first).unwrap_or(rest.len());
            tokens.push(FormatToken { text: &rest[..end], is_literal: !first.is_ascii_alphabetic() });
            end
        };
        rest = &rest[end..];
    }
    tokens
}

pub(crate) fn format_date(date: &Zoned, format: &str) -> String {
    let mut text = String::new();
    for token in tokens(format) {
        if token.is_literal {
            text.push_str(token.text);
        } else if let Some(pattern) = macro_pattern(token.text) {
            text.push_str(&format_date(date, pattern));
        } else {
            text.push_str(&field(date, token.text).unwrap_or_else(|| token.text.to_owned()));
        }
    }
    text
}

/// The expansion of a localized token.
fn macro_pattern(token: &str) -> Option<&'static str> {
    Some(match token {
        "D" => "M/d/yyyy",
        "DD" => "LLL d, yyyy",
        "DDD" => "LLLL d, yyyy",
        "DDDD" => "cccc, LLLL d, yyyy",
        "t" => "h:mm a",
        "tt" => "h:mm:ss a",
        "ttt" => "h:mm:ss a ZZZZ",
        "tttt" => "h:mm:ss a ZZZZZ",
        "T" => "HH:mm",
        "TT" => "HH:mm:ss",
        "TTT" => "HH:mm:ss ZZZZ",
        "TTTT" => "HH:mm:ss ZZZZZ",
        "f" => "M/d/yyyy, h:mm a",
        "ff" => "LLL d, yyyy, h:mm a",
        "fff" => "LLLL d, yyyy 'at' h:mm a ZZZZ",
        "ffff" => "cccc, LLLL d, yyyy 'at' h:mm a ZZZZZ",
        "F" => "M/d/yyyy, h:mm:ss a",
        "FF" => "LLL d, yyyy, h:mm:ss a",
        "FFF" => "LLLL d, yyyy 'at' h:mm:ss a ZZZZ",
        "FFFF" => "cccc, LLLL d, yyyy 'at' h:mm:ss a ZZZZZ",
        _ => return None,
    })
}

fn field(date: &Zoned, token: &str) -> Option<String> {
    let pad = |number: i64, width: usize| format!("{number:0width$}");
    let hour12 = match date.hour() % 12 {
        0 => 12,
        hour => i64::from(hour),
    };
    let millisecond = i64::from(date.millisecond());
    let week = date.date().iso_week_date();
    let quarter = i64::from((date.month() - 1) / 3 + 1);
    let month = MONTHS.get(usize::try_from(date.month() - 1).ok()?)?;
    let weekday = WEEKDAYS.get(usize::try_from(weekday_number(date.weekday()) - 1).ok()?)?;
    let year = i64::from(date.year());
    Some(match token {
        "S" => millisecond.to_string(),
        "SSS" | "u" => pad(millisecond, 3),
        "uu" => pad(millisecond / 10, 2),
        "uuu" => (millisecond / 100).to_string(),
        "s" => date.second().to_string(),
        "ss" => pad(date.second().into(), 2),
        "m" => date.minute().to_string(),
        "mm" => pad(date.minute().into(), 2),
        "h" => hour12.to_string(),
        "hh" => pad(hour12, 2),
        "H" => date.hour().to_string(),
        "HH" => pad(date.hour().into(), 2),
        "Z" => offset(date, false, ":"),
        "ZZ" => offset(date, true, ":"),
        "ZZZ" => offset(date, true, ""),
        "ZZZZ" | "ZZZZZ" => date.strftime("%Z").to_string(),
        "z" => date.time_zone().iana_name().map_or_else(|| format!("UTC{}", offset(date, false, ":")), str::to_owned),
        "a" => if date.hour() < 12 { "AM" } else { "PM" }.to_owned(),
        "d" => date.day().to_string(),
        "dd" => pad(date.day().into(), 2),
        "c" | "E" => weekday_number(date.weekday()).to_string(),
        "ccc" | "EEE" => weekday[..3].to_owned(),
        "cccc" | "EEEE" => (*weekday).to_owned(),
        "ccccc" | "EEEEE" => weekday[..1].to_owned(),
        "L" | "M" => date.month().to_string(),
        "LL" | "MM" => pad(date.month().into(), 2),
        "LLL" | "MMM" => month[..3].to_owned(),
        "LLLL" | "MMMM" => (*month).to_owned(),
        "LLLLL" | "MMMMM" => month[..1].to_owned(),
        "y" => year.to_string(),
        "yy" => pad(year.rem_euclid(100), 2),
        "yyyy" => pad(year, 4),
        "yyyyyy" => pad(year, 6),
        "G" => if year > 0 { "AD" } else { "BC" }.to_owned(),
        "GG" => if year > 0 { "Anno Domini" } else { "Before Christ" }.to_owned(),
        "GGGGG" => if year > 0 { "A" } else { "B" }.to_owned(),
        "kk" | "ii" => pad(i64::from(week.year()).rem_euclid(100), 2),
        "kkkk" | "iiii" => pad(week.year().into(), 4),
        "W" | "n" => week.week().to_string(),
        "WW" | "nn" => pad(week.week().into(), 2),
        "o" => date.day_of_year().to_string(),
        "ooo" => pad(date.day_of_year().into(), 3),
        "q" => quarter.to_string(),
        "qq" => pad(quarter, 2),
        "X" => date.timestamp().as_second().to_string(),
        "x" => date.timestamp().as_millisecond().to_string(),
        _ => return None,
    })
}

/// 1 for Monday.
pub(crate) fn weekday_number(weekday: Weekday) -> i8 {
    weekday.to_monday_one_offset()
}

fn offset(date: &Zoned, is_padded: bool, separator: &str) -> String {
    let seconds = date.offset().seconds();
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    let (hours, minutes) = (minutes / 60, minutes % 60);
    match (is_padded, minutes) {
        (true, _) => format!("{sign}{hours:02}{separator}{minutes:02}"),
        (false, 0) => format!("{sign}{hours}"),
        (false, _) => format!("{sign}{hours}:{minutes:02}"),
    }
}
