//! How operations keep to the folder that a caller's key is limited to.
//!
//! One rule: what an operation says nothing of, it refuses. Which inputs are paths is read from the operation's own schema, so that
//! none can be forgotten, however deep it stands.

use schemars::generate::SchemaSettings;
use serde_json::Value;
use svcfs_base::{Fault, Kind, Permissions, Protocol, TreePath};

use super::{OperationContext, OperationEntry, Space};

/// The `format` of a path in a schema.
const PATH: &str = "tree-path";

/// How an operation keeps to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderScope {
    /// Not at all: it looks at the whole tree, or tells of it. Such a caller is refused.
    WholeTree,
    /// It touches, and tells of, nothing but the paths it is given.
    GivenPaths,
    /// It keeps to the folder this input names, which is the caller's own when the input is absent.
    Folder(&'static str),
    /// Beside the paths it is given it tells of pages in a list of objects with a `path`; those elsewhere are left out of it.
    Rows,
    /// Beside the paths it is given it looks at the caller's folder alone, by itself.
    CallerFolder,
}

/// Checks that an operation keeps to a folder, for a caller who is limited to one.
///
/// # Errors
/// `Forbidden`.
pub(super) fn allow(entry: &OperationEntry, reach: &Permissions) -> Result<(), Fault> {
    match &reach.folder {
        Some(folder) if entry.folder_scope == FolderScope::WholeTree => {
            let told = format!(
                "path outside key scope: `{}` looks at the whole tree, and this key is limited to `{folder}`; \
                 docs/access.md lists what such a key may ask, a key without a folder may ask everything of its scope",
                entry.name
            );
            Err(Fault::new(Kind::Forbidden, told))
        }
        Some(_) | None => Ok(()),
    }
}

/// Checks the inputs of a call, and adds the folder where it is not given.
///
/// # Errors
/// `Forbidden` for whatever lies elsewhere; `Invalid` for a path that is none.
pub(super) fn admit(entry: &OperationEntry, mut arguments: Value, cx: &OperationContext<'_>) -> Result<Value, Fault> {
    let reach = &cx.caller.permissions;
    let Some(folder) = &reach.folder else { return Ok(arguments) };
    if let FolderScope::Folder(input) = entry.folder_scope
        && let Some(members) = arguments.as_object_mut()
    {
        let given = members.get(input).is_some_and(|value| !value.is_null());
        if !given {
            members.insert(input.to_owned(), folder.as_str().into());
        }
    }
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let schema = (entry.input)(&mut generator).to_value();
    let definitions = Value::Object(generator.take_definitions(true));
    let mut paths = Vec::new();
    collect(&schema, &definitions, &arguments, &mut paths);
    for text in paths {
        cx.space.check_path_access(reach, cx.caller.protocol, &TreePath::parse(text)?)?;
    }
    Ok(arguments)
}

impl Space {
    /// Checks that a path lies in a caller's reach, and where it leads, when there are links on the way. Where that is, the refusal does not
    /// tell: it is none of the caller's business.
    ///
    /// # Errors
    /// `Forbidden`; `Invalid` for links that lead out of the root or in a circle.
    pub fn check_path_access(&self, reach: &Permissions, protocol: Protocol, path: &TreePath) -> Result<(), Fault> {
        reach.check_path(path)?;
        if reach.folder.is_none() || reach.covers(&self.vfs.resolve_links(protocol, path)?) {
            return Ok(());
        }
        Err(Fault::new(Kind::Forbidden, format!("path outside key scope: `{path}` is a link that leads out of it")))
    }
}

/// The texts in `value` that `schema` calls paths.
fn collect<'v>(schema: &Value, definitions: &Value, value: &'v Value, paths: &mut Vec<&'v str>) {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next())
        && let Some(target) = definitions.get(name)
    {
        collect(target, definitions, value, paths);
    }
    for choice in ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten() {
        collect(choice, definitions, value, paths);
    }
    match value {
        Value::String(text) if schema.get("format").is_some_and(|format| format == PATH) => paths.push(text),
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter().for_each(|item| collect(schema, definitions, item, paths));
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                let named = schema.get("properties").and_then(|properties| properties.get(name));
                if let Some(schema) = named.or_else(|| schema.get("additionalProperties")) {
                    collect(schema, definitions, value, paths);
                }
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Leaves out of an answer what lies elsewhere.
pub(super) fn leave_out(entry: &OperationEntry, mut output: Value, reach: &Permissions) -> Value {
    if reach.folder.is_some()
        && entry.folder_scope == FolderScope::Rows
        && let Some(rows) = output.as_array_mut()
    {
        let covers = |row: &Value| {
            let path = row.get("path").and_then(Value::as_str).map(TreePath::parse);
            path.is_some_and(|path| path.is_ok_and(|path| reach.covers(&path)))
        };
        rows.retain(covers);
    }
    output
}
