//! Reviewing a draft: its changes, and their merge.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{CommitId, ETag, Fault, TreePath};
use svcfs_work::Lane;

use super::DRAFT_ID;
use crate::drafts::hunks::{self, ChangedPage, DraftHunk, PageChange};
use crate::drafts::merge::{self, MergeRequest, MergeSide};
use crate::drafts::{find, state_etag, visible_pages};
use crate::kernel::{FolderScope, Operation, OperationContext, Route};

/// Length at which the text of a diff is cut for agents.
const MAX_AGENT_TEXT: usize = 400 << 10;

/// Show what a draft changes
///
/// Returns a unified diff against the versions that the draft is based on. With `format=hunks`
/// returns numbered hunks, of which `draft_merge` can accept a part. The ETag names the state of
/// the draft.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DiffDraft {
    /// Id of the draft
    #[schemars(example = "4f2a09c1")]
    pub id: String,
    /// `unified`: one text; `hunks`: a list of numbered hunks with page and author
    #[serde(default)]
    #[schemars(default)]
    pub format: DiffFormat,
    /// Return only the pages, with the numbers of added and removed lines
    #[serde(default)]
    pub stat: bool,
}

/// The form of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum DiffFormat {
    /// A text in git's unified format.
    #[default]
    Unified,
    /// A list of hunks.
    Hunks,
}

/// The changes of a draft.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DraftDiff {
    /// State of the draft; pass it to the merge
    pub etag: ETag,
    /// Unified diff
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Numbered hunks, with `format=hunks`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hunks: Option<Vec<DraftHunk>>,
    /// Changed pages, with `stat`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat: Option<Vec<PageStat>>,
}

/// How much of a page a draft changes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageStat {
    /// The page
    pub path: TreePath,
    /// What the draft does with it
    pub change: PageChange,
    /// Number of added lines
    pub added: usize,
    /// Number of removed lines
    pub removed: usize,
}

impl Operation for DiffDraft {
    const NAME: &'static str = "draft_diff";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/drafts/{id}/diff").etag()];
    const TOOL: bool = true;
    const TEXT_ONLY: bool = true;
    const LANE: Lane = Lane::Slow;
    const ALIASES: &'static [(&'static str, &'static str)] = DRAFT_ID;
    type Output = DraftDiff;
    fn run(self, cx: &OperationContext<'_>) -> Result<DraftDiff, Fault> {
        let view = find(cx, &self.id)?;
        let pages = visible_pages(cx, &view);
        let etag = state_etag(&pages);
        let pages = hunks::changed_pages(&view, pages)?;
        let mut answer = DraftDiff { etag, diff: None, hunks: None, stat: None };
        match (self.stat, self.format) {
            (true, _) => answer.stat = Some(pages.iter().filter_map(stat).collect()),
            (false, DiffFormat::Unified) => answer.diff = Some(hunks::unified(&pages)?),
            (false, DiffFormat::Hunks) => answer.hunks = Some(pages.into_iter().flat_map(|page| page.hunks).collect()),
        }
        Ok(answer)
    }
    fn render_text(answer: &DraftDiff) -> Option<String> {
        let hunk = |hunk: &DraftHunk| format!("hunk {} of {} by {}\n{}", hunk.id, hunk.path, hunk.author, hunk.text);
        let page = |PageStat { path, added, removed, .. }: &PageStat| format!("{path} +{added} -{removed}\n");
        let mut text = match answer {
            DraftDiff { diff: Some(diff), .. } => diff.clone(),
            DraftDiff { hunks: Some(hunks), .. } => hunks.iter().map(hunk).collect(),
            DraftDiff { stat, .. } => stat.iter().flatten().map(page).collect(),
        };
        if text.is_empty() {
            text.push_str("(no changes)\n");
        }
        if text.len() > MAX_AGENT_TEXT {
            text.truncate(text.floor_char_boundary(MAX_AGENT_TEXT));
            text.push_str("\n[cut at 400 KB; `stat` lists the pages]\n");
        }
        Some(format!("[etag: {}]\n\n{text}", answer.etag))
    }
}

fn stat(page: &ChangedPage) -> Option<PageStat> {
    let change = page.hunks.first()?.change;
    let (added, removed) = (|hunk: &DraftHunk| hunk.draft_lines, |hunk: &DraftHunk| hunk.base_lines);
    Some(PageStat {
        path: page.path.clone(),
        change,
        added: page.hunks.iter().map(added).sum(),
        removed: page.hunks.iter().map(removed).sum(),
    })
}

/// Merge a draft into the tree
///
/// A three-way merge of each page: changes of others since the draft was opened remain. All pages
/// become one commit by their author, with the caller in a trailer. Where the tree and the draft
/// changed the same, nothing is merged and the conflicts are listed. With `paths` or `hunks` only
/// these are merged, and the draft stays open with the rest.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "hunks": [1, 3] }))]
pub struct MergeDraft {
    /// Id of the draft
    #[schemars(example = "4f2a09c1")]
    pub id: String,
    /// Pages or folders to merge; default: all
    #[serde(default)]
    pub paths: Option<Vec<TreePath>>,
    /// Numbers of the hunks to merge, as `draft_diff` with `format=hunks` returned them
    #[serde(default)]
    pub hunks: Option<Vec<usize>>,
    /// ETag of the diff that was reviewed: another state of the draft is refused
    #[serde(default)]
    #[schemars(regex(pattern = r#"^(W/)?"?[0-9a-f]{40}"?$"#))]
    pub etag: Option<String>,
    /// Which side wins where both changed the same, by page: `ours` is the tree, `theirs` the draft
    #[serde(default)]
    pub resolve: BTreeMap<TreePath, MergeSide>,
}

/// The result of a merge.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DraftMergeResult {
    /// Always `merged`
    pub status: &'static str,
    /// The commit; absent if nothing changed, or if it is made later
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<CommitId>,
    /// The pages that changed in the tree
    pub paths: Vec<TreePath>,
    /// The pages with changes that were not merged; the draft is closed if there are none
    pub remaining: Vec<TreePath>,
}

impl Operation for MergeDraft {
    const NAME: &'static str = "draft_merge";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::post("/drafts/{id}/merge").path_wins()];
    const TOOL: bool = true;
    const LANE: Lane = Lane::Slow;
    const ALIASES: &'static [(&'static str, &'static str)] = DRAFT_ID;
    type Output = DraftMergeResult;
    fn run(self, cx: &OperationContext<'_>) -> Result<DraftMergeResult, Fault> {
        let view = find(cx, &self.id)?;
        let etag = self.etag.as_deref().map(|text| ETag::parse("etag", text)).transpose()?;
        let request = MergeRequest { paths: self.paths, hunks: self.hunks, etag, resolve: self.resolve };
        let merged = merge::merge(cx, &view, &request)?;
        let merge::MergedDraft { commit, paths, remaining } = merged;
        Ok(DraftMergeResult { status: "merged", version: commit, paths, remaining })
    }
    fn render_text(merged: &DraftMergeResult) -> Option<String> {
        let paths = |paths: &[TreePath]| paths.iter().map(|path| format!("\n- {path}")).collect::<String>();
        let version = merged.version.map(|version| format!(" as {version}")).unwrap_or_default();
        let mut text = format!("Merged {} pages{version}{}", merged.paths.len(), paths(&merged.paths));
        match merged.remaining.len() {
            0 => text.push_str("\nThe draft is closed."),
            count => text.push_str(&format!("\nThe draft stays open with {count} pages{}", paths(&merged.remaining))),
        }
        Some(text)
    }
}
