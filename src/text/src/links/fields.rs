//! Links in frontmatter fields that name pages (`links.typed_fields`).
//!
//! Invariant: the value is always a link, so a name needs no brackets, and gets none when it is
//! rewritten.

use serde_json::{Map, Value};

use super::{CONTEXT_CHARS, Link, PageMove, RetargetContext, links, parse_link, retarget};
use crate::frontmatter::{self, Frontmatter};

/// The links in the values of these fields, in the order of the keys.
///
/// Ranges are relative to the value; `context` is `key: value`.
#[must_use]
pub fn field_links(frontmatter: &Map<String, Value>, keys: &[String]) -> Vec<Link> {
    let mut links = Vec::new();
    for key in keys {
        let Some(value) = frontmatter.get(key) else { continue };
        for text in value_texts(value) {
            let context: String = format!("{key}: {text}").chars().take(CONTEXT_CHARS).collect();
            links.extend(parse_value(&text).map(|link| Link { context, ..link }));
        }
    }
    links
}

/// Rewrites the links in these fields, as [`retarget`] does in the text. A link remains if
/// rewriting it would alter other frontmatter. Returns the new text and the number of rewritten
/// links; none when nothing changed.
pub fn retarget_fields(
    text: &str,
    keys: &[String],
    page: PageMove<'_>,
    moves: &impl RetargetContext,
) -> Option<(String, usize)> {
    // Parsing it is the slowest part, and few pages have these fields.
    let block = frontmatter::split(text).content()?;
    if !keys.iter().any(|key| block.contains(key.as_str())) {
        return None;
    }
    let Frontmatter { map, .. } = frontmatter::parse(text);
    let (mut new, mut count) = (None, 0);
    for key in keys {
        let Some(value) = map.get(key) else { continue };
        for old in value_texts(value) {
            let Some(replacement) = retarget_value(&old, page, moves) else { continue };
            let current = new.as_deref().unwrap_or(text);
            if let Ok(changed) = frontmatter::replace_value(current, key, (&old, &replacement)) {
                (new, count) = (Some(changed), count + 1);
            }
        }
    }
    new.map(|new| (new, count))
}

/// The link in a value: with brackets as in the text, else the value is the name.
fn parse_value(text: &str) -> Option<Link> {
    links(text).into_iter().next().or_else(|| parse_link(text))
}

/// A value with its link rewritten; none when it need not change or is not a link.
fn retarget_value(text: &str, page: PageMove<'_>, moves: &impl RetargetContext) -> Option<String> {
    if !links(text).is_empty() {
        return retarget(text, page, moves).map(|(new, _)| new);
    }
    parse_link(text)?;
    let (new, _) = retarget(&format!("[[{text}]]"), page, moves)?;
    // Without brackets as before, unless the name became a markdown link.
    let name = new.strip_prefix("[[").and_then(|name| name.strip_suffix("]]"));
    Some(name.map_or(new.as_str(), |name| name).to_owned())
}

/// The texts and numbers of a value or nested list; unquoted `[[a]]` is a list in a list.
fn value_texts(value: &Value) -> Vec<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Array(items) => return items.iter().flat_map(value_texts).collect(),
        Value::Null | Value::Bool(_) | Value::Object(_) => return Vec::new(),
    };
    if text.is_empty() { Vec::new() } else { vec![text] }
}
