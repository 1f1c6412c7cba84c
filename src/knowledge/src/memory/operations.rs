use schemars::JsonSchema;
use serde::Deserialize;
use svcfs_base::{Fault, TreePath};

use super::context::AgentContext;
use super::report::EpisodeReport;
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Memory",
    operations: &[OperationEntry::new::<GetContext>(), OperationEntry::new::<GetMemoryReport>()],
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
        let text: Vec<String> = present.map(|(title, text)| format!("=== {title} ===\n\n{text}")).collect();
        Some(match text.is_empty() {
            true => "There is no playbook, no schema and no index page. The resource svc://schema describes this tree."
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
