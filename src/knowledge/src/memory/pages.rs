//! Pages that are memories: how they are recognised, found and marked as superseded.

use std::time::Duration;

use serde_json::{Map, Value, json};
use svcfs_base::{Fault, Kind, PathComponent, Timestamp, TreePath};
use svcfs_index::{MetaCondition, MetaQuery};
use svcfs_vfs::FileView;

use crate::files;
use crate::kernel::OperationContext;
use crate::recall;

/// How long a creation waits for the index: a page it does not know would be written twice.
const INDEX_TIMEOUT: Duration = Duration::from_secs(10);

/// The value of `memory_status` of a memory that no longer holds.
pub(super) const SUPERSEDED: &str = "superseded";

/// A folder for new pages: below the folder of the caller's key, if it has one.
///
/// # Errors
/// `Invalid` for a path that is too long.
pub(crate) fn folder_for(cx: &OperationContext<'_>, name: &TreePath) -> Result<TreePath, Fault> {
    match &cx.caller.permissions.folder {
        Some(folder) if !name.is_under(folder) => TreePath::parse(&format!("{folder}/{name}")),
        Some(_) | None => Ok(name.clone()),
    }
}

/// The pages whose frontmatter has this text under a key, in path order. The key must be a plain
/// name and the text have no quotes.
///
/// # Errors
/// `Unavailable` while the index is behind; those of the index.
pub(crate) fn pages_with(cx: &OperationContext<'_>, key: &str, value: &str) -> Result<Vec<TreePath>, Fault> {
    let query = MetaQuery {
        conditions: vec![MetaCondition::parse(&format!("$.{key}=\"{value}\""))?],
        folder: cx.caller.permissions.folder.clone(),
        ..MetaQuery::default()
    };
    let rows = cx.up_to_date_index(INDEX_TIMEOUT)?.query_metadata(&query)?;
    let is_equal = |metadata: &Value| metadata.get(key).and_then(Value::as_str) == Some(value);
    Ok(rows.into_iter().filter(|row| is_equal(&row.metadata)).map(|row| row.path).collect())
}

/// A stored memory.
pub(super) struct MemoryPage {
    pub path: TreePath,
    pub file: FileView,
    pub text: String,
    pub fields: Map<String, Value>,
}

impl MemoryPage {
    /// Reads a memory that the caller names in this argument.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a page that is no memory.
    pub(super) fn read(cx: &OperationContext<'_>, field: &str, path: &TreePath) -> Result<Self, Fault> {
        let file = files::read_file(cx, path).map_err(|fault| missing_page(fault, field, path))?;
        let text = std::str::from_utf8(&file.content);
        let text = text.map_err(|_| Fault::invalid(field, format_args!("`{path}` is not UTF-8 text")))?.to_owned();
        let fields = files::frontmatter(&file.content);
        let is_set = |key: &str| fields.get(key).is_some_and(|value| !value.is_null());
        let folder = folder_for(cx, &cx.settings().memory.episodes_path_prefix)?;
        if !is_set("memory_kind") && !is_set("episode_id") && !path.is_under(&folder) {
            let message = format_args!(
                "`{path}` is no memory: it is not below `{folder}` and has no `memory_kind`; to mark another page as \
                 outdated, set `status: deprecated` in its frontmatter, and to remove it, use `delete`"
            );
            return Err(Fault::invalid(field, message));
        }
        Ok(Self { path: path.clone(), file, text, fields })
    }

    fn text_of(&self, key: &str) -> Option<&str> {
        self.fields.get(key).and_then(Value::as_str).map(str::trim)
    }

    /// Whether it no longer holds.
    pub(super) fn is_superseded(&self) -> bool {
        self.text_of("memory_status") == Some(SUPERSEDED)
    }

    /// The page marked as superseded; none if it already is, for this reason and by this page.
    ///
    /// # Errors
    /// `Invalid` for frontmatter that cannot be changed.
    pub(super) fn superseded(
        &self,
        now: Timestamp,
        reason: Option<&str>,
        by: Option<&TreePath>,
    ) -> Result<Option<String>, Fault> {
        let mut fields = Vec::new();
        if !self.is_superseded() {
            fields.push(("memory_status", json!(SUPERSEDED)));
            if !self.has_ended(now) {
                fields.push(("valid_until", json!(format!("{now:.0}"))));
            }
        }
        let by = by.map(TreePath::as_str);
        for (key, value) in [("superseded_reason", reason), ("superseded_by", by)] {
            if let Some(value) = value.filter(|value| self.text_of(key) != Some(*value)) {
                fields.push((key, json!(value)));
            }
        }
        if fields.is_empty() {
            return Ok(None);
        }
        let marked = files::set_fields(&self.text, &fields);
        marked.map(Some).map_err(|fault| {
            Fault::new(fault.kind(), format!("`{}` cannot be marked as superseded: {}", self.path, fault.message()))
        })
    }

    /// Whether it ceased to be valid before.
    fn has_ended(&self, now: Timestamp) -> bool {
        self.text_of("valid_until").and_then(recall::end_of).is_some_and(|end| end <= now)
    }
}

/// Names the argument with a page that does not exist.
pub(super) fn missing_page(fault: Fault, field: &str, path: &TreePath) -> Fault {
    match fault.kind() {
        Kind::NotFound => Fault::not_found(format!("`{field}`: file not found: {path}")).with_missing_path(path),
        _ => fault,
    }
}

/// Checks that a text is one line that a search condition can contain.
///
/// # Errors
/// `Invalid`.
pub(super) fn require_line(field: &str, text: &str, max_chars: usize) -> Result<(), Fault> {
    let is_bad = text.trim().is_empty()
        || text.trim() != text
        || text.chars().count() > max_chars
        || text.contains(|character: char| character.is_control() || character == '"');
    if is_bad {
        let message =
            format_args!("must be one line of 1 to {max_chars} characters without `\"` and without spaces at its ends");
        return Err(Fault::invalid(field, message));
    }
    Ok(())
}

/// The first component of a path below a folder.
///
/// # Errors
/// `Invalid` for a bad name.
pub(crate) fn child(folder: &TreePath, name: &str) -> Result<TreePath, Fault> {
    Ok(folder.join(&PathComponent::parse(name)?))
}
