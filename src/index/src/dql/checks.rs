//! Semantic checks of a query.

use super::ast::{Expression, ExpressionNode, PageSource, ParsedQuery, QueryMode};
use super::evaluate::compile;
use super::functions::Function;
use super::lexemes::ValueStep;
use super::problem::{QueryProblem, excerpt};
use crate::value::Value;

/// Checks a query. Also moves conditions on links behind the others, which are cheaper.
pub(crate) fn check(mut parsed: ParsedQuery, text: &str) -> Result<ParsedQuery, String> {
    for condition in &mut parsed.conditions {
        if let Expression::All(nodes) = &mut condition.kind {
            nodes.sort_by_key(reads_links);
        }
    }
    parsed.conditions.sort_by_key(reads_links);
    group_by_column(&mut parsed);
    check_patterns(&parsed).and_then(|()| check_grouping(&parsed)).map_err(|problem| problem.to_message(text))?;
    Ok(parsed)
}

/// In GROUP BY, as in SORT, the name of a column means the column.
fn group_by_column(parsed: &mut ParsedQuery) {
    let Some(group) = &mut parsed.group else { return };
    let Expression::Field(steps) = &group.node.kind else { return };
    if let [ValueStep::Key(key)] = steps.as_slice()
        && let Some(column) = parsed.columns.iter().find(|column| column.name == *key)
    {
        group.node = column.node.clone();
    }
}

/// The path prefix of all pages that can change the result; `None` when any page can.
pub(super) fn path_prefix(parsed: &ParsedQuery) -> Option<&str> {
    // The target of a link depends on the names of all pages.
    if nodes(parsed).any(reads_links) {
        return None;
    }
    parsed.source.as_ref().and_then(prefix_of)
}

fn prefix_of(source: &PageSource) -> Option<&str> {
    match source {
        PageSource::Prefix(prefix) => Some(prefix.trim_start_matches('/')),
        PageSource::All(sources) => sources.iter().find_map(prefix_of),
        PageSource::Visible(_) | PageSource::Tag(_) | PageSource::Not(_) | PageSource::Any(_) => None,
    }
}

/// A message with the position of a field, where the query has one.
pub(super) fn message_at_field(parsed: &ParsedQuery, name: &str, message: String) -> String {
    let mut position = None;
    for node in nodes(parsed) {
        node.visit(&mut |node| {
            if let Expression::Field(steps) = &node.kind
                && matches!(steps.first(), Some(ValueStep::Key(key)) if key == name)
            {
                position = position.or(Some(node.span.start));
            }
        });
    }
    match position.filter(|_| !parsed.text.is_empty()) {
        Some(at) => QueryProblem::at(at, message).to_message(&parsed.text),
        None => message,
    }
}

pub(super) fn nodes(parsed: &ParsedQuery) -> impl Iterator<Item = &ExpressionNode> {
    let columns = parsed.columns.iter().chain(&parsed.group).chain(&parsed.flatten).map(|column| &column.node);
    columns.chain(&parsed.conditions).chain(parsed.sort.iter().map(|(node, _)| node))
}

pub(super) fn reads_links(node: &ExpressionNode) -> bool {
    let mut is_match = false;
    node.visit(&mut |node| {
        is_match |= match &node.kind {
            Expression::Call(function, _) => matches!(function, Function::InLinks | Function::OutLinks),
            Expression::Field(steps) => matches!(steps.first(), Some(ValueStep::Key(key)) if key == "_backlink_count"),
            Expression::Literal(_)
            | Expression::Not(_)
            | Expression::Negative(_)
            | Expression::All(_)
            | Expression::Any(_)
            | Expression::Chain(..)
            | Expression::Compare(..)
            | Expression::Like(..)
            | Expression::In(..)
            | Expression::Between(..)
            | Expression::IsNull(..) => false,
        };
    });
    is_match
}

fn check_patterns(parsed: &ParsedQuery) -> Result<(), QueryProblem> {
    let mut problem = None;
    for node in nodes(parsed) {
        node.visit(&mut |node| {
            let Expression::Call(function, arguments) = &node.kind else { return };
            let takes = [(Function::RegexTest, 0), (Function::RegexReplace, 1), (Function::DateFormat, 1)];
            let Some((_, index)) = takes.into_iter().find(|(takes, _)| takes == function) else { return };
            if let Some(ExpressionNode { kind: Expression::Literal(Value::Text(text)), span }) = arguments.get(index)
                && let Some(message) =
                    if *function == Function::DateFormat { format_error(text) } else { pattern_error(text) }
            {
                problem = problem.take().or(Some(QueryProblem::at(span.start, message)));
            }
        });
    }
    problem.map_or(Ok(()), Err)
}

fn pattern_error(text: &str) -> Option<String> {
    let error = compile(text, false).err()?.to_string();
    let last = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
    Some(format!("`{}` is not a regular expression: {last}", excerpt(text)))
}

/// Any time will do: whether a format is valid does not depend on it.
fn format_error(text: &str) -> Option<String> {
    let epoch = jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC);
    let error = jiff::fmt::strtime::format(text, &epoch).err()?;
    Some(format!("`{}` is not a date format: {error}", excerpt(text)))
}

/// Checks where aggregates are allowed.
fn check_grouping(parsed: &ParsedQuery) -> Result<(), QueryProblem> {
    for node in parsed.flatten.iter().map(|column| &column.node).chain(parsed.group.iter().map(|column| &column.node)) {
        if node.has_aggregate() {
            return Err(QueryProblem::at(
                node.span.start,
                "an aggregate function cannot be used in GROUP BY or FLATTEN",
            ));
        }
    }
    for condition in &parsed.conditions {
        if let Some(at) = find_row_count(condition) {
            let message =
                "`count()` counts rows, and WHERE decides which there are; without parentheses `count` is a field";
            return Err(QueryProblem::at(at, message));
        }
    }
    if !parsed.is_aggregated() {
        return Ok(());
    }
    if !matches!(parsed.mode, QueryMode::Table | QueryMode::List | QueryMode::Json) {
        let at = parsed.columns.first().map_or(0, |column| column.node.span.start);
        return Err(QueryProblem::at(
            at,
            format!("{} does not support aggregate functions; use TABLE", parsed.mode.name().to_uppercase()),
        ));
    }
    let key = parsed.group.as_ref();
    for column in &parsed.columns {
        let is_key = key.is_some_and(|key| key.name == column.name);
        if !is_key && has_ungrouped_field(&column.node, key.map(|key| &key.node)) {
            let message = format!(
                "`{}` has a value per row; in a query with aggregates, use an aggregate function or the field of GROUP BY",
                excerpt(&column.name)
            );
            return Err(QueryProblem::at(column.node.span.start, message));
        }
    }
    Ok(())
}

fn find_row_count(node: &ExpressionNode) -> Option<usize> {
    let mut position = None;
    node.visit(&mut |node| {
        if let Expression::Call(Function::Count, arguments) = &node.kind
            && arguments.is_empty()
        {
            position = position.or(Some(node.span.start));
        }
    });
    position
}

fn has_ungrouped_field(node: &ExpressionNode, key: Option<&ExpressionNode>) -> bool {
    if let Expression::Field(steps) = &node.kind {
        return !matches!(key, Some(ExpressionNode { kind: Expression::Field(key), .. }) if key == steps);
    }
    let is_aggregate =
        matches!(&node.kind, Expression::Call(function, arguments) if function.is_aggregate(arguments.len()));
    !is_aggregate && node.children().into_iter().any(|child| has_ungrouped_field(child, key))
}

impl ParsedQuery {
    /// Whether each row stands for several pages: a group, or all.
    pub(crate) fn is_aggregated(&self) -> bool {
        let aggregates = |node: &ExpressionNode| {
            let mut is_match = false;
            node.visit(&mut |node| {
                if let Expression::Call(function, arguments) = &node.kind {
                    // Without groups, `join(tags)` applies to the list of one page.
                    let is_plain_join = *function == Function::Join && self.group.is_none();
                    is_match |= function.is_aggregate(arguments.len()) && !is_plain_join;
                }
            });
            is_match
        };
        self.columns.iter().any(|column| aggregates(&column.node))
    }
}
