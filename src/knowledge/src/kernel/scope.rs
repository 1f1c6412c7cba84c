//! Checks of path arguments: the folder that a key is limited to, hidden files, absolute paths.
//!
//! Invariant: path arguments are found by the schema, at any depth, so that no operation forgets
//! one. For a key with a folder, an operation without a declaration is refused.

use schemars::generate::SchemaSettings;
use serde_json::Value;
use svcfs_base::{Fault, Kind, Permissions, Protocol, TreePath};

use super::{OperationContext, OperationEntry, Space};

/// The `format` of a path in a schema.
const PATH_FORMAT: &str = "tree-path";

/// Longer texts are no paths.
const MAX_PATH_BYTES: usize = 4096;

/// Directories of computers: a path that begins with one is meant as a path of the computer, unless
/// the tree has a directory of this name.
const SYSTEM_DIRECTORIES: [&str; 23] = [
    "Applications",
    "Library",
    "System",
    "Users",
    "Volumes",
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "media",
    "mnt",
    "opt",
    "private",
    "proc",
    "root",
    "run",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
];

/// How an operation respects the folder of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderScope {
    /// It uses or reveals the full tree: refused for such a key.
    WholeTree,
    /// It uses and reveals only the given paths.
    GivenPaths,
    /// It is limited to the folder in this argument; default: the folder of the key.
    Folder(&'static str),
    /// Besides the given paths it returns a list of objects with a `path`; others are removed.
    Rows,
    /// Besides the given paths it uses only the folder of the key, by itself.
    CallerFolder,
}

/// Checks that a key with a folder may run an operation.
pub(super) fn check_folder_support(entry: &OperationEntry, permissions: &Permissions) -> Result<(), Fault> {
    match &permissions.folder {
        Some(folder) if entry.folder_scope == FolderScope::WholeTree => {
            let message = format!(
                "path outside key scope: `{}` needs the full tree, but this key is limited to `{folder}`; \
                 use a key without a folder, or an operation that docs/access.md lists for such keys",
                entry.name
            );
            Err(Fault::new(Kind::Forbidden, message))
        }
        Some(_) | None => Ok(()),
    }
}

/// Checks the path arguments of a call, and adds the folder if it is absent.
///
/// # Errors
/// `Forbidden` for a path outside the folder; `Invalid` for a bad or absolute path; for a hidden
/// file `NotFound`, whether or not it exists, and `Invalid` for an operation that writes.
pub(super) fn check_arguments(
    entry: &OperationEntry,
    mut arguments: Value,
    cx: &OperationContext<'_>,
) -> Result<Value, Fault> {
    let permissions = &cx.caller.permissions;
    if let (Some(folder), FolderScope::Folder(input)) = (&permissions.folder, entry.folder_scope)
        && let Some(members) = arguments.as_object_mut()
    {
        let is_given = members.get(input).is_some_and(|value| !value.is_null());
        if !is_given {
            members.insert(input.to_owned(), folder.as_str().into());
        }
    }
    // Without a folder almost no call has a path to check, so the schema is not needed.
    if permissions.folder.is_none() && !may_have_special_path(&arguments) {
        return Ok(arguments);
    }
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let schema = (entry.input)(&mut generator).to_value();
    let definitions = Value::Object(generator.take_definitions(true));
    let mut paths = Vec::new();
    collect_paths(&schema, &definitions, &arguments, &mut paths);
    for text in paths {
        // Refused with its field when the arguments are read.
        if TreePath::parse(text).is_err() {
            continue;
        }
        let path = cx.space.parse_path(text)?;
        if permissions.folder.is_some() {
            cx.space.check_path_access(permissions, cx.caller.protocol, &path)?;
        }
        cx.space.check_served(cx.caller.protocol, &path, entry.is_read_only())?;
    }
    Ok(arguments)
}

/// Whether a text in a value could be a path that is absolute or hidden.
fn may_have_special_path(value: &Value) -> bool {
    match value {
        Value::String(text) if text.len() > MAX_PATH_BYTES => false,
        Value::String(text) => absolute_path(text).is_some() || text.starts_with('.') || text.contains("/."),
        Value::Array(items) => items.iter().any(may_have_special_path),
        Value::Object(members) => members.values().any(may_have_special_path),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The first name of a path that is absolute on some system; empty if it cannot be one of the tree.
fn absolute_path(text: &str) -> Option<&str> {
    let is_drive = |text: &[u8]| matches!(text, [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    if is_drive(text.as_bytes()) || text.starts_with("\\\\") || text.starts_with("~/") {
        return Some("");
    }
    let first = text.strip_prefix('/')?.split('/').find(|name| !name.is_empty())?;
    SYSTEM_DIRECTORIES.contains(&first).then_some(first)
}

impl Space {
    /// Parses a path of a caller. A leading `/` means the root of the knowledge base.
    ///
    /// # Errors
    /// `Invalid` for a path of the computer, such as `/etc/passwd`, unless the tree has a directory
    /// of this name; those of [`TreePath::parse`].
    pub fn parse_path(&self, text: &str) -> Result<TreePath, Fault> {
        let path = TreePath::parse(text)?;
        let is_in_tree = |first: &str| {
            TreePath::parse(first)
                .is_ok_and(|first| !first.is_root() && self.vfs.stat(Protocol::Internal, &first).is_ok())
        };
        match absolute_path(text) {
            Some(first) if !is_in_tree(first) => {
                let text = svcfs_base::escape_unprintable(text);
                let message = format!(
                    "path denied: `{text}` is an absolute path; paths are relative to the knowledge base, such as \
                     `notes/today.md`"
                );
                Err(Fault::new(Kind::Invalid, message))
            }
            Some(_) | None => Ok(path),
        }
    }

    /// Checks that a protocol serves a path: REST and MCP do not serve hidden files. Server state,
    /// which no protocol has, is refused where it is used.
    ///
    /// # Errors
    /// `NotFound` for reading, as for a missing file; `Invalid` for writing, naming the setting.
    pub fn check_served(&self, protocol: Protocol, path: &TreePath, is_reading: bool) -> Result<(), Fault> {
        let is_server_state = || !self.vfs.is_visible(Protocol::Internal, path);
        if !protocol.serves_knowledge_only() || !self.vfs.hidden_files().hides(path) || is_server_state() {
            return Ok(());
        }
        if is_reading { Err(Fault::file_not_found(path)) } else { self.vfs.check_writable_name(protocol, path) }
    }

    /// Checks that a path and the target of symbolic links on it are within a caller's folder. The
    /// error does not reveal the target.
    ///
    /// # Errors
    /// `Forbidden`; `Invalid` for links that leave the root or form a cycle.
    pub fn check_path_access(
        &self,
        permissions: &Permissions,
        protocol: Protocol,
        path: &TreePath,
    ) -> Result<(), Fault> {
        permissions.check_path(path)?;
        if permissions.folder.is_none() || permissions.covers(&self.vfs.resolve_links(protocol, path)?) {
            return Ok(());
        }
        Err(Fault::new(Kind::Forbidden, format!("path outside key scope: `{path}` is a link to a path outside")))
    }
}

/// Collects the strings in `value` that are paths by `schema`.
fn collect_paths<'v>(schema: &Value, definitions: &Value, value: &'v Value, paths: &mut Vec<&'v str>) {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next())
        && let Some(target) = definitions.get(name)
    {
        collect_paths(target, definitions, value, paths);
    }
    for choice in ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten() {
        collect_paths(choice, definitions, value, paths);
    }
    match value {
        Value::String(text) if schema.get("format").is_some_and(|format| format == PATH_FORMAT) => paths.push(text),
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter().for_each(|item| collect_paths(schema, definitions, item, paths));
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                let member_schema = schema.get("properties").and_then(|properties| properties.get(name));
                if let Some(schema) = member_schema.or_else(|| schema.get("additionalProperties")) {
                    collect_paths(schema, definitions, value, paths);
                }
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Removes rows outside the caller's folder from an output.
pub(super) fn retain_covered_rows(entry: &OperationEntry, mut output: Value, permissions: &Permissions) -> Value {
    if permissions.folder.is_some()
        && entry.folder_scope == FolderScope::Rows
        && let Some(rows) = output.as_array_mut()
    {
        let covers = |row: &Value| {
            let path = row.get("path").and_then(Value::as_str).map(TreePath::parse);
            path.is_some_and(|path| path.is_ok_and(|path| permissions.covers(&path)))
        };
        rows.retain(covers);
    }
    output
}
