//! The arguments of an operation, from its schema, and parsing of text arguments.
//!
//! Invariant: the schema decides how a text is parsed, for every protocol.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use svcfs_base::{Fault, Kind};

use super::OperationEntry;

const MIN_SIMILARITY: f64 = 0.75;

/// All arguments of one operation.
#[derive(Debug)]
pub struct OperationInputs {
    /// The arguments, in order of declaration.
    pub fields: Vec<InputField>,
    /// The documentation of the operation, from its schema.
    pub manual: String,
    aliases: &'static [(&'static str, &'static str)],
}

/// An argument.
#[derive(Debug)]
pub struct InputField {
    /// Name in JSON.
    pub name: String,
    /// Whether it is required.
    pub is_required: bool,
    /// Whether `{"base64": …}` is accepted instead of a string.
    pub accepts_bytes: bool,
    /// Whether a list is accepted, so that texts may give it repeatedly.
    pub accepts_list: bool,
    /// How a text is parsed.
    pub kind: InputKind,
    /// The schema as declared, with description and default.
    pub schema: Value,
    /// The schema of the type, with references resolved and without null: with limits and choices.
    pub type_schema: Value,
}

/// How a text argument is parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputKind {
    /// A string.
    Text,
    /// An integer.
    Integer,
    /// Any number.
    Number,
    /// `true` or `1`, `false` or `0`.
    Boolean,
    /// Comma-separated values of this kind, or a JSON list.
    List(Box<InputKind>),
    /// JSON.
    Json,
}

impl OperationInputs {
    /// Reads the schema of an operation.
    pub fn from_entry(entry: &OperationEntry) -> Self {
        let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
        let schema = (entry.input)(&mut generator);
        let definitions = SchemaDefinitions(generator.take_definitions(true));
        let required = schema.get("required").and_then(Value::as_array);
        let field = |(name, schema): (&String, &Value)| InputField {
            name: name.clone(),
            is_required: required.is_some_and(|required| required.iter().any(|a| a == name)),
            accepts_bytes: choices(schema).any(|choice| choice.pointer("/properties/base64").is_some()),
            accepts_list: definitions.may_be_list(schema),
            kind: definitions.kind_of(schema),
            schema: schema.clone(),
            type_schema: definitions.resolved(schema).clone(),
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        Self {
            fields: properties.into_iter().flatten().map(field).collect(),
            manual: schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
            aliases: entry.aliases,
        }
    }

    /// The argument for a parameter name: `link-type`, `link_type` and `linkType` are equal.
    ///
    /// # Errors
    /// `Invalid`, with the most similar name.
    pub fn find_parameter(&self, name: &str) -> Result<&InputField, Fault> {
        let normalize = |name: &str| name.replace(['-', '_'], "").to_lowercase();
        let normalized = normalize(name);
        let names = self.fields.iter().map(|field| field.name.as_str());
        let mut names = names.chain(self.aliases.iter().map(|(other, _)| *other));
        self.get(name)
            .or_else(|| names.find(|name| normalize(name) == normalized).and_then(|name| self.get(name)))
            .ok_or_else(|| self.unknown_parameter(name, &[]))
    }

    /// The argument with exactly this name or alias.
    pub fn get(&self, name: &str) -> Option<&InputField> {
        let canonical = self.aliases.iter().find(|(other, _)| *other == name).map_or(name, |(_, canonical)| canonical);
        self.fields.iter().find(|field| field.name == canonical)
    }

    /// The first required argument that is missing under all its names.
    pub fn first_missing(&self, members: &Map<String, Value>) -> Option<&InputField> {
        let is_given = |field: &InputField| {
            let extra = self.aliases.iter().filter(|(_, canonical)| *canonical == field.name).map(|(other, _)| *other);
            extra.chain([field.name.as_str()]).any(|name| members.contains_key(name))
        };
        self.fields.iter().find(|field| field.is_required && !is_given(field))
    }

    /// Checks the names of a JSON object's members, which must be exact. `others` are additional
    /// valid names for the error message.
    ///
    /// # Errors
    /// `Invalid`, with the most similar name, for an unknown one.
    pub fn check_names(&self, members: &Map<String, Value>, extra: &[&str]) -> Result<(), Fault> {
        match members.keys().find(|name| self.get(name).is_none()) {
            None => Ok(()),
            Some(name) => Err(self.unknown_parameter(name, extra)),
        }
    }

    fn unknown_parameter(&self, name: &str, extra: &[&str]) -> Fault {
        let names = || self.fields.iter().map(|field| field.name.as_str()).chain(extra.iter().copied());
        let nearest = names()
            .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
            .max_by(|a, other| a.0.total_cmp(&other.0))
            .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY);
        let hint = match nearest {
            Some((_, candidate)) => format!("did you mean `{candidate}`?"),
            None if names().next().is_none() => "this operation has no parameters".to_owned(),
            None => {
                let names: Vec<String> = names().map(|name| format!("`{name}`")).collect();
                format!("valid parameters: {}", names.join(", "))
            }
        };
        let name = svcfs_base::escape_unprintable(name);
        Fault::new(Kind::Invalid, format!("unknown parameter `{name}`; {hint}"))
    }
}

impl InputField {
    /// Parses a text and adds it to the arguments. A list may be given in several texts.
    ///
    /// # Errors
    /// `Invalid`, naming the argument, if the text cannot be parsed or is given twice.
    pub fn parse_into(&self, object: &mut Map<String, Value>, text: &str) -> Result<(), Fault> {
        let value = self.kind.parse(text).map_err(|wanted| {
            let text = svcfs_base::escape_unprintable(text);
            Fault::invalid(&self.name, format_args!("`{text}` is not {wanted}"))
        })?;
        match object.get_mut(&self.name) {
            Some(previous) if self.accepts_list => *previous = concat_lists(previous.take(), value),
            Some(_) => return Err(Fault::invalid(&self.name, "is given twice")),
            None => drop(object.insert(self.name.clone(), value)),
        }
        Ok(())
    }
}

fn concat_lists(previous: Value, next: Value) -> Value {
    let items = |value| match value {
        Value::Array(items) => items,
        item => vec![item],
    };
    let mut all = items(previous);
    all.extend(items(next));
    all.into()
}

impl InputKind {
    /// The value, or the expected form.
    fn parse(&self, text: &str) -> Result<Value, &'static str> {
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
            // Lists of complex values must be JSON; other lists may be.
            Self::List(_) if text.trim_start().starts_with('[') => {
                serde_json::from_str(text).map_err(|_| "a JSON list")
            }
            Self::List(items) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.map(|part| items.parse(part)).collect::<Result<Vec<_>, _>>().map(Value::from)
            }
            Self::Json => serde_json::from_str(text).map_err(|_| "JSON"),
        }
    }
}

struct SchemaDefinitions(Map<String, Value>);

impl SchemaDefinitions {
    /// The schema with references resolved, and without the null of an optional type.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        if let Some(target) = self.target(schema) {
            return self.resolved(target);
        }
        let is_null = |choice: &Value| choice.get("type").is_some_and(|name| name == "null");
        choices(schema).find(|choice| !is_null(choice)).map_or(schema, |choice| self.resolved(choice))
    }

    fn kind_of(&self, schema: &Value) -> InputKind {
        let schema = self.resolved(schema);
        if is_type(schema, "integer") {
            InputKind::Integer
        } else if is_type(schema, "number") {
            InputKind::Number
        } else if is_type(schema, "boolean") {
            InputKind::Boolean
        } else if is_type(schema, "array") {
            InputKind::List(Box::new(schema.get("items").map_or(InputKind::Text, |items| self.kind_of(items))))
        } else if is_type(schema, "string") || schema.get("enum").is_some() || schema.get("const").is_some() {
            InputKind::Text
        } else {
            InputKind::Json
        }
    }

    /// Whether a schema accepts an array, among others.
    fn may_be_list(&self, schema: &Value) -> bool {
        is_type(schema, "array")
            || self.target(schema).is_some_and(|target| self.may_be_list(target))
            || choices(schema).any(|choice| self.may_be_list(choice))
    }

    /// The referenced schema, if this is a reference.
    fn target(&self, schema: &Value) -> Option<&Value> {
        self.0.get(schema.get("$ref")?.as_str()?.rsplit('/').next()?)
    }
}

/// The alternatives that a schema consists of.
fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| schema.get(key)?.as_array());
    lists.flatten()
}

fn is_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(types)) => types.iter().any(|a| a == name),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
