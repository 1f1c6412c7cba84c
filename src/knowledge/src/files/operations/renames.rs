//! The wire shapes of renames.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use svcfs_base::{ETag, Fault, Precondition, TreePath};

use super::IF_MATCH;
use crate::files::rename::{self, LinkUpdatePolicy, RenamedDirectory, RenamedFile};
use crate::kernel::{FolderScope, Operation, OperationContext, Route};

/// Give a file another name, and links to it the new one
///
/// File and rewritten pages change in one commit. A name that is taken is refused, unless `replacing` says what may be replaced;
/// the same name twice changes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "from": "notes/today.md", "to": "notes/yesterday.md" }))]
pub struct RenameFile {
    /// The present path
    pub from: TreePath,
    /// The new path; directories above it are made as needed
    pub to: TreePath,
    /// Whether links of other pages to the file are rewritten, in the form their authors chose
    #[serde(default = "yes")]
    pub update_links: bool,
    /// Rename as `mv` in a mount does, whatever `update_links` says: links follow where `links.update_on_rename` is on, from page to page
    #[serde(default)]
    pub as_mount: bool,
    /// Replace the file at `to` if it still has this ETag (quotes are optional), or whatever it has (`*`); a name that is taken is
    /// refused when absent
    #[serde(default)]
    #[schemars(regex(pattern = IF_MATCH))]
    pub replacing: Option<String>,
}

fn yes() -> bool {
    true
}

impl Operation for RenameFile {
    const NAME: &'static str = "rename";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/rename").query(&["update_links"]).etag()];
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    type Output = RenamedFile;
    fn run(self, cx: &OperationContext<'_>) -> Result<RenamedFile, Fault> {
        let expect = match self.replacing.as_deref().map(str::trim) {
            None => Precondition::Absent,
            Some("*") => Precondition::Any,
            Some(text) => Precondition::OneOf(vec![ETag::parse("replacing", text)?]),
        };
        let following = match (self.as_mount, self.update_links) {
            (true, _) => LinkUpdatePolicy::AsByDoor,
            (false, true) => LinkUpdatePolicy::Always,
            (false, false) => LinkUpdatePolicy::Never,
        };
        rename::rename(cx, self.from, self.to, rename::RenameOptions { following, expect })
    }
    fn render_text(renamed: &RenamedFile) -> Option<String> {
        let RenamedFile { from, to, etag, updated_links } = renamed;
        Some(format!("Renamed {from} → {to} (ETag: {etag}), {updated_links} links updated"))
    }
}

/// Give a directory another name, and links to what is in it the new one
///
/// All of it moves in one commit, with the links of other pages to its files and those of its own pages to files elsewhere, in the form
/// their authors chose. A name that is taken is refused: directories are never merged.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "from": "notes/2025", "to": "archive/2025" }))]
pub struct RenameDirectory {
    /// The present path
    pub from: TreePath,
    /// The new path; directories above it are made as needed
    pub to: TreePath,
}

impl Operation for RenameDirectory {
    const NAME: &'static str = "rename_dir";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/rename-dir")];
    type Output = RenamedDirectory;
    fn run(self, cx: &OperationContext<'_>) -> Result<RenamedDirectory, Fault> {
        rename::rename_directory(cx, self.from, self.to)
    }
    fn render_text(renamed: &RenamedDirectory) -> Option<String> {
        let RenamedDirectory { from, to, renamed } = renamed;
        Some(format!("Renamed {from} → {to}, {renamed} files"))
    }
}
