use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svcfs_base::{Fault, Limit, TreePath};

use super::creation::CreateTask;
use super::progress::AddTaskProgress;
use super::queue::TaskFilter;
use super::work::{EndTask, RenewTask, TakeNextTask};
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Tasks",
    operations: &[
        OperationEntry::new::<ListEligibleTasks>(),
        OperationEntry::new::<CreateTask>(),
        OperationEntry::new::<TakeNextTask>(),
        OperationEntry::new::<RenewTask>(),
        OperationEntry::new::<AddTaskProgress>(),
        OperationEntry::new::<EndTask>(),
    ],
};

/// List tasks that can be started now, most urgent first
///
/// Use it to see what can be done; `task_next` also claims one. A task is a page with
/// `status: todo`; it is left out while an actor has claimed it, or a page in its `depends_on` or
/// `blocked_by` is not finished. Sorted by `priority` (1 before 2;
/// `urgent`, `high`, `medium`, `low` are valid; default 3), then by `due`. Returns path, title,
/// status and priority of each task.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListEligibleTasks {
    /// Maximum number of tasks
    #[serde(default)]
    pub limit: Limit<10, 200>,
    /// Only pages at or below this path
    #[serde(default)]
    #[schemars(example = "tasks/open")]
    pub path_prefix: Option<TreePath>,
}

/// Tasks that can be started.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EligibleTasks {
    /// The tasks, most urgent first
    pub tasks: Vec<EligibleTask>,
}

/// A task that can be started.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EligibleTask {
    /// Path of its page
    pub path: TreePath,
    /// Title of its page
    pub title: String,
    /// Its status, as written
    pub status: Value,
    /// Its priority, as written; null if it has none
    pub priority: Value,
}

impl Operation for ListEligibleTasks {
    const NAME: &'static str = "eligible";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path_prefix");
    const HTTP: &'static [Route] = &[Route::get("/eligible")];
    const TOOL: bool = true;
    type Output = EligibleTasks;
    fn run(self, cx: &OperationContext<'_>) -> Result<EligibleTasks, Fault> {
        // Names of dependencies are found in the index.
        cx.index();
        let filter = TaskFilter { below: self.path_prefix.unwrap_or_else(TreePath::root), labels: Vec::new() };
        Ok(EligibleTasks { tasks: cx.space.task_queue.list(cx.space, &filter, self.limit.get())? })
    }
}
