//! Semantic checks of a query.

use super::ast::{Expression, ExpressionNode, PageSource, ParsedQuery, QueryMode};
use super::evaluate::compile;
use super::functions::Function;
use super::lexemes::ValueStep;
use super::problem::{QueryProblem, shown};
use crate::value::Value;

/// Checks a query. Also moves conditions on links behind the others, which are cheaper.
pub(crate) fn check(mut parsed: ParsedQuery, text: &str) -> Result<ParsedQuery, String> {
    for condition in &mut parsed.conditions {
        if let Expression::All(nodes) = &mut condition.kind {
            nodes.sort_by_key(looks_at_links);
        }
    }
    parsed.conditions.sort_by_key(looks_at_links);
    group_by_column(&mut parsed);
    patterns(&parsed).and_then(|()| grouping(&parsed)).map_err(|problem| problem.told(text))?;
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
pub(super) fn prefix(parsed: &ParsedQuery) -> Option<&str> {
    // The target of a link depends on the names of all pages.
    if nodes(parsed).any(looks_at_links) {
        return None;
    }
    parsed.source.as_ref().and_then(prefix_of)
}

fn prefix_of(source: &PageSource) -> Option<&str> {
    match source {
        PageSource::Prefix(prefix) => Some(prefix.trim_start_matches('/')),
        PageSource::All(sources) => sources.iter().find_map(prefix_of),
        PageSource::Tag(_) | PageSource::Not(_) | PageSource::Any(_) => None,
    }
}

/// All expressions of a query.
pub(super) fn nodes(parsed: &ParsedQuery) -> impl Iterator<Item = &ExpressionNode> {
    let columns = parsed.columns.iter().chain(&parsed.group).chain(&parsed.flatten).map(|column| &column.node);
    columns.chain(&parsed.conditions).chain(parsed.sort.iter().map(|(node, _)| node))
}

/// Whether it reads link sources or targets.
pub(super) fn looks_at_links(node: &ExpressionNode) -> bool {
    let mut found = false;
    node.visit(&mut |node| {
        found |= match &node.kind {
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
    found
}

/// Checks literal patterns and date formats.
fn patterns(parsed: &ParsedQuery) -> Result<(), QueryProblem> {
    let mut wrong = None;
    for node in nodes(parsed) {
        node.visit(&mut |node| {
            let Expression::Call(function, arguments) = &node.kind else { return };
            let takes = [(Function::RegexTest, 0), (Function::RegexReplace, 1), (Function::DateFormat, 1)];
            let Some((_, place)) = takes.into_iter().find(|(takes, _)| takes == function) else { return };
            if let Some(ExpressionNode { kind: Expression::Literal(Value::Text(text)), span }) = arguments.get(place)
                && let Some(what) = if *function == Function::DateFormat { no_format(text) } else { no_pattern(text) }
            {
                wrong = wrong.take().or(Some(QueryProblem::at(span.start, what)));
            }
        });
    }
    wrong.map_or(Ok(()), Err)
}

fn no_pattern(text: &str) -> Option<String> {
    let told = compile(text, false).err()?.to_string();
    let last = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
    Some(format!("`{}` is no regular expression: {last}", shown(text)))
}

/// Any time will do: whether a format is valid does not depend on it.
fn no_format(text: &str) -> Option<String> {
    let moment = jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC);
    let error = jiff::fmt::strtime::format(text, &moment).err()?;
    Some(format!("`{}` is no format of dates: {error}", shown(text)))
}

/// Checks where aggregates are allowed.
fn grouping(parsed: &ParsedQuery) -> Result<(), QueryProblem> {
    for node in parsed.flatten.iter().map(|column| &column.node).chain(parsed.group.iter().map(|column| &column.node)) {
        if node.has_aggregate() {
            return Err(QueryProblem::at(node.span.start, "a function of many rows cannot make the rows"));
        }
    }
    for condition in &parsed.conditions {
        if let Some(at) = bare_count(condition) {
            let what =
                "`count()` counts rows, and WHERE decides which there are; without parentheses `count` is a field";
            return Err(QueryProblem::at(at, what));
        }
    }
    if !parsed.is_aggregated() {
        return Ok(());
    }
    if !matches!(parsed.mode, QueryMode::Table | QueryMode::List | QueryMode::Json) {
        let at = parsed.columns.first().map_or(0, |column| column.node.span.start);
        return Err(QueryProblem::at(
            at,
            format!("{} takes no function of many rows; TABLE does", parsed.mode.name().to_uppercase()),
        ));
    }
    let key = parsed.group.as_ref();
    for column in &parsed.columns {
        let is_key = key.is_some_and(|key| key.name == column.name);
        if !is_key && loose_field(&column.node, key.map(|key| &key.node)) {
            let what = format!(
                "`{}` differs from row to row; in a query with sums and counts a column is made of them or of what GROUP BY names",
                shown(&column.name)
            );
            return Err(QueryProblem::at(column.node.span.start, what));
        }
    }
    Ok(())
}

/// The position of a `count()` in an expression.
fn bare_count(node: &ExpressionNode) -> Option<usize> {
    let mut found = None;
    node.visit(&mut |node| {
        if let Expression::Call(Function::Count, arguments) = &node.kind
            && arguments.is_empty()
        {
            found = found.or(Some(node.span.start));
        }
    });
    found
}

/// Whether an expression has a field outside of aggregate functions.
fn loose_field(node: &ExpressionNode, key: Option<&ExpressionNode>) -> bool {
    if let Expression::Field(steps) = &node.kind {
        return !matches!(key, Some(ExpressionNode { kind: Expression::Field(key), .. }) if key == steps);
    }
    let is_aggregate =
        matches!(&node.kind, Expression::Call(function, arguments) if function.is_aggregate(arguments.len()));
    !is_aggregate && node.children().into_iter().any(|child| loose_field(child, key))
}

impl ParsedQuery {
    /// Whether each row stands for several pages: a group, or all.
    pub(crate) fn is_aggregated(&self) -> bool {
        let is_joined = |node: &ExpressionNode| {
            let mut found = false;
            node.visit(&mut |node| {
                if let Expression::Call(function, arguments) = &node.kind {
                    // Without groups, `join(tags)` applies to the list of one page.
                    let is_lone_join = *function == Function::Join && self.group.is_none();
                    found |= function.is_aggregate(arguments.len()) && !is_lone_join;
                }
            });
            found
        };
        self.columns.iter().any(|column| is_joined(&column.node))
    }
}
