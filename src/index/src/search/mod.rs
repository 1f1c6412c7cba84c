//! Full-text search, ranked by words, by where they stand, and by trust (contract 4.5).
//!
//! One rule: what a question costs does not grow with the tree. The full-text index says which pages have the words, and is not
//! asked how often: FTS5 would read every page that has a word before it names the best. Instead the best places are looked at
//! first (`candidates`), at most [`candidates::WEIGHED`] pages are weighed (`score`), and those shown get a snippet.
//!
//! Why no engine beside SQLite that keeps the best of each word at hand? It would be a second store with a commit of its own, some
//! milliseconds a page and never quite where the cursor says.

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

/// A question to [`Index::search`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SearchQuery {
    /// Words, all of which must occur; or an expression with `AND`, `OR`, `NOT`, `"a phrase"`, `pre*`, `NEAR(a b)`,
    /// parentheses; `title:`, `headings:`, `body:`, `frontmatter:` before what is sought there; `field:value` for the fields of the
    /// frontmatter, and `path:folder/`. An expression with a mistake in it is taken as plain words. At most 4,096 bytes and 128
    /// words. Blank finds nothing.
    pub q: String,
    /// How many pages to answer with.
    pub limit: AnswerLimit,
    /// How many of the best to leave out.
    pub offset: u32,
    /// Only pages at or below this place.
    pub folder: Option<TreePath>,
    /// Only pages changed after this moment.
    pub modified_after: Option<Timestamp>,
    /// How much a page's standing counts beside its words.
    pub trust: TrustBoost,
    /// Whether pages that have some of the words are an answer when none has all of them.
    pub allow_partial: bool,
}

impl SearchQuery {
    /// The question with nothing but words.
    pub fn new(q: impl Into<String>) -> Self {
        Self { q: q.into(), ..Self::default() }
    }
}

/// What was found.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct SearchAnswer {
    /// The pages, best first.
    pub hits: Vec<SearchHit>,
    /// How the question was read, when that is not how it was written.
    pub note: Option<String>,
    /// Whether no page has all of the words, and these have some of them.
    pub is_partial: bool,
}

/// A page that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// Where it is.
    pub path: TreePath,
    /// Its title.
    pub title: String,
    /// The words around the matches, on one line, each match in `<mark>…</mark>`. `&`, `<` and `>` of the page itself are
    /// escaped, so that these marks are the only markup and the text can be shown in HTML as it is.
    pub snippet: String,
    /// How well it fits, higher is better; comparable within one answer only.
    pub score: f64,
    /// `status` of the frontmatter, as it stands there.
    pub status: Option<Value>,
    /// Is `source-of-truth: true` in the frontmatter?
    pub source_of_truth: bool,
}

impl Index {
    /// The pages that match, best first; equal ones in path order.
    ///
    /// At most [`candidates::WEIGHED`] pages are weighed for the places in which they have the words: those with all of them in
    /// their names, those that are verified or a source of truth (unless trust is off), then the newest. Pages beyond that follow in the
    /// order of their age.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] for a `q` that is too long or takes longer than 5 s; [`IndexError::Database`].
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

/// What the index knows of words.
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

/// A page that may be shown.
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

/// A page and how well it fits.
struct WeighedPage {
    id: i64,
    score: f64,
    path: String,
}

/// Puts the pages that come before all others there.
fn lift(weighed: &mut [WeighedPage], found: &CandidateSet) {
    let is_foremost = |page: &WeighedPage| found.foremost.contains(&page.id);
    let best = weighed.iter().filter(|page| !is_foremost(page)).map(|page| page.score).fold(0.0, f64::max);
    weighed.iter_mut().filter(|page| is_foremost(page)).for_each(|page| page.score += best);
}

/// How well each of the pages fits. Where no word is asked for, only fields, all fit alike, and trust alone says which come first.
fn weighed(
    connection: &Connection,
    (trust, question): (TrustBoost, &WordQuery),
    found: &CandidateSet,
) -> Result<Vec<WeighedPage>, IndexError> {
    let scale = ScoreScale::of(connection, &question.words)?;
    let has_words = !question.words.is_empty();
    let mut scratch = ScoreScratch::default();
    // One statement, in the order of the rows: neighbours are found without another way down from the root of the table.
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
