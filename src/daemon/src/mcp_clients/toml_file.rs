//! Entries in TOML files.

use serde_json::Value;
use toml_edit::{DocumentMut, InlineTable, Item, Table, value};

use super::ClientFileError;

/// The table of the entries.
const CONTAINER: &str = "mcp_servers";

/// As [`super::find_entry`].
pub(super) fn find(text: &str, name: &str) -> Result<Option<Value>, ClientFileError> {
    let document = parse(text)?;
    match document.get(CONTAINER) {
        None => Ok(None),
        Some(servers) if servers.is_table_like() => Ok(servers.get(name).and_then(to_json)),
        Some(_) => Err(ClientFileError::NotAnObject(CONTAINER.to_owned())),
    }
}

/// As [`super::set_entry`].
pub(super) fn set(text: &str, name: &str, entry: &Value) -> Result<String, ClientFileError> {
    let mut document = parse(text)?;
    // Comments at the end of the file stay above an added table.
    let comments = document.trailing().as_str().unwrap_or_default().to_owned();
    let servers = document.entry(CONTAINER).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = servers.as_table_like_mut().ok_or_else(|| ClientFileError::NotAnObject(CONTAINER.to_owned()))?;
    let mut table = Table::new();
    for (member, content) in entry.as_object().into_iter().flatten() {
        table.insert(member, to_item(content));
    }
    let is_new = !servers.contains_key(name);
    if let Some(old) = servers.get(name).and_then(Item::as_table) {
        *table.decor_mut() = old.decor().clone();
    }
    let body = table.to_string();
    servers.insert(name, Item::Table(table));
    let is_last = document.to_string().strip_suffix(comments.as_str()).is_some_and(|above| above.ends_with(&body));
    if is_new && is_last {
        document.set_trailing("");
        let added = document.get_mut(CONTAINER).and_then(|servers| servers.get_mut(name)).and_then(Item::as_table_mut);
        if let (Some(added), false) = (added, comments.trim().is_empty()) {
            added.decor_mut().set_prefix(format!("{comments}\n"));
        }
    }
    let changed = with_line_ends_of(text, document.to_string());
    let is_same = find(&changed, name)?.as_ref() == Some(entry) && same_beside(text, &changed, name)?;
    if is_same { Ok(changed) } else { Err(ClientFileError::Unsafe) }
}

/// As [`super::remove_entry`].
pub(super) fn remove(text: &str, name: &str) -> Result<String, ClientFileError> {
    let mut document = parse(text)?;
    let Some(servers) = document.get_mut(CONTAINER).and_then(Item::as_table_like_mut) else {
        return Ok(text.to_owned());
    };
    let removed = servers.remove(name);
    let prefix = removed.as_ref().and_then(Item::as_table).and_then(|table| table.decor().prefix()?.as_str());
    if let Some(comments) = prefix.filter(|comments| comments.contains('#')) {
        let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
        document.set_trailing(format!("{comments}{trailing}"));
    }
    let changed = with_line_ends_of(text, document.to_string());
    if same_beside(text, &changed, name)? { Ok(changed) } else { Err(ClientFileError::Unsafe) }
}

/// A changed text, which has the line ends of the parser, with those of the original.
fn with_line_ends_of(text: &str, changed: String) -> String {
    let has_crlf = text.contains("\r\n") && text.matches('\n').count() == text.matches("\r\n").count();
    if has_crlf { changed.replace("\r\n", "\n").replace('\n', "\r\n") } else { changed }
}

/// Whether two texts differ in the entry only.
fn same_beside(before: &str, after: &str, name: &str) -> Result<bool, ClientFileError> {
    let rest = |text: &str| -> Result<Option<Value>, ClientFileError> {
        let mut document = parse(text)?;
        if let Some(servers) = document.get_mut(CONTAINER).and_then(Item::as_table_like_mut) {
            servers.remove(name);
            if servers.is_empty() {
                document.remove(CONTAINER);
            }
        }
        Ok(to_json(document.as_item()))
    };
    Ok(rest(before)? == rest(after)?)
}

fn parse(text: &str) -> Result<DocumentMut, ClientFileError> {
    text.parse()
        .map_err(|error: toml_edit::TomlError| ClientFileError::Syntax { format: "TOML", reason: error.to_string() })
}

/// The data of an item; none if it is no data.
fn to_json(item: &Item) -> Option<Value> {
    let json_of = |value: &toml_edit::Value| match value {
        toml_edit::Value::String(text) => Some(text.value().as_str().into()),
        toml_edit::Value::Integer(number) => Some((*number.value()).into()),
        toml_edit::Value::Float(number) => Some((*number.value()).into()),
        toml_edit::Value::Boolean(flag) => Some((*flag.value()).into()),
        toml_edit::Value::Datetime(time) => Some(time.value().to_string().into()),
        toml_edit::Value::Array(items) => {
            items.iter().map(|item| to_json(&Item::Value(item.clone()))).collect::<Option<Vec<_>>>().map(Value::from)
        }
        toml_edit::Value::InlineTable(_) => None,
    };
    if let Some(table) = item.as_table_like() {
        let members = table.iter().map(|(name, item)| Some((name.to_owned(), to_json(item)?)));
        return members.collect::<Option<serde_json::Map<_, _>>>().map(Value::from);
    }
    match item {
        Item::Value(value) => json_of(value),
        Item::ArrayOfTables(tables) => {
            let tables = tables.iter().map(|table| to_json(&Item::Table(table.clone())));
            tables.collect::<Option<Vec<_>>>().map(Value::from)
        }
        Item::None | Item::Table(_) => None,
    }
}

fn to_item(content: &Value) -> Item {
    match content {
        Value::Bool(flag) => value(*flag),
        Value::Array(items) => value(items.iter().filter_map(Value::as_str).collect::<toml_edit::Array>()),
        Value::Object(members) => {
            let texts = members.iter().filter_map(|(name, text)| Some((name, text.as_str()?)));
            value(texts.collect::<InlineTable>())
        }
        Value::String(text) => value(text.as_str()),
        Value::Number(number) => number.as_i64().map_or(Item::None, value),
        Value::Null => Item::None,
    }
}
