//! The wire shapes of files.

mod renames;

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svcfs_base::{Actor, Caller, ETag, Fault, Limit, Precondition, Timestamp, TreePath, WriteResult};
use svcfs_work::Lane;

use super::content::TextOrBytes;
use super::lines::{self, LineRange};
use super::tree::FileTreeNode;
use super::tree_text::TreeText;
use super::{assets, read, symlink, tree, write};
use crate::kernel::{FolderScope, JsonText, Operation, OperationArea, OperationContext, OperationEntry, Route};
use crate::usage;
use renames::{RenameDirectory, RenameFile};

/// How an ETag looks that stands in an input, or `*`; a header may name several.
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
        OperationEntry::new::<UploadAsset>(),
        OperationEntry::new::<RenameFile>(),
        OperationEntry::new::<RenameDirectory>(),
    ],
};

/// List files and directories as a tree
///
/// Names that begin with a dot are left out, unless details are asked for. Symbolic links are shown and not followed.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListTree {
    /// Directory to begin with, such as `concepts`; the whole tree when absent
    #[serde(default = "TreePath::root")]
    #[schemars(default = "root")]
    pub path: TreePath,
    /// Levels of directories to go down, at most 20; when absent 3 for an agent and 20 for everybody else. A directory at the
    /// deepest level is shown without what lies inside
    #[serde(default)]
    pub depth: Limit<20, 20>,
    /// Show what a file system shows: every name, with its last modification and what it is. Of a path that is a file, that
    /// file alone
    #[serde(default)]
    pub details: bool,
}

fn root() -> &'static str {
    "/"
}

impl Operation for ListTree {
    const NAME: &'static str = "tree";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path");
    const HTTP: &'static [Route] = &[Route::get("/tree")];
    const TOOL: bool = true;
    // gaps.md 4.21
    const AGENT_DEFAULTS: &'static [(&'static str, u32)] = &[("depth", 3)];
    type Output = Vec<FileTreeNode>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<FileTreeNode>, Fault> {
        let shown = self.shown();
        tree::nodes(cx, tree::first(cx, &self.path, shown)?, shown)
    }
    fn run_to_json(self, cx: &OperationContext<'_>) -> Result<JsonText, Fault> {
        let shown = self.shown();
        JsonText::from_pieces(TreeText::of(cx, tree::first(cx, &self.path, shown)?, shown))
    }
    fn render_text(nodes: &Vec<FileTreeNode>) -> Option<String> {
        Some(tree::listing(nodes))
    }
}

impl ListTree {
    const fn shown(&self) -> tree::ListingOptions {
        tree::ListingOptions { depth: self.depth.get(), is_detailed: self.details }
    }
}

/// Read a page or any other file
///
/// The answer carries the file's ETag: give it back when you write the file, as `if_match` (header `If-Match`), so that nobody's
/// change is lost. A symbolic link is followed. A long page can be read in parts, with `offset` and `limit`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadFile {
    /// Which file, such as `notes/today.md`
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// Turn wiki links that lead somewhere into markdown links with full addresses; needs `server.public_url`
    #[serde(default)]
    pub resolve_links: bool,
    /// Answer with the frontmatter and no content
    #[serde(default)]
    pub metadata_only: bool,
    /// Answer with `not_modified` and no content while the file still has this ETag
    #[serde(default)]
    pub if_not_etag: Option<ETag>,
    /// Lines of the content to leave out at the beginning
    #[serde(default)]
    pub offset: Option<usize>,
    /// Lines of the content in the answer, at most; all when absent
    #[serde(default)]
    pub limit: Option<NonZeroUsize>,
}

/// A file, or what was asked of it.
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
    /// `symlink` when the path is a symbolic link; absent for an ordinary file
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<FileType>,
    /// Where people read the page; absent without `server.public_url`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
    /// True when the file still has the ETag given as `if_not_etag`
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_modified: bool,
    /// The content; absent with `metadata_only` and when not modified
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<TextOrBytes>,
    /// Which lines of the content these are, with `offset` or `limit`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineRange>,
    /// The frontmatter, with `metadata_only`; empty when there is none
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frontmatter: Option<Map<String, Value>>,
}

/// What a file is, when it is no ordinary one.
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
        .headers(&[("permalink", "X-Permalink"), ("type", "X-File-Type")])
        .etag()];
    const TOOL: bool = true;
    const TEXT_ONLY: bool = true;
    type Output = FileResponse;
    fn run(self, cx: &OperationContext<'_>) -> Result<FileResponse, Fault> {
        let file = read::read_file(cx, &self.path)?;
        usage::record_view(cx, &self.path);
        let mut page = FileResponse {
            etag: file.etag,
            modified: read::to_timestamp(file.attributes.modified),
            size: file.content.len() as u64,
            kind: symlink::is_link(cx, &self.path).then_some(FileType::Symlink),
            permalink: read::permalink(cx.public_url(), &self.path),
            not_modified: self.if_not_etag == Some(file.etag),
            content: None,
            lines: None,
            frontmatter: None,
            path: self.path,
        };
        if page.not_modified {
            return Ok(page);
        }
        if self.metadata_only {
            page.frontmatter = Some(read::frontmatter(&file.content));
        } else {
            let content = match self.resolve_links {
                true => read::with_addresses(cx, &page.path, file.content)?,
                false => file.content,
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
        match (&page.frontmatter, page.content.as_ref().and_then(TextOrBytes::text)) {
            (Some(frontmatter), _) => serde_json::to_string(frontmatter).ok(),
            (None, Some(text)) => {
                let lines = page.lines.as_ref().map(|lines| format!("\n[{lines}]")).unwrap_or_default();
                Some(format!("[ETag: {}]{lines}\n\n{text}", page.etag))
            }
            (None, None) => None,
        }
    }
}

/// Read where a symbolic link points
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadSymlink {
    /// Which link
    pub path: TreePath,
}

/// Where a link points.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SymlinkTarget {
    /// The link
    pub path: TreePath,
    /// Its target, as it was written
    pub target: String,
}

impl Operation for ReadSymlink {
    const NAME: &'static str = "readlink";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/readlink").text("target", "text/plain; charset=utf-8")];
    type Output = SymlinkTarget;
    fn run(self, cx: &OperationContext<'_>) -> Result<SymlinkTarget, Fault> {
        let target = cx.space.vfs.read_link(cx.caller.protocol, &self.path)?;
        Ok(SymlinkTarget { path: self.path, target })
    }
}

/// Write a page or any other file, creating it when absent
///
/// One commit under the actor's name. Markdown pages are checked, and tidied where the settings say so: the stored text may
/// differ from the one sent, and the ETag is that of the stored text.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WriteFile {
    /// Which file, such as `notes/today.md`; directories above it are made as needed
    #[schemars(example = "notes/today.md")]
    pub path: TreePath,
    /// The whole new content, of a page markdown with optional YAML frontmatter; at most 32 MiB
    #[schemars(example = "---\ntitle: Today\n---\n\nSee [[index]].\n")]
    pub content: TextOrBytes,
    /// Make a symbolic link: the content is its target, relative to the directory the link is in and inside the tree. Over HTTP,
    /// `Content-Type: application/x-symlink` says the same
    #[serde(default)]
    pub symlink: bool,
    /// Store a page as it is sent, also where the settings say that pages are tidied
    #[serde(default)]
    pub exact: bool,
}

/// A file that was written.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WrittenFile {
    /// Normalised path
    pub path: TreePath,
    /// Hash of the stored content
    pub etag: ETag,
    /// `symlink` for a symbolic link; absent for an ordinary file
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<FileType>,
}

impl TryFrom<WriteResult> for WrittenFile {
    type Error = Fault;
    fn try_from(settled: WriteResult) -> Result<Self, Fault> {
        let WriteResult { path, etag } = settled;
        let etag = etag.ok_or_else(|| Fault::internal(format!("`{path}` was written and is gone")))?;
        Ok(Self { path, etag, kind: None })
    }
}

impl Operation for WriteFile {
    const NAME: &'static str = "write";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] =
        &[Route::put("/file").raw("content").media_flag("application/x-symlink", "symlink").etag()];
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    type Output = WrittenFile;
    fn run(self, cx: &OperationContext<'_>) -> Result<WrittenFile, Fault> {
        let path = super::named(self.path)?;
        if !self.symlink {
            return write::write(cx, path, self.content.0, self.exact)?.try_into();
        }
        let written: WrittenFile = symlink::make(cx, path, &self.content.0)?.try_into()?;
        Ok(WrittenFile { kind: Some(FileType::Symlink), ..written })
    }
    fn render_text(written: &WrittenFile) -> Option<String> {
        Some(format!("Written {} (ETag: {})", written.path, written.etag))
    }
}

/// Remove a file, a symbolic link or an empty directory
///
/// Older versions stay readable in the history.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeleteFile {
    /// Which one
    pub path: TreePath,
}

/// A path that is gone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedFile {
    /// Normalised path
    pub deleted: TreePath,
}

impl Operation for DeleteFile {
    const NAME: &'static str = "delete";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::delete("/file")];
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    type Output = DeletedFile;
    fn run(self, cx: &OperationContext<'_>) -> Result<DeletedFile, Fault> {
        write::remove(cx, super::named(self.path)?).map(|deleted| DeletedFile { deleted })
    }
    fn render_text(gone: &DeletedFile) -> Option<String> {
        Some(format!("Deleted {}", gone.deleted))
    }
}

/// Write many files in one commit, all or none
///
/// Any refusal (one `if_match` that does not hold, one page that lint refuses) leaves all of them as they were.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "files": [{ "path": "notes/a.md", "content": "# A\n" }, { "path": "notes/b.md", "content": "# B\n" }] }))]
pub struct BulkWriteFiles {
    /// The files; each path once
    #[schemars(length(min = 1))]
    pub files: Vec<BulkFile>,
    /// Name the change is attributed to and the commit's author; over HTTP it beats the header `X-Actor`
    #[serde(default)]
    pub actor: Option<Actor>,
    /// Subject of the commit; `<actor>: bulk write — N files` when absent
    #[serde(default)]
    pub message: Option<String>,
}

/// One file of a bulk write.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkFile {
    /// Which file
    pub path: TreePath,
    /// The whole new content; at most 32 MiB
    pub content: TextOrBytes,
    /// Write nothing at all unless the file still has this ETag; quotes are optional, `*` means any
    #[serde(default)]
    #[schemars(regex(pattern = IF_MATCH))]
    pub if_match: Option<String>,
}

/// The files of a bulk write.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BulkWriteResult {
    /// How many
    pub count: usize,
    /// Each of them, in the order asked
    pub files: Vec<WrittenFile>,
}

impl Operation for BulkWriteFiles {
    const NAME: &'static str = "bulk_write";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/bulk")];
    const TOOL: bool = true;
    type Output = BulkWriteResult;
    fn run(self, cx: &OperationContext<'_>) -> Result<BulkWriteResult, Fault> {
        let mut caller: Caller = cx.caller.clone();
        caller.actor = self.actor.or(caller.actor);
        let entries = self.files.into_iter().enumerate().map(|(index, file)| file.entry(index));
        let applied = write::bulk(cx, &caller, entries.collect::<Result<_, _>>()?, self.message)?;
        let files: Vec<WrittenFile> = applied.files.into_iter().map(WrittenFile::try_from).collect::<Result<_, _>>()?;
        Ok(BulkWriteResult { count: files.len(), files })
    }
    fn render_text(written: &BulkWriteResult) -> Option<String> {
        let files = written.files.iter().map(|file| format!("\n- {} (ETag: {})", file.path, file.etag));
        Some(format!("Written {} files{}", written.count, files.collect::<String>()))
    }
}

impl BulkFile {
    fn entry(self, index: usize) -> Result<write::BulkEntry, Fault> {
        let expect = match self.if_match.as_deref().map(str::trim) {
            None => Precondition::Any,
            Some("*") => Precondition::Present,
            Some(text) => Precondition::OneOf(vec![ETag::parse(&format!("files[{index}].if_match"), text)?]),
        };
        Ok(write::BulkEntry { path: self.path, content: self.content.0, expect })
    }
}

/// Add text to the end of a file, creating it when absent
///
/// Appends of several writers at once are all kept. What is already there is not tidied.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AppendToFile {
    /// Which file
    #[schemars(example = "log.md")]
    pub path: TreePath,
    /// What to add; at most 32 MiB, and the whole file at most 64 MiB
    #[schemars(example = "- one more line\n")]
    pub content: TextOrBytes,
    /// What to put between the present content and the addition; a new or empty file gets none
    #[serde(default = "newline")]
    pub separator: String,
}

fn newline() -> String {
    "\n".to_owned()
}

impl Operation for AppendToFile {
    const NAME: &'static str = "append";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/file/append").raw("content").etag()];
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    type Output = WrittenFile;
    fn run(self, cx: &OperationContext<'_>) -> Result<WrittenFile, Fault> {
        write::append(cx, &super::named(self.path)?, &self.separator, &self.content.0)?.try_into()
    }
    fn render_text(written: &WrittenFile) -> Option<String> {
        Some(format!("Appended to {} (ETag: {})", written.path, written.etag))
    }
}

/// Take in a picture or another file that pages show
///
/// Over HTTP a form with the part `file`, as browsers and `curl -F file=@picture.png` send it. A name that is taken by another file gets a
/// number; the same file once more changes nothing. Which types, and how large, is said in `assets` of the settings.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct UploadAsset {
    /// Folder it goes into; `assets` when absent
    #[serde(default)]
    pub path: Option<TreePath>,
    /// Name of the file; of a path its last part
    #[schemars(example = &"picture.png")]
    pub name: String,
    /// Its bytes
    pub file: TextOrBytes,
}

/// A file that was taken in.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UploadedAsset {
    /// Where it is
    pub path: TreePath,
    /// What shows it in a page
    pub markdown: String,
    /// Its media type
    pub content_type: String,
    /// Its length in bytes
    pub size: usize,
    /// Its hash
    pub etag: ETag,
}

impl Operation for UploadAsset {
    const NAME: &'static str = "upload_asset";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/assets").form()];
    const LANE: Lane = Lane::Slow;
    type Output = UploadedAsset;
    fn run(self, cx: &OperationContext<'_>) -> Result<UploadedAsset, Fault> {
        let assets::StoredAsset { path, markdown, mime, size, etag } =
            assets::take_in(cx, self.path, &self.name, self.file.0)?;
        Ok(UploadedAsset { path, markdown, content_type: mime, size, etag })
    }
}
