use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svcfs_base::{Fault, TreePath};
use svcfs_index::AnswerLimit;
use svcfs_work::Lane;

use super::computed_pages::RefreshOutcome;
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route};
use crate::query::{QueryResult, RowWindow, run_query};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Views",
    operations: &[
        OperationEntry::new::<ListViews>(),
        OperationEntry::new::<GetView>(),
        OperationEntry::new::<SaveView>(),
        OperationEntry::new::<DeleteView>(),
        OperationEntry::new::<ExecuteView>(),
        OperationEntry::new::<RefreshViews>(),
    ],
};

/// A saved query with its layout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SavedView {
    /// Name of the view
    #[serde(default)]
    pub name: String,
    /// Query, as for `query`
    pub query: String,
    /// Layout of the rows
    #[serde(default)]
    pub layout: ViewLayout,
    /// Columns that replace those of the query; if all of them are formulas, they are added instead
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ColumnDefinition>,
    /// Conditions in addition to the query
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<ViewCondition>,
    /// Sort order that replaces that of the query
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sort: Vec<ViewSortKey>,
    /// Field to group rows by
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_by: Option<String>,
}

/// Layout of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ViewLayout {
    /// Rows and columns.
    #[default]
    Table,
    /// One line per row.
    List,
    /// Entries by date.
    Calendar,
    /// Cards in lanes.
    Kanban,
}

/// A column of a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColumnDefinition {
    /// A column of the query or a field of the page
    pub property: String,
    /// Heading of the column; default: `property`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Expression for its cells, such as `round(hours / 8, 1)`; it may use columns of the query
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// Summary of all its cells
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummaryFunction>,
}

/// A summary of all cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SummaryFunction {
    /// Sum of the numbers.
    Sum,
    /// Average of the numbers.
    Avg,
    /// Number of cells with a value.
    Count,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
}

/// A condition of a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ViewCondition {
    /// A column of the query or a field of the page
    pub field: String,
    /// `=`, `!=`, `>`, `<`, `>=`, `<=`, `contains` or `in`
    pub operator: String,
    /// Value to compare with; a list for `in`
    #[serde(default)]
    pub value: Option<Value>,
}

/// A sort key of a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ViewSortKey {
    /// A column of the query or a field of the page
    pub field: String,
    /// Sort direction
    #[serde(default)]
    pub order: ViewSortOrder,
}

/// A sort direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ViewSortOrder {
    /// Smallest first.
    #[default]
    Asc,
    /// Largest first.
    Desc,
}

impl ViewSortOrder {
    /// Whether it is descending.
    pub const fn is_descending(self) -> bool {
        matches!(self, Self::Desc)
    }
}

const VIEW_NAME: &str = "^[A-Za-z0-9][A-Za-z0-9 _-]{0,127}$";

/// List the saved views
///
/// Returns the definition of each view; run one with `views_execute`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListViews {}

/// All saved views.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SavedViews {
    /// The views by name, without invalid files
    pub views: Vec<SavedView>,
}

impl Operation for ListViews {
    const NAME: &'static str = "views_list";
    const HTTP: &'static [Route] = &[Route::get("/views")];
    const TOOL: bool = true;
    type Output = SavedViews;
    fn run(self, cx: &OperationContext<'_>) -> Result<SavedViews, Fault> {
        let mut views = Vec::new();
        for name in super::names(cx)? {
            match super::view(cx, &name) {
                Ok(view) => views.push(view),
                Err(fault) => {
                    tracing::info!(view = name, error = %fault.message(), "a file in `.svc/views` is not a valid view")
                }
            }
        }
        Ok(SavedViews { views })
    }
}

/// Read the definition of a saved view
///
/// Returns query, layout, columns, filters, sort order and grouping. To get its rows use
/// `views_execute`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetView {
    /// Name of the view
    #[schemars(regex(pattern = VIEW_NAME))]
    pub name: String,
}

impl Operation for GetView {
    const NAME: &'static str = "views_get";
    const HTTP: &'static [Route] = &[Route::get("/views/{name}")];
    const TOOL: bool = true;
    type Output = SavedView;
    fn run(self, cx: &OperationContext<'_>) -> Result<SavedView, Fault> {
        super::view(cx, &self.name)
    }
}

/// Save a view, replacing one with the same name
///
/// The query is validated. A view is the versioned file `.svc/views/<name>.json`. Returns the view.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SaveView {
    /// Name of the view: letters, digits, spaces, `_` and `-`
    #[schemars(regex(pattern = VIEW_NAME))]
    pub name: String,
    /// Query, such as `TABLE status, due FROM "tasks/"`
    #[schemars(regex(pattern = r"\S"))]
    pub query: String,
    /// Layout of the rows
    #[serde(default)]
    pub layout: ViewLayout,
    /// Columns that replace those of the query; if all of them are formulas, they are added instead
    #[serde(default)]
    pub columns: Vec<ColumnDefinition>,
    /// Conditions in addition to the query
    #[serde(default)]
    pub filters: Vec<ViewCondition>,
    /// Sort order that replaces that of the query
    #[serde(default)]
    pub sort: Vec<ViewSortKey>,
    /// Field to group rows by
    #[serde(default)]
    pub group_by: Option<String>,
}

impl Operation for SaveView {
    const NAME: &'static str = "views_save";
    const HTTP: &'static [Route] = &[Route::put("/views/{name}").path_wins()];
    const TOOL: bool = true;
    type Output = SavedView;
    fn run(self, cx: &OperationContext<'_>) -> Result<SavedView, Fault> {
        let Self { name, query, layout, columns, filters, sort, group_by } = self;
        let view = SavedView { name, query, layout, columns, filters, sort, group_by };
        super::save(cx, &view)?;
        Ok(view)
    }
}

/// Delete a saved view
///
/// Older versions stay in the history.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeleteView {
    /// Name of the view
    #[schemars(regex(pattern = VIEW_NAME))]
    pub name: String,
}

/// The result of deleting a view.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedView {
    /// Always `deleted`
    pub status: &'static str,
}

impl Operation for DeleteView {
    const NAME: &'static str = "views_delete";
    const HTTP: &'static [Route] = &[Route::delete("/views/{name}")];
    const TOOL: bool = true;
    type Output = DeletedView;
    fn run(self, cx: &OperationContext<'_>) -> Result<DeletedView, Fault> {
        super::remove(cx, &self.name)?;
        Ok(DeletedView { status: "deleted" })
    }
}

/// Run the query of a saved view
///
/// Applies the filters, sort order, grouping, columns, formulas and summaries of the view. Returns
/// rows, `total` and `groups` as `query` does.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExecuteView {
    /// Name of the view
    #[schemars(regex(pattern = VIEW_NAME))]
    pub name: String,
    /// Maximum number of rows; overrides LIMIT of the view's query; default 50
    #[serde(default)]
    pub limit: Option<AnswerLimit>,
    /// Number of rows to skip; overrides OFFSET of the view's query
    #[serde(default)]
    pub offset: u32,
}

impl Operation for ExecuteView {
    const NAME: &'static str = "views_execute";
    const HTTP: &'static [Route] = &[Route::get("/views/{name}/execute")];
    const TOOL: bool = true;
    type Output = QueryResult;
    fn run(self, cx: &OperationContext<'_>) -> Result<QueryResult, Fault> {
        let query = super::query(&super::view(cx, &self.name)?)?;
        let window = RowWindow { limit: self.limit.map(AnswerLimit::get), offset: self.offset as usize };
        let answer = run_query(cx, &query, window)?;
        Ok(QueryResult::new(answer, None))
    }
}

/// Refresh computed pages
///
/// A page with `svc-view: true` in its frontmatter contains the result of its `svc-query` between
/// the lines `<!-- svc:auto -->` and `<!-- /svc-view -->`; missing lines are added after the
/// frontmatter. `svc-format` is `table`, `list`, `count`, `distinct`, `task` or `json`. The server
/// refreshes a page soon after a write that may change its result. Use this operation to refresh
/// immediately, or for a result that changes with time (`now()`). Returns whether the page was
/// written, or the number of refreshed pages and the failures.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RefreshViews {
    /// Page to refresh; default: all computed pages
    #[serde(default)]
    #[schemars(example = "reports/open-tasks.md")]
    pub path: Option<TreePath>,
}

/// The result of a refresh.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RefreshResult {
    /// The requested page
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<TreePath>,
    /// Whether that page was written
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RefreshOutcome>,
    /// Number of pages that are up to date now
    pub refreshed: usize,
    /// Pages that failed, if all were requested
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedRefresh>,
    /// Duration in milliseconds
    pub duration_ms: u64,
}

/// A page that could not be refreshed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FailedRefresh {
    /// Path of the page
    pub path: TreePath,
    /// Reason of the failure
    pub error: String,
}

impl Operation for RefreshViews {
    const NAME: &'static str = "view_refresh";
    const LIMITED: bool = false;
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::post("/view/refresh").query(&["path"])];
    const TOOL: bool = true;
    const LANE: Lane = Lane::Slow;
    type Output = RefreshResult;
    fn run(self, cx: &OperationContext<'_>) -> Result<RefreshResult, Fault> {
        super::refresh(cx, self.path)
    }
    fn render_text(output: &RefreshResult) -> Option<String> {
        match (&output.path, output.status) {
            (Some(path), Some(RefreshOutcome::Regenerated)) => Some(format!("Refreshed {path}")),
            (Some(path), Some(RefreshOutcome::Unchanged)) => Some(format!("{path} is up to date")),
            (Some(_) | None, _) => None,
        }
    }
}
