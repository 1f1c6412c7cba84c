//! The links of a page: found, resolved, and rewritten when what they lead to moves (decision D17).
//!
//! Wiki links `[[target#heading|label]]` and their embeds `![[…]]` are scanned here; links, images and reference definitions
//! written in markdown come from pulldown-cmark. Nothing inside code or comments is a link, and nothing in frontmatter but the values of
//! fields that are said to name pages (`fields`).

mod expand;
mod fields;
mod keys;
mod resolve;
mod retarget;
mod scan;
#[cfg(test)]
mod tests;
mod uri;

use std::borrow::Cow;
use std::ops::Range;

pub use expand::{expand_wiki_links, permalink};
pub use fields::{field_links, retarget_fields};
pub use keys::{KeyKind, LinkKey, candidates, page_keys};
pub use resolve::{KnownName, LinkTargets, choose_target};
pub use retarget::{PageMove, RetargetContext, retarget, rewrite_targets};

use crate::frontmatter::{SplitPage, split};
use crate::lines::LineStarts;
use crate::structure::{self, BodyStructure};

/// Longest `context` of a link, in characters; a longer line is cut around the link.
const CONTEXT_CHARS: usize = 240;

/// How a link is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkKind {
    /// `[[target]]`
    Wiki,
    /// `![[target]]`
    Embed,
    /// `[label](target)`
    Markdown,
    /// `![label](target)`
    Image,
    /// `[label]: target`, wherever the page then uses it
    Definition,
}

impl LinkKind {
    /// Is the link written with double brackets, and so resolved by name?
    #[must_use]
    pub fn is_wiki(self) -> bool {
        match self {
            Self::Wiki | Self::Embed => true,
            Self::Markdown | Self::Image | Self::Definition => false,
        }
    }
}

/// A link from a page to another file of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// How it is written.
    pub kind: LinkKind,
    /// What it leads to, as the author meant it: without heading and label, percent signs decoded. Never empty.
    pub target: String,
    /// The heading after `#`, when there is one.
    pub heading: Option<String>,
    /// The label, when there is one; of a markdown link its text without markup, at most 512 bytes.
    pub label: Option<String>,
    /// Where `target` stands in the page, as it is written there.
    pub target_range: Range<usize>,
    /// Where the whole link stands: from its first bracket to its end, the `!` of an embed or image not included.
    pub full_range: Range<usize>,
    /// Its line in the page, from 1.
    pub line: usize,
    /// The text of its line, trimmed; a long line is cut around the link.
    pub context: String,
}

/// The links of a page to other files, in order of their place in it.
///
/// Links with a scheme (`https:`, `mailto:`) and links to a heading of the page itself are not among them.
#[must_use]
pub fn links(text: &str) -> Vec<Link> {
    let split = split(text);
    let lines = LineStarts::of(text);
    let structure = structure::read(&split, &lines);
    of_structure(text, &split, &lines, &structure)
}

/// The link that somebody means who writes, where nothing but a link is expected, `name`, `name#heading`, `[[name|label]]`, or an embed of
/// these. None when it is no link.
#[must_use]
pub fn parse_link(written: &str) -> Option<Link> {
    let written = written.trim();
    let whole = if written.starts_with("[[") || written.starts_with("![[") {
        Cow::Borrowed(written)
    } else {
        Cow::Owned(format!("[[{written}]]"))
    };
    let mut found = links(&whole).into_iter();
    found.next().filter(|link| link.kind.is_wiki() && found.next().is_none())
}

/// The links of a page whose structure is read already.
pub(crate) fn of_structure(
    text: &str,
    split: &SplitPage<'_>,
    lines: &LineStarts<'_>,
    structure: &BodyStructure<'_>,
) -> Vec<Link> {
    let mut found = scan::wiki_links(text, split.body_offset, &structure.opaque);
    // `[[x]](y)` is one markdown link whose label has brackets
    let mut labels: Vec<usize> = structure.links.iter().map(|link| link.range.start).collect();
    labels.sort_unstable();
    found.retain(|wiki| labels.binary_search(&wiki.whole.start).is_err());
    found.extend(structure.links.iter().filter_map(|link| scan::written_link(text, link)));
    found.extend(structure.definitions.iter().filter_map(|definition| scan::definition(text, definition)));
    found.sort_unstable_by_key(|link| link.range.start);
    found.into_iter().map(|link| link.placed(lines)).collect()
}

/// A text with each wiki link replaced by what a reader sees of it: its label, else its target.
pub(crate) fn without_wiki_markup(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains("[[") {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    let mut from = 0;
    for (range, inner) in scan::brackets(text, 0) {
        shown.push_str(&text[from..range.start]);
        let (target, label) = scan::label_of(&text[inner]);
        shown.push_str(label.unwrap_or(target));
        from = range.end;
    }
    shown.push_str(&text[from..]);
    shown.into()
}

/// The line around a link, cut to [`CONTEXT_CHARS`] when it is longer.
fn context(lines: &LineStarts<'_>, index: usize, range: &Range<usize>) -> String {
    let line = lines.line(index);
    if line.len() <= CONTEXT_CHARS {
        return line.trim().to_owned();
    }
    let at = range.start.saturating_sub(lines.start(index)).min(line.len());
    let before: usize = line[..at].chars().rev().take(CONTEXT_CHARS / 2).map(char::len_utf8).sum();
    let after: usize = line[at..].chars().take(CONTEXT_CHARS / 2).map(char::len_utf8).sum();
    let (start, end) = (at - before, at + after);
    let (head, tail) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    [head, line[start..end].trim(), tail].concat()
}

/// The file name of a page without its folder and `.md`.
pub(crate) fn stem_of(path: &str) -> &str {
    let path = uri::without_extension(path);
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
