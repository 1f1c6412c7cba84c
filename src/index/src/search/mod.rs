//! Full-text search, ranked by words, their positions, and trust.
//!
//! Invariant: the cost of a query does not grow with the tree. The full-text index only says which
//! pages have the words; its ranking would read every page that has a word. Instead the best
//! sources of candidates are read (`candidates`), at most [`candidates::MAX_SCORED`] pages per
//! source are scored (`score`), and those on the result page get a snippet.
//!
//! Why no search engine that keeps the best pages of each word? It would be a second store with its
//! own commit, some milliseconds per page, and never exactly at the cursor.

mod anchors;
mod answer_cache;
mod candidates;
mod query;
mod score;
mod snippet;
mod spelling;
#[cfg(test)]
mod tests;
pub(crate) mod trust;

use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;
use svcfs_base::{Timestamp, TreePath};

use crate::pages::{self, tree_path};
use crate::words::ForwardIndex;
use crate::{AnswerLimit, Index, IndexError};
use candidates::CandidateSet;
use query::{Vocabulary, WordQuery};
use score::{ScoreScale, ScoreScratch};

pub(crate) use answer_cache::AnswerCache;
pub use spelling::SpellingSuggestion;
pub use trust::TrustBoost;

/// A query for [`Index::search`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SearchQuery {
    /// Words that must all occur, or an expression with `AND`, `OR`, `NOT`, `"a phrase"`, `pre*`,
    /// `NEAR(a b)`, parentheses; `title:`, `headings:`, `body:`, `frontmatter:` to search in one
    /// section; `field:value` for frontmatter fields, and `path:folder/`. An expression with a
    /// syntax error is read as plain words. Limits: 4,096 bytes and 128 words. A blank query has no
    /// results.
    pub q: String,
    /// Number of results.
    pub limit: AnswerLimit,
    /// Number of results to skip.
    pub offset: u32,
    /// Only pages at or below this path.
    pub folder: Option<TreePath>,
    /// Only pages changed after this time.
    pub modified_after: Option<Timestamp>,
    /// How much the trust of a page affects its rank.
    pub trust: TrustBoost,
    /// Whether pages with some of the words are returned when few or none have all.
    pub allow_partial: bool,
}

impl SearchQuery {
    /// A query with defaults for everything but the words.
    pub fn new(q: impl Into<String>) -> Self {
        Self { q: q.into(), ..Self::default() }
    }
}

/// Search results.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct SearchAnswer {
    /// The pages, best first.
    pub hits: Vec<SearchHit>,
    /// How the query was interpreted, when not as written.
    pub note: Option<String>,
    /// Whether no page has all words, so these have some of them.
    pub is_partial: bool,
}

/// A page in the results.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// Path of the page.
    pub path: TreePath,
    /// Its title.
    pub title: String,
    /// The text around the matches on one line, each match in `<mark>…</mark>`. `&`, `<` and `>` of
    /// the page are escaped, so the text is safe HTML.
    pub snippet: String,
    /// Higher is better; comparable within one result list only.
    pub score: f64,
    /// `status` of the frontmatter, as written.
    pub status: Option<Value>,
    /// Whether the frontmatter has `source-of-truth: true`.
    pub source_of_truth: bool,
}

impl Index {
    /// Searches pages, best first; equal scores in path order.
    ///
    /// At most [`candidates::MAX_SCORED`] pages per source are scored: those with all words in
    /// their names, those that are verified or a source of truth (unless trust is off), then the
    /// newest. Further matches follow by age.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] for a `q` that is too long or takes longer than 5 s;
    /// [`IndexError::Database`].
    pub fn search(&self, query: &SearchQuery) -> Result<SearchAnswer, IndexError> {
        query::measured(&query.q)?;
        let state = match self.answers.given(query) {
            Ok(found) => return Ok(found),
            Err(state) => state,
        };
        let found = self.readers.answer("q", |connection| match query::read(&query.q, &KnownWords(connection))? {
            Some(question) => answer(connection, query, question),
            None => Ok(SearchAnswer::default()),
        })?;
        self.answers.keep(query, &found, state);
        Ok(found)
    }
}

/// The vocabulary of the index.
struct KnownWords<'c>(&'c Connection);

impl Vocabulary for KnownWords<'_> {
    fn has_field(&self, name: &str) -> Result<bool, IndexError> {
        let found = self
            .0
            .prepare_cached("SELECT 1 FROM texts WHERE texts MATCH ?1 LIMIT 1")?
            .query_row([format!("{{fields}} : \"{name}:\"")], |_| Ok(()))
            .optional()?;
        Ok(found.is_some())
    }
    fn beginning_with(&self, beginning: &str, most: usize) -> Result<Vec<String>, IndexError> {
        let mut statement =
            self.0.prepare_cached("SELECT word FROM spellings WHERE word >= ?1 AND word < ?2 LIMIT ?3")?;
        let end = format!("{beginning}{}", char::MAX);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let words = statement.query_map((beginning, end, most), |row| row.get(0))?;
        Ok(words.collect::<rusqlite::Result<_>>()?)
    }
}

/// A page on the result page.
struct SearchCandidate {
    id: i64,
    path: TreePath,
    title: String,
    score: f64,
    status: Option<Value>,
    source_of_truth: bool,
}

fn answer(connection: &Connection, query: &SearchQuery, mut question: WordQuery) -> Result<SearchAnswer, IndexError> {
    let offset = usize::try_from(query.offset).unwrap_or(usize::MAX);
    let gathered = candidates::gather(connection, query, &question)?;
    let Some(found) = gathered else { return Ok(SearchAnswer { note: question.note, ..SearchAnswer::default() }) };
    let note = match (found.has_some_only, found.has_some) {
        (true, _) => Some("no page has all of the words; these have some of them"),
        (false, true) => Some("few pages have all of the words; the others have some of them"),
        (false, false) => None,
    };
    if let Some(note) = note {
        question.note = Some(question.note.map_or_else(|| note.to_owned(), |why| format!("{why}; {note}")));
    }
    let mut weighed = weighed(connection, (query.trust, &question), &found)?;
    lift(&mut weighed, &found);
    weighed.sort_by(|one, other| other.score.total_cmp(&one.score).then_with(|| one.path.cmp(&other.path)));
    let mut shown = Vec::with_capacity(query.limit.get());
    for WeighedPage { id, score, .. } in weighed.into_iter().skip(offset).take(query.limit.get()) {
        shown.push(candidate(connection, id, score)?);
    }
    let missing = query.limit.get() - shown.len();
    if missing > 0 && found.is_cut {
        let skipped = offset.saturating_sub(found.ids.len());
        for id in candidates::beyond(connection, query, &question, &found.ids, (skipped, missing))? {
            shown.push(candidate(connection, id, 0.0)?);
        }
    }
    let hits = shown.into_iter().map(|candidate| hit(connection, &question, candidate)).collect::<Result<_, _>>()?;
    Ok(SearchAnswer { hits, note: question.note, is_partial: found.has_some_only })
}

/// A page with its score.
struct WeighedPage {
    id: i64,
    score: f64,
    path: String,
}

/// Raises the scores of the pages that rank first above all others.
fn lift(weighed: &mut [WeighedPage], found: &CandidateSet) {
    let is_foremost = |page: &WeighedPage| found.foremost.contains(&page.id);
    let best = weighed.iter().filter(|page| !is_foremost(page)).map(|page| page.score).fold(0.0, f64::max);
    weighed.iter_mut().filter(|page| is_foremost(page)).for_each(|page| page.score += best);
}

/// Scores the candidates. Without words (only fields) all match equally and trust alone decides.
fn weighed(
    connection: &Connection,
    (trust, question): (TrustBoost, &WordQuery),
    found: &CandidateSet,
) -> Result<Vec<WeighedPage>, IndexError> {
    let scale = ScoreScale::of(connection, &question.words)?;
    let has_words = !question.words.is_empty();
    let mut scratch = ScoreScratch::default();
    // One statement in row order, so that SQLite steps to the neighbour instead of descending from
    // the root for each row.
    let mut ids = found.ids.clone();
    ids.sort_unstable();
    let wanted = serde_json::to_string(&ids).map_err(|error| IndexError::Source(error.into()))?;
    let standing = match trust {
        TrustBoost::Off => "NULL",
        TrustBoost::Soft => "soft",
        TrustBoost::Hard => "hard",
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT page, forwards.path, {standing}, words FROM json_each(?1) AS wanted CROSS JOIN forwards ON forwards.page = wanted.value"
    ))?;
    let mut rows = statement.query([wanted])?;
    let mut weighed = Vec::with_capacity(ids.len());
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        let fit = if has_words {
            let words = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
            let forward = ForwardIndex::decode(words).ok_or_else(|| damaged(id))?;
            scale.score(forward, found.anchors.get(&id), &mut scratch)
        } else {
            1.0
        };
        let standing = row.get::<_, Option<f64>>(2)?.unwrap_or(1.0);
        weighed.push(WeighedPage { id, score: fit * standing, path: row.get(1)? });
    }
    if weighed.len() < ids.len() {
        return Err(IndexError::Damaged(format!("the words of {} pages are missing", ids.len() - weighed.len())));
    }
    Ok(weighed)
}

fn damaged(id: i64) -> IndexError {
    IndexError::Damaged(format!("the words of page {id}"))
}

fn candidate(connection: &Connection, id: i64, score: f64) -> Result<SearchCandidate, IndexError> {
    let mut statement = connection.prepare_cached("SELECT path, title, frontmatter FROM pages WHERE id = ?1")?;
    let (path, title, frontmatter): (String, String, String) = statement.query_row([id], |row| row.try_into())?;
    let frontmatter = pages::json(&frontmatter, &path)?;
    let frontmatter = frontmatter.as_object().cloned().unwrap_or_default();
    Ok(SearchCandidate {
        id,
        path: tree_path(&path)?,
        title,
        score,
        status: frontmatter.get("status").cloned(),
        source_of_truth: trust::is_source_of_truth(&frontmatter),
    })
}

fn hit(connection: &Connection, question: &WordQuery, candidate: SearchCandidate) -> Result<SearchHit, IndexError> {
    let SearchCandidate { id, path, title, score, status, source_of_truth } = candidate;
    let mut statement = connection.prepare_cached(
        "SELECT bodies.body, bodies.frontmatter, forwards.words FROM bodies CROSS JOIN forwards ON forwards.page = bodies.page
         WHERE bodies.page = ?1",
    )?;
    let snippet = statement.query_row([id], |row| {
        let (body, frontmatter) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
        let forward = ForwardIndex::decode(row.get_ref(2)?.as_blob()?);
        Ok(forward.map(|forward| snippet::of(body, frontmatter, forward, &question.words)))
    })?;
    Ok(SearchHit { path, title, snippet: snippet.ok_or_else(|| damaged(id))?, score, status, source_of_truth })
}
