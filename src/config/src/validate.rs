//! Validates TOML against the schema.
//!
//! Invariant: the accepted part fits the schema, and every other part is reported. Types, names and
//! choices are checked here in one pass; the meaning of values is checked when the settings are
//! resolved.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::unsupported::{self, KeyStatus};
use crate::{ConfigProblem, Environment, environment};

/// The accepted part of a file, and the errors.
pub(crate) struct CheckedConfig {
    /// The part that fits the schema, as JSON.
    pub accepted: Value,
    /// Line of each accepted key and list element, by path.
    pub lines: BTreeMap<String, usize>,
    /// One error for each part that does not fit.
    pub problems: Vec<ConfigProblem>,
}

/// Validates `text` against `schema`. If the text is not TOML, the result has only errors.
pub(crate) fn validate(text: &str, schema: &Value, environment: Environment<'_>) -> CheckedConfig {
    let mut reader = ConfigReader {
        line_ends: text.match_indices('\n').map(|(offset, _)| offset).collect(),
        environment,
        lines: BTreeMap::new(),
        problems: Vec::new(),
    };
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let line = error.span().map(|span| reader.line(span.start));
        let message = format!("not valid TOML: {}", error.message().trim().replace('\n', ", "));
        reader.problems.push(ConfigProblem { line, key: String::new(), message });
    }
    let accepted = if errors.is_empty() { reader.table(document.get_ref(), schema, "") } else { Map::new() };
    CheckedConfig { accepted: Value::Object(accepted), lines: reader.lines, problems: reader.problems }
}

struct ConfigReader<'a> {
    line_ends: Vec<usize>,
    environment: Environment<'a>,
    lines: BTreeMap<String, usize>,
    problems: Vec<ConfigProblem>,
}

/// Old name, present name.
const RENAMED: &[(&str, &str)] = &[("lint.format_doors", "lint.format_protocols")];

impl ConfigReader<'_> {
    /// The keys of the table at `path` that fit `schema`.
    fn table(&mut self, table: &DeTable<'_>, schema: &Value, path: &str) -> Map<String, Value> {
        let mut accepted = Map::new();
        for (key, node) in table {
            let name: &str = key.get_ref();
            let child_path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let line = self.line(key.span().start);
            let property = schema.get("properties").and_then(|properties| properties.get(name));
            // A table with user-defined names has one schema for all values.
            match property.or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object())) {
                Some(schema) => {
                    if let Some(value) = self.value(node, schema, &child_path, line) {
                        accepted.insert(name.to_owned(), value);
                    }
                }
                None => self.report_unknown_key(node, schema, path, &child_path, line),
            }
        }
        accepted
    }

    /// Reports a key that the schema does not have: not implemented, or unknown.
    fn report_unknown_key(
        &mut self,
        node: &Spanned<DeValue<'_>>,
        schema: &Value,
        table: &str,
        path: &str,
        line: usize,
    ) {
        match (unsupported::key_status(path), node.get_ref()) {
            (KeyStatus::Unsupported, _) => self.report(path, line, UNSUPPORTED.to_owned()),
            (KeyStatus::Parent, DeValue::Table(table)) => {
                self.table(table, &Value::Null, path);
            }
            (KeyStatus::Parent, node) => self.report(path, line, format!("must be a table, not {}", value_type(node))),
            (KeyStatus::Unlisted, _) => {
                let name = path.strip_prefix(table).unwrap_or(path).trim_start_matches('.');
                let renamed = RENAMED.iter().find(|(old, _)| *old == path);
                let message = match (renamed, most_similar(name, table, schema)) {
                    (Some((_, new)), _) => format!("was renamed to `{new}`"),
                    (None, Some(known)) if table.is_empty() => {
                        format!("is not a known setting; did you mean `{known}`?")
                    }
                    (None, Some(known)) => format!("is not a known setting; did you mean `{table}.{known}`?"),
                    (None, None) => "is not a known setting; remove it".to_owned(),
                };
                self.report(path, line, message);
            }
        }
    }

    /// The value at `path` as JSON, if it fits `schema`.
    fn value(&mut self, node: &Spanned<DeValue<'_>>, schema: &Value, path: &str, line: usize) -> Option<Value> {
        let value = match (node.get_ref(), schema_type(schema)) {
            (DeValue::Table(table), "object") => Some(Value::Object(self.table(table, schema, path))),
            (DeValue::Array(elements), "array") => self.elements(elements, &schema["items"], path),
            (DeValue::Boolean(value), "boolean") => Some(Value::Bool(*value)),
            (DeValue::Integer(value), "integer") => {
                let number = i64::from_str_radix(value.as_str(), value.radix()).ok();
                let number = number.filter(|number| is_within(*number, schema));
                if number.is_none() {
                    self.report(path, line, format!("must be {}, not {value}", expected(schema)));
                }
                number.map(Value::from)
            }
            (DeValue::String(text), "string") => self.string(text, schema, path, line),
            (node, _) => {
                self.report(path, line, format!("must be {}, not {}", expected(schema), value_type(node)));
                None
            }
        };
        if value.is_some() {
            self.lines.insert(path.to_owned(), line);
        }
        value
    }

    /// The list at `path`, if all elements fit `schema`: without the others, later errors would
    /// name a wrong index.
    fn elements(&mut self, elements: &[Spanned<DeValue<'_>>], schema: &Value, path: &str) -> Option<Value> {
        let mut accepted = Vec::with_capacity(elements.len());
        for (index, element) in elements.iter().enumerate() {
            let line = self.line(element.span().start);
            accepted.extend(self.value(element, schema, &format!("{path}[{index}]"), line));
        }
        (accepted.len() == elements.len()).then_some(Value::Array(accepted))
    }

    /// The string at `path` with variables expanded, if it is one of the allowed values.
    fn string(&mut self, text: &str, schema: &Value, path: &str, line: usize) -> Option<Value> {
        let expanded = environment::expand(text, self.environment);
        let choices = choices(schema);
        if choices.is_empty() || choices.contains(&expanded.as_str()) {
            return Some(Value::String(expanded));
        }
        let list_path = path.split('[').next().unwrap_or(path);
        let message = if unsupported::is_unsupported_value(list_path, &expanded) {
            format!("= \"{expanded}\" is not supported in this version; use {}", expected(schema))
        } else {
            // Not expanded: the value of a variable may be a secret.
            format!("must be {}, not \"{}\"", expected(schema), shorten(text))
        };
        self.report(path, line, message);
        None
    }

    fn report(&mut self, path: &str, line: usize, message: String) {
        self.problems.push(ConfigProblem { line: Some(line), key: path.to_owned(), message });
    }

    /// The line of a byte offset, counted from 1.
    fn line(&self, offset: usize) -> usize {
        self.line_ends.partition_point(|end| *end < offset) + 1
    }
}

const UNSUPPORTED: &str = "is not supported in this version; remove it";

/// The known name in the table at `path` that is most similar to `name`, if any is similar.
fn most_similar(name: &str, path: &str, schema: &Value) -> Option<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let accepted = properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str));
    let mut known: BTreeSet<&str> = accepted.collect();
    known.extend(unsupported::names_below(path));
    let scored = known.into_iter().map(|known| (strsim::jaro_winkler(name, known), known));
    let (score, known) = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (score >= 0.75).then(|| known.to_owned())
}

/// The `type` of the schema; a list of documented choices is a string.
fn schema_type(schema: &Value) -> &str {
    let property = schema.get("type").and_then(Value::as_str);
    property.unwrap_or(if choices(schema).is_empty() { "" } else { "string" })
}

/// The allowed texts of an enumeration; empty for other schemas.
fn choices(schema: &Value) -> Vec<&str> {
    let plain = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let documented = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    plain.chain(documented.filter_map(|choice| choice.get("const"))).filter_map(Value::as_str).collect()
}

/// Whether an integer is between the bounds of the schema.
fn is_within(number: i64, schema: &Value) -> bool {
    let bound = |name| schema.get(name).and_then(Value::as_i64);
    bound("minimum").is_none_or(|min| number >= min) && bound("maximum").is_none_or(|max| number <= max)
}

pub(crate) fn expected(schema: &Value) -> String {
    let bound = |name| schema.get(name).and_then(Value::as_i64);
    match (schema_type(schema), choices(schema).as_slice()) {
        ("object", _) => "a table".to_owned(),
        ("array", _) => format!("a list, each element {}", expected(&schema["items"])),
        ("boolean", _) => "true or false".to_owned(),
        ("integer", _) => match (bound("minimum"), bound("maximum")) {
            (Some(min), Some(max)) => format!("an integer from {min} to {max}"),
            (Some(min), None) => format!("an integer of {min} or more"),
            (None, Some(max)) => format!("an integer of {max} or less"),
            (None, None) => "an integer".to_owned(),
        },
        (_, []) => "a string".to_owned(),
        (_, [only]) => format!("\"{only}\""),
        (_, several) => format!("one of \"{}\"", several.join("\", \"")),
    }
}

fn value_type(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a floating-point number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn shorten(text: &str) -> String {
    let mut characters = text.chars().flat_map(char::escape_debug);
    let mut shown: String = characters.by_ref().take(60).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}
