//! "Did you mean": a question asked again with known words.

use svcfs_base::Fault;
use svcfs_index::{Hit, Index, SearchQuery, Suggestion};

/// The answer to a question, and the question that was asked instead when the first one found nothing.
pub struct Answer {
    /// The pages, best first.
    pub hits: Vec<Hit>,
    /// The question these pages answer, when it is not the one asked.
    pub instead: Option<String>,
}

/// Asks, and when nothing is found and `threshold` is given, asks once more with each word that no page has replaced by the
/// known word most like it.
///
/// # Errors
/// Those of [`Index::search`] and [`Index::suggest`].
pub fn search(index: &Index, mut query: SearchQuery, threshold: Option<f64>) -> Result<Answer, Fault> {
    let hits = index.search(&query)?;
    let suggestions = match threshold {
        Some(threshold) if hits.is_empty() && query.offset == 0 => index.suggest(&query.q, Some(threshold))?,
        Some(_) | None => return Ok(Answer { hits, instead: None }),
    };
    let corrected = corrected(&query.q, &suggestions);
    if corrected == query.q {
        return Ok(Answer { hits, instead: None });
    }
    query.q.clone_from(&corrected);
    let hits = index.search(&query)?;
    Ok(Answer { instead: (!hits.is_empty()).then_some(corrected), hits })
}

/// The question with every unknown word replaced by the first word offered for it; operators and quotes stay.
fn corrected(q: &str, suggestions: &[Suggestion]) -> String {
    let mut text = String::with_capacity(q.len());
    for part in q.split_inclusive(|character: char| !character.is_alphanumeric()) {
        let end = part.trim_end_matches(|character: char| !character.is_alphanumeric()).len();
        let (word, rest) = part.split_at(end);
        let folded = word.to_lowercase();
        let offer = suggestions.iter().find(|offer| offer.word == folded);
        text.push_str(offer.map_or(word, |offer| &offer.instead));
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unknown_words_are_replaced() {
        let offer = |word: &str, instead: &str| Suggestion {
            word: word.to_owned(),
            instead: instead.to_owned(),
            similarity: 0.9,
            pages: 1,
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
