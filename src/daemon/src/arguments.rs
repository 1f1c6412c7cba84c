//! `key=value` on the command line, as the JSON object an operation reads.
//!
//! One rule: the operation's own schema says what a text means, exactly as for a query string over HTTP.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use svcfs_knowledge::kernel::Entry;

use crate::failure::{Exit, Failure};

/// Names closer than this (Jaro-Winkler) are offered as what may have been meant.
const LIKENESS: f64 = 0.75;

/// The inputs of one operation.
pub struct Inputs {
    /// Each input's name and schema, in the order they were declared.
    pub properties: Map<String, Value>,
    /// Names of those that must be given.
    pub required: Vec<String>,
    /// The operation's manual, as its schema carries it.
    pub manual: String,
    definitions: Map<String, Value>,
}

impl Inputs {
    /// Reads an operation's schema.
    pub fn of(entry: &Entry) -> Self {
        let mut generator: SchemaGenerator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
        let mut schema = (entry.input)(&mut generator).to_value();
        let mut take = |key: &str| schema.as_object_mut().and_then(|schema| schema.remove(key));
        let names = |value: Value| serde_json::from_value(value).unwrap_or_default();
        Self {
            properties: take("properties").and_then(object).unwrap_or_default(),
            required: take("required").map(names).unwrap_or_default(),
            manual: take("description").as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
            definitions: generator.take_definitions(true),
        }
    }

    /// Adds `key=value` pairs to `given`.
    ///
    /// # Errors
    /// `Usage`, naming what is unknown, given twice or not of its type.
    pub fn read(&self, mut given: Map<String, Value>, pairs: &[String]) -> Result<Map<String, Value>, Failure> {
        for pair in pairs {
            let Some((name, text)) = pair.split_once('=') else {
                return Err(usage(format!("`{pair}` is no argument; write it like `name=value`")));
            };
            let name = self.named(name)?;
            let value = self.coerce(&name, text)?;
            if given.insert(name.clone(), value).is_some() {
                return Err(usage(format!("`{name}` is given twice")));
            }
        }
        Ok(given)
    }

    /// The schema behind a property: references and the null of an optional one are looked through.
    pub fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next()) {
            return self.definitions.get(name).map_or(schema, |target| self.resolved(target));
        }
        match choices(schema).find(|choice| kind(choice) != Kind::Null) {
            Some(choice) => self.resolved(choice),
            None => schema,
        }
    }

    /// `path-prefix`, `path_prefix` and `pathPrefix` are the same input.
    fn named(&self, given: &str) -> Result<String, Failure> {
        let plain = |name: &str| name.replace(['-', '_'], "").to_lowercase();
        let known = self.properties.keys();
        if let Some(name) =
            known.clone().find(|name| *name == given).or_else(|| known.clone().find(|name| plain(name) == plain(given)))
        {
            return Ok(name.clone());
        }
        let hint = match nearest(given, known.clone().map(String::as_str)) {
            Some(name) => format!("did you mean `{name}`?"),
            None if self.properties.is_empty() => "it takes none".to_owned(),
            None => format!("it takes {}", known.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
        };
        Err(usage(format!("the operation has no argument `{given}`; {hint}")))
    }

    fn coerce(&self, name: &str, text: &str) -> Result<Value, Failure> {
        let schema = self.properties.get(name).map_or(&Value::Null, |schema| self.resolved(schema));
        self.value(schema, text).map_err(|wanted| usage(format!("`{name}`: `{text}` is not {wanted}")))
    }

    /// The value, or what was wanted instead.
    fn value(&self, schema: &Value, text: &str) -> Result<Value, &'static str> {
        match kind(schema) {
            Kind::Text => Ok(text.into()),
            Kind::Integer => text.parse::<i64>().map(Value::from).map_err(|_| "an integer"),
            Kind::Number => {
                let number = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
                number.map(Value::from).ok_or("a number")
            }
            Kind::Boolean => match text {
                "true" | "1" => Ok(true.into()),
                "false" | "0" => Ok(false.into()),
                _ => Err("`true` or `false`"),
            },
            Kind::List => {
                // A list of anything but plain values is written as JSON; so may every other list.
                if text.trim_start().starts_with('[') {
                    return serde_json::from_str(text).map_err(|_| "a JSON list");
                }
                let items = schema.get("items").map_or(&Value::Null, |items| self.resolved(items));
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.map(|part| self.value(items, part)).collect::<Result<Vec<_>, _>>().map(Value::from)
            }
            Kind::Null | Kind::Json => serde_json::from_str(text).map_err(|_| "JSON"),
        }
    }
}

/// The name most like `given`, if one is like it at all.
fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (strsim::jaro_winkler(given, name), name))
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .map(|(_, name)| name)
}

/// What a text is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As it is.
    Text,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Values with commas between them, or JSON.
    List,
    /// Nothing.
    Null,
    /// JSON.
    Json,
}

/// What kind of value a (resolved) schema wants.
pub fn kind(schema: &Value) -> Kind {
    let is = |name: &str| match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        Some(_) | None => false,
    };
    let table =
        [("integer", Kind::Integer), ("number", Kind::Number), ("boolean", Kind::Boolean), ("array", Kind::List)];
    if let Some((_, kind)) = table.into_iter().find(|(name, _)| is(name)) {
        return kind;
    }
    if is("string") || schema.get("enum").is_some() || schema.get("const").is_some() {
        Kind::Text
    } else if is("null") {
        Kind::Null
    } else {
        Kind::Json
    }
}

fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| schema.get(key)?.as_array()).flatten()
}

fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}

fn usage(message: String) -> Failure {
    Failure::saying(Exit::Usage, message)
}

#[cfg(test)]
mod tests;
