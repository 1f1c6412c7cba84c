//! Functions of dates and durations.

use super::{text_argument, wrong};
use crate::error::Evaluation;
use crate::run::evaluate::Evaluator;
use crate::time::{Duration, format_date, format_duration, parse_date, parse_with_format, strip_time};
use crate::value::Value;

pub(super) fn date(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    if let Some(format) = arguments.get(1) {
        let text = match &arguments[0] {
            Value::Number(_) => arguments[0].to_text(),
            text => text_argument("date", text)?.to_owned(),
        };
        let format = text_argument("date", format)?;
        return Ok(parse_with_format(&text, format, &evaluator.now).map_or(Value::Null, Value::date));
    }
    Ok(match &arguments[0] {
        Value::Text(text) => {
            let text = text.trim();
            let word = crate::time::DateWord::named(text).and_then(|word| word.resolve(&evaluator.now));
            word.or_else(|| parse_date(text, evaluator.zone())).map_or(Value::Null, Value::date)
        }
        Value::Link(link) => evaluator.day_of_link(link)?,
        date @ Value::Date(_) => date.clone(),
        _ => Value::Null,
    })
}

pub(super) fn dur(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(match &arguments[0] {
        Value::Text(text) => Duration::parse(text).map_or(Value::Null, Value::duration),
        duration @ Value::Duration(_) => duration.clone(),
        _ => Value::Null,
    })
}

pub(super) fn strip(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    match &arguments[0] {
        Value::Date(date) => Ok(strip_time(date).map_or(Value::Null, Value::date)),
        other => wrong("striptime", "a date", other),
    }
}

pub(super) fn format(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let format = text_argument("dateformat", &arguments[1])?;
    match &arguments[0] {
        Value::Date(date) => Ok(Value::text(format_date(date, format))),
        other => wrong("dateformat", "a date", other),
    }
}

pub(super) fn format_dur(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let format = text_argument("durationformat", &arguments[1])?;
    match &arguments[0] {
        Value::Duration(duration) => Ok(Value::text(format_duration(duration, format))),
        other => wrong("durationformat", "a duration", other),
    }
}

pub(super) fn local_time(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    match &arguments[0] {
        Value::Date(date) => Ok(Value::date(date.with_time_zone(evaluator.zone().clone()))),
        other => wrong("localtime", "a date", other),
    }
}
