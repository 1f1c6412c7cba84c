use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svcfs_base::{Actor, Caller, Claim, ETag, Fault, Kind, TreePath};
use svcfs_text::frontmatter;

use super::edits::{add_to_section, edit_page};
use super::operations::EligibleTask;
use super::queue::{TaskFilter, normalize_label};
use crate::claims::{self, LeaseDuration};
use crate::files::set_fields;
use crate::kernel::{FolderScope, Operation, OperationContext, Route, Space, require_path};
use crate::workflows::{WorkflowDefinition, WorkflowState, strings};

/// Maximum size of a result.
const MAX_RESULT_BYTES: usize = 64 << 10;

/// Take the most urgent task that can be started
///
/// Use it as a worker: it lists eligible tasks and claims the first one in one step, so that no two
/// workers get the same. Work on the page, send `fence` with your writes, renew the claim before
/// `expires_at`, and end with `task_done`. A lease that ends before counts as a failed attempt; the
/// third one fails the task. `task` is null when nothing can be started. Needs your name
/// (`X-Actor`, or `actor` of a tool).
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TakeNextTask {
    /// Only tasks at or below this path
    #[serde(default)]
    #[schemars(example = &"tasks")]
    pub path_prefix: Option<TreePath>,
    /// Only tasks with all of these in `labels` or `tags`
    #[serde(default)]
    #[schemars(example = ["docs"])]
    pub labels: Vec<String>,
    /// Length of the lease, such as `30m` or `1h30m`: at least 1m (less is raised), at most 24h
    #[serde(default)]
    pub lease: LeaseDuration,
}

/// A task for one worker.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TakenTask {
    /// The task; null when nothing can be started
    pub task: Option<EligibleTask>,
    /// Your claim on its page
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Number of this attempt, from 1
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

impl Operation for TakeNextTask {
    const NAME: &'static str = "task_next";
    const LIMITED: bool = false;
    const REQUIRES_ACTOR: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path_prefix");
    const HTTP: &'static [Route] = &[Route::post("/tasks/next")];
    const TOOL: bool = true;
    type Output = TakenTask;
    fn run(self, cx: &OperationContext<'_>) -> Result<TakenTask, Fault> {
        let actor = claims::require_actor(cx)?;
        let space = cx.space;
        space.vfs.check_claims_enabled()?;
        for lapsed in space.vfs.lapsed_claims() {
            if let Err(fault) = claims::end_lapsed(space, &lapsed) {
                tracing::warn!(page.path = %lapsed.path, error = ?fault, "cannot end a lapsed claim");
            }
        }
        let filter = TaskFilter {
            below: self.path_prefix.unwrap_or_else(TreePath::root),
            labels: self.labels.iter().map(|label| normalize_label(label)).collect(),
        };
        while let Some(task) = space.task_queue.take(space, &filter)? {
            match claim_taken(space, &actor, &task.path, self.lease) {
                Ok(Some(claim)) => {
                    let attempt = Some(claim.attempt);
                    return Ok(TakenTask { task: Some(task), claim: Some(claim), attempt });
                }
                Ok(None) => {}
                Err(fault) => {
                    space.task_queue.put_back(&task.path);
                    return Err(fault);
                }
            }
        }
        Ok(TakenTask { task: None, claim: None, attempt: None })
    }
    fn render_text(taken: &TakenTask) -> Option<String> {
        // Tools leave out null: their text would be `{}`.
        taken.task.is_none().then(|| "No task can be started now".to_owned())
    }
}

/// Claims a task that was taken from the queue; none when it cannot be started any more.
fn claim_taken(space: &Space, actor: &Actor, path: &TreePath, lease: LeaseDuration) -> Result<Option<Claim>, Fault> {
    // Another worker may have it: then its end puts it back.
    let Ok(mut started) = claims::start(space, actor, path, lease.get())? else { return Ok(None) };
    if started.is_renewal() {
        return Ok(None);
    }
    // Before the claim started, another worker may have finished it.
    let Some(attempt) = super::next_attempt(space, path) else { return Ok(None) };
    started.set_attempt(attempt);
    started.confirm().map(Some)
}

/// Renew the claim on your task
///
/// Use it before `expires_at` while you still work on the task. 409 when your lease has ended or
/// another worker has the task: stop working on it then.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RenewTask {
    /// Path of the task
    #[schemars(example = "tasks/a.md")]
    pub path: TreePath,
    /// Number `fence` of your claim
    pub fence: u64,
    /// Length of the lease from now on: at least 1m (less is raised), at most 24h
    #[serde(default)]
    pub lease: LeaseDuration,
}

impl Operation for RenewTask {
    const NAME: &'static str = "task_renew";
    const LIMITED: bool = false;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/tasks/renew")];
    type Output = Claim;
    fn run(self, cx: &OperationContext<'_>) -> Result<Claim, Fault> {
        require_path("path", &self.path)?;
        cx.space.vfs.renew_claim(cx.caller, &self.path, self.fence, self.lease.get())
    }
}

/// How work on a task ended.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskOutcome {
    /// It is finished.
    #[default]
    Done,
    /// It cannot be done.
    Failed,
    /// Something else must happen first.
    Blocked,
}

impl TaskOutcome {
    const fn status(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
        }
    }
    /// The state of the task's workflow: for finished work `done`, else the first terminal one.
    fn state(self, workflow: &WorkflowDefinition) -> Option<&WorkflowState> {
        let terminal = || workflow.states.iter().find(|state| state.terminal && matches!(self, Self::Done));
        workflow.state(self.status()).or_else(terminal)
    }
}

/// End your work on a task
///
/// Sets `status` and `state` of the task, adds the result to its section `## Result`, and releases
/// your claim. 409 when your lease has ended or another worker has the task: nothing is changed
/// then.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EndTask {
    /// Path of the task
    #[schemars(example = "tasks/a.md")]
    pub path: TreePath,
    /// Number `fence` of your claim
    pub fence: u64,
    /// How it ended
    #[serde(default)]
    pub outcome: TaskOutcome,
    /// What came of it, as markdown
    #[serde(default)]
    pub result: Option<String>,
    /// Pages or files that were made
    #[serde(default)]
    pub artifacts: Vec<String>,
}

/// A task whose work has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EndedTask {
    /// Path of the task
    pub path: TreePath,
    /// Its status
    pub status: &'static str,
    /// Its state; null when it is in no workflow
    pub state: Value,
    /// Hash of the page
    pub etag: ETag,
}

impl Operation for EndTask {
    const NAME: &'static str = "task_done";
    const LIMITED: bool = false;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/tasks/done")];
    const TOOL: bool = true;
    type Output = EndedTask;
    fn run(self, cx: &OperationContext<'_>) -> Result<EndedTask, Fault> {
        require_path("path", &self.path)?;
        let Self { path, fence, outcome, result, artifacts } = self;
        if result.as_ref().is_some_and(|result| result.len() > MAX_RESULT_BYTES) {
            return Err(Fault::new(Kind::TooLarge, "`result` has more than 64 KiB; write a page, and name it here"));
        }
        let caller = Caller { claim_fence: Some(fence), ..cx.caller.clone() };
        let status = outcome.status();
        // Checked early, because ending an ended task may change nothing.
        cx.space.vfs.check_claim(&caller, &path)?;
        let edit = |text: &str| {
            let fields = frontmatter::parse(text).map;
            super::check_is_task(&path, &fields)?;
            let mut changes = vec![("status", json!(status))];
            let workflow = super::workflow_of(cx.space, &fields);
            let state = workflow.as_ref().and_then(|workflow| outcome.state(workflow));
            changes.extend(state.map(|state| ("state", json!(state.name))));
            if !artifacts.is_empty() {
                let mut all = fields.get("artifacts").map(strings).unwrap_or_default();
                artifacts.iter().for_each(|artifact| {
                    if !all.contains(artifact) {
                        all.push(artifact.clone());
                    }
                });
                changes.push(("artifacts", json!(all)));
            }
            let edited = set_fields(text, &changes)?;
            let result = result.as_deref().map(str::trim).filter(|result| !result.is_empty());
            Ok(Some(result.map_or(edited.clone(), |result| add_to_section(&edited, "Result", result))))
        };
        let message = format!("{}: {status}: {path}", caller.actor());
        let edited = edit_page(cx.space, &caller, &path, &message, edit)?;
        cx.space.vfs.release_claim(&caller.actor(), &path, Some(fence))?;
        let (etag, _) = edited.ok_or_else(|| Fault::file_not_found(&path))?;
        let fields = super::stored_fields(cx.space, &path).unwrap_or_default();
        let state = fields.get("state").cloned().unwrap_or_default();
        Ok(EndedTask { path, status, state, etag })
    }
}
