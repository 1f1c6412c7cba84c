//! Evaluates expressions.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration as Timeout, Instant};

use jiff::Zoned;
use jiff::tz::TimeZone;
use regex::Regex;

use super::operators;
use super::row::{Row, RowSource};
use crate::error::{Evaluation, Failure};
use crate::field_value::item_fields;
use crate::page::{Page, Vault};
use crate::syntax::{Expression, ExpressionKind, Lambda, Operator};
use crate::time::{parse_date, weekday_number};
use crate::value::{Link, Value, compare};

/// Evaluations between two checks of the timeout.
const CHECK_INTERVAL: u32 = 256;

/// Limit of a text that an expression makes, in bytes.
pub(crate) const MAX_TEXT_BYTES: usize = 1 << 20;

/// Limit of a list that an expression makes.
pub(crate) const MAX_LIST_ITEMS: usize = 100_000;

/// Limit of expressions within expressions, through lambdas too.
const MAX_EVALUATION_DEPTH: u32 = 256;

/// Limit of lists within lists.
const MAX_VALUE_DEPTH: usize = 64;

const MAX_REGEXES: usize = 256;

/// A lambda with the values that it can read.
#[derive(Debug)]
pub struct Closure {
    lambda: Arc<Lambda>,
    scope: Scope,
}

/// The row and the parameters of the lambdas around an expression.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) row: Arc<Row>,
    parameters: Option<Arc<Parameters>>,
}

#[derive(Debug)]
struct Parameters {
    values: Vec<(Arc<str>, Value)>,
    outer: Option<Arc<Parameters>>,
}

impl Scope {
    pub(crate) const fn of(row: Arc<Row>) -> Self {
        Self { row, parameters: None }
    }

    fn parameter(&self, name: &str) -> Option<&Value> {
        let mut parameters = self.parameters.as_deref();
        while let Some(frame) = parameters {
            if let Some((_, value)) = frame.values.iter().find(|(key, _)| &**key == name) {
                return Some(value);
            }
            parameters = frame.outer.as_deref();
        }
        None
    }
}

/// Evaluates the expressions of one query.
pub(crate) struct Evaluator<'v> {
    pub(crate) vault: &'v dyn Vault,
    /// The page of the query (`this`).
    pub(crate) page: Option<Arc<Page>>,
    pub(crate) now: Zoned,
    deadline: Instant,
    timeout: Timeout,
    until_check: Cell<u32>,
    depth: Cell<u32>,
    resolved: RefCell<HashMap<String, Option<String>>>,
    regexes: RefCell<HashMap<String, Regex>>,
}

impl<'v> Evaluator<'v> {
    pub(crate) fn new(vault: &'v dyn Vault, page: Option<Arc<Page>>, timeout: Timeout) -> Self {
        let started = Instant::now();
        Self {
            vault,
            page,
            now: vault.now().to_zoned(vault.time_zone()),
            deadline: started.checked_add(timeout).unwrap_or(started),
            timeout,
            until_check: Cell::new(CHECK_INTERVAL),
            depth: Cell::new(0),
            resolved: RefCell::default(),
            regexes: RefCell::default(),
        }
    }

    pub(crate) fn zone(&self) -> &TimeZone {
        self.now.time_zone()
    }

    /// Fails when the query takes too long. Checks the clock on some calls only.
    pub(crate) fn check_deadline(&self) -> Evaluation<()> {
        let left = self.until_check.get().saturating_sub(1);
        self.until_check.set(if left == 0 { CHECK_INTERVAL } else { left });
        if left == 0 && Instant::now() > self.deadline {
            return Err(Failure::query(format!(
                "the query takes longer than {:?} (`dataview.query_timeout`); narrow it with FROM, or raise the setting",
                self.timeout
            )));
        }
        Ok(())
    }

    pub(crate) fn compare(&self, left: &Value, right: &Value) -> Ordering {
        compare(left, right, &|link| self.normalized_path(link))
    }

    pub(crate) fn is_equal(&self, left: &Value, right: &Value) -> bool {
        self.compare(left, right) == Ordering::Equal
    }

    /// The path of the page that a link means; as written when it means none.
    fn normalized_path(&self, link: &Link) -> String {
        self.resolve(&link.path).ok().flatten().unwrap_or_else(|| link.path.clone())
    }

    /// The path that a link means. An empty link means the page of the query.
    pub(crate) fn resolve(&self, target: &str) -> Evaluation<Option<String>> {
        let from = self.page.as_ref().map_or("", |page| page.path.as_str());
        if target.is_empty() {
            return Ok(self.page.as_ref().map(|page| page.path.clone()));
        }
        if let Some(path) = self.resolved.borrow().get(target) {
            return Ok(path.clone());
        }
        let path = self.vault.resolve(target, from)?;
        self.resolved.borrow_mut().insert(target.to_owned(), path.clone());
        Ok(path)
    }

    pub(crate) fn linked_page(&self, link: &Link) -> Evaluation<Option<Arc<Page>>> {
        match self.resolve(&link.path)? {
            Some(path) => Ok(self.vault.page(&path)?),
            None => Ok(None),
        }
    }

    pub(crate) fn regex(&self, pattern: &str) -> Evaluation<Regex> {
        if let Some(regex) = self.regexes.borrow().get(pattern) {
            return Ok(regex.clone());
        }
        let regex = regex::RegexBuilder::new(pattern).size_limit(1 << 20).build().map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
            let note = if pattern.contains("(?=") || pattern.contains("(?!") || pattern.contains("(?<") {
                "; lookarounds and backreferences are not supported"
            } else {
                ""
            };
            Failure::query(format!("the regular expression `{pattern}` is invalid: {reason}{note}"))
        })?;
        let mut regexes = self.regexes.borrow_mut();
        if regexes.len() < MAX_REGEXES {
            regexes.insert(pattern.to_owned(), regex.clone());
        }
        Ok(regex)
    }

    pub(crate) fn evaluate(&self, expression: &Expression, scope: &Scope) -> Evaluation<Value> {
        self.check_deadline()?;
        if self.depth.get() == MAX_EVALUATION_DEPTH {
            return Err(Failure::query("lambdas that call each other are nested too deep; simplify the query"));
        }
        self.depth.set(self.depth.get() + 1);
        let value = self.evaluate_kind(expression, scope);
        self.depth.set(self.depth.get() - 1);
        value
    }

    /// Refuses a value that is nested too deep.
    pub(crate) fn limited(value: Value) -> Evaluation<Value> {
        if value.is_deeper(MAX_VALUE_DEPTH) {
            return Err(Failure::query(format!("a list is nested more than {MAX_VALUE_DEPTH} levels deep")));
        }
        Ok(value)
    }

    fn evaluate_kind(&self, expression: &Expression, scope: &Scope) -> Evaluation<Value> {
        Ok(match &expression.kind {
            ExpressionKind::Literal(value) => value.clone(),
            ExpressionKind::Link(link) if link.path.is_empty() => {
                let path = self.page.as_ref().map(|page| page.path.clone()).unwrap_or_default();
                Value::link(Link { path, ..link.clone() })
            }
            ExpressionKind::Link(link) => Value::link(link.clone()),
            ExpressionKind::DateWord(word) => word.resolve(&self.now).map_or(Value::Null, Value::date),
            ExpressionKind::DateText(text) => parse_date(text, self.zone()).map_or(Value::Null, Value::date),
            ExpressionKind::Variable(name) => self.variable(name, scope)?,
            ExpressionKind::List(items) => {
                let items = items.iter().map(|item| self.evaluate(item, scope));
                Self::limited(Value::list(items.collect::<Evaluation<_>>()?))?
            }
            ExpressionKind::Object(members) => {
                let member = |(key, item): &(String, Expression)| Ok((key.clone(), self.evaluate(item, scope)?));
                Self::limited(Value::Object(Arc::new(members.iter().map(member).collect::<Evaluation<_>>()?)))?
            }
            ExpressionKind::Index(object, key) => {
                let object = self.evaluate(object, scope)?;
                let key = self.evaluate(key, scope)?;
                self.index(&object, &key)?
            }
            ExpressionKind::Call(function, arguments) => {
                let arguments: Vec<Value> =
                    arguments.iter().map(|argument| self.evaluate(argument, scope)).collect::<Evaluation<_>>()?;
                Self::limited(function.call(self, &arguments)?)?
            }
            ExpressionKind::Lambda(lambda) => {
                Value::Function(Arc::new(Closure { lambda: Arc::clone(lambda), scope: scope.clone() }))
            }
            ExpressionKind::Not(inner) => Value::Boolean(!self.evaluate(inner, scope)?.is_truthy()),
            ExpressionKind::Negative(inner) => {
                operators::apply(self, Operator::Multiply, &self.evaluate(inner, scope)?, &Value::Number(-1.0))?
            }
            ExpressionKind::Chain(first, rest) => {
                let mut value = self.evaluate(first, scope)?;
                for (operator, operand) in rest {
                    // The result is known without the right side, which may have no value.
                    value = match operator {
                        Operator::And if !value.is_truthy() => Value::Boolean(false),
                        Operator::Or if value.is_truthy() => Value::Boolean(true),
                        _ => operators::apply(self, *operator, &value, &self.evaluate(operand, scope)?)?,
                    };
                }
                value
            }
        })
    }

    fn variable(&self, name: &str, scope: &Scope) -> Evaluation<Value> {
        if let Some(value) = scope.parameter(name) {
            return Ok(value.clone());
        }
        match (name, &self.page) {
            ("row", _) => Ok(Value::Row(Arc::clone(&scope.row))),
            ("this", Some(page)) => Ok(Value::Row(Arc::new(Row::new(RowSource::Page(Arc::clone(page)))))),
            _ => self.row_field(&scope.row, name),
        }
    }

    /// Calls a lambda; parameters without an argument are null.
    pub(crate) fn call(&self, function: &Value, arguments: &[Value]) -> Evaluation<Value> {
        let Value::Function(closure) = function else {
            return Err(Failure::row(format!(
                "a function such as `(x) => x` is required, not {}",
                function.type_name()
            )));
        };
        let names = closure.lambda.parameters.iter();
        let values = names.zip(arguments.iter().cloned().chain(std::iter::repeat(Value::Null)));
        let parameters = Parameters {
            values: values.map(|(name, value)| (Arc::clone(name), value)).collect(),
            outer: closure.scope.parameters.clone(),
        };
        let scope = Scope { row: Arc::clone(&closure.scope.row), parameters: Some(Arc::new(parameters)) };
        self.evaluate(&closure.lambda.body, &scope)
    }

    /// `object[key]`. A list with a name gives the field of each item.
    pub(crate) fn index(&self, object: &Value, key: &Value) -> Evaluation<Value> {
        self.check_deadline()?;
        if let Value::Number(number) = key {
            return Ok(match object {
                Value::List(items) => item_at(items, *number).cloned().unwrap_or(Value::Null),
                Value::Text(text) => char_at(text, *number).map_or(Value::Null, |c| Value::text(c.to_string())),
                Value::Null => Value::Null,
                other => return Err(Failure::row(format!("{} has no item {number}", other.type_name()))),
            });
        }
        let Some(name) = key.as_text() else {
            return match object {
                Value::Null => Ok(Value::Null),
                _ => {
                    Err(Failure::row(format!("a field is selected by a name or a number, not by {}", key.type_name())))
                }
            };
        };
        Ok(match object {
            Value::Object(members) => member(members, name).cloned().unwrap_or(Value::Null),
            Value::List(items) => {
                Value::list(items.iter().map(|item| self.index(item, key)).collect::<Evaluation<_>>()?)
            }
            Value::Link(link) => match self.linked_page(link)? {
                Some(page) => self.row_field(&Row::new(RowSource::Page(page)), name)?,
                None => Value::Null,
            },
            Value::Row(row) => self.row_field(row, name)?,
            Value::File(page) => self.file_field(page, name)?,
            Value::Item(page, index) => self.item_field(page, *index, name)?,
            Value::Date(date) => date_field(date, name),
            Value::Duration(duration) => duration.total_in(name).map_or(Value::Null, Value::Number),
            Value::Null | Value::Boolean(_) | Value::Number(_) | Value::Text(_) | Value::Function(_) => Value::Null,
        })
    }

    fn row_field(&self, row: &Row, name: &str) -> Evaluation<Value> {
        if let Some(value) = row.added(name) {
            return Ok(value.clone());
        }
        match &row.source {
            RowSource::Page(page) => Ok(self.page_field(page, name)),
            RowSource::Item(page, index) => match self.item_field(page, *index, name)? {
                Value::Null => Ok(self.page_field(page, name)),
                value => Ok(value),
            },
            RowSource::Group(_) | RowSource::Empty => Ok(Value::Null),
        }
    }

    fn page_field(&self, page: &Arc<Page>, name: &str) -> Value {
        if name == "file" {
            return Value::File(Arc::clone(page));
        }
        page.typed_fields(self.zone()).get(name).cloned().unwrap_or(Value::Null)
    }

    fn item_field(&self, page: &Arc<Page>, index: usize, name: &str) -> Evaluation<Value> {
        let Some(item) = page.items.get(index) else { return Ok(Value::Null) };
        if let Some(value) = super::item::implicit_field(page, index, name) {
            return Ok(value);
        }
        Ok(item_fields(item, page.field_context(self.zone())).get(name).cloned().unwrap_or(Value::Null))
    }

    /// The object of a value that has members.
    pub(crate) fn members(&self, value: &Value) -> Evaluation<Option<Vec<(String, Value)>>> {
        let named = |names: Vec<String>| {
            let member = |name: String| {
                let value = self.index(value, &Value::text(name.as_str()))?;
                Ok((name, value))
            };
            names.into_iter().map(member).collect::<Evaluation<Vec<_>>>()
        };
        Ok(match value {
            Value::Object(members) => Some(members.to_vec()),
            Value::File(page) => {
                let has_day = !self.index(value, &Value::text("day"))?.is_null();
                let names = crate::syntax::FILE_FIELDS.iter().filter(|name| **name != "day" || has_day);
                let _ = page;
                Some(named(names.map(|name| (*name).to_owned()).collect())?)
            }
            Value::Item(page, index) => {
                let own = page.items.get(*index).into_iter().flat_map(|item| &item.fields).map(|(key, _)| key.clone());
                let implicit = super::item::FIELDS.iter().filter(|name| !matches!(**name, "children" | "subtasks"));
                Some(named(own.chain(implicit.map(|name| (*name).to_owned())).collect())?)
            }
            Value::Row(row) => {
                let added = row.added.iter().map(|(name, _)| name.to_string());
                let fields = row.page().map(|page| page.typed_fields(self.zone()).values.iter());
                let fields = fields.into_iter().flatten().map(|(name, _)| name.clone());
                let file = row.page().map(|_| "file".to_owned());
                Some(named(added.chain(fields).chain(file).collect())?)
            }
            _ => None,
        })
    }
}

pub(crate) fn member<'m>(members: &'m [(String, Value)], name: &str) -> Option<&'m Value> {
    members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked; the cast saturates")]
fn item_at(items: &[Value], number: f64) -> Option<&Value> {
    (number >= 0.0 && number.fract() == 0.0).then(|| items.get(number as usize)).flatten()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked; the cast saturates")]
fn char_at(text: &str, number: f64) -> Option<char> {
    (number >= 0.0 && number.fract() == 0.0).then(|| text.chars().nth(number as usize)).flatten()
}

fn date_field(date: &Zoned, name: &str) -> Value {
    let number = match name {
        "year" => f64::from(date.year()),
        "month" => f64::from(date.month()),
        "weekyear" => f64::from(date.date().iso_week_date().week()),
        "week" => f64::from(date.day() / 7 + 1),
        "weekday" => f64::from(weekday_number(date.weekday())),
        "day" => f64::from(date.day()),
        "hour" => f64::from(date.hour()),
        "minute" => f64::from(date.minute()),
        "second" => f64::from(date.second()),
        "millisecond" => f64::from(date.millisecond()),
        _ => return Value::Null,
    };
    Value::Number(number)
}
