//! Normal form of a single word.

use rust_stemmers::{Algorithm, Stemmer};
use svcfs_text::fold::fold_word;

/// Limit in bytes: a longer word (a line of base64) is cut.
const MAX_WORD_BYTES: usize = 64;

/// The characters of a word that are folded: marks, which folding removes, outnumber letters.
const MAX_FOLDED_CHARS: usize = 4 * MAX_WORD_BYTES;

/// The form of `fold_word`, without signs that the full-text index would split at.
pub(crate) fn folded(word: &str) -> String {
    let mut folded = if word.is_ascii() {
        word.get(..MAX_WORD_BYTES).unwrap_or(word).to_ascii_lowercase()
    } else {
        let end = word.char_indices().nth(MAX_FOLDED_CHARS).map_or(word.len(), |(end, _)| end);
        let mut folded = fold_word(&word[..end]).into_owned();
        folded.retain(|part| !(part.is_ascii() && !part.is_ascii_alphanumeric() || part.is_whitespace()));
        folded
    };
    if folded.len() > MAX_WORD_BYTES {
        folded.truncate(folded.floor_char_boundary(MAX_WORD_BYTES));
    }
    if folded.is_empty() {
        // Every word of the stream must be a token of the full-text index.
        folded.push(char::REPLACEMENT_CHARACTER);
    }
    folded
}

/// The index form of a word: folded and with the English suffixes removed (`running` is `run`).
pub(crate) fn term(word: &str) -> String {
    let folded = folded(word);
    if folded.len() < 3 || !folded.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return folded;
    }
    match Stemmer::create(Algorithm::English).stem(&folded) {
        std::borrow::Cow::Borrowed(stem) if stem.len() == folded.len() => folded,
        stem => stem.into_owned(),
    }
}

/// The parts of a compound name such as `parseHttpRequest`, `HTTPServer2` or `oauth2`, each of two
/// characters or more. Empty for a plain word.
pub(crate) fn parts(word: &str) -> Vec<&str> {
    let bytes = word.as_bytes();
    if !word.is_ascii() || bytes.len() > MAX_WORD_BYTES {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut start = 0;
    let mut letters_start = 0;
    for at in 1..bytes.len() {
        let (previous, current) = (bytes[at - 1], bytes[at]);
        let is_between_kinds = previous.is_ascii_digit() != current.is_ascii_digit();
        let is_case_change = previous.is_ascii_lowercase() && current.is_ascii_uppercase()
            || previous.is_ascii_uppercase()
                && current.is_ascii_uppercase()
                && bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        if is_between_kinds || is_case_change {
            parts.push(&word[start..at]);
            start = at;
        }
        if is_between_kinds {
            // `OAuth2` is also `oauth`, although its letters have a hump.
            if !previous.is_ascii_digit()
                && letters_start < at
                && parts.last().is_some_and(|last| last.len() < at - letters_start)
            {
                parts.push(&word[letters_start..at]);
            }
            letters_start = at;
        }
    }
    if parts.is_empty() {
        return parts;
    }
    parts.push(&word[start..]);
    parts.retain(|part| part.len() >= 2);
    parts
}
