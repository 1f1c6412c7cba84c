//! Functions of texts.

use super::{count_argument, number_argument, position_argument, text_argument};
use crate::error::{Evaluation, Failure};
use crate::run::evaluate::{Evaluator, MAX_TEXT_BYTES};
use crate::run::operators::limited;
use crate::value::Value;

pub(super) fn string(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::text(arguments[0].to_text()))
}

pub(super) fn display(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let text = if arguments[0].is_null() { String::new() } else { arguments[0].to_display() };
    Ok(Value::text(without_markup(&text)))
}

/// Links and URLs in a text by what is shown of them.
fn without_markup(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('[') {
        plain.push_str(&rest[..at]);
        let inner = &rest[at + 1..];
        let wiki = inner.strip_prefix('[').and_then(|inner| inner.split_once("]]"));
        let url = inner.split_once("](").and_then(|(label, rest)| Some((label, rest.split_once(')')?.1)));
        if let Some((target, after)) = wiki.filter(|(target, _)| !target.contains(['[', '\n'])) {
            plain.push_str(&crate::value::Link::parse_inner(target).display_text());
            rest = after;
        } else if let Some((label, after)) = url.filter(|(label, _)| !label.contains(['[', '\n'])) {
            plain.push_str(label);
            rest = after;
        } else {
            plain.push('[');
            rest = inner;
        }
    }
    plain.push_str(rest);
    without_emphasis(&plain)
}

/// A text without the pairs of `**`, `__`, `~~`, `==`, `` ` ``, `*` and `_` around words.
fn without_emphasis(text: &str) -> String {
    let mut plain = text.to_owned();
    for mark in ["**", "__", "~~", "==", "`", "*", "_"] {
        let mut parts = plain.split(mark);
        let mut joined = parts.next().unwrap_or_default().to_owned();
        let mut rest = parts.peekable();
        while let Some(inner) = rest.next() {
            // A mark closes the one before it, if neither has a blank inside.
            let is_pair = rest.peek().is_some()
                && !inner.is_empty()
                && !inner.starts_with(char::is_whitespace)
                && !inner.ends_with(char::is_whitespace)
                && (mark != "_" || !joined.ends_with(char::is_alphanumeric));
            joined.push_str(if is_pair { "" } else { mark });
            joined.push_str(inner);
            if is_pair {
                joined.push_str(rest.next().unwrap_or_default());
            }
        }
        plain = joined;
    }
    plain
}

pub(super) fn lower(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::text(text_argument("lower", &arguments[0])?.to_lowercase()))
}

pub(super) fn upper(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::text(text_argument("upper", &arguments[0])?.to_uppercase()))
}

pub(super) fn replace(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let text = |index: usize| text_argument("replace", &arguments[index]);
    let (source, pattern, replacement) = (text(0)?, text(1)?, text(2)?);
    let count = if pattern.is_empty() { source.len() + 1 } else { source.len() / pattern.len() };
    if count.saturating_mul(replacement.len()) > MAX_TEXT_BYTES {
        return Err(Failure::query(format!("a text is longer than {MAX_TEXT_BYTES} bytes")));
    }
    Ok(Value::text(source.replace(pattern, replacement)))
}

pub(super) fn starts_with(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    if arguments[1].is_null() {
        return Ok(Value::Null);
    }
    let text = |index: usize| text_argument("startswith", &arguments[index]);
    Ok(Value::Boolean(text(0)?.starts_with(text(1)?)))
}

pub(super) fn ends_with(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    if arguments[1].is_null() {
        return Ok(Value::Null);
    }
    let text = |index: usize| text_argument("endswith", &arguments[index]);
    Ok(Value::Boolean(text(0)?.ends_with(text(1)?)))
}

pub(super) fn pad_left(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let text = text_argument("padleft", &arguments[0])?;
    Ok(Value::text(format!("{}{text}", padding("padleft", text, arguments)?)))
}

pub(super) fn pad_right(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let text = text_argument("padright", &arguments[0])?;
    Ok(Value::text(format!("{text}{}", padding("padright", text, arguments)?)))
}

fn padding(name: &str, text: &str, arguments: &[Value]) -> Evaluation<String> {
    let count = count_argument(name, &arguments[1])?.saturating_sub(text.chars().count());
    let fill = match arguments.get(2) {
        None | Some(Value::Null) => " ",
        Some(fill) => text_argument(name, fill)?,
    };
    if count > MAX_TEXT_BYTES {
        return Err(Failure::query(format!("a text is longer than {MAX_TEXT_BYTES} bytes")));
    }
    limited(fill.chars().cycle().take(count).collect())
}

pub(super) fn substring(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let characters: Vec<char> = text_argument("substring", &arguments[0])?.chars().collect();
    // Unlike in `slice`, negative positions are 0, and the smaller one is the start.
    let position = |value: &Value| {
        let number = number_argument("substring", value)?.max(0.0);
        position_argument("substring", &Value::Number(number), characters.len())
    };
    let start = position(&arguments[1])?;
    let end = match arguments.get(2) {
        None | Some(Value::Null) => characters.len(),
        Some(end) => position(end)?,
    };
    Ok(Value::text(characters[start.min(end)..start.max(end)].iter().collect::<String>()))
}

pub(super) fn truncate(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let text = text_argument("truncate", &arguments[0])?;
    let length = count_argument("truncate", &arguments[1])?;
    let suffix = match arguments.get(2) {
        None | Some(Value::Null) => "...",
        Some(suffix) => text_argument("truncate", suffix)?,
    };
    if text.chars().count() <= length {
        return Ok(arguments[0].clone());
    }
    let start: String = text.chars().take(length.saturating_sub(suffix.chars().count())).collect();
    Ok(Value::text(format!("{start}{suffix}")))
}
