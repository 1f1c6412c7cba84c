//! Which episodes there are, and which of them nobody has taken up yet.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svcfs_base::{Fault, Permissions, TreePath};
use svcfs_index::{Index, MetaRow};

/// The kinds of a `merged-from` entry that speak of an episode by its id (gaps.md 4.16).
const EPISODIC_TYPES: [&str; 6] = ["episode", "run", "session", "trace", "event", "ingest"];

/// The state of a tree's memory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EpisodeReport {
    /// Episodes there are
    pub episodic_count: usize,
    /// Entries of `merged-from` in all pages
    pub merged_from_refs: usize,
    /// The episodes, in path order
    pub episodic_files: Vec<MemoryEpisode>,
    /// The episodes that no page's `merged-from` names
    pub unmerged: Vec<MemoryEpisode>,
    /// What keeps an episode from being named, such as a missing id
    pub warnings: Vec<String>,
}

/// A page that remembers something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryEpisode {
    /// Where it is
    pub path: TreePath,
    /// `episode_id` of its frontmatter, else `id`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episode_id: Option<String>,
    /// `memory_kind` of its frontmatter
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_kind: Option<String>,
}

/// Looks at the pages that the caller may see.
///
/// An episode says `memory_kind: episodic`, or lies below `prefix` and says neither `semantic` nor `consolidation`.
///
/// # Errors
/// Those of the index.
pub fn report_episodes(index: &Index, prefix: &TreePath, reach: &Permissions) -> Result<EpisodeReport, Fault> {
    let mut told = index.pages_with_keys(&["memory_kind", "episode_id", "id", "merged-from"])?;
    told.retain(|page| reach.covers(&page.path));
    let mut merged = MergedEpisodes::default();
    for page in &told {
        merged.add(page);
    }
    let mut episodes: Vec<MemoryEpisode> = told.iter().filter(|page| is_episodic(page, prefix)).map(episode).collect();
    // Pages below the prefix that say nothing of themselves are episodes, too.
    let known: HashSet<&TreePath> = told.iter().map(|page| &page.path).collect();
    let silent = index.paths(prefix)?.into_iter().filter(|path| !known.contains(path) && reach.covers(path));
    let silent: Vec<MemoryEpisode> =
        silent.map(|path| MemoryEpisode { path, episode_id: None, memory_kind: None }).collect();
    episodes.extend(silent);
    episodes.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    let nameless = episodes.iter().filter(|episode| episode.episode_id.is_none());
    let warnings = nameless
        .map(|episode| {
            format!("{}: no `episode_id` in its frontmatter; `merged-from` can name it by path only", episode.path)
        })
        .collect();
    let unmerged = episodes.iter().filter(|episode| !merged.names(episode)).cloned().collect();
    Ok(EpisodeReport {
        episodic_count: episodes.len(),
        merged_from_refs: merged.count,
        unmerged,
        warnings,
        episodic_files: episodes,
    })
}

/// What the `merged-from` lists of all pages name.
#[derive(Default)]
struct MergedEpisodes {
    count: usize,
    ids: HashSet<String>,
    paths: HashSet<String>,
}

impl MergedEpisodes {
    fn add(&mut self, page: &MetaRow) {
        let Some(Value::Array(entries)) = page.metadata.get("merged-from") else {
            return;
        };
        self.count += entries.len();
        for entry in entries {
            if let Some(path) = entry.get("path").and_then(Value::as_str) {
                self.paths.insert(path.trim_start_matches('/').to_owned());
            }
            let is_episodic =
                entry.get("type").and_then(Value::as_str).is_some_and(|kind| EPISODIC_TYPES.contains(&kind));
            if is_episodic && let Some(id) = entry.get("id").and_then(text) {
                self.ids.insert(id);
            }
        }
    }
    fn names(&self, episode: &MemoryEpisode) -> bool {
        self.paths.contains(episode.path.as_str())
            || episode.episode_id.as_ref().is_some_and(|id| self.ids.contains(id))
    }
}

fn is_episodic(page: &MetaRow, prefix: &TreePath) -> bool {
    match page.metadata.get("memory_kind").and_then(Value::as_str) {
        Some("episodic") => true,
        Some("semantic" | "consolidation") => false,
        Some(_) | None => page.path.is_under(prefix),
    }
}

fn episode(page: &MetaRow) -> MemoryEpisode {
    let of = |key: &str| page.metadata.get(key).and_then(text);
    MemoryEpisode {
        path: page.path.clone(),
        episode_id: of("episode_id").or_else(|| of("id")),
        memory_kind: of("memory_kind"),
    }
}

/// A plain value as text: an id may well be written as a number.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
