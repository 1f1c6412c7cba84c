//! The links that follow a page to its new name, where the settings want that of renames by filesystem doors (gaps.md D7).
//!
//! One rule: the rename comes first. A page whose links cannot follow keeps them, and whoever renames is not refused for its sake; but while
//! nobody knows which pages link there, nothing is renamed, for their links would be lost for good.

use bytes::Bytes;
use svcfs_base::{Caller, Change, ChangeSet, ETag, Expect, Fault, TreePath};

use crate::Vfs;
use crate::gate::Proposal;
use crate::place::Place;
use crate::view::EntryKind;

/// A page with links to one that gets another name.
#[derive(Debug, Clone)]
pub struct Relinked {
    /// Where it stands once that has its name.
    pub path: TreePath,
    /// Its text now, and the hash of that.
    pub before: (Bytes, ETag),
    /// Its text with the links led to the new name.
    pub after: String,
    /// How many links that are.
    pub links: usize,
}

impl Relinked {
    /// A rename and these pages, each under the condition that it still is the one that was read; one that moves is at its new place when its
    /// turn comes. Without any the set is a rename and nothing else, which has a subject of its own.
    pub fn beside(rename: Change, pages: Vec<Self>, subject: &str) -> ChangeSet {
        let links = Self::links_of(&pages);
        let message = (links > 0).then(|| format!("{subject} (updated {links} links)"));
        let put = |page: Self| Change::put(page.path, page.after).expecting(Expect::OneOf(vec![page.before.1]));
        let changes = std::iter::once(rename).chain(pages.into_iter().map(put)).collect();
        ChangeSet { message, ..ChangeSet::new(changes) }
    }

    /// How many links of these pages are led to the new name.
    pub fn links_of(pages: &[Self]) -> usize {
        pages.iter().map(|page| page.links).sum()
    }
}

/// Says which pages link to the first name, and how they read once it is the second one. It comes from above, as a [`Gate`](crate::Gate)
/// does, so that the write path needs no index.
///
/// # Errors
/// `Unavailable` while that is not known.
pub type Relinking = Box<dyn Fn(&Caller, (&TreePath, &TreePath)) -> Result<Vec<Relinked>, Fault> + Send + Sync>;

impl Vfs {
    /// Has links follow from here on when a page is renamed through a filesystem door; only the first who asks is heard.
    pub fn follow_links(&self, relinking: Relinking) {
        let _only_the_first = self.core.relinking.set(relinking);
    }

    /// Whether links follow a rename: between pages that readers see, and only where that is wanted.
    pub(crate) fn links_follow(&self, from: &TreePath, to: &TreePath) -> bool {
        let is_page =
            |path: &TreePath| path.is_page() && !path.is_dotted() && self.core.places.of(path) == Place::Content;
        self.core.relinking.get().is_some() && is_page(from) && is_page(to)
    }

    /// A rename as a filesystem door makes it: with the links that follow it, and how many those are. As it is for what is no page, and where
    /// links do not follow.
    ///
    /// # Errors
    /// `Unavailable` while it is not known which pages link there; those of reading.
    pub fn with_links(&self, caller: &Caller, rename: Change) -> Result<(ChangeSet, usize), Fault> {
        let Change::Move { from, to, .. } = &rename else { return Ok((rename.into(), 0)) };
        let Some(relinking) = self.core.relinking.get().filter(|_| self.links_follow(from, to)) else {
            return Ok((rename.into(), 0));
        };
        if self.stat(caller.door, from)?.kind != EntryKind::File {
            return Ok((rename.into(), 0));
        }
        let mut pages = relinking(caller, (from, to))?;
        pages.retain(|page| self.may_be_relinked(caller, page));
        let subject = format!("{}: rename {from} → {to}", caller.actor());
        // What its author said of this save is what the commit says.
        let is_announced = self.announced_save(caller, to).is_some();
        let links = Relinked::links_of(&pages);
        let set = Relinked::beside(rename, pages, &subject);
        Ok((if is_announced { ChangeSet { message: None, ..set } } else { set }, links))
    }

    /// Whether a page passes the gates with its new links.
    fn may_be_relinked(&self, caller: &Caller, page: &Relinked) -> bool {
        let (path, content) = (page.path.clone(), Bytes::from(page.after.clone()));
        let mut proposal = Proposal { path, content, before: Some(page.before.0.clone()) };
        let refused = self.gates.iter().find_map(|gate| gate.pass(caller, &mut proposal).err());
        if let Some(fault) = &refused {
            tracing::warn!(page.path = %page.path, why = %fault, "a page keeps its links to one that is renamed, as it would be refused with the new ones");
        }
        refused.is_none()
    }
}
