use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{ETag, Fault, TreePath, VersionId};
use svcfs_text::frontmatter;
use svcfs_work::Lane;

use super::context::AgentContext;
use super::episodes::{self, ForgottenPage, NewEpisode};
use super::report::EpisodeReport;
use crate::files;
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, version_suffix};
use crate::recall;

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Memory",
    operations: &[
        OperationEntry::new::<GetContext>(),
        OperationEntry::new::<GetMemoryReport>(),
        OperationEntry::new::<RememberEpisode>(),
        OperationEntry::new::<ForgetMemory>(),
    ],
};

/// Read the context an agent needs before it works here
///
/// Call it first. Returns the playbook (how to work), the schema (types of pages) and the index
/// page (where to start), each from `.svc/` or else from the root; empty if absent. With a key that
/// is limited to a folder, returns those of that folder.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetContext {}

impl Operation for GetContext {
    const NAME: &'static str = "context";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/context")];
    const TOOL: bool = true;
    const TEXT_ONLY: bool = true;
    type Output = AgentContext;
    fn run(self, cx: &OperationContext<'_>) -> Result<AgentContext, Fault> {
        super::read_context(cx)
    }
    fn render_text(pages: &AgentContext) -> Option<String> {
        let pages = [("SCHEMA", &pages.schema), ("PLAYBOOK", &pages.playbook), ("CURRENT INDEX", &pages.index)];
        let present = pages.iter().filter(|(_, text)| !text.trim().is_empty());
        let shown = |text: &String| match recall::is_external(&frontmatter::parse(text).map) {
            true => recall::quote_external(text),
            false => text.clone(),
        };
        let text: Vec<String> = present.map(|(title, text)| format!("=== {title} ===\n\n{}", shown(text))).collect();
        Some(match text.is_empty() {
            true => "There is no playbook, no schema and no index page. Look around with svc_tree; the resource \
                     svc://schema describes this tree."
                .to_owned(),
            false => text.join("\n"),
        })
    }
}

/// List episodic memories, and those not merged into a page yet
///
/// Use it to find episodes to consolidate. An episode is a page with `memory_kind: episodic`, or a
/// page in the folder of episodes. It is merged if `merged-from` of some page has its id or path.
/// Returns all episodes, the unmerged ones, and warnings.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetMemoryReport {
    /// Folder of episodes; default: the setting `memory.episodes_path_prefix`
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub episodes_prefix: Option<TreePath>,
}

impl Operation for GetMemoryReport {
    const NAME: &'static str = "memory_report";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/memory/report")];
    const TOOL: bool = true;
    type Output = EpisodeReport;
    fn run(self, cx: &OperationContext<'_>) -> Result<EpisodeReport, Fault> {
        let prefix = self.episodes_prefix.unwrap_or_else(|| cx.settings().memory.episodes_path_prefix.clone());
        if prefix.is_root() {
            return Err(Fault::invalid("episodes_prefix", "names the whole tree; name a folder such as `episodes`"));
        }
        super::report_episodes(cx.index(), &prefix, &cx.caller.permissions)
    }
}

/// Remember an episode: something that happened or was learned
///
/// Use it for facts and events that a later conversation needs; use `write` for pages that people
/// read. Writes a new page `episodes/<date>/<id>.md`. Search first: memories that no longer hold go
/// into `supersedes` and are marked in the same commit. Returns path, ETag, version, and in
/// `similar` memories that probably say the same. A known `episode_id` returns its page; 409 if the
/// content differs.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "content": "The signing key is rotated every 90 days.", "tags": ["security"] }))]
pub struct RememberEpisode {
    /// Markdown that can be understood alone
    pub content: String,
    /// What it belongs to, such as a project; `recall` can be limited to it
    #[serde(default)]
    pub scope: Option<String>,
    /// Your own id of the episode, such as `run-249`; default: a new one
    #[serde(default)]
    pub episode_id: Option<String>,
    /// Tags of the page
    #[serde(default)]
    pub tags: Vec<String>,
    /// Paths of memories that no longer hold
    #[serde(default)]
    pub supersedes: Vec<TreePath>,
    /// Since when it is true, such as `2026-01-31`
    #[serde(default)]
    pub valid_from: Option<String>,
    /// Until when it is true, such as `2026-12-31`
    #[serde(default)]
    pub valid_until: Option<String>,
    /// How sure it is, more than 0 and at most 1
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: Option<f64>,
}

/// A remembered episode.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RememberedEpisode {
    /// Path of its page
    pub path: TreePath,
    /// Hash of the page
    pub etag: ETag,
    /// Its version; absent if it was remembered before, or if it is recorded later
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// Its id
    pub episode_id: String,
    /// True if it was remembered before: nothing was written
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub existing: bool,
    /// Memories that were marked as superseded
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<TreePath>,
    /// Pages that probably say the same, where search by meaning is enabled
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub similar: Vec<SimilarMemory>,
}

/// A page of similar meaning.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SimilarMemory {
    /// Path of the page
    pub path: TreePath,
    /// Similarity of its nearest passage, 0.85 to 1
    pub similarity: f64,
}

impl Operation for RememberEpisode {
    const NAME: &'static str = "remember";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const TOOL: bool = true;
    const LANE: Lane = Lane::Slow;
    type Output = RememberedEpisode;
    fn run(self, cx: &OperationContext<'_>) -> Result<RememberedEpisode, Fault> {
        let Self { content, scope, episode_id, tags, supersedes, valid_from, valid_until, confidence } = self;
        let episode = NewEpisode { content, scope, episode_id, tags, supersedes, valid_from, valid_until, confidence };
        let stored = episodes::remember(cx, &episode)?;
        let similar = |(path, similarity)| SimilarMemory { path, similarity };
        Ok(RememberedEpisode {
            path: stored.path,
            etag: stored.etag,
            version: stored.commit.map(VersionId::Commit),
            episode_id: stored.episode_id,
            existing: stored.is_known,
            superseded: stored.superseded,
            similar: stored.similar.into_iter().map(similar).collect(),
        })
    }
    fn render_text(episode: &RememberedEpisode) -> Option<String> {
        let RememberedEpisode { path, etag, episode_id, existing, superseded, similar, version } = episode;
        let verb = if *existing { "Remembered before" } else { "Remembered" };
        let version = version_suffix(version.as_ref());
        let mut text = format!("{verb}: {path} (ETag: {etag}{version}), episode_id {episode_id}");
        superseded.iter().for_each(|path| text.push_str(&format!("\n- superseded: {path}")));
        for SimilarMemory { path, similarity } in similar {
            text.push_str(&format!("\n- similar ({similarity}): {path}"));
        }
        if !similar.is_empty() {
            text.push_str("\nRead them: if one says the same or is outdated, call `svc_forget` with it.");
        }
        Some(text)
    }
}

/// Mark a memory as superseded, so that it is no longer taken as true
///
/// Use it when a memory is wrong or outdated and no new one replaces it (`remember` with
/// `supersedes` does both). The page stays; `recall` and search rank it last and mark it. A repeat
/// changes nothing. Returns path, ETag and version. 400 for a page that is no memory: use `delete`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ForgetMemory {
    /// Path of the memory
    #[schemars(example = "episodes/2026-01-31/0197d2a4.md")]
    pub path: TreePath,
    /// Why, in one line
    #[serde(default)]
    pub reason: Option<String>,
    /// The page that is right instead
    #[serde(default)]
    pub superseded_by: Option<TreePath>,
    /// Delete the page instead; needs an admin key. The history keeps its text
    #[serde(default)]
    pub erase: bool,
}

/// A forgotten memory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ForgottenMemory {
    /// Path of the page
    pub path: TreePath,
    /// Hash of the page; absent if it was erased
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<ETag>,
    /// The new version; absent if nothing changed, or if it is recorded later
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// True if it was forgotten before
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub noop: bool,
    /// True if the page was deleted
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub erased: bool,
    /// What remains of an erased page
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

/// What remains of an erased page.
const ERASED: &str = "the page is deleted, but the history still has its text: every earlier version, each clone and \
                      each backup; to remove it there, rewrite the git history (docs/memory.md)";

impl Operation for ForgetMemory {
    const NAME: &'static str = "forget";
    const DESTRUCTIVE: bool = true;
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    type Output = ForgottenMemory;
    fn run(self, cx: &OperationContext<'_>) -> Result<ForgottenMemory, Fault> {
        let path = files::named(self.path)?;
        let reason = self.reason.as_deref().map(str::trim);
        let forgotten = match (self.erase, &self.superseded_by) {
            (false, by) => episodes::forget(cx, &path, (reason, by.as_ref()))?,
            (true, None) => episodes::erase(cx, &path, reason)?,
            (true, Some(_)) => {
                let message = "not with `erase`: a deleted page names no other; use one of them";
                return Err(Fault::invalid("superseded_by", message));
            }
        };
        let version = |commit: Option<svcfs_base::CommitId>| commit.map(VersionId::Commit);
        Ok(match forgotten {
            ForgottenPage::Marked { etag, commit, is_noop } => {
                let (etag, version) = (Some(etag), version(commit));
                ForgottenMemory { path, etag, version, noop: is_noop, erased: false, note: None }
            }
            ForgottenPage::Erased { commit } => {
                let version = version(commit);
                ForgottenMemory { path, etag: None, version, noop: false, erased: true, note: Some(ERASED) }
            }
        })
    }
    fn render_text(forgotten: &ForgottenMemory) -> Option<String> {
        let ForgottenMemory { path, etag, version, noop, note, .. } = forgotten;
        let version = version.as_ref().map_or_else(String::new, |version| format!(" [version: {version}]"));
        let text = match (etag, note) {
            (_, Some(note)) => format!("Erased {path}: {note}"),
            (Some(etag), None) if *noop => format!("{path} was forgotten before (ETag: {etag}); nothing changed"),
            (Some(etag), None) => format!("Forgotten: {path} is marked as superseded (ETag: {etag})"),
            (None, None) => format!("Forgotten: {path}"),
        };
        Some(text + &version)
    }
}
