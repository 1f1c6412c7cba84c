//! Dataview queries with the limits of the settings, and their results in the shape of DQL.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use svcfs_base::{Fault, Timestamp, TreePath};
use svcfs_config::DataviewSettings;
use svcfs_dataview::{DataviewQuery, QueryType, ResultRow};
use svcfs_index::{DataviewAnswer, DataviewLimits, Index, QueryAnswer, QueryMode, RowGroup, VisiblePages};
use svcfs_vfs::Vfs;

use super::{MarkdownStyle, RowWindow};

/// Limit of rows in a result. A query of Dataview has no other default.
const MAX_ROWS: usize = 200;

/// What a Dataview query runs over.
#[derive(Clone, Copy)]
pub struct DataviewScope<'a> {
    /// The files, for times of creation.
    pub vfs: &'a Vfs,
    /// The pages.
    pub index: &'a Index,
    /// Limits.
    pub settings: &'a DataviewSettings,
    /// The current time.
    pub now: Timestamp,
    /// Restricts the query to pages below this directory.
    pub below: Option<&'a TreePath>,
    /// Restricts the query to these pages.
    pub visible: Option<&'a Arc<VisiblePages>>,
    /// The page that contains the query.
    pub page: Option<&'a TreePath>,
}

/// Runs a query.
///
/// # Errors
/// `Invalid` when the query cannot be answered, takes too long, or its page does not exist; those
/// of the index.
pub fn run_dataview(query: &DataviewQuery, scope: &DataviewScope<'_>) -> Result<DataviewAnswer, Fault> {
    let created = if query.reads_creation() {
        let times = scope.vfs.first_times()?.into_iter();
        times.map(|(path, time)| (path.to_string(), time)).collect()
    } else {
        HashMap::new()
    };
    let limits = DataviewLimits {
        page: scope.page,
        now: scope.now,
        max_scan_rows: scope.settings.max_scan_rows,
        timeout: scope.settings.query_timeout,
        folder: scope.below,
        visible: scope.visible,
        created,
    };
    Ok(scope.index.query_dataview(query, &limits)?)
}

/// What the caller should know about a result.
pub(super) fn notes(answer: &DataviewAnswer) -> Vec<String> {
    let scanned = answer.scanned_rows.map(|scanned| {
        format!(
            "only the first {scanned} pages were scanned (`dataview.max_scan_rows`); narrow the query with FROM, or \
             raise the setting"
        )
    });
    answer.result.notes.iter().cloned().chain(scanned).collect()
}

/// The form in which Dataview shows this type of query.
pub(super) const fn style(answer: &DataviewAnswer) -> MarkdownStyle {
    match answer.result.query_type {
        QueryType::Table | QueryType::Calendar => MarkdownStyle::Table,
        QueryType::List => MarkdownStyle::List,
        QueryType::Task => MarkdownStyle::Task,
    }
}

/// The rows of a window.
pub(super) fn window_of(answer: &DataviewAnswer, window: RowWindow) -> std::ops::Range<usize> {
    let total = answer.result.rows.len();
    let start = window.offset.min(total);
    start..start.saturating_add(window.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS)).min(total)
}

/// The result in the shape of DQL: rows that are pages have `path` first, tasks have the columns of
/// TASK.
pub(super) fn to_query_answer(answer: &DataviewAnswer, window: RowWindow) -> QueryAnswer {
    let result = &answer.result;
    let mut headers = result.headers.clone();
    let mode = match result.query_type {
        QueryType::Table => QueryMode::Table,
        QueryType::List => QueryMode::List,
        QueryType::Task => QueryMode::Task,
        QueryType::Calendar => QueryMode::Calendar,
    };
    match result.query_type {
        QueryType::Table | QueryType::List if result.has_id && !result.is_grouped => headers[0] = "path".to_owned(),
        QueryType::Table | QueryType::List => {}
        QueryType::Task => headers = ["path", "text", "completed", "line", "tags", "due"].map(str::to_owned).to_vec(),
        QueryType::Calendar => headers = ["path", "date"].map(str::to_owned).to_vec(),
    }
    let is_page = result.has_id && !result.is_grouped;
    let range = window_of(answer, window);
    let rows: Vec<Vec<Value>> = result.rows[range.clone()].iter().map(|row| cells(row, is_page)).collect();
    let has_more = range.end < result.rows.len() || answer.scanned_rows.is_some();
    let groups = result.groups.as_ref().map(|groups| {
        let mut next = 0;
        let group = |group: &svcfs_dataview::ResultGroup| {
            let all = next..next + group.row_count;
            next = all.end;
            let shown = all.start.max(range.start)..all.end.min(range.end);
            let rows = result.rows.get(shown).unwrap_or_default().iter().map(|row| cells(row, is_page)).collect();
            RowGroup { key: group.key.to_json(), count: group.row_count, rows }
        };
        groups.iter().map(group).filter(|group| !group.rows.is_empty()).collect()
    });
    QueryAnswer {
        mode,
        headers,
        rows,
        total: result.rows.len(),
        scanned_rows: answer.scanned_rows,
        has_more,
        count: None,
        groups,
        summaries: None,
        notes: result.notes.clone(),
    }
}

fn cells(row: &ResultRow, is_page: bool) -> Vec<Value> {
    if let Some(task) = &row.task {
        let item = &task.page.items[task.index];
        let due = item.fields.iter().find(|(key, _)| key.eq_ignore_ascii_case("due")).map(|(_, due)| due);
        let is_completed = matches!(item.status, Some('x' | 'X'));
        return vec![
            json!(task.page.path),
            json!(item.text),
            json!(is_completed),
            json!(item.line + 1),
            json!(item.tags),
            json!(due),
        ];
    }
    let values = row.cells.iter().map(svcfs_dataview::Value::to_json);
    match &row.path {
        Some(path) if row.is_calendar => {
            vec![json!(path), row.cells.first().map_or(Value::Null, |date| date.to_json())]
        }
        Some(path) if is_page => std::iter::once(json!(path)).chain(values.skip(1)).collect(),
        _ => values.collect(),
    }
}
