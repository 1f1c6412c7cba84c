//! The inputs of an operation, as its schema tells them: their names, and what a text means for each.
//!
//! One rule: the operation's own schema says what a text is read as, whichever door the text came through.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use svcfs_base::{Fault, Kind};

use super::OperationEntry;

/// Names closer than this (Jaro-Winkler) are offered as what may have been meant.
const LIKENESS: f64 = 0.75;

/// Every input of one operation.
#[derive(Debug)]
pub struct OperationInputs {
    /// The inputs, in the order they were declared.
    pub fields: Vec<InputField>,
    /// The operation's manual, as its schema carries it.
    pub manual: String,
    /// Other names, each with the input it means.
    aliases: &'static [(&'static str, &'static str)],
}

/// One input.
#[derive(Debug)]
pub struct InputField {
    /// Its name in JSON.
    pub name: String,
    /// Whether it must be given.
    pub is_required: bool,
    /// Whether it may be `{"base64": …}` instead of a text.
    pub accepts_bytes: bool,
    /// Whether it may be a list, so that texts may give it more than once.
    pub accepts_list: bool,
    /// What a text is read as.
    pub kind: InputKind,
    /// Its schema as declared: description and default stand here.
    pub schema: Value,
    /// The schema of its type, behind references and the null of an optional one: limits and choices stand here.
    pub type_schema: Value,
}

/// What a text is read as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputKind {
    /// As it is.
    Text,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `1`, `false` or `0`.
    Boolean,
    /// Values of this shape with commas between them, or a JSON list.
    List(Box<InputKind>),
    /// An object or anything goes: JSON.
    Json,
}

impl OperationInputs {
    /// Reads an operation's schema.
    pub fn from_entry(entry: &OperationEntry) -> Self {
        let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
        let schema = (entry.input)(&mut generator);
        let definitions = SchemaDefinitions(generator.take_definitions(true));
        let required = schema.get("required").and_then(Value::as_array);
        let field = |(name, schema): (&String, &Value)| InputField {
            name: name.clone(),
            is_required: required.is_some_and(|required| required.iter().any(|one| one == name)),
            accepts_bytes: choices(schema).any(|choice| choice.pointer("/properties/base64").is_some()),
            accepts_list: definitions.may_be_list(schema),
            kind: definitions.shape(schema),
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

    /// The input a parameter name means: `link-type`, `link_type` and `linkType` are the same.
    ///
    /// # Errors
    /// `Invalid`, with the nearest known name.
    pub fn find_parameter(&self, given: &str) -> Result<&InputField, Fault> {
        let plain = |name: &str| name.replace(['-', '_'], "").to_lowercase();
        let meant = plain(given);
        let names = self.fields.iter().map(|field| field.name.as_str());
        let mut known = names.chain(self.aliases.iter().map(|(other, _)| *other));
        self.get(given)
            .or_else(|| known.find(|name| plain(name) == meant).and_then(|name| self.get(name)))
            .ok_or_else(|| self.unknown(given, &[]))
    }

    /// The input of exactly this name, or of this other name.
    pub fn get(&self, name: &str) -> Option<&InputField> {
        let own = self.aliases.iter().find(|(other, _)| *other == name).map_or(name, |(_, own)| own);
        self.fields.iter().find(|field| field.name == own)
    }

    /// The first input that must be given and is not, under any of its names.
    pub fn first_missing(&self, members: &Map<String, Value>) -> Option<&InputField> {
        let is_given = |field: &InputField| {
            let others = self.aliases.iter().filter(|(_, own)| *own == field.name).map(|(other, _)| *other);
            others.chain([field.name.as_str()]).any(|name| members.contains_key(name))
        };
        self.fields.iter().find(|field| field.is_required && !is_given(field))
    }

    /// Checks the members of a JSON object, whose names are exact; `others` are known beside the inputs, and told when a name
    /// is not.
    ///
    /// # Errors
    /// `Invalid`, with the nearest known name, for one that is no input.
    pub fn check_names(&self, members: &Map<String, Value>, others: &[&str]) -> Result<(), Fault> {
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
        let given = svcfs_base::escape_unprintable(given);
        Fault::new(Kind::Invalid, format!("there is no parameter `{given}`; {hint}"))
    }
}

impl InputField {
    /// Adds a text, read as this input's type, to the object an operation reads. A list may be given in several texts.
    ///
    /// # Errors
    /// `Invalid`, naming the input, when the text is not of its type or a second one that is no list.
    pub fn parse_into(&self, object: &mut Map<String, Value>, text: &str) -> Result<(), Fault> {
        let value = self.kind.read(text).map_err(|wanted| {
            let text = svcfs_base::escape_unprintable(text);
            Fault::invalid(&self.name, format_args!("`{text}` is not {wanted}"))
        })?;
        match object.get_mut(&self.name) {
            Some(before) if self.accepts_list => *before = joined(before.take(), value),
            Some(_) => return Err(Fault::invalid(&self.name, "is given twice")),
            None => drop(object.insert(self.name.clone(), value)),
        }
        Ok(())
    }
}

/// A list given in several texts.
fn joined(before: Value, next: Value) -> Value {
    let items = |value| match value {
        Value::Array(items) => items,
        item => vec![item],
    };
    let mut all = items(before);
    all.extend(items(next));
    all.into()
}

impl InputKind {
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
            // A list of anything but plain values is written as JSON; so may every other list.
            Self::List(_) if text.trim_start().starts_with('[') => {
                serde_json::from_str(text).map_err(|_| "a JSON list")
            }
            Self::List(items) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.map(|part| items.read(part)).collect::<Result<Vec<_>, _>>().map(Value::from)
            }
            Self::Json => serde_json::from_str(text).map_err(|_| "JSON"),
        }
    }
}

/// The types a schema may refer to, by name.
struct SchemaDefinitions(Map<String, Value>);

impl SchemaDefinitions {
    /// The schema behind another: references and the null of an optional type are looked through.
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        if let Some(target) = self.target(schema) {
            return self.resolved(target);
        }
        let is_null = |choice: &Value| choice.get("type").is_some_and(|name| name == "null");
        choices(schema).find(|choice| !is_null(choice)).map_or(schema, |choice| self.resolved(choice))
    }

    fn shape(&self, schema: &Value) -> InputKind {
        let schema = self.resolved(schema);
        if is_type(schema, "integer") {
            InputKind::Integer
        } else if is_type(schema, "number") {
            InputKind::Number
        } else if is_type(schema, "boolean") {
            InputKind::Boolean
        } else if is_type(schema, "array") {
            InputKind::List(Box::new(schema.get("items").map_or(InputKind::Text, |items| self.shape(items))))
        } else if is_type(schema, "string") || schema.get("enum").is_some() || schema.get("const").is_some() {
            InputKind::Text
        } else {
            InputKind::Json
        }
    }

    /// True when a schema takes an array, whatever it takes beside.
    fn may_be_list(&self, schema: &Value) -> bool {
        is_type(schema, "array")
            || self.target(schema).is_some_and(|target| self.may_be_list(target))
            || choices(schema).any(|choice| self.may_be_list(choice))
    }

    /// What a schema refers to, if it is a reference.
    fn target(&self, schema: &Value) -> Option<&Value> {
        self.0.get(schema.get("$ref")?.as_str()?.rsplit('/').next()?)
    }
}

/// The schemas a schema is made of.
fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| schema.get(key)?.as_array());
    lists.flatten()
}

/// True when a schema's `type` is, or includes, `name`.
fn is_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
