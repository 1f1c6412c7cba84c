//! Which page a link leads to.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::keys::{KeyKind, LinkKey, candidates, page_keys};
use super::uri::folder_of;
use super::{Link, LinkKind};

/// A name that a known page answers to: a row of a table of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownName<'a> {
    /// How the name leads to the page.
    pub kind: KeyKind,
    /// The name, as [`Key::text`].
    pub text: &'a str,
    /// The page.
    pub path: &'a str,
}

/// Choose among the known names the page that a link in `from` leads to.
///
/// `wanted` is what [`candidates`] gives; `known` are the names whose lower case equals that of a wanted one. The
/// order of `wanted` decides, then names written in the same case come before others, then the nearest folder: the most folders
/// shared with `from`, the fewest beyond them, then the alphabet.
#[must_use]
pub fn choose_target<'a>(
    from: &str,
    wanted: &[LinkKey],
    known: impl IntoIterator<Item = KnownName<'a>>,
) -> Option<&'a str> {
    let home = folder_of(from);
    known
        .into_iter()
        .filter_map(|known| {
            let rank = wanted.iter().position(|key| key.kind == known.kind && key.text == known.text);
            let folded = || {
                let text = known.text.to_lowercase();
                wanted.iter().position(|key| key.kind == known.kind && key.folded == text)
            };
            let (other_case, rank) = rank.map(|rank| (false, rank)).or_else(|| folded().map(|rank| (true, rank)))?;
            let (shared, beyond) = closeness(home, folder_of(known.path));
            Some((rank, other_case, Reverse(shared), beyond, known.path))
        })
        .min()
        .map(|(.., path)| path)
}

/// How many folders two folders share from the root, and how many the second has beyond them.
fn closeness(home: &str, folder: &str) -> (usize, usize) {
    let parts = |path: &'_ str| path.split('/').filter(|part| !part.is_empty()).count();
    let shared =
        home.split('/').zip(folder.split('/')).take_while(|(ours, theirs)| !ours.is_empty() && ours == theirs).count();
    (shared, parts(folder) - shared)
}

/// The known pages of a tree, ready to be asked where links lead.
///
/// Adding or removing a page costs as much as it has names; asking costs as much as there are pages of the same name.
#[derive(Debug, Default)]
pub struct LinkTargets {
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
    /// A resolver that knows no page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Add a page, or replace what was known of it.
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

    /// Forget a page.
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

    /// The page a link in `from` leads to.
    #[must_use]
    pub fn resolve(&self, from: &str, link: &Link) -> Option<&str> {
        self.resolve_target(from, link.kind, &link.target)
    }

    /// The page that `target`, written as a link of this kind in the page `from`, leads to.
    #[must_use]
    pub fn resolve_target(&self, from: &str, kind: LinkKind, target: &str) -> Option<&str> {
        let wanted = candidates(from, kind, target);
        let mut folded: Vec<&str> = wanted.iter().map(|key| key.folded.as_str()).collect();
        folded.dedup();
        let known = folded.iter().filter_map(|folded| self.names.get(*folded)).flatten();
        choose_target(
            from,
            &wanted,
            known.map(|name| KnownName { kind: name.kind, text: &name.text, path: &name.path }),
        )
    }
}
