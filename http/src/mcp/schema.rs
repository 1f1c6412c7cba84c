//! JSON schemas as published for agents.
//!
//! Invariant: a published schema has no references, no unions and no `format`. Every value has one
//! `type`, or none when any value is allowed. Clients refuse everything else or warn about it:
//! several models support neither `$ref` nor `anyOf`, and some validators warn about unknown
//! formats at each call. A nullable value is published as optional.
//!
//! The operations' own schemas keep what is removed here: access checks find paths by their format.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use svcfs_base::Fault;

use crate::openapi::join_lines;

/// How often a type may contain itself; deeper levels allow any object.
const MAX_NESTING: usize = 3;

/// The argument that says how `content` is encoded; replaces a union of text and bytes.
const ENCODING: &str = "encoding";
/// The argument that it describes.
const CONTENT: &str = "content";
/// Its values.
const ENCODINGS: [&str; 2] = ["text", "base64"];

/// The published form of an object's schema and the types that it refers to.
pub(super) fn publish(schema: &Value, definitions: &Map<String, Value>) -> Map<String, Value> {
    let (mut published, _) = SchemaRewriter { definitions, enclosing: Vec::new() }.publish_value(schema);
    join_lines(&mut published);
    match published {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// Converts schemas.
struct SchemaRewriter<'d> {
    definitions: &'d Map<String, Value>,
    /// The referenced types that enclose the current schema.
    enclosing: Vec<&'d str>,
}

impl<'d> SchemaRewriter<'d> {
    /// The published form of a schema, and whether it was nullable.
    fn publish_value(&mut self, schema: &'d Value) -> (Value, bool) {
        let Some(members) = schema.as_object() else { return (json!({}), false) };
        let (mut published, mut is_nullable) = (Map::new(), false);
        if let Some((name, target)) = self.resolve_reference(members) {
            if self.enclosing.iter().filter(|outer| **outer == name).count() >= MAX_NESTING {
                published.insert("type".to_owned(), "object".into());
            } else {
                self.enclosing.push(name);
                (published, is_nullable) = into_members(self.publish_value(target));
                self.enclosing.pop();
            }
        }
        for choices in ["anyOf", "oneOf"].iter().filter_map(|key| members.get(*key)?.as_array()) {
            let (chosen, has_null) = into_members(self.choose(choices));
            published.extend(chosen);
            is_nullable |= has_null;
        }
        for (name, member) in members {
            match name.as_str() {
                "$ref" | "anyOf" | "oneOf" | "format" | "contentEncoding" | "required" => {}
                "default" if member.is_null() => {}
                "type" => {
                    let (kind, has_null) = single_type(member);
                    published.extend(kind.map(|kind| (name.clone(), kind)));
                    is_nullable |= has_null;
                }
                "const" => drop(published.insert("enum".to_owned(), json!([member]))),
                "items" | "additionalProperties" if !member.is_boolean() => {
                    published.insert(name.clone(), self.publish_value(member).0);
                }
                "items" => drop(published.insert(name.clone(), json!({}))),
                "properties" => self.properties(members, &mut published),
                // Members beside a reference override those of its target.
                _ => drop(published.insert(name.clone(), member.clone())),
            }
        }
        wrap_single_items(&mut published);
        (published.into(), is_nullable)
    }

    /// The members of an object; nullable ones are optional.
    fn properties(&mut self, members: &'d Map<String, Value>, published: &mut Map<String, Value>) {
        let (mut properties, mut optional) = (Map::new(), Vec::new());
        for (name, schema) in members.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let (property, is_nullable) = self.publish_value(schema);
            properties.insert(name.clone(), property);
            optional.extend(is_nullable.then_some(name));
            if name == CONTENT && accepts_bytes(schema) {
                properties.insert(ENCODING.to_owned(), encoding());
            }
        }
        published.insert("properties".to_owned(), properties.into());
        let required = members.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<Value> =
            required.filter(|name| !optional.iter().any(|optional| *name == *optional)).cloned().collect();
        if !required.is_empty() {
            published.insert("required".to_owned(), required.into());
        }
    }

    /// Replaces a union with one schema.
    fn choose(&mut self, choices: &'d [Value]) -> (Value, bool) {
        let is_null = |choice: &&Value| choice.get("type").is_some_and(|kind| kind == "null");
        let mut is_nullable = choices.iter().any(|choice| is_null(&choice));
        let mut alternatives = Vec::new();
        for choice in choices.iter().filter(|choice| !is_null(choice)) {
            let (choice, has_null) = self.publish_value(choice);
            is_nullable |= has_null;
            alternatives.push(choice);
        }
        let of_type = |kind: &str| alternatives.iter().find(|choice| choice["type"] == kind);
        let chosen = if let [only] = &*alternatives {
            only.clone()
        } else if alternatives.iter().all(|choice| choice.get("enum").is_some()) {
            let values: Vec<&Value> =
                alternatives.iter().filter_map(|choice| choice["enum"].as_array()).flatten().collect();
            json!({ "type": alternatives.first().map(|first| &first["type"]), "enum": values, "description": describe_values(&alternatives) })
        } else if let Some(list) = of_type("array") {
            // A single item is accepted in place of the list, too.
            list.clone()
        } else if let Some(text) = of_type("string") {
            // The other alternative is bytes: see `encoding`.
            text.clone()
        } else {
            json!({})
        };
        (chosen, is_nullable)
    }

    /// The type that a schema refers to.
    fn resolve_reference(&self, members: &Map<String, Value>) -> Option<(&'d str, &'d Value)> {
        let name = members.get("$ref")?.as_str()?.rsplit('/').next()?;
        let (name, target) = self.definitions.get_key_value(name)?;
        Some((name.as_str(), target))
    }
}

/// Converts defaults and examples that are a single item to lists.
fn wrap_single_items(published: &mut Map<String, Value>) {
    if published.get("type").is_none_or(|kind| kind != "array") {
        return;
    }
    let examples =
        published.get_mut("examples").and_then(Value::as_array_mut).into_iter().flatten().collect::<Vec<_>>();
    for value in examples.into_iter().filter(|example| !example.is_array()) {
        *value = json!([value.take()]);
    }
    if let Some(default) = published.get_mut("default").filter(|default| !default.is_array()) {
        *default = json!([default.take()]);
    }
}

/// The members of a published schema.
fn into_members((schema, is_nullable): (Value, bool)) -> (Map<String, Value>, bool) {
    match schema {
        Value::Object(members) => (members, is_nullable),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            (Map::new(), is_nullable)
        }
    }
}

/// The one published type of several, and whether null is among them.
fn single_type(kinds: &Value) -> (Option<Value>, bool) {
    let Some(kinds) = kinds.as_array() else { return (Some(kinds.clone()), false) };
    let has = |name: &str| kinds.iter().any(|kind| kind == name);
    let published_type =
        if has("array") { Some("array".into()) } else { kinds.iter().find(|kind| *kind != "null").cloned() };
    (published_type, has("null"))
}

/// The descriptions of the values of an enum.
fn describe_values(choices: &[Value]) -> String {
    let descriptions = choices.iter().filter_map(|choice| {
        let meaning = choice.get("description")?.as_str()?.trim_end_matches('.');
        Some(format!("`{}`: {meaning}", choice["enum"][0].as_str()?))
    });
    descriptions.collect::<Vec<_>>().join("; ")
}

/// Whether bytes are accepted in place of the text.
fn accepts_bytes(schema: &Value) -> bool {
    schema["anyOf"].as_array().into_iter().flatten().any(|choice| choice.pointer("/properties/base64").is_some())
}

fn encoding() -> Value {
    let description = "`base64` if `content` is base64 of binary data";
    json!({ "type": "string", "enum": ENCODINGS, "default": ENCODINGS[0], "description": description })
}

/// Converts base64 content to the form that operations take, wherever `schema` has an encoding.
/// Errors: `Invalid` for an unknown encoding, and for content that does not have it.
fn decode(arguments: &mut Value, schema: &Value) -> Result<(), Fault> {
    match arguments {
        Value::Object(members) => decode_members(members, schema.get("properties")),
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return Ok(()) };
            items.iter_mut().try_for_each(|item| decode(item, schema))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// The same for the members of an object with these properties.
pub(super) fn decode_members(members: &mut Map<String, Value>, properties: Option<&Value>) -> Result<(), Fault> {
    let properties = properties.and_then(Value::as_object);
    if properties.and_then(|properties| properties.get(ENCODING)).is_some_and(|own| own["enum"] == json!(ENCODINGS))
        && let Some(given) = members.remove(ENCODING)
    {
        decode_content(members, &given)?;
    }
    for (name, member) in members.iter_mut() {
        properties.and_then(|properties| properties.get(name)).map_or(Ok(()), |schema| decode(member, schema))?;
    }
    Ok(())
}

fn decode_content(members: &mut Map<String, Value>, encoding: &Value) -> Result<(), Fault> {
    match encoding.as_str() {
        Some("text") => Ok(()),
        Some("base64") => {
            if let Some(content) = members.get_mut(CONTENT)
                && let Some(text) = content.as_str()
            {
                STANDARD.decode(text).map_err(|error| {
                    Fault::invalid(CONTENT, format_args!("is not base64, as `{ENCODING}` says: {error}"))
                })?;
                *content = json!({ "base64": text });
            }
            Ok(())
        }
        _ => Err(Fault::invalid(ENCODING, "is neither `text` nor `base64`")),
    }
}

/// Removes nulls of typed members: the published schema allows them to be absent only.
fn prune(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(members) => prune_members(members, schema.get("properties")),
        Value::Array(items) => {
            schema.get("items").into_iter().for_each(|schema| items.iter_mut().for_each(|item| prune(item, schema)));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The same for the members of an object with these properties.
pub(super) fn prune_members(members: &mut Map<String, Value>, properties: Option<&Value>) {
    let Some(properties) = properties.and_then(Value::as_object) else { return };
    members.retain(|name, member| {
        let is_typed = properties.get(name).is_some_and(|schema| schema.get("type").is_some());
        !(member.is_null() && is_typed)
    });
    for (name, member) in members.iter_mut() {
        properties.get(name).into_iter().for_each(|schema| prune(member, schema));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_unions_and_formats_become_plain_types() {
        let definitions = json!({
            "Kind": { "oneOf": [
                { "type": "string", "const": "a", "description": "First." },
                { "type": "string", "const": "b", "description": "Second." },
            ], "description": "Its kind." },
            "Node": { "type": "object", "required": ["children"], "properties": {
                "children": { "type": ["array", "null"], "items": { "$ref": "#/$defs/Node" } },
            } },
        });
        let schema = json!({ "type": "object", "required": ["kind", "maybe", "any", "size"], "properties": {
            "kind": { "$ref": "#/$defs/Kind", "description": "Here" },
            "maybe": { "anyOf": [{ "$ref": "#/$defs/Kind" }, { "type": "null" }], "default": null },
            "any": true,
            "size": { "type": "integer", "format": "uint64", "minimum": 0 },
            "texts": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] },
            "both": { "type": ["array", "string"], "items": { "type": "string" }, "default": "a", "examples": ["b", ["c"]] },
            "rows": { "type": "array", "items": true },
            "tree": { "$ref": "#/$defs/Node" },
        } });
        let published = Value::Object(publish(&schema, definitions.as_object().unwrap()));
        let at = |pointer: &str| published.pointer(&format!("/properties/{pointer}")).cloned().unwrap();
        assert_eq!(at("kind"), json!({ "type": "string", "enum": ["a", "b"], "description": "Here" }));
        assert_eq!(at("maybe"), json!({ "type": "string", "enum": ["a", "b"], "description": "Its kind." }));
        assert_eq!((at("any"), at("rows/items")), (json!({}), json!({})));
        assert_eq!(at("size"), json!({ "type": "integer", "minimum": 0 }));
        assert_eq!(at("texts"), json!({ "type": "array", "items": { "type": "string" } }));
        let both =
            json!({ "type": "array", "items": { "type": "string" }, "default": ["a"], "examples": [["b"], ["c"]] });
        assert_eq!(at("both"), both);
        assert_eq!(published["required"], json!(["kind", "any", "size"]), "what may be null need not be there");
        let nested = "tree/properties/children/items/properties/children/items/properties/children/items";
        assert_eq!(at(nested), json!({ "type": "object" }));
    }

    #[test]
    fn base64_is_decoded_where_the_schema_has_an_encoding() {
        let file =
            json!({ "type": "object", "properties": { "content": { "type": "string" }, "encoding": encoding() } });
        let schema = json!({ "type": "object", "properties": { "files": { "type": "array", "items": file } } });
        let mut arguments =
            json!({ "files": [{ "content": "AA==", "encoding": "base64" }, { "content": "AA==" }], "encoding": 1 });
        decode(&mut arguments, &schema).unwrap();
        let decoded = json!({ "files": [{ "content": { "base64": "AA==" } }, { "content": "AA==" }], "encoding": 1 });
        assert_eq!(arguments, decoded);
        for (content, encoding) in
            [("*", json!("base64")), ("a", json!("utf-16")), ("a", json!(null)), ("a", json!({}))]
        {
            let mut arguments = json!({ "files": [{ "content": content, "encoding": encoding }] });
            assert!(decode(&mut arguments, &schema).is_err(), "{content} {encoding}");
        }
    }

    #[test]
    fn published_schemas_omit_null_types() {
        let schema = json!({ "type": "object", "properties": {
            "gone": { "type": "string" }, "any": {}, "rows": { "type": "array", "items": { "properties": { "gone": { "type": "integer" } } } },
        } });
        let mut value =
            json!({ "gone": null, "any": null, "other": null, "rows": [{ "gone": null, "stays": null }, null] });
        prune(&mut value, &schema);
        assert_eq!(value, json!({ "any": null, "other": null, "rows": [{ "stays": null }, null] }));
    }
}
