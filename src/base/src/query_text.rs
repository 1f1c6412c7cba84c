//! Parts of messages about a text in a query language: excerpts, positions, similar names.

use crate::escape_unprintable;

/// Limit of an excerpt, and of the part of a name that is compared, in characters.
const EXCERPT_CHARS: usize = 40;

/// An excerpt of a query for messages, without control characters.
pub fn excerpt(source: &str) -> String {
    excerpt_of(source, EXCERPT_CHARS)
}

/// As [`excerpt`], with another limit in characters.
pub fn excerpt_of(source: &str, max_chars: usize) -> String {
    let mut text = escape_unprintable(&source.chars().take(max_chars).collect::<String>());
    if source.chars().nth(max_chars).is_some() {
        text.push('…');
    }
    text
}

/// `line L, column C: MESSAGE` for a byte offset in a text. Lines and columns start at 1; a column
/// counts characters. An empty message is a syntax error.
pub fn message_at(text: &str, at: usize, message: &str) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let message = if message.is_empty() { "syntax error" } else { message };
    format!("line {line}, column {column}: {message}")
}

/// The name most similar to `given` in any case, if its similarity (Jaro-Winkler, 0 to 1) is at
/// least `min_similarity`.
pub fn nearest_name<'n>(given: &str, names: impl IntoIterator<Item = &'n str>, min_similarity: f64) -> Option<&'n str> {
    let given: String = given.chars().take(EXCERPT_CHARS).collect::<String>().to_lowercase();
    let similarity = |name: &str| strsim::jaro_winkler(&given, &name.to_lowercase());
    let near = names.into_iter().map(|name| (similarity(name), name)).filter(|(score, _)| *score >= min_similarity);
    near.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_line_column_and_a_similar_name() {
        assert_eq!(message_at("ä\nböse", 6, "here"), "line 2, column 3: here");
        assert_eq!(message_at("a", 99, ""), "line 1, column 2: syntax error");
        assert_eq!(excerpt(&"x".repeat(41)), format!("{}…", "x".repeat(40)));
        assert_eq!(nearest_name("STAUS", ["due", "status"], 0.8), Some("status"));
        assert_eq!(nearest_name("zzz", ["due", "status"], 0.8), None);
    }
}
