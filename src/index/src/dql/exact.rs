//! Conditions that SQL decides exactly as `evaluate` does: comparisons of computed fields, and of
//! indexed fields, with numbers, texts and booleans.
//!
//! Invariant: a condition is rendered only if `evaluate` gives the same result for every page.
//! Dates are not rendered, because a day equals all its times; `!=` is not, because it depends on
//! absence. If all conditions of a query are exact, it is counted in the index and pages are read
//! only to be shown.

use std::cell::RefCell;

use rusqlite::types::Value as Bound;

use super::ast::{Comparison, Expression, ExpressionNode, NegationSense};
use super::lexemes::ValueStep;
use super::lookup::LookupPlanner;
use super::narrow::NarrowingSql;
use super::row::ImplicitField;
use crate::IndexError;
use crate::fields::{RowKind, row_key};
use crate::value::Value;

/// Integers up to this are exact as reals.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// How the rows of a field are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldAccess {
    /// List all matching pages: for a statement that reads all of them.
    List,
    /// Probe each page: for a statement that ends after a few pages.
    Probe,
}

pub(crate) struct ConditionRenderer<'e, 'c> {
    pub(crate) planner: LookupPlanner<'e, 'c>,
    pub(crate) hot: &'e HotFields,
    pub(crate) access: FieldAccess,
}

pub(crate) struct HotFields {
    pub(crate) fields: Vec<(i64, String)>,
    pub(crate) used: RefCell<Vec<String>>,
}

impl ConditionRenderer<'_, '_> {
    /// The condition over `facts`; `None` where SQL cannot decide it.
    pub(crate) fn condition(
        &self,
        node: &ExpressionNode,
        statement: &mut NarrowingSql,
    ) -> Result<Option<String>, IndexError> {
        match &node.kind {
            Expression::All(nodes) => self.join_conditions(nodes, " AND ", statement),
            Expression::Any(nodes) => self.join_conditions(nodes, " OR ", statement),
            Expression::Not(inner) => Ok(self.condition(inner, statement)?.map(|inner| format!("NOT {inner}"))),
            Expression::Field(_) => Ok(column(node)
                .filter(|(fact, _)| *fact == ImplicitField::HasFrontmatter)
                .map(|(_, column)| column.to_owned())),
            Expression::Compare(comparison, a, b) => self.render_comparison(*comparison, (a, b), statement),
            Expression::Between(a, ends, sense) => {
                let low = self.render_comparison(Comparison::GreaterOrEqual, (a, &ends.0), statement)?;
                let high = self.render_comparison(Comparison::LessOrEqual, (a, &ends.1), statement)?;
                let between = low.zip(high).map(|(low, high)| format!("({low} AND {high})"));
                Ok(match sense {
                    NegationSense::Plain => between,
                    // Every page has a computed field; another field may be absent.
                    NegationSense::Negated => {
                        between.filter(|_| column(a).is_some()).map(|between| format!("NOT {between}"))
                    }
                })
            }
            Expression::Literal(_)
            | Expression::Call(..)
            | Expression::Negative(_)
            | Expression::Chain(..)
            | Expression::Like(..)
            | Expression::In(..)
            | Expression::IsNull(..) => Ok(None),
        }
    }

    fn join_conditions(
        &self,
        nodes: &[ExpressionNode],
        operator: &str,
        statement: &mut NarrowingSql,
    ) -> Result<Option<String>, IndexError> {
        let mut parts = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Some(part) = self.condition(node, statement)? else { return Ok(None) };
            parts.push(part);
        }
        Ok((!parts.is_empty()).then(|| format!("({})", parts.join(operator))))
    }

    fn render_comparison(
        &self,
        comparison: Comparison,
        (a, b): (&ExpressionNode, &ExpressionNode),
        statement: &mut NarrowingSql,
    ) -> Result<Option<String>, IndexError> {
        if let Some(value) = self.planner.constant(b)? {
            return Ok(self.field_comparison(comparison, (a, &value), statement));
        }
        match self.planner.constant(a)? {
            Some(value) => Ok(self.field_comparison(comparison.swapped(), (b, &value), statement)),
            None => Ok(None),
        }
    }

    fn field_comparison(
        &self,
        comparison: Comparison,
        (field, value): (&ExpressionNode, &Value),
        statement: &mut NarrowingSql,
    ) -> Option<String> {
        let operator = match comparison {
            Comparison::Equal => "=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::NotEqual => return None,
        };
        if let Some((fact, column)) = column(field) {
            let value: Bound = match (fact, value) {
                (ImplicitField::HasFrontmatter, Value::Boolean(boolean)) => i64::from(*boolean).into(),
                (ImplicitField::HasFrontmatter | ImplicitField::Updated, _) => return None,
                (_, Value::Integer(integer)) => (*integer).into(),
                (_, Value::Real(real)) if real.is_finite() => (*real).into(),
                _ => return None,
            };
            return Some(format!("{column} {operator} {}", statement.bind(value)));
        }
        let name = self.planner.field(field)?;
        let (number, _) = self.hot.fields.iter().find(|(_, indexed)| *indexed == name)?;
        let (kind, key) = row_key(value)?;
        let is_exact = match kind {
            RowKind::Text | RowKind::Boolean => true,
            RowKind::Number => value.number().is_some_and(|number| number.abs() < MAX_EXACT),
            RowKind::Day | RowKind::Tag => false,
        };
        if !is_exact {
            return None;
        }
        self.hot.used.borrow_mut().push(name);
        let (number, kind) = (statement.bind(*number), statement.bind(i64::from(kind as u8)));
        let test = format!("field = {number} AND kind = {kind} AND value {operator} {}", statement.bind(key));
        Some(match self.access {
            FieldAccess::List => format!("facts.page IN (SELECT page FROM field_values WHERE {test})"),
            FieldAccess::Probe => format!("EXISTS (SELECT 1 FROM field_values WHERE page = facts.page AND {test})"),
        })
    }
}

/// The column of `facts` of a computed field.
pub(crate) fn column(node: &ExpressionNode) -> Option<(ImplicitField, &'static str)> {
    let Expression::Field(steps) = &node.kind else { return None };
    let [ValueStep::Key(key)] = steps.as_slice() else { return None };
    let fact = ImplicitField::named(key)?;
    Some((fact, fact.column()?))
}
