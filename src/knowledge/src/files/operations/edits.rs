//! The operation that edits parts of a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{ETag, Fault, Kind, TreePath, VersionId};

use crate::files::dry_run::{ChangeOutput, ReportKind};
use crate::files::edit::{SectionEdit, TextEdit};
use crate::files::{named, write};
use crate::kernel::{FolderScope, Operation, OperationContext, version_suffix};

/// Each edit searches the full text.
const MAX_EDITS: usize = 100;

/// Change parts of a page: replace exact texts, or change sections
///
/// Use it instead of `write` when most of the page stays. An edit is `{old, new}`, where `old` must
/// occur exactly once, or `{heading, mode, text}`. All edits are made, in order, or none. Returns
/// path, ETag and version. If `old` occurs never or several times, the error names the places: send
/// more of the text around it.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "path": "notes/today.md", "edits": [
    { "old": "due: monday", "new": "due: friday" }, { "heading": "Log", "mode": "append", "text": "- moved" }] }))]
pub struct EditFile {
    /// Path of the file
    #[schemars(example = "notes/today.md")]
    pub path: TreePath,
    /// The edits; each in the text that the earlier ones made
    #[schemars(length(min = 1, max = 100))]
    pub edits: Vec<FileEdit>,
    /// Show what would change (diff, lint findings) without writing anything
    #[serde(default)]
    pub dry_run: bool,
}

/// One edit: `old` and `new`, or `heading`, `mode` and `text`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileEdit {
    /// Text to replace, exactly as in the page
    #[serde(default)]
    pub old: Option<String>,
    /// What replaces `old`; empty to remove it
    #[serde(default)]
    pub new: Option<String>,
    /// Heading of the section: its text, `#anchor`, or `Parent > Child`
    #[serde(default)]
    pub heading: Option<String>,
    /// What to do with the section
    #[serde(default)]
    pub mode: Option<SectionEdit>,
    /// New text for the section, without its heading
    #[serde(default)]
    pub text: Option<String>,
}

/// The result of an edit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EditedFile {
    /// Normalised path
    pub path: TreePath,
    /// Hash of the stored content
    pub etag: ETag,
    /// Its version; absent if nothing changed, or if it is recorded later
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
}

impl Operation for EditFile {
    const NAME: &'static str = "edit";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    type Output = ChangeOutput<EditedFile>;
    fn run(self, cx: &OperationContext<'_>) -> Result<ChangeOutput<EditedFile>, Fault> {
        let path = named(self.path)?;
        if self.edits.is_empty() || self.edits.len() > MAX_EDITS {
            let message = format_args!("must be 1 to {MAX_EDITS} edits; {} are given", self.edits.len());
            return Err(Fault::invalid("edits", message));
        }
        let edits = self.edits.into_iter().enumerate().map(|(index, edit)| edit.read(index));
        let edits: Vec<TextEdit> = edits.collect::<Result<_, _>>()?;
        ChangeOutput::of(cx, (self.dry_run, ReportKind::Writes), || {
            let (etag, version) = write::edit(cx, &path, &edits)?;
            Ok(EditedFile { path: path.clone(), etag, version: version.map(VersionId::Commit) })
        })
    }
    fn render_text(edited: &ChangeOutput<EditedFile>) -> Option<String> {
        let version = |file: &EditedFile| version_suffix(file.version.as_ref());
        Some(edited.render(|file| format!("Edited {} (ETag: {}{})", file.path, file.etag, version(file))))
    }
}

impl FileEdit {
    fn read(self, index: usize) -> Result<TextEdit, Fault> {
        let missing = |name: &str| Fault::new(Kind::Invalid, format!("edits[{index}].{name} is required"));
        match self {
            Self { old: Some(old), new, heading: None, mode: None, text: None } => {
                if old.is_empty() {
                    return Err(Fault::invalid(&format!("edits[{index}].old"), "is empty; use `write` for a new page"));
                }
                Ok(TextEdit::Replace { old, new: new.ok_or_else(|| missing("new"))? })
            }
            Self { old: None, new: None, heading: Some(heading), mode, text } => {
                let mode = mode.unwrap_or_default();
                Ok(TextEdit::Section { heading, mode, text: text.ok_or_else(|| missing("text"))? })
            }
            Self { .. } => {
                let message = "must have either `old` and `new`, or `heading` and `text` with an optional `mode`";
                Err(Fault::invalid(&format!("edits[{index}]"), message))
            }
        }
    }
}
