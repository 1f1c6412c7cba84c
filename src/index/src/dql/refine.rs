//! Adds the filters, order, groups and columns of a saved view to a query.

use serde_json::Value as Json;

use super::ast::{Comparison, Expression, ExpressionNode, NamedColumn, NegationSense, ParsedQuery};
use super::functions::Function;
use super::lexemes::ValueStep;
use super::problem::excerpt;
use super::{DqlQuery, checks, grammar};
use crate::IndexError;
use crate::value::Value;

/// Node limit of an expression after its column names are replaced.
const MAX_SIZE: usize = 100_000;

const MAX_ITEMS: usize = 64;

/// Changes to a query.
#[derive(Debug, Clone, Default)]
pub struct QueryRefinement<'v> {
    /// Columns that replace the query's own; empty keeps those. If all have formulas, they are
    /// added instead.
    pub columns: Vec<ViewColumn<'v>>,
    /// Additional conditions.
    pub filters: Vec<RowFilter<'v>>,
    /// Fields to sort by instead of the query's, each with whether it is descending; empty keeps
    /// those.
    pub sort: Vec<(&'v str, bool)>,
    /// Field to group by instead of the query's.
    pub group: Option<&'v str>,
}

/// A column of a view.
#[derive(Debug, Clone, Copy)]
pub struct ViewColumn<'v> {
    /// A column of the query, or a field.
    pub property: &'v str,
    /// Its name in the result.
    pub label: &'v str,
    /// Expression that replaces the property.
    pub formula: Option<&'v str>,
    /// Summary over all cells.
    pub summary: Option<ColumnSummary>,
}

/// A condition of a view.
#[derive(Debug, Clone, Copy)]
pub struct RowFilter<'v> {
    /// The field.
    pub field: &'v str,
    /// `=`, `!=`, `>`, `<`, `>=`, `<=`, `contains` or `in`.
    pub operator: &'v str,
    /// The value to compare with; a list for `in`.
    pub value: &'v Json,
}

/// Summary over all cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnSummary {
    /// Sum of the numbers.
    Sum,
    /// Average of the numbers.
    Average,
    /// Number of cells with a value.
    Count,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
}

impl ColumnSummary {
    pub(crate) const fn function(self) -> Function {
        match self {
            Self::Sum => Function::Sum,
            Self::Average => Function::Average,
            Self::Count => Function::Count,
            Self::Min => Function::Min,
            Self::Max => Function::Max,
        }
    }
}

impl DqlQuery {
    /// Applies the changes of a view.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] on `columns`, `filters`, `sort` or `group_by`, with the wrong part.
    pub fn refine(self, refinement: &QueryRefinement<'_>) -> Result<Self, IndexError> {
        let mut parsed = self.parsed;
        let counts = [
            ("columns", refinement.columns.len()),
            ("filters", refinement.filters.len()),
            ("sort", refinement.sort.len()),
        ];
        if let Some((argument, count)) = counts.into_iter().find(|(_, count)| *count > MAX_ITEMS) {
            return Err(IndexError::invalid(argument, format!("{count} are too many; at most {MAX_ITEMS} are read")));
        }
        for filter in &refinement.filters {
            parsed.conditions.push(condition(&parsed, filter)?);
        }
        if let Some(group) = refinement.group {
            parsed.group = Some(NamedColumn { name: group.to_owned(), node: field("group_by", group)? });
        }
        if !refinement.sort.is_empty() {
            let key = |(name, is_descending): &(&str, bool)| {
                Ok((resolve_columns(&parsed, field("sort", name)?)?, *is_descending))
            };
            parsed.sort = refinement.sort.iter().map(key).collect::<Result<_, IndexError>>()?;
        }
        if !refinement.columns.is_empty() {
            let column = |column: &ViewColumn<'_>| -> Result<NamedColumn, IndexError> {
                let node = match column.formula {
                    Some(formula) => read("columns", formula)?,
                    None => field("columns", column.property)?,
                };
                Ok(NamedColumn { name: column.label.to_owned(), node: resolve_columns(&parsed, node)? })
            };
            let is_addition = refinement.columns.iter().all(|column| column.formula.is_some());
            let mut columns = if is_addition { parsed.columns.clone() } else { Vec::new() };
            let mut summaries = Vec::new();
            for view_column in &refinement.columns {
                let new_column = column(view_column)?;
                let index = columns
                    .iter()
                    .position(|existing| is_addition && existing.name == new_column.name)
                    .unwrap_or(columns.len());
                columns.splice(index..columns.len().min(index + 1), [new_column]);
                summaries.extend(view_column.summary.map(|summary| (index, summary)));
            }
            (parsed.columns, parsed.summaries) = (columns, summaries);
        }
        if !parsed.summaries.is_empty() && parsed.is_aggregated() {
            let why = "a column with aggregates cannot have a summary; remove one of the two";
            return Err(IndexError::invalid("columns", why));
        }
        let parsed = checks::check(parsed, "").map_err(|why| IndexError::invalid("columns", why))?;
        Ok(Self { parsed })
    }
}

fn read(argument: &'static str, text: &str) -> Result<ExpressionNode, IndexError> {
    grammar::single_expression(text).map_err(|why| IndexError::invalid(argument, format!("`{}`: {why}", excerpt(text))))
}

fn field(argument: &'static str, text: &str) -> Result<ExpressionNode, IndexError> {
    match read(argument, text)? {
        node @ ExpressionNode { kind: Expression::Field(_), .. } => Ok(node),
        ExpressionNode { .. } => Err(IndexError::invalid(argument, format!("`{}` is no field", excerpt(text)))),
    }
}

const fn node(kind: Expression) -> ExpressionNode {
    ExpressionNode { kind, span: 0..0 }
}

fn condition(parsed: &ParsedQuery, filter: &RowFilter<'_>) -> Result<ExpressionNode, IndexError> {
    let RowFilter { field: name, operator, value } = *filter;
    let operand = resolve_columns(parsed, field("filters", name)?)?;
    let literal = node(Expression::Literal(Value::of(value)));
    let compare = |comparison| Expression::Compare(comparison, Box::new(operand.clone()), Box::new(literal.clone()));
    Ok(node(match operator {
        "=" | "==" => compare(Comparison::Equal),
        "!=" => compare(Comparison::NotEqual),
        ">" => compare(Comparison::Greater),
        "<" => compare(Comparison::Less),
        ">=" => compare(Comparison::GreaterOrEqual),
        "<=" => compare(Comparison::LessOrEqual),
        "contains" => Expression::Call(Function::Contains, vec![operand, literal]),
        "in" => {
            let items: Vec<Json> = match value {
                Json::Array(items) => items.clone(),
                single => vec![single.clone()],
            };
            let items = items.iter().map(|item| node(Expression::Literal(Value::of(item)))).collect();
            Expression::In(Box::new(operand), items, NegationSense::Plain)
        }
        other => {
            let why = format!("there is no operator `{}`; use =, !=, >, <, >=, <=, contains or in", excerpt(other));
            return Err(IndexError::invalid("filters", why));
        }
    }))
}

/// Replaces the names of the query's columns by their expressions.
fn resolve_columns(parsed: &ParsedQuery, mut node: ExpressionNode) -> Result<ExpressionNode, IndexError> {
    let size = |node: &ExpressionNode| {
        let mut size = 0_usize;
        node.visit(&mut |_| size += 1);
        size
    };
    // Each name may become a full column: check the size before the replacement.
    let largest = parsed.columns.iter().map(|column| size(&column.node)).max().unwrap_or(1);
    if size(&node).saturating_mul(largest) > MAX_SIZE {
        return Err(IndexError::invalid("columns", "an expression is too large together with the columns it names"));
    }
    replace(&mut node, &parsed.columns);
    Ok(node)
}

fn replace(node: &mut ExpressionNode, columns: &[NamedColumn]) {
    if let Expression::Field(steps) = &node.kind {
        let [ValueStep::Key(key)] = steps.as_slice() else { return };
        if let Some(column) = columns.iter().find(|column| column.name == *key) {
            node.kind = column.node.kind.clone();
        }
        return;
    }
    match &mut node.kind {
        Expression::Literal(_) | Expression::Field(_) => {}
        Expression::Call(_, nodes) | Expression::All(nodes) | Expression::Any(nodes) => {
            nodes.iter_mut().for_each(|node| replace(node, columns));
        }
        Expression::Not(operand) | Expression::Negative(operand) | Expression::IsNull(operand, _) => {
            replace(operand, columns)
        }
        Expression::Chain(first, rest) => {
            replace(first, columns);
            rest.iter_mut().for_each(|(_, node)| replace(node, columns));
        }
        Expression::Compare(_, left, right) | Expression::Like(left, right, _) => {
            replace(left, columns);
            replace(right, columns);
        }
        Expression::In(operand, nodes, _) => {
            replace(operand, columns);
            nodes.iter_mut().for_each(|node| replace(node, columns));
        }
        Expression::Between(operand, ends, _) => {
            replace(operand, columns);
            replace(&mut ends.0, columns);
            replace(&mut ends.1, columns);
        }
    }
}
