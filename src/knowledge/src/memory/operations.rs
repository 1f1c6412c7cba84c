//! The wire shapes of memory.

use schemars::JsonSchema;
use serde::Deserialize;
use svcfs_base::{Fault, TreePath};

use super::context::AgentContext as Pages;
use super::report::EpisodeReport;
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Memory",
    operations: &[OperationEntry::new::<GetContext>(), OperationEntry::new::<GetMemoryReport>()],
};

/// Read what an agent should know before it works here
///
/// The playbook, the schema and the index page, each from `.svc/` or else from the root; empty where there is none. A key that is limited
/// to a folder is told those that lie in that folder itself.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetContext {}

impl Operation for GetContext {
    const NAME: &'static str = "context";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/context")];
    const TOOL: bool = true;
    const TEXT_ONLY: bool = true;
    type Output = Pages;
    fn run(self, cx: &OperationContext<'_>) -> Result<Pages, Fault> {
        super::read_context(cx)
    }
    fn render_text(pages: &Pages) -> Option<String> {
        // The titles are those of gaps.md 4.21.
        let pages = [("SCHEMA", &pages.schema), ("PLAYBOOK", &pages.playbook), ("CURRENT INDEX", &pages.index)];
        let present = pages.iter().filter(|(_, text)| !text.trim().is_empty());
        let text: Vec<String> = present.map(|(title, text)| format!("=== {title} ===\n\n{text}")).collect();
        Some(match text.is_empty() {
            true => "There is no playbook, no schema and no index page. The resource svc://schema describes this tree."
                .to_owned(),
            false => text.join("\n"),
        })
    }
}

/// List the episodes that agents remembered, and those that no page has taken up yet
///
/// An episode is a page with `memory_kind: episodic`, or one below the folder of episodes. It counts as taken up when an entry of
/// some page's `merged-from` names its id or its path.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetMemoryReport {
    /// Folder of episodes; `memory.episodes_path_prefix` of the settings when absent
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
