//! Evaluation of expressions.
//!
//! There are two truth values, not three: a comparison with an absent value is false (except with a
//! literal `null`), and NOT inverts it. Page content never causes an error: a function returns null
//! for arguments it does not support.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use regex::Regex;
use serde_json::Value as Json;

use super::arithmetic::combine;
use super::ast::{Comparison, Expression, ExpressionNode, NegationSense};
use super::calls;
use super::functions::Function;
use super::lexemes::ValueStep;
use super::links::LinkedPages;
use super::row::{ImplicitField, QueryRow, walk};
use crate::IndexError;
use crate::value::Value;

/// Values computed between two checks of the timeout; a text may be a megabyte.
const CHECK_INTERVAL: u32 = 128;

const MAX_CUSTOM_DEPTH: usize = 8;

/// Limit of a compiled pattern in bytes.
const MAX_PATTERN: usize = 1 << 20;

/// Limit of cached patterns: a pattern that is built from page content cannot fill the memory.
const MAX_PATTERNS: usize = 256;

/// Environment of evaluation, one per run of a query.
pub(crate) struct EvaluationContext<'c> {
    pub(crate) keys: Vec<String>,
    pub(crate) now: Timestamp,
    pub(crate) custom: &'c BTreeMap<String, ExpressionNode>,
    deadline: QueryDeadline,
    links: RefCell<LinkedPages<'c>>,
    patterns: RefCell<HashMap<(bool, String), Option<Regex>>>,
}

pub(crate) struct QueryDeadline {
    started: Instant,
    timeout: Duration,
    computed: Cell<u32>,
}

impl QueryDeadline {
    pub(crate) fn start(timeout: Duration) -> Self {
        Self { started: Instant::now(), timeout, computed: Cell::new(0) }
    }

    pub(crate) fn check(&self) -> Result<(), IndexError> {
        let timeout = self.timeout;
        if self.started.elapsed() <= timeout {
            return Ok(());
        }
        let message = format!(
            "takes longer than {timeout:?} (`dataview.query_timeout`); narrow it with FROM, or raise the setting"
        );
        Err(IndexError::invalid("q", message))
    }

    /// Counts a value and sometimes checks the time: one row of a long expression may take longer
    /// than all others.
    fn tick(&self) -> Result<(), IndexError> {
        let computed = self.computed.get() + 1;
        if computed < CHECK_INTERVAL {
            self.computed.set(computed);
            return Ok(());
        }
        self.computed.set(0);
        self.check()
    }
}

/// The input of an expression: a row, or the rows of a group with its first row.
#[derive(Clone, Copy)]
pub(crate) struct EvaluationScope<'r> {
    pub(crate) row: &'r QueryRow,
    pub(crate) group: Option<&'r [QueryRow]>,
    /// Further rows of the group that have none of the fields.
    pub(crate) absent: usize,
    depth: usize,
}

impl<'r> EvaluationScope<'r> {
    pub(crate) const fn of(row: &'r QueryRow) -> Self {
        Self { row, group: None, absent: 0, depth: 0 }
    }
    pub(crate) const fn group(row: &'r QueryRow, rows: &'r [QueryRow]) -> Self {
        Self { row, group: Some(rows), absent: 0, depth: 0 }
    }
    pub(crate) const fn with_absent(mut self, absent: usize) -> Self {
        self.absent = absent;
        self
    }
}

impl<'c> EvaluationContext<'c> {
    pub(crate) fn new(
        (links, deadline): (LinkedPages<'c>, QueryDeadline),
        keys: Vec<String>,
        now: Timestamp,
        custom: &'c BTreeMap<String, ExpressionNode>,
    ) -> Self {
        Self { keys, now, custom, deadline, links: RefCell::new(links), patterns: RefCell::default() }
    }

    pub(crate) fn check_timeout(&self) -> Result<(), IndexError> {
        self.deadline.check()
    }

    pub(crate) fn matches(&self, node: &ExpressionNode, row: &QueryRow) -> Result<bool, IndexError> {
        Ok(self.value(node, EvaluationScope::of(row))?.is_truthy())
    }

    pub(crate) fn value(&self, node: &ExpressionNode, scope: EvaluationScope<'_>) -> Result<Value, IndexError> {
        self.deadline.tick()?;
        Ok(match &node.kind {
            Expression::Literal(value) => value.clone(),
            Expression::Field(steps) => self.field(steps, scope)?,
            Expression::Call(function, arguments) => self.call(*function, arguments, scope)?,
            Expression::Not(inner) => Value::Boolean(!self.value(inner, scope)?.is_truthy()),
            Expression::Negative(inner) => calls::negative(self.value(inner, scope)?),
            Expression::All(nodes) => {
                for node in nodes {
                    if !self.value(node, scope)?.is_truthy() {
                        return Ok(Value::Boolean(false));
                    }
                }
                Value::Boolean(true)
            }
            Expression::Any(nodes) => {
                for node in nodes {
                    if self.value(node, scope)?.is_truthy() {
                        return Ok(Value::Boolean(true));
                    }
                }
                Value::Boolean(false)
            }
            Expression::Chain(first, rest) => {
                let mut result = self.value(first, scope)?;
                for (operator, node) in rest {
                    result = combine(*operator, result, self.value(node, scope)?)?;
                }
                result
            }
            Expression::Compare(comparison, a, b) => {
                // Two absent fields are not equal; only a literal `null` tests for absence.
                let compares_null = is_written_null(a) || is_written_null(b);
                let (a, b) = (self.operands(a, scope)?, self.operands(b, scope)?);
                let is_comparable = |a: &Value, b: &Value| compares_null || !a.is_null() || !b.is_null();
                let holds = |a: &Value| b.iter().any(|b| is_comparable(a, b) && compares(*comparison, a, b));
                Value::Boolean(a.iter().any(holds))
            }
            Expression::Like(a, b, sense) => self.like(a, b, *sense, scope)?,
            Expression::In(a, list, sense) => self.is_in(a, list, *sense, scope)?,
            Expression::Between(a, ends, sense) => {
                let (low, high) = (self.value(&ends.0, scope)?, self.value(&ends.1, scope)?);
                let is_between = |value: &Value| {
                    compares(Comparison::GreaterOrEqual, value, &low) && compares(Comparison::LessOrEqual, value, &high)
                };
                self.any_operand(a, *sense, scope, is_between)?
            }
            Expression::IsNull(a, sense) => {
                let is_null = self.operands(a, scope)?.iter().all(Value::is_null);
                Value::Boolean(is_null == (*sense == NegationSense::Plain))
            }
        })
    }

    /// The operands of a comparison: all values of `[*]`, else one.
    fn operands(&self, node: &ExpressionNode, scope: EvaluationScope<'_>) -> Result<Vec<Value>, IndexError> {
        let is_spread = matches!(&node.kind, Expression::Field(steps) if steps.contains(&ValueStep::Any));
        Ok(match self.value(node, scope)? {
            Value::List(items) if is_spread && items.is_empty() => vec![Value::Null],
            Value::List(items) if is_spread => items,
            value => vec![value],
        })
    }

    /// Whether a test is true for one of the values; with NOT, whether it is false for one that is
    /// not null.
    fn any_operand(
        &self,
        node: &ExpressionNode,
        sense: NegationSense,
        scope: EvaluationScope<'_>,
        test: impl Fn(&Value) -> bool,
    ) -> Result<Value, IndexError> {
        let holds = |value: &Value| match sense {
            NegationSense::Plain => test(value),
            NegationSense::Negated => !value.is_null() && !test(value),
        };
        Ok(Value::Boolean(self.operands(node, scope)?.iter().any(holds)))
    }

    fn like(
        &self,
        a: &ExpressionNode,
        b: &ExpressionNode,
        sense: NegationSense,
        scope: EvaluationScope<'_>,
    ) -> Result<Value, IndexError> {
        let pattern = self.value(b, scope)?;
        if pattern.is_null() {
            return Ok(Value::Boolean(false));
        }
        let pattern = like_pattern(&pattern.text());
        self.any_operand(a, sense, scope, |value| !value.is_null() && self.fits(&pattern, &value.text()))
    }

    fn is_in(
        &self,
        a: &ExpressionNode,
        list: &[ExpressionNode],
        sense: NegationSense,
        scope: EvaluationScope<'_>,
    ) -> Result<Value, IndexError> {
        let mut values = Vec::with_capacity(list.len());
        for node in list {
            values.push(self.value(node, scope)?);
        }
        // `x IN (list)` where the list is a field.
        if let [Value::List(_)] = values.as_slice()
            && let Some(Value::List(items)) = values.pop()
        {
            values = items;
        }
        self.any_operand(a, sense, scope, |value| values.iter().any(|item| value.equals(item)))
    }

    fn field(&self, steps: &[ValueStep], scope: EvaluationScope<'_>) -> Result<Value, IndexError> {
        let row = scope.row;
        for (path, value) in &row.overrides {
            if let Some(rest) = steps.strip_prefix(path.as_slice()) {
                return Ok(if rest.is_empty() { value.clone() } else { walk(&value.clone().into_json(), rest) });
            }
        }
        let Some((ValueStep::Key(key), rest)) = steps.split_first() else {
            return Ok(Value::Null);
        };
        if let Some(fact) = ImplicitField::named(key).filter(|_| rest.is_empty()) {
            return self.fact(fact, row);
        }
        let index = self.keys.iter().position(|requested| requested == key);
        if let Some((_, json)) = row.members.iter().find(|(member, _)| Some(*member) == index) {
            return Ok(walk(json, rest));
        }
        match self.custom.get(key) {
            Some(node) if rest.is_empty() && scope.depth < MAX_CUSTOM_DEPTH => {
                self.value(node, EvaluationScope { row, group: None, absent: 0, depth: scope.depth + 1 })
            }
            Some(_) | None => Ok(walk(&Json::Null, rest)),
        }
    }

    fn fact(&self, fact: ImplicitField, row: &QueryRow) -> Result<Value, IndexError> {
        if let Some(value) = fact.of_path(&row.path) {
            return Ok(value);
        }
        if fact == ImplicitField::BacklinkCount {
            return Ok(calls::count(self.links.borrow_mut().count_sources(&row.path)?));
        }
        Ok(row.facts.iter().find(|(known, _)| *known == fact).map_or(Value::Null, |(_, value)| value.clone()))
    }

    fn call(
        &self,
        function: Function,
        arguments: &[ExpressionNode],
        scope: EvaluationScope<'_>,
    ) -> Result<Value, IndexError> {
        if let Some(rows) = scope.group.filter(|_| function.is_aggregate(arguments.len())) {
            return self.aggregate(function, arguments, (rows, scope.absent));
        }
        let paths = |paths: Vec<String>| Value::List(paths.into_iter().map(Value::Text).collect());
        match function {
            Function::OutLinks => return Ok(paths(self.links.borrow_mut().targets(&scope.row.path)?)),
            Function::InLinks => return Ok(paths(self.links.borrow_mut().sources(&scope.row.path)?)),
            Function::Choice => {
                let branch = if self.value(&arguments[0], scope)?.is_truthy() { &arguments[1] } else { &arguments[2] };
                return self.value(branch, scope);
            }
            Function::Default => {
                let value = self.value(&arguments[0], scope)?;
                return if value.is_null() { self.value(&arguments[1], scope) } else { Ok(value) };
            }
            Function::Now => return Ok(Value::Instant(self.now)),
            Function::Average
            | Function::Contains
            | Function::Count
            | Function::Date
            | Function::DateFormat
            | Function::DaysAgo
            | Function::DaysSince
            | Function::EndsWith
            | Function::Join
            | Function::Length
            | Function::Lower
            | Function::Matches
            | Function::Max
            | Function::Min
            | Function::NonNull
            | Function::Number
            | Function::RegexReplace
            | Function::RegexTest
            | Function::Replace
            | Function::Round
            | Function::StartsWith
            | Function::String
            | Function::Substring
            | Function::Sum
            | Function::Today
            | Function::TypeOf
            | Function::Upper => {}
        }
        let mut values = Vec::with_capacity(arguments.len());
        for node in arguments {
            values.push(self.value(node, scope)?);
        }
        calls::call(self, function, &values)
    }

    /// Aggregates over the rows of a group; list items count one by one.
    fn aggregate(
        &self,
        function: Function,
        arguments: &[ExpressionNode],
        (rows, absent): (&[QueryRow], usize),
    ) -> Result<Value, IndexError> {
        let Some(first) = arguments.first() else {
            return Ok(calls::count(rows.len() + absent));
        };
        let mut values = Vec::with_capacity(rows.len() + 1);
        // Aggregates ignore null, so one stands for any number.
        values.extend((absent > 0).then_some(Value::Null));
        for row in rows {
            match self.value(first, EvaluationScope::of(row))? {
                Value::List(items) => values.extend(items),
                value => values.push(value),
            }
        }
        let mut call_arguments = vec![Value::List(values)];
        if let (Some(second), Some(row)) = (arguments.get(1), rows.first()) {
            call_arguments.push(self.value(second, EvaluationScope::of(row))?);
        }
        calls::call(self, function, &call_arguments)
    }

    /// Whether a text matches a generated regular expression.
    pub(crate) fn fits(&self, pattern: &str, text: &str) -> bool {
        self.with_pattern(pattern, true, |regex| regex.is_match(text)).unwrap_or_default()
    }

    /// Runs `work` with a compiled pattern; `None` for an invalid one. Matching takes time linear
    /// in the text for any pattern.
    pub(crate) fn with_pattern<T>(
        &self,
        pattern: &str,
        ignores_case: bool,
        work: impl FnOnce(&Regex) -> T,
    ) -> Option<T> {
        let mut patterns = self.patterns.borrow_mut();
        let key = (ignores_case, pattern.to_owned());
        if patterns.len() >= MAX_PATTERNS && !patterns.contains_key(&key) {
            patterns.clear();
        }
        let compiled = patterns.entry(key).or_insert_with(|| compile(pattern, ignores_case).ok());
        compiled.as_ref().map(work)
    }
}

const fn is_written_null(node: &ExpressionNode) -> bool {
    matches!(node.kind, Expression::Literal(Value::Null))
}

pub(crate) fn compile(pattern: &str, ignores_case: bool) -> Result<Regex, regex::Error> {
    regex::RegexBuilder::new(pattern)
        .case_insensitive(ignores_case)
        .dot_matches_new_line(ignores_case)
        .size_limit(MAX_PATTERN)
        .dfa_size_limit(MAX_PATTERN)
        .build()
}

/// LIKE as a regular expression: `%` any text, `_` any character.
fn like_pattern(pattern: &str) -> String {
    let mut regex = String::from("^");
    let mut plain = String::new();
    for c in pattern.chars() {
        let sign = match c {
            '%' => ".*",
            '_' => ".",
            other => {
                plain.push(other);
                continue;
            }
        };
        regex.push_str(&regex::escape(&plain));
        plain.clear();
        regex.push_str(sign);
    }
    regex.push_str(&regex::escape(&plain));
    regex.push('$');
    regex
}

pub(crate) fn compares(comparison: Comparison, a: &Value, b: &Value) -> bool {
    let order = a.compare(b);
    match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => !a.is_null() && order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)) && !a.is_null(),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)) && !a.is_null(),
    }
}
