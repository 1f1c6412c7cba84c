//! Splits a query into tokens: words, phrases, operators.

use super::QueryWord;
use crate::field_words;

/// A token of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QueryToken {
    /// `(`
    Open,
    /// `)`
    Close,
    /// `AND`
    And,
    /// `OR`
    Or,
    /// `NOT`
    Not,
    /// `NEAR(`
    Near,
    /// A word, possibly with a trailing `*`.
    Word(String),
    /// A word that was parsed already.
    Parsed(QueryWord),
    /// The content of quotes.
    Phrase(String),
    /// `title:` and similar: the next token is searched in that section only.
    Column(&'static str),
    /// `field:value`
    Field {
        /// The normalized field name.
        field: String,
        /// The value, without quotes.
        value: String,
        /// The token as typed.
        written: String,
    },
    /// A quote without an end.
    Unclosed,
}

/// Section names in queries, with their columns.
const COLUMNS: [(&str, &str); 5] = [
    ("title", "title"),
    ("headings", "headings"),
    ("heading", "headings"),
    ("body", "body"),
    ("frontmatter", "frontmatter"),
];

/// Splits a query into tokens.
pub(super) fn tokenize(q: &str) -> Vec<QueryToken> {
    let mut tokens = Vec::new();
    let mut rest = q;
    // Number of open parentheses. A `)` without one belongs to its word.
    let mut open = 0_usize;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\0');
        let Some(first) = rest.chars().next() else { return tokens };
        match first {
            '(' => {
                open += 1;
                tokens.push(QueryToken::Open);
                rest = &rest[1..];
            }
            ')' => {
                open = open.saturating_sub(1);
                tokens.push(QueryToken::Close);
                rest = &rest[1..];
            }
            '"' => {
                let (phrase, after) = quoted_phrase(rest);
                tokens.push(phrase);
                rest = after;
            }
            _ => {
                let end = end_of_word(rest, open);
                let (word, after) = rest.split_at(end);
                rest = after;
                let token = word_token(word, &mut rest);
                open += usize::from(token == QueryToken::Near);
                if let QueryToken::Column(_) = token
                    && let Some((_, value)) = word.split_once(':')
                    && !value.is_empty()
                {
                    tokens.extend([token, QueryToken::Word(value.to_owned())]);
                } else {
                    tokens.push(token);
                }
            }
        }
    }
}

/// A phrase and the text after it; `""` inside is an escaped quote.
fn quoted_phrase(text: &str) -> (QueryToken, &str) {
    let inside = &text[1..];
    let mut start = 0;
    while let Some(at) = inside[start..].find('"').map(|at| start + at) {
        if !inside[at + 1..].starts_with('"') {
            let after = &inside[at + 1..];
            let phrase = inside[..at].replace("\"\"", " ");
            return match after.strip_prefix('*') {
                Some(after) => (QueryToken::Phrase(format!("{phrase}*")), after),
                None => (QueryToken::Phrase(phrase), after),
            };
        }
        start = at + 2;
    }
    (QueryToken::Unclosed, "")
}

/// The end of the first word: `foo.bar()` includes its parentheses; in `(a OR b)` the last one
/// closes the group.
fn end_of_word(text: &str, open: usize) -> usize {
    let mut inside = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '"' | '\0' => return at.max(1),
            '(' if at > 0 && (text[..at].ends_with(':') || &text[..at] == "NEAR") => return at,
            '(' => inside += 1,
            ')' if inside > 0 => inside -= 1,
            ')' if open > 0 => return at,
            _ if character.is_whitespace() => return at,
            _ => {}
        }
    }
    text.len()
}

fn word_token(word: &str, rest: &mut &str) -> QueryToken {
    match word {
        "AND" => return QueryToken::And,
        "OR" => return QueryToken::Or,
        "NOT" => return QueryToken::Not,
        "NEAR" if rest.starts_with('(') => {
            *rest = &rest[1..];
            return QueryToken::Near;
        }
        _ => {}
    }
    field(word, rest).unwrap_or_else(|| QueryToken::Word(word.to_owned()))
}

/// `field:value`, `field:"a value"`, `title:word`, `title:(a OR b)`.
fn field(word: &str, rest: &mut &str) -> Option<QueryToken> {
    let (before, value) = word.split_once(':')?;
    let field = field_words::normalize_name(before).filter(|_| before.starts_with(char::is_alphabetic))?;
    let column = COLUMNS.iter().find(|(name, _)| *name == field).map(|(_, column)| *column);
    let has_quoted_value = rest.starts_with('"') || rest.starts_with('(');
    if value.is_empty() && !has_quoted_value || value.starts_with(':') || value.starts_with("//") {
        return None;
    }
    if let Some(column) = column {
        return Some(QueryToken::Column(column));
    }
    if !value.is_empty() {
        return Some(QueryToken::Field { field, value: value.to_owned(), written: word.to_owned() });
    }
    match quoted_phrase(rest.strip_prefix('"').map(|_| *rest)?) {
        (QueryToken::Phrase(value), after) => {
            let written = format!("{word}\"{value}\"");
            *rest = after;
            Some(QueryToken::Field { field, value, written })
        }
        _ => None,
    }
}
