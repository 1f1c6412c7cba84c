//! Keys of a folder publish nothing from outside it.

use std::sync::Arc;

use svcfs_base::{Caller, Fault, Kind, TreePath};
use svcfs_text::Page;
use svcfs_vfs::{ProposedFile, WriteGate};

use super::Audience;
use crate::kernel::{AttachedSpace, Space};

/// Refuses a published page with an image or another file outside the folder of the caller's key:
/// the files that a published page uses are published with it.
#[derive(Clone, Default)]
pub struct PublishFolderGate {
    /// Finds the files that links mean; not set while the space is being opened.
    space: AttachedSpace,
}

impl PublishFolderGate {
    /// Gives the gate the space whose index it reads.
    pub fn attach(&self, space: &Arc<Space>) {
        self.space.attach(space);
    }
}

impl WriteGate for PublishFolderGate {
    fn check(&self, caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        if caller.permissions.folder.is_none() || !proposal.path.is_page() {
            return Ok(());
        }
        let Some(space) = self.space.get() else { return Ok(()) };
        let text = String::from_utf8_lossy(&proposal.content);
        let page = Page::parse(proposal.path.as_str(), &text);
        if !Audience::Published.admits(&page.frontmatter) {
            return Ok(());
        }
        let links = page.links.iter().map(|link| (link.kind, link.target.as_str()));
        let targets = space.index.resolve_links(&proposal.path, links)?;
        let is_outside = |path: &TreePath| !path.is_page() && !caller.permissions.covers(path);
        match targets.into_iter().flatten().find(is_outside) {
            Some(path) => {
                let message = format!(
                    "`{}` cannot be published by this key: it uses `{path}`, which is outside the folder of the key; \
                     copy the file into the folder",
                    proposal.path
                );
                Err(Fault::new(Kind::Forbidden, message).with_detail("path", path.as_str()))
            }
            None => Ok(()),
        }
    }
}
