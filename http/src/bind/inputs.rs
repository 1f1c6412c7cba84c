//! The inputs of an operation, as its schema tells them.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use svcfs_base::{Fault, Kind};
use svcfs_knowledge::kernel::Entry;

/// Names closer than this (Jaro-Winkler) are offered as what may have been meant.
const LIKENESS: f64 = 0.75;

/// Every input of one operation.
#[derive(Debug)]
pub(crate) struct Inputs {
    fields: Vec<Field>,
    /// Other names, each with the input it means.
    aliases: &'static [(&'static str, &'static str)],
}

/// One input.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in JSON.
    pub name: String,
    /// Whether it may be `{"base64": …}` instead of a text.
    pub takes_bytes: bool,
    /// Whether it may be a list, so that a query may give it more than once.
    pub takes_list: bool,
    shape: Shape,
}

/// What a text in a query is read as.
#[derive(Debug, PartialEq)]
enum Shape {
    Text,
    Integer,
    Number,
    Boolean,
    List(Box<Shape>),
    /// An object or anything goes: JSON.
    Json,
}

impl Inputs {
    /// Reads an operation's schema.
    pub(crate) fn of(entry: &Entry) -> Self {
        let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
        let schema = (entry.input)(&mut generator);
        let properties = schema.get("properties").and_then(Value::as_object);
        let field = |(name, schema): (&String, &Value)| Field {
            name: name.clone(),
            takes_bytes: choices(schema).any(|choice| choice.pointer("/properties/base64").is_some()),
            takes_list: is_or_may_be_list(schema, &generator),
            shape: Shape::of(schema, &generator),
        };
        Self { fields: properties.into_iter().flatten().map(field).collect(), aliases: entry.aliases }
    }

    /// The input a parameter name means: `link-type`, `link_type` and `linkType` are the same.
    ///
    /// # Errors
    /// `Invalid`, with the nearest known name.
    pub(crate) fn named(&self, given: &str) -> Result<&Field, Fault> {
        let plain = |name: &str| name.replace(['-', '_'], "").to_lowercase();
        let meant = plain(given);
        self.get(given)
            .or_else(|| self.fields.iter().find(|field| plain(&field.name) == meant))
            .ok_or_else(|| self.unknown(given, &[]))
    }

    /// The input of exactly this name, or of this other name.
    pub(crate) fn get(&self, name: &str) -> Option<&Field> {
        let own = self.aliases.iter().find(|(other, _)| *other == name).map_or(name, |(_, own)| own);
        self.fields.iter().find(|field| field.name == own)
    }

    /// Checks the members of a JSON object, whose names are exact; `others` are known beside the inputs, and told when a name
    /// is not.
    ///
    /// # Errors
    /// `Invalid`, with the nearest known name, for one that is no input.
    pub(crate) fn check_names(&self, members: &Map<String, Value>, others: &[&str]) -> Result<(), Fault> {
        match members.keys().find(|name| self.get(name).is_none()) {
            None => Ok(()),
            Some(name) => Err(self.unknown(name, others)),
        }
    }

    fn unknown(&self, given: &str, others: &[&str]) -> Fault {
        let known = || self.fields.iter().map(|field| field.name.as_str()).chain(others.iter().copied());
        let nearest = known()
            .map(|name| (strsim::jaro_winkler(given, name), name))
            .max_by(|one, other| one.0.total_cmp(&other.0))
            .filter(|(likeness, _)| *likeness >= LIKENESS);
        let hint = match nearest {
            Some((_, name)) => format!("did you mean `{name}`?"),
            None if known().next().is_none() => "there are none here".to_owned(),
            None => {
                let names: Vec<String> = known().map(|name| format!("`{name}`")).collect();
                format!("known are {}", names.join(", "))
            }
        };
        let given = given.escape_default();
        Fault::new(Kind::Invalid, format!("there is no parameter `{given}`; {hint}"))
    }
}

impl Field {
    /// Reads a text as this input's type.
    ///
    /// # Errors
    /// `Invalid`, naming the input.
    pub(crate) fn coerce(&self, text: &str) -> Result<Value, Fault> {
        self.shape.read(text).map_err(|wanted| {
            let text = text.escape_default();
            Fault::invalid(&self.name, format_args!("`{text}` is not {wanted}"))
        })
    }
}

impl Shape {
    fn of(schema: &Value, generator: &SchemaGenerator) -> Self {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let name = reference.rsplit('/').next().unwrap_or_default();
            let target = generator.definitions().get(name);
            return target.map_or(Self::Text, |target| Self::of(target, generator));
        }
        // An `Option` is its type beside null.
        if let Some(choice) = choices(schema).find(|choice| !is_type(choice, "null")) {
            return Self::of(choice, generator);
        }
        if is_type(schema, "integer") {
            Self::Integer
        } else if is_type(schema, "number") {
            Self::Number
        } else if is_type(schema, "boolean") {
            Self::Boolean
        } else if is_type(schema, "array") {
            let items = schema.get("items").map_or(Self::Text, |items| Self::of(items, generator));
            Self::List(Box::new(items))
        } else if is_type(schema, "string") || schema.get("enum").is_some() || schema.get("const").is_some() {
            Self::Text
        } else {
            Self::Json
        }
    }

    /// The value, or what was wanted instead.
    fn read(&self, text: &str) -> Result<Value, &'static str> {
        match self {
            Self::Text => Ok(text.into()),
            Self::Integer => text.parse::<i64>().map(Value::from).map_err(|_| "an integer"),
            Self::Number => {
                let number = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
                number.map(Value::from).ok_or("a number")
            }
            Self::Boolean => match text {
                "true" | "1" => Ok(true.into()),
                "false" | "0" => Ok(false.into()),
                _ => Err("`true` or `false`"),
            },
            Self::List(items) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.map(|part| items.read(part)).collect::<Result<Vec<_>, _>>().map(Value::from)
            }
            Self::Json => serde_json::from_str(text).map_err(|_| "JSON"),
        }
    }
}

/// The schemas a schema is made of.
fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| schema.get(key)?.as_array());
    lists.flatten()
}

/// True when a schema takes an array, whatever it takes beside.
fn is_or_may_be_list(schema: &Value, generator: &SchemaGenerator) -> bool {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next());
    is_type(schema, "array")
        || target.and_then(|name| generator.definitions().get(name)).is_some_and(|it| is_or_may_be_list(it, generator))
        || choices(schema).any(|choice| is_or_may_be_list(choice, generator))
}

/// True when a schema's `type` is, or includes, `name`.
fn is_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}
