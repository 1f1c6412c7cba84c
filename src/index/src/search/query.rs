//! Translates `q` as typed into an FTS5 query.
//!
//! Invariant: no query fails for its syntax. A malformed query is read as plain words, with a note.

mod parser;
#[cfg(test)]
mod tests;
mod tokens;

use crate::IndexError;
use crate::words::{self, Dictionary, TermHash, TextWords, WordClass, end_of_cluster, folded, spans, term, term_hash};
use tokens::QueryToken;

/// Limit of `q` in bytes: far above real queries, and below what would keep SQLite busy.
pub const MAX_QUERY_BYTES: usize = 4096;

/// Limit of the words that `pre*` expands to.
const MAX_EXPANSIONS: usize = 100;

/// Limit of the words of `q`.
pub const MAX_QUERY_WORDS: usize = 128;

/// Plain queries of this many words may be questions of natural language.
const MIN_QUESTION_WORDS: usize = 3;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WordQuery {
    /// FTS5 expression over the columns of `texts`.
    pub(super) expression: String,
    /// The words to score and to mark, each once. Words after `NOT` are not among them.
    pub(super) words: Vec<QueryWord>,
    /// The words in the order of the query, as indexes into `words`.
    pub(super) sequence: Vec<usize>,
    /// All of the query as a page that is titled so has it.
    pub(super) title: Vec<TermHash>,
    /// Whether it consists of words only, so that partial matches can be searched too.
    pub(super) is_plain: bool,
    /// Whether a page with more words still matches: there is no `NOT` and no section or field.
    pub(super) is_positive: bool,
    /// Tells the client how the query was interpreted.
    pub(super) note: Option<String>,
}

impl WordQuery {
    /// Adds a word at the end.
    fn add(&mut self, word: QueryWord) {
        let index = self.words.iter().position(|known| *known == word).unwrap_or(self.words.len());
        if index == self.words.len() {
            self.words.push(word);
        }
        self.sequence.push(index);
    }

    /// A page needs no `how` or `the` to match a question of three or more words that has others.
    /// They still count in its score.
    pub(super) fn skip_function_words(&mut self) {
        let has_content = self.words.iter().any(|word| !word.is_function_word);
        if !self.is_plain || self.sequence.len() < MIN_QUESTION_WORDS || !has_content {
            return;
        }
        let content = self.words.iter().filter(|word| !word.is_function_word);
        self.expression = content.map(QueryWord::expression).collect::<Vec<_>>().join(" AND ");
    }
}

/// A word or phrase of the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueryWord {
    /// Its spellings, each a sequence of words.
    pub(super) spellings: Vec<Vec<String>>,
    pub(super) is_prefix: bool,
    /// Whether it is an English word with little meaning.
    pub(super) is_function_word: bool,
}

impl QueryWord {
    pub(super) const fn of_terms(spellings: Vec<Vec<String>>) -> Self {
        Self { spellings, is_prefix: false, is_function_word: false }
    }

    /// Reads a word or the content of quotes; `None` without any word.
    fn read(text: &str, is_prefix: bool) -> Option<Self> {
        let mut stream: Vec<String> =
            TextWords::of(text, &mut Dictionary::default()).terms().map(str::to_owned).collect();
        let word_spans: Vec<_> = spans(text).collect();
        // In a page, the last character of `日本語` is also a word of its own. In a query it may be
        // the start of a pair.
        let is_single_character = |at: usize| {
            let span = &word_spans[at];
            span.class == WordClass::Pair && end_of_cluster(text, span.range.start) == span.range.end
        };
        let last = word_spans.len().checked_sub(1)?;
        let ends_pair = last > 0 && word_spans[last - 1].range.end == word_spans[last].range.end;
        let is_prefix = is_prefix || is_single_character(last) && !ends_pair;
        if ends_pair {
            stream.pop();
        }
        let mut spellings = vec![stream];
        if let Some(name) = without_page_extension(text) {
            // A pasted path: pages are indexed by path without extension.
            spellings.push(TextWords::of(name, &mut Dictionary::default()).terms().map(str::to_owned).collect());
        }
        let is_compound = word_spans.windows(2).all(|two| {
            two.iter().all(|span| span.class == WordClass::Word)
                && words::is_joint(&text[two[0].range.end..two[1].range.start])
        });
        if word_spans.len() > 1 && is_compound {
            let joined: String = word_spans.iter().map(|span| &text[span.range.clone()]).collect();
            spellings.push(vec![term(&joined)]);
        }
        if let [only] = &word_spans[..] {
            let written = &text[only.range.clone()];
            let parts = words::parts(written);
            if parts.len() > 1 && parts.concat() == written {
                spellings.push(parts.into_iter().map(term).collect());
            }
        }
        let is_function_word =
            last == 0 && !is_prefix && words::is_function_word(&folded(&text[word_spans[0].range.clone()]));
        Some(Self { spellings, is_prefix, is_function_word })
    }

    /// Its spellings as stored in pages.
    pub(super) fn hashes(&self) -> Vec<Vec<TermHash>> {
        self.spellings.iter().map(|spelling| spelling.iter().map(|word| term_hash(word)).collect()).collect()
    }

    pub(super) fn expression(&self) -> String {
        let star = if self.is_prefix { "*" } else { "" };
        let spellings: Vec<String> =
            self.spellings.iter().map(|words| format!("\"{}\"{star}", words.join(" "))).collect();
        match &spellings[..] {
            [only] => only.clone(),
            all => format!("({})", all.join(" OR ")),
        }
    }
}

/// `guides/tides` of `guides/tides.md`.
fn without_page_extension(text: &str) -> Option<&str> {
    let (name, extension) = text.rsplit_once('.')?;
    (extension.eq_ignore_ascii_case("md") && name.ends_with(char::is_alphanumeric)).then_some(name)
}

/// What query parsing needs from the index.
pub(super) trait Vocabulary {
    fn has_field(&self, name: &str) -> Result<bool, IndexError>;
    /// The words with this prefix, in lower case and without accents, at most `limit`.
    fn words_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<String>, IndexError>;
}

/// Parses `q`; `None` when there is nothing to search for.
pub(super) fn parse(q: &str, vocabulary: &impl Vocabulary) -> Result<Option<WordQuery>, IndexError> {
    check_size(q)?;
    if q.chars().all(|c| matches!(c, '*' | '?') || c.is_whitespace()) {
        return Ok(None);
    }
    let mut unknown = Vec::new();
    let mut tokens = Vec::new();
    for token in tokens::tokenize(q) {
        tokens.push(match token {
            QueryToken::Field { field, value, written } if !vocabulary.has_field(&field)? => {
                unknown.push((field, written.clone()));
                // As a phrase, because the words before and after the colon are adjacent.
                QueryToken::Word(format!("{written}{}", if value.ends_with('*') { "*" } else { "" }))
            }
            QueryToken::Word(word) => {
                expand_prefix(&word, vocabulary)?.map_or(QueryToken::Word(word), QueryToken::Parsed)
            }
            token => token,
        });
    }
    let mut parsed = match parser::parse(&tokens) {
        Ok(parsed) => parsed,
        Err(mistake) => {
            let mut parsed = plain_words(q);
            parsed.note = Some(format!("the query was read as plain words: {mistake}"));
            parsed
        }
    };
    if let (Some((field, written)), None) = (unknown.first(), &parsed.note) {
        parsed.note = Some(format!("no page has a field `{field}`: `{written}` was read as words"));
    }
    parsed.title = TextWords::of(q, &mut Dictionary::default()).stream.iter().map(|word| word.hash).collect();
    Ok((!parsed.expression.is_empty()).then_some(parsed))
}

/// Expands `pre*` to the words with this prefix; `None` for other words and for too many. FTS5
/// would merge the postings of all of them before its first result, and it knows only stems:
/// `runn*` would not find `running`.
fn expand_prefix(word: &str, vocabulary: &impl Vocabulary) -> Result<Option<QueryWord>, IndexError> {
    let Some(prefix) = word.strip_suffix('*') else { return Ok(None) };
    let mut word_spans = spans(prefix);
    let (Some(only), None) = (word_spans.next(), word_spans.next()) else { return Ok(None) };
    if only.class != WordClass::Word || only.range != (0..prefix.len()) {
        return Ok(None);
    }
    let words = vocabulary.words_with_prefix(&folded(prefix), MAX_EXPANSIONS + 1)?;
    if words.is_empty() || words.len() > MAX_EXPANSIONS {
        return Ok(None);
    }
    let mut terms: Vec<String> = words.iter().map(|word| term(word)).collect();
    terms.sort_unstable();
    terms.dedup();
    Ok(Some(QueryWord::of_terms(terms.into_iter().map(|term| vec![term]).collect())))
}

pub(super) fn check_size(q: &str) -> Result<(), IndexError> {
    if q.len() > MAX_QUERY_BYTES {
        let why = format!("is {} bytes long; the limit is {MAX_QUERY_BYTES} bytes", q.len());
        return Err(IndexError::invalid("q", why));
    }
    let words = q.split_whitespace().count();
    if words > MAX_QUERY_WORDS {
        let why = format!("has {words} words; the limit is {MAX_QUERY_WORDS}");
        return Err(IndexError::invalid("q", why));
    }
    Ok(())
}

/// All words of `q`, joined by AND.
fn plain_words(q: &str) -> WordQuery {
    let words: Vec<QueryWord> = q
        .split(|c: char| c.is_whitespace() || matches!(c, '"' | '(' | ')' | '\0'))
        .filter(|word| !matches!(*word, "AND" | "OR" | "NOT" | "NEAR"))
        .filter_map(|word| QueryWord::read(word, word.ends_with('*')))
        .collect();
    let expressions: Vec<String> = words.iter().map(QueryWord::expression).collect();
    let mut query =
        WordQuery { expression: expressions.join(" AND "), is_plain: true, is_positive: true, ..WordQuery::default() };
    words.into_iter().for_each(|word| query.add(word));
    query
}

/// The words of `q` to check for spelling: without operators and punctuation.
pub(super) fn spelling_words(q: &str) -> impl Iterator<Item = &str> {
    q.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !matches!(*word, "AND" | "OR" | "NOT" | "NEAR"))
}
