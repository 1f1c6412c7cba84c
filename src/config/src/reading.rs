//! TOML held against the schema.
//!
//! One rule: what comes out as accepted fits the schema, and everything that does not come out is complained about. Types,
//! names and choices are judged here, all of them in one pass; what a value means is judged when it is resolved.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::not_built::{self, KeyStatus};
use crate::{ConfigProblem, Environment, environment};

/// A file, sorted into what can be used and what cannot.
pub(crate) struct SortedKeys {
    /// The part that fits the schema, as JSON.
    pub accepted: Value,
    /// Line of each accepted key and list element, by its path.
    pub lines: BTreeMap<String, usize>,
    /// One for each part that does not fit.
    pub complaints: Vec<ConfigProblem>,
}

/// Hold `text` against `schema`. A text that is not TOML yields no values at all, only complaints.
pub(crate) fn read(text: &str, schema: &Value, environment: Environment<'_>) -> SortedKeys {
    let mut reader = ConfigReader {
        line_ends: text.match_indices('\n').map(|(offset, _)| offset).collect(),
        environment,
        lines: BTreeMap::new(),
        complaints: Vec::new(),
    };
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let line = error.span().map(|span| reader.line(span.start));
        // The parser's message may span lines; a complaint is one.
        let message = format!("not valid TOML: {}", error.message().trim().replace('\n', ", "));
        reader.complaints.push(ConfigProblem { line, key: String::new(), message });
    }
    let accepted = if errors.is_empty() { reader.table(document.get_ref(), schema, "") } else { Map::new() };
    SortedKeys { accepted: Value::Object(accepted), lines: reader.lines, complaints: reader.complaints }
}

struct ConfigReader<'a> {
    /// Byte offsets of the line feeds.
    line_ends: Vec<usize>,
    environment: Environment<'a>,
    lines: BTreeMap<String, usize>,
    complaints: Vec<ConfigProblem>,
}

/// Settings that had another name, with their present names.
const RENAMED: &[(&str, &str)] = &[("lint.format_doors", "lint.format_protocols")];

impl ConfigReader<'_> {
    /// The keys of the table at `path` that fit `schema`.
    fn table(&mut self, table: &DeTable<'_>, schema: &Value, path: &str) -> Map<String, Value> {
        let mut accepted = Map::new();
        for (key, node) in table {
            let name: &str = key.get_ref();
            let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let line = self.line(key.span().start);
            let named = schema.get("properties").and_then(|properties| properties.get(name));
            // A table of the user's own names says what all of them hold.
            match named.or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object())) {
                Some(schema) => {
                    if let Some(value) = self.value(node, schema, &below, line) {
                        accepted.insert(name.to_owned(), value);
                    }
                }
                None => self.unaccepted(node, schema, path, &below, line),
            }
        }
        accepted
    }

    /// A key that the schema does not have: part of the contract and not built, or not known at all.
    fn unaccepted(&mut self, node: &Spanned<DeValue<'_>>, schema: &Value, table: &str, path: &str, line: usize) {
        match (not_built::standing(path), node.get_ref()) {
            (KeyStatus::NotBuilt, _) => self.complain(path, line, NO_EFFECT.to_owned()),
            (KeyStatus::Above, DeValue::Table(table)) => {
                self.table(table, &Value::Null, path);
            }
            (KeyStatus::Above, node) => self.complain(path, line, format!("must be a table, not {}", kind(node))),
            (KeyStatus::Unlisted, _) => {
                let name = path.strip_prefix(table).unwrap_or(path).trim_start_matches('.');
                let renamed = RENAMED.iter().find(|(old, _)| *old == path).map(|(_, new)| *new);
                let message = match nearest(name, table, schema) {
                    _ if renamed.is_some() => format!("was renamed; write `{}`", renamed.unwrap_or_default()),
                    Some(known) if table.is_empty() => format!("is not a known setting; did you mean `{known}`?"),
                    Some(known) => format!("is not a known setting; did you mean `{table}.{known}`?"),
                    None => "is not a known setting; remove it".to_owned(),
                };
                self.complain(path, line, message);
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
                    self.complain(path, line, format!("must be {}, not {value}", wanted(schema)));
                }
                number.map(Value::from)
            }
            (DeValue::String(written), "string") => self.string(written, schema, path, line),
            (node, _) => {
                self.complain(path, line, format!("must be {}, not {}", wanted(schema), kind(node)));
                None
            }
        };
        if value.is_some() {
            self.lines.insert(path.to_owned(), line);
        }
        value
    }

    /// The list at `path`, if all its elements fit `schema`: with one of them left out, the others would be complained
    /// about under a wrong index later on.
    fn elements(&mut self, elements: &[Spanned<DeValue<'_>>], schema: &Value, path: &str) -> Option<Value> {
        let mut accepted = Vec::with_capacity(elements.len());
        for (index, element) in elements.iter().enumerate() {
            let line = self.line(element.span().start);
            accepted.extend(self.value(element, schema, &format!("{path}[{index}]"), line));
        }
        (accepted.len() == elements.len()).then_some(Value::Array(accepted))
    }

    /// The string at `path` with its variables expanded, if it is one of the choices, where there are choices.
    fn string(&mut self, written: &str, schema: &Value, path: &str, line: usize) -> Option<Value> {
        let expanded = environment::expand(written, self.environment);
        let choices = choices(schema);
        if choices.is_empty() || choices.contains(&expanded.as_str()) {
            return Some(Value::String(expanded));
        }
        let of_list = path.split('[').next().unwrap_or(path);
        let message = if not_built::has_value(of_list, &expanded) {
            format!(
                "= \"{expanded}\" is part of the configuration contract but has no effect in this version; use {}",
                wanted(schema)
            )
        } else {
            // Shown as written: what a variable holds may be a secret.
            format!("must be {}, not \"{}\"", wanted(schema), shortened(written))
        };
        self.complain(path, line, message);
        None
    }

    fn complain(&mut self, path: &str, line: usize, message: String) {
        self.complaints.push(ConfigProblem { line: Some(line), key: path.to_owned(), message });
    }

    /// The line, counted from 1, of a byte offset.
    fn line(&self, offset: usize) -> usize {
        self.line_ends.partition_point(|end| *end < offset) + 1
    }
}

const NO_EFFECT: &str = "is part of the configuration contract but has no effect in this version; remove it";

/// The known name beside `name` in the table at `path` that looks most like it, if any looks like it at all.
fn nearest(name: &str, path: &str, schema: &Value) -> Option<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let accepted = properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str));
    let mut known: BTreeSet<&str> = accepted.collect();
    known.extend(not_built::names_below(path));
    let scored = known.into_iter().map(|known| (strsim::jaro_winkler(name, known), known));
    let (score, known) = scored.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (score >= 0.75).then(|| known.to_owned())
}

/// The schema's `type`; a list of documented choices is a string.
fn schema_type(schema: &Value) -> &str {
    let named = schema.get("type").and_then(Value::as_str);
    named.unwrap_or(if choices(schema).is_empty() { "" } else { "string" })
}

/// The texts that a schema of choices allows; empty for all others.
fn choices(schema: &Value) -> Vec<&str> {
    let plain = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let documented = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    plain.chain(documented.filter_map(|choice| choice.get("const"))).filter_map(Value::as_str).collect()
}

/// Whether an integer lies between the schema's bounds.
fn is_within(number: i64, schema: &Value) -> bool {
    let bound = |name| schema.get(name).and_then(Value::as_i64);
    bound("minimum").is_none_or(|least| number >= least) && bound("maximum").is_none_or(|most| number <= most)
}

/// What a schema asks for, in words.
pub(crate) fn wanted(schema: &Value) -> String {
    let bound = |name| schema.get(name).and_then(Value::as_i64);
    match (schema_type(schema), choices(schema).as_slice()) {
        ("object", _) => "a table".to_owned(),
        ("array", _) => format!("a list, each element {}", wanted(&schema["items"])),
        ("boolean", _) => "true or false".to_owned(),
        ("integer", _) => match (bound("minimum"), bound("maximum")) {
            (Some(least), Some(most)) => format!("an integer from {least} to {most}"),
            (Some(least), None) => format!("an integer of {least} or more"),
            (None, Some(most)) => format!("an integer of {most} or less"),
            (None, None) => "an integer".to_owned(),
        },
        (_, []) => "a string".to_owned(),
        (_, [only]) => format!("\"{only}\""),
        (_, several) => format!("one of \"{}\"", several.join("\", \"")),
    }
}

/// What a value is, in words.
fn kind(value: &DeValue<'_>) -> &'static str {
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

/// At most 60 characters of `text`, on one line.
fn shortened(text: &str) -> String {
    let mut characters = text.chars().flat_map(char::escape_debug);
    let mut shown: String = characters.by_ref().take(60).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}
