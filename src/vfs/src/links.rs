//! Links that follow a renamed page, if configured for renames through filesystem protocols.
//!
//! Invariant: the rename has priority. A page whose links cannot be updated keeps them, and the
//! rename is not refused. But while it is unknown which pages link there, nothing is renamed, as
//! their links would be lost for good.

use bytes::Bytes;
use svcfs_base::{Caller, Change, ChangeSet, ETag, Fault, Kind, Precondition, TreePath};

use crate::Vfs;
use crate::gate::ProposedFile;
use crate::path_class::PathClass;
use crate::view::EntryKind;

/// How often a rename is retried because a linking page was changed meanwhile.
const MAX_ATTEMPTS: usize = 8;

/// A page with links to a renamed page.
#[derive(Debug, Clone)]
pub struct RelinkedPage {
    /// Its path after the rename.
    pub path: TreePath,
    /// Hash of its current text.
    pub old_etag: ETag,
    /// Its text with updated links.
    pub new_text: String,
    /// Number of updated links.
    pub link_count: usize,
}

impl RelinkedPage {
    /// A change set with a rename and these pages, each with the precondition that it is unchanged;
    /// a page that is moved is written at its new path. Without pages the set is a plain rename,
    /// with a default message.
    pub fn build_change_set(rename: Change, pages: Vec<Self>, subject: &str) -> ChangeSet {
        let links = Self::count_links(&pages);
        let message = (links > 0).then(|| format!("{subject} (updated {links} links)"));
        let put = |page: Self| {
            Change::put(page.path, page.new_text).with_precondition(Precondition::OneOf(vec![page.old_etag]))
        };
        let changes = std::iter::once(rename).chain(pages.into_iter().map(put)).collect();
        ChangeSet { message, ..ChangeSet::new(changes) }
    }

    /// Number of updated links in these pages.
    pub fn count_links(pages: &[Self]) -> usize {
        pages.iter().map(|page| page.link_count).sum()
    }
}

/// Finds links between pages. An upper layer provides it, as a [`WriteGate`](crate::WriteGate), so
/// that the write path needs no index. It waits for accepted changes: callers must not hold a lock
/// of a path, a node, or the tree.
pub trait LinkResolver: Send + Sync + 'static {
    /// Waits until all links are known.
    ///
    /// # Errors
    /// `Unavailable` when that takes longer than a few seconds.
    fn catch_up(&self) -> Result<(), Fault>;

    /// The pages that link to the first name, with their text after the rename to the second.
    ///
    /// # Errors
    /// As [`LinkResolver::catch_up`], and those of reading.
    fn relink_pages(&self, caller: &Caller, names: (&TreePath, &TreePath)) -> Result<Vec<RelinkedPage>, Fault>;
}

impl Vfs {
    /// Makes links follow renames through filesystem protocols; only the first call has an effect.
    pub fn set_link_resolver(&self, resolver: impl LinkResolver) {
        let _only_the_first = self.core.link_resolver.set(Box::new(resolver));
    }

    /// Waits until the links for a rename are known, including those in buffered writes: for
    /// protocols that hold locks of their own during a rename.
    ///
    /// # Errors
    /// `Unavailable` when that takes longer than a few seconds.
    pub fn await_links(&self, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
        let Some(resolver) = self.resolver_for(from, to) else { return Ok(()) };
        self.run_write_flushers();
        resolver.catch_up()
    }

    /// Renames as filesystem protocols do: `apply` applies the rename with the updated links.
    /// Returns the number of links; 0 where links do not follow, and for files that are not pages.
    ///
    /// # Errors
    /// `Unavailable` while linking pages are unknown; those of reading, and of `apply`.
    pub fn rename_with_links<T>(
        &self,
        caller: &Caller,
        rename: &Change,
        mut apply: impl FnMut(ChangeSet) -> Result<T, Fault>,
    ) -> Result<(T, usize), Fault> {
        for _ in 0..MAX_ATTEMPTS {
            let (set, links) = self.with_relinked_pages(caller, rename.clone())?;
            match apply(set) {
                // A linking page was changed or locked meanwhile.
                Err(fault) if links > 0 && matches!(fault.kind(), Kind::Conflict | Kind::Locked) => {}
                outcome => return outcome.map(|applied| (applied, links)),
            }
        }
        tracing::warn!(page.path = %rename.path(), "pages that link to a renamed page change too often; their links are not updated");
        apply(rename.clone().into()).map(|applied| (applied, 0))
    }

    /// The resolver for a rename: only between visible pages, and if configured.
    pub(crate) fn resolver_for(&self, from: &TreePath, to: &TreePath) -> Option<&dyn LinkResolver> {
        let is_page = |path: &TreePath| {
            path.is_page()
                && self.hidden_files().lists(path)
                && self.core.path_classes.classify(path) == PathClass::Content
        };
        self.core.link_resolver.get().map(|resolver| &**resolver).filter(|_| is_page(from) && is_page(to))
    }

    fn with_relinked_pages(&self, caller: &Caller, rename: Change) -> Result<(ChangeSet, usize), Fault> {
        let Change::Move { from, to, precondition } = &rename else { return Ok((rename.into(), 0)) };
        let Some(resolver) = self.resolver_for(from, to) else { return Ok((rename.into(), 0)) };
        let is_refused = match self.stat_any(caller.protocol, to) {
            Ok(target) => target.kind == EntryKind::Directory || *precondition == Precondition::Absent,
            Err(_) => false,
        };
        if is_refused || self.stat(caller.protocol, from)?.kind != EntryKind::File {
            return Ok((rename.into(), 0));
        }
        let mut pages = resolver.relink_pages(caller, (from, to))?;
        pages.retain(|page| match self.keeps_its_links(caller, page, (from, to)) {
            Some(why) => {
                tracing::warn!(page.path = %page.path, why, "links to a renamed page are not updated in this page");
                false
            }
            None => true,
        });
        let links = RelinkedPage::count_links(&pages);
        let subject = format!("{}: rename {from} → {to}", caller.actor());
        // A message set by the author has priority.
        let is_announced = self.save_message(caller, to).is_some();
        let set = RelinkedPage::build_change_set(rename, pages, &subject);
        Ok((if is_announced { ChangeSet { message: None, ..set } } else { set }, links))
    }

    fn keeps_its_links(
        &self,
        caller: &Caller,
        page: &RelinkedPage,
        (from, to): (&TreePath, &TreePath),
    ) -> Option<String> {
        let current_path = if page.path == *to { from } else { &page.path };
        if self.nodes.at(current_path).is_some_and(|node| self.is_unsaved(node)) {
            return Some("it has unsaved changes".to_owned());
        }
        if let Some(lease) = self.leases_at(current_path).first() {
            return Some(format!("`{}` has it locked over {}", lease.holder, lease.protocol.name()));
        }
        let before = self.read(caller.protocol, current_path).ok().map(|file| file.content);
        let mut proposal =
            ProposedFile { path: page.path.clone(), content: Bytes::from(page.new_text.clone()), old_content: before };
        let refusal = self.gates.iter().find_map(|gate| gate.check(caller, &mut proposal).err())?;
        Some(refusal.message().to_owned())
    }
}
