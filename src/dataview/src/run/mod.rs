//! Runs queries: selects pages, executes commands, computes columns.

pub(crate) mod evaluate;
mod file;
mod item;
pub(crate) mod operators;
pub(crate) mod result;
mod row;
mod source;
mod unknown;

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{DataviewError, Evaluation, Failure};
use crate::page::{Page, Vault};
use crate::syntax::{self, Command, Expression, ExpressionKind, NamedExpression, ParsedQuery, QueryType, Source};
use crate::value::Value;
use evaluate::{Evaluator, Scope};
use result::QueryResult;
pub use row::Row;
use row::RowSource;

/// Limit of rows between two commands.
const MAX_ROWS: usize = 100_000;

/// A parsed query.
#[derive(Debug, Clone)]
pub struct DataviewQuery {
    parsed: ParsedQuery,
}

/// Limits and environment of a run.
#[derive(Debug, Clone)]
pub struct RunLimits<'a> {
    /// The path of the page that contains the query (`this`).
    pub page: Option<&'a str>,
    /// Time limit.
    pub timeout: Duration,
}

impl DataviewQuery {
    /// Parses a query.
    ///
    /// # Errors
    /// Line and column, what is wrong there, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, DataviewError> {
        syntax::parse(text).map(|parsed| Self { parsed }).map_err(DataviewError::Invalid)
    }

    /// The type of the query.
    #[must_use]
    pub fn query_type(&self) -> QueryType {
        self.parsed.kind
    }

    /// Whether list items are read, by TASK, `file.tasks` or `file.lists`.
    #[must_use]
    pub fn reads_items(&self) -> bool {
        self.parsed.kind == QueryType::Task || self.may_read(&["tasks", "lists"])
    }

    /// Whether the links of pages are read, by `file.outlinks` or `outgoing`.
    #[must_use]
    pub fn reads_links(&self) -> bool {
        self.may_read(&["outlinks"]) || self.parsed.source.as_ref().is_some_and(|source| source.reads(false))
    }

    /// Whether the tags of pages are read.
    #[must_use]
    pub fn reads_tags(&self) -> bool {
        self.may_read(&["tags", "etags"]) || self.parsed.source.as_ref().is_some_and(|source| source.reads(true))
    }

    /// Whether `file.ctime` or `file.cday` is read.
    #[must_use]
    pub fn reads_creation(&self) -> bool {
        self.may_read(&["ctime", "cday"])
    }

    /// Whether fields are read that may be inline fields, and not only `file` and literals.
    #[must_use]
    pub fn reads_fields(&self) -> bool {
        let mut reads = false;
        self.parsed.visit_expressions(&mut |expression| {
            reads |= match &expression.kind {
                ExpressionKind::Variable(name) => !["file", "key"].contains(&&**name),
                ExpressionKind::Link(_) => true,
                // A page without a date in its name may have a field `date`.
                ExpressionKind::Literal(Value::Text(name)) => &**name == "day",
                _ => false,
            };
        });
        reads || self.parsed.kind == QueryType::Task
    }

    fn may_read(&self, names: &[&str]) -> bool {
        self.names_field(names) || self.has_computed_index() || self.calls_extract()
    }

    /// Whether whole objects are read, with all implicit fields.
    fn calls_extract(&self) -> bool {
        let mut calls = false;
        self.parsed.visit_expressions(&mut |expression| {
            calls |= match &expression.kind {
                ExpressionKind::Call(function, _) => function.name == "extract",
                _ => false,
            };
        });
        calls
    }

    /// Whether the query names one of these fields.
    fn names_field(&self, names: &[&str]) -> bool {
        let mut is_named = false;
        self.parsed.visit_expressions(&mut |expression| {
            if let ExpressionKind::Literal(Value::Text(text)) = &expression.kind {
                is_named |= names.contains(&&**text);
            }
        });
        is_named
    }

    fn has_computed_index(&self) -> bool {
        let mut is_computed = false;
        self.parsed.visit_expressions(&mut |expression| {
            if let ExpressionKind::Index(_, key) = &expression.kind {
                is_computed |= !matches!(key.kind, ExpressionKind::Literal(_));
            }
        });
        is_computed
    }

    /// Whether the query refers to the page that contains it: `this`, `[[]]`.
    #[must_use]
    pub fn needs_page(&self) -> bool {
        let mut needs = false;
        self.parsed.visit_expressions(&mut |expression| {
            needs |= match &expression.kind {
                ExpressionKind::Variable(name) => &**name == "this",
                ExpressionKind::Link(link) => link.path.is_empty(),
                _ => false,
            };
        });
        needs || self.parsed.source.as_ref().is_some_and(source_needs_page)
    }

    /// The folder of all pages that can be rows, if FROM names one.
    #[must_use]
    pub fn folder(&self) -> Option<&str> {
        match &self.parsed.source {
            Some(Source::Path(path)) => Some(path.trim_matches('/')).filter(|path| !path.is_empty()),
            _ => None,
        }
    }

    /// Runs the query.
    ///
    /// # Errors
    /// [`DataviewError::Invalid`] when every row fails, a page of FROM does not exist, or a limit
    /// is exceeded; [`DataviewError::Vault`] when pages cannot be read.
    pub fn run(&self, vault: &dyn Vault, limits: &RunLimits<'_>) -> Result<QueryResult, DataviewError> {
        self.run_parsed(vault, limits).map_err(|failure| match failure {
            Failure::Row(reason) => DataviewError::Invalid(reason),
            Failure::Query(error) => error,
        })
    }

    fn run_parsed(&self, vault: &dyn Vault, limits: &RunLimits<'_>) -> Evaluation<QueryResult> {
        let page = match limits.page {
            Some(path) => Some(vault.page(path)?.ok_or_else(|| Failure::query(format!("no page at `{path}`")))?),
            None if self.needs_page() => {
                return Err(Failure::query(
                    "the query refers to its own page (`this` or `[[]]`); say which page it is in with `page`",
                ));
            }
            None => None,
        };
        let mut run =
            QueryRun { evaluator: Evaluator::new(vault, page, limits.timeout), pages: Vec::new(), notes: Vec::new() };
        let mut rows = run.first_rows(&self.parsed)?;
        for command in &self.parsed.commands {
            rows = run.execute(command, rows)?;
            if rows.len() > MAX_ROWS {
                return Err(Failure::query(format!("the query has more than {MAX_ROWS} rows; narrow it with WHERE")));
            }
        }
        result::build(&mut run, &self.parsed, rows)
    }
}

fn source_needs_page(source: &Source) -> bool {
    match source {
        Source::Tag(_) | Source::Path(_) => false,
        Source::LinksTo(link) | Source::LinksFrom(link) => link.path.is_empty(),
        Source::Not(inner) => source_needs_page(inner),
        Source::Chain(first, rest) => {
            source_needs_page(first) || rest.iter().any(|(_, source)| source_needs_page(source))
        }
    }
}

/// A run of one query.
pub(crate) struct QueryRun<'v> {
    evaluator: Evaluator<'v>,
    /// All pages that could be rows.
    pages: Vec<Arc<Page>>,
    /// What the caller should know, such as rows without a value.
    notes: Vec<String>,
}

type Rows = Vec<Arc<Row>>;

impl QueryRun<'_> {
    fn first_rows(&mut self, parsed: &ParsedQuery) -> Evaluation<Rows> {
        let pages = self.evaluator.vault.pages()?;
        self.pages.clone_from(&pages);
        let filter = parsed.source.as_ref().map(|source| source::SourceFilter::new(&self.evaluator, source, &pages));
        let filter = filter.transpose()?;
        let pages = pages.into_iter().filter(|page| filter.as_ref().is_none_or(|filter| filter.matches(page)));
        let row = |source| Arc::new(Row::new(source));
        if parsed.kind != QueryType::Task {
            return Ok(pages.map(|page| row(RowSource::Page(page))).collect());
        }
        let tasks_of = |page: Arc<Page>| {
            let tasks: Vec<usize> = (0..page.items.len()).filter(|item| page.items[*item].status.is_some()).collect();
            tasks.into_iter().map(move |task| row(RowSource::Item(Arc::clone(&page), task)))
        };
        Ok(pages.flat_map(tasks_of).collect())
    }

    fn execute(&mut self, command: &Command, rows: Rows) -> Evaluation<Rows> {
        match command {
            Command::Where(condition) => {
                let values = self.each(rows, "WHERE", |evaluator, scope| evaluator.evaluate(condition, scope))?;
                Ok(values.into_iter().filter(|(_, value)| value.is_truthy()).map(|(row, _)| row).collect())
            }
            Command::Sort(keys) => self.sort(keys, rows),
            Command::Group(key) => self.group(key, rows),
            Command::Flatten(list) => self.flatten(list, rows),
            Command::Limit(limit) => {
                let scope = Scope::of(Arc::new(Row::new(RowSource::Empty)));
                let limit = self.evaluator.evaluate(limit, &scope)?;
                let Some(count) = limit.as_number() else {
                    return Err(Failure::query(format!("LIMIT requires a number, not {}", limit.type_name())));
                };
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; saturates")]
                let count = count.max(0.0) as usize;
                Ok(rows.into_iter().take(count).collect())
            }
        }
    }

    /// Evaluates something for each row. Rows that fail are left out; when all fail, so does the
    /// query.
    pub(crate) fn each<T>(
        &mut self,
        rows: Rows,
        part: &str,
        evaluate: impl Fn(&Evaluator<'_>, &Scope) -> Evaluation<T>,
    ) -> Evaluation<Vec<(Arc<Row>, T)>> {
        let (count, mut values, mut first_reason) = (rows.len(), Vec::new(), None);
        for row in rows {
            match evaluate(&self.evaluator, &Scope::of(Arc::clone(&row))) {
                Ok(value) => values.push((row, value)),
                Err(Failure::Row(reason)) => {
                    first_reason.get_or_insert(reason);
                }
                Err(failure) => return Err(failure),
            }
        }
        if let Some(reason) = first_reason {
            let failed = count - values.len();
            if values.is_empty() {
                return Err(Failure::query(format!("{part} fails for every row ({failed}): {reason}")));
            }
            self.notes.push(format!("{failed} of {count} rows were left out because {part} fails for them: {reason}"));
        }
        Ok(values)
    }

    fn sort(&mut self, keys: &[(Expression, bool)], rows: Rows) -> Evaluation<Rows> {
        let mut keyed = self.each(rows, "SORT", |evaluator, scope| {
            keys.iter().map(|(key, _)| evaluator.evaluate(key, scope)).collect::<Evaluation<Vec<Value>>>()
        })?;
        let evaluator = &self.evaluator;
        keyed.sort_by(|(_, a), (_, b)| {
            let orders = a.iter().zip(b).zip(keys).map(|((a, b), (_, is_descending))| {
                let order = evaluator.compare(a, b);
                if *is_descending { order.reverse() } else { order }
            });
            orders.fold(Ordering::Equal, Ordering::then)
        });
        Ok(keyed.into_iter().map(|(row, _)| row).collect())
    }

    /// One row per key, in the order of the keys.
    fn group(&mut self, key: &NamedExpression, rows: Rows) -> Evaluation<Rows> {
        let mut keyed = self.each(rows, "GROUP BY", |evaluator, scope| evaluator.evaluate(&key.expression, scope))?;
        let evaluator = &self.evaluator;
        keyed.sort_by(|(_, a), (_, b)| evaluator.compare(a, b));
        let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
        for (row, value) in keyed {
            match groups.last_mut() {
                Some((known, members)) if evaluator.is_equal(known, &value) => members.push(Value::Row(row)),
                _ => groups.push((value, vec![Value::Row(row)])),
            }
        }
        let group = |(value, members): (Value, Vec<Value>)| {
            let named = |name: &str, value: Value| (Arc::from(name), value);
            let added = vec![
                (Arc::clone(&key.name), value.clone()),
                named("key", value.clone()),
                named("rows", Value::list(members)),
            ];
            Arc::new(Row { source: RowSource::Group(value), added })
        };
        Ok(groups.into_iter().map(group).collect())
    }

    /// One row per item; a value that is no list is one item.
    fn flatten(&mut self, list: &NamedExpression, rows: Rows) -> Evaluation<Rows> {
        let values = self.each(rows, "FLATTEN", |evaluator, scope| evaluator.evaluate(&list.expression, scope))?;
        let mut flattened = Vec::new();
        for (row, value) in values {
            self.evaluator.check_deadline()?;
            match value {
                Value::List(items) => {
                    flattened.extend(items.iter().map(|item| Arc::new(row.with(&list.name, item.clone()))));
                }
                value => flattened.push(Arc::new(row.with(&list.name, value))),
            }
            if flattened.len() > MAX_ROWS {
                break;
            }
        }
        Ok(flattened)
    }
}
