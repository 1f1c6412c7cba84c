//! The wire shapes of tasks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svcfs_base::{Fault, Limit, TreePath};

use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea =
    OperationArea { title: "Tasks", operations: &[OperationEntry::new::<ListEligibleTasks>()] };

/// List tasks that can be taken up now, the most urgent first
///
/// A task is a page with `status: todo`. One whose `depends_on` or `blocked_by` names a page that is not finished is left out.
/// They are sorted by `priority` (1 before 2; `urgent`, `high`, `medium`, `low` are understood; 3 when absent), then by `due`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListEligibleTasks {
    /// How many tasks
    #[serde(default)]
    pub limit: Limit<10, 200>,
    /// Only pages at or below this path
    #[serde(default)]
    #[schemars(example = "tasks/open")]
    pub path_prefix: Option<TreePath>,
}

/// Tasks that can be taken up.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EligibleTasks {
    /// The most urgent first
    pub tasks: Vec<EligibleTask>,
}

/// A task that can be taken up.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EligibleTask {
    /// Its page
    pub path: TreePath,
    /// The page's title
    pub title: String,
    /// Its status, as written
    pub status: Value,
    /// Its priority, as written; null when it has none
    pub priority: Value,
}

impl Operation for ListEligibleTasks {
    const NAME: &'static str = "eligible";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path_prefix");
    const HTTP: &'static [Route] = &[Route::get("/eligible")];
    const TOOL: bool = true;
    type Output = EligibleTasks;
    fn run(self, cx: &OperationContext<'_>) -> Result<EligibleTasks, Fault> {
        let below = self.path_prefix.unwrap_or_else(TreePath::root);
        let found = super::list_eligible(cx.index(), &below, self.limit.get())?;
        let task = |mut row: svcfs_index::MetaRow| {
            let mut field = |name: &str| row.metadata.get_mut(name).map(Value::take).unwrap_or_default();
            let (status, priority) = (field("status"), field("priority"));
            EligibleTask { path: row.path, title: row.title, status, priority }
        };
        Ok(EligibleTasks { tasks: found.into_iter().map(task).collect() })
    }
}
