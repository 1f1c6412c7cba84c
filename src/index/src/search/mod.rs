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
mod phrase;
mod query;
mod ranked_words;
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
use crate::words::{ForwardIndex, folded, spans};
use crate::{AnswerLimit, Index, IndexError};
use candidates::CandidateSet;
use query::{Vocabulary, WordQuery};
use score::{ScoreScale, ScoreScratch};

pub(crate) use answer_cache::AnswerCache;
pub use query::{MAX_QUERY_BYTES, MAX_QUERY_WORDS};
pub use ranked_words::{PageProperties, QuestionWords, RankedPage, WordRanking};
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
    /// Whether also a query of two words is a question, of which pages may have one.
    pub is_question: bool,
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
        query::check_size(&query.q)?;
        let generation = match self.answers.get(query) {
            Ok(answer) => return Ok(answer),
            Err(generation) => generation,
        };
        let answer = self.readers.query("q", |connection| match parse(connection, query)? {
            Some(parsed) => run(connection, query, parsed),
            None => Ok(SearchAnswer::default()),
        })?;
        self.answers.put(query, &answer, generation);
        Ok(answer)
    }
}

struct KnownWords<'c>(&'c Connection);

impl Vocabulary for KnownWords<'_> {
    fn has_field(&self, name: &str) -> Result<bool, IndexError> {
        let row = self
            .0
            .prepare_cached("SELECT 1 FROM texts WHERE texts MATCH ?1 LIMIT 1")?
            .query_row([format!("{{fields}} : \"{name}:\"")], |_| Ok(()))
            .optional()?;
        Ok(row.is_some())
    }
    fn words_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<String>, IndexError> {
        let mut statement =
            self.0.prepare_cached("SELECT word FROM spellings WHERE word >= ?1 AND word < ?2 LIMIT ?3")?;
        let end = format!("{prefix}{}", char::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let words = statement.query_map((prefix, end, limit), |row| row.get(0))?;
        Ok(words.collect::<rusqlite::Result<_>>()?)
    }
}

/// Parses a query; `None` when there is nothing to search for.
fn parse(connection: &Connection, query: &SearchQuery) -> Result<Option<WordQuery>, IndexError> {
    let mut parsed = query::parse(&query.q, &KnownWords(connection))?;
    if query.allow_partial {
        parsed.iter_mut().for_each(WordQuery::skip_function_words);
    }
    Ok(parsed)
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

fn run(connection: &Connection, query: &SearchQuery, parsed: WordQuery) -> Result<SearchAnswer, IndexError> {
    let offset = usize::try_from(query.offset).unwrap_or(usize::MAX);
    let (note, ranked) = rank(connection, query, &parsed)?;
    let Some(RankedCandidates { scored, candidates, .. }) = ranked else {
        return Ok(SearchAnswer { note, ..SearchAnswer::default() });
    };
    let mut page = Vec::with_capacity(query.limit.get());
    for ScoredPage { id, score, .. } in scored.into_iter().skip(offset).take(query.limit.get()) {
        page.push(candidate(connection, id, score)?);
    }
    let missing = query.limit.get() - page.len();
    if missing > 0 && candidates.is_truncated {
        let skipped = offset.saturating_sub(candidates.ids.len());
        for id in candidates::next_matches(connection, query, &parsed, &candidates.ids, (skipped, missing))? {
            page.push(candidate(connection, id, 0.0)?);
        }
    }
    let hits = page.into_iter().map(|candidate| hit(connection, &parsed, candidate)).collect::<Result<_, _>>()?;
    Ok(SearchAnswer { hits, note, is_partial: candidates.is_partial_only })
}

/// The scored pages, best first.
struct RankedCandidates {
    scored: Vec<ScoredPage>,
    candidates: CandidateSet,
    /// What a page gains by having all words once.
    worth: f64,
}

/// Scores the candidates of a query; none when nothing matches. The note says how the query was
/// interpreted.
fn rank(
    connection: &Connection,
    query: &SearchQuery,
    parsed: &WordQuery,
) -> Result<(Option<String>, Option<RankedCandidates>), IndexError> {
    let Some(candidates) = candidates::select(connection, query, parsed)? else {
        return Ok((parsed.note.clone(), None));
    };
    let partial_note = match (candidates.is_partial_only, candidates.has_partial) {
        (true, _) => Some("no page has all of the words; these have some of them"),
        (false, true) => Some("few pages have all of the words; the others have some of them"),
        (false, false) => None,
    };
    let notes: Vec<&str> = parsed.note.as_deref().into_iter().chain(partial_note).collect();
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    let scale = ScoreScale::of(connection, parsed)?;
    let mut scored = score_pages(connection, (query.trust, &scale), &candidates)?;
    raise(&mut scored, |page| candidates.top_ranked.contains(&page.id));
    raise_titled(connection, &query.q, &mut scored)?;
    raise(&mut scored, |page| candidates.titled.contains(&page.id));
    scored.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.path.cmp(&b.path)));
    Ok((note, Some(RankedCandidates { scored, candidates, worth: scale.worth() })))
}

struct ScoredPage {
    id: i64,
    score: f64,
    path: String,
    /// Whether its title has the words of the query, in some form.
    is_titled: bool,
}

/// Raises the pages whose title has exactly the words of the query, whatever is between them.
fn raise_titled(connection: &Connection, q: &str, scored: &mut [ScoredPage]) -> Result<(), IndexError> {
    let folded_words = |text: &str| spans(text).map(|span| folded(&text[span.range])).collect::<Vec<_>>();
    let wanted = folded_words(q);
    let mut statement = connection.prepare_cached("SELECT title FROM pages WHERE id = ?1")?;
    for page in scored.iter_mut().filter(|page| page.is_titled) {
        let title: String = statement.query_row([page.id], |row| row.get(0))?;
        page.is_titled = folded_words(&title) == wanted;
    }
    raise(scored, |page| page.is_titled);
    Ok(())
}

/// Raises the scores of some pages above all others.
fn raise(scored: &mut [ScoredPage], is_top: impl Fn(&ScoredPage) -> bool) {
    let best = scored.iter().filter(|page| !is_top(page)).map(|page| page.score).fold(0.0, f64::max);
    scored.iter_mut().filter(|page| is_top(page)).for_each(|page| page.score += best);
}

/// Scores the candidates. Without words (only fields) all match equally and trust alone decides.
fn score_pages(
    connection: &Connection,
    (trust, scale): (TrustBoost, &ScoreScale),
    candidates: &CandidateSet,
) -> Result<Vec<ScoredPage>, IndexError> {
    let has_words = scale.has_words();
    let mut scratch = ScoreScratch::default();
    // One statement in row order, so that SQLite steps to the neighbour instead of descending from
    // the root for each row.
    let mut ids = candidates.ids.clone();
    ids.sort_unstable();
    let id_list = serde_json::to_string(&ids).map_err(|error| IndexError::Source(error.into()))?;
    let factor_column = match trust {
        TrustBoost::Off => "NULL",
        TrustBoost::Soft => "soft",
        TrustBoost::Hard => "hard",
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT page, forwards.path, {factor_column}, words FROM json_each(?1) AS wanted CROSS JOIN forwards ON forwards.page = wanted.value"
    ))?;
    let mut rows = statement.query([id_list])?;
    let mut scored = Vec::with_capacity(ids.len());
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        let mut is_titled = false;
        let score = if has_words {
            let words = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
            let forward = ForwardIndex::decode(words).ok_or_else(|| damaged(id))?;
            is_titled = scale.is_titled(forward);
            scale.score(forward, candidates.anchors.get(&id), &mut scratch)
        } else {
            1.0
        };
        let factor = row.get::<_, Option<f64>>(2)?.unwrap_or(1.0);
        scored.push(ScoredPage { id, score: score * factor, path: row.get(1)?, is_titled });
    }
    if scored.len() < ids.len() {
        return Err(IndexError::Damaged(format!("the words of {} pages are missing", ids.len() - scored.len())));
    }
    Ok(scored)
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

fn hit(connection: &Connection, parsed: &WordQuery, candidate: SearchCandidate) -> Result<SearchHit, IndexError> {
    let SearchCandidate { id, path, title, score, status, source_of_truth } = candidate;
    let mut statement = connection.prepare_cached(
        "SELECT bodies.body, bodies.frontmatter, forwards.words FROM bodies CROSS JOIN forwards ON forwards.page = bodies.page
         WHERE bodies.page = ?1",
    )?;
    let snippet = statement.query_row([id], |row| {
        let (body, frontmatter) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
        let forward = ForwardIndex::decode(row.get_ref(2)?.as_blob()?);
        Ok(forward.map(|forward| snippet::of(body, frontmatter, forward, &parsed.words)))
    })?;
    Ok(SearchHit { path, title, snippet: snippet.ok_or_else(|| damaged(id))?, score, status, source_of_truth })
}
