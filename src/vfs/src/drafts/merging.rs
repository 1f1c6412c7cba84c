//! The end of a review: pages of a draft that are in the tree now leave the draft.

use bytes::Bytes;
use parking_lot::MutexGuard;
use svcfs_base::{DraftPage, ETag, Fault, TreePath};
use svcfs_store::DraftWrite;

use super::{DraftView, not_found};

/// A draft that no one else changes while it is merged.
pub struct DraftMerge<'a> {
    view: &'a DraftView<'a>,
    is_open: MutexGuard<'a, bool>,
}

/// A page whose change was accepted, in whole or in part.
#[derive(Debug, Clone)]
pub struct AcceptedPage {
    /// The page.
    pub path: TreePath,
    /// Of a page that was accepted in part: its new base, which has the accepted part.
    pub new_base: Option<Bytes>,
}

impl DraftView<'_> {
    /// Starts a merge; writers of the draft wait until it is dropped.
    ///
    /// # Errors
    /// `NotFound` when the draft was merged or discarded meanwhile.
    pub fn lock_for_merge(&self) -> Result<DraftMerge<'_>, Fault> {
        let is_open = self.draft.is_open.lock();
        if *is_open { Ok(DraftMerge { view: self, is_open }) } else { Err(not_found()) }
    }
}

impl DraftMerge<'_> {
    /// Removes accepted pages from the draft, and the draft when none of its pages remains.
    /// Returns whether it is closed.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn accept(mut self, accepted: Vec<AcceptedPage>) -> Result<bool, Fault> {
        let (core, draft) = (&self.view.vfs.core, &self.view.draft);
        let (mut writes, mut pages): (Vec<DraftWrite>, Vec<(TreePath, Option<DraftPage>)>) = Default::default();
        for AcceptedPage { path, new_base } in accepted {
            let Some(page) = self.view.page(&path) else { continue };
            let based = new_base.map(|base| (DraftPage { base: Some(ETag::from_content(&base)), ..page }, base));
            match based.filter(|(page, _)| page.base != page.etag) {
                Some((page, base)) => {
                    let content = self.view.contents(&path)?.content;
                    let (path_written, page_written) = (path.clone(), page.clone());
                    let base = Some(base);
                    writes.push(DraftWrite::Start { path: path_written, page: page_written, base, content });
                    pages.push((path, Some(page)));
                }
                None => {
                    writes.push(DraftWrite::Drop(path.clone()));
                    pages.push((path, None));
                }
            }
        }
        let is_left = |path: &TreePath| pages.iter().all(|(accepted, page)| accepted != path || page.is_some());
        if !self.view.pages().iter().any(|(path, _)| is_left(path)) {
            self.view.vfs.close_draft(draft, &mut self.is_open)?;
            return Ok(true);
        }
        core.drafts.file.write(draft.draft.id, &writes)?;
        let changed: Vec<TreePath> = pages.iter().map(|(path, _)| path.clone()).collect();
        draft.set_pages(pages);
        self.view.vfs.queue_branch_update(draft, Some(changed), String::new());
        Ok(false)
    }
}
