//! Functions of lists.

use std::cmp::Ordering;

use super::{count_argument, position_argument, text_argument, wrong};
use crate::error::{Evaluation, Failure};
use crate::run::evaluate::{Evaluator, MAX_LIST_ITEMS};
use crate::run::operators::{apply, limited};
use crate::syntax::Operator;
use crate::value::Value;

/// The items of a list; null has none.
fn items<'a>(name: &str, value: &'a Value) -> Evaluation<&'a [Value]> {
    match value {
        Value::List(items) => Ok(items),
        Value::Null => Ok(&[]),
        other => wrong(name, "a list", other),
    }
}

/// The arguments, or the items of the only one.
fn items_or_arguments(arguments: &[Value]) -> &[Value] {
    match arguments {
        [Value::List(items)] => items,
        arguments => arguments,
    }
}

pub(super) fn min(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(extreme(evaluator, arguments, Ordering::Less))
}

pub(super) fn max(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(extreme(evaluator, arguments, Ordering::Greater))
}

fn extreme(evaluator: &Evaluator<'_>, arguments: &[Value], wanted: Ordering) -> Value {
    let values = items_or_arguments(arguments).iter().filter(|value| !value.is_null());
    let better = |best: &Value, value: &Value| evaluator.compare(value, best) == wanted;
    let best = values.reduce(|best, value| if better(best, value) { value } else { best });
    best.cloned().unwrap_or(Value::Null)
}

pub(super) fn min_by(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    extreme_by(evaluator, "minby", arguments, Ordering::Less)
}

pub(super) fn max_by(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    extreme_by(evaluator, "maxby", arguments, Ordering::Greater)
}

fn extreme_by(evaluator: &Evaluator<'_>, name: &str, arguments: &[Value], wanted: Ordering) -> Evaluation<Value> {
    let mut best: Option<(&Value, Value)> = None;
    for item in items(name, &arguments[0])? {
        let key = evaluator.call(&arguments[1], std::slice::from_ref(item))?;
        let is_better = best.as_ref().is_none_or(|(_, known)| evaluator.compare(&key, known) == wanted);
        if !key.is_null() && is_better {
            best = Some((item, key));
        }
    }
    Ok(best.map_or(Value::Null, |(item, _)| item.clone()))
}

pub(super) fn reduce(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let list = items("reduce", &arguments[0])?;
    if let function @ Value::Function(_) = &arguments[1] {
        let Some((first, rest)) = list.split_first() else { return Ok(Value::Null) };
        return rest.iter().try_fold(first.clone(), |left, right| {
            Evaluator::limited(evaluator.call(function, &[left, right.clone()])?)
        });
    }
    let operator = match text_argument("reduce", &arguments[1])? {
        "+" => Operator::Add,
        "-" => Operator::Subtract,
        "*" => Operator::Multiply,
        "/" => Operator::Divide,
        "&" => Operator::And,
        "|" => Operator::Or,
        other => {
            return Err(Failure::row(format!("`reduce` knows the operators + - * / & and |, not `{other}`")));
        }
    };
    let Some((first, rest)) = list.split_first() else { return Ok(Value::Null) };
    rest.iter().try_fold(first.clone(), |left, right| apply(evaluator, operator, &left, right))
}

pub(super) fn sort(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    if arguments[0].is_null() {
        return Ok(Value::Null);
    }
    let list = items("sort", &arguments[0])?;
    let key = |item: &Value| match arguments.get(1) {
        Some(function) => evaluator.call(function, std::slice::from_ref(item)),
        None => Ok(item.clone()),
    };
    let mut keyed: Vec<(Value, &Value)> = list.iter().map(|item| Ok((key(item)?, item))).collect::<Evaluation<_>>()?;
    keyed.sort_by(|(a, _), (b, _)| evaluator.compare(a, b));
    Ok(Value::list(keyed.into_iter().map(|(_, item)| item.clone()).collect()))
}

pub(super) fn reverse(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(match &arguments[0] {
        Value::List(items) => Value::list(items.iter().rev().cloned().collect()),
        Value::Text(text) => Value::text(text.chars().rev().collect::<String>()),
        Value::Null => Value::Null,
        other => return wrong("reverse", "a list", other),
    })
}

pub(super) fn length(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let length = match &arguments[0] {
        Value::Null => 0,
        Value::List(items) => items.len(),
        Value::Text(text) => text.encode_utf16().count(),
        other => match evaluator.members(other)? {
            Some(members) => members.len(),
            None => return wrong("length", "a list, an object or a text", other),
        },
    };
    Ok(Value::Number(length as f64))
}

pub(super) fn nonnull(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let values = items_or_arguments(arguments).iter().filter(|value| !value.is_null());
    Ok(Value::list(values.cloned().collect()))
}

pub(super) fn first_value(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(match &arguments[0] {
        Value::List(items) => items.iter().find(|item| !item.is_null()).cloned().unwrap_or(Value::Null),
        other => other.clone(),
    })
}

/// Whether items are truthy, or match the function that is the last argument.
fn truths(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Vec<bool>> {
    match arguments {
        [Value::Null, Value::Function(_)] => Ok(Vec::new()),
        [Value::List(items), function @ Value::Function(_)] => {
            items.iter().map(|item| Ok(evaluator.call(function, std::slice::from_ref(item))?.is_truthy())).collect()
        }
        arguments => Ok(items_or_arguments(arguments).iter().map(Value::is_truthy).collect()),
    }
}

pub(super) fn all(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::Boolean(truths(evaluator, arguments)?.into_iter().all(|is_true| is_true)))
}

pub(super) fn any(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::Boolean(truths(evaluator, arguments)?.into_iter().any(|is_true| is_true)))
}

pub(super) fn none(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::Boolean(!truths(evaluator, arguments)?.into_iter().any(|is_true| is_true)))
}

pub(super) fn join(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let separator = match arguments.get(1) {
        None | Some(Value::Null) => ", ",
        Some(separator) => text_argument("join", separator)?,
    };
    match &arguments[0] {
        Value::Null => Ok(Value::Null),
        Value::List(items) => {
            Ok(Value::text(limited(items.iter().map(Value::to_item_text).collect::<Vec<_>>().join(separator))?))
        }
        other => Ok(Value::text(other.to_text())),
    }
}

pub(super) fn filter(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    if arguments[0].is_null() {
        return Ok(Value::Null);
    }
    let mut matching = Vec::new();
    for item in items("filter", &arguments[0])? {
        if evaluator.call(&arguments[1], std::slice::from_ref(item))?.is_truthy() {
            matching.push(item.clone());
        }
    }
    Ok(Value::list(matching))
}

pub(super) fn map(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    if arguments[0].is_null() {
        return Ok(Value::Null);
    }
    let items = items("map", &arguments[0])?;
    let mapped = items.iter().map(|item| evaluator.call(&arguments[1], std::slice::from_ref(item)));
    Ok(Value::list(mapped.collect::<Evaluation<_>>()?))
}

/// The first of equal items each, in order.
pub(super) fn unique(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    if arguments[0].is_null() {
        return Ok(Value::Null);
    }
    let list = items("unique", &arguments[0])?;
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by(|a, b| evaluator.compare(&list[*a], &list[*b]));
    let mut firsts: Vec<usize> = Vec::new();
    let mut previous: Option<&Value> = None;
    for index in order {
        if previous.is_none_or(|known| !evaluator.is_equal(known, &list[index])) {
            firsts.push(index);
        }
        previous = Some(&list[index]);
    }
    firsts.sort_unstable();
    Ok(Value::list(firsts.into_iter().map(|index| list[index].clone()).collect()))
}

pub(super) fn flat(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    if arguments[0].is_null() {
        return Ok(Value::Null);
    }
    let depth = arguments.get(1).map_or(Ok(1), |depth| count_argument("flat", depth))?;
    let mut flattened = Vec::new();
    add_flat(items("flat", &arguments[0])?, depth, &mut flattened)?;
    Ok(Value::list(flattened))
}

fn add_flat(items: &[Value], depth: usize, flattened: &mut Vec<Value>) -> Evaluation<()> {
    for item in items {
        match item {
            Value::List(inner) if depth > 0 => add_flat(inner, depth - 1, flattened)?,
            item => flattened.push(item.clone()),
        }
        if flattened.len() > MAX_LIST_ITEMS {
            return Err(Failure::query(format!("a list has more than {MAX_LIST_ITEMS} items")));
        }
    }
    Ok(())
}

pub(super) fn slice(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    if arguments[0].is_null() {
        return Ok(Value::Null);
    }
    let list = items("slice", &arguments[0])?;
    let position = |index: usize, default: usize| {
        let argument = arguments.get(index).filter(|argument| !argument.is_null());
        argument.map_or(Ok(default), |argument| position_argument("slice", argument, list.len()))
    };
    let (start, end) = (position(1, 0)?, position(2, list.len())?);
    Ok(Value::list(list.get(start..end.max(start)).unwrap_or_default().to_vec()))
}
