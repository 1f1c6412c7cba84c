//! Changes of names by a caller that may only propose changes. Each is one change set, which goes
//! into its draft: a draft has no nodes to rename, and no properties.

use svcfs_base::{Change, ChangeSet, Fault, MAX_FILE_BYTES, Precondition, TreePath};

use crate::context::WebdavRequestContext;
use crate::folder_contents::FolderContents;
use crate::folders::copy_change;
use crate::observed_state;
use crate::resolved::ResolvedResource;

/// Removes a resource, with everything in it.
pub(crate) fn remove(context: &WebdavRequestContext, resource: &ResolvedResource<'_>) -> Result<(), Fault> {
    apply(context, removal(context, resource)?, format!("delete: {}", resource.path))
}

/// Renames a resource, over the target that the request replaces.
pub(crate) fn rename(
    context: &WebdavRequestContext,
    source: &ResolvedResource<'_>,
    to: &TreePath,
) -> Result<(), Fault> {
    ResolvedResource::parent_of(context, to)?;
    let mut changes = replaced(context, to)?;
    changes.push(Change::rename(source.path.clone(), to.clone()).with_precondition(Precondition::Absent));
    apply(context, changes, format!("rename: {} → {to}", source.path))
}

/// Copies a resource with everything in it, over the target that the request replaces. Errors:
/// `TooLarge` for more than a change set holds.
pub(crate) fn copy(
    context: &WebdavRequestContext,
    (from, source): (&TreePath, &ResolvedResource<'_>),
    to: &TreePath,
) -> Result<(), Fault> {
    let contents = FolderContents::of(context, source)?;
    let bytes: u64 = contents.files.values().map(|attributes| attributes.size).sum();
    if bytes > MAX_FILE_BYTES as u64 {
        return Err(Fault::too_large("copy in a draft", MAX_FILE_BYTES));
    }
    let to_target = |path: &TreePath| path.rebase(&source.path, to).unwrap_or_else(|| to.clone());
    let observed = context.observed(from);
    let mut changes = replaced(context, to)?;
    changes.extend(contents.folders.iter().map(|folder| Change::MakeDir { path: to_target(folder) }));
    for (path, attributes) in &contents.files {
        let change = copy_change(context, (path, attributes, observed.as_ref()), to_target(path))?;
        changes.push(change.with_precondition(Precondition::Absent));
    }
    apply(context, changes, format!("copy {from} → {to}"))
}

/// Replaces a resource by an empty folder: a shallow copy.
pub(crate) fn replace_by_empty_folder(
    context: &WebdavRequestContext,
    existing: &ResolvedResource<'_>,
) -> Result<(), Fault> {
    let path = existing.path.clone();
    let mut changes = removal(context, existing)?;
    changes.push(Change::MakeDir { path: path.clone() });
    apply(context, changes, format!("delete: {path}"))
}

/// The changes that remove what the request replaces; none if it replaces nothing.
fn replaced(context: &WebdavRequestContext, to: &TreePath) -> Result<Vec<Change>, Fault> {
    match context.claim_replacement(to) {
        true => removal(context, &ResolvedResource::at_no_follow(context, to)?),
        false => Ok(Vec::new()),
    }
}

/// The changes that remove a resource.
fn removal(context: &WebdavRequestContext, resource: &ResolvedResource<'_>) -> Result<Vec<Change>, Fault> {
    let contents = FolderContents::of(context, resource)?;
    let remove = |path: &TreePath| {
        let observed = context.observed(path);
        Change::remove(path.clone()).with_precondition(observed_state::to_precondition(observed.as_ref()))
    };
    let mut changes: Vec<_> = contents.files.keys().map(remove).collect();
    changes.extend(contents.folders.into_iter().rev().map(|path| Change::RemoveDir { path }));
    Ok(changes)
}

fn apply(context: &WebdavRequestContext, changes: Vec<Change>, message: String) -> Result<(), Fault> {
    let message = format!("{}: {message}", context.caller().actor());
    context.space().vfs.apply(context.caller(), ChangeSet::new(changes).with_message(message)).map(drop)
}
