mod pages;
mod review;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, Fault};

use super::{DraftSummary, check_enabled, check_folder, find, find_for_change, named_caller, summary};
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route};
use pages::{ListDraftTree, ReadDraftFile, RemoveDraftFile, WriteDraftFile};
use review::{DiffDraft, MergeDraft};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Drafts",
    operations: &[
        OperationEntry::new::<CreateDraft>(),
        OperationEntry::new::<ListDrafts>(),
        OperationEntry::new::<GetDraft>(),
        OperationEntry::new::<DiffDraft>(),
        OperationEntry::new::<MergeDraft>(),
        OperationEntry::new::<DiscardDraft>(),
        OperationEntry::new::<ReadDraftFile>(),
        OperationEntry::new::<WriteDraftFile>(),
        OperationEntry::new::<RemoveDraftFile>(),
        OperationEntry::new::<ListDraftTree>(),
    ],
};

/// The name of the id for agents.
const DRAFT_ID: &[(&str, &str)] = &[("draft_id", "id")];

/// Open a draft: change pages beside the tree until they are merged
///
/// Use it when a person should review your changes. Write pages with `draft_write`; the tree is
/// unchanged until the draft is merged. Returns the id of the draft. Search, backlinks and queries
/// do not see drafts.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CreateDraft {
    /// Owner of the draft; over HTTP it overrides the header `X-Actor`; default `api`
    #[serde(default)]
    pub actor: Option<Actor>,
}

impl Operation for CreateDraft {
    const NAME: &'static str = "draft_create";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::post("/drafts").created()];
    const TOOL: bool = true;
    type Output = DraftSummary;
    fn run(self, cx: &OperationContext<'_>) -> Result<DraftSummary, Fault> {
        check_enabled(cx)?;
        // An empty name is none, and must not become `anonymous`.
        let named = self.actor.filter(|actor| *actor != Actor::new(""));
        let actor = named_caller(cx, named, "api").actor();
        let draft = cx.space.vfs.open_draft(actor, cx.settings().drafts.max_active)?;
        Ok(summary(cx, &cx.space.vfs.draft(draft.id)?))
    }
    fn render_text(draft: &DraftSummary) -> Option<String> {
        let DraftSummary { id, branch, actor, created_at, .. } = draft;
        Some(format!("Opened draft {id} of {actor} at {created_at} (branch {branch}); it changes 0 pages"))
    }
}

/// List the open drafts, oldest first
///
/// Returns owner, age and changed pages of each: `ahead` is the number of pages that it changes,
/// `behind` the number of changes of the tree since it was opened.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListDrafts {}

impl Operation for ListDrafts {
    const NAME: &'static str = "draft_list";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/drafts")];
    const TOOL: bool = true;
    type Output = Vec<DraftSummary>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<DraftSummary>, Fault> {
        check_enabled(cx)?;
        Ok(cx.space.vfs.drafts().iter().map(|view| summary(cx, view)).collect())
    }
}

/// Describe a draft
///
/// Returns its owner, age and the pages that it changes.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetDraft {
    /// Id of the draft
    #[schemars(example = "4f2a09c1")]
    pub id: String,
}

impl Operation for GetDraft {
    const NAME: &'static str = "draft_get";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/drafts/{id}")];
    type Output = DraftSummary;
    fn run(self, cx: &OperationContext<'_>) -> Result<DraftSummary, Fault> {
        Ok(summary(cx, &find(cx, &self.id)?))
    }
}

/// Discard a draft with its changes
///
/// The tree is unchanged. The draft cannot be opened again.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DiscardDraft {
    /// Id of the draft
    #[schemars(example = "4f2a09c1")]
    pub id: String,
}

/// The result of discarding a draft.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DiscardedDraft {
    /// Always `discarded`
    pub status: &'static str,
    /// Id of the draft
    pub id: String,
}

impl Operation for DiscardDraft {
    const NAME: &'static str = "draft_discard";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::delete("/drafts/{id}").no_content()];
    const TOOL: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = DRAFT_ID;
    type Output = DiscardedDraft;
    fn run(self, cx: &OperationContext<'_>) -> Result<DiscardedDraft, Fault> {
        let view = find_for_change(cx, &self.id)?;
        check_folder(cx, &view)?;
        cx.space.vfs.discard_draft(view.draft().id)?;
        Ok(DiscardedDraft { status: "discarded", id: self.id })
    }
    fn render_text(discarded: &DiscardedDraft) -> Option<String> {
        Some(format!("Discarded draft {}", discarded.id))
    }
}
