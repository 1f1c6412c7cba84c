//! Compiles a metadata query to SQL.
//!
//! Invariant: no client input becomes part of the statement; fields and values are bound
//! parameters.

use rusqlite::types::Value;

use crate::schema::FIELDS;

use super::condition::{JsonField, MetaCondition, MetaLiteral, MetaOperator};

/// A statement under construction, with its parameters.
#[derive(Debug, Default)]
pub(super) struct MetaSql {
    pub(super) text: String,
    pub(super) values: Vec<Value>,
}

impl MetaSql {
    /// Adds a parameter and returns its placeholder.
    pub(super) fn bind(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len())
    }

    pub(super) fn condition(&mut self, condition: &MetaCondition) -> String {
        let source = self.source(&condition.field);
        let test = self.test(condition);
        format!("EXISTS (SELECT 1 FROM {source} WHERE {test})")
    }

    /// The sort value of a page: dates by time, everything else as it is.
    pub(super) fn sort_key(&mut self, field: &JsonField) -> String {
        let source = self.source(field);
        format!("(SELECT CASE t WHEN 'text' THEN coalesce(svcfs_instant(v), v) ELSE v END FROM {source} LIMIT 1)")
    }

    /// Rows `t`, `v`: JSON type and SQL value of the field's values; one row with NULLs when the
    /// field is missing and has no `[*]`.
    fn source(&mut self, field: &JsonField) -> String {
        let Some((own, inside)) = field.paths.split_last() else {
            return "(SELECT NULL AS t, NULL AS v)".to_owned();
        };
        let mut document = FIELDS.to_owned();
        let mut lists = Vec::new();
        for (depth, path) in inside.iter().enumerate() {
            let path = self.bind(path.clone());
            lists.push(format!("json_each({document}, {path}) AS e{depth}"));
            // A scalar is not JSON text and has no members.
            document = format!("CASE WHEN e{depth}.type IN ('object', 'array') THEN e{depth}.value ELSE 'null' END");
        }
        let path = self.bind(own.clone());
        let from = if lists.is_empty() { String::new() } else { format!(" FROM {}", lists.join(", ")) };
        match (own.as_str(), inside.len()) {
            ("$", depth @ 1..) => format!("(SELECT e{0}.type AS t, e{0}.value AS v{from})", depth - 1),
            _ => format!("(SELECT json_type({document}, {path}) AS t, json_extract({document}, {path}) AS v{from})"),
        }
    }

    /// The test on `t` and `v`.
    fn test(&mut self, condition: &MetaCondition) -> String {
        let present = "coalesce(t, 'null') <> 'null'";
        match condition.operator {
            MetaOperator::Equal => self.equals(condition),
            MetaOperator::NotEqual if condition.literal == MetaLiteral::Null => present.to_owned(),
            MetaOperator::NotEqual => format!("{present} AND NOT coalesce({}, 0)", self.equals(condition)),
            MetaOperator::Less => self.compares("<", condition),
            MetaOperator::LessOrEqual => self.compares("<=", condition),
            MetaOperator::Greater => self.compares(">", condition),
            MetaOperator::GreaterOrEqual => self.compares(">=", condition),
            MetaOperator::Like => format!("{present} AND {}", self.like(condition)),
            MetaOperator::NotLike => format!("{present} AND NOT {}", self.like(condition)),
        }
    }

    fn equals(&mut self, condition: &MetaCondition) -> String {
        let typed = match condition.literal {
            MetaLiteral::Null => "coalesce(t, 'null') = 'null'".to_owned(),
            MetaLiteral::Boolean(true) => "t = 'true'".to_owned(),
            MetaLiteral::Boolean(false) => "t = 'false'".to_owned(),
            MetaLiteral::Text
            | MetaLiteral::Integer(_)
            | MetaLiteral::Real(_)
            | MetaLiteral::Instant(_)
            | MetaLiteral::Day(_) => self.compares("=", condition),
        };
        if condition.quoted || condition.literal == MetaLiteral::Text {
            return format!("({typed})");
        }
        let text = self.bind(condition.text.clone());
        format!("({typed} OR (t = 'text' AND v = {text}))")
    }

    /// A comparison within one type. `coalesce` keeps NULL (not a date) out of `NOT` and `OR`.
    fn compares(&mut self, sign: &'static str, condition: &MetaCondition) -> String {
        match condition.literal {
            MetaLiteral::Integer(number) => format!("(t IN ('integer', 'real') AND v {sign} {})", self.bind(number)),
            MetaLiteral::Real(number) => format!("(t IN ('integer', 'real') AND v {sign} {})", self.bind(number)),
            MetaLiteral::Instant(instant) => {
                format!("(t = 'text' AND coalesce(svcfs_instant(v) {sign} {}, 0))", self.bind(instant))
            }
            MetaLiteral::Day(day) => format!("(t = 'text' AND coalesce(svcfs_day(v) {sign} {}, 0))", self.bind(day)),
            MetaLiteral::Text => format!("(t = 'text' AND v {sign} {})", self.bind(condition.text.clone())),
            MetaLiteral::Null | MetaLiteral::Boolean(_) => "0".to_owned(),
        }
    }

    /// Booleans match as `true` and `false`, not as SQLite's 1 and 0.
    fn like(&mut self, condition: &MetaCondition) -> String {
        format!("(CASE WHEN t IN ('true', 'false') THEN t ELSE v END LIKE {})", self.bind(condition.text.clone()))
    }
}
