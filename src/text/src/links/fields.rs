//! Links in fields of the frontmatter that are said to name pages (`links.typed_fields`, gaps.md 2.1).
//!
//! One rule: nothing but a link is expected there, so a name needs no brackets, and keeps none when it is rewritten.

use serde_json::{Map, Value};

use super::{CONTEXT_CHARS, Link, PageMove, RetargetContext, links, parse_link, retarget};
use crate::frontmatter::{self, Frontmatter};

/// The links that the values of these fields are, in the order of the keys; a list has several.
///
/// Their places are those within the value; `context` is the field as it could be written.
#[must_use]
pub fn field_links(frontmatter: &Map<String, Value>, keys: &[String]) -> Vec<Link> {
    let mut links = Vec::new();
    for key in keys {
        let Some(value) = frontmatter.get(key) else { continue };
        for written in written(value) {
            let context: String = format!("{key}: {written}").chars().take(CONTEXT_CHARS).collect();
            links.extend(meant(&written).map(|link| Link { context, ..link }));
        }
    }
    links
}

/// Rewrite the links in these fields as [`retarget`] does those of the text. What cannot be rewritten without altering the rest of the
/// frontmatter stays as it is. Gives the new text and the number of links rewritten; `None` when none was.
pub fn retarget_fields(
    text: &str,
    keys: &[String],
    page: PageMove<'_>,
    moves: &impl RetargetContext,
) -> Option<(String, usize)> {
    // Reading YAML takes longer than all the rest, and few pages have any of them.
    let block = frontmatter::split(text).yaml?;
    if !keys.iter().any(|key| block.contains(key.as_str())) {
        return None;
    }
    let Frontmatter { map, .. } = frontmatter::parse(text);
    let (mut new, mut count) = (None, 0);
    for key in keys {
        let Some(value) = map.get(key) else { continue };
        for old in written(value) {
            let Some(now) = retargeted(&old, page, moves) else { continue };
            let so_far = new.as_deref().unwrap_or(text);
            if let Ok(changed) = frontmatter::replace_value(so_far, key, (&old, &now)) {
                (new, count) = (Some(changed), count + 1);
            }
        }
    }
    new.map(|new| (new, count))
}

/// The link of a value: one in brackets as in the text, else the name that it is.
fn meant(written: &str) -> Option<Link> {
    links(written).into_iter().next().or_else(|| parse_link(written))
}

/// A value with its link rewritten; `None` when it leads where it should, or is no link.
fn retargeted(written: &str, page: PageMove<'_>, moves: &impl RetargetContext) -> Option<String> {
    if !links(written).is_empty() {
        return retarget(written, page, moves).map(|(new, _)| new);
    }
    parse_link(written)?;
    let (new, _) = retarget(&format!("[[{written}]]"), page, moves)?;
    // Without brackets as before, unless it is a name that needs others.
    let name = new.strip_prefix("[[").and_then(|name| name.strip_suffix("]]"));
    Some(name.map_or(new.as_str(), |name| name).to_owned())
}

/// The texts and numbers of a value, or of a list of them; `[[a]]` without quotes is a list in a list.
fn written(value: &Value) -> Vec<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Array(several) => return several.iter().flat_map(written).collect(),
        Value::Null | Value::Bool(_) | Value::Object(_) => return Vec::new(),
    };
    if text.is_empty() { Vec::new() } else { vec![text] }
}
