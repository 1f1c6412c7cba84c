//! Full-text search, ranked by BM25 and by trust (contract 4.5).

mod query;
mod spelling;
#[cfg(test)]
mod tests;
mod trust;

use std::collections::HashMap;

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, ErrorCode, params_from_iter};
use serde_json::Value;
use svcfs_base::{Timestamp, TreePath};

use crate::document::{MARK_END, MARK_START};
use crate::pages::{self, range_below, tree_path};
use crate::{AnswerLimit, Index, IndexError};
use query::Reading;

pub use spelling::Suggestion;
pub use trust::Trust;

/// About how many words a snippet shows.
const SNIPPET_WORDS: u8 = 24;

/// A question to [`Index::search`].
#[derive(Debug, Clone, Default)]
pub struct SearchQuery {
    /// Words, all of which must occur; or an expression with `AND`, `OR`, `NOT`, `"a phrase"`, `pre*`, `NEAR(a b)`,
    /// parentheses, and `title:`, `headings:`, `body:`, `frontmatter:` before a word. An expression with a mistake in it is
    /// taken as plain words. At most 4,096 bytes. Blank finds nothing.
    pub q: String,
    /// How many pages to answer with.
    pub limit: AnswerLimit,
    /// How many of the best to leave out.
    pub offset: u32,
    /// Only pages at or below this place.
    pub below: Option<TreePath>,
    /// Only pages changed after this moment.
    pub modified_after: Option<Timestamp>,
    /// How much a page's standing counts beside its words.
    pub trust: Trust,
}

impl SearchQuery {
    /// The question with nothing but words.
    pub fn new(q: impl Into<String>) -> Self {
        Self { q: q.into(), ..Self::default() }
    }
}

/// A page that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Where it is.
    pub path: TreePath,
    /// Its title.
    pub title: String,
    /// The words around the matches, on one line, each match in `<mark>…</mark>`. `&`, `<` and `>` of the page itself are
    /// escaped, so that these marks are the only markup and the text can be shown in HTML as it is.
    pub snippet: String,
    /// How well it fits, higher is better: BM25 (title weighs 8, headings 3, body 1, frontmatter ½), times trust.
    pub score: f64,
    /// `status` of the frontmatter, as it stands there.
    pub status: Option<Value>,
    /// Is `source-of-truth: true` in the frontmatter?
    pub source_of_truth: bool,
}

/// A page that matches, before snippets are made.
struct Candidate {
    id: i64,
    path: String,
    title: String,
    score: f64,
    status: Option<Value>,
    source_of_truth: bool,
}

impl Index {
    /// The pages that match, best first; equal ones in path order.
    ///
    /// Trust is weighed among the best `3 × (offset + limit)` by words, 60 at least.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] for a `q` that is too long or takes longer than 5 s; [`IndexError::Database`].
    pub fn search(&self, query: &SearchQuery) -> Result<Vec<Hit>, IndexError> {
        let (expression, otherwise) = match query::read(&query.q)? {
            Reading::Nothing => return Ok(Vec::new()),
            Reading::Words(words) => (words, None),
            Reading::Expression { expression, otherwise } => (expression, Some(otherwise)),
        };
        self.readers.answer("q", |connection| match (hits(connection, query, &expression), otherwise) {
            (Err(IndexError::Database(error)), Some(words)) if is_mistake(&error) => hits(connection, query, &words),
            (answer, _) => answer,
        })
    }
}

/// True when FTS5 refused the expression; every other failure is ours and is not papered over.
fn is_mistake(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::Unknown)
}

fn hits(connection: &Connection, query: &SearchQuery, expression: &str) -> Result<Vec<Hit>, IndexError> {
    let mut candidates = candidates(connection, query, expression)?;
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.path.cmp(&b.path)));
    let offset = usize::try_from(query.offset).unwrap_or(usize::MAX);
    let shown: Vec<Candidate> = candidates.into_iter().skip(offset).take(query.limit.get()).collect();
    let mut snippets = snippets(connection, &shown, expression)?;
    shown
        .into_iter()
        .map(|found| {
            Ok(Hit {
                path: tree_path(&found.path)?,
                snippet: snippets.remove(&found.id).unwrap_or_default(),
                title: found.title,
                score: found.score,
                status: found.status,
                source_of_truth: found.source_of_truth,
            })
        })
        .collect()
}

fn candidates(connection: &Connection, query: &SearchQuery, expression: &str) -> Result<Vec<Candidate>, IndexError> {
    let mut sql = "SELECT pages.id, pages.path, pages.title, pages.frontmatter, texts.rank
         FROM texts JOIN pages ON pages.id = texts.rowid WHERE texts MATCH ?1"
        .to_owned();
    let wanted = u64::from(query.offset).saturating_add(query.limit.get() as u64).saturating_mul(3).max(60);
    let mut values =
        vec![SqlValue::from(expression.to_owned()), SqlValue::from(i64::try_from(wanted).unwrap_or(i64::MAX))];
    if let Some(below) = &query.below {
        let (from, to) = range_below(below);
        sql.push_str(" AND (pages.path = ?3 OR (pages.path > ?4 AND pages.path < ?5))");
        values.extend([below.as_str().to_owned().into(), from.into(), to.into()]);
    }
    if let Some(after) = query.modified_after {
        values.push(after.as_microsecond().into());
        sql.push_str(&format!(" AND pages.modified > ?{}", values.len()));
    }
    sql.push_str(" ORDER BY texts.rank LIMIT ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let path: String = row.get(1)?;
        let frontmatter = pages::json(&row.get::<_, String>(3)?, &path)?;
        found.push(Candidate {
            id: row.get(0)?,
            title: row.get(2)?,
            score: -row.get::<_, f64>(4)? * trust::multiplier(query.trust, &frontmatter),
            status: frontmatter.get("status").cloned(),
            source_of_truth: trust::is_source_of_truth(&frontmatter),
            path,
        });
    }
    Ok(found)
}

/// For each page the part that answers best: of its body, else of its frontmatter when the words stand only there.
///
/// One pass over all that matches, because FTS5 works out a prefix such as `f*` again for every row it is asked for by number;
/// the `+` keeps it from being asked that way.
fn snippets(
    connection: &Connection,
    shown: &[Candidate],
    expression: &str,
) -> Result<HashMap<i64, String>, IndexError> {
    if shown.is_empty() {
        return Ok(HashMap::new());
    }
    let ids = Value::from_iter(shown.iter().map(|found| found.id)).to_string();
    let (start, end) = (MARK_START.to_string(), MARK_END.to_string());
    let mut statement = connection.prepare_cached(
        "SELECT rowid, snippet(texts, 2, ?3, ?4, '…', ?5), snippet(texts, 3, ?3, ?4, '…', ?5)
         FROM texts WHERE texts MATCH ?1 AND +rowid IN (SELECT value FROM json_each(?2))",
    )?;
    let rows = statement.query_map((expression, ids, start, end, SNIPPET_WORDS), |row| {
        let (body, frontmatter): (String, String) = (row.get(1)?, row.get(2)?);
        let is_in_frontmatter = frontmatter.contains(MARK_START) && !body.contains(MARK_START);
        Ok((row.get(0)?, marked(if is_in_frontmatter { &frontmatter } else { &body })))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// On one line, as HTML, with the inner marks made visible.
fn marked(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 32);
    for (index, word) in text.split_whitespace().enumerate() {
        if index > 0 {
            shown.push(' ');
        }
        for character in word.chars() {
            match character {
                '&' => shown.push_str("&amp;"),
                '<' => shown.push_str("&lt;"),
                '>' => shown.push_str("&gt;"),
                MARK_START => shown.push_str("<mark>"),
                MARK_END => shown.push_str("</mark>"),
                other => shown.push(other),
            }
        }
    }
    shown
}
