//! Pages by frontmatter conditions (GET /meta).

mod condition;
mod sql;
#[cfg(test)]
mod tests;

use rusqlite::{Row, params_from_iter};
use serde_json::Value;
use svcfs_base::TreePath;

use crate::pages::{json, range_below, tree_path};
use crate::schema::FIELDS;
use crate::{AnswerLimit, Index, IndexError};
use condition::JsonField;
use sql::MetaSql;

pub use condition::MetaCondition;

/// Limit of the conditions of a query, `where` and `or` together.
const MAX_CONDITIONS: usize = 32;

/// Direction of a sort.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SortOrder {
    /// Smallest first.
    #[default]
    Ascending,
    /// Largest first.
    Descending,
}

/// A field to sort by, such as `$.priority`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey(JsonField);

impl SortKey {
    /// Parses a field as in [`MetaCondition`], without `[*]`.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] on `sort`.
    pub fn parse(text: &str) -> Result<Self, IndexError> {
        let excerpt = || svcfs_base::escape_unprintable(&text.chars().take(40).collect::<String>());
        match JsonField::parse(text) {
            Ok(field) if field.paths.len() == 1 => Ok(Self(field)),
            Ok(_) => {
                Err(IndexError::invalid("sort", format!("`{}` has `[*]`; sort by one value of a page", excerpt())))
            }
            Err(why) => Err(IndexError::invalid("sort", format!("`{}` {why}", excerpt()))),
        }
    }
}

/// A query for [`Index::query_metadata`]. Without conditions, every page matches.
#[derive(Debug, Clone, Default)]
pub struct MetaQuery {
    /// All of these must be true.
    pub conditions: Vec<MetaCondition>,
    /// At least one of these must be true, unless empty.
    pub any_of: Vec<MetaCondition>,
    /// Only pages below this directory.
    pub folder: Option<TreePath>,
    /// The sort field; ties are sorted by path, and pages without the field come last in both
    /// directions.
    pub sort: Option<SortKey>,
    /// Direction of `sort`.
    pub order: SortOrder,
    /// Number of results.
    pub limit: AnswerLimit,
    /// Number of results to skip.
    pub offset: u32,
}

/// A matching page.
#[derive(Debug, Clone, PartialEq)]
pub struct MetaRow {
    /// Path of the page.
    pub path: TreePath,
    /// Its title.
    pub title: String,
    /// Its frontmatter, keys in the author's order; from [`Index::query_metadata`], followed by its
    /// inline fields.
    pub metadata: Value,
}

impl MetaRow {
    /// Reads a row of `path`, `title` and `frontmatter`, in this order.
    pub(crate) fn of(row: &Row<'_>) -> Result<Self, IndexError> {
        let path: String = row.get(0)?;
        let metadata = json(&row.get::<_, String>(2)?, &path)?;
        Ok(Self { path: tree_path(&path)?, title: row.get(1)?, metadata })
    }
}

impl Index {
    /// The pages whose frontmatter and inline fields match the conditions.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] for more than 32 conditions, or ones that take longer than 5 s;
    /// [`IndexError::Database`].
    pub fn query_metadata(&self, query: &MetaQuery) -> Result<Vec<MetaRow>, IndexError> {
        let count = query.conditions.len() + query.any_of.len();
        if count > MAX_CONDITIONS {
            let why = format!("{count} conditions are given; the limit is {MAX_CONDITIONS}, `or` included");
            return Err(IndexError::invalid("where", why));
        }
        let statement = compile(query);
        self.readers.query("where", |connection| {
            let mut prepared = connection.prepare_cached(&statement.text)?;
            let mut rows = prepared.query(params_from_iter(&statement.values))?;
            let mut matches = Vec::new();
            while let Some(row) = rows.next()? {
                matches.push(MetaRow::of(row)?);
            }
            Ok(matches)
        })
    }
}

fn compile(query: &MetaQuery) -> MetaSql {
    let mut statement = MetaSql::default();
    let mut tests: Vec<String> = query.conditions.iter().map(|condition| statement.condition(condition)).collect();
    let any: Vec<String> = query.any_of.iter().map(|condition| statement.condition(condition)).collect();
    if !any.is_empty() {
        tests.push(format!("({})", any.join(" OR ")));
    }
    if let Some(folder) = query.folder.as_ref().filter(|folder| !folder.is_root()) {
        let (from, to) = range_below(folder);
        tests.push(format!("path > {} AND path < {}", statement.bind(from), statement.bind(to)));
    }
    let filter = if tests.is_empty() { "1".to_owned() } else { tests.join(" AND ") };
    let direction = match query.order {
        SortOrder::Ascending => "ASC",
        SortOrder::Descending => "DESC",
    };
    let sort = match &query.sort {
        Some(SortKey(field)) => format!("{} {direction} NULLS LAST, ", statement.sort_key(field)),
        None => String::new(),
    };
    let limit = statement.bind(i64::try_from(query.limit.get()).unwrap_or(i64::MAX));
    let offset = statement.bind(i64::from(query.offset));
    statement.text = format!(
        "SELECT path, title, {FIELDS} FROM pages WHERE {filter} ORDER BY {sort}path LIMIT {limit} OFFSET {offset}"
    );
    statement
}
