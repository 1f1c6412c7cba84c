//! Conditions that field indexes can answer: a field compared with a constant.

use rusqlite::Connection;
use rusqlite::types::Value as Bound;
use svcfs_text::fold::fold_name;

use super::ast::{Comparison, Expression, ExpressionNode, NegationSense, PageSource, ParsedQuery, QueryMode};
use super::evaluate::{EvaluationContext, EvaluationScope};
use super::functions::Function;
use super::lexemes::ValueStep;
use super::narrow::NarrowingSql;
use super::row::{ImplicitField, QueryRow};
use super::tasks;
use crate::IndexError;
use crate::fields::{ITEM, RowKind, TAGS, field_name, row_key};
use crate::value::Value;

/// A condition that only pages with one of these rows can match.
#[derive(Debug, Clone)]
pub(crate) struct IndexLookup {
    pub(crate) field: String,
    ranges: Vec<KeyRange>,
}

/// Rows of one kind between two values.
#[derive(Debug, Clone)]
struct KeyRange {
    kind: RowKind,
    with_items: bool,
    low: Option<Bound>,
    high: Option<Bound>,
}

impl IndexLookup {
    /// The condition as SQL over `pages`, given the id of its field.
    pub(crate) fn sql(&self, statement: &mut NarrowingSql, field: i64) -> String {
        format!("pages.id IN ({})", self.rows(statement, field))
    }

    pub(crate) fn count(&self, connection: &Connection, field: i64, limit: usize) -> Result<usize, IndexError> {
        let mut statement = NarrowingSql::default();
        let rows = self.rows(&mut statement, field);
        statement.count(connection, &rows, limit)
    }

    fn rows(&self, statement: &mut NarrowingSql, field: i64) -> String {
        let field = statement.bind(field);
        let range_sql = |range: &KeyRange, kind: u8, statement: &mut NarrowingSql| {
            let kind = statement.bind(i64::from(kind));
            let mut test = format!("field = {field} AND kind = {kind}");
            match (&range.low, &range.high) {
                (Some(low), Some(high)) if low == high => {
                    test.push_str(&format!(" AND value = {}", statement.bind(low.clone())));
                }
                (low, high) => {
                    for (sign, end) in [(">=", low), ("<=", high)] {
                        if let Some(end) = end {
                            test.push_str(&format!(" AND value {sign} {}", statement.bind(end.clone())));
                        }
                    }
                }
            }
            format!("SELECT page FROM field_values WHERE {test}")
        };
        let mut parts = Vec::new();
        for range in &self.ranges {
            parts.push(range_sql(range, range.kind as u8, statement));
            if range.with_items {
                parts.push(range_sql(range, range.kind as u8 + ITEM, statement));
            }
        }
        parts.join(" UNION ALL ")
    }
}

/// The lookups of a query; a page must match all of them.
pub(crate) fn lookups(parsed: &ParsedQuery, context: &EvaluationContext<'_>) -> Result<Vec<IndexLookup>, IndexError> {
    let mut lookups = Vec::new();
    if let Some(source) = &parsed.source {
        tags(source, &mut lookups);
    }
    let planner = LookupPlanner { parsed, context };
    for condition in &parsed.conditions {
        planner.conjuncts(condition, &mut lookups)?;
    }
    Ok(lookups)
}

/// The tags that every page of a source has.
fn tags(source: &PageSource, lookups: &mut Vec<IndexLookup>) {
    match source {
        PageSource::Tag(tag) => {
            let key = Some(Bound::Text(fold_name(tag).into_owned()));
            let range = KeyRange { kind: RowKind::Tag, with_items: false, low: key.clone(), high: key };
            let field = field_name(&[ValueStep::Key(TAGS.to_owned())]);
            lookups.extend(field.map(|field| IndexLookup { field, ranges: vec![range] }));
        }
        PageSource::All(sources) => sources.iter().for_each(|source| tags(source, lookups)),
        PageSource::Visible(_) | PageSource::Prefix(_) | PageSource::Not(_) | PageSource::Any(_) => {}
    }
}

impl KeyRange {
    fn equal(value: &Value, with_items: bool) -> Option<Self> {
        let (kind, key) = row_key(value)?;
        Some(Self { kind, with_items, low: Some(key.clone()), high: Some(key) })
    }
    fn between(low: Option<&Value>, high: Option<&Value>) -> Option<Self> {
        let ends = [low.map(row_key), high.map(row_key)];
        if ends.contains(&Some(None)) {
            return None;
        }
        let [low, high] = ends.map(Option::flatten);
        let kind = match (&low, &high) {
            (Some((a, _)), Some((b, _))) if a != b => return None,
            (Some((kind, _)), _) | (None, Some((kind, _))) => *kind,
            (None, None) => return None,
        };
        Some(Self { kind, with_items: false, low: low.map(|(_, key)| key), high: high.map(|(_, key)| key) })
    }
}

pub(crate) struct LookupPlanner<'f, 'c> {
    pub(crate) parsed: &'f ParsedQuery,
    pub(crate) context: &'f EvaluationContext<'c>,
}

impl LookupPlanner<'_, '_> {
    fn conjuncts(&self, node: &ExpressionNode, lookups: &mut Vec<IndexLookup>) -> Result<(), IndexError> {
        if let Expression::All(nodes) = &node.kind {
            for node in nodes {
                self.conjuncts(node, lookups)?;
            }
            return Ok(());
        }
        let (field, ranges) = match &node.kind {
            Expression::Compare(comparison, left, right) => match (self.field(left), self.field(right)) {
                (Some(field), None) => (Some(field), self.ranges(*comparison, right)?),
                (None, Some(field)) => (Some(field), self.ranges(comparison.swapped(), left)?),
                (Some(_), Some(_)) | (None, None) => (None, None),
            },
            Expression::Between(operand, ends, NegationSense::Plain) => {
                let (low, high) = (self.constant(&ends.0)?, self.constant(&ends.1)?);
                let range = low.zip(high).and_then(|(low, high)| KeyRange::between(Some(&low), Some(&high)));
                (self.field(operand), range.map(|range| vec![range]))
            }
            Expression::In(operand, list, NegationSense::Plain) => {
                let mut ranges = Some(Vec::new());
                for node in list {
                    let range = self.constant(node)?.and_then(|value| KeyRange::equal(&value, false));
                    ranges = ranges.zip(range).map(|(mut ranges, range)| {
                        ranges.push(range);
                        ranges
                    });
                }
                (self.field(operand), ranges)
            }
            Expression::Call(Function::Contains, arguments) => match arguments.as_slice() {
                [list, value] => {
                    let range = self.constant(value)?.and_then(|value| KeyRange::equal(&value, true));
                    (self.field(list), range.map(|range| vec![range]))
                }
                [] | [_] | [_, _, _, ..] => (None, None),
            },
            Expression::Literal(_)
            | Expression::Field(_)
            | Expression::Call(..)
            | Expression::Not(_)
            | Expression::Negative(_)
            | Expression::All(_)
            | Expression::Any(_)
            | Expression::Chain(..)
            | Expression::Like(..)
            | Expression::In(_, _, NegationSense::Negated)
            | Expression::Between(_, _, NegationSense::Negated)
            | Expression::IsNull(..) => (None, None),
        };
        if let (Some(field), Some(ranges)) = (field, ranges) {
            lookups.push(IndexLookup { field, ranges });
        }
        Ok(())
    }

    fn ranges(&self, comparison: Comparison, node: &ExpressionNode) -> Result<Option<Vec<KeyRange>>, IndexError> {
        let Some(value) = self.constant(node)? else {
            return Ok(None);
        };
        let range = match comparison {
            Comparison::Equal => KeyRange::equal(&value, false),
            // A day equals all its times, so both ends belong to the range.
            Comparison::Less | Comparison::LessOrEqual => KeyRange::between(None, Some(&value)),
            Comparison::Greater | Comparison::GreaterOrEqual => KeyRange::between(Some(&value), None),
            Comparison::NotEqual => None,
        };
        Ok(range.map(|range| vec![range]))
    }

    /// A field whose value comes only from the frontmatter.
    pub(crate) fn field(&self, node: &ExpressionNode) -> Option<String> {
        let Expression::Field(steps) = &node.kind else { return None };
        let Some(ValueStep::Key(key)) = steps.first() else { return None };
        let is_part =
            self.parsed.mode == QueryMode::Task && (tasks::PARTS.contains(&key.as_str()) || key == tasks::META);
        let is_item = self.parsed.flatten.iter().any(|column| column.name.starts_with(key.as_str()));
        if is_part || is_item || ImplicitField::named(key).is_some() || self.context.custom.contains_key(key) {
            return None;
        }
        field_name(steps)
    }

    /// The value of an expression that does not depend on the page.
    pub(crate) fn constant(&self, node: &ExpressionNode) -> Result<Option<Value>, IndexError> {
        let mut is_constant = true;
        node.visit(&mut |node| {
            is_constant &= !matches!(
                node.kind,
                Expression::Field(_) | Expression::Call(Function::InLinks | Function::OutLinks, _)
            );
        });
        if !is_constant || node.has_aggregate() {
            return Ok(None);
        }
        self.context.value(node, EvaluationScope::of(&QueryRow::empty())).map(Some)
    }
}
