//! The names by which links address a page.
//!
//! Pages and links use the same keys, so that a database table and
//! [`LinkTargets`](super::LinkTargets) in memory agree: store the [`page_keys`] of each page, look
//! up the [`candidates`] of a link by `folded`, pass the rows to
//! [`choose_target`](super::choose_target).

use super::LinkKind;
use super::uri::{folder_of, join, without_extension};

/// Kind of a name; earlier kinds take precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum KeyKind {
    /// The full path.
    Path = 0,
    /// The last parts of the path, at least two.
    Suffix = 1,
    /// The file name.
    Stem = 2,
    /// One of the `aliases` in the frontmatter.
    Alias = 3,
    /// The title.
    Title = 4,
}

impl KeyKind {
    /// The kind with this number; none if there is no such kind.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Path, Self::Suffix, Self::Stem, Self::Alias, Self::Title].into_iter().find(|kind| *kind as u8 == number)
    }
}

/// One name, of a page or in a link.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinkKey {
    /// Kind of the name.
    pub kind: KeyKind,
    /// The name as written; a path without its `.md`.
    pub text: String,
    /// The name in lower case, for lookups.
    pub folded: String,
}

impl LinkKey {
    fn new(kind: KeyKind, text: &str) -> Self {
        Self { kind, text: text.to_owned(), folded: text.to_lowercase() }
    }
}

/// The names of a page. Other files have only their path and file name, with extension.
#[must_use]
pub fn page_keys(path: &str, title: Option<&str>, aliases: &[String]) -> Vec<LinkKey> {
    let name = without_extension(path);
    let mut keys = vec![LinkKey::new(KeyKind::Path, name)];
    let mut rest = name;
    while let Some((_, suffix)) = rest.split_once('/') {
        let kind = if suffix.contains('/') { KeyKind::Suffix } else { KeyKind::Stem };
        keys.push(LinkKey::new(kind, suffix));
        rest = suffix;
    }
    if !name.contains('/') {
        keys.push(LinkKey::new(KeyKind::Stem, name));
    }
    let names = aliases.iter().map(|alias| (KeyKind::Alias, alias.trim()));
    for (kind, text) in names.chain(title.map(|title| (KeyKind::Title, title.trim()))) {
        if !text.is_empty() {
            keys.push(LinkKey::new(kind, text));
        }
    }
    keys
}

/// The names to which a link in the page `from` may refer, by precedence; empty when it leads out
/// of the tree.
///
/// Markdown links, and wiki links that begin with `/`, `./` or `../`, refer to exactly one path.
#[must_use]
pub fn candidates(from: &str, kind: LinkKind, target: &str) -> Vec<LinkKey> {
    let is_address = ["/", "./", "../"].iter().any(|start| target.starts_with(start));
    if !kind.is_wiki() || is_address {
        let path = join(folder_of(from), target);
        return path.map(|path| LinkKey::new(KeyKind::Path, without_extension(&path))).into_iter().collect();
    }
    let by_path = if target.contains('/') { KeyKind::Suffix } else { KeyKind::Stem };
    let name = without_extension(target);
    vec![
        LinkKey::new(KeyKind::Path, name),
        LinkKey::new(by_path, name),
        LinkKey::new(KeyKind::Alias, target),
        LinkKey::new(KeyKind::Title, target),
    ]
}
