//! Finds, resolves and rewrites the links of a page.
//!
//! Wiki links `[[target#heading|label]]` and embeds `![[…]]` are scanned here; pulldown-cmark
//! parses markdown links, images and reference definitions. Code and comments contain no links;
//! frontmatter contains them only in typed fields (`fields`).

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
pub use keys::{KeyKind, LinkKey, candidates, page_keys, target_path};
pub use resolve::{KnownName, LinkResolution, LinkTargets, choose_target};
pub use retarget::{PageMove, RetargetContext, retarget, rewrite_targets};

use crate::frontmatter::{SplitPage, split};
use crate::lines::LineStarts;
use crate::replace::replace_ranges;
use crate::structure::{self, BodyStructure};

/// Maximum length of the `context` of a link, in characters.
const CONTEXT_CHARS: usize = 240;

/// Syntax of a link.
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
    /// `[label]: target`
    Definition,
}

impl LinkKind {
    /// Whether the link has double brackets and is resolved by name.
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
    /// Syntax of the link.
    pub kind: LinkKind,
    /// The target without heading and label, percent-decoded. Never empty.
    pub target: String,
    /// The heading after `#`, if any.
    pub heading: Option<String>,
    /// The label, if any; for a markdown link its text without markup, at most 512 bytes.
    pub label: Option<String>,
    /// Range of `target` in the page, as written.
    pub target_range: Range<usize>,
    /// Range of the link from its first bracket to its end, without the `!` of an embed or image.
    pub full_range: Range<usize>,
    /// Its line in the page, from 1.
    pub line: usize,
    /// The text of its line, trimmed; a long line is cut around the link.
    pub context: String,
}

/// The links of a page to other files, in page order.
///
/// Links with a scheme (`https:`, `mailto:`) and links to a heading of the page itself are
/// excluded.
#[must_use]
pub fn links(text: &str) -> Vec<Link> {
    let split = split(text);
    let lines = LineStarts::new(text);
    let structure = structure::parse(&split, &lines);
    of_structure(text, &split, &lines, &structure)
}

/// Parses a value that must be one link: `name`, `name#heading`, `[[name|label]]`, or an embed of
/// these. None when it is not a link.
#[must_use]
pub fn parse_link(text: &str) -> Option<Link> {
    let text = text.trim();
    let link_text = if text.starts_with("[[") || text.starts_with("![[") {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("[[{text}]]"))
    };
    let mut scanned = links(&link_text).into_iter();
    scanned.next().filter(|link| link.kind.is_wiki() && scanned.next().is_none())
}

/// The links of a page whose structure is already parsed.
pub(crate) fn of_structure(
    text: &str,
    split: &SplitPage<'_>,
    lines: &LineStarts<'_>,
    structure: &BodyStructure<'_>,
) -> Vec<Link> {
    let mut scanned = scan::wiki_links(text, split.body_offset, &structure.opaque);
    // `[[x]](y)` is one markdown link with brackets in its label
    let mut labels: Vec<usize> = structure.links.iter().map(|link| link.range.start).collect();
    labels.sort_unstable();
    scanned.retain(|wiki| labels.binary_search(&wiki.full_range.start).is_err());
    scanned.extend(structure.links.iter().filter_map(|link| scan::written_link(text, link)));
    scanned.extend(structure.definitions.iter().filter_map(|definition| scan::definition(text, definition)));
    scanned.sort_unstable_by_key(|link| link.range.start);
    scanned.into_iter().map(|link| link.into_link(lines)).collect()
}

/// A text with each wiki link replaced by its label, else its target.
pub(crate) fn without_wiki_markup(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains("[[") {
        return text.into();
    }
    let labels = scan::brackets(text, 0).map(|(range, inner)| {
        let (target, label) = scan::label_of(&text[inner]);
        (range, label.unwrap_or(target))
    });
    replace_ranges(text, labels).into()
}

/// The line around a link, cut to [`CONTEXT_CHARS`].
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
