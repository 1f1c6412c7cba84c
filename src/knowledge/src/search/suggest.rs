//! "Did you mean": a second search with corrected words.

use svcfs_base::Fault;
use svcfs_index::{Index, SearchHit, SearchQuery, SpellingSuggestion};

/// The result of a search, possibly of a corrected query.
pub struct SuggestedAnswer {
    /// The pages, best first.
    pub hits: Vec<SearchHit>,
    /// The corrected query, if it was used.
    pub corrected_query: Option<String>,
    /// How the query was interpreted, if not as written.
    pub note: Option<String>,
    /// Whether no page has all of the words.
    pub is_partial: bool,
}

impl SuggestedAnswer {
    fn new(answer: svcfs_index::SearchAnswer, corrected_query: Option<String>) -> Self {
        let svcfs_index::SearchAnswer { hits, note, is_partial } = answer;
        Self { hits, corrected_query, note, is_partial }
    }
}

/// Searches. If nothing is found and `threshold` is given, searches again with each unknown word
/// replaced by the most similar known word; then for pages with some of the words.
///
/// # Errors
/// Those of [`Index::search`] and [`Index::suggest_spellings`].
pub fn search(index: &Index, mut query: SearchQuery, threshold: Option<f64>) -> Result<SuggestedAnswer, Fault> {
    query.allow_partial = threshold.is_none();
    let answer = index.search(&query)?;
    let suggestions = match threshold {
        Some(threshold) if answer.hits.is_empty() && query.offset == 0 => {
            index.suggest_spellings(&query.q, Some(threshold))?
        }
        Some(_) | None => return Ok(SuggestedAnswer::new(answer, None)),
    };
    let corrected = correct(&query.q, &suggestions);
    if corrected != query.q {
        let original = std::mem::replace(&mut query.q, corrected);
        let answer = index.search(&query)?;
        if !answer.hits.is_empty() {
            return Ok(SuggestedAnswer::new(answer, Some(query.q)));
        }
        query.q = original;
    }
    query.allow_partial = true;
    let answer = index.search(&query)?;
    Ok(SuggestedAnswer::new(answer, None))
}

/// The query with every unknown word replaced by its first suggestion; operators and quotes stay.
fn correct(q: &str, suggestions: &[SpellingSuggestion]) -> String {
    let mut text = String::with_capacity(q.len());
    for part in q.split_inclusive(|character: char| !character.is_alphanumeric()) {
        let end = part.trim_end_matches(|character: char| !character.is_alphanumeric()).len();
        let (word, rest) = part.split_at(end);
        let folded = word.to_lowercase();
        let suggestion = suggestions.iter().find(|suggestion| suggestion.word == folded);
        text.push_str(suggestion.map_or(word, |suggestion| &suggestion.suggestion));
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unknown_words_are_replaced() {
        let suggestion = |word: &str, corrected_query: &str| SpellingSuggestion {
            word: word.to_owned(),
            suggestion: corrected_query.to_owned(),
            similarity: 0.9,
            page_count: 1,
        };
        let offers =
            [suggestion("autentication", "authentication"), suggestion("tokn", "token"), suggestion("tokn", "took")];
        assert_eq!(
            correct("\"Autentication tokn\" AND (oauth OR x)", &offers),
            "\"authentication token\" AND (oauth OR x)"
        );
        assert_eq!(correct("oauth", &offers), "oauth");
        assert_eq!(correct("", &offers), "");
    }
}
