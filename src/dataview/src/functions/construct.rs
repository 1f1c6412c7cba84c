//! Functions that make values, and functions of values of any type.

use std::sync::Arc;

use super::{number_argument, wrong};
use crate::error::{Evaluation, Failure};
use crate::run::evaluate::{Evaluator, member};
use crate::value::{Link, Value};

pub(super) fn object(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    if !arguments.len().is_multiple_of(2) {
        return Err(Failure::row("`object` requires a value for each key"));
    }
    let mut members: Vec<(String, Value)> = Vec::new();
    for pair in arguments.chunks_exact(2) {
        let Some(key) = pair[0].as_text() else { return wrong("object", "texts as keys", &pair[0]) };
        members.retain(|(known, _)| known != key);
        members.push((key.to_owned(), pair[1].clone()));
    }
    Ok(Value::Object(Arc::new(members)))
}

pub(super) fn list(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::list(arguments.to_vec()))
}

pub(super) fn link(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let display = arguments.get(1).filter(|display| !display.is_null()).map(Value::to_display);
    Ok(match &arguments[0] {
        Value::Text(path) => {
            let link = Link::parse(path).unwrap_or_else(|| Link::parse_inner(path));
            Value::link(Link { display: display.or(link.display.clone()), ..link })
        }
        Value::Link(link) => Value::link(Link { display: display.or(link.display.clone()), ..(**link).clone() }),
        Value::File(page) => Value::link(Link { display, ..page.link() }),
        other => return wrong("link", "a path or a link", other),
    })
}

pub(super) fn embed(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let is_embed = arguments.get(1).is_none_or(Value::is_truthy);
    match &arguments[0] {
        Value::Link(link) => Ok(Value::link(Link { is_embed, ..(**link).clone() })),
        other => wrong("embed", "a link", other),
    }
}

pub(super) fn elink(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let Some(url) = arguments[0].as_text() else { return wrong("elink", "a URL", &arguments[0]) };
    let display = arguments.get(1).filter(|display| !display.is_null()).map(Value::to_display);
    let display = Some(display.unwrap_or_else(|| url.to_owned()));
    Ok(Value::link(Link { display, ..Link::to_page(url) }))
}

pub(super) fn type_of(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(Value::text(arguments[0].type_name()))
}

pub(super) fn default(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(arguments[usize::from(arguments[0].is_null())].clone())
}

pub(super) fn choice(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    Ok(arguments[if arguments[0].is_truthy() { 1 } else { 2 }].clone())
}

pub(super) fn extract(evaluator: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let Some((object, keys)) = arguments.split_first() else { return Ok(Value::Null) };
    if object.is_null() {
        return Ok(Value::Null);
    }
    let Some(members) = evaluator.members(object)? else { return wrong("extract", "an object", object) };
    let mut extracted = Vec::new();
    for key in keys {
        let Some(name) = key.as_text() else { return wrong("extract", "names of fields", key) };
        extracted.push((name.to_owned(), member(&members, name).cloned().unwrap_or(Value::Null)));
    }
    Ok(Value::Object(Arc::new(extracted)))
}

pub(super) fn meta(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    let Value::Link(link) = &arguments[0] else { return wrong("meta", "a link", &arguments[0]) };
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::text);
    Ok(Value::Object(Arc::new(vec![
        ("display".to_owned(), text(link.display.as_deref())),
        ("embed".to_owned(), Value::Boolean(link.is_embed)),
        ("path".to_owned(), Value::text(link.path.as_str())),
        ("subpath".to_owned(), text(link.subpath())),
        ("type".to_owned(), Value::text(link.target_name())),
    ])))
}

/// A number below 2^53 that depends on the seed, the text and the variant only (FNV-1a).
pub(super) fn hash(_: &Evaluator<'_>, arguments: &[Value]) -> Evaluation<Value> {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let variant = match arguments.get(2) {
        Some(Value::Null) | None => 0.0,
        Some(variant) => number_argument("hash", variant)?,
    };
    let text = arguments.get(1).map(Value::to_text).unwrap_or_default();
    let input = format!("{}\0{text}\0{variant}", arguments[0].to_text());
    let hash = input.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    // The upper bits of FNV-1a change too little for short inputs.
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Ok(Value::Number((mixed >> 11) as f64))
}
