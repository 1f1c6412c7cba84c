//! Results of queries.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::row::RowSource;
use super::{QueryRun, Row, Rows};
use crate::error::{Evaluation, Failure};
use crate::page::Page;
use crate::syntax::{ParsedQuery, QueryType};
use crate::value::Value;

/// The result of a query.
#[derive(Debug, Clone)]
pub struct QueryResult {
    /// The type of the query.
    pub query_type: QueryType,
    /// Whether the first cell is the page or the key of the group.
    pub has_id: bool,
    /// Whether rows are groups.
    pub is_grouped: bool,
    /// One name per cell; the first is `File` or `Group` when rows have an id.
    pub headers: Vec<String>,
    /// The rows; of a grouped TASK the rows of all groups.
    pub rows: Vec<ResultRow>,
    /// The groups of a grouped TASK.
    pub groups: Option<Vec<ResultGroup>>,
    /// What the caller should know, such as rows that were left out.
    pub notes: Vec<String>,
}

/// A row of a result.
#[derive(Debug, Clone)]
pub struct ResultRow {
    /// The page of the row; `None` for groups.
    pub path: Option<String>,
    /// One value per header. Of TASK: text, status, path, line from 0.
    pub cells: Vec<Value>,
    /// The task, in a result of TASK.
    pub task: Option<TaskRow>,
    /// Whether the cells are those of CALENDAR: date, link.
    pub is_calendar: bool,
}

/// A task or list item of a result.
#[derive(Debug, Clone)]
pub struct TaskRow {
    /// Its page.
    pub page: Arc<Page>,
    /// Its index in [`Page::items`].
    pub index: usize,
    /// Number of shown items above it.
    pub depth: usize,
}

/// A group of tasks.
#[derive(Debug, Clone)]
pub struct ResultGroup {
    /// The value that its tasks share.
    pub key: Value,
    /// Number of its rows in [`QueryResult::rows`], which are in the order of the groups.
    pub row_count: usize,
}

pub(super) fn build(run: &mut QueryRun<'_>, parsed: &ParsedQuery, rows: Rows) -> Evaluation<QueryResult> {
    let is_grouped = parsed.commands.iter().any(|command| matches!(command, crate::syntax::Command::Group(_)));
    let has_id = !parsed.without_id || parsed.columns.is_empty();
    let mut result = QueryResult {
        query_type: parsed.kind,
        has_id,
        is_grouped,
        headers: Vec::new(),
        rows: Vec::new(),
        groups: None,
        notes: Vec::new(),
    };
    match parsed.kind {
        QueryType::Table | QueryType::List => {
            if has_id {
                result.headers.push(if is_grouped { "Group" } else { "File" }.to_owned());
            }
            result.headers.extend(parsed.columns.iter().map(|column| column.name.to_string()));
            let cells = run.each(rows, "a column", |evaluator, scope| {
                let id = has_id.then(|| Ok(scope.row.id()));
                let columns = parsed.columns.iter().map(|column| evaluator.evaluate(&column.expression, scope));
                id.into_iter().chain(columns).collect::<Evaluation<Vec<Value>>>()
            })?;
            let row = |(row, cells): (Arc<Row>, Vec<Value>)| ResultRow {
                path: path(&row),
                cells,
                task: None,
                is_calendar: false,
            };
            result.rows = cells.into_iter().map(row).collect();
        }
        QueryType::Calendar => calendar(run, parsed, rows, &mut result)?,
        QueryType::Task => {
            result.headers = ["text", "status", "path", "line"].map(str::to_owned).to_vec();
            if is_grouped {
                let mut groups = Vec::new();
                for group in &rows {
                    let tasks = tasks(&members(group));
                    groups.push(ResultGroup { key: group.id(), row_count: tasks.len() });
                    result.rows.extend(tasks);
                }
                result.groups = Some(groups);
            } else {
                result.rows = tasks(&rows);
            }
        }
    }
    super::unknown::add_notes(run, parsed, &result);
    result.notes = std::mem::take(&mut run.notes);
    Ok(result)
}

fn path(row: &Row) -> Option<String> {
    row.page().map(|page| page.path.clone())
}

fn calendar(run: &mut QueryRun<'_>, parsed: &ParsedQuery, rows: Rows, result: &mut QueryResult) -> Evaluation<()> {
    let Some(column) = parsed.columns.first() else { return Ok(()) };
    result.headers = vec!["date".to_owned(), "file".to_owned()];
    // Groups do not change a calendar.
    let rows = rows.iter().flat_map(members).collect();
    for (row, date) in run.each(rows, "CALENDAR", |evaluator, scope| evaluator.evaluate(&column.expression, scope))? {
        match date {
            Value::Null => {}
            Value::Date(_) => {
                let cells = vec![date, row.id()];
                result.rows.push(ResultRow { path: path(&row), cells, task: None, is_calendar: true });
            }
            other => {
                let (name, page) = (&column.name, path(&row).unwrap_or_default());
                return Err(Failure::query(format!(
                    "CALENDAR requires dates, but `{name}` of `{page}` is {}; add `WHERE typeof({name}) = \"date\"`",
                    other.type_name()
                )));
            }
        }
    }
    Ok(())
}

/// The rows of a group, of groups of groups too; of another row, itself.
fn members(row: &Arc<Row>) -> Rows {
    match (&row.source, row.added("rows")) {
        (RowSource::Group(_), Some(Value::List(items))) => {
            let rows = items.iter().filter_map(|item| if let Value::Row(row) = item { Some(row) } else { None });
            rows.flat_map(members).collect()
        }
        _ => vec![Arc::clone(row)],
    }
}

/// Each task with everything below it, once: a task below a shown one is not repeated.
fn tasks(rows: &Rows) -> Vec<ResultRow> {
    let tasks: Vec<(&Arc<Page>, usize)> = rows
        .iter()
        .filter_map(|row| if let RowSource::Item(page, index) = &row.source { Some((page, *index)) } else { None })
        .collect();
    let selected: HashSet<(&str, usize)> = tasks.iter().map(|(page, index)| (page.path.as_str(), *index)).collect();
    let mut shown = Vec::new();
    for (page, index) in tasks {
        let mut above = page.items[index].parent;
        while let Some(parent) = above.filter(|parent| !selected.contains(&(page.path.as_str(), *parent))) {
            above = page.items[parent].parent;
        }
        if above.is_some() {
            continue;
        }
        let mut depths = vec![(index, 0)];
        add_task(&mut shown, page, index, 0);
        for below in index + 1..page.items.len() {
            let parent = page.items[below].parent;
            let Some((_, depth)) = depths.iter().rev().find(|(item, _)| Some(*item) == parent).copied() else { break };
            depths.truncate(depth + 1);
            depths.push((below, depth + 1));
            add_task(&mut shown, page, below, depth + 1);
        }
    }
    shown
}

fn add_task(shown: &mut Vec<ResultRow>, page: &Arc<Page>, index: usize, depth: usize) {
    let item = &page.items[index];
    let cells = vec![
        Value::text(item.text.as_str()),
        item.status.map_or(Value::Null, |status| Value::text(status.to_string())),
        Value::text(page.path.as_str()),
        Value::Number(item.line as f64),
    ];
    shown.push(ResultRow {
        path: Some(page.path.clone()),
        cells,
        task: Some(TaskRow { page: Arc::clone(page), index, depth }),
        is_calendar: false,
    });
}

impl QueryResult {
    /// The result with typed values, for comparison with that of another evaluator.
    #[must_use]
    pub fn to_tagged_json(&self, resolve: &dyn Fn(&str) -> Option<String>) -> Json {
        let row = |row: &ResultRow| -> Json { row.cells.iter().map(|cell| cell.to_tagged_json(resolve)).collect() };
        let (name, headers) = match self.query_type {
            QueryType::Table => ("table", self.headers.clone()),
            QueryType::List => ("list", Vec::new()),
            QueryType::Task => ("task", Vec::new()),
            QueryType::Calendar => ("calendar", Vec::new()),
        };
        let rows: Json = match &self.groups {
            None => self.rows.iter().map(row).collect(),
            Some(groups) => {
                let mut rest = self.rows.as_slice();
                let group = |group: &ResultGroup| {
                    let (rows, after) = rest.split_at(group.row_count.min(rest.len()));
                    rest = after;
                    json!({ "key": group.key.to_tagged_json(resolve), "rows": rows.iter().map(row).collect::<Json>() })
                };
                groups.iter().map(group).collect()
            }
        };
        json!({ "type": name, "headers": headers, "rows": rows })
    }
}
