//! Normal form of a single word.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;

/// Limit in bytes: a longer word (a line of base64) is cut.
const MAX_WORD_BYTES: usize = 64;

/// Lower case without accents; compatibility forms (full width, ligatures) are unified.
pub(crate) fn folded(word: &str) -> String {
    let mut folded = if word.is_ascii() {
        word.get(..MAX_WORD_BYTES).unwrap_or(word).to_ascii_lowercase()
    } else {
        let mut folded = String::with_capacity(word.len());
        for character in word.chars().take(MAX_WORD_BYTES).collect::<String>().nfkc() {
            for lower in character.to_lowercase() {
                push(&mut folded, lower);
            }
        }
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

fn push(folded: &mut String, lower: char) {
    match lower {
        'ß' => folded.push_str("ss"),
        'æ' => folded.push_str("ae"),
        'œ' => folded.push_str("oe"),
        'ø' => folded.push('o'),
        'đ' | 'ð' => folded.push('d'),
        'ł' => folded.push('l'),
        'ı' => folded.push('i'),
        'ς' => folded.push('σ'),
        // Parts of a compatibility form that the full-text index would split at.
        _ if lower.is_ascii() && !lower.is_ascii_alphanumeric() || lower.is_whitespace() => {}
        // Decomposition would split a Korean syllable into letters.
        '\u{AC00}'..='\u{D7A3}' => folded.push(lower),
        // Accents, but not the marks that distinguish Japanese or Arabic letters.
        _ => folded.extend(std::iter::once(lower).nfd().filter(|part| !matches!(part, '\u{0300}'..='\u{036F}'))),
    }
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
