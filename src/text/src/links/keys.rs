//! The names a page answers to, and the names a link asks for.
//!
//! Both sides are made here, so that a table in a database and the [`Resolver`](super::Resolver) in memory give one answer:
//! store [`keys_of`] each page, look up [`candidates`] of a link by `folded`, hand the rows to [`choose`](super::choose).

use super::LinkKind;
use super::uri::{folder_of, join, without_extension};

/// How a name leads to a page, strongest first (decision D17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum KeyKind {
    /// The whole path.
    Path = 0,
    /// The last parts of the path, at least two of them.
    Suffix = 1,
    /// The file name.
    Stem = 2,
    /// One of the `aliases` in the frontmatter.
    Alias = 3,
    /// The title.
    Title = 4,
}

impl KeyKind {
    /// The kind that is stored as this number; `None` for any other number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Path, Self::Suffix, Self::Stem, Self::Alias, Self::Title].into_iter().find(|kind| *kind as u8 == number)
    }
}

/// One name, of a page or asked for by a link.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinkKey {
    /// How the name leads to the page.
    pub kind: KeyKind,
    /// The name as written; a path without its `.md`.
    pub text: String,
    /// The name in lower case: what to look up by.
    pub folded: String,
}

impl LinkKey {
    fn new(kind: KeyKind, text: &str) -> Self {
        Self { kind, text: text.to_owned(), folded: text.to_lowercase() }
    }
}

/// The names a page answers to. Files that are no pages answer to their path and file name, ending included.
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

/// The names a link in the page `from` may mean, strongest first; empty when it leads out of the tree.
///
/// Links written in markdown, and wiki links that begin with `/`, `./` or `../`, mean one path.
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
