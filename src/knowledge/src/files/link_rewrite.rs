//! The pages that a rename changes beside the one it is about.

use std::collections::BTreeSet;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use svcfs_base::{Caller, Change, ChangeSet, Fault, Kind, Protocol, TreePath};
use svcfs_vfs::{EntryKind, FileView, LinkResolver, RelinkedPage, Vfs};

use super::link_targets::{MovedFiles, PageLinkContext};
use crate::kernel::{OperationContext, Space};

/// How long a rename waits for the index to know every link. One that is asked for right behind another, of a page that ten thousand
/// link to, waits some seconds.
const INDEX_PATIENCE: Duration = Duration::from_secs(20);

/// The same of a rename by a filesystem door: nobody reads a folder on a mount while a name in it changes, and a remote one waits ten seconds
/// for its server.
const DOOR_PATIENCE: Duration = Duration::from_secs(3);

/// Pages that are read before the thread that rewrites them is told.
const READ_AT_ONCE: usize = 64;

/// The links of a space, for filesystem doors (gaps.md D7).
pub(crate) struct SpaceLinkResolver(Weak<Space>);

impl SpaceLinkResolver {
    /// Those of a space, which is asked for as long as it is open.
    pub(crate) fn of(space: &Arc<Space>) -> Self {
        Self(Arc::downgrade(space))
    }

    fn space(&self) -> Result<Arc<Space>, Fault> {
        self.0.upgrade().ok_or_else(|| Fault::unavailable("the space is being closed"))
    }
}

impl LinkResolver for SpaceLinkResolver {
    fn catch_up(&self) -> Result<(), Fault> {
        self.space()?.index_within(DOOR_PATIENCE).map(drop)
    }

    fn relink_pages(&self, caller: &Caller, names: (&TreePath, &TreePath)) -> Result<Vec<RelinkedPage>, Fault> {
        let space = self.space()?;
        let from = names.0;
        let asked = (&*space, caller);
        let rewriting = LinkRewrite::within(DOOR_PATIENCE, asked, names, std::slice::from_ref(from), Some(from))?;
        for page in &rewriting.without_text {
            let why = "it is not UTF-8";
            tracing::warn!(space = space.name, page.path = %page, why, "a page keeps its links to one that is renamed");
        }
        Ok(rewriting.pages)
    }
}

/// The pages whose links a rename leads elsewhere, worked out from the tree as it is.
#[derive(Default)]
pub(super) struct LinkRewrite {
    pages: Vec<RelinkedPage>,
    /// Pages that are left alone, as they are no text.
    without_text: Vec<TreePath>,
}

impl LinkRewrite {
    /// For these files, which are at `from` or below it; `other` is a page that is looked at though the index may not have it.
    ///
    /// # Errors
    /// `Unavailable` while the index does not know every link; those of reading.
    pub(super) fn of(
        cx: &OperationContext<'_>,
        names: (&TreePath, &TreePath),
        files: &[TreePath],
        other: Option<&TreePath>,
    ) -> Result<Self, Fault> {
        let rewriting = Self::within(INDEX_PATIENCE, (cx.space, cx.caller), names, files, other)?;
        for page in &rewriting.without_text {
            cx.add_note(format!("the page `{page}` is not UTF-8, so that its links stay as they are"));
        }
        Ok(rewriting)
    }

    fn within(
        patience: Duration,
        (space, caller): (&Space, &Caller),
        (from, to): (&TreePath, &TreePath),
        files: &[TreePath],
        other: Option<&TreePath>,
    ) -> Result<Self, Fault> {
        let index = space.index_within(patience)?;
        index.with_link_follower(from, |links| {
            let moved = MovedFiles::new((from, to), files, links.titles_and_aliases(from)?);
            let mut pages = links.affected_pages(from, files)?;
            // What the index leaves out.
            pages.extend(files.iter().filter(|file| file.is_hidden() && file.is_page()).chain(other).cloned());
            // What is there gives way.
            pages.remove(to);
            // To whoever is limited to a folder nothing links there from elsewhere, and which page does is none of their business.
            pages.retain(|page| caller.permissions.covers(page));
            let mut rewriting = Self::default();
            let add = |page: &TreePath, file: FileView| {
                let view = PageLinkContext::new((space, caller), &moved, links, page);
                rewriting.add(view, page, file)
            };
            Ok(each_read((&space.vfs, caller.protocol), &pages, add).map(|()| rewriting))
        })?
    }

    fn add(&mut self, view: PageLinkContext<'_, '_, '_>, page: &TreePath, file: FileView) -> Result<(), Fault> {
        let Ok(old) = std::str::from_utf8(&file.content) else {
            self.without_text.push(page.clone());
            return Ok(());
        };
        if let Some((after, links)) = view.rewritten(old)? {
            self.pages.push(RelinkedPage {
                path: view.into_place(),
                old_etag: file.etag,
                new_text: after,
                link_count: links,
            });
        }
        Ok(())
    }

    /// How many links are led elsewhere.
    pub(super) fn links(&self) -> usize {
        RelinkedPage::count_links(&self.pages)
    }

    /// The rename, and the pages beside it.
    pub(super) fn into_set(self, rename: Change, subject: &str) -> ChangeSet {
        RelinkedPage::build_change_set(rename, self.pages, subject)
    }
}

/// Hands over what stands at each of these paths, as far as it is a file. The next ones are read by another thread meanwhile, when they
/// are many: reading ten thousand takes as long as rewriting them.
fn each_read(
    (vfs, protocol): (&Vfs, Protocol),
    pages: &BTreeSet<TreePath>,
    mut work: impl FnMut(&TreePath, FileView) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut take =
        |page: &TreePath, read: Result<Option<FileView>, Fault>| read?.map_or(Ok(()), |file| work(page, file));
    if pages.len() <= READ_AT_ONCE {
        return pages.iter().try_for_each(|page| take(page, read(vfs, protocol, page)));
    }
    let all: Vec<&TreePath> = pages.iter().collect();
    thread::scope(|scope| {
        let (hand_over, handed) = sync_channel(1);
        scope.spawn(move || {
            for some in all.chunks(READ_AT_ONCE) {
                let files: Vec<_> = some.iter().map(|page| (*page, read(vfs, protocol, page))).collect();
                if hand_over.send(files).is_err() {
                    // One of those before was refused, which is told below.
                    return;
                }
            }
        });
        handed.into_iter().flatten().try_for_each(|(page, file)| take(page, file))
    })
}

/// The file at a path; none when something else stands there.
fn read(vfs: &Vfs, protocol: Protocol, page: &TreePath) -> Result<Option<FileView>, Fault> {
    let read = vfs.stat(protocol, page).and_then(|there| match there.kind {
        EntryKind::File => vfs.read(protocol, page).map(Some),
        EntryKind::Directory | EntryKind::Symlink | EntryKind::Special(_) => Ok(None),
    });
    match read {
        // Removed since the index read it: it links to nothing any more.
        Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
        outcome => outcome,
    }
}
