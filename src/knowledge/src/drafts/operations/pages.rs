//! Reading and writing the pages of a draft.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Change, ETag, Fault, Kind, Limit, Precondition, Timestamp, TreePath};
use svcfs_vfs::{DirectoryEntry, DraftView, EntryKind};

use super::DRAFT_ID;
use crate::drafts::{find, find_for_change, named_caller};
use crate::files::{self, FileTreeNode, TextOrBytes};
use crate::kernel::{FolderScope, Operation, OperationContext, Route, page_head};

/// The author of writes over HTTP that name none.
const DEFAULT_AUTHOR: &str = "draft-api";

/// Read a page as a draft shows it
///
/// Returns the page of the draft if the draft changes it, else that of the tree as it is now. Use
/// the ETag as `if_match` when you write the page with `draft_write`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadDraftFile {
    /// Id of the draft
    #[schemars(example = "4f2a09c1")]
    pub id: String,
    /// Path of the file, such as `notes/today.md`
    #[schemars(example = "index.md")]
    pub path: TreePath,
}

/// A file of a draft.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DraftFileResponse {
    /// Normalised path
    pub path: TreePath,
    /// Hash of the content
    pub etag: ETag,
    /// Last modification
    pub modified: Timestamp,
    /// The content
    pub content: TextOrBytes,
}

impl Operation for ReadDraftFile {
    const NAME: &'static str = "draft_read";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/drafts/{id}/file").text_from_path("content").etag()];
    const TOOL: bool = true;
    const TEXT_ONLY: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = DRAFT_ID;
    type Output = DraftFileResponse;
    fn run(self, cx: &OperationContext<'_>) -> Result<DraftFileResponse, Fault> {
        let path = files::named(self.path)?;
        let file = find(cx, &self.id)?.read(cx.caller.protocol, &path).map_err(|fault| match fault.kind() {
            Kind::IsDirectory => Fault::file_not_found(&path),
            _ => fault,
        })?;
        let modified = files::to_timestamp(file.attributes.modified);
        Ok(DraftFileResponse { path, etag: file.etag, modified, content: TextOrBytes(file.content) })
    }
    fn render_text(file: &DraftFileResponse) -> Option<String> {
        Some(format!("{}\n\n{}", page_head(file.etag, None), file.content.text()?))
    }
}

/// Write a page in a draft, creating it if absent
///
/// The tree is unchanged until the draft is merged. The page is checked, and formatted if the
/// settings say so, as in `write`. Returns the path and the ETag of the text in the draft.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WriteDraftFile {
    /// Id of the draft
    #[schemars(example = "4f2a09c1")]
    pub id: String,
    /// Path of the file, such as `notes/today.md`
    #[schemars(example = "notes/today.md")]
    pub path: TreePath,
    /// The full new content, at most 32 MiB
    #[schemars(example = "# Today\n")]
    pub content: TextOrBytes,
}

/// The result of writing a page in a draft.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WrittenDraftFile {
    /// Normalised path
    pub path: TreePath,
    /// Hash of the content in the draft
    pub etag: ETag,
}

impl Operation for WriteDraftFile {
    const NAME: &'static str = "draft_write";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::put("/drafts/{id}/file").raw("content").etag()];
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = DRAFT_ID;
    type Output = WrittenDraftFile;
    fn run(self, cx: &OperationContext<'_>) -> Result<WrittenDraftFile, Fault> {
        let path = files::named(self.path)?;
        let (view, caller) = (find_for_change(cx, &self.id)?, named_caller(cx, None, DEFAULT_AUTHOR));
        let read_stored = || view.read(caller.protocol, &path);
        let content = files::prepare_with(cx, &caller, (&path, false), self.content.0, read_stored)?;
        let change = Change::put(path, content).with_precondition(caller.precondition.clone());
        let written = view.apply(&caller, change)?.into_iter().next();
        let written = written.and_then(|file| Some(WrittenDraftFile { path: file.path, etag: file.etag? }));
        written.ok_or_else(|| Fault::internal("a page was not written"))
    }
    fn render_text(written: &WrittenDraftFile) -> Option<String> {
        Some(format!("Written {} in the draft (ETag: {})", written.path, written.etag))
    }
}

/// Remove a page in a draft
///
/// The page of the tree is removed when the draft is merged.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RemoveDraftFile {
    /// Id of the draft
    #[schemars(example = "4f2a09c1")]
    pub id: String,
    /// Path of the page
    pub path: TreePath,
}

/// The result of removing a page in a draft.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RemovedDraftFile {
    /// Normalised path
    pub deleted: TreePath,
}

impl Operation for RemoveDraftFile {
    const NAME: &'static str = "draft_delete";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::delete("/drafts/{id}/file").no_content()];
    const CONDITIONAL: bool = true;
    type Output = RemovedDraftFile;
    fn run(self, cx: &OperationContext<'_>) -> Result<RemovedDraftFile, Fault> {
        let path = files::named(self.path)?;
        let (view, caller) = (find_for_change(cx, &self.id)?, named_caller(cx, None, DEFAULT_AUTHOR));
        if caller.precondition == Precondition::Any {
            view.stat(caller.protocol, &path)?;
        }
        view.apply(&caller, Change::remove(path.clone()).with_precondition(caller.precondition.clone()))?;
        Ok(RemovedDraftFile { deleted: path })
    }
}

/// List files and directories as a draft shows them
///
/// Returns the entries of each directory, down to `depth`: with the new pages of the draft, and
/// without those that it removes. Hidden files are left out.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListDraftTree {
    /// Id of the draft
    #[schemars(example = "4f2a09c1")]
    pub id: String,
    /// Directory to list, such as `concepts`; default: the full tree
    #[serde(default = "TreePath::root")]
    #[schemars(default = "root")]
    pub path: TreePath,
    /// Maximum number of directory levels, at most 20
    #[serde(default)]
    pub depth: Limit<20, 20>,
}

fn root() -> &'static str {
    "/"
}

impl Operation for ListDraftTree {
    const NAME: &'static str = "draft_tree";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path");
    const HTTP: &'static [Route] = &[Route::get("/drafts/{id}/tree")];
    type Output = Vec<FileTreeNode>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<FileTreeNode>, Fault> {
        let view = find(cx, &self.id)?;
        nodes(cx, &view, &self.path, self.depth.get()).map_err(|fault| match fault.kind() {
            Kind::NotFound | Kind::NotDirectory => Fault::not_found(format!("path not found: {}", self.path)),
            _ => fault,
        })
    }
}

fn nodes(
    cx: &OperationContext<'_>,
    view: &DraftView<'_>,
    directory: &TreePath,
    depth: usize,
) -> Result<Vec<FileTreeNode>, Fault> {
    let mut entries = view.list(cx.caller.protocol, directory)?;
    entries.retain(|entry| cx.space.vfs.hidden_files().lists_name(&entry.path));
    let node = |DirectoryEntry { path, attributes }: DirectoryEntry| match attributes.kind {
        EntryKind::Directory => {
            let children = if depth > 1 { nodes(cx, view, &path, depth - 1)? } else { Vec::new() };
            Ok(FileTreeNode::directory(path, Some(children)))
        }
        EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => Ok(FileTreeNode::file(path, attributes.size)),
    };
    entries.into_iter().map(node).collect()
}
