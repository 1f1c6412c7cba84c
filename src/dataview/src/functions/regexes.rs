//! Functions of regular expressions.

use super::{count_argument, text_argument, wrong};
use crate::error::Evaluation;
use crate::run::evaluate::Evaluator;
use crate::run::operators::limited;
use crate::value::Value;

pub(super) fn test(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    search(evaluator, "regextest", arguments, false)
}

pub(super) fn matches(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    search(evaluator, "regexmatch", arguments, true)
}

/// Lists in either place give a list; null matches nothing.
fn search(evaluator: &Evaluator<'_>, name: &str, arguments: &[Value], is_complete: bool) -> Evaluation<Value> {
    match (&arguments[0], &arguments[1]) {
        (Value::List(patterns), text) => {
            let results = patterns.iter().map(|one| search(evaluator, name, &[one.clone(), text.clone()], is_complete));
            Ok(Value::list(results.collect::<Evaluation<_>>()?))
        }
        (pattern, Value::List(texts)) => {
            let results = texts.iter().map(|one| search(evaluator, name, &[pattern.clone(), one.clone()], is_complete));
            Ok(Value::list(results.collect::<Evaluation<_>>()?))
        }
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Boolean(false)),
        (Value::Text(pattern), Value::Text(text)) => {
            let pattern = translate(pattern);
            let pattern = if is_complete { format!("^(?:{pattern})$") } else { pattern };
            Ok(Value::Boolean(evaluator.regex(&pattern)?.is_match(text)))
        }
        (Value::Text(_), other) | (other, _) => wrong(name, "texts", other),
    }
}

pub(super) fn replace(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let text = |index: usize| text_argument("regexreplace", &arguments[index]);
    let (source, pattern, replacement) = (text(0)?, text(1)?, text(2)?);
    let regex = evaluator.regex(&translate(pattern))?;
    let mut replaced = String::new();
    let mut copied = 0;
    for captures in regex.captures_iter(source) {
        evaluator.check_deadline()?;
        let Some(whole) = captures.get(0) else { continue };
        replaced.push_str(&source[copied..whole.start()]);
        captures.expand(&expansion(replacement), &mut replaced);
        copied = whole.end();
        if replaced.len() > crate::run::evaluate::MAX_TEXT_BYTES {
            break;
        }
    }
    replaced.push_str(&source[copied..]);
    Ok(Value::text(limited(replaced)?))
}

/// A replacement of JavaScript (`$1`, `$&`, `$<name>`, `$$`) as one of the regex crate.
fn expansion(replacement: &str) -> String {
    let mut text = String::with_capacity(replacement.len());
    let mut rest = replacement;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let digits = after.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            text.push_str(&format!("${{{}}}", &after[..digits]));
            rest = &after[digits..];
        } else if let Some((name, after)) = after.strip_prefix('<').and_then(|after| after.split_once('>')) {
            text.push_str(&format!("${{{name}}}"));
            rest = after;
        } else {
            text.push_str(if after.starts_with('&') { "${0}" } else { "$$" });
            rest = after.strip_prefix(['&', '$']).unwrap_or(after);
        }
    }
    text.push_str(rest);
    text
}

/// Splits at a regular expression; its groups become items of their own.
pub(super) fn split(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let text = text_argument("split", &arguments[0])?;
    let regex = evaluator.regex(&translate(text_argument("split", &arguments[1])?))?;
    let limit = match arguments.get(2) {
        None | Some(Value::Null) => usize::MAX,
        Some(limit) => count_argument("split", limit)?,
    };
    let mut parts: Vec<&str> = Vec::new();
    let mut start = 0;
    for captures in regex.captures_iter(text) {
        evaluator.check_deadline()?;
        let Some(whole) = captures.get(0) else { continue };
        // An empty match splits between characters only.
        if whole.is_empty() && (whole.start() == start || whole.start() == text.len()) {
            continue;
        }
        parts.push(&text[start..whole.start()]);
        parts.extend(captures.iter().skip(1).map(|group| group.map_or("", |group| group.as_str())));
        start = whole.end();
    }
    parts.push(&text[start..]);
    Ok(Value::list(parts.into_iter().take(limit).map(Value::text).collect()))
}

/// A pattern of JavaScript for the regex crate: `\d` and `\w` are ASCII, `[` in a class is a
/// character.
fn translate(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    let mut is_class = false;
    while let Some(c) = characters.next() {
        match c {
            '\\' => match (characters.next(), is_class) {
                (Some('d'), false) => text.push_str("[0-9]"),
                (Some('D'), false) => text.push_str("[^0-9]"),
                (Some('w'), false) => text.push_str("[0-9A-Za-z_]"),
                (Some('W'), false) => text.push_str("[^0-9A-Za-z_]"),
                (Some('d'), true) => text.push_str("0-9"),
                (Some('w'), true) => text.push_str("0-9A-Za-z_"),
                (Some('b'), false) => text.push_str("(?-u:\\b)"),
                (Some(escaped), _) => text.extend(['\\', escaped]),
                (None, _) => text.push('\\'),
            },
            '[' if is_class => text.push_str("\\["),
            '[' => {
                is_class = true;
                text.push('[');
                // `[^]` is any character in JavaScript; `[]…]` is empty.
                if characters.as_str().starts_with('^') {
                    characters.next();
                    text.push('^');
                }
            }
            ']' => {
                is_class = false;
                text.push(']');
            }
            '&' | '~' if is_class => text.extend(['\\', c]),
            c => text.push(c),
        }
    }
    text
}
