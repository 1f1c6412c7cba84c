//! Entries in JSON files, which may have comments and trailing commas.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::{Map, Value, json};

use super::{ClientFileError, McpClient};

/// As [`super::find_entry`].
pub(super) fn find(text: &str, client: McpClient, name: &str) -> Result<Option<Value>, ClientFileError> {
    let value = parse(text)?;
    let mut container = &value;
    for member in container_of(client, &value) {
        match container.get(member) {
            Some(inner) if inner.is_object() => container = inner,
            Some(_) => return Err(ClientFileError::NotAnObject(member.to_owned())),
            None => return Ok(None),
        }
    }
    Ok(container.get(name).cloned())
}

/// As [`super::set_entry`].
pub(super) fn set(text: &str, client: McpClient, name: &str, entry: &Value) -> Result<String, ClientFileError> {
    let before = parse(text)?;
    let container = container_of(client, &before);
    let mut expected = before;
    set_member(&mut expected, &container, name, entry)?;
    if text.trim().is_empty() {
        return Ok(format!("{expected:#}\n"));
    }
    let root = root(text)?;
    let mut object = root_object(&root)?;
    for member in container {
        object = match object.get(member) {
            Some(property) => property.object_value().ok_or_else(|| ClientFileError::NotAnObject(member.to_owned()))?,
            None => object.object_value_or_set(member),
        };
    }
    match object.get(name) {
        Some(property) => property.set_value(to_input(entry)),
        None => drop(object.append(name, to_input(entry))),
    }
    checked(root.to_string(), &expected)
}

/// As [`super::remove_entry`].
pub(super) fn remove(text: &str, client: McpClient, name: &str) -> Result<String, ClientFileError> {
    let mut expected = parse(text)?;
    let container = container_of(client, &expected);
    let root = root(text)?;
    let mut object = root_object(&root)?;
    let mut inner = &mut expected;
    for member in container {
        let Some(next) = object.get(member).and_then(|property| property.object_value()) else {
            return Ok(text.to_owned());
        };
        object = next;
        inner = &mut inner[member];
    }
    if let Some(property) = object.get(name) {
        property.remove();
    }
    if let Some(members) = inner.as_object_mut() {
        members.shift_remove(name);
    }
    checked(root.to_string(), &expected)
}

/// The members that contain the entries. OpenCode 2 has them in `mcp.servers`, and reads the form
/// of OpenCode 1, too.
fn container_of(client: McpClient, value: &Value) -> Vec<&'static str> {
    let mut container = client.container().to_vec();
    let servers = value.pointer("/mcp/servers").and_then(Value::as_object);
    if client == McpClient::OpenCode && servers.is_some_and(|servers| !servers.contains_key("type")) {
        container.push("servers");
    }
    container
}

fn root(text: &str) -> Result<CstRootNode, ClientFileError> {
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| syntax(&error))
}

/// The object of a file; one is added to a file of comments only.
fn root_object(root: &CstRootNode) -> Result<CstObject, ClientFileError> {
    match (root.object_value(), root.value()) {
        (Some(object), _) => Ok(object),
        (None, None) => Ok(root.object_value_or_set()),
        (None, Some(_)) => Err(ClientFileError::NotAnObject("the outermost value".to_owned())),
    }
}

fn parse(text: &str) -> Result<Value, ClientFileError> {
    let root = root(text)?;
    match root.to_serde_value() {
        None if root.value().is_some() => Err(ClientFileError::Unsafe),
        None => Ok(json!({})),
        Some(value) if value.is_object() => Ok(value),
        Some(_) => Err(ClientFileError::NotAnObject("the outermost value".to_owned())),
    }
}

fn syntax(error: &impl std::fmt::Display) -> ClientFileError {
    ClientFileError::Syntax { format: "JSON", reason: error.to_string() }
}

fn set_member(value: &mut Value, container: &[&str], name: &str, entry: &Value) -> Result<(), ClientFileError> {
    let mut inner = value;
    for member in container {
        let members = inner.as_object_mut().ok_or_else(|| ClientFileError::NotAnObject((*member).to_owned()))?;
        inner = members.entry(*member).or_insert_with(|| Map::new().into());
    }
    let member = container.last().copied().unwrap_or_default();
    let members = inner.as_object_mut().ok_or_else(|| ClientFileError::NotAnObject(member.to_owned()))?;
    members.insert(name.to_owned(), entry.clone());
    Ok(())
}

/// The text, if it reads as expected.
fn checked(text: String, expected: &Value) -> Result<String, ClientFileError> {
    match parse(&text) {
        Ok(value) if value == *expected => Ok(text),
        Ok(_) | Err(_) => Err(ClientFileError::Unsafe),
    }
}

fn to_input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(to_input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), to_input(value))).collect())
        }
    }
}
