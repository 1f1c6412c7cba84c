//! Saves that meet: a write that is based on an older version is merged with the present one.
//!
//! Invariant: what is written was merged with exactly the version that it replaces. If the file
//! changes between the merge and the write, the write fails and the merge is repeated.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use svcfs_base::{Change, ETag, Fault, Kind, Precondition, Protocol, TreePath, WriteResult};
use svcfs_vfs::FileView;

use crate::history;
use crate::kernel::OperationContext;
use crate::merge::{merge_file, name_conflicts, place_of};

/// Attempts of a merge that loses against concurrent writers. Each failure means that another
/// writer succeeded.
const MERGE_ATTEMPTS: usize = 64;

/// What to do when the file is no longer the version that `if_match` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum OnConflict {
    /// Refuse the write.
    #[default]
    Fail,
    /// Merge both changes; refuse the write only if they overlap.
    Merge,
}

/// A write that may be merged.
pub struct MergedWrite {
    pub result: WriteResult,
    /// Whether the stored text has changes by others that the sent text lacked.
    pub is_merged: bool,
}

/// Writes what `change` makes of the version that the caller's precondition names, merged with the
/// present version if that is another one. `prepare` checks the merged text.
///
/// # Errors
/// `Invalid` without a precondition that names a version; `Conflict` with `current_etag`, `base`,
/// `theirs` and `conflicts` if both changed the same, and if the version is not stored or no text;
/// those of `change`, `prepare`, and [`svcfs_vfs::Vfs::apply`].
pub fn write_merged(
    cx: &OperationContext<'_>,
    path: &TreePath,
    change: impl Fn(&Bytes) -> Result<Bytes, Fault>,
    prepare: impl Fn(Bytes) -> Result<Bytes, Fault>,
) -> Result<MergedWrite, Fault> {
    let etags = expected_versions(cx)?;
    let mut base: Option<BaseVersion> = None;
    let mut attempt = 1;
    loop {
        let current = read_current(cx, path)?;
        let is_merged = !etags.contains(&current.etag);
        let content = if is_merged {
            let base = match &base {
                Some(base) => base,
                None => base.insert(find_base(cx, path, etags, &current)?),
            };
            merge(cx.caller.protocol, path, base, &change(&base.content)?, &current)?
        } else {
            change(&current.content)?
        };
        let precondition = Precondition::OneOf(vec![current.etag]);
        let put = Change::put(path.clone(), prepare(content)?).with_precondition(precondition);
        let fault = match cx.apply(put) {
            Ok(applied) => return Ok(MergedWrite { result: applied.single()?, is_merged }),
            Err(fault) => fault,
        };
        // The same version: the error has another reason, which a retry would not change.
        let is_race = fault.kind() == Kind::Conflict && read_current(cx, path)?.etag != current.etag;
        if !is_race || attempt == MERGE_ATTEMPTS {
            return Err(fault);
        }
        attempt += 1;
    }
}

/// The version that the caller changed.
struct BaseVersion {
    etag: ETag,
    content: Bytes,
}

fn expected_versions<'a>(cx: &OperationContext<'a>) -> Result<&'a [ETag], Fault> {
    match &cx.caller.precondition {
        Precondition::OneOf(etags) => Ok(etags),
        Precondition::Any | Precondition::Absent | Precondition::Present | Precondition::Large(_) => {
            let field = if cx.caller.protocol == Protocol::Mcp { "if_match" } else { "If-Match" };
            let why = "`on_conflict=merge` needs the ETag of the version that you changed; read the file, and send it";
            Err(Fault::invalid(field, why))
        }
    }
}

fn read_current(cx: &OperationContext<'_>, path: &TreePath) -> Result<FileView, Fault> {
    cx.tree().read(cx.caller.protocol, path).map_err(|fault| match fault.kind() {
        Kind::NotFound => Fault::edit_conflict(path, None),
        _ => fault,
    })
}

/// The stored content of an expected version, under the present name of the file or a former one.
fn find_base(
    cx: &OperationContext<'_>,
    path: &TreePath,
    etags: &[ETag],
    current: &FileView,
) -> Result<BaseVersion, Fault> {
    let vfs = &cx.space.vfs;
    let path_of_content = cx.tree().resolve_links(cx.caller.protocol, path)?;
    for follow in [false, true] {
        let names = history::names_of_page(cx, &path_of_content, follow)?;
        for etag in etags {
            if let Some(content) = vfs.content_of_etag(&names, *etag)? {
                return Ok(BaseVersion { etag: *etag, content });
            }
        }
    }
    let unknown = match etags {
        [etag, ..] => format!("`{path}` has no stored version with the ETag {etag}"),
        [] => "`If-Match` has no valid ETag".to_owned(),
    };
    Err(conflict(current, &format!("{unknown}, so the changes cannot be merged")))
}

/// The merged content, or why both changes cannot be merged. Programs on a remote mount do not know
/// that their saves are merged: two that make the same change, such as to count up, must not both
/// succeed.
fn merge(
    protocol: Protocol,
    path: &TreePath,
    base: &BaseVersion,
    ours: &Bytes,
    current: &FileView,
) -> Result<Bytes, Fault> {
    let texts = [&base.content, ours, &current.content].map(|content| std::str::from_utf8(content));
    let [Ok(base_text), Ok(ours), Ok(theirs)] = texts else {
        return Err(conflict(current, &format!("`{path}` is not text in all three versions, so it cannot be merged")));
    };
    let merged = merge_file(path, base_text, ours, theirs);
    if protocol == Protocol::Remote && merged.has_same_changes {
        return Err(conflict(current, "others made some of your changes, too"));
    }
    if merged.conflicts.is_empty() {
        return Ok(merged.text.into());
    }
    let places = name_conflicts(&merged.conflicts, place_of);
    let message = format!("your changes since {} overlap with those of others: {places}", base.etag);
    Err(conflict(current, &message)
        .with_detail("base", base_text)
        .with_detail("conflicts", serde_json::to_value(&merged.conflicts).unwrap_or(Value::Null)))
}

fn conflict(current: &FileView, why: &str) -> Fault {
    let (etag, theirs) = (current.etag, String::from_utf8_lossy(&current.content));
    let message = format!(
        "conflict: file was modified since your last read: {why}; merge your text with `theirs`, and write it with the ETag {etag}"
    );
    Fault::new(Kind::Conflict, message)
        .with_detail("etag", etag.to_string())
        .with_detail("current_etag", etag.to_string())
        .with_detail("theirs", theirs)
}
