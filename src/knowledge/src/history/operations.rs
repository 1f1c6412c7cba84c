//! The wire shapes of history.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Limit, TreePath};
use svcfs_vfs::BlameLine;

use crate::files::Content;
use crate::kernel::{Area, Cx, Entry, Operation, Route, Within};

/// The operations of this area.
pub const AREA: Area = Area {
    title: "History",
    operations: &[
        Entry::of::<Versions>(),
        Entry::of::<Version>(),
        Entry::of::<Diff>(),
        Entry::of::<Blame>(),
        Entry::of::<Changes>(),
    ],
};

const PLAIN: &str = "text/plain; charset=utf-8";

/// List the versions of a page, newest first
///
/// A removed page still has its versions.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Versions {
    /// Which page, such as `notes/today.md`
    #[schemars(example = "index.md")]
    pub path: TreePath,
}

impl Operation for Versions {
    const NAME: &'static str = "versions";
    const WITHIN: Within = Within::Paths;
    const HTTP: &'static [Route] = &[Route::get("/versions")];
    const TOOL: bool = true;
    type Output = Vec<svcfs_vfs::Version>;
    fn run(self, cx: &Cx<'_>) -> Result<Self::Output, Fault> {
        let mut versions = super::versions(&cx.space.vfs, cx.caller.door, &self.path)?;
        for version in &mut versions {
            version.message = cx.caller.reach.of_message(std::mem::take(&mut version.message));
        }
        Ok(versions)
    }
}

/// Read a page as it was at a commit
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Version {
    /// Which page
    pub path: TreePath,
    /// Commit hash, full or abbreviated to at least 4 digits
    #[schemars(length(min = 1))]
    pub version: String,
}

/// A page as it was.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OldPage {
    /// Which page
    pub path: TreePath,
    /// The commit, as it was asked for
    pub version: String,
    /// The content at that commit
    pub content: Content,
}

impl Operation for Version {
    const NAME: &'static str = "version";
    const WITHIN: Within = Within::Paths;
    const HTTP: &'static [Route] = &[Route::get("/version").text_of_path("content")];
    type Output = OldPage;
    fn run(self, cx: &Cx<'_>) -> Result<OldPage, Fault> {
        super::admit(&cx.space.vfs, cx.caller.door, &self.path)?;
        let content = cx.space.vfs.version(&self.path, &self.version)?;
        Ok(OldPage { path: self.path, version: self.version, content: Content(content) })
    }
}

/// Compare two versions of a page
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Diff {
    /// Which page
    pub path: TreePath,
    /// Commit hash of the older version, full or abbreviated
    #[schemars(length(min = 1))]
    pub from: String,
    /// Commit hash of the newer version, full or abbreviated
    #[schemars(length(min = 1))]
    pub to: String,
}

/// What differs between two versions.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Difference {
    /// Which page
    pub path: TreePath,
    /// Unified diff with three lines of context; empty when both versions are equal
    pub diff: String,
}

impl Operation for Diff {
    const NAME: &'static str = "diff";
    const WITHIN: Within = Within::Paths;
    const HTTP: &'static [Route] = &[Route::get("/diff").text("diff", PLAIN)];
    type Output = Difference;
    fn run(self, cx: &Cx<'_>) -> Result<Difference, Fault> {
        super::admit(&cx.space.vfs, cx.caller.door, &self.path)?;
        let diff = cx.space.vfs.diff(&self.path, &self.from, &self.to)?;
        Ok(Difference { path: self.path, diff })
    }
}

/// Show who last wrote each line of a page
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Blame {
    /// Which page
    #[schemars(example = "index.md")]
    pub path: TreePath,
}

impl Operation for Blame {
    const NAME: &'static str = "blame";
    const WITHIN: Within = Within::Paths;
    const HTTP: &'static [Route] = &[Route::get("/blame")];
    type Output = Vec<BlameLine>;
    fn run(self, cx: &Cx<'_>) -> Result<Vec<BlameLine>, Fault> {
        super::admit(&cx.space.vfs, cx.caller.door, &self.path)?;
        cx.space.vfs.blame(&self.path)
    }
}

/// Follow what changed in the whole tree, oldest first
///
/// Pass `last_seq` of the answer as `since` to read on; no change is ever left out. A rename is a `delete` and a `write`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Changes {
    /// Commit hash after which to start; the newest changes when absent or empty
    #[serde(default)]
    pub since: Option<String>,
    #[serde(default)]
    pub limit: Limit<50, 500>,
}

impl Operation for Changes {
    const NAME: &'static str = "changes";
    const WITHIN: Within = Within::Own;
    const HTTP: &'static [Route] = &[Route::get("/changes")];
    const TOOL: bool = true;
    type Output = svcfs_vfs::Changes;
    fn run(self, cx: &Cx<'_>) -> Result<Self::Output, Fault> {
        // `last_seq` of a history without commits is empty, and comes back as it was told.
        let since = self.since.filter(|since| !since.is_empty());
        let mut page = cx.space.vfs.changes(since.as_deref(), self.limit.get())?;
        let reach = &cx.caller.reach;
        // A page may be empty then; `last_seq` leads on all the same.
        page.changes.retain(|record| {
            let path = &record.path;
            cx.space.vfs.is_visible(cx.caller.door, path) && reach.covers(path)
        });
        Ok(page)
    }
}
