//! Shortcut for aggregates: pages without any of the fields in the query are all alike. They are
//! counted in the index, and none of them is read.

use rusqlite::{Transaction, params_from_iter};

use super::ast::{Expression, ExpressionNode, QueryMode};
use super::functions::Function;
use super::narrow::{NarrowingSql, has_tags};
use super::row::QueryRow;
use super::run::QueryRun;
use super::shape::resolve_column;
use crate::IndexError;
use crate::fields;

impl QueryRun<'_> {
    /// The condition for pages that have one of the fields. `None` for queries in which pages
    /// without them differ, or which cannot use the shortcut.
    pub(crate) fn presence(&self, statement: &mut NarrowingSql) -> Option<String> {
        let parsed = self.parsed;
        let is_grouped = parsed.is_aggregated() || parsed.mode == QueryMode::Count && parsed.group.is_some();
        let is_plain = parsed.flatten.is_empty()
            && matches!(parsed.mode, QueryMode::Table | QueryMode::List | QueryMode::Json | QueryMode::Count)
            && parsed.source.as_ref().is_none_or(|source| !has_tags(source));
        let keys = &self.context.keys;
        let is_custom = |key: &String| self.context.custom.contains_key(key);
        if !is_grouped || !is_plain || !self.facts.is_empty() || keys.is_empty() || keys.iter().any(is_custom) {
            return None;
        }
        let is_group_value = |node: &ExpressionNode| {
            let group = parsed.group.as_ref().map(|group| &group.node.kind);
            match (&resolve_column(parsed, node).kind, group) {
                (Expression::Call(function, arguments), _) => ignores_absence(*function, arguments),
                (Expression::Field(steps), Some(Expression::Field(group))) => steps == group,
                _ => false,
            }
        };
        let outputs = parsed.columns.iter().map(|column| &column.node).chain(parsed.sort.iter().map(|(node, _)| node));
        let mut conditions = parsed.conditions.iter().chain(parsed.group.iter().map(|group| &group.node));
        if !outputs.into_iter().all(is_group_value) || conditions.any(follows_links) {
            return None;
        }
        let keys = keys.iter().map(|key| fields::presence_token(key));
        let words: Vec<String> = keys.collect::<Option<_>>()?;
        let words = statement.bind(format!("{{fields}} : ({})", words.join(" OR ")));
        Some(format!("pages.id IN (SELECT rowid FROM texts WHERE texts MATCH {words})"))
    }

    /// The number of pages in the query's source that have none of the fields, if they match the
    /// conditions. `present` is the number of pages with a field, if all were scanned.
    pub(crate) fn count_absent(
        &self,
        connection: &Transaction<'_>,
        present: Option<usize>,
    ) -> Result<usize, IndexError> {
        let empty_row = QueryRow::empty();
        for condition in &self.parsed.conditions {
            if !self.context.matches(condition, &empty_row)? {
                return Ok(0);
            }
        }
        let count = |with_field: bool| -> Result<usize, IndexError> {
            let mut statement = NarrowingSql::default();
            let mut parts: Vec<String> = Vec::new();
            if let Some(source) = &self.parsed.source {
                parts.extend(statement.source(source));
            }
            if with_field {
                parts.extend(self.presence(&mut statement));
            }
            // Without a condition, SQLite counts rows one database page at a time, and `facts` has
            // short rows.
            let sql = if parts.is_empty() {
                "SELECT count(*) FROM facts".to_owned()
            } else {
                format!("SELECT count(*) FROM pages WHERE {}", parts.join(" AND "))
            };
            let count: i64 =
                connection.prepare_cached(&sql)?.query_row(params_from_iter(&statement.values), |row| row.get(0))?;
            Ok(usize::try_from(count).unwrap_or_default())
        };
        let present = present.map_or_else(|| count(true), Ok)?;
        Ok(count(false)?.saturating_sub(present))
    }
}

/// Whether an aggregate ignores absent values, or counts rows.
fn ignores_absence(function: Function, arguments: &[ExpressionNode]) -> bool {
    let is_field = |node: &ExpressionNode| matches!(node.kind, Expression::Field(_));
    match (function, arguments) {
        (Function::Count, []) => true,
        (Function::Count | Function::Average | Function::Sum | Function::Min | Function::Max, [argument]) => {
            is_field(argument)
        }
        _ => false,
    }
}

fn follows_links(node: &ExpressionNode) -> bool {
    let mut follows = false;
    node.visit(&mut |node| {
        follows |= matches!(node.kind, Expression::Call(Function::InLinks | Function::OutLinks, _));
    });
    follows
}
