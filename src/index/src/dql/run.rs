//! Runs a query: selects, scans and filters pages.

use rusqlite::{Transaction, params_from_iter};

use super::ast::{Expression, NamedColumn, ParsedQuery, QueryMode};
use super::evaluate::{EvaluationContext, EvaluationScope, QueryDeadline};
use super::lexemes::ValueStep;
use super::links::LinkedPages;
use super::narrow::{NarrowingSql, includes};
use super::row::{ImplicitField, QueryRow, members, tags_of};
use super::shape::{self, ResultFrame};
use super::{DEFAULT_ROWS, MAX_ROWS, QueryAnswer, QueryLimits, checks, lookup, tasks, unknown};
use crate::fields;
use crate::value::Value;
use crate::{Index, IndexError};

/// Rows scanned between two checks of the timeout.
const CHECK_INTERVAL: usize = 64;

/// A query that scans fewer pages than this needs no index.
const MIN_INDEX_ROWS: usize = 1_000;

pub(crate) struct QueryRun<'c> {
    pub(crate) parsed: &'c ParsedQuery,
    pub(crate) limits: &'c QueryLimits<'c>,
    pub(crate) context: EvaluationContext<'c>,
    pub(crate) facts: Vec<ImplicitField>,
    /// Number of leading keys that conditions use and that are read of every page; the others are
    /// read of matching pages.
    filter_keys: usize,
}

pub(crate) struct QueryOutcome {
    pub(crate) answer: QueryAnswer,
    pub(crate) fields: FieldIndexUse,
}

/// How a run used field indexes.
#[derive(Default)]
pub(crate) struct FieldIndexUse {
    /// Fields whose index would have shortened the scan.
    pub(crate) missing: Vec<String>,
    pub(crate) used: Vec<String>,
    /// Whether pages without any of the fields were skipped ([`QueryRun::presence`]).
    pub(crate) skips_absent: bool,
}

/// Answers a query. If the scan reached its limit and an index would help, creates it and runs
/// again; after a long scan, counts the use of the fields.
pub(crate) fn answer(index: &Index, parsed: &ParsedQuery, limits: &QueryLimits<'_>) -> Result<QueryAnswer, IndexError> {
    let QueryOutcome { mut answer, fields } = run_once(index, parsed, limits)?;
    index.field_usage.mark_used(fields.used);
    let mut is_index_added = false;
    for field in fields.missing {
        if answer.scanned_rows.is_some() || index.field_usage.count_query(&field) {
            is_index_added |= index.add_field_index(&field, limits.max_auto_indexes)?;
        }
    }
    if is_index_added && answer.scanned_rows.is_some() {
        answer = run_once(index, parsed, limits)?.answer;
    }
    answer.notes = unknown::notes(index, parsed, limits, answer.total > 0)?;
    Ok(answer)
}

#[cfg(test)]
pub(crate) fn plan(index: &Index, parsed: &ParsedQuery, limits: &QueryLimits<'_>) -> Result<Vec<String>, IndexError> {
    let required = RequiredParts::of(parsed, limits)?;
    index.readers.read(|connection| {
        let RequiredParts { keys, facts, filter_keys } = required;
        let context = EvaluationContext::new(
            (LinkedPages::new(index, connection, limits.scope()), QueryDeadline::start(limits.timeout)),
            keys,
            limits.now,
            &limits.custom_fields.0,
        );
        let run = QueryRun { parsed, limits, context, facts, filter_keys };
        let (statement, _) = run.select_candidates(connection)?;
        let mut prepared = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.text))?;
        let steps = prepared.query_map(params_from_iter(&statement.values), |row| row.get(3))?;
        Ok(steps.collect::<rusqlite::Result<_>>()?)
    })
}

/// Answers a query from one snapshot.
fn run_once(index: &Index, parsed: &ParsedQuery, limits: &QueryLimits<'_>) -> Result<QueryOutcome, IndexError> {
    let required = RequiredParts::of(parsed, limits)?;
    index.readers.query_within(limits.timeout, "q", |connection| {
        let RequiredParts { keys, facts, filter_keys } = required;
        let context = EvaluationContext::new(
            (LinkedPages::new(index, connection, limits.scope()), QueryDeadline::start(limits.timeout)),
            keys,
            limits.now,
            &limits.custom_fields.0,
        );
        let run = QueryRun { parsed, limits, context, facts, filter_keys };
        let frame = ResultFrame::of(parsed, limits);
        if let Some(outcome) = run.answer_from_index(connection, &frame)? {
            return Ok(outcome);
        }
        let ScannedRows { rows, scanned_count, absent, is_truncated, mut fields } = run.scan(connection)?;
        let answer = shape::answer(&run, (rows, absent), &frame)?;
        if !is_truncated && scanned_count < MIN_INDEX_ROWS {
            fields.missing.clear();
        }
        // More rows may follow among the unscanned pages.
        let has_more = answer.has_more || is_truncated && answer.count.is_none();
        Ok(QueryOutcome {
            answer: QueryAnswer { scanned_rows: is_truncated.then_some(scanned_count), has_more, ..answer },
            fields,
        })
    })
}

struct ScannedRows {
    rows: Vec<QueryRow>,
    scanned_count: usize,
    /// Number of further rows, of pages without any of the fields.
    absent: usize,
    is_truncated: bool,
    fields: FieldIndexUse,
}

/// What must be read of each page.
struct RequiredParts {
    keys: Vec<String>,
    facts: Vec<ImplicitField>,
    filter_keys: usize,
}

impl RequiredParts {
    fn of(parsed: &ParsedQuery, limits: &QueryLimits<'_>) -> Result<Self, IndexError> {
        let mut required = Self { keys: Vec::new(), facts: Vec::new(), filter_keys: 0 };
        let columns = parsed.columns.iter().chain(&parsed.group).chain(&parsed.flatten).map(|column| &column.node);
        let output_nodes: Vec<_> = columns.chain(parsed.sort.iter().map(|(node, _)| node)).collect();
        // A custom field may be part of any condition.
        let filters: Vec<_> = parsed.conditions.iter().chain(limits.custom_fields.0.values()).collect();
        if parsed.source.is_some() {
            required.keys.push(fields::TAGS.to_owned());
        }
        let mut disabled_field = None;
        for (is_filter, node) in
            filters.into_iter().map(|node| (true, node)).chain(output_nodes.into_iter().map(|node| (false, node)))
        {
            node.visit(&mut |node| {
                let Expression::Field(steps) = &node.kind else { return };
                let Some(ValueStep::Key(key)) = steps.first() else { return };
                match ImplicitField::named(key) {
                    Some(fact) if fact.is_computed() && !limits.computed_fields => {
                        disabled_field = disabled_field.take().or(Some(key.clone()));
                    }
                    Some(fact) if !required.facts.contains(&fact) => required.facts.push(fact),
                    Some(_) => {}
                    None if !required.keys.contains(key) => required.keys.push(key.clone()),
                    None => {}
                }
            });
            if is_filter {
                required.filter_keys = required.keys.len();
            }
        }
        required.filter_keys = required.filter_keys.max(usize::from(parsed.source.is_some()));
        let is_one_row_per_page =
            parsed.flatten.is_empty() && !matches!(parsed.mode, QueryMode::Task | QueryMode::Calendar);
        if !is_one_row_per_page {
            required.filter_keys = required.keys.len();
        }
        if let Some(field) = disabled_field {
            let why =
                format!("`{field}` is a computed field, and computed fields are disabled (`dataview.computed_fields`)");
            return Err(IndexError::invalid("q", checks::message_at_field(parsed, &field, why)));
        }
        Ok(required)
    }
}

impl QueryRun<'_> {
    pub(crate) fn check_timeout(&self) -> Result<(), IndexError> {
        self.context.check_timeout()
    }

    /// Scans for rows that match the conditions, up to the limit.
    fn scan(&self, connection: &Transaction<'_>) -> Result<ScannedRows, IndexError> {
        let (statement, fields) = self.select_candidates(connection)?;
        let mut scanned = self.scan_candidates(connection, &statement)?;
        if fields.skips_absent {
            let present = (!scanned.is_truncated).then_some(scanned.scanned_count);
            scanned.absent = self.count_absent(connection, present)?;
        }
        Ok(ScannedRows { fields, ..scanned })
    }

    /// The statement that selects the candidates, and how it uses field indexes.
    pub(crate) fn select_candidates(
        &self,
        connection: &Transaction<'_>,
    ) -> Result<(NarrowingSql, FieldIndexUse), IndexError> {
        let mut statement = NarrowingSql::default();
        let mut conditions: Vec<String> = Vec::new();
        let mut index_use = FieldIndexUse::default();
        if let Some(source) = &self.parsed.source {
            conditions.extend(statement.source(source));
        }
        if self.parsed.mode == QueryMode::Task {
            conditions.push("pages.tasks <> '[]'".to_owned());
        }
        if let Some(condition) = self.presence(&mut statement) {
            conditions.push(condition);
            index_use.skips_absent = true;
        }
        let indexed = fields::hot_fields(connection)?;
        // Single lookups cost more than sequential reads: use the shortest list, if it is short.
        let pages = max_id(connection)?;
        let mut shortest =
            if pages > self.limits.max_scan_rows { self.limits.max_scan_rows + 1 } else { (pages / 10).max(100) };
        let mut best = None;
        if let Some(source) = &self.parsed.source {
            let mut below = NarrowingSql::default();
            if let Some(condition) = below.source(source) {
                shortest = below.count(connection, &format!("SELECT 1 FROM pages WHERE {condition}"), shortest)?;
            }
        }
        for lookup in lookup::lookups(self.parsed, &self.context)? {
            match indexed.iter().find(|(_, name)| *name == lookup.field) {
                Some((number, _)) => {
                    let rows = lookup.count(connection, *number, shortest)?;
                    if rows < shortest {
                        (shortest, best) = (rows, Some((lookup, *number)));
                    } else {
                        index_use.used.push(lookup.field);
                    }
                }
                None => index_use.missing.push(lookup.field),
            }
        }
        if let Some((lookup, number)) = best {
            conditions.push(lookup.sql(&mut statement, number));
            index_use.used.push(lookup.field);
        } else if pages > MIN_INDEX_ROWS && !index_use.skips_absent {
            // For a field without an index, the full-text index knows which pages have it.
            let word = index_use.missing.iter().find_map(|field| fields::presence_query(field));
            let has_field =
                |word| format!("pages.id IN (SELECT rowid FROM texts WHERE texts MATCH {})", statement.bind(word));
            conditions.extend(word.map(has_field));
        }
        statement.select(&self.facts, &conditions);
        Ok((statement, index_use))
    }

    /// Reads the pages of a statement and collects the rows that match source and conditions, up to
    /// the scan limit.
    fn scan_candidates(
        &self,
        connection: &Transaction<'_>,
        statement: &NarrowingSql,
    ) -> Result<ScannedRows, IndexError> {
        let mut scanned = ScannedRows {
            rows: Vec::new(),
            scanned_count: 0,
            absent: 0,
            is_truncated: false,
            fields: FieldIndexUse::default(),
        };
        let mut remaining_items = self.limits.max_scan_rows;
        let mut prepared = connection.prepare_cached(&statement.text)?;
        let mut page_rows = prepared.query(params_from_iter(&statement.values))?;
        let mut task_list = connection.prepare_cached("SELECT tasks FROM pages WHERE id = ?1")?;
        let matched = &mut scanned.rows;
        while let Some(page_row) = page_rows.next()? {
            if scanned.scanned_count == self.limits.max_scan_rows || remaining_items == 0 {
                scanned.is_truncated = true;
                break;
            }
            scanned.scanned_count += 1;
            if scanned.scanned_count.is_multiple_of(CHECK_INTERVAL) {
                self.check_timeout()?;
            }
            // If most pages match, reading twice costs more than it saves.
            let keys = &self.context.keys;
            let read = if matched.len() * 2 < scanned.scanned_count { &keys[..self.filter_keys] } else { keys };
            let mut row = self.row(page_row, read)?;
            if !self.is_included(&row) {
                continue;
            }
            if read.len() < keys.len() {
                if self.matches(&row)? {
                    row.members = members(fields_json(page_row)?, keys, &row.path)?;
                    matched.push(row);
                }
                continue;
            }
            let rows = if self.parsed.mode == QueryMode::Task {
                tasks::rows(&row, &task_list.query_row([row.id], |row| row.get::<_, String>(0))?)?
            } else {
                vec![row]
            };
            let (rows, is_truncated) = self.flatten(rows, &mut remaining_items)?;
            for row in rows {
                if self.matches(&row)? {
                    matched.push(row);
                }
            }
            if is_truncated {
                scanned.is_truncated = true;
                break;
            }
        }
        Ok(scanned)
    }

    pub(crate) fn row(&self, row: &rusqlite::Row<'_>, keys: &[String]) -> Result<QueryRow, IndexError> {
        let path = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        let columns = self.facts.iter().filter(|fact| fact.column().is_some());
        let fact = |(index, fact): (usize, &ImplicitField)| Ok((*fact, fact.of_column(row.get(index)?)));
        Ok(QueryRow {
            id: row.get(0)?,
            path: path.to_owned(),
            members: members(fields_json(row)?, keys, path)?,
            facts: (3..).zip(columns).map(fact).collect::<rusqlite::Result<_>>()?,
            overrides: Vec::new(),
        })
    }

    fn is_included(&self, row: &QueryRow) -> bool {
        let Some(source) = &self.parsed.source else {
            return true;
        };
        let index = self.context.keys.iter().position(|key| key == fields::TAGS);
        let tags = row.members.iter().find(|(member, _)| Some(*member) == index).map(|(_, tags)| tags);
        includes(source, &row.path, &tags.map(tags_of).unwrap_or_default())
    }

    fn matches(&self, row: &QueryRow) -> Result<bool, IndexError> {
        for condition in &self.parsed.conditions {
            if !self.context.matches(condition, row)? {
                return Ok(false);
            }
        }
        Ok(self.parsed.mode != QueryMode::Calendar
            || self.context.value(&self.parsed.columns[0].node, EvaluationScope::of(row))?.date().is_some())
    }

    /// Creates one row per item of the FLATTEN lists, none for a page without them. Also returns
    /// whether the scan limit was reached.
    fn flatten(
        &self,
        mut rows: Vec<QueryRow>,
        remaining_items: &mut usize,
    ) -> Result<(Vec<QueryRow>, bool), IndexError> {
        let mut is_truncated = false;
        for NamedColumn { name, node } in &self.parsed.flatten {
            let steps = if let Expression::Field(steps) = &node.kind
                && is_named_after(name, steps)
            {
                steps.clone()
            } else {
                vec![ValueStep::Key(name.clone())]
            };
            let mut items = Vec::new();
            for row in rows {
                let values = match self.context.value(node, EvaluationScope::of(&row))? {
                    Value::Null => continue,
                    Value::List(values) => values,
                    value => vec![value],
                };
                let remaining = self.limits.max_scan_rows - items.len();
                is_truncated |= values.len() > remaining;
                for value in values.into_iter().take(remaining) {
                    let mut item = row.clone();
                    item.overrides.push((steps.clone(), value));
                    items.push(item);
                }
                self.check_timeout()?;
            }
            rows = items;
        }
        if !self.parsed.flatten.is_empty() {
            is_truncated |= rows.len() > *remaining_items;
            rows.truncate(*remaining_items);
            *remaining_items -= rows.len();
        }
        Ok((rows, is_truncated))
    }
}

/// Upper bound of the number of pages.
fn max_id(connection: &Transaction<'_>) -> Result<usize, IndexError> {
    let id: i64 =
        connection.prepare_cached("SELECT coalesce(max(id), 0) FROM pages")?.query_row([], |row| row.get(0))?;
    Ok(usize::try_from(id).unwrap_or_default())
}

fn fields_json<'r>(row: &'r rusqlite::Row<'_>) -> Result<&'r str, IndexError> {
    Ok(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?)
}

/// Whether a column has no alias.
fn is_named_after(name: &str, steps: &[ValueStep]) -> bool {
    matches!(steps.first(), Some(ValueStep::Key(key)) if name.starts_with(key.as_str()))
}

/// Limit and offset of the result, from request, query and maximum.
pub(crate) fn page_range(parsed: &ParsedQuery, limits: &QueryLimits<'_>) -> (usize, usize) {
    let to_usize = |number: Option<u64>| number.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let limit = limits.limit.or(to_usize(parsed.limit)).unwrap_or(DEFAULT_ROWS).min(MAX_ROWS);
    if parsed.is_unpaginated {
        return (usize::MAX, 0);
    }
    let offset = if limits.offset > 0 { limits.offset } else { to_usize(parsed.offset).unwrap_or_default() };
    (limit, offset)
}
