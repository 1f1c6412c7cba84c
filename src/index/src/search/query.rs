//! What a person types, as a full-text query (gaps.md 4.5, "Query language of `q`").

use crate::IndexError;

/// Longest `q`, in bytes; far beyond any question, and short of what would keep SQLite busy.
pub(crate) const MAX_QUERY_BYTES: usize = 4096;

/// Most words of a `q`, operators included.
const MAX_WORDS: usize = 128;

/// A query, in up to two readings.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nothing to look for: no results.
    Nothing,
    /// Plain words: all of them must occur.
    Words(String),
    /// Written in the query language of FTS5; `otherwise` is taken when it has a mistake in it.
    Expression { expression: String, otherwise: String },
}

/// Reads `q`.
pub(super) fn read(q: &str) -> Result<Reading, IndexError> {
    if q.len() > MAX_QUERY_BYTES {
        let why = format!("is {} bytes long; at most {MAX_QUERY_BYTES} are searched for", q.len());
        return Err(IndexError::invalid("q", why));
    }
    let q = q.replace('\0', " ");
    if q.chars().all(|c| matches!(c, '*' | '?') || c.is_whitespace()) {
        return Ok(Reading::Nothing);
    }
    let words = quoted(&q)?;
    // FTS5 takes a `*` at the very beginning for a command of its own.
    let is_expression = !q.trim_start().starts_with('*')
        && (q.contains(['"', '(', ')', '*', '^', ':'])
            || q.split_whitespace().any(|word| matches!(word, "AND" | "OR" | "NOT" | "NEAR")));
    Ok(if is_expression { Reading::Expression { expression: q, otherwise: words } } else { Reading::Words(words) })
}

/// The words of `q` that somebody may have misspelt: without operators and the signs of the query language.
pub(super) fn words(q: &str) -> impl Iterator<Item = &str> {
    q.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !matches!(*word, "AND" | "OR" | "NOT" | "NEAR"))
}

fn quoted(q: &str) -> Result<String, IndexError> {
    let words: Vec<String> = q.split_whitespace().map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
    if words.len() > MAX_WORDS {
        let why = format!("has {} words; at most {MAX_WORDS} are searched for", words.len());
        return Err(IndexError::invalid("q", why));
    }
    Ok(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_are_quoted_and_the_query_language_is_passed_on() {
        for (q, reading) in [
            ("  ", Reading::Nothing),
            ("* ?", Reading::Nothing),
            ("rust c++", Reading::Words("\"rust\" \"c++\"".to_owned())),
            ("and or", Reading::Words("\"and\" \"or\"".to_owned())),
            ("*reads", Reading::Words("\"*reads\"".to_owned())),
            ("a\0b", Reading::Words("\"a\" \"b\"".to_owned())),
        ] {
            assert_eq!(read(q).unwrap(), reading, "{q:?}");
        }
        for q in ["a AND b", "\"a b\"", "foo*", "(a)", "title:x", "NEAR(a b)", "^a"] {
            assert!(matches!(read(q).unwrap(), Reading::Expression { .. }), "{q:?}");
        }
    }

    #[test]
    fn a_query_without_measure_is_refused_with_its_limit() {
        let long = read(&"x".repeat(1 << 20)).unwrap_err();
        assert_eq!(long.to_string(), "`q`: is 1048576 bytes long; at most 4096 are searched for");
        assert!(read(&"x ".repeat(129)).unwrap_err().to_string().starts_with("`q`: has 129 words"));
    }
}
