//! What a person types, as a question to the full-text index (gaps.md 4.5, "Query language of `q`").
//!
//! One rule: no question fails for its spelling. What is no sentence of the language is read as the words it has, and says so.

mod parser;
#[cfg(test)]
mod tests;
mod tokens;

use crate::IndexError;
use crate::words::{self, Dictionary, Words, Written, spans, term};
use tokens::Token;

/// Longest `q`, in bytes; far beyond any question, and short of what would keep SQLite busy.
pub(crate) const MAX_QUERY_BYTES: usize = 4096;

/// Most words of a `q`, operators included.
const MAX_WORDS: usize = 128;

/// A question, understood.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Question {
    /// In the words of FTS5, over the columns of `texts`.
    pub(super) expression: String,
    /// The words that pages are to have: they make the score and are marked. Those after `NOT` are not among them.
    pub(super) words: Vec<Word>,
    /// Whether it is words and nothing else, so that it may be asked again for pages that have some of them.
    pub(super) is_plain: bool,
    /// Whether more words never make it untrue: it has no `NOT` and asks for no part of a page.
    pub(super) is_positive: bool,
    /// What the caller should know of how it was read.
    pub(super) note: Option<String>,
}

/// One word as it was asked for, or one phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// Its spellings: each some words that follow each other.
    pub(super) spellings: Vec<Vec<String>>,
    /// Whether the last word may go on.
    pub(super) is_prefix: bool,
}

impl Word {
    /// Reads what stands between spaces or quotes; none when there is no word in it.
    fn read(text: &str, is_prefix: bool) -> Option<Self> {
        let mut stream: Vec<String> = Words::of(text, &mut Dictionary::default()).terms().map(str::to_owned).collect();
        let pieces: Vec<_> = spans(text).collect();
        // The last character of `日本語` by itself ends a word in a page; here the word may go on.
        let is_lone = |at: usize| {
            let span = &pieces[at];
            span.written == Written::Pair && text[span.range.clone()].chars().count() == 1
        };
        let last = pieces.len().checked_sub(1)?;
        let is_prefix = is_prefix || is_lone(last) && last == 0;
        if last > 0 && is_lone(last) && pieces[last - 1].written == Written::Pair {
            stream.pop();
        }
        let mut spellings = vec![stream];
        let is_compound = pieces.windows(2).all(|two| {
            two.iter().all(|span| span.written == Written::Word)
                && matches!(&text[two[0].range.end..two[1].range.start], "_" | "-" | "\u{2010}" | "\u{2011}")
        });
        if pieces.len() > 1 && is_compound {
            let joined: String = pieces.iter().map(|span| &text[span.range.clone()]).collect();
            spellings.push(vec![term(&joined)]);
        }
        if let [whole] = &pieces[..] {
            let written = &text[whole.range.clone()];
            let parts = words::parts(written);
            if parts.len() > 1 && parts.concat() == written {
                spellings.push(parts.into_iter().map(term).collect());
            }
        }
        Some(Self { spellings, is_prefix })
    }

    /// The word in the words of FTS5.
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

/// Reads `q`; none when there is nothing to look for. `is_field` says whether any page has a field of that name.
pub(super) fn read(
    q: &str,
    is_field: impl Fn(&str) -> Result<bool, IndexError>,
) -> Result<Option<Question>, IndexError> {
    measured(q)?;
    if q.chars().all(|c| matches!(c, '*' | '?') || c.is_whitespace()) {
        return Ok(None);
    }
    let mut unknown = Vec::new();
    let mut tokens = Vec::new();
    for token in tokens::read(q) {
        tokens.push(match token {
            Token::Field { field, value, written } if !is_field(&field)? => {
                unknown.push((field, written.clone()));
                // As a phrase, because that is what stands before and behind the colon.
                Token::Word(format!("{written}{}", if value.ends_with('*') { "*" } else { "" }))
            }
            token => token,
        });
    }
    let mut question = match parser::parse(&tokens) {
        Ok(question) => question,
        Err(mistake) => {
            let mut question = plain(q);
            question.note = Some(format!("the question was read as plain words: {mistake}"));
            question
        }
    };
    if let (Some((field, written)), None) = (unknown.first(), &question.note) {
        question.note = Some(format!("no page has a field `{field}`: `{written}` was read as words"));
    }
    Ok((!question.expression.is_empty()).then_some(question))
}

/// Refuses what is too much to look for.
pub(super) fn measured(q: &str) -> Result<(), IndexError> {
    if q.len() > MAX_QUERY_BYTES {
        let why = format!("is {} bytes long; at most {MAX_QUERY_BYTES} are searched for", q.len());
        return Err(IndexError::invalid("q", why));
    }
    let words = q.split_whitespace().count();
    if words > MAX_WORDS {
        let why = format!("has {words} words; at most {MAX_WORDS} are searched for");
        return Err(IndexError::invalid("q", why));
    }
    Ok(())
}

/// The words of `q`, all of which must occur.
fn plain(q: &str) -> Question {
    let words: Vec<Word> = q
        .split(|c: char| c.is_whitespace() || matches!(c, '"' | '(' | ')' | '\0'))
        .filter(|word| !matches!(*word, "AND" | "OR" | "NOT" | "NEAR"))
        .filter_map(|word| Word::read(word, word.ends_with('*')))
        .collect();
    let expressions: Vec<String> = words.iter().map(Word::expression).collect();
    Question { expression: expressions.join(" AND "), words, is_plain: true, is_positive: true, note: None }
}

/// The words of `q` that somebody may have misspelt: without operators and the signs of the query language.
pub(super) fn words(q: &str) -> impl Iterator<Item = &str> {
    q.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !matches!(*word, "AND" | "OR" | "NOT" | "NEAR"))
}
