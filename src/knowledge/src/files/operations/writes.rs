//! Operations that write the text of one file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{ETag, Fault, TreePath, WriteResult};

use super::FileType;
use crate::files::content::TextOrBytes;
use crate::files::dry_run::{ChangeOutput, ReportKind};
use crate::files::merged_write::{MergedWrite, OnConflict};
use crate::files::{named, symlink, write};
use crate::kernel::{FolderScope, Operation, OperationContext, Route};

/// Write a page or any other file, creating it if absent
///
/// Replaces the full content; to add to a file use `append`. The write becomes one commit under the
/// actor's name. Pages are checked, and formatted if the settings say so. Returns the path and the
/// ETag of the stored text, which may differ from the text sent.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WriteFile {
    /// Path of the file, such as `notes/today.md`; missing directories are created
    #[schemars(example = "notes/today.md")]
    pub path: TreePath,
    /// The full new content, at most 32 MiB; for a page markdown with optional YAML frontmatter
    #[schemars(example = "---\ntitle: Today\n---\n\nSee [[index]].\n")]
    pub content: TextOrBytes,
    /// Create a symbolic link with `content` as its target: relative to the directory of the link
    /// and inside the tree. Over HTTP, `Content-Type: application/x-symlink` has the same effect
    #[serde(default)]
    pub symlink: bool,
    /// Store the page exactly as sent, even if the settings enable formatting
    #[serde(default)]
    pub exact: bool,
    /// What to do if the file no longer has the ETag in `if_match` (header `If-Match`): `fail`, or
    /// `merge` your changes since that version with those of others. Changes that overlap are
    /// refused with both texts and the lines
    #[serde(default)]
    #[schemars(default)]
    pub on_conflict: OnConflict,
    /// Allow that this write removes `append_only` from a page; needs an admin key, or a server
    /// without authentication
    #[serde(default)]
    pub force: bool,
    /// Show what would change (diff, lint findings) without writing anything
    #[serde(default)]
    pub dry_run: bool,
}

/// The result of writing a file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WrittenFile {
    /// Normalised path
    pub path: TreePath,
    /// Hash of the stored content
    pub etag: ETag,
    /// `symlink` for a symbolic link; absent for an ordinary file
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<FileType>,
    /// True if the text was merged with changes by others: read it again before you change it
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub merged: bool,
}

impl TryFrom<MergedWrite> for WrittenFile {
    type Error = Fault;
    fn try_from(MergedWrite { result, is_merged }: MergedWrite) -> Result<Self, Fault> {
        Ok(Self { merged: is_merged, ..result.try_into()? })
    }
}

impl WrittenFile {
    /// The advice for an agent whose text was merged.
    const fn note(&self) -> &'static str {
        if self.merged { "; merged with changes by others: read it again before you change it" } else { "" }
    }
}

impl TryFrom<WriteResult> for WrittenFile {
    type Error = Fault;
    fn try_from(result: WriteResult) -> Result<Self, Fault> {
        let WriteResult { path, etag } = result;
        let etag = etag.ok_or_else(|| Fault::internal(format!("`{path}` was removed while it was written")))?;
        Ok(Self { path, etag, kind: None, merged: false })
    }
}

impl Operation for WriteFile {
    const NAME: &'static str = "write";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] =
        &[Route::put("/file").raw("content").media_flag("application/x-symlink", "symlink").etag()];
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    type Output = ChangeOutput<WrittenFile>;
    fn run(self, cx: &OperationContext<'_>) -> Result<ChangeOutput<WrittenFile>, Fault> {
        ChangeOutput::of(cx, (self.dry_run, ReportKind::Writes), || self.write(cx))
    }
    fn render_text(written: &ChangeOutput<WrittenFile>) -> Option<String> {
        let text = |file: &WrittenFile| format!("Written {} (ETag: {}){}", file.path, file.etag, file.note());
        Some(written.render(text))
    }
}

impl WriteFile {
    fn write(self, cx: &OperationContext<'_>) -> Result<WrittenFile, Fault> {
        let path = named(self.path)?;
        match (self.symlink, self.on_conflict) {
            (_, OnConflict::Merge) if self.force => {
                return Err(Fault::invalid(
                    "force",
                    "not with `on_conflict=merge`; read the page, and write it with `fail`",
                ));
            }
            (false, OnConflict::Fail) => {
                return write::write(cx, path, self.content.0, (self.exact, self.force))?.try_into();
            }
            (false, OnConflict::Merge) => return write::merge(cx, &path, &self.content.0, self.exact)?.try_into(),
            (true, OnConflict::Fail) => {}
            (true, OnConflict::Merge) => {
                return Err(Fault::invalid("on_conflict", "a symbolic link cannot be merged; use `fail`"));
            }
        }
        let written: WrittenFile = symlink::create(cx, path, &self.content.0)?.try_into()?;
        Ok(WrittenFile { kind: Some(FileType::Symlink), ..written })
    }
}

/// Append text to a file, creating it if absent
///
/// Safe for concurrent writers: all appends are kept. Existing text is not formatted. Returns the
/// path and the new ETag.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AppendToFile {
    /// Path of the file
    #[schemars(example = "log.md")]
    pub path: TreePath,
    /// Text to append, at most 32 MiB; the resulting file may have at most 64 MiB
    #[schemars(example = "- one more line\n")]
    pub content: TextOrBytes,
    /// Text between the existing and the appended content; not used if the file is new or empty
    #[serde(default = "newline")]
    pub separator: String,
    /// What to do if the file no longer has the ETag in `if_match` (header `If-Match`): `fail`, or
    /// `merge`, which adds the text at the end of that version and merges the changes by others.
    /// Without `if_match` an append never conflicts
    #[serde(default)]
    #[schemars(default)]
    pub on_conflict: OnConflict,
}

fn newline() -> String {
    "\n".to_owned()
}

impl Operation for AppendToFile {
    const NAME: &'static str = "append";
    const LIMITED: bool = false;
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/file/append").raw("content").etag()];
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    type Output = WrittenFile;
    fn run(self, cx: &OperationContext<'_>) -> Result<WrittenFile, Fault> {
        let (path, content) = (named(self.path)?, &self.content.0);
        match self.on_conflict {
            OnConflict::Fail => write::append(cx, &path, &self.separator, content)?.try_into(),
            OnConflict::Merge => write::merge_appended(cx, &path, &self.separator, content)?.try_into(),
        }
    }
    fn render_text(written: &WrittenFile) -> Option<String> {
        Some(format!("Appended to {} (ETag: {}){}", written.path, written.etag, written.note()))
    }
}
