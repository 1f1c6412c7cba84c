use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Kind, Limit, TreePath};
use svcfs_vfs::BlameLine;

use crate::files::{self, LineRange, TextOrBytes};
use crate::kernel::{
    AsOf, FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, default_true, past_file,
};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "History",
    operations: &[
        OperationEntry::new::<ListVersions>(),
        OperationEntry::new::<ReadVersion>(),
        OperationEntry::new::<DiffVersions>(),
        OperationEntry::new::<BlamePage>(),
        OperationEntry::new::<ListChanges>(),
    ],
};

const PLAIN: &str = "text/plain; charset=utf-8";

/// List the versions of a page, newest first
///
/// Use it to see who changed a page and when, or to find a version to read or compare. Works for
/// deleted pages, too. Returns commit hash, author, time and message of each version, and the
/// former `path` where the page was renamed since.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListVersions {
    /// Path of the page, such as `notes/today.md`
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// Follow renames of the page and of its directories
    #[serde(default = "default_true")]
    pub follow: bool,
}

impl Operation for ListVersions {
    const NAME: &'static str = "versions";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/versions")];
    const TOOL: bool = true;
    type Output = Vec<svcfs_vfs::PageVersion>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Self::Output, Fault> {
        let names = super::names_of_page(cx, &self.path, self.follow)?;
        let mut versions = super::list_versions(&cx.space.vfs, cx.caller.protocol, &names)?;
        for version in &mut versions {
            version.message = cx.visible_message(std::mem::take(&mut version.message));
        }
        Ok(versions)
    }
}

/// Read a page as it was at a commit
///
/// Use it to see or restore an older version, also one from before a rename. Returns its content;
/// read long pages in parts with `offset` and `limit`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadVersion {
    /// Path of the page
    pub path: TreePath,
    /// Commit hash, full or abbreviated to at least 4 digits
    #[schemars(length(min = 1))]
    pub version: String,
    /// Number of lines to skip
    #[serde(default)]
    pub offset: Option<usize>,
    /// Maximum number of lines; default: all
    #[serde(default)]
    pub limit: Option<NonZeroUsize>,
}

/// A version of a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VersionContent {
    /// Path of the page
    pub path: TreePath,
    /// The commit, as in the request
    pub version: String,
    /// The content at that commit
    pub content: TextOrBytes,
    /// The range of lines in `content`, with `offset` or `limit`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineRange>,
}

impl Operation for ReadVersion {
    const NAME: &'static str = "version";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/version").text_from_path("content")];
    const TOOL: bool = true;
    const TEXT_ONLY: bool = true;
    type Output = VersionContent;
    fn run(self, cx: &OperationContext<'_>) -> Result<VersionContent, Fault> {
        let names = super::names_of_page(cx, &self.path, true)?;
        let content = cx.space.vfs.read_version_under(&names, &self.version)?;
        let (content, lines) = files::select_lines(content, self.offset, self.limit)?;
        Ok(VersionContent { path: self.path, version: self.version, content: TextOrBytes(content), lines })
    }
    fn render_text(page: &VersionContent) -> Option<String> {
        let lines = page.lines.as_ref().map(|lines| format!("\n[{lines}]")).unwrap_or_default();
        page.content.text().map(|text| format!("[version: {}]{lines}\n\n{text}", page.version))
    }
}

/// Compare two versions of a page
///
/// Use it to see what changed between two commits (`from` and `to`), or since then (`as_of`).
/// Returns a unified diff.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DiffVersions {
    /// Path of the page
    pub path: TreePath,
    /// Commit hash of the older version, full or abbreviated
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub from: Option<String>,
    /// Commit hash of the newer version, full or abbreviated
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub to: Option<String>,
    #[serde(default)]
    pub as_of: AsOf,
}

/// The difference between two versions.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VersionDiff {
    /// Path of the page
    pub path: TreePath,
    /// Unified diff with three lines of context; empty if the versions are equal
    pub diff: String,
}

impl Operation for DiffVersions {
    const NAME: &'static str = "diff";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/diff").text("diff", PLAIN)];
    const TOOL: bool = true;
    const TEXT_ONLY: bool = true;
    type Output = VersionDiff;
    fn run(self, cx: &OperationContext<'_>) -> Result<VersionDiff, Fault> {
        let names = super::names_of_page(cx, &self.path, true)?;
        let (from, to) = match (self.from, self.to, self.as_of.noted_state(cx)?) {
            (Some(from), Some(to), None) => (from, to),
            (None, None, Some(state)) => {
                let newest = cx.space.vfs.versions_under(&names)?.into_iter().next();
                let newest = newest.ok_or_else(|| Fault::file_not_found(&self.path))?;
                (state.commit.to_string(), newest.hash.to_string())
            }
            (_, _, Some(_)) => {
                return Err(Fault::invalid("as_of", "compares with the page as it is now; omit `from` and `to`"));
            }
            (from, _, None) => {
                let missing = if from.is_none() { "from" } else { "to" };
                let message = format!("{missing} is required: give `from` and `to`, or only `as_of`");
                return Err(Fault::new(Kind::Invalid, message));
            }
        };
        let diff = cx.space.vfs.diff(&names, &from, &to)?;
        Ok(VersionDiff { path: self.path, diff })
    }
    fn render_text(difference: &VersionDiff) -> Option<String> {
        let VersionDiff { path, diff } = difference;
        Some(if diff.is_empty() { format!("No differences: both versions of {path} are equal") } else { diff.clone() })
    }
}

/// Show who last changed each line of a page
///
/// Use it to find the author and commit of a statement. Returns commit, author, time and text of
/// each line; read long pages in parts with `offset` and `limit`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BlamePage {
    /// Path of the page
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// Number of lines to skip
    #[serde(default)]
    pub offset: Option<usize>,
    /// Maximum number of lines; default: all
    #[serde(default)]
    pub limit: Option<NonZeroUsize>,
    #[serde(default)]
    pub as_of: AsOf,
}

impl Operation for BlamePage {
    const NAME: &'static str = "blame";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/blame")];
    const TOOL: bool = true;
    const TEXT_ONLY: bool = true;
    type Output = Vec<BlameLine>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<BlameLine>, Fault> {
        super::check_readable(&cx.space.vfs, cx.caller.protocol, &self.path)?;
        let mut lines = match self.as_of.noted_state(cx)? {
            Some(state) => {
                past_file(cx, &state, &self.path)?;
                cx.space.vfs.blame_at(&self.path, &state)?
            }
            None => cx.space.vfs.blame(&self.path)?,
        };
        let total = lines.len();
        let (_, selected) = LineRange::select(total, self.offset, self.limit);
        lines.truncate(selected.end);
        lines.drain(..selected.start);
        cx.set_total(total, lines.len());
        Ok(lines)
    }
    fn render_text(lines: &Vec<BlameLine>) -> Option<String> {
        let to_row = |line: &BlameLine| {
            let (hash, day) = (line.hash.to_string(), line.timestamp.to_string());
            let (hash, day) = (hash.get(..12).unwrap_or(&hash), day.get(..10).unwrap_or(&day));
            format!(
                "{hash} {day} {} {}: {}\n",
                svcfs_base::escape_unprintable(line.author.as_str()),
                line.line,
                line.content
            )
        };
        let header = "commit, date, author, line number: line\n\n";
        Some(lines.iter().fold(header.to_owned(), |text, line| text + &to_row(line)))
    }
}

/// Follow all changes of the tree, oldest first
///
/// Use it to synchronize: pass `last_seq` of the answer as `since` of the next call; no change is
/// left out. For recent changes use `timeline`. A rename is a `delete` and a `write`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListChanges {
    /// Commit hash to start after; if absent or empty, the newest changes are returned
    #[serde(default)]
    pub since: Option<String>,
    #[serde(default)]
    pub limit: Limit<50, 500>,
}

impl Operation for ListChanges {
    const NAME: &'static str = "changes";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/changes")];
    const TOOL: bool = true;
    type Output = svcfs_vfs::ChangeFeedPage;
    fn run(self, cx: &OperationContext<'_>) -> Result<Self::Output, Fault> {
        // For a history without commits `last_seq` is empty, and clients send it back.
        let since = self.since.filter(|since| !since.is_empty());
        let mut page = cx.space.vfs.changes(since.as_deref(), self.limit.get())?;
        // The page may become empty; `last_seq` still advances.
        page.changes.retain(|record| super::can_read(cx, &record.path));
        Ok(page)
    }
}
