//! The pages whose links a rename rewrites.

use std::collections::BTreeSet;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use svcfs_base::{Caller, Change, ChangeSet, Fault, Kind, Protocol, TreePath};
use svcfs_vfs::{CallerTree, EntryKind, FileView, LinkResolver, RelinkedPage};

use super::link_targets::{MovedFiles, PageLinkContext};
use crate::kernel::{OperationContext, Space};

/// How long a rename waits for the index to know every link. Directly after another rename of a
/// page with ten thousand backlinks this takes some seconds.
const INDEX_TIMEOUT: Duration = Duration::from_secs(20);

/// The same for a rename through a file protocol: the directory of a mount is locked meanwhile, and
/// a remote mount waits only 10 s for its server.
const FILE_PROTOCOL_TIMEOUT: Duration = Duration::from_secs(3);

/// Number of pages that are read before they are handed to the rewriting thread.
const READ_BATCH: usize = 64;

/// Rewrites the links of a space for renames through file protocols.
pub(crate) struct SpaceLinkResolver(Weak<Space>);

impl SpaceLinkResolver {
    /// A resolver that works as long as the space is open.
    pub(crate) fn of(space: &Arc<Space>) -> Self {
        Self(Arc::downgrade(space))
    }

    fn space(&self) -> Result<Arc<Space>, Fault> {
        self.0.upgrade().ok_or_else(|| Fault::unavailable("the space is closing"))
    }
}

impl LinkResolver for SpaceLinkResolver {
    fn catch_up(&self) -> Result<(), Fault> {
        self.space()?.index_within(FILE_PROTOCOL_TIMEOUT).map(drop)
    }

    fn relink_pages(&self, caller: &Caller, names: (&TreePath, &TreePath)) -> Result<Vec<RelinkedPage>, Fault> {
        let space = self.space()?;
        let from = names.0;
        let requester = (&*space, caller);
        let rewrite =
            LinkRewrite::with_timeout(FILE_PROTOCOL_TIMEOUT, requester, names, std::slice::from_ref(from), Some(from))?;
        for page in &rewrite.non_utf8 {
            let reason = "it is not UTF-8";
            tracing::warn!(space = space.name, page.path = %page, reason, "links of this page to a renamed page were not updated");
        }
        Ok(rewrite.pages)
    }
}

#[derive(Default)]
pub(super) struct LinkRewrite {
    pages: Vec<RelinkedPage>,
    /// Pages that are not UTF-8: their links stay as they are.
    non_utf8: Vec<TreePath>,
}

impl LinkRewrite {
    /// The rewrite for these files, which are at `from` or below it. `extra_page` is checked even
    /// if the index does not have it.
    ///
    /// # Errors
    /// `Unavailable` while the index does not know every link; those of reading.
    pub(super) fn of(
        cx: &OperationContext<'_>,
        names: (&TreePath, &TreePath),
        files: &[TreePath],
        extra_page: Option<&TreePath>,
    ) -> Result<Self, Fault> {
        let rewrite = Self::with_timeout(INDEX_TIMEOUT, (cx.space, cx.caller), names, files, extra_page)?;
        for page in &rewrite.non_utf8 {
            cx.add_note(format!("the links of `{page}` were not updated: it is not UTF-8"));
        }
        Ok(rewrite)
    }

    fn with_timeout(
        timeout: Duration,
        (space, caller): (&Space, &Caller),
        (from, to): (&TreePath, &TreePath),
        files: &[TreePath],
        extra_page: Option<&TreePath>,
    ) -> Result<Self, Fault> {
        let index = space.index_within(timeout)?;
        index.with_link_follower(from, |links| {
            let moved = MovedFiles::new((from, to), files, links.titles_and_aliases(from)?);
            let mut pages = links.affected_pages(from, files)?;
            // Pages that are not indexed.
            let is_indexed = |file: &TreePath| space.vfs.hidden_files().lists(file);
            pages.extend(files.iter().filter(|file| file.is_page() && !is_indexed(file)).chain(extra_page).cloned());
            // The file at the destination is replaced.
            pages.remove(to);
            // A caller that is limited to a folder must not learn which pages elsewhere link there.
            pages.retain(|page| caller.permissions.covers(page));
            let mut rewrite = Self::default();
            let add = |page: &TreePath, file: FileView| {
                let context = PageLinkContext::new((space, caller), &moved, links, page);
                rewrite.add(context, page, file)
            };
            Ok(for_each_file((&space.vfs.tree_of(caller), caller.protocol), &pages, add).map(|()| rewrite))
        })?
    }

    fn add(&mut self, context: PageLinkContext<'_, '_, '_>, page: &TreePath, file: FileView) -> Result<(), Fault> {
        let Ok(old) = std::str::from_utf8(&file.content) else {
            self.non_utf8.push(page.clone());
            return Ok(());
        };
        if let Some((after, links)) = context.rewrite(old)? {
            self.pages.push(RelinkedPage {
                path: context.into_new_path(),
                old_etag: file.etag,
                new_text: after,
                link_count: links,
            });
        }
        Ok(())
    }

    pub(super) fn links(&self) -> usize {
        RelinkedPage::count_links(&self.pages)
    }

    pub(super) fn into_change_set(self, rename: Change, subject: &str) -> ChangeSet {
        RelinkedPage::build_change_set(rename, self.pages, subject)
    }
}

/// Calls `work` with the file at each path; paths without a file are skipped. For many pages a
/// second thread reads ahead: reading takes as long as rewriting.
fn for_each_file(
    (tree, protocol): (&CallerTree<'_>, Protocol),
    pages: &BTreeSet<TreePath>,
    mut work: impl FnMut(&TreePath, FileView) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut handle = |page: &TreePath, read_if_file: Result<Option<FileView>, Fault>| {
        read_if_file?.map_or(Ok(()), |file| work(page, file))
    };
    if pages.len() <= READ_BATCH {
        return pages.iter().try_for_each(|page| handle(page, read_if_file(tree, protocol, page)));
    }
    let paths: Vec<&TreePath> = pages.iter().collect();
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(1);
        scope.spawn(move || {
            for batch in paths.chunks(READ_BATCH) {
                let files: Vec<_> = batch.iter().map(|page| (*page, read_if_file(tree, protocol, page))).collect();
                if sender.send(files).is_err() {
                    // The receiver stopped at an error and returns it.
                    return;
                }
            }
        });
        receiver.into_iter().flatten().try_for_each(|(page, file)| handle(page, file))
    })
}

/// The file at a path; none if there is no file or something else.
fn read_if_file(tree: &CallerTree<'_>, protocol: Protocol, page: &TreePath) -> Result<Option<FileView>, Fault> {
    let file = tree.stat(protocol, page).and_then(|attributes| match attributes.kind {
        EntryKind::File => tree.read(protocol, page).map(Some),
        EntryKind::Directory | EntryKind::Symlink | EntryKind::Special(_) => Ok(None),
    });
    match file {
        // Removed since it was indexed.
        Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
        outcome => outcome,
    }
}
