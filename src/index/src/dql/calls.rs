//! Implementation of the functions.

use jiff::tz::TimeZone;

use super::evaluate::EvaluationContext;
use super::functions::Function;
use crate::IndexError;
use crate::dates::WrittenDate;
use crate::value::{DAY, DateLength, Value};

/// Limit of a computed text in bytes: nested `replace` could fill any memory.
const MAX_TEXT: usize = 1 << 20;

pub(crate) fn bounded(text: String) -> Result<Value, IndexError> {
    if text.len() > MAX_TEXT {
        return Err(IndexError::invalid("q", "computes a text of more than 1 MiB; the limit is 1 MiB"));
    }
    Ok(Value::Text(text))
}

pub(crate) fn count(items: usize) -> Value {
    i64::try_from(items).map_or(Value::Null, Value::Integer)
}

pub(crate) fn negative(value: Value) -> Value {
    match value {
        Value::Integer(integer) => integer.checked_neg().map_or(Value::Null, Value::Integer),
        Value::Real(real) => Value::Real(-real),
        Value::Length(length) => length.times(-1).map_or(Value::Null, Value::Length),
        Value::Null
        | Value::Boolean(_)
        | Value::Text(_)
        | Value::Day(_)
        | Value::Instant(_)
        | Value::List(_)
        | Value::Object(_) => Value::Null,
    }
}

/// Calls a function. The number of arguments was checked when the query was parsed.
pub(crate) fn call(context: &EvaluationContext<'_>, function: Function, values: &[Value]) -> Result<Value, IndexError> {
    let absent = Value::Null;
    let at = |index: usize| values.get(index).unwrap_or(&absent);
    let first = at(0);
    Ok(match function {
        Function::Average => average(first),
        Function::Sum => sum(first),
        Function::Min => extreme(values, false),
        Function::Max => extreme(values, true),
        Function::Count => count(items(first).iter().filter(|item| !item.is_null()).count()),
        Function::Join => join_texts(first, values.get(1))?,
        Function::Contains => Value::Boolean(items(first).iter().any(|item| !item.is_null() && item.equals(at(1)))),
        Function::Date => first.date().and_then(day).map_or(Value::Null, Value::Day),
        Function::Today => day(WrittenDate::Instant(context.now)).map_or(Value::Null, Value::Day),
        Function::Now => Value::Instant(context.now),
        Function::DateFormat => format_date(first, at(1))?,
        Function::DaysAgo => days_ago(context, first),
        Function::DaysSince => {
            let since = first.date().and_then(|from| DateLength::between(from, WrittenDate::Instant(context.now)));
            since.map_or(Value::Null, |length| Value::Real(length.days()))
        }
        Function::Length => length(first),
        Function::Lower => texts(first, &|text| text.to_lowercase()),
        Function::Upper => texts(first, &|text| text.to_uppercase()),
        Function::StartsWith => compare_folded(first, at(1), |text, part| text.starts_with(part)),
        Function::EndsWith => compare_folded(first, at(1), |text, part| text.ends_with(part)),
        Function::Matches => compare_folded(first, at(1), |text, part| text.contains(part)),
        Function::NonNull => match first {
            Value::List(items) => Value::List(items.iter().filter(|item| !item.is_null()).cloned().collect()),
            other => other.clone(),
        },
        Function::Number => number(first),
        Function::String => {
            if first.is_null() {
                Value::Null
            } else {
                bounded(first.text())?
            }
        }
        Function::RegexTest => {
            let (pattern, text) = (first.text(), at(1));
            let fits = context.with_pattern(&pattern, false, |regex| regex.is_match(&text.text()));
            Value::Boolean(!text.is_null() && fits.unwrap_or_default())
        }
        Function::RegexReplace => regex_replace(context, values)?,
        Function::Replace => replace_text(values)?,
        Function::Round => round(first, at(1)),
        Function::Substring => substring(values),
        Function::TypeOf => Value::Text(type_of(first).to_owned()),
        // These need the row; `evaluate` handles them before it evaluates arguments.
        Function::Choice | Function::Default | Function::InLinks | Function::OutLinks => Value::Null,
    })
}

/// The items of a list; a single value counts as a list of one, null as an empty one.
fn items(value: &Value) -> &[Value] {
    match value {
        Value::List(items) => items,
        Value::Null => &[],
        other => std::slice::from_ref(other),
    }
}

fn sum(list: &Value) -> Value {
    let mut exact = Some(0_i64);
    let mut real = 0.0;
    let mut is_any = false;
    for item in items(list) {
        let Some(number) = item.number() else { continue };
        is_any = true;
        real += number;
        exact = if let Value::Integer(integer) = item { exact.and_then(|sum| sum.checked_add(*integer)) } else { None };
    }
    match (is_any, exact) {
        (false, _) => Value::Null,
        (true, Some(integer)) => Value::Integer(integer),
        (true, None) => Value::Real(real),
    }
}

fn average(list: &Value) -> Value {
    let numbers: Vec<f64> = items(list).iter().filter_map(Value::number).collect();
    #[expect(clippy::cast_precision_loss, reason = "a list has fewer than 2^53 numbers")]
    let count = numbers.len() as f64;
    if numbers.is_empty() { Value::Null } else { Value::Real(numbers.iter().sum::<f64>() / count) }
}

fn extreme(values: &[Value], greatest: bool) -> Value {
    let candidates: Vec<&Value> =
        if let [list] = values { items(list).iter().collect() } else { values.iter().collect() };
    let present = candidates.into_iter().filter(|value| !value.is_null());
    let order = |a: &&Value, b: &&Value| a.order(b, false);
    let result = if greatest { present.max_by(order) } else { present.min_by(order) };
    result.cloned().unwrap_or(Value::Null)
}

fn join_texts(list: &Value, separator: Option<&Value>) -> Result<Value, IndexError> {
    let separator = separator.map_or_else(|| ", ".to_owned(), Value::text);
    let texts: Vec<String> = items(list).iter().filter(|item| !item.is_null()).map(Value::text).collect();
    let bytes = texts.iter().map(|text| text.len() + separator.len()).sum::<usize>();
    if bytes > MAX_TEXT {
        return bounded(" ".repeat(MAX_TEXT + 1));
    }
    bounded(texts.join(&separator))
}

fn day(date: WrittenDate) -> Option<jiff::civil::Date> {
    match date {
        WrittenDate::Day(day) => Some(day),
        WrittenDate::Instant(instant) => Some(instant.to_zoned(TimeZone::UTC).date()),
    }
}

fn format_date(date: &Value, format: &Value) -> Result<Value, IndexError> {
    let (Some(date), Value::Text(format)) = (date.date(), format) else {
        return Ok(Value::Null);
    };
    let zoned = match date {
        WrittenDate::Day(day) => day.to_zoned(TimeZone::UTC).ok(),
        WrittenDate::Instant(instant) => Some(instant.to_zoned(TimeZone::UTC)),
    };
    let Some(zoned) = zoned else {
        return Ok(Value::Null);
    };
    match jiff::fmt::strtime::format(format, &zoned) {
        Ok(text) => bounded(text),
        Err(error) => Err(IndexError::invalid("q", format!("dateformat cannot use this format: {error}"))),
    }
}

fn days_ago(context: &EvaluationContext<'_>, days: &Value) -> Value {
    let ago = days.number().and_then(|days| {
        #[expect(clippy::cast_precision_loss, reason = "a constant far below 2^53")]
        let microseconds = days * DAY as f64;
        #[expect(clippy::cast_possible_truncation, reason = "what is too large becomes the largest, which no date is")]
        let microseconds = microseconds as i64;
        context.now.as_microsecond().checked_sub(microseconds)
    });
    let instant = ago.and_then(|ago| jiff::Timestamp::from_microsecond(ago).ok());
    instant.map_or(Value::Null, Value::Instant)
}

fn length(value: &Value) -> Value {
    match value {
        Value::Null => Value::Integer(0),
        Value::List(items) => count(items.len()),
        Value::Object(members) => count(members.len()),
        other => count(other.text().chars().count()),
    }
}

fn texts(value: &Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::Text(text) => Value::Text(change(text)),
        Value::List(items) => Value::List(items.iter().map(|item| texts(item, change)).collect()),
        other => other.clone(),
    }
}

fn compare_folded(text: &Value, part: &Value, test: fn(&str, &str) -> bool) -> Value {
    let is_there = !text.is_null() && !part.is_null();
    Value::Boolean(is_there && test(&text.text().to_lowercase(), &part.text().to_lowercase()))
}

fn number(value: &Value) -> Value {
    match value {
        Value::Integer(_) | Value::Real(_) => value.clone(),
        Value::Boolean(boolean) => Value::Integer(i64::from(*boolean)),
        Value::Length(length) => Value::Real(length.days()),
        Value::Text(text) => {
            let text = text.trim();
            let real = || text.parse().ok().filter(|real: &f64| real.is_finite()).map(Value::Real);
            text.parse().map(Value::Integer).ok().or_else(real).unwrap_or(Value::Null)
        }
        Value::Null | Value::Day(_) | Value::Instant(_) | Value::List(_) | Value::Object(_) => Value::Null,
    }
}

fn regex_replace(context: &EvaluationContext<'_>, values: &[Value]) -> Result<Value, IndexError> {
    let [text, pattern, by] = values else { return Ok(Value::Null) };
    if text.is_null() {
        return Ok(Value::Null);
    }
    let (text, by) = (text.text(), by.text());
    // A replacement may contain the full match several times.
    let fits_limit =
        |matches: usize| matches.saturating_mul(by.len().saturating_mul(text.len().max(1)).max(1)) <= MAX_TEXT * 64;
    let replaced = context.with_pattern(&pattern.text(), false, |regex| {
        let matches = regex.find_iter(&text).count();
        fits_limit(matches).then(|| regex.replace_all(&text, by.as_str()).into_owned())
    });
    match replaced {
        Some(Some(replaced)) => bounded(replaced),
        Some(None) => bounded(" ".repeat(MAX_TEXT + 1)),
        None => bounded(text),
    }
}

fn replace_text(values: &[Value]) -> Result<Value, IndexError> {
    let [text, part, by] = values else { return Ok(Value::Null) };
    if text.is_null() {
        return Ok(Value::Null);
    }
    let (text, part, by) = (text.text(), part.text(), by.text());
    if part.is_empty() {
        return bounded(text);
    }
    if text.matches(&part).count().saturating_mul(by.len()) > MAX_TEXT {
        return bounded(" ".repeat(MAX_TEXT + 1));
    }
    bounded(text.replace(&part, &by))
}

fn round(value: &Value, digits: &Value) -> Value {
    let digits = if let Value::Integer(digits) = digits {
        i32::try_from((*digits).clamp(-15, 15)).unwrap_or_default()
    } else {
        0
    };
    if matches!(value, Value::Integer(_)) && digits >= 0 {
        return value.clone();
    }
    value.number().map_or(Value::Null, |number| {
        let scale = 10_f64.powi(digits);
        let rounded = (number * scale).round() / scale;
        #[expect(clippy::cast_possible_truncation, reason = "only what is far below 2^53 is made whole")]
        let integer = rounded as i64;
        if digits <= 0 && rounded.abs() < 1e15 { Value::Integer(integer) } else { Value::Real(rounded) }
    })
}

/// `start` counts from 1 as in SQL; a negative one counts from the end.
fn substring(values: &[Value]) -> Value {
    let (Some(text), Some(Value::Integer(start))) = (values.first(), values.get(1)) else {
        return Value::Null;
    };
    if text.is_null() {
        return Value::Null;
    }
    let characters: Vec<char> = text.text().chars().collect();
    let length = i64::try_from(characters.len()).unwrap_or(i64::MAX);
    let from = if *start < 0 { length.saturating_add(*start).max(0) } else { start.saturating_sub(1).clamp(0, length) };
    let end = match values.get(2) {
        Some(Value::Integer(count)) => from.saturating_add((*count).max(0)).min(length),
        Some(_) => return Value::Null,
        None => length,
    };
    let to_index = |index: i64| usize::try_from(index).unwrap_or_default();
    Value::Text(characters[to_index(from)..to_index(end)].iter().collect())
}

const fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) => "integer",
        Value::Real(_) => "real",
        Value::Text(_) => "text",
        Value::Day(_) | Value::Instant(_) => "date",
        Value::Length(_) => "duration",
        Value::List(_) => "list",
        Value::Object(_) => "object",
    }
}
