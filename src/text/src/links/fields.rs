//! Links in fields of the frontmatter that are said to name pages (`links.typed_fields`, gaps.md 2.1).
//!
//! One rule: nothing but a link is expected there, so a name needs no brackets, and keeps none when it is rewritten.

use serde_json::{Map, Value};

use super::{CONTEXT_CHARS, Link, Moves, Place, link_of, retarget};
use crate::frontmatter::{self, Frontmatter};

/// The links that the values of these fields are, in the order of the keys; a list has several.
///
/// Their places are those within the value; `context` is the field as it could be written.
#[must_use]
pub fn of_fields(frontmatter: &Map<String, Value>, keys: &[String]) -> Vec<Link> {
    let mut links = Vec::new();
    for key in keys {
        let Some(value) = frontmatter.get(key) else { continue };
        for written in written(value) {
            let context: String = format!("{key}: {written}").chars().take(CONTEXT_CHARS).collect();
            links.extend(link_of(&written).map(|link| Link { context, ..link }));
        }
    }
    links
}

/// Rewrite the links in these fields as [`retarget`] does those of the text. What cannot be rewritten without altering the rest of the
/// frontmatter stays as it is. Gives the new text and the number of links rewritten; `None` when none was.
pub fn retarget_fields(text: &str, keys: &[String], page: Place<'_>, moves: &impl Moves) -> Option<(String, usize)> {
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
            if let Ok(changed) = frontmatter::exchange(so_far, key, (&old, &now)) {
                (new, count) = (Some(changed), count + 1);
            }
        }
    }
    new.map(|new| (new, count))
}

/// A value with its link rewritten; `None` when it leads where it should, or is no link.
fn retargeted(written: &str, page: Place<'_>, moves: &impl Moves) -> Option<String> {
    link_of(written)?;
    if written.starts_with("[[") || written.starts_with("![[") {
        return retarget(written, page, moves).map(|(new, _)| new);
    }
    let (new, _) = retarget(&format!("[[{written}]]"), page, moves)?;
    Some(new.strip_prefix("[[")?.strip_suffix("]]")?.to_owned())
}

/// The texts and numbers of a value, or of a list of them.
fn written(value: &Value) -> Vec<String> {
    let several = match value {
        Value::Array(several) => several.as_slice(),
        one => std::slice::from_ref(one),
    };
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    several.iter().filter_map(text).filter(|text| !text.is_empty()).collect()
}
