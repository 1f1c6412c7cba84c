//! Aggregates over the values of one field (GET /query/aggregate), as a query.

use super::ast::{Expression, ExpressionNode, NamedColumn, PageSource, ParsedQuery, QueryMode};
use super::functions::Function;
use super::problem::{excerpt, hint};
use super::{DqlQuery, grammar};
use crate::IndexError;

const FUNCTIONS: [(&str, Function); 5] = [
    ("count", Function::Count),
    ("avg", Function::Average),
    ("sum", Function::Sum),
    ("min", Function::Min),
    ("max", Function::Max),
];

const MAX_CALCULATIONS: usize = 32;

impl DqlQuery {
    /// Builds a query for aggregates over groups of pages: one row per value of `group`, with
    /// `count` and one column per calculation (`function` or `function:field`), named
    /// `function_field`. A page counts for each item of a list.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] on `group`, `calc` or `where`.
    pub fn aggregate(
        group: &str,
        calculations: &[String],
        condition: Option<&str>,
        prefix: Option<&str>,
    ) -> Result<Self, IndexError> {
        let read =
            |argument, text: &str| grammar::single_expression(text).map_err(|why| IndexError::invalid(argument, why));
        let field = |argument, text: &str| match read(argument, text)? {
            node @ ExpressionNode { kind: Expression::Field(_), .. } => Ok(node),
            ExpressionNode { .. } => Err(IndexError::invalid(argument, format!("`{}` is no field", excerpt(text)))),
        };
        if calculations.is_empty() || calculations.len() > MAX_CALCULATIONS {
            let why = format!("give 1 to {MAX_CALCULATIONS} calculations such as `count` or `avg:priority`");
            return Err(IndexError::invalid("calc", why));
        }
        let call = |function, arguments| ExpressionNode { kind: Expression::Call(function, arguments), span: 0..0 };
        let mut columns = vec![NamedColumn { name: "count".to_owned(), node: call(Function::Count, Vec::new()) }];
        for calculation in calculations {
            let (name, of) = match calculation.trim().split_once(':') {
                Some((name, of)) => (name.trim(), Some(of.trim())),
                None => (calculation.trim(), None),
            };
            let known = FUNCTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            let Some((name, function)) = known.map(|(name, function)| (*name, *function)) else {
                let names = FUNCTIONS.map(|(name, _)| name);
                let why = format!(
                    "there is no calculation `{}`; there are {}{}",
                    excerpt(name),
                    names.join(", "),
                    hint(name, names)
                );
                return Err(IndexError::invalid("calc", why));
            };
            match of {
                Some(of) => {
                    let node = call(function, vec![field("calc", of)?]);
                    columns.push(NamedColumn { name: format!("{name}_{of}"), node });
                }
                None if function == Function::Count => {}
                None => {
                    let why = format!("`{name}` needs a field, such as `{name}:priority`");
                    return Err(IndexError::invalid("calc", why));
                }
            }
        }
        let condition = condition.map(|text| read("where", text)).transpose()?;
        if condition.as_ref().is_some_and(ExpressionNode::has_aggregate) {
            return Err(IndexError::invalid("where", "an aggregate function cannot select pages"));
        }
        let parsed = ParsedQuery {
            text: String::new(),
            mode: QueryMode::Table,
            without_id: false,
            columns,
            source: prefix.map(|prefix| PageSource::Prefix(prefix.to_owned())),
            conditions: condition.into_iter().collect(),
            sort: Vec::new(),
            group: Some(NamedColumn { name: group.trim().to_owned(), node: field("group", group)? }),
            flatten: Vec::new(),
            limit: None,
            offset: None,
            is_unpaginated: true,
            summaries: Vec::new(),
        };
        Ok(Self { parsed })
    }
}
