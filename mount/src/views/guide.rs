//! `.svc/VIEWS.txt`: documents the views, which are not listed.

use bytes::Bytes;
use svcfs_base::{Fault, TreePath};

use super::{MountViews, ViewAttributes, ViewNode, ViewNodeKind};

pub(crate) const GUIDE: &str = "VIEWS.txt";

const TEXT: &str = "\
Virtual folders in this directory. They are not listed, so that a search through the tree does not
visit them; open them by name. They are read-only, except that links of a board can be moved and
that drafts are written.

  .svc/history/PATH/     every version of a page as a file, oldest first
  .svc/at/TIME/          the full tree at a time: 2026-11-22, 2026-11-22T10:00:00Z (UTC),
                         a commit or its first digits, a branch, a tag
  .svc/search/WORDS/     links to the pages with these words, best first
  .svc/query/QUERY/      links to the pages that a query lists; or a saved query by name
  .svc/tags/TAG/         links to the pages with a tag
  .svc/backlinks/PATH/   links to the pages that link to a page
  .svc/similar/PATH/     links to the pages of similar meaning that are not linked yet
  .svc/board/WORKFLOW/   links to the pages in each state; mv of a link moves the page, and a
                         refused move has its reason in .refused
  .svc/draft/ID/         the tree as an open draft shows it, writable; nothing reaches the tree
                         before the draft is merged. Drafts are opened with the API
  .svc/lint/PATH         lint findings of a page: path:line:column: severity: message

  ls .svc/history/notes/plan.md/
  diff .svc/history/notes/plan.md/0001-* notes/plan.md
  cp -r .svc/at/2026-11-22/notes restored
  head -5 '.svc/search/tide AND moon'/*
  ls '.svc/query/LIST FROM #urgent SORT due'
  vim -q .svc/lint/notes/plan.md

A folder that does not list everything has a file MORE, which says how to get the rest.
";

pub(super) struct GuideFile;

impl ViewNode for GuideFile {
    fn key(&self) -> Vec<u8> {
        b"guide".to_vec()
    }

    fn node_kind(&self) -> ViewNodeKind {
        ViewNodeKind::File
    }

    fn attributes(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::sized(TEXT.len(), &TreePath::root()))
    }

    fn content(&self, _views: &MountViews) -> Result<Bytes, Fault> {
        Ok(Bytes::from_static(TEXT.as_bytes()))
    }
}
