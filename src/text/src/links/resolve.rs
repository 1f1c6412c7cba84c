//! Resolution of links to pages and other files.

use std::collections::HashMap;
use std::sync::Arc;

use super::keys::{KeyKind, LinkKey, candidates, page_keys};
use super::uri::folder_of;
use super::{Link, LinkKind};
use crate::fold::fold_name;

/// Which of several files of one name a link means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkResolution {
    /// The one in the nearest folder: most folders shared with the page, then fewest others.
    #[default]
    Nearest,
    /// As in Obsidian: the one in the folder of the page, else the one with the shortest path.
    Shortest,
}

impl LinkResolution {
    /// The order among files that have a name in the same way; the first is meant.
    #[must_use]
    pub fn order(self, from_folder: &str, path: &str) -> (usize, usize) {
        let folder = folder_of(path);
        match self {
            Self::Nearest => {
                let (shared, beyond) = folder_distance(from_folder, folder);
                (usize::MAX - shared, beyond)
            }
            Self::Shortest => (usize::from(folder != from_folder), path.chars().count()),
        }
    }
}

/// A name of an existing file: a row of a table of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownName<'a> {
    /// Kind of the name.
    pub kind: KeyKind,
    /// The name, as [`LinkKey::text`].
    pub text: &'a str,
    /// The file.
    pub path: &'a str,
}

/// Chooses the file to which a link in `from` leads.
///
/// `wanted` is the result of [`candidates`]; `known` are the names that, folded, equal a wanted
/// one. Precedence: the order of `wanted`, then the exact spelling, then [`LinkResolution`], then
/// the alphabet.
#[must_use]
pub fn choose_target<'a>(
    resolution: LinkResolution,
    from: &str,
    wanted: &[LinkKey],
    known: impl IntoIterator<Item = KnownName<'a>>,
) -> Option<&'a str> {
    let from_folder = folder_of(from);
    known
        .into_iter()
        .filter_map(|known| {
            let rank = wanted.iter().position(|key| key.kind == known.kind && key.text == known.text);
            let folded = || {
                let text = fold_name(known.text);
                wanted.iter().position(|key| key.kind == known.kind && key.folded == text)
            };
            let (differs, rank) = rank.map(|rank| (false, rank)).or_else(|| folded().map(|rank| (true, rank)))?;
            Some((rank, differs, resolution.order(from_folder, known.path), known.path))
        })
        .min()
        .map(|(.., path)| path)
}

/// How many folders two folders share from the root, and how many more the second has.
fn folder_distance(from_folder: &str, folder: &str) -> (usize, usize) {
    let parts = |path: &'_ str| path.split('/').filter(|part| !part.is_empty()).count();
    let shared = from_folder.split('/').zip(folder.split('/')).take_while(|(a, b)| !a.is_empty() && a == b).count();
    (shared, parts(folder) - shared)
}

/// An in-memory index that resolves links to the files of a tree.
///
/// Adding or removing a page takes time linear in its number of names; resolving, in the number of
/// pages with the same name.
#[derive(Debug, Default)]
pub struct LinkTargets {
    resolution: LinkResolution,
    names: HashMap<Box<str>, Vec<ResolvedName>>,
    pages: HashMap<Arc<str>, Vec<Box<str>>>,
}

#[derive(Debug)]
struct ResolvedName {
    kind: KeyKind,
    text: Box<str>,
    path: Arc<str>,
}

impl LinkTargets {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same index with another rule among files of one name.
    #[must_use]
    pub fn with_resolution(self, resolution: LinkResolution) -> Self {
        Self { resolution, ..self }
    }

    /// Adds or replaces a page or another file.
    pub fn insert(&mut self, path: &str, title: Option<&str>, aliases: &[String]) {
        self.remove(path);
        let page: Arc<str> = path.into();
        let mut entries = Vec::new();
        for key in page_keys(path, title, aliases) {
            let folded: Box<str> = key.folded.into();
            let name = ResolvedName { kind: key.kind, text: key.text.into(), path: Arc::clone(&page) };
            self.names.entry(folded.clone()).or_default().push(name);
            entries.push(folded);
        }
        self.pages.insert(page, entries);
    }

    /// Removes a page.
    pub fn remove(&mut self, path: &str) {
        for folded in self.pages.remove(path).unwrap_or_default() {
            if let Some(names) = self.names.get_mut(&folded) {
                names.retain(|name| *name.path != *path);
                if names.is_empty() {
                    self.names.remove(&folded);
                }
            }
        }
    }

    /// The page to which a link in `from` leads.
    #[must_use]
    pub fn resolve(&self, from: &str, link: &Link) -> Option<&str> {
        self.resolve_target(from, link.kind, &link.target)
    }

    /// The page to which `target`, in a link of this kind in the page `from`, leads.
    #[must_use]
    pub fn resolve_target(&self, from: &str, kind: LinkKind, target: &str) -> Option<&str> {
        let wanted = candidates(from, kind, target);
        let mut folded: Vec<&str> = wanted.iter().map(|key| key.folded.as_str()).collect();
        folded.dedup();
        let known = folded.iter().filter_map(|folded| self.names.get(*folded)).flatten();
        choose_target(
            self.resolution,
            from,
            &wanted,
            known.map(|name| KnownName { kind: name.kind, text: &name.text, path: &name.path }),
        )
    }
}
