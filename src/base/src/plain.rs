//! Untrusted text in messages.

/// Escapes text for a message: letters of every script and quotation marks stay; invisible
/// characters, line ends and direction marks are written as Rust escapes them.
pub fn escape_unprintable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\'' | '\\' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
}

/// A label, such as a status, in the form in which labels are compared: in lower case, with single
/// spaces.
pub fn fold_label(label: &str) -> String {
    label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::escape_unprintable;

    #[test]
    fn what_can_be_read_stays_and_what_cannot_be_seen_is_written() {
        for (text, shown) in [
            ("café – “日本” it's $.a\\b=\"c\"…", "café – “日本” it's $.a\\b=\"c\"…"),
            ("a\nb\u{1b}[31m\0", "a\\nb\\u{1b}[31m\\0"),
            ("abc\u{202e}txt.exe", "abc\\u{202e}txt.exe"),
        ] {
            assert_eq!(escape_unprintable(text), shown);
        }
    }
}
