//! Report of episodes and of those that are not merged yet.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svcfs_base::{Fault, Permissions, TreePath};
use svcfs_index::{Index, MetaRow};

/// Types of `merged-from` entries that name an episode by id.
const EPISODIC_TYPES: [&str; 6] = ["episode", "run", "session", "trace", "event", "ingest"];

/// The episodes of a tree.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EpisodeReport {
    /// Number of episodes
    pub episodic_count: usize,
    /// Number of `merged-from` entries in all pages
    pub merged_from_refs: usize,
    /// The episodes, in path order
    pub episodic_files: Vec<MemoryEpisode>,
    /// The episodes that no page names in `merged-from`
    pub unmerged: Vec<MemoryEpisode>,
    /// Reasons why episodes cannot be referenced, such as a missing id
    pub warnings: Vec<String>,
}

/// A page that records an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryEpisode {
    /// Path of the page
    pub path: TreePath,
    /// `episode_id` in the frontmatter, else `id`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episode_id: Option<String>,
    /// `memory_kind` in the frontmatter
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_kind: Option<String>,
}

/// Reports the episodes that the caller may see.
///
/// An episode has `memory_kind: episodic`, or is below `prefix` with neither `semantic` nor
/// `consolidation`.
pub fn report_episodes(index: &Index, prefix: &TreePath, permissions: &Permissions) -> Result<EpisodeReport, Fault> {
    let mut pages = index.pages_with_keys(&["memory_kind", "episode_id", "id", "merged-from"])?;
    pages.retain(|page| permissions.covers(&page.path));
    let mut merged = MergedEpisodes::default();
    for page in &pages {
        merged.add(page);
    }
    let mut episodes: Vec<MemoryEpisode> = pages.iter().filter(|page| is_episodic(page, prefix)).map(episode).collect();
    // Pages below the prefix without these keys are episodes, too.
    let seen: HashSet<&TreePath> = pages.iter().map(|page| &page.path).collect();
    let unmarked = index.paths(prefix)?.into_iter().filter(|path| !seen.contains(path) && permissions.covers(path));
    let unmarked: Vec<MemoryEpisode> =
        unmarked.map(|path| MemoryEpisode { path, episode_id: None, memory_kind: None }).collect();
    episodes.extend(unmarked);
    episodes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let without_id = episodes.iter().filter(|episode| episode.episode_id.is_none());
    let warnings = without_id
        .map(|episode| {
            format!("{}: no `episode_id` in the frontmatter; `merged-from` can reference it by path only", episode.path)
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

/// The references in `merged-from` of all pages.
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
            if is_episodic && let Some(id) = entry.get("id").and_then(scalar_text) {
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
    let read = |key: &str| page.metadata.get(key).and_then(scalar_text);
    MemoryEpisode {
        path: page.path.clone(),
        episode_id: read("episode_id").or_else(|| read("id")),
        memory_kind: read("memory_kind"),
    }
}

/// A scalar as text: an id may be a number.
fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(scalar_text) if !scalar_text.is_empty() => Some(scalar_text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
