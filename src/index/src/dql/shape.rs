//! Builds the result of a query: sorts, groups and limits rows, and computes cells.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::Value as Json;

use super::ast::{Expression, ExpressionNode, ParsedQuery, QueryMode};
use super::evaluate::EvaluationScope;
use super::functions::Function;
use super::lexemes::ValueStep;
use super::row::QueryRow;
use super::run::{QueryRun, page_range};
use super::{QueryAnswer, QueryLimits, RowGroup, tasks};
use crate::IndexError;
use crate::value::Value;

/// The name of the first column, and of the COUNT column.
const PATH: &str = "path";
const COUNT: &str = "count";

/// Limit of groups in a result that is not paginated.
const MAX_GROUPS: usize = 10_000;

/// The range of rows in the result, and its column names.
pub(crate) struct ResultFrame {
    pub(crate) limit: usize,
    pub(crate) offset: usize,
    headers: Vec<String>,
}

impl ResultFrame {
    pub(crate) fn of(parsed: &ParsedQuery, limits: &QueryLimits<'_>) -> Self {
        let (limit, offset) = page_range(parsed, limits);
        let names = parsed.columns.iter().map(|column| column.name.clone());
        let key = parsed.group.iter().map(|group| group.name.clone());
        let path = || std::iter::once(PATH.to_owned());
        let headers = match parsed.mode {
            QueryMode::Count => key.chain([COUNT.to_owned()]).collect(),
            QueryMode::Distinct => names.collect(),
            QueryMode::Task => path().chain(tasks::PARTS.map(str::to_owned)).collect(),
            QueryMode::Table | QueryMode::List | QueryMode::Json | QueryMode::Calendar => {
                if parsed.is_aggregated() {
                    let is_shown = |name: &String| parsed.columns.iter().any(|column| column.name == *name);
                    key.filter(|name| !is_shown(name)).chain(names).collect()
                } else if parsed.without_id {
                    names.collect()
                } else {
                    path().chain(names).collect()
                }
            }
        };
        Self { limit, offset, headers }
    }

    fn paginate<T>(&self, rows: Vec<T>) -> Vec<T> {
        rows.into_iter().skip(self.offset).take(self.limit).collect()
    }

    fn answer(&self, mode: QueryMode, rows: Vec<Vec<Json>>, total: usize) -> QueryAnswer {
        let has_more = self.offset.saturating_add(rows.len()) < total;
        QueryAnswer {
            mode,
            headers: self.headers.clone(),
            rows,
            total,
            scanned_rows: None,
            has_more,
            count: None,
            groups: None,
            summaries: None,
            notes: Vec::new(),
        }
    }
}

/// Builds the result from all rows, and from the number of pages without any of the fields.
pub(crate) fn answer(
    run: &QueryRun<'_>,
    (rows, absent): (Vec<QueryRow>, usize),
    frame: &ResultFrame,
) -> Result<QueryAnswer, IndexError> {
    let parsed = run.parsed;
    match parsed.mode {
        QueryMode::Distinct => distinct(run, &rows, frame),
        QueryMode::Count if parsed.group.is_none() => list_result(run, Vec::new(), rows.len(), frame),
        QueryMode::Count => aggregate(run, (rows, absent), frame),
        QueryMode::Table | QueryMode::List | QueryMode::Task | QueryMode::Calendar | QueryMode::Json
            if parsed.is_aggregated() =>
        {
            aggregate(run, (rows, absent), frame)
        }
        QueryMode::Table | QueryMode::List | QueryMode::Task | QueryMode::Calendar | QueryMode::Json => {
            let total = rows.len();
            let summaries = summaries(run, &rows)?;
            let sorted = sort_rows(run, rows)?;
            if parsed.group.is_some() {
                return Ok(QueryAnswer { summaries, ..group_rows(run, sorted, frame)? });
            }
            let shown = frame.paginate(sorted).into_iter().map(|(_, row)| row).collect();
            Ok(QueryAnswer { summaries, ..list_result(run, shown, total, frame)? })
        }
    }
}

fn summaries(run: &QueryRun<'_>, rows: &[QueryRow]) -> Result<Option<Vec<(String, Json)>>, IndexError> {
    let parsed = run.parsed;
    let empty_row = QueryRow::empty();
    let mut results = Vec::new();
    for (index, summary) in &parsed.summaries {
        let Some(column) = parsed.columns.get(*index) else { continue };
        let kind = Expression::Call(summary.function(), vec![column.node.clone()]);
        let scope = EvaluationScope::group(rows.first().unwrap_or(&empty_row), rows);
        let value = run.context.value(&ExpressionNode { kind, span: 0..0 }, scope)?;
        results.push((column.name.clone(), value.into_json()));
    }
    Ok((!results.is_empty()).then_some(results))
}

/// The result with these rows, out of `total`.
pub(crate) fn list_result(
    run: &QueryRun<'_>,
    shown: Vec<QueryRow>,
    total: usize,
    frame: &ResultFrame,
) -> Result<QueryAnswer, IndexError> {
    if run.parsed.mode == QueryMode::Count {
        let answer = frame.answer(QueryMode::Count, vec![vec![total.into()]], total);
        return Ok(QueryAnswer { count: Some(total), has_more: false, ..answer });
    }
    let rows = shown.iter().map(|row| cells(run, row)).collect::<Result<_, _>>()?;
    Ok(frame.answer(run.parsed.mode, rows, total))
}

fn cells(run: &QueryRun<'_>, row: &QueryRow) -> Result<Vec<Json>, IndexError> {
    run.check_timeout()?;
    let mut cells = Vec::new();
    if !run.parsed.without_id {
        cells.push(Json::String(row.path.clone()));
    }
    if run.parsed.mode == QueryMode::Task {
        let parts = row.overrides.iter().take(tasks::PARTS.len());
        cells.extend(parts.map(|(_, value)| value.clone().into_json()));
        return Ok(cells);
    }
    for column in &run.parsed.columns {
        cells.push(run.context.value(&column.node, EvaluationScope::of(row))?.into_json());
    }
    Ok(cells)
}

/// Resolves a sort key: the name of a column, of the group or of the COUNT column means that
/// column.
pub(crate) fn resolve_column<'n>(parsed: &'n ParsedQuery, node: &'n ExpressionNode) -> &'n ExpressionNode {
    static COUNTED: ExpressionNode = ExpressionNode { kind: Expression::Call(Function::Count, Vec::new()), span: 0..0 };
    let Expression::Field(steps) = &node.kind else { return node };
    let [ValueStep::Key(key)] = steps.as_slice() else { return node };
    let named = parsed.columns.iter().chain(&parsed.group).find(|column| column.name == *key);
    match named {
        Some(column) => &column.node,
        None if parsed.mode == QueryMode::Count && key == COUNT => &COUNTED,
        None => node,
    }
}

/// The values to sort a row by, that of the group first.
type SortKeys = Vec<Value>;

/// Sorts rows: by group, by SORT, by the mode's default, by path.
fn sort_rows(run: &QueryRun<'_>, rows: Vec<QueryRow>) -> Result<Vec<(SortKeys, QueryRow)>, IndexError> {
    let parsed = run.parsed;
    let mut nodes: Vec<(&ExpressionNode, bool)> = parsed.group.iter().map(|group| (&group.node, false)).collect();
    nodes.extend(parsed.sort.iter().map(|(node, is_descending)| (resolve_column(parsed, node), *is_descending)));
    if parsed.mode == QueryMode::Calendar && parsed.sort.is_empty() {
        nodes.extend(parsed.columns.iter().map(|column| (&column.node, false)));
    }
    let mut keyed = Vec::with_capacity(rows.len());
    for (number, row) in rows.into_iter().enumerate() {
        if number.is_multiple_of(64) {
            run.check_timeout()?;
        }
        let keys: SortKeys = nodes
            .iter()
            .map(|(node, _)| run.context.value(node, EvaluationScope::of(&row)))
            .collect::<Result<_, _>>()?;
        keyed.push((keys, row));
    }
    let directions: Vec<bool> = nodes.iter().map(|(_, is_descending)| *is_descending).collect();
    keyed.sort_by(|(a, row), (b, other)| compare_keys(a, b, &directions).then_with(|| row.path.cmp(&other.path)));
    Ok(keyed)
}

fn compare_keys(a: &[Value], b: &[Value], descending: &[bool]) -> Ordering {
    let orders = a.iter().zip(b).zip(descending).map(|((a, b), descending)| a.order(b, *descending));
    orders.fold(Ordering::Equal, Ordering::then)
}

/// Puts rows into groups; LIMIT counts rows.
fn group_rows(
    run: &QueryRun<'_>,
    sorted: Vec<(SortKeys, QueryRow)>,
    frame: &ResultFrame,
) -> Result<QueryAnswer, IndexError> {
    let total = sorted.len();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for (keys, _) in &sorted {
        *counts.entry(group_id(keys)).or_default() += 1;
    }
    let mut rows = Vec::new();
    let mut groups: Vec<(String, RowGroup)> = Vec::new();
    for (keys, row) in frame.paginate(sorted) {
        let cells = cells(run, &row)?;
        rows.push(cells.clone());
        let name = group_id(&keys);
        match groups.last_mut().filter(|(last, _)| *last == name) {
            Some((_, group)) => group.rows.push(cells),
            None => {
                let key = keys.into_iter().next().unwrap_or(Value::Null).into_json();
                let count = counts.get(&name).copied().unwrap_or_default();
                groups.push((name, RowGroup { key, count, rows: vec![cells] }));
            }
        }
    }
    let groups = groups.into_iter().map(|(_, group)| group).collect();
    Ok(QueryAnswer { groups: Some(groups), ..frame.answer(run.parsed.mode, rows, total) })
}

fn group_id(keys: &[Value]) -> String {
    keys.first().map(|key| key.clone().into_json().to_string()).unwrap_or_default()
}

/// One row per group, or one for all.
fn aggregate(
    run: &QueryRun<'_>,
    (rows, absent): (Vec<QueryRow>, usize),
    frame: &ResultFrame,
) -> Result<QueryAnswer, IndexError> {
    let parsed = run.parsed;
    let row_count = rows.len() + absent;
    let empty_row = QueryRow::empty();
    // Index of the group of pages without any of the fields.
    let mut absent_group = None;
    let mut groups: Vec<(Value, Vec<QueryRow>)> = Vec::new();
    match &parsed.group {
        None => {
            groups.push((Value::Null, rows));
            absent_group = Some(0);
        }
        Some(group) => {
            let mut places: HashMap<String, usize> = HashMap::new();
            if absent > 0 {
                let keys = group_keys(parsed, run.context.value(&group.node, EvaluationScope::of(&empty_row))?);
                let key = keys.into_iter().next().unwrap_or(Value::Null);
                places.insert(key.clone().into_json().to_string(), 0);
                groups.push((key, Vec::new()));
                absent_group = Some(0);
            }
            for row in rows {
                for key in group_keys(parsed, run.context.value(&group.node, EvaluationScope::of(&row))?) {
                    let name = key.clone().into_json().to_string();
                    let index = *places.entry(name).or_insert_with(|| {
                        groups.push((key, Vec::new()));
                        groups.len() - 1
                    });
                    groups[index].1.push(row.clone());
                }
            }
        }
    }
    let mut keyed = Vec::with_capacity(groups.len());
    for (index, (key, rows)) in groups.into_iter().enumerate() {
        run.check_timeout()?;
        let absent = if absent_group == Some(index) { absent } else { 0 };
        let scope = EvaluationScope::group(rows.first().unwrap_or(&empty_row), &rows).with_absent(absent);
        let mut keys = Vec::new();
        for (node, _) in &parsed.sort {
            keys.push(run.context.value(resolve_column(parsed, node), scope)?);
        }
        keys.push(key.clone());
        let row = group_cells(run, &key, scope, &frame.headers)?;
        keyed.push((keys, (key, rows.len() + absent, row)));
    }
    let directions: Vec<bool> = parsed.sort.iter().map(|(_, descending)| *descending).chain([false]).collect();
    keyed.sort_by(|(a, _), (b, _)| compare_keys(a, b, &directions));
    let total = keyed.len();
    if parsed.is_unpaginated && total > MAX_GROUPS {
        let why = format!(
            "has {total} different values; the limit is {MAX_GROUPS}, so select fewer pages with `where` or `path_prefix`"
        );
        return Err(IndexError::invalid("group", why));
    }
    let shown = frame.paginate(keyed);
    let rows = shown.iter().map(|(_, (_, _, row))| row.clone()).collect();
    let groups =
        shown.into_iter().map(|(_, (key, count, row))| RowGroup { key: key.into_json(), count, rows: vec![row] });
    let groups = parsed.group.is_some().then(|| groups.collect());
    let count = (parsed.mode == QueryMode::Count).then_some(row_count);
    Ok(QueryAnswer { groups, count, ..frame.answer(parsed.mode, rows, total) })
}

fn group_keys(parsed: &ParsedQuery, key: Value) -> Vec<Value> {
    match key {
        Value::List(items) if parsed.is_unpaginated => {
            let mut keys: Vec<Value> = Vec::new();
            for item in items {
                if !keys.contains(&item) {
                    keys.push(item);
                }
            }
            if keys.is_empty() { vec![Value::Null] } else { keys }
        }
        key => vec![key],
    }
}

fn group_cells(
    run: &QueryRun<'_>,
    key: &Value,
    scope: EvaluationScope<'_>,
    headers: &[String],
) -> Result<Vec<Json>, IndexError> {
    let parsed = run.parsed;
    let mut cells = Vec::new();
    if parsed.mode == QueryMode::Count || headers.len() > parsed.columns.len() {
        cells.push(key.clone().into_json());
    }
    if parsed.mode == QueryMode::Count {
        cells.push((scope.group.map_or(0, <[QueryRow]>::len) + scope.absent).into());
    }
    for column in &parsed.columns {
        let is_key = parsed.group.as_ref().is_some_and(|group| group.name == column.name);
        let value = if is_key { key.clone() } else { run.context.value(&column.node, scope)? };
        cells.push(value.into_json());
    }
    Ok(cells)
}

/// Each distinct value, smallest first.
fn distinct(run: &QueryRun<'_>, rows: &[QueryRow], frame: &ResultFrame) -> Result<QueryAnswer, IndexError> {
    let mut values: HashMap<String, Value> = HashMap::new();
    for row in rows {
        let Some(column) = run.parsed.columns.first() else { continue };
        let value = run.context.value(&column.node, EvaluationScope::of(row))?;
        values.entry(value.clone().into_json().to_string()).or_insert(value);
    }
    let mut values: Vec<Value> = values.into_values().collect();
    let is_descending = run.parsed.sort.first().is_some_and(|(_, is_descending)| *is_descending);
    values.sort_by(|a, b| a.order(b, is_descending));
    let total = values.len();
    let rows = frame.paginate(values).into_iter().map(|value| vec![value.into_json()]).collect();
    Ok(frame.answer(QueryMode::Distinct, rows, total))
}
