//! The links that follow a page to its new name, where the settings want that of renames by filesystem doors (gaps.md D7).
//!
//! One rule: the rename comes first. A page whose links cannot follow keeps them, and whoever renames is not refused for its sake; but while
//! nobody knows which pages link there, nothing is renamed, for their links would be lost for good.

use bytes::Bytes;
use svcfs_base::{Caller, Change, ChangeSet, ETag, Fault, Kind, Precondition, TreePath};

use crate::Vfs;
use crate::gate::ProposedFile;
use crate::path_class::PathClass;
use crate::view::EntryKind;

/// How often a rename is worked out anew because somebody wrote one of the linking pages meanwhile.
const ATTEMPTS: usize = 8;

/// A page with links to one that gets another name.
#[derive(Debug, Clone)]
pub struct RelinkedPage {
    /// Where it stands once that has its name.
    pub path: TreePath,
    /// The hash of its text now.
    pub old_etag: ETag,
    /// Its text with the links led to the new name.
    pub new_text: String,
    /// How many links that are.
    pub link_count: usize,
}

impl RelinkedPage {
    /// A rename and these pages, each under the condition that it still is the one that was read; one that moves is at its new place when its
    /// turn comes. Without any the set is a rename and nothing else, which has a subject of its own.
    pub fn build_change_set(rename: Change, pages: Vec<Self>, subject: &str) -> ChangeSet {
        let links = Self::count_links(&pages);
        let message = (links > 0).then(|| format!("{subject} (updated {links} links)"));
        let put = |page: Self| {
            Change::put(page.path, page.new_text).with_precondition(Precondition::OneOf(vec![page.old_etag]))
        };
        let changes = std::iter::once(rename).chain(pages.into_iter().map(put)).collect();
        ChangeSet { message, ..ChangeSet::new(changes) }
    }

    /// How many links of these pages are led to the new name.
    pub fn count_links(pages: &[Self]) -> usize {
        pages.iter().map(|page| page.link_count).sum()
    }
}

/// Who knows the links between pages. It comes from above, as a [`Gate`](crate::Gate) does, so that the write path needs no index. It waits for
/// everything that was accepted: nobody calls it who holds a lock of a path, a node, or the tree.
pub trait LinkResolver: Send + Sync + 'static {
    /// Waits until it knows all of them.
    ///
    /// # Errors
    /// `Unavailable` when that takes longer than a few seconds.
    fn catch_up(&self) -> Result<(), Fault>;

    /// The pages that link to the first name, as they read once it is the second one.
    ///
    /// # Errors
    /// As [`Linking::wait`], and those of reading.
    fn relink_pages(&self, caller: &Caller, names: (&TreePath, &TreePath)) -> Result<Vec<RelinkedPage>, Fault>;
}

impl Vfs {
    /// Has links follow from here on when a page is renamed through a filesystem door; only the first who asks is heard.
    pub fn set_link_resolver(&self, linking: impl LinkResolver) {
        let _only_the_first = self.core.linking.set(Box::new(linking));
    }

    /// Waits until it is known which links follow a rename that comes next, also those of pages that doors hold back: for doors that hold
    /// locks of their own while they rename.
    ///
    /// # Errors
    /// `Unavailable` when that takes longer than a few seconds.
    pub fn await_links(&self, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
        let Some(linking) = self.linking(from, to) else { return Ok(()) };
        self.settle_doors();
        linking.catch_up()
    }

    /// Renames as a filesystem door does: `apply` does it with the links that follow. How many those are; none where links do not follow, and of
    /// what is no page.
    ///
    /// # Errors
    /// `Unavailable` while it is not known which pages link there; those of reading, and of `apply`.
    pub fn rename_with_links<T>(
        &self,
        caller: &Caller,
        rename: &Change,
        mut apply: impl FnMut(ChangeSet) -> Result<T, Fault>,
    ) -> Result<(T, usize), Fault> {
        for _ in 0..ATTEMPTS {
            let (set, links) = self.with_links(caller, rename.clone())?;
            match apply(set) {
                // A linking page was written or locked since it was looked at.
                Err(fault) if links > 0 && matches!(fault.kind(), Kind::Conflict | Kind::Locked) => {}
                outcome => return outcome.map(|applied| (applied, links)),
            }
        }
        tracing::warn!(page.path = %rename.path(), "the pages that link to a renamed one are written all the time, and keep their links");
        apply(rename.clone().into()).map(|applied| (applied, 0))
    }

    /// Who knows the links that follow a rename: between pages that readers see, and only where that is wanted.
    pub(crate) fn linking(&self, from: &TreePath, to: &TreePath) -> Option<&dyn LinkResolver> {
        let is_page =
            |path: &TreePath| path.is_page() && !path.is_hidden() && self.core.places.of(path) == PathClass::Content;
        self.core.linking.get().map(|linking| &**linking).filter(|_| is_page(from) && is_page(to))
    }

    fn with_links(&self, caller: &Caller, rename: Change) -> Result<(ChangeSet, usize), Fault> {
        let Change::Move { from, to, precondition: expect } = &rename else { return Ok((rename.into(), 0)) };
        let Some(linking) = self.linking(from, to) else { return Ok((rename.into(), 0)) };
        let is_refused = match self.stat_any(caller.protocol, to) {
            Ok(there) => there.kind == EntryKind::Directory || *expect == Precondition::Absent,
            Err(_) => false,
        };
        if is_refused || self.stat(caller.protocol, from)?.kind != EntryKind::File {
            return Ok((rename.into(), 0));
        }
        let mut pages = linking.relink_pages(caller, (from, to))?;
        pages.retain(|page| match self.keeps_its_links(caller, page, (from, to)) {
            Some(why) => {
                tracing::warn!(page.path = %page.path, why, "a page keeps its links to one that is renamed");
                false
            }
            None => true,
        });
        let links = RelinkedPage::count_links(&pages);
        let subject = format!("{}: rename {from} → {to}", caller.actor());
        // What its author said of this save is what the commit says.
        let is_announced = self.save_message(caller, to).is_some();
        let set = RelinkedPage::build_change_set(rename, pages, &subject);
        Ok((if is_announced { ChangeSet { message: None, ..set } } else { set }, links))
    }

    /// Why a page is left as it is.
    fn keeps_its_links(
        &self,
        caller: &Caller,
        page: &RelinkedPage,
        (from, to): (&TreePath, &TreePath),
    ) -> Option<String> {
        let now = if page.path == *to { from } else { &page.path };
        if self.nodes.at(now).is_some_and(|node| self.is_unsaved(node)) {
            return Some("somebody is writing it".to_owned());
        }
        if let Some(lease) = self.leases_at(now).first() {
            return Some(format!("`{}` has it locked over {}", lease.holder, lease.protocol.name()));
        }
        let before = self.read(caller.protocol, now).ok().map(|file| file.content);
        let mut proposal =
            ProposedFile { path: page.path.clone(), content: Bytes::from(page.new_text.clone()), old_content: before };
        let refusal = self.gates.iter().find_map(|gate| gate.check(caller, &mut proposal).err())?;
        Some(refusal.message().to_owned())
    }
}
