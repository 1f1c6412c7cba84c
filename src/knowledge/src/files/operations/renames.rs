use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use svcfs_base::{ETag, Fault, Precondition, TreePath};

use super::IF_MATCH;
use crate::files::dry_run::{ChangeOutput, ReportKind};
use crate::files::rename::{self, LinkUpdatePolicy, RenamedDirectory, RenamedFile};
use crate::kernel::{FolderScope, Operation, OperationContext, Route, default_true};

/// Rename or move a file and update links to it
///
/// The file and the pages with rewritten links change in one commit. If the new name exists, the
/// rename is refused unless `replacing` permits it; renaming to the same name changes nothing.
/// Returns the new ETag and the number of updated links.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "from": "notes/today.md", "to": "notes/yesterday.md" }))]
pub struct RenameFile {
    /// Current path
    pub from: TreePath,
    /// New path; missing directories are created
    pub to: TreePath,
    /// Rewrite links of other pages to the file, in the form their authors chose
    #[serde(default = "default_true")]
    pub update_links: bool,
    /// Rename as `mv` in a mount does, ignoring `update_links`: links from page to page follow if
    /// `links.update_on_rename` is on
    #[serde(default)]
    pub as_mount: bool,
    /// Replace the file at `to` if it has this ETag (quotes are optional), or any file (`*`);
    /// without it an existing file is not replaced
    #[serde(default)]
    #[schemars(regex(pattern = IF_MATCH))]
    pub replacing: Option<String>,
    /// Show what would change (diff, rewritten and broken links) without writing anything
    #[serde(default)]
    pub dry_run: bool,
}

impl Operation for RenameFile {
    const NAME: &'static str = "rename";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/rename").query(&["update_links", "dry_run"]).etag()];
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    type Output = ChangeOutput<RenamedFile>;
    fn run(self, cx: &OperationContext<'_>) -> Result<ChangeOutput<RenamedFile>, Fault> {
        let precondition = match self.replacing.as_deref().map(str::trim) {
            None => Precondition::Absent,
            Some("*") => Precondition::Any,
            Some(text) => Precondition::OneOf(vec![ETag::parse("replacing", text)?]),
        };
        let link_updates = match (self.as_mount, self.update_links) {
            (true, _) => LinkUpdatePolicy::FileProtocolSettings,
            (false, true) => LinkUpdatePolicy::Always,
            (false, false) => LinkUpdatePolicy::Never,
        };
        let kind = match link_updates {
            LinkUpdatePolicy::Always => ReportKind::Relinking,
            // Pages with rewritten links are among the changes, and left out.
            LinkUpdatePolicy::Never | LinkUpdatePolicy::FileProtocolSettings => ReportKind::Removals,
        };
        ChangeOutput::of(cx, (self.dry_run, kind), || {
            rename::rename(cx, self.from, self.to, rename::RenameOptions { link_updates, precondition })
        })
    }
    fn render_text(renamed: &ChangeOutput<RenamedFile>) -> Option<String> {
        let text = |RenamedFile { from, to, etag, updated_links }: &RenamedFile| {
            format!("Renamed {from} → {to} (ETag: {etag}), {updated_links} links updated")
        };
        Some(renamed.render(text))
    }
}

/// Rename or move a directory and update links to its files
///
/// All files move in one commit. Links of other pages to them and links of moved pages to files
/// elsewhere are rewritten, in the form their authors chose. If the new name exists, the rename is
/// refused: directories are never merged. Returns the number of moved files.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "from": "notes/2025", "to": "archive/2025" }))]
pub struct RenameDirectory {
    /// Current path
    pub from: TreePath,
    /// New path; missing directories are created
    pub to: TreePath,
    /// Show what would change (diff, rewritten links) without writing anything
    #[serde(default)]
    pub dry_run: bool,
}

impl Operation for RenameDirectory {
    const NAME: &'static str = "rename_dir";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/rename-dir")];
    type Output = ChangeOutput<RenamedDirectory>;
    fn run(self, cx: &OperationContext<'_>) -> Result<ChangeOutput<RenamedDirectory>, Fault> {
        ChangeOutput::of(cx, (self.dry_run, ReportKind::Relinking), || rename::rename_directory(cx, self.from, self.to))
    }
    fn render_text(renamed: &ChangeOutput<RenamedDirectory>) -> Option<String> {
        let text = |RenamedDirectory { from, to, renamed }: &RenamedDirectory| {
            format!("Renamed {from} → {to}, {renamed} files")
        };
        Some(renamed.render(text))
    }
}
