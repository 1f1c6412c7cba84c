//! Sets a page to one of its versions.

use svcfs_base::{Caller, Change, Fault, FileKind, Kind, Precondition, Protocol, TreePath, VersionId, WriteResult};

use crate::history;
use crate::kernel::OperationContext;

/// A page that was set to a version.
pub struct RestoredPage {
    pub result: WriteResult,
    /// The restored version.
    pub version: String,
    /// The new version.
    pub commit: Option<VersionId>,
}

/// Sets a page to a version; without one a removed page to the newest before its removal.
///
/// # Errors
/// `Invalid` without a version for a page that exists; `NotFound` for an unknown version, and
/// without a stored one; those of [`svcfs_vfs::Vfs::apply`].
pub fn restore(cx: &OperationContext<'_>, path: &TreePath, version: Option<String>) -> Result<RestoredPage, Fault> {
    let (vfs, protocol) = (&cx.space.vfs, cx.caller.protocol);
    vfs.check_writable_name(protocol, path)?;
    let exists = match vfs.stat(protocol, path) {
        Ok(_) => true,
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => false,
        Err(fault) => return Err(fault),
    };
    let (version, content) = match version {
        Some(version) => {
            let names = history::names_of_page(cx, path, true)?;
            let content = vfs.read_version_under(&names, &version)?;
            (version, content)
        }
        None if exists => {
            let message = format!("`{path}` exists; name the version to set it to (`versions` lists them)");
            return Err(Fault::invalid("version", message));
        }
        None => {
            let newest = vfs.stored_versions(path)?.pop();
            let newest = newest.ok_or_else(|| {
                Fault::not_found(format!("no version of `{path}` is stored; `trash` lists what can be restored"))
            })?;
            (newest.id.to_string(), vfs.stored_content(&newest.content)?)
        }
    };
    let comments = if exists { None } else { removed_comments(cx, path)? };
    let kind = match vfs.find_set(&version)? {
        Some(seq) => vfs.recorded_kind(path, seq)?,
        None => None,
    };
    let precondition = match &cx.caller.precondition {
        Precondition::Any if !exists => Precondition::Absent,
        given => given.clone(),
    };
    let change = Change::Put {
        path: path.clone(),
        content,
        precondition,
        kind: kind.filter(|kind| !exists || *kind != FileKind::Regular),
        attributes: Default::default(),
    };
    let short = version.get(..10).unwrap_or(&version);
    let message = format!("{}: restore {path} from {short}", cx.caller.actor());
    let applied = cx.apply(svcfs_base::ChangeSet::from(change).with_message(message))?;
    let commit = applied.commit.map(VersionId::Commit);
    let result = applied.single()?;
    if let Some(comments) = comments {
        let caller = Caller::new(Protocol::Internal).with_actor(cx.caller.actor());
        let set = svcfs_base::ChangeSet::from(comments)
            .with_message(format!("{}: restore comments of {path}", cx.caller.actor()));
        // The page is back; its comments must not refuse that.
        if let Err(fault) = vfs.apply(&caller, set) {
            cx.add_note(format!("the comments of the page were not restored: {}", fault.message()));
        }
    }
    Ok(RestoredPage { result, version, commit })
}

/// The change that brings back the comments that were removed together with the page.
fn removed_comments(cx: &OperationContext<'_>, path: &TreePath) -> Result<Option<Change>, Fault> {
    let vfs = &cx.space.vfs;
    let Ok(file) = svcfs_vfs::comment_file(path) else { return Ok(None) };
    let (removed, _) = vfs.removed_files(|removed| removed == path || *removed == file, 0, 2)?;
    let find = |path: &TreePath| removed.iter().find(|removed| removed.path == *path);
    let (Some(page), Some(comments)) = (find(path), find(&file)) else { return Ok(None) };
    if page.removed_at != comments.removed_at {
        return Ok(None);
    }
    let content = vfs.read_version(&file, &comments.version.to_string())?;
    Ok(Some(Change::put(file, content).with_precondition(Precondition::Absent)))
}
