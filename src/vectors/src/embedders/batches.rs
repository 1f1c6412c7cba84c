//! Texts as a service accepts them: cut, and grouped into requests.

/// What one request to a service may contain. Tokens are estimated, rather too high.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestLimits {
    /// Number of texts.
    pub texts: usize,
    /// Tokens of all texts.
    pub tokens: usize,
    /// Tokens of one text; the rest of a longer text is not sent.
    pub text_tokens: usize,
    /// Characters of one text.
    pub text_chars: usize,
}

impl RequestLimits {
    /// Limits that only the number of texts reaches soon.
    pub const fn of_texts(texts: usize) -> Self {
        Self { texts, tokens: 100_000, text_tokens: 8_000, text_chars: usize::MAX }
    }
}

/// Tokens of a character in halves. Byte pairs of common vocabularies need fewer: an English word
/// is one or two tokens, a Chinese character one or two, a character of a rare script up to three.
const fn half_tokens(character: char) -> usize {
    match character.len_utf8() {
        1 if character.is_ascii_alphanumeric() => 1,
        1 | 2 => 2,
        3 => 4,
        _ => 6,
    }
}

fn estimated_tokens(text: &str) -> usize {
    text.chars().map(half_tokens).sum::<usize>().div_ceil(2)
}

/// The beginning of a text that a service accepts.
pub(super) fn cut(text: &str, limits: RequestLimits) -> &str {
    let mut half = 0;
    for (count, (at, character)) in text.char_indices().enumerate() {
        half += half_tokens(character);
        if half > limits.text_tokens.saturating_mul(2) || count >= limits.text_chars {
            return &text[..at];
        }
    }
    text
}

/// Splits texts into requests.
pub(super) fn split<'t>(texts: &'t [&'t str], limits: RequestLimits) -> Vec<&'t [&'t str]> {
    let mut requests = Vec::new();
    let (mut start, mut tokens) = (0, 0);
    for (at, text) in texts.iter().enumerate() {
        let more = estimated_tokens(text);
        if at > start && (at - start >= limits.texts || tokens + more > limits.tokens) {
            requests.push(&texts[start..at]);
            (start, tokens) = (at, 0);
        }
        tokens += more;
    }
    if start < texts.len() {
        requests.push(&texts[start..]);
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_respect_both_limits_and_lose_no_text() {
        let texts: Vec<String> = (0..50).map(|number| "word ".repeat(number)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for (count, tokens) in [(1, 1_000), (7, 1_000), (50, 1_000), (50, 200), (3, 1)] {
            let limits = RequestLimits { tokens, ..RequestLimits::of_texts(count) };
            let requests = split(&texts, limits);
            assert_eq!(requests.concat(), texts);
            for request in &requests {
                let sum: usize = request.iter().map(|text| estimated_tokens(text)).sum();
                assert!(request.len() <= count && (sum <= tokens || request.len() == 1), "{count} {tokens}");
            }
        }
        assert!(split(&[], RequestLimits::of_texts(3)).is_empty());
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let limits = RequestLimits { text_tokens: 100, ..RequestLimits::of_texts(1) };
        for unit in ["a", "word ", "\u{44f}", "\u{4e2d}", "\u{1f642}", "e\u{301}", "\0"] {
            let text = unit.repeat(500);
            let beginning = cut(&text, limits);
            assert!(estimated_tokens(beginning) <= 100 && estimated_tokens(beginning) >= 97, "{unit:?}");
            assert_eq!(cut(unit, limits), unit);
        }
        assert_eq!(cut("abcdef", RequestLimits { text_chars: 4, ..limits }), "abcd");
    }
}
