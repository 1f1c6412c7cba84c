//! Queries that the index answers alone: paths and conditions that SQL decides exactly select and
//! sort the pages. Only the pages on the result page are read.

use std::cell::RefCell;

use rusqlite::{Transaction, params_from_iter};

use super::ast::QueryMode;
use super::exact::{self, ConditionRenderer, FieldAccess, HotFields};
use super::lookup::LookupPlanner;
use super::narrow::{NarrowingSql, has_tags};
use super::row::QueryRow;
use super::run::{FieldIndexUse, QueryOutcome, QueryRun};
use super::shape::{self, ResultFrame};
use crate::IndexError;
use crate::fields;

/// If at least one page in this many matches, walking in path order is faster than sorting.
const MIN_WALK_SHARE: usize = 8;

struct CountedSelection {
    from: &'static str,
    filter: String,
    path: &'static str,
    page: &'static str,
}

impl QueryRun<'_> {
    /// The result of such a query; `None` for others.
    pub(crate) fn answer_from_index(
        &self,
        connection: &Transaction<'_>,
        frame: &ResultFrame,
    ) -> Result<Option<QueryOutcome>, IndexError> {
        let parsed = self.parsed;
        let is_one_row_per_page =
            matches!(parsed.mode, QueryMode::Table | QueryMode::List | QueryMode::Json | QueryMode::Count);
        let is_aggregate = !parsed.summaries.is_empty() || parsed.group.is_some() || parsed.is_aggregated();
        if !is_one_row_per_page || is_aggregate || !parsed.flatten.is_empty() {
            return Ok(None);
        }
        let sort = parsed.sort.iter().map(|(node, is_descending)| {
            let (_, column) = exact::column(shape::resolve_column(parsed, node))?;
            Some(format!("{column}{}, ", if *is_descending { " DESC" } else { "" }))
        });
        let Some(sort) = sort.collect::<Option<String>>() else { return Ok(None) };
        let hot = HotFields { fields: fields::hot_fields(connection)?, used: RefCell::default() };
        let mut statement = NarrowingSql::default();
        let Some(selection_parts) = self.selection((&hot, FieldAccess::List), sort.is_empty(), &mut statement)? else {
            return Ok(None);
        };
        let CountedSelection { from, filter, .. } = &selection_parts;
        let sql = if filter == "1" {
            "SELECT count(*) FROM facts".to_owned()
        } else {
            format!("SELECT count(*) FROM {from} WHERE {filter}")
        };
        let total: i64 =
            connection.prepare_cached(&sql)?.query_row(params_from_iter(&statement.values), |row| row.get(0))?;
        let total = usize::try_from(total).unwrap_or_default();
        let end = frame.offset.saturating_add(frame.limit);
        let is_shown = parsed.mode != QueryMode::Count && frame.offset < total;
        let mut rows = Vec::new();
        if is_shown {
            let is_walk = sort.is_empty() && end.saturating_mul(MIN_WALK_SHARE) <= total;
            if is_walk {
                statement = NarrowingSql::default();
            }
            let walk = if is_walk {
                self.selection((&hot, FieldAccess::Probe), true, &mut statement)?.unwrap_or(selection_parts)
            } else {
                selection_parts
            };
            rows = self.read_selected(connection, (walk, &sort), (statement, frame))?;
        }
        let answer = shape::list_result(self, rows, total, frame)?;
        let mut used = hot.used.into_inner();
        used.dedup();
        Ok(Some(QueryOutcome { answer, fields: FieldIndexUse { used, ..FieldIndexUse::default() } }))
    }

    /// The selection of pages; `None` where the index cannot decide exactly.
    fn selection(
        &self,
        (hot, access): (&HotFields, FieldAccess),
        is_by_path: bool,
        statement: &mut NarrowingSql,
    ) -> Result<Option<CountedSelection>, IndexError> {
        let planner = LookupPlanner { parsed: self.parsed, context: &self.context };
        let exact = ConditionRenderer { planner, hot, access };
        let mut parts = Vec::new();
        if let Some(source) = &self.parsed.source {
            if has_tags(source) {
                return Ok(None);
            }
            let Some(part) = statement.source(source) else { return Ok(None) };
            parts.push(part);
        }
        for condition in &self.parsed.conditions {
            let Some(part) = exact.condition(condition, statement)? else { return Ok(None) };
            parts.push(part);
        }
        let filter = if parts.is_empty() { "1".to_owned() } else { parts.join(" AND ") };
        let (has_source, needs_facts) =
            (self.parsed.source.is_some(), !self.parsed.conditions.is_empty() || !is_by_path);
        let (from, path, page) = match (has_source || access == FieldAccess::Probe, needs_facts) {
            (_, false) => ("pages", "pages.path", "pages.id"),
            (true, true) => ("pages CROSS JOIN facts ON facts.page = pages.id", "pages.path", "pages.id"),
            (false, true) => ("facts", "facts.path", "facts.page"),
        };
        Ok(Some(CountedSelection { from, filter, path, page }))
    }

    fn read_selected(
        &self,
        connection: &Transaction<'_>,
        (selection, sort): (CountedSelection, &str),
        (mut statement, frame): (NarrowingSql, &ResultFrame),
    ) -> Result<Vec<QueryRow>, IndexError> {
        let CountedSelection { from, filter, path, page } = selection;
        let to_sql = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let (limit, offset) = (statement.bind(to_sql(frame.limit)), statement.bind(to_sql(frame.offset)));
        let sql =
            format!("SELECT {page} FROM {from} WHERE {filter} ORDER BY {sort}{path} LIMIT {limit} OFFSET {offset}");
        let ids: Vec<i64> = connection
            .prepare_cached(&sql)?
            .query_map(params_from_iter(&statement.values), |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let mut page_sql = NarrowingSql::default();
        page_sql.select(&self.facts, &["pages.id = ?1".to_owned()]);
        let mut prepared = connection.prepare_cached(&page_sql.text)?;
        let mut rows = Vec::with_capacity(ids.len());
        for id in ids {
            let mut page_rows = prepared.query([id])?;
            let row = page_rows.next()?.ok_or_else(|| IndexError::Damaged(format!("page {id} is missing")))?;
            rows.push(self.row(row, &self.context.keys)?);
        }
        Ok(rows)
    }
}
