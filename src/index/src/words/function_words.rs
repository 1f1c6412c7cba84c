//! English words that carry grammar and little meaning.

/// In lower case, sorted.
const FUNCTION_WORDS: [&str; 117] = [
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because", "been",
    "before", "being", "both", "but", "by", "can", "could", "did", "do", "does", "doing", "done", "each", "for",
    "from", "get", "had", "has", "have", "having", "he", "her", "here", "him", "his", "how", "i", "if", "in", "into",
    "is", "it", "its", "just", "let", "like", "may", "me", "might", "more", "most", "must", "my", "no", "not", "of",
    "on", "one", "only", "or", "other", "our", "out", "over", "own", "please", "same", "shall", "she", "should", "so",
    "some", "such", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those",
    "through", "to", "too", "under", "up", "upon", "us", "use", "very", "was", "we", "were", "what", "when", "where",
    "which", "while", "who", "whom", "whose", "why", "will", "with", "would", "yet", "you", "your", "yours",
];

/// Whether a folded word carries little meaning. In a query it counts less than other words, but it
/// counts: `to be or not to be` has no other.
pub(crate) fn is_function_word(folded: &str) -> bool {
    FUNCTION_WORDS.binary_search(&folded).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_searched_as_folded() {
        assert!(FUNCTION_WORDS.is_sorted());
        assert!(is_function_word("to") && is_function_word("your") && !is_function_word("tide"));
    }
}
