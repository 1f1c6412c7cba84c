//! "Did you mean": a question asked again with known words.

use svcfs_base::Fault;
use svcfs_index::{Index, SearchHit, SearchQuery, SpellingSuggestion};

/// The answer to a question, and the question that was asked instead when the first one found nothing.
pub struct SuggestedAnswer {
    /// The pages, best first.
    pub hits: Vec<SearchHit>,
    /// The question these pages answer, when it is not the one asked.
    pub instead: Option<String>,
    /// How the question was read, when that is not how it was written.
    pub note: Option<String>,
    /// Whether no page has all of the words.
    pub is_partial: bool,
}

impl SuggestedAnswer {
    fn of(found: svcfs_index::SearchAnswer, instead: Option<String>) -> Self {
        let svcfs_index::SearchAnswer { hits, note, is_partial } = found;
        Self { hits, instead, note, is_partial }
    }
}

/// The least likeness that is asked for, if it is one: said also where nothing has to be suggested.
///
/// # Errors
/// `Invalid` for what is not between 0 and 1.
pub fn threshold(asked: Option<f64>) -> Result<Option<f64>, Fault> {
    match asked {
        Some(threshold) if !(0.0..=1.0).contains(&threshold) => {
            Err(Fault::invalid("suggest_threshold", format_args!("{threshold} is out of range; 0 to 1 is allowed")))
        }
        asked => Ok(asked),
    }
}

/// Asks. When nothing is found and `threshold` is given, asks once more with each word that no page has replaced by the
/// known word most like it; when that finds nothing either, for pages that have some of the words.
///
/// # Errors
/// Those of [`Index::search`] and [`Index::suggest`].
pub fn search(index: &Index, mut query: SearchQuery, threshold: Option<f64>) -> Result<SuggestedAnswer, Fault> {
    query.allow_partial = threshold.is_none();
    let found = index.search(&query)?;
    let suggestions = match threshold {
        Some(threshold) if found.hits.is_empty() && query.offset == 0 => {
            index.suggest_spellings(&query.q, Some(threshold))?
        }
        Some(_) | None => return Ok(SuggestedAnswer::of(found, None)),
    };
    let corrected = corrected(&query.q, &suggestions);
    if corrected != query.q {
        let asked = std::mem::replace(&mut query.q, corrected);
        let found = index.search(&query)?;
        if !found.hits.is_empty() {
            return Ok(SuggestedAnswer::of(found, Some(query.q)));
        }
        query.q = asked;
    }
    query.allow_partial = true;
    let found = index.search(&query)?;
    Ok(SuggestedAnswer::of(found, None))
}

/// The question with every unknown word replaced by the first word offered for it; operators and quotes stay.
fn corrected(q: &str, suggestions: &[SpellingSuggestion]) -> String {
    let mut text = String::with_capacity(q.len());
    for part in q.split_inclusive(|character: char| !character.is_alphanumeric()) {
        let end = part.trim_end_matches(|character: char| !character.is_alphanumeric()).len();
        let (word, rest) = part.split_at(end);
        let folded = word.to_lowercase();
        let offer = suggestions.iter().find(|offer| offer.word == folded);
        text.push_str(offer.map_or(word, |offer| &offer.suggestion));
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unknown_words_are_replaced() {
        let offer = |word: &str, instead: &str| SpellingSuggestion {
            word: word.to_owned(),
            suggestion: instead.to_owned(),
            similarity: 0.9,
            page_count: 1,
        };
        let offers = [offer("autentication", "authentication"), offer("tokn", "token"), offer("tokn", "took")];
        assert_eq!(
            corrected("\"Autentication tokn\" AND (oauth OR x)", &offers),
            "\"authentication token\" AND (oauth OR x)"
        );
        assert_eq!(corrected("oauth", &offers), "oauth");
        assert_eq!(corrected("", &offers), "");
    }
}
