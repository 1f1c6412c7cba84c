//! Callouts: `> [!note] Title`, with `-` or `+` after the bracket foldable.

/// The first line of a callout.
pub(crate) struct CalloutHead<'t> {
    /// In lower case, letters, digits and `-` only.
    pub kind: String,
    /// Whether it can be folded, and then whether it is open.
    pub fold: Option<bool>,
    /// The start of the title as text; empty without one.
    pub title: &'t str,
}

/// Parses the first text of a quote.
pub(crate) fn head(text: &str) -> Option<CalloutHead<'_>> {
    let (kind, rest) = text.strip_prefix("[!")?.split_once(']')?;
    let is_name = |character: char| character.is_alphanumeric() || matches!(character, '-' | '_' | ' ');
    if kind.is_empty() || kind.len() > 64 || !kind.chars().all(is_name) {
        return None;
    }
    let (fold, title) = match rest.as_bytes().first() {
        Some(b'-') => (Some(false), &rest[1..]),
        Some(b'+') => (Some(true), &rest[1..]),
        _ => (None, rest),
    };
    Some(CalloutHead { kind: kind.to_lowercase().replace([' ', '_'], "-"), fold, title: title.trim_start() })
}

/// The title of a callout that has none: its kind, capitalised.
pub(crate) fn default_title(kind: &str) -> String {
    let mut characters = kind.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}
