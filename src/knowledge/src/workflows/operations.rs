use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{Actor, ETag, Fault, TreePath};

use super::board::{WorkflowBoard, read_board};
use super::state_change;
use super::{
    StateCounts, WorkflowDefinition, WorkflowState, WorkflowTransition, read_definition, read_stored_definition,
};
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, require_path};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Workflows",
    operations: &[
        OperationEntry::new::<ListWorkflows>(),
        OperationEntry::new::<GetWorkflow>(),
        OperationEntry::new::<SaveWorkflow>(),
        OperationEntry::new::<DeleteWorkflow>(),
        OperationEntry::new::<AssignWorkflow>(),
        OperationEntry::new::<AdvancePage>(),
        OperationEntry::new::<ReorderPages>(),
        OperationEntry::new::<ReadBoard>(),
    ],
};

/// Author of changes of callers without a name.
const DEFAULT_ACTOR: &str = "system";

const WORKFLOW_NAME: &str = "^[A-Za-z0-9]([A-Za-z0-9 _-]{0,126}[A-Za-z0-9_-])?$";

/// Limit of the pages of one `workflow_reorder`.
const MAX_REORDERED: usize = 10_000;

/// List the workflows
///
/// A workflow defines the states of pages and the transitions between them. Returns each
/// definition and the number of pages in each state.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListWorkflows {}

/// All workflows.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkflowList {
    /// The valid definitions, by name
    pub workflows: Vec<WorkflowDefinition>,
    /// Number of pages in each state, for each of `workflows`
    pub counts: Vec<WorkflowCounts>,
    /// Files in `.svc/workflows` that are not valid definitions: path and reason
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// Numbers of pages in the states of a workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkflowCounts {
    /// Name of the workflow
    pub workflow: String,
    /// Number of pages in each state
    pub states: StateCounts,
}

impl Operation for ListWorkflows {
    const NAME: &'static str = "workflow_list";
    const HTTP: &'static [Route] = &[Route::get("/workflows")];
    const TOOL: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    type Output = WorkflowList;
    fn run(self, cx: &OperationContext<'_>) -> Result<WorkflowList, Fault> {
        let (workflows, errors) = super::read_all(cx)?;
        let mut counts = Vec::with_capacity(workflows.len());
        for workflow in &workflows {
            counts.push(WorkflowCounts { workflow: workflow.name.clone(), states: super::count_states(cx, workflow)? });
        }
        Ok(WorkflowList { workflows, counts, errors })
    }
}

/// Read the definition of a workflow
///
/// Returns its states and transitions. For the pages in it use `workflow_board`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetWorkflow {
    /// Name of the workflow
    #[schemars(regex(pattern = WORKFLOW_NAME), example = &"tasks")]
    pub name: String,
}

impl Operation for GetWorkflow {
    const NAME: &'static str = "workflow_get";
    const HTTP: &'static [Route] = &[Route::get("/workflows/{name}").json_fallback("workflow").etag()];
    const TOOL: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    type Output = StoredWorkflow;
    fn run(self, cx: &OperationContext<'_>) -> Result<StoredWorkflow, Fault> {
        let (workflow, etag) = read_stored_definition(&cx.space.vfs, &self.name)?;
        Ok(StoredWorkflow { workflow, etag })
    }
}

/// A workflow as it is stored.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StoredWorkflow {
    /// The definition
    pub workflow: WorkflowDefinition,
    /// Entity tag of its file
    pub etag: ETag,
}

/// Save a workflow, replacing one with the same name
///
/// Every state must be reachable from the first one, and no transition may leave a terminal state.
/// A state with pages cannot be removed unless `force` is set; its pages keep it and are shown as
/// `__unmatched__`. The definition is the versioned file `.svc/workflows/<name>.json`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({
    "name": "editorial",
    "states": [{ "name": "draft" }, { "name": "review", "wip_limit": 3 }, { "name": "published", "terminal": true }],
    "transitions": [{ "from": "draft", "to": "review" }, { "from": "review", "to": "draft" }, { "from": "review", "to": "published" }],
}))]
pub struct SaveWorkflow {
    /// Name of the workflow: letters, digits, spaces, `_` and `-`
    #[schemars(regex(pattern = WORKFLOW_NAME))]
    pub name: String,
    /// The states, in the order of the board; pages start in the first
    #[schemars(length(min = 1))]
    pub states: Vec<WorkflowState>,
    /// The allowed transitions
    pub transitions: Vec<WorkflowTransition>,
    /// Also remove states that pages have
    #[serde(default)]
    pub force: bool,
}

/// The result of saving a workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SavedWorkflow {
    /// Always `saved`
    pub status: &'static str,
    /// The definition as saved
    pub workflow: WorkflowDefinition,
    /// Entity tag of its file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<ETag>,
}

impl Operation for SaveWorkflow {
    const NAME: &'static str = "workflow_save";
    const HTTP: &'static [Route] = &[Route::put("/workflows/{name}").path_wins().query(&["force"]).etag()];
    const TOOL: bool = true;
    const CONDITIONAL: bool = true;
    type Output = SavedWorkflow;
    fn run(self, cx: &OperationContext<'_>) -> Result<SavedWorkflow, Fault> {
        let Self { name, states, transitions, force } = self;
        let workflow = WorkflowDefinition { name, states, transitions };
        let etag = super::save(cx, &workflow, force)?;
        Ok(SavedWorkflow { status: "saved", workflow, etag })
    }
}

/// Delete a workflow
///
/// Its pages keep their state and can no longer be advanced. Older versions of the definition stay
/// in the history.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeleteWorkflow {
    /// Name of the workflow
    #[schemars(regex(pattern = WORKFLOW_NAME))]
    pub name: String,
}

/// The result of deleting a workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedWorkflow {
    /// Always `deleted`
    pub status: &'static str,
    /// Name of the workflow
    pub name: String,
}

impl Operation for DeleteWorkflow {
    const NAME: &'static str = "workflow_delete";
    const HTTP: &'static [Route] = &[Route::delete("/workflows/{name}")];
    type Output = DeletedWorkflow;
    fn run(self, cx: &OperationContext<'_>) -> Result<DeletedWorkflow, Fault> {
        super::delete(cx, &self.name)?;
        Ok(DeletedWorkflow { status: "deleted", name: self.name })
    }
}

/// Put a page into a state of a workflow
///
/// Sets `workflow` and `state` in the frontmatter; any state is allowed, unless the settings
/// enforce transitions and the page is in that workflow already. To move a page along the
/// transitions use `workflow_advance`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AssignWorkflow {
    /// Path of the page
    #[schemars(example = "tasks/example.md")]
    pub path: TreePath,
    /// Name of the workflow
    #[schemars(regex(pattern = WORKFLOW_NAME), example = &"tasks")]
    pub workflow: String,
    /// Name of the state; case and repeated spaces do not count
    #[schemars(example = &"backlog")]
    pub state: String,
    /// Position in the column of that state, smallest first
    #[serde(default)]
    pub ordinal: Option<i64>,
    /// Author of the commit, for callers whose key or header has no name
    #[serde(default)]
    pub actor: Option<Actor>,
}

/// A page in a workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AssignedPage {
    /// Path of the page
    pub path: TreePath,
    /// Name of the workflow
    pub workflow: String,
    /// Its state
    pub state: String,
    /// Hash of its content
    pub etag: ETag,
    /// Whether the page was in that state already, so that nothing was written
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub noop: bool,
}

impl Operation for AssignWorkflow {
    const NAME: &'static str = "workflow_assign";
    const LIMITED: bool = false;
    const HTTP: &'static [Route] = &[Route::post("/workflow/assign")];
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const CONDITIONAL: bool = true;
    type Output = AssignedPage;
    fn run(self, cx: &OperationContext<'_>) -> Result<AssignedPage, Fault> {
        require_path("path", &self.path)?;
        let caller = cx.named_caller(self.actor, DEFAULT_ACTOR);
        let wanted = (self.workflow.as_str(), self.state.as_str(), self.ordinal);
        let change = state_change::assign(cx, &caller, &self.path, wanted)?;
        let (state, etag, noop) = (change.to_state, change.etag, change.is_noop);
        Ok(AssignedPage { path: self.path, workflow: self.workflow, state, etag, noop })
    }
}

/// Move a page to another state of its workflow
///
/// Allowed if the workflow has that transition, the target state has room (`wip_limit`) and, for
/// `in_progress`, all pages in `depends_on` and `blocked_by` are finished; the refusal lists the
/// allowed states. Sets `state` and `modified`; a terminal state sets `status: done` on tasks.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AdvancePage {
    /// Path of the page
    #[schemars(example = "tasks/example.md")]
    pub path: TreePath,
    /// Name of the state to move to; case and repeated spaces do not count
    #[schemars(example = &"in_progress")]
    pub target_state: String,
    /// The workflow that the page is expected to be in
    #[serde(default)]
    pub workflow: Option<String>,
    /// Author of the commit, for callers whose key or header has no name
    #[serde(default)]
    pub actor: Option<Actor>,
}

/// A page that was moved.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AdvancedPage {
    /// Path of the page
    pub path: TreePath,
    /// Its state before
    pub from_state: String,
    /// Its state now
    pub to_state: String,
    /// Hash of its content
    pub etag: ETag,
    /// Whether the page was in that state already, so that nothing was written
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub noop: bool,
}

impl Operation for AdvancePage {
    const NAME: &'static str = "workflow_advance";
    const LIMITED: bool = false;
    const HTTP: &'static [Route] = &[Route::post("/workflow/advance")];
    const TOOL: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const CONDITIONAL: bool = true;
    type Output = AdvancedPage;
    fn run(self, cx: &OperationContext<'_>) -> Result<AdvancedPage, Fault> {
        require_path("path", &self.path)?;
        let caller = cx.named_caller(self.actor, DEFAULT_ACTOR);
        let wanted = (self.workflow.as_deref(), self.target_state.as_str());
        let change = state_change::advance(cx, &caller, &self.path, wanted)?;
        let state_change::StateChange { etag, from_state, to_state, is_noop: noop } = change;
        Ok(AdvancedPage { path: self.path, from_state, to_state, etag, noop })
    }
}

/// Set the order of pages in a state
///
/// Either `workflow`, `state` and `paths`, the pages from top to bottom, in one commit; or `path`
/// and `ordinal` for one page. The order is stored as `ordinal` in the frontmatter.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "workflow": "tasks", "state": "backlog", "paths": ["tasks/b.md", "tasks/a.md"] }))]
pub struct ReorderPages {
    /// Name of the workflow, with `state` and `paths`
    #[serde(default)]
    pub workflow: Option<String>,
    /// Name of the state
    #[serde(default)]
    pub state: Option<String>,
    /// Paths of pages in that state, from top to bottom
    #[serde(default)]
    #[schemars(length(max = MAX_REORDERED))]
    pub paths: Option<Vec<TreePath>>,
    /// Path of one page, with `ordinal`
    #[serde(default)]
    pub path: Option<TreePath>,
    /// Its position in the column of its state, smallest first
    #[serde(default)]
    pub ordinal: Option<i64>,
    /// Author of the commit, for callers whose key or header has no name
    #[serde(default)]
    pub actor: Option<Actor>,
}

/// The new order: of one page, or of the pages of a state.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ReorderedPages {
    /// Path of the page
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<TreePath>,
    /// Its position
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<i64>,
    /// Hash of its content
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<ETag>,
    /// Name of the workflow
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Name of the state
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The pages, from top to bottom
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<Vec<OrderedCard>>,
    /// Whether the pages had this order already, so that nothing was written
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub noop: bool,
}

/// A page with its position.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OrderedCard {
    /// Path of the page
    pub path: TreePath,
    /// Its position
    pub ordinal: i64,
    /// Hash of its content
    pub etag: ETag,
}

impl Operation for ReorderPages {
    const NAME: &'static str = "workflow_reorder";
    const LIMITED: bool = false;
    const HTTP: &'static [Route] = &[Route::post("/workflow/reorder")];
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    type Output = ReorderedPages;
    fn run(self, cx: &OperationContext<'_>) -> Result<ReorderedPages, Fault> {
        let caller = cx.named_caller(self.actor, DEFAULT_ACTOR);
        match (self.path, self.ordinal, self.workflow, self.state, self.paths) {
            (Some(path), Some(ordinal), None, None, None) => {
                require_path("path", &path)?;
                let (etag, noop) = state_change::reorder_one(cx, &caller, (&path, ordinal))?;
                let etag = Some(etag);
                Ok(ReorderedPages { path: Some(path), ordinal: Some(ordinal), etag, noop, ..ReorderedPages::default() })
            }
            (None, None, Some(workflow), Some(state), Some(paths)) => reorder(cx, &caller, (workflow, &state), &paths),
            _ => {
                let why = "send either `workflow`, `state` and `paths`, or `path` and `ordinal`";
                Err(Fault::invalid("paths", why))
            }
        }
    }
}

fn reorder(
    cx: &OperationContext<'_>,
    caller: &svcfs_base::Caller,
    (workflow, state): (String, &str),
    paths: &[TreePath],
) -> Result<ReorderedPages, Fault> {
    if paths.len() > MAX_REORDERED {
        return Err(Fault::invalid("paths", format_args!("{} paths; the limit is {MAX_REORDERED}", paths.len())));
    }
    let mut seen = HashSet::with_capacity(paths.len());
    for (index, path) in paths.iter().enumerate() {
        require_path(&format!("paths[{index}]"), path)?;
        if !seen.insert(path) {
            return Err(Fault::invalid(&format!("paths[{index}]"), format_args!("`{path}` is listed twice")));
        }
    }
    let definition = read_definition(&cx.space.vfs, &workflow)?;
    let Some(column) = definition.state(state) else {
        return Err(Fault::invalid("state", format_args!("`{state}` is not a state of workflow `{workflow}`")));
    };
    let (ordered, noop) = state_change::reorder_all(cx, caller, (&definition, column), paths)?;
    let card = |(path, ordinal, etag)| OrderedCard { path, ordinal, etag };
    let pages = Some(ordered.into_iter().map(card).collect());
    let (workflow, state) = (Some(workflow), Some(column.name.clone()));
    Ok(ReorderedPages { workflow, state, pages, noop, ..ReorderedPages::default() })
}

/// Read the board of a workflow: its pages by state
///
/// Every state is listed, in the order of the definition; pages whose state is not defined are
/// listed as `__unmatched__`. Returns title, priority, tags, due date, author and blockers of each
/// page, in order of `ordinal`, then of path.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadBoard {
    /// Name of the workflow
    #[schemars(regex(pattern = WORKFLOW_NAME), example = &"tasks")]
    pub workflow: String,
    /// Maximum number of pages of each state; default: all
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
}

impl Operation for ReadBoard {
    const NAME: &'static str = "workflow_board";
    const HTTP: &'static [Route] = &[Route::get("/workflow/board/{workflow}")];
    const TOOL: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("name", "workflow")];
    const AGENT_DEFAULTS: &'static [(&'static str, u32)] = &[("limit", 50)];
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    type Output = WorkflowBoard;
    fn run(self, cx: &OperationContext<'_>) -> Result<WorkflowBoard, Fault> {
        if self.limit == Some(0) {
            return Err(Fault::invalid("limit", "0 is too small; leave it out for all pages"));
        }
        read_board(cx, &self.workflow, self.limit.map(|limit| limit as usize))
    }
}
