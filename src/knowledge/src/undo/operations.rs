use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, ETag, Fault, Limit, Timestamp, TreePath, VersionId, deserialize_selected_actor};
use svcfs_work::Lane;

use super::apply::{self, HunkSelection};
use super::page::PageUndo;
use super::restore;
use super::selection::UndoSelection;
use crate::history;
use crate::kernel::{
    FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, default_true, require_path,
};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Undo",
    operations: &[
        OperationEntry::new::<RevertChanges>(),
        OperationEntry::new::<UndoChanges>(),
        OperationEntry::new::<RestorePage>(),
        OperationEntry::new::<ListTrash>(),
    ],
};

/// Undo changes by actor, time, commit or path
///
/// Each given selector limits the selection; at least one is needed. The reverse of the selected
/// changes is merged into the pages as they are now, all in one commit by the caller: later changes
/// by others stay. Renamed, created and removed pages are undone, too. What cannot be undone
/// without touching changes by others is in `conflicts` and stays as it is. `dry_run` shows all of
/// it and changes nothing. An undo can be undone: use its `version` in `commits`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RevertChanges {
    /// Only changes by this actor (exact name)
    #[serde(default, deserialize_with = "deserialize_selected_actor")]
    pub actor: Option<Actor>,
    /// Only changes since this time (RFC 3339), or within this duration, such as `30m` or `24h`
    #[serde(default)]
    #[schemars(example = "24h")]
    pub since: Option<String>,
    /// Only these commits: hashes, full or abbreviated to at least 4 digits
    #[serde(default)]
    pub commits: Option<Vec<String>>,
    /// Only pages at or below one of these paths
    #[serde(default)]
    pub paths: Option<Vec<TreePath>>,
    /// Only these hunks, by their numbers in the dry run with the same selectors; needs its `etag`
    #[serde(default)]
    pub hunks: Option<Vec<u32>>,
    /// Undo nothing unless a dry run would still answer this `etag`
    #[serde(default)]
    pub etag: Option<String>,
    /// Show what would be undone, with a diff of each page, and change nothing
    #[serde(default)]
    pub dry_run: bool,
}

/// What was undone, or would be.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UndoResult {
    /// The commit of the undo; absent in a dry run, if nothing was undone, and where the commit is
    /// made later or git keeps no history
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// The pages that changed, in path order
    pub undone: Vec<UndonePage>,
    /// What could not be undone
    pub conflicts: Vec<UndoConflict>,
    /// Whether nothing was changed because this was a dry run
    pub dry_run: bool,
    /// In a dry run: identifies the state of the pages, for `etag`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<ETag>,
}

/// A page of an undo.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UndonePage {
    /// Path of the page after the undo; of a removed page, its last path
    pub path: TreePath,
    /// What the undo did with the page
    pub action: UndoAction,
    /// Path before the undo, if it was renamed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<TreePath>,
    /// The undone commits, newest first
    pub commits: Vec<VersionId>,
    /// In a dry run: unified diff of the undo; empty for a rename alone
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// In a dry run: the parts that can be selected with `hunks`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hunks: Option<Vec<UndoHunk>>,
}

/// What an undo does with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UndoAction {
    /// Its text is changed.
    Changed,
    /// It is renamed, perhaps with changes.
    Renamed,
    /// It was created by an undone change, and is removed.
    Removed,
    /// It was removed by an undone change, and exists again.
    Restored,
}

impl UndoAction {
    /// What an undo does with this page.
    pub fn of(page: &PageUndo) -> Self {
        match (&page.now, &page.result) {
            (None, _) => Self::Restored,
            (Some(_), None) => Self::Removed,
            (Some(now), Some(result)) if now.path != result.path => Self::Renamed,
            (Some(_), Some(_)) => Self::Changed,
        }
    }
}

/// A part of an undo.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UndoHunk {
    /// Its number, from 1, over all pages
    pub number: usize,
    /// First line of the present page that it replaces, from 1
    pub start: usize,
    /// Last line that it replaces; `start - 1` if it only adds lines
    pub end: usize,
}

/// A change that cannot be undone without touching others.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct UndoConflict {
    /// Path of the page
    pub path: TreePath,
    /// The commit; of several changes in a row, the newest
    pub commit: VersionId,
    /// Why it is not undone
    pub reason: String,
    /// The lines of the present page that stay as they are
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<ConflictLines>,
}

/// Lines of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConflictLines {
    /// First line, from 1
    pub start: usize,
    /// Last line; `start - 1` if there is none
    pub end: usize,
}

impl Operation for RevertChanges {
    const NAME: &'static str = "revert";
    const LIMITED: bool = false;
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::post("/revert")];
    const LANE: Lane = Lane::Slow;
    type Output = UndoResult;
    fn run(self, cx: &OperationContext<'_>) -> Result<UndoResult, Fault> {
        let Self { actor, since, commits, paths, hunks, etag, dry_run } = self;
        let selection = UndoSelection { actor, since, commits, paths };
        let etag = etag.map(|text| ETag::parse("etag", &text)).transpose()?;
        let parts = HunkSelection { hunks, etag };
        match dry_run {
            true => apply::dry_run(cx, &selection, &parts),
            false => apply::undo(cx, cx.caller, &selection, &parts),
        }
    }
}

/// Undo changes of an actor, or some commits; first shows what would be undone
///
/// Merges the reverse of the selected changes into the pages as they are now, in one commit: later
/// changes by others stay, and what overlaps with them is listed as a conflict. Without `dry_run`
/// set to false it only shows the result. Renames, new and removed pages are undone, too.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct UndoChanges {
    /// Only changes by this actor (exact name)
    #[serde(default, deserialize_with = "deserialize_selected_actor")]
    pub actor: Option<Actor>,
    /// Only changes since this time (RFC 3339), or within this duration, such as `30m` or `24h`
    #[serde(default)]
    #[schemars(example = "24h")]
    pub since: Option<String>,
    /// Only these commits: hashes, full or abbreviated to at least 4 digits
    #[serde(default)]
    pub commits: Option<Vec<String>>,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
    /// Show what would be undone and change nothing; false to undo it
    #[serde(default = "default_true")]
    pub dry_run: bool,
    /// Your name; becomes the author of the undo. `mcp-agent` when absent
    #[serde(default)]
    pub author: Option<Actor>,
}

impl Operation for UndoChanges {
    const NAME: &'static str = "undo";
    const DESTRUCTIVE: bool = true;
    const LIMITED: bool = false;
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const TOOL: bool = true;
    const LANE: Lane = Lane::Slow;
    type Output = UndoResult;
    fn run(self, cx: &OperationContext<'_>) -> Result<UndoResult, Fault> {
        let Self { actor, since, commits, path_prefix, dry_run, author } = self;
        let selection = UndoSelection { actor, since, commits, paths: path_prefix.map(|path| vec![path]) };
        let parts = HunkSelection::default();
        if dry_run {
            return apply::dry_run(cx, &selection, &parts);
        }
        let caller = cx.caller.clone().with_input_actor(author);
        apply::undo(cx, &caller, &selection, &parts)
    }
}

/// Set a page to an earlier version, or bring a removed page back
///
/// A removed page needs no version: the newest one before its removal is restored. The page gets
/// the content of that version under `path`, as a new version. Returns the path, the restored
/// version and the new ETag.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RestorePage {
    /// Path of the page
    #[schemars(example = "notes/today.md")]
    pub path: TreePath,
    /// Commit hash, full or abbreviated to at least 4 digits; default for a removed page: the
    /// newest version
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub version: Option<String>,
}

/// A restored page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RestoredFile {
    /// Normalised path
    pub path: TreePath,
    /// The restored version
    pub restored: String,
    /// The commit of this change; absent if nothing changed, and where it is made later
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// Hash of the content
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<ETag>,
}

impl Operation for RestorePage {
    const NAME: &'static str = "restore";
    const LIMITED: bool = false;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/restore").etag()];
    const CONDITIONAL: bool = true;
    type Output = RestoredFile;
    fn run(self, cx: &OperationContext<'_>) -> Result<RestoredFile, Fault> {
        require_path("path", &self.path)?;
        let restored = restore::restore(cx, &self.path, self.version)?;
        let (result, version) = (restored.result, restored.commit);
        Ok(RestoredFile { path: result.path, restored: restored.version, version, etag: result.etag })
    }
}

/// List removed pages that can be brought back, newest removal first
///
/// `restore` brings a page back. Renamed pages are not listed. Returns the pages and how many there
/// are in total.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListTrash {
    #[serde(default)]
    pub limit: Limit<50, 500>,
    /// Number of newest removals to skip
    #[serde(default)]
    pub offset: u32,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
}

/// A page of the trash.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TrashList {
    /// The removed pages, newest removal first
    pub pages: Vec<TrashedPage>,
    /// Total number of removed pages
    pub total: usize,
}

/// A removed page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TrashedPage {
    /// Its path
    pub path: TreePath,
    /// Its newest version before the removal, which `restore` brings back
    pub version: VersionId,
    /// Who removed it
    pub removed_by: Actor,
    /// When it was removed
    pub removed_at: Timestamp,
    /// Length of its content in bytes
    pub size: u64,
}

impl Operation for ListTrash {
    const NAME: &'static str = "trash";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path_prefix");
    const HTTP: &'static [Route] = &[Route::get("/trash")];
    const LANE: Lane = Lane::Slow;
    type Output = TrashList;
    fn run(self, cx: &OperationContext<'_>) -> Result<TrashList, Fault> {
        let Self { limit, offset, path_prefix } = self;
        let is_listed = |path: &TreePath| {
            let is_comments = svcfs_vfs::commented_page(path).is_some();
            let is_requested = path_prefix.as_ref().is_none_or(|prefix| path.is_under(prefix));
            is_requested && !is_comments && history::can_read(cx, path)
        };
        let (files, total) = cx.space.vfs.removed_files(is_listed, offset as usize, limit.get())?;
        let page = |file: svcfs_vfs::RemovedFile| TrashedPage {
            path: file.path,
            version: file.version,
            removed_by: file.removed_by,
            removed_at: file.removed_at,
            size: file.size,
        };
        Ok(TrashList { pages: files.into_iter().map(page).collect(), total })
    }
}
