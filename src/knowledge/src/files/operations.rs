mod edits;
mod renames;
mod writes;

use std::num::NonZeroUsize;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svcfs_base::{Actor, CommitId, ETag, Fault, FileKind, Limit, Precondition, Timestamp, TreePath, VersionId};
use svcfs_vfs::PastState;
use svcfs_work::Lane;

use super::content::TextOrBytes;
use super::dry_run::{ChangeOutput, ReportKind};
use super::lines::{self, LineRange};
use super::tree::FileTreeNode;
use super::tree_text::TreeText;
use super::{assets, past_tree, read, symlink, tree, write};
use crate::kernel::{
    AsOf, FolderScope, JsonText, Operation, OperationArea, OperationContext, OperationEntry, Route, page_head,
    past_file, version_for_agents,
};
use crate::usage;
use edits::EditFile;
use renames::{RenameDirectory, RenameFile};
use writes::{AppendToFile, WriteFile, WrittenFile};

/// An `ETag` as an argument, or `*`; a header may have several.
const IF_MATCH: &str = r#"^(\*|(W/)?"?[0-9a-f]{40}"?)$"#;

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Files",
    operations: &[
        OperationEntry::new::<ListTree>(),
        OperationEntry::new::<ReadFile>(),
        OperationEntry::new::<ReadSymlink>(),
        OperationEntry::new::<WriteFile>(),
        OperationEntry::new::<DeleteFile>(),
        OperationEntry::new::<BulkWriteFiles>(),
        OperationEntry::new::<AppendToFile>(),
        OperationEntry::new::<EditFile>(),
        OperationEntry::new::<UploadAsset>(),
        OperationEntry::new::<RenameFile>(),
        OperationEntry::new::<RenameDirectory>(),
    ],
};

/// List files and directories as a tree
///
/// Use it to see the structure of the space or of a folder. Returns the entries of each directory,
/// down to `depth`. Hidden files (names that begin with a dot) are left out, except those in the
/// setting `files.serve_hidden`. Symbolic links are listed and not followed.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListTree {
    /// Directory to list, such as `concepts`; default: the full tree
    #[serde(default = "TreePath::root")]
    #[schemars(default = "root")]
    pub path: TreePath,
    /// Maximum number of directory levels, at most 20; default 3 for agents, 20 otherwise.
    /// Directories at the deepest level are listed without their content
    #[serde(default)]
    pub depth: Limit<20, 20>,
    /// List also `.svc`, with modification time and file type, as a file system does. If `path` is
    /// a file, return that file alone
    #[serde(default)]
    pub details: bool,
    #[serde(default)]
    pub as_of: AsOf,
}

fn root() -> &'static str {
    "/"
}

impl Operation for ListTree {
    const NAME: &'static str = "tree";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path");
    const HTTP: &'static [Route] = &[Route::get("/tree")];
    const TOOL: bool = true;
    const AGENT_DEFAULTS: &'static [(&'static str, u32)] = &[("depth", 3)];
    type Output = Vec<FileTreeNode>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<FileTreeNode>, Fault> {
        let options = self.options();
        match self.as_of.state_without(cx, &[("details", self.details)])? {
            Some(state) => {
                cx.add_note(format!("as of commit {}", state.commit));
                past_tree::nodes(cx, &state, &self.path, options.depth)
            }
            None => tree::nodes(cx, tree::list_top(cx, &self.path, options)?, options),
        }
    }
    fn run_to_json(self, cx: &OperationContext<'_>) -> Result<JsonText, Fault> {
        let options = self.options();
        if self.as_of != AsOf::default() {
            return JsonText::from_value(&self.run(cx)?);
        }
        JsonText::from_pieces(TreeText::new(cx, tree::list_top(cx, &self.path, options)?, options))
    }
    fn render_text(nodes: &Vec<FileTreeNode>) -> Option<String> {
        Some(tree::render_tree(nodes))
    }
}

impl ListTree {
    const fn options(&self) -> tree::ListingOptions {
        tree::ListingOptions { depth: self.depth.get(), is_detailed: self.details }
    }
}

/// Read a page or any other file
///
/// Returns the content and the file's ETag. Before you change the file, read it, and pass the ETag
/// as `if_match` (header `If-Match`) when you write it: the write then fails if someone else has
/// changed the file. Symbolic links are followed. Read long pages in parts with `offset` and
/// `limit`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadFile {
    /// Path of the file, such as `notes/today.md`
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// Replace wiki links that have a target by markdown links with full addresses; needs
    /// `server.public_url`
    #[serde(default)]
    pub resolve_links: bool,
    /// Return the frontmatter without the content
    #[serde(default)]
    pub metadata_only: bool,
    /// Return `not_modified` without the content if the file still has this ETag
    #[serde(default)]
    pub if_not_etag: Option<ETag>,
    /// Number of lines to skip
    #[serde(default)]
    pub offset: Option<usize>,
    /// Maximum number of lines; default: all
    #[serde(default)]
    pub limit: Option<NonZeroUsize>,
    #[serde(default)]
    pub as_of: AsOf,
}

/// A file or the requested part of it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileResponse {
    /// Normalised path
    pub path: TreePath,
    /// Hash of the stored content
    pub etag: ETag,
    /// Last modification
    pub modified: Timestamp,
    /// Length in bytes
    pub size: u64,
    /// `symlink` if the path is a symbolic link; absent for an ordinary file
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<FileType>,
    /// Public address of the page; absent without `server.public_url`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
    /// True if the file still has the ETag `if_not_etag`
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_modified: bool,
    /// The content; absent with `metadata_only` or if not modified
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<TextOrBytes>,
    /// The range of lines in `content`, with `offset` or `limit`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineRange>,
    /// The frontmatter, with `metadata_only`; empty if there is none
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frontmatter: Option<Map<String, Value>>,
    /// The commit that was read, with `as_of`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<CommitId>,
    #[serde(skip)]
    version: Option<VersionId>,
}

/// The type of a file that is not an ordinary one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileType {
    /// A symbolic link.
    Symlink,
}

impl Operation for ReadFile {
    const NAME: &'static str = "read";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/file")
        .text_from_path("content")
        .json_fallback("frontmatter")
        .headers(&[("permalink", "X-Permalink"), ("type", "X-File-Type"), ("as_of", "X-As-Of")])
        .etag()];
    const TOOL: bool = true;
    const TEXT_ONLY: bool = true;
    type Output = FileResponse;
    fn run(self, cx: &OperationContext<'_>) -> Result<FileResponse, Fault> {
        let (content, mut page) = match self.as_of.state_without(cx, &[("resolve_links", self.resolve_links)])? {
            Some(state) => self.read_past(cx, &state)?,
            None => self.read_present(cx)?,
        };
        if page.not_modified {
            return Ok(page);
        }
        if self.metadata_only {
            page.frontmatter = Some(read::frontmatter(&content));
        } else {
            let content = match self.resolve_links {
                true => read::resolve_wiki_links(cx, &page.path, content)?,
                false => content,
            };
            let (content, lines) = lines::select_lines(content, self.offset, self.limit)?;
            (page.content, page.lines) = (Some(TextOrBytes(content)), lines);
        }
        Ok(page)
    }
    fn render_text(page: &FileResponse) -> Option<String> {
        if page.not_modified {
            return Some(format!("not modified (etag: {})", page.etag));
        }
        let head = page_head(page.etag, page.version.as_ref());
        match (&page.frontmatter, page.content.as_ref().and_then(TextOrBytes::text)) {
            (Some(frontmatter), _) => Some(format!("{head}\n\n{}", Value::Object(frontmatter.clone()))),
            (None, Some(text)) => {
                let lines = page.lines.as_ref().map(|lines| format!("\n[{lines}]")).unwrap_or_default();
                let commit = page.as_of.map(|commit| format!("\n[as of: {commit}]")).unwrap_or_default();
                Some(format!("{head}{commit}{lines}\n\n{text}"))
            }
            (None, None) => None,
        }
    }
}

impl ReadFile {
    fn read_present(&self, cx: &OperationContext<'_>) -> Result<(Bytes, FileResponse), Fault> {
        let file = read::read_file(cx, &self.path)?;
        usage::record_view(cx, &self.path);
        let page = FileResponse {
            kind: symlink::is_link(cx, &self.path).then_some(FileType::Symlink),
            permalink: read::permalink(cx.public_url(), &self.path),
            version: version_for_agents(cx, &self.path, file.etag),
            ..self.response(&file.content, file.etag, read::to_timestamp(file.attributes.modified))
        };
        Ok((file.content, page))
    }

    fn read_past(&self, cx: &OperationContext<'_>, state: &PastState) -> Result<(Bytes, FileResponse), Fault> {
        let file = past_file(cx, state, &self.path)?;
        let page = FileResponse {
            kind: (file.kind == FileKind::Symlink).then_some(FileType::Symlink),
            as_of: Some(state.commit),
            ..self.response(&file.content, ETag::from_content(&file.content), file.modified)
        };
        Ok((file.content, page))
    }

    fn response(&self, content: &Bytes, etag: ETag, modified: Timestamp) -> FileResponse {
        FileResponse {
            path: self.path.clone(),
            etag,
            modified,
            size: content.len() as u64,
            kind: None,
            permalink: None,
            not_modified: self.if_not_etag == Some(etag),
            content: None,
            lines: None,
            frontmatter: None,
            as_of: None,
            version: None,
        }
    }
}

/// Read the target of a symbolic link
///
/// Returns the target as stored, without following it.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadSymlink {
    /// Path of the link
    pub path: TreePath,
}

/// A symbolic link and its target.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SymlinkTarget {
    /// Path of the link
    pub path: TreePath,
    /// Its target as stored
    pub target: String,
}

impl Operation for ReadSymlink {
    const NAME: &'static str = "readlink";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/readlink").text("target", "text/plain; charset=utf-8")];
    type Output = SymlinkTarget;
    fn run(self, cx: &OperationContext<'_>) -> Result<SymlinkTarget, Fault> {
        let target = cx.tree().read_link(cx.caller.protocol, &self.path)?;
        Ok(SymlinkTarget { path: self.path, target })
    }
}

/// Delete a file, a symbolic link or an empty directory
///
/// Older versions stay readable in the history. Returns the deleted path.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeleteFile {
    /// Path to delete
    pub path: TreePath,
    /// Show what would change (diff, broken links) without writing anything
    #[serde(default)]
    pub dry_run: bool,
}

/// The result of deleting a path.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedFile {
    /// Normalised path
    pub deleted: TreePath,
}

impl Operation for DeleteFile {
    const NAME: &'static str = "delete";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::delete("/file")];
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    type Output = ChangeOutput<DeletedFile>;
    fn run(self, cx: &OperationContext<'_>) -> Result<ChangeOutput<DeletedFile>, Fault> {
        let path = super::named(self.path)?;
        ChangeOutput::of(cx, (self.dry_run, ReportKind::Removals), || {
            write::remove(cx, path).map(|deleted| DeletedFile { deleted })
        })
    }
    fn render_text(deleted_file: &ChangeOutput<DeletedFile>) -> Option<String> {
        Some(deleted_file.render(|file| format!("Deleted {}", file.deleted)))
    }
}

/// Write many files in one commit, all or none
///
/// Use it for changes that belong together. If one file is refused (by `if_match` or by lint), no
/// file changes. Returns the path and ETag of each file.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "files": [{ "path": "notes/a.md", "content": "# A\n" }, { "path": "notes/b.md", "content": "# B\n" }] }))]
pub struct BulkWriteFiles {
    /// The files; each path once
    #[schemars(length(min = 1))]
    pub files: Vec<BulkFile>,
    /// Author of the commit; over HTTP it overrides the header `X-Actor`
    #[serde(default)]
    pub actor: Option<Actor>,
    /// Subject of the commit; default: `<actor>: bulk write — N files`
    #[serde(default)]
    pub message: Option<String>,
    /// Show what would change (diff, lint findings) without writing anything
    #[serde(default)]
    pub dry_run: bool,
}

/// One file of a bulk write.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkFile {
    /// Path of the file
    pub path: TreePath,
    /// The full new content; at most 32 MiB
    pub content: TextOrBytes,
    /// Write nothing unless the file still has this ETag; quotes are optional, `*` means any
    #[serde(default)]
    #[schemars(regex(pattern = IF_MATCH))]
    pub if_match: Option<String>,
}

/// The result of a bulk write.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BulkWriteResult {
    /// Number of files
    pub count: usize,
    /// The files, in the order of the request
    pub files: Vec<WrittenFile>,
}

impl Operation for BulkWriteFiles {
    const NAME: &'static str = "bulk_write";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/bulk")];
    const TOOL: bool = true;
    type Output = ChangeOutput<BulkWriteResult>;
    fn run(self, cx: &OperationContext<'_>) -> Result<ChangeOutput<BulkWriteResult>, Fault> {
        ChangeOutput::of(cx, (self.dry_run, ReportKind::Writes), || self.write(cx))
    }
    fn render_text(written: &ChangeOutput<BulkWriteResult>) -> Option<String> {
        let file = |file: &WrittenFile| format!("\n- {} (ETag: {})", file.path, file.etag);
        let text = |written: &BulkWriteResult| {
            format!("Written {} files{}", written.count, written.files.iter().map(file).collect::<String>())
        };
        Some(written.render(text))
    }
}

impl BulkWriteFiles {
    fn write(self, cx: &OperationContext<'_>) -> Result<BulkWriteResult, Fault> {
        let caller = cx.caller.clone().with_input_actor(self.actor);
        let entries = self.files.into_iter().enumerate().map(|(index, file)| file.entry(index));
        let applied = write::bulk(cx, &caller, entries.collect::<Result<_, _>>()?, self.message)?;
        let files: Vec<WrittenFile> = applied.files.into_iter().map(WrittenFile::try_from).collect::<Result<_, _>>()?;
        Ok(BulkWriteResult { count: files.len(), files })
    }
}

impl BulkFile {
    fn entry(self, index: usize) -> Result<write::BulkEntry, Fault> {
        let precondition = match self.if_match.as_deref().map(str::trim) {
            None => Precondition::Any,
            Some("*") => Precondition::Present,
            Some(text) => Precondition::OneOf(vec![ETag::parse(&format!("files[{index}].if_match"), text)?]),
        };
        Ok(write::BulkEntry { path: self.path, content: self.content.0, precondition })
    }
}

/// Upload a picture or another file to show in pages
///
/// Over HTTP send a form with the part `file`, as browsers and `curl -F file=@picture.png` do. If
/// another file has the name, a number is added; uploading the same file again changes nothing. The
/// settings `assets` limit types and size. Returns the path, and markdown that shows the file.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct UploadAsset {
    /// Folder for the file; default `assets`
    #[serde(default)]
    pub path: Option<TreePath>,
    /// File name; of a path only the last component is used
    #[schemars(example = &"picture.png")]
    pub name: String,
    /// Content of the file
    pub file: TextOrBytes,
}

/// The result of an upload.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UploadedAsset {
    /// Path of the stored file
    pub path: TreePath,
    /// Markdown that shows the file in a page
    pub markdown: String,
    /// Media type
    pub content_type: String,
    /// Length in bytes
    pub size: usize,
    /// Hash of the content
    pub etag: ETag,
}

impl Operation for UploadAsset {
    const NAME: &'static str = "upload_asset";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/assets").form()];
    const LANE: Lane = Lane::Slow;
    type Output = UploadedAsset;
    fn run(self, cx: &OperationContext<'_>) -> Result<UploadedAsset, Fault> {
        let assets::StoredAsset { path, markdown, mime, size, etag } =
            assets::store_asset(cx, self.path, &self.name, self.file.0)?;
        Ok(UploadedAsset { path, markdown, content_type: mime, size, etag })
    }
}
