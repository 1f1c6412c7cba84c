//! Runs a query: selects, scans and filters pages.

use rusqlite::{Transaction, params_from_iter};
use serde_json::Value as Json;

use super::ast::{Expression, NamedColumn, ParsedQuery, QueryMode};
use super::evaluate::{EvaluationContext, EvaluationScope, QueryDeadline};
use super::lexemes::ValueStep;
use super::links::LinkedPages;
use super::narrow::{NarrowingSql, includes};
use super::row::{ImplicitField, QueryRow, members};
use super::shape::{self, ResultFrame};
use super::{MAX_ROWS, QueryAnswer, QueryLimits, ROWS, lookup, tasks};
use crate::fields;
use crate::value::Value;
use crate::{Index, IndexError};

/// Rows scanned between two checks of the timeout.
const BETWEEN_LOOKS: usize = 64;

/// A query that scans fewer pages than this needs no index.
const WORTH_AN_INDEX: usize = 1_000;

/// One run of a query.
pub(crate) struct QueryRun<'c> {
    pub(crate) parsed: &'c ParsedQuery,
    pub(crate) asking: &'c QueryLimits<'c>,
    pub(crate) context: EvaluationContext<'c>,
    pub(crate) facts: Vec<ImplicitField>,
    /// Number of leading keys that conditions use and that are read of every page; the others are
    /// read of matching pages.
    deciding: usize,
}

/// Result of a run.
pub(crate) struct QueryOutcome {
    pub(crate) answer: QueryAnswer,
    pub(crate) fields: FieldIndexUse,
}

/// How a run used field indexes.
#[derive(Default)]
pub(crate) struct FieldIndexUse {
    /// Fields whose index would have shortened the scan.
    pub(crate) wanted: Vec<String>,
    /// Fields whose index was used.
    pub(crate) used: Vec<String>,
    /// Whether pages without any of the fields were skipped ([`QueryRun::presence`]).
    pub(crate) is_of_present: bool,
}

/// Answers a query. If the scan reached its limit and an index would help, creates it and runs
/// again; after a long scan, counts the use of the fields.
pub(crate) fn answer(index: &Index, parsed: &ParsedQuery, asking: &QueryLimits<'_>) -> Result<QueryAnswer, IndexError> {
    let QueryOutcome { answer, fields } = attempt(index, parsed, asking)?;
    index.heat.used(fields.used);
    let mut is_warmed = false;
    for field in fields.wanted {
        if answer.scanned_rows.is_some() || index.heat.rises(&field) {
            is_warmed |= index.warm(&field, asking.max_auto_indexes)?;
        }
    }
    if is_warmed && answer.scanned_rows.is_some() { Ok(attempt(index, parsed, asking)?.answer) } else { Ok(answer) }
}

/// The query plan of SQLite.
#[cfg(test)]
pub(crate) fn plan(index: &Index, parsed: &ParsedQuery, asking: &QueryLimits<'_>) -> Result<Vec<String>, IndexError> {
    let needs = RequiredParts::of(parsed, asking)?;
    index.readers.read(|connection| {
        let RequiredParts { keys, facts, deciding } = needs;
        let context = EvaluationContext::new(
            (LinkedPages::new(index, connection, asking.folder), QueryDeadline::begin(asking.timeout)),
            keys,
            asking.now,
            &asking.custom_fields.0,
        );
        let run = QueryRun { parsed, asking, context, facts, deciding };
        let (statement, _) = run.narrowed(connection)?;
        let mut prepared = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.text))?;
        let steps = prepared.query_map(params_from_iter(&statement.values), |row| row.get(3))?;
        Ok(steps.collect::<rusqlite::Result<_>>()?)
    })
}

/// Answers a query from one snapshot.
fn attempt(index: &Index, parsed: &ParsedQuery, asking: &QueryLimits<'_>) -> Result<QueryOutcome, IndexError> {
    let needs = RequiredParts::of(parsed, asking)?;
    index.readers.answer_within(asking.timeout, "q", |connection| {
        let RequiredParts { keys, facts, deciding } = needs;
        let context = EvaluationContext::new(
            (LinkedPages::new(index, connection, asking.folder), QueryDeadline::begin(asking.timeout)),
            keys,
            asking.now,
            &asking.custom_fields.0,
        );
        let run = QueryRun { parsed, asking, context, facts, deciding };
        let frame = ResultFrame::of(parsed, asking);
        if let Some(outcome) = run.by_index_alone(connection, &frame)? {
            return Ok(outcome);
        }
        let ScannedRows { rows, looked_at, absent, is_cut, mut fields } = run.scan(connection)?;
        let answer = shape::answer(&run, (rows, absent), &frame)?;
        if !is_cut && looked_at < WORTH_AN_INDEX {
            fields.wanted.clear();
        }
        // More rows may follow among the unscanned pages.
        let has_more = answer.has_more || is_cut && answer.count.is_none();
        Ok(QueryOutcome {
            answer: QueryAnswer { scanned_rows: is_cut.then_some(looked_at), has_more, ..answer },
            fields,
        })
    })
}

/// Result of a scan.
struct ScannedRows {
    rows: Vec<QueryRow>,
    /// Number of scanned pages, items or tasks.
    looked_at: usize,
    /// Number of further rows, of pages without any of the fields.
    absent: usize,
    /// Whether the scan reached its limit.
    is_cut: bool,
    fields: FieldIndexUse,
}

/// What must be read of each page.
struct RequiredParts {
    keys: Vec<String>,
    facts: Vec<ImplicitField>,
    /// See [`QueryRun::filter_keys`].
    deciding: usize,
}

impl RequiredParts {
    fn of(parsed: &ParsedQuery, asking: &QueryLimits<'_>) -> Result<Self, IndexError> {
        let mut needs = Self { keys: Vec::new(), facts: Vec::new(), deciding: 0 };
        let columns = parsed.columns.iter().chain(&parsed.group).chain(&parsed.flatten).map(|column| &column.node);
        let others: Vec<_> = columns.chain(parsed.sort.iter().map(|(node, _)| node)).collect();
        // A custom field may be part of any condition.
        let deciding: Vec<_> = parsed.conditions.iter().chain(asking.custom_fields.0.values()).collect();
        if parsed.source.is_some() {
            needs.keys.push("tags".to_owned());
        }
        let mut refused = None;
        for (is_deciding, node) in
            deciding.into_iter().map(|node| (true, node)).chain(others.into_iter().map(|node| (false, node)))
        {
            node.visit(&mut |node| {
                let Expression::Field(steps) = &node.kind else { return };
                let Some(ValueStep::Key(key)) = steps.first() else { return };
                match ImplicitField::named(key) {
                    Some(fact) if fact.is_computed() && !asking.computed_fields => {
                        refused = refused.take().or(Some(key.clone()));
                    }
                    Some(fact) if !needs.facts.contains(&fact) => needs.facts.push(fact),
                    Some(_) => {}
                    None if !needs.keys.contains(key) => needs.keys.push(key.clone()),
                    None => {}
                }
            });
            if is_deciding {
                needs.deciding = needs.keys.len();
            }
        }
        needs.deciding = needs.deciding.max(usize::from(parsed.source.is_some()));
        let is_one_row_a_page =
            parsed.flatten.is_empty() && !matches!(parsed.mode, QueryMode::Task | QueryMode::Calendar);
        if !is_one_row_a_page {
            needs.deciding = needs.keys.len();
        }
        if let Some(field) = refused {
            let why = format!("`{field}` is a computed field, and those are off (`dataview.computed_fields`)");
            return Err(IndexError::invalid("q", why));
        }
        Ok(needs)
    }
}

impl QueryRun<'_> {
    /// Fails when the time is up.
    pub(crate) fn look_at_the_clock(&self) -> Result<(), IndexError> {
        self.context.look_at_the_clock()
    }

    /// Scans for rows that match the conditions, up to the limit.
    fn scan(&self, connection: &Transaction<'_>) -> Result<ScannedRows, IndexError> {
        let (statement, fields) = self.narrowed(connection)?;
        let mut scanned = self.looked_through(connection, &statement)?;
        if fields.is_of_present {
            let present = (!scanned.is_cut).then_some(scanned.looked_at);
            scanned.absent = self.absent(connection, present)?;
        }
        Ok(ScannedRows { fields, ..scanned })
    }

    /// The statement that selects the candidates, and how it uses field indexes.
    pub(crate) fn narrowed(&self, connection: &Transaction<'_>) -> Result<(NarrowingSql, FieldIndexUse), IndexError> {
        let mut statement = NarrowingSql::default();
        let mut conditions: Vec<String> = Vec::new();
        let mut fields_asked = FieldIndexUse::default();
        if let Some(source) = &self.parsed.source {
            conditions.extend(statement.source(source));
        }
        if self.parsed.mode == QueryMode::Task {
            conditions.push("pages.tasks <> '[]'".to_owned());
        }
        if let Some(condition) = self.presence(&mut statement) {
            conditions.push(condition);
            fields_asked.is_of_present = true;
        }
        let known = fields::hot(connection)?;
        // Single lookups cost more than sequential reads: use the shortest list, if it is short.
        let pages = greatest_id(connection)?;
        let mut least =
            if pages > self.asking.max_scan_rows { self.asking.max_scan_rows + 1 } else { (pages / 10).max(100) };
        let mut best = None;
        if let Some(source) = &self.parsed.source {
            let mut below = NarrowingSql::default();
            if let Some(condition) = below.source(source) {
                least = below.count(connection, &format!("SELECT 1 FROM pages WHERE {condition}"), least)?;
            }
        }
        for lookup in lookup::lookups(self.parsed, &self.context)? {
            match known.iter().find(|(_, name)| *name == lookup.field) {
                Some((number, _)) => {
                    let rows = lookup.count(connection, *number, least)?;
                    if rows < least {
                        (least, best) = (rows, Some((lookup, *number)));
                    } else {
                        fields_asked.used.push(lookup.field);
                    }
                }
                None => fields_asked.wanted.push(lookup.field),
            }
        }
        if let Some((lookup, number)) = best {
            conditions.push(lookup.sql(&mut statement, number));
            fields_asked.used.push(lookup.field);
        } else if pages > WORTH_AN_INDEX && !fields_asked.is_of_present {
            // For a field without an index, the full-text index knows which pages have it.
            let word = fields_asked.wanted.iter().find_map(|field| fields::presence(field));
            let has_field =
                |word| format!("pages.id IN (SELECT rowid FROM texts WHERE texts MATCH {})", statement.bind(word));
            conditions.extend(word.map(has_field));
        }
        statement.select(&self.facts, &conditions);
        Ok((statement, fields_asked))
    }

    /// Reads the pages of a statement and collects the rows that match source and conditions, up to
    /// the scan limit.
    fn looked_through(
        &self,
        connection: &Transaction<'_>,
        statement: &NarrowingSql,
    ) -> Result<ScannedRows, IndexError> {
        let mut scanned =
            ScannedRows { rows: Vec::new(), looked_at: 0, absent: 0, is_cut: false, fields: FieldIndexUse::default() };
        let mut items_left = self.asking.max_scan_rows;
        let mut prepared = connection.prepare_cached(&statement.text)?;
        let mut found = prepared.query(params_from_iter(&statement.values))?;
        let mut task_list = connection.prepare_cached("SELECT tasks FROM pages WHERE id = ?1")?;
        let kept = &mut scanned.rows;
        while let Some(one) = found.next()? {
            if scanned.looked_at == self.asking.max_scan_rows || items_left == 0 {
                scanned.is_cut = true;
                break;
            }
            scanned.looked_at += 1;
            if scanned.looked_at.is_multiple_of(BETWEEN_LOOKS) {
                self.look_at_the_clock()?;
            }
            // If most pages match, reading twice costs more than it saves.
            let keys = &self.context.keys;
            let read = if kept.len() * 2 < scanned.looked_at { &keys[..self.deciding] } else { keys };
            let mut row = self.row(one, read)?;
            if !self.is_included(&row) {
                continue;
            }
            if read.len() < keys.len() {
                if self.fulfils(&row)? {
                    row.members = members(frontmatter(one)?, keys, &row.path)?;
                    kept.push(row);
                }
                continue;
            }
            let rows = if self.parsed.mode == QueryMode::Task {
                tasks::rows(&row, &task_list.query_row([row.id], |row| row.get::<_, String>(0))?)?
            } else {
                vec![row]
            };
            let (rows, is_cut) = self.flattened(rows, &mut items_left)?;
            for row in rows {
                if self.fulfils(&row)? {
                    kept.push(row);
                }
            }
            if is_cut {
                scanned.is_cut = true;
                break;
            }
        }
        Ok(scanned)
    }

    pub(crate) fn row(&self, row: &rusqlite::Row<'_>, keys: &[String]) -> Result<QueryRow, IndexError> {
        let path = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        let columns = self.facts.iter().filter(|fact| fact.column().is_some());
        let fact = |(place, fact): (usize, &ImplicitField)| Ok((*fact, fact.of_column(row.get(place)?)));
        Ok(QueryRow {
            id: row.get(0)?,
            path: path.to_owned(),
            members: members(frontmatter(row)?, keys, path)?,
            facts: (3..).zip(columns).map(fact).collect::<rusqlite::Result<_>>()?,
            own: Vec::new(),
        })
    }

    fn is_included(&self, row: &QueryRow) -> bool {
        let Some(source) = &self.parsed.source else {
            return true;
        };
        let place = self.context.keys.iter().position(|key| key == "tags");
        let tags = row.members.iter().find(|(member, _)| Some(*member) == place).map(|(_, tags)| tags);
        includes(source, &row.path, &tags.map(tags_of).unwrap_or_default())
    }

    fn fulfils(&self, row: &QueryRow) -> Result<bool, IndexError> {
        for condition in &self.parsed.conditions {
            if !self.context.holds(condition, row)? {
                return Ok(false);
            }
        }
        Ok(self.parsed.mode != QueryMode::Calendar
            || self.context.value(&self.parsed.columns[0].node, EvaluationScope::of(row))?.moment().is_some())
    }

    /// Creates one row per item of the FLATTEN lists, none for a page without them. Also returns
    /// whether the scan limit was reached.
    fn flattened(&self, mut rows: Vec<QueryRow>, items_left: &mut usize) -> Result<(Vec<QueryRow>, bool), IndexError> {
        let mut is_cut = false;
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
                let left = self.asking.max_scan_rows - items.len();
                is_cut |= values.len() > left;
                for value in values.into_iter().take(left) {
                    let mut item = row.clone();
                    item.own.push((steps.clone(), value));
                    items.push(item);
                }
                self.look_at_the_clock()?;
            }
            rows = items;
        }
        if !self.parsed.flatten.is_empty() {
            is_cut |= rows.len() > *items_left;
            rows.truncate(*items_left);
            *items_left -= rows.len();
        }
        Ok((rows, is_cut))
    }
}

/// Upper bound of the number of pages.
fn greatest_id(connection: &Transaction<'_>) -> Result<usize, IndexError> {
    let id: i64 =
        connection.prepare_cached("SELECT coalesce(max(id), 0) FROM pages")?.query_row([], |row| row.get(0))?;
    Ok(usize::try_from(id).unwrap_or_default())
}

/// The frontmatter column of [`NarrowingSql::select`].
fn frontmatter<'r>(row: &'r rusqlite::Row<'_>) -> Result<&'r str, IndexError> {
    Ok(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?)
}

/// Whether a column has no alias.
fn is_named_after(name: &str, steps: &[ValueStep]) -> bool {
    matches!(steps.first(), Some(ValueStep::Key(key)) if name.starts_with(key.as_str()))
}

/// The tags of a page: a list or a single one, without `#`.
fn tags_of(tags: &Json) -> Vec<String> {
    let tag = |tag: &Json| match tag {
        Json::String(text) => Some(text.strip_prefix('#').unwrap_or(text).to_owned()),
        Json::Number(number) => Some(number.to_string()),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    };
    match tags {
        Json::Array(tags) => tags.iter().filter_map(tag).collect(),
        lone => tag(lone).into_iter().collect(),
    }
}

/// Limit and offset of the result, from request, query and maximum.
pub(crate) fn window(parsed: &ParsedQuery, asking: &QueryLimits<'_>) -> (usize, usize) {
    let written = |number: Option<u64>| number.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let limit = asking.limit.or(written(parsed.limit)).unwrap_or(ROWS).min(MAX_ROWS);
    if parsed.is_whole {
        return (usize::MAX, 0);
    }
    let offset = if asking.offset > 0 { asking.offset } else { written(parsed.offset).unwrap_or_default() };
    (limit, offset)
}
