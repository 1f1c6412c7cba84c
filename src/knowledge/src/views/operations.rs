//! The wire shapes of views.

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

/// A saved query and how it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SavedView {
    /// Its name
    #[serde(default)]
    pub name: String,
    /// The query, as `query` takes it
    pub query: String,
    /// How its rows are laid out
    #[serde(default)]
    pub layout: ViewLayout,
    /// Columns instead of the query's own; when all of them are formulas, columns beside those
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<ColumnDefinition>,
    /// Conditions beside the query's
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<ViewCondition>,
    /// Order instead of the query's
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sort: Vec<ViewSortKey>,
    /// The field to group rows by
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_by: Option<String>,
}

/// How rows are laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ViewLayout {
    /// Rows and columns.
    #[default]
    Table,
    /// One line a row.
    List,
    /// By date.
    Calendar,
    /// Cards in lanes.
    Kanban,
}

/// One column of a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColumnDefinition {
    /// A column of the query, or a field of the page
    pub property: String,
    /// What the column is called; `property` when absent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// An expression that makes its cells instead, such as `round(hours / 8, 1)`; it may name the query's columns
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// What is made of all its cells
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummaryFunction>,
}

/// What is made of all cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SummaryFunction {
    /// The sum of its numbers.
    Sum,
    /// The average of its numbers.
    Avg,
    /// How many cells have a value.
    Count,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

/// One condition of a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ViewCondition {
    /// A column of the query, or a field of the page
    pub field: String,
    /// `=`, `!=`, `>`, `<`, `>=`, `<=`, `contains` or `in`
    pub operator: String,
    /// What it is compared with; a list for `in`
    #[serde(default)]
    pub value: Option<Value>,
}

/// One sort key of a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ViewSortKey {
    /// A column of the query, or a field of the page
    pub field: String,
    /// Which way it runs
    #[serde(default)]
    pub order: ViewSortOrder,
}

/// Which way a list runs.
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
    /// Whether it runs downwards.
    pub const fn is_descending(self) -> bool {
        matches!(self, Self::Desc)
    }
}

/// How the name of a view looks.
const VIEW_NAME: &str = "^[A-Za-z0-9][A-Za-z0-9 _-]{0,127}$";

/// List the saved views
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListViews {}

/// The saved views.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SavedViews {
    /// All of them, by name; a file that is no view is left out
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
                    tracing::info!(view = name, error = %fault.message(), "a file of `.svc/views` is no view")
                }
            }
        }
        Ok(SavedViews { views })
    }
}

/// Read a saved view
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetView {
    /// Its name
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

/// Save a view, replacing one of that name
///
/// The query is read and refused when it cannot be. A view is the file `.svc/views/<name>.json`, with versions like any other.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SaveView {
    /// Its name: letters, digits, blanks, `_` and `-`
    #[schemars(regex(pattern = VIEW_NAME))]
    pub name: String,
    /// The query, such as `TABLE status, due FROM "tasks/"`
    #[schemars(regex(pattern = r"\S"))]
    pub query: String,
    /// How its rows are laid out
    #[serde(default)]
    pub layout: ViewLayout,
    /// Columns instead of the query's own; when all of them are formulas, columns beside those
    #[serde(default)]
    pub columns: Vec<ColumnDefinition>,
    /// Conditions beside the query's
    #[serde(default)]
    pub filters: Vec<ViewCondition>,
    /// Order instead of the query's
    #[serde(default)]
    pub sort: Vec<ViewSortKey>,
    /// The field to group rows by
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

/// Remove a saved view
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DeleteView {
    /// Its name
    #[schemars(regex(pattern = VIEW_NAME))]
    pub name: String,
}

/// That something is gone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeletedView {
    /// `deleted`
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

/// Ask the query of a saved view
///
/// The view's filters, order, groups, columns, formulas and summaries are applied. Rows, `total` and `groups` are as in `query`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExecuteView {
    /// Its name
    #[schemars(regex(pattern = VIEW_NAME))]
    pub name: String,
    /// Rows in the answer; beats the LIMIT of the view's query. Without either 50
    #[serde(default)]
    pub limit: Option<AnswerLimit>,
    /// How many of the first rows to leave out; beats the OFFSET of the view's query
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

/// Write the answers of computed pages anew
///
/// A page whose frontmatter says `svc-view: true` holds the answer of its `svc-query` between the lines `<!-- svc:auto -->` and
/// `<!-- /svc-view -->`, which are set behind the frontmatter when it has none; `svc-format` is `table`, `list`, `count`, `distinct`,
/// `task` or `json`. The server writes it again soon after each write that may change the answer, and only when it did; this
/// operation does so at once. An answer that changes with time alone (`now()`) is written at the next write, or here.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RefreshViews {
    /// Which page; all computed pages when absent
    #[serde(default)]
    #[schemars(example = "reports/open-tasks.md")]
    pub path: Option<TreePath>,
}

/// What became of computed pages.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RefreshResult {
    /// The page that was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<TreePath>,
    /// Whether that page was written
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RefreshOutcome>,
    /// How many pages hold the present answer now
    pub refreshed: usize,
    /// Those that do not, when all were asked for
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedRefresh>,
    /// How long it took, in milliseconds
    pub duration_ms: u64,
}

/// A page that could not be written anew.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FailedRefresh {
    /// Which one
    pub path: TreePath,
    /// Why
    pub error: String,
}

impl Operation for RefreshViews {
    const NAME: &'static str = "view_refresh";
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
