//! TOML blocks: parse, and edits that preserve comments and layout.

use serde_json::{Map, Number, Value};
use toml_edit::{Array, Document, DocumentMut, InlineTable, Item, Key, TableLike, Value as TomlValue};

use super::ParseError;

/// The largest integer up to which every reader of JSON has all integers.
const MAX_INTEGER: u64 = 1 << 53;

/// Parses the TOML between two `+++` lines, of which the first is line 1 of the page. Dates are
/// texts, as written.
pub(super) fn parse(toml: &str) -> Result<Map<String, Value>, ParseError> {
    let document: DocumentMut = toml.parse().map_err(|error| malformed_error(&error, toml))?;
    Ok(to_map(document.as_table()))
}

/// The keys of the outermost table and the lines (from 1) where they begin; none if the parts of
/// one key are in several places.
pub(super) fn key_lines(toml: &str) -> Option<Vec<(String, usize)>> {
    let document = Document::parse(toml).ok()?;
    let mut offsets = Vec::new();
    for (name, item) in document.iter() {
        let key_span = document.key(name).and_then(Key::span);
        let start = match item {
            Item::Table(table) => table.span().or(key_span)?.start,
            Item::ArrayOfTables(tables) => tables.iter().next()?.span().or(key_span)?.start,
            Item::None | Item::Value(_) => key_span?.start,
        };
        offsets.push((start, name.to_owned()));
    }
    offsets.sort_unstable();
    let (mut line, mut counted) = (1, 0);
    let mut keys: Vec<(String, usize)> = Vec::with_capacity(offsets.len());
    for (start, name) in offsets {
        line += toml.get(counted..start)?.matches('\n').count();
        counted = start;
        if keys.last().is_some_and(|(_, last)| *last >= line) {
            return None;
        }
        keys.push((name, line));
    }
    Some(keys)
}

/// The block with a key set to a value; none if the value cannot be written in TOML.
pub(super) fn assign(toml: &str, key: &str, value: &Value) -> Option<String> {
    let mut document: DocumentMut = toml.parse().ok()?;
    let mut new = to_toml(value)?;
    match document.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            // spaces and the comment after the value remain
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        None => {
            document.remove(key);
            document.insert(key, Item::Value(new));
        }
    }
    Some(document.to_string())
}

/// The block without a key.
pub(super) fn remove(toml: &str, key: &str) -> Option<String> {
    let mut document: DocumentMut = toml.parse().ok()?;
    document.remove(key)?;
    Some(document.to_string())
}

fn malformed_error(error: &toml_edit::TomlError, toml: &str) -> ParseError {
    let at = error.span().map_or(0, |span| toml.floor_char_boundary(span.start));
    let before = &toml[..at];
    let message = error.message().lines().next().unwrap_or("this is not valid TOML").to_owned();
    // the opening `+++` is line 1
    let line = before.matches('\n').count() + 2;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    ParseError::Malformed { message, line, column }
}

fn to_map(table: &dyn TableLike) -> Map<String, Value> {
    table.iter().map(|(key, item)| (key.to_owned(), item_to_json(item))).collect()
}

fn item_to_json(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => value_to_json(value),
        Item::Table(table) => to_map(table).into(),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| Value::from(to_map(table))).collect(),
    }
}

fn value_to_json(value: &TomlValue) -> Value {
    match value {
        TomlValue::String(text) => text.value().as_str().into(),
        TomlValue::Integer(number) if number.value().unsigned_abs() <= MAX_INTEGER => (*number.value()).into(),
        TomlValue::Integer(number) => number.value().to_string().into(),
        TomlValue::Float(number) => {
            Number::from_f64(*number.value()).map_or_else(|| number.value().to_string().into(), Value::Number)
        }
        TomlValue::Boolean(flag) => (*flag.value()).into(),
        TomlValue::Datetime(date) => date.value().to_string().into(),
        TomlValue::Array(items) => items.iter().map(value_to_json).collect(),
        TomlValue::InlineTable(table) => to_map(table).into(),
    }
}

fn to_toml(value: &Value) -> Option<TomlValue> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => TomlValue::Array(items.iter().map(to_toml).collect::<Option<Array>>()?),
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| Some((key.clone(), to_toml(value)?));
            TomlValue::InlineTable(entries.iter().map(entry).collect::<Option<InlineTable>>()?)
        }
    })
}
