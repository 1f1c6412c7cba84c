//! Types of field values: what a text in frontmatter or in an inline field means.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use serde_json::{Map, Value as Json};
use svcfs_text::metadata::normalize_key;

use crate::page::{ListItem, Page};
use crate::time::{Duration, parse_date};
use crate::value::{Link, Value};

/// What values of fields depend on.
#[derive(Clone, Copy)]
pub(crate) struct FieldContext<'a> {
    /// The zone of dates without one.
    pub(crate) zone: &'a TimeZone,
    /// The paths that links of the page mean, by their text.
    pub(crate) link_paths: &'a HashMap<String, String>,
}

impl FieldContext<'_> {
    fn link(self, link: Link) -> Value {
        let path = self.link_paths.get(&link.path).cloned();
        Value::link(Link { path: path.unwrap_or(link.path), ..link })
    }
}

/// The fields of a page or an item: first under the key as written, then under the simplified key.
#[derive(Debug, Default)]
pub(crate) struct PageFields {
    pub(crate) values: Vec<(String, Value)>,
    index: HashMap<String, usize>,
}

impl PageFields {
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.index.get(key).map(|index| &self.values[*index].1)
    }

    fn add(&mut self, key: &str, value: Value) {
        let simple = normalize_key(key);
        if let Some(index) = self.index.get(&simple).copied() {
            let existing = &mut self.values[index].1;
            let mut items = match &*existing {
                Value::List(items) => items.to_vec(),
                other => vec![other.clone()],
            };
            match value {
                Value::List(more) => items.extend(more.iter().cloned()),
                value => items.push(value),
            }
            *existing = if items.len() == 1 { items.remove(0) } else { Value::list(items) };
            self.index.entry(key.to_owned()).or_insert(index);
        } else {
            let index = self.values.len();
            self.values.push((key.to_owned(), value));
            self.index.insert(simple, index);
            self.index.insert(key.to_owned(), index);
        }
    }
}

pub(crate) fn page_fields(page: &Page, context: FieldContext<'_>) -> PageFields {
    let mut fields = PageFields::default();
    for (key, value) in &page.frontmatter {
        fields.add(key, frontmatter_value(value, context));
    }
    for (key, text) in &page.inline_fields {
        fields.add(key, inline_value(text, context));
    }
    fields
}

pub(crate) fn item_fields(item: &ListItem, context: FieldContext<'_>) -> PageFields {
    let mut fields = PageFields::default();
    for (key, text) in &item.fields {
        fields.add(key, inline_value(text, context));
    }
    fields
}

/// A frontmatter value; texts can be dates, durations and links.
fn frontmatter_value(value: &Json, context: FieldContext<'_>) -> Value {
    match value {
        Json::String(text) => {
            let text = text.as_str();
            let parsed = parse_date(text, context.zone).map(Value::date);
            let parsed = parsed.or_else(|| Duration::parse(text).map(Value::duration));
            parsed.or_else(|| Link::parse(text).map(|link| context.link(link))).unwrap_or_else(|| Value::text(text))
        }
        Json::Array(items) => Value::list(items.iter().map(|item| frontmatter_value(item, context)).collect()),
        Json::Object(members) => {
            let member = |(key, value): (&String, &Json)| (key.clone(), frontmatter_value(value, context));
            Value::Object(Arc::new(members.iter().map(member).collect()))
        }
        other => raw_value(other),
    }
}

/// A JSON value without interpretation (`file.frontmatter`).
pub(crate) fn raw_value(value: &Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::text(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(raw_value).collect()),
        Json::Object(members) => raw_object(members),
    }
}

pub(crate) fn raw_object(members: &Map<String, Json>) -> Value {
    Value::Object(Arc::new(members.iter().map(|(key, value)| (key.clone(), raw_value(value))).collect()))
}

/// The value of an inline field: one value, a list with commas, or text.
pub(crate) fn inline_value(text: &str, context: FieldContext<'_>) -> Value {
    let text = text.trim();
    if text.is_empty() {
        return Value::Null;
    }
    if let Some(value) = single_value(text, context) {
        return value;
    }
    let parts = split_list(text);
    if parts.len() > 1 {
        let values: Option<Vec<Value>> = parts.iter().map(|part| single_value(part.trim(), context)).collect();
        if let Some(values) = values {
            return Value::list(values);
        }
    }
    Value::text(text)
}

fn single_value(text: &str, context: FieldContext<'_>) -> Option<Value> {
    let unquoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).filter(|inner| !inner.contains('"'));
    if let Some(inner) = unquoted {
        return Some(Value::text(inner));
    }
    match text {
        "true" | "True" => return Some(Value::Boolean(true)),
        "false" | "False" => return Some(Value::Boolean(false)),
        "null" => return Some(Value::Null),
        _ => {}
    }
    let number = text.strip_prefix('-').unwrap_or(text);
    let is_number = number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit())
        && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if let Some(number) = text.parse().ok().filter(|_| is_number) {
        return Some(Value::Number(number));
    }
    let parsed = parse_date(text, context.zone).map(Value::date);
    let parsed = parsed.or_else(|| Duration::parse(text).map(Value::duration));
    parsed.or_else(|| Link::parse(text).map(|link| context.link(link)))
}

/// Splits at commas outside of quotes and links.
fn split_list(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut is_quoted) = (Vec::new(), 0, 0_usize, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '[' if !is_quoted => depth += 1,
            ']' if !is_quoted => depth = depth.saturating_sub(1),
            ',' if !is_quoted && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(&text[start..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_inline_fields_get_their_types() {
        for (text, kind) in [
            ("6", "number"),
            ("-80", "number"),
            ("2.4", "number"),
            ("1914.", "string"),
            ("true", "boolean"),
            ("2021-04", "date"),
            ("2021-04-18", "date"),
            ("2021-04-18T04:19:35.000+06:30", "date"),
            ("2021-04-17 18:00", "string"),
            ("2021-13-45", "string"),
            ("7 hours", "duration"),
            ("6hr7min", "duration"),
            ("9 years, 8 months, 4 days", "duration"),
            ("[[A Page|x]]", "link"),
            ("[[A]], [[B]]", "array"),
            ("1, 2, 3", "array"),
            ("\"yes\", \"or\"", "array"),
            ("yes, or, no", "string"),
            ("\"quoted\"", "string"),
            ("", "null"),
        ] {
            let context = FieldContext { zone: &TimeZone::UTC, link_paths: &HashMap::new() };
            assert_eq!(inline_value(text, context).type_name(), kind, "{text:?}");
        }
    }
}
