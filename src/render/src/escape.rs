//! Escaping of text in HTML.

/// A text for use in HTML, also within a quoted attribute.
#[must_use]
pub fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The text of an attribute in the output of the sanitiser.
pub(crate) fn unescape_attribute(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    let plain = text.replace("&quot;", "\"").replace("&nbsp;", "\u{a0}").replace("&lt;", "<").replace("&gt;", ">");
    plain.replace("&amp;", "&")
}
