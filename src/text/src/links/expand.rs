//! Conversion of wiki links to markdown links (`resolve_links`).

use std::borrow::Cow;

use super::{links, uri};
use crate::headings::anchor_of_link;
use crate::links::Link;

/// Replaces each wiki link by a markdown link to the address that `address` returns; links without
/// an address remain.
///
/// The anchor of the heading becomes the fragment; the label, or else the target, becomes the text.
/// The `!` of an embed remains, so that an embedded image is still an image.
pub fn expand_wiki_links(text: &str, mut address: impl FnMut(&Link) -> Option<String>) -> Cow<'_, str> {
    let mut expanded = String::new();
    let mut from = 0;
    for link in links(text).iter().filter(|link| link.kind.is_wiki()) {
        let Some(address) = address(link) else { continue };
        let label = link.label.as_deref().unwrap_or(&text[link.target_range.clone()]);
        let anchor = link.heading.as_deref().map(anchor_of_link).filter(|anchor| !anchor.is_empty());
        let fragment = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
        expanded.push_str(&text[from..link.full_range.start]);
        expanded.push_str(&format!("[{}]({address}{fragment})", label.replace('[', "\\[")));
        from = link.full_range.end;
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    expanded.push_str(&text[from..]);
    Cow::Owned(expanded)
}

/// The address of a page on the public site: `<public_url>/page/<path>`, every segment
/// percent-encoded.
#[must_use]
pub fn permalink(public_url: &str, path: &str) -> String {
    format!("{}/page/{}", public_url.trim_end_matches('/'), uri::encode_ascii(path))
}
