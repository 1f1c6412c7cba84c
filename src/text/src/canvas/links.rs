//! The links of a canvas: files that nodes show, and links in their text.

use std::ops::Range;

use super::{Canvas, Element, Members};
use crate::links::{self as page_links, Link, LinkKind, PageMove, RetargetContext};
use crate::replace::replace_ranges;

/// A member of a node that is the path of a file, from the root of the tree.
struct FileReference {
    path: String,
    /// Range of the value in the document, with its quotes.
    range: Range<usize>,
}

/// The links of a canvas to other files; none if the text is not a canvas.
///
/// The target of a node's file begins with `/`, as in a markdown link from the root of the tree.
#[must_use]
pub fn links(text: &str) -> Vec<Link> {
    let Ok(canvas) = Canvas::parse(text) else { return Vec::new() };
    let mut found = Vec::new();
    for node in canvas.nodes() {
        let subpath = node.text_of("subpath").unwrap_or_default();
        found.extend(file_references(text, node).into_iter().map(|reference| as_link(reference, &subpath)));
        let Some(content) = node.text_of("text").filter(|content| content.contains('[')) else { continue };
        found.extend(page_links::links(&content));
    }
    found
}

/// Rewrites every link of a canvas that would become broken because a file moved. Returns the new
/// text and the number of rewritten links; none when nothing changed.
pub fn retarget(text: &str, page: PageMove<'_>, moves: &impl RetargetContext) -> Option<(String, usize)> {
    let canvas = Canvas::parse(text).ok()?;
    let (mut replacements, mut count) = (Vec::new(), 0);
    for node in canvas.nodes() {
        for reference in file_references(text, node) {
            let range = reference.range.clone();
            let old = moves.old_target(&as_link(reference, ""));
            if let Some(new) = old.and_then(|old| moves.new_path(&old)) {
                replacements.push((range, serde_json::to_string(&new).ok()?));
                count += 1;
            }
        }
        let Some(content) = node.text_of("text").filter(|content| content.contains('[')) else { continue };
        if let (Some((new, links)), Some(member)) =
            (page_links::retarget(&content, page, moves), node.members.get("text"))
        {
            replacements.push((member.range.clone(), serde_json::to_string(&new).ok()?));
            count += links;
        }
    }
    replacements.sort_by_key(|(range, _)| range.start);
    (count > 0).then(|| (replace_ranges(text, replacements), count))
}

/// `file`, `background` and `data.path` of a node.
fn file_references(text: &str, node: &Element<'_>) -> Vec<FileReference> {
    let mut references = Vec::new();
    let mut add = |members: &Members<'_>, name: &str| {
        let path = members.text_of(name).filter(|path| !path.trim().is_empty());
        if let (Some(path), Some(member)) = (path, members.get(name)) {
            references.push(FileReference { path, range: member.range.clone() });
        }
    };
    add(&node.members, "file");
    add(&node.members, "background");
    if let Some(data) = node.members.get("data").filter(|data| data.raw.starts_with('{'))
        && let Ok(members) = Members::parse(text, data.raw)
    {
        add(&members, "path");
    }
    references
}

fn as_link(reference: FileReference, subpath: &str) -> Link {
    let FileReference { path, range } = reference;
    let heading = Some(subpath.trim_start_matches('#')).filter(|heading| !heading.is_empty()).map(str::to_owned);
    Link {
        kind: LinkKind::Markdown,
        target: format!("/{}", path.trim_start_matches('/')),
        heading,
        label: None,
        target_range: range.clone(),
        full_range: range,
        line: 1,
        context: path + subpath,
    }
}
