//! `contains` and its variants.

use svcfs_text::fold::fold_name;

use super::text_argument;
use crate::error::Evaluation;
use crate::run::evaluate::Evaluator;
use crate::value::Value;

/// Items of lists are searched as well: a list of texts contains a part of one of them.
pub(super) fn contains(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::Boolean(search(evaluator, &arguments[0], &arguments[1], false)?))
}

pub(super) fn icontains(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::Boolean(search(evaluator, &arguments[0], &arguments[1], true)?))
}

fn search(evaluator: &Evaluator<'_>, container: &Value, wanted: &Value, ignores_case: bool) -> Evaluation<bool> {
    Ok(match container {
        Value::Null => false,
        Value::Text(text) => match wanted {
            Value::Null => false,
            Value::Text(part) => is_part(text, part, ignores_case),
            other => is_part(text, &other.to_text(), ignores_case),
        },
        Value::List(items) => {
            for item in items.iter() {
                evaluator.check_deadline()?;
                if search(evaluator, item, wanted, ignores_case)? {
                    return Ok(true);
                }
            }
            false
        }
        other => match (evaluator.members(other)?, wanted) {
            (Some(members), Value::Text(key)) => members
                .iter()
                .any(|(name, _)| if ignores_case { fold_name(name) == fold_name(key) } else { **name == **key }),
            _ => evaluator.is_equal(other, wanted),
        },
    })
}

fn is_part(text: &str, part: &str, ignores_case: bool) -> bool {
    if ignores_case { text.to_lowercase().contains(&part.to_lowercase()) } else { text.contains(part) }
}

pub(super) fn econtains(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let (container, wanted) = (&arguments[0], &arguments[1]);
    let is_match = match container {
        Value::Null => false,
        Value::List(items) => items.iter().any(|item| evaluator.is_equal(item, wanted)),
        Value::Text(_) => search(evaluator, container, wanted, false)?,
        other => match evaluator.members(other)? {
            Some(members) => wanted.as_text().is_some_and(|key| members.iter().any(|(name, _)| name == key)),
            None => evaluator.is_equal(other, wanted),
        },
    };
    Ok(Value::Boolean(is_match))
}

pub(super) fn contains_word(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    if arguments[1].is_null() {
        return Ok(Value::Boolean(false));
    }
    let text = fold_name(text_argument("containsword", &arguments[0])?).into_owned();
    let word = fold_name(text_argument("containsword", &arguments[1])?).into_owned();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_match = text.match_indices(&word).any(|(at, part)| {
        let before = text[..at].chars().next_back();
        let after = text[at + part.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    });
    Ok(Value::Boolean(is_match))
}
