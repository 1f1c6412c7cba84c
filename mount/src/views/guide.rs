//! `.svc/VIEWS.txt`: says what is shown below `.svc/` and not listed there.

use bytes::Bytes;
use svcfs_base::{Fault, TreePath};

use super::{MountViews, ViewAttributes, ViewNode, ViewNodeKind};

/// Its name.
pub(crate) const GUIDE: &str = "VIEWS.txt";

const TEXT: &str = "\
Below this directory the mount shows what is on no disk. These folders are not listed, so that a search
through the tree does not come into them; they are there by name, and can only be read.

  .svc/history/PATH/     every version of a page as a file, oldest first
  .svc/at/TIME/          the whole tree as it was: 2026-11-22, 2026-11-22T10:00:00Z (UTC),
                         a commit or its first digits, a branch, a tag
  .svc/search/WORDS/     links to the pages that have these words, best first
  .svc/query/QUERY/      links to the pages that a query lists; a saved view by its name
  .svc/tags/TAG/         links to the pages that have a tag
  .svc/backlinks/PATH/   links to the pages that link to a page
  .svc/lint/PATH         what is wrong with a page: path:line:column: severity: message

  ls .svc/history/notes/plan.md/
  diff .svc/history/notes/plan.md/0001-* notes/plan.md
  cp -r .svc/at/2026-11-22/notes restored
  head -5 '.svc/search/tide AND moon'/*
  ls '.svc/query/LIST FROM #urgent SORT due'
  vim -q .svc/lint/notes/plan.md
";

/// The guide.
pub(super) struct GuideFile;

impl ViewNode for GuideFile {
    fn key(&self) -> Vec<u8> {
        b"guide".to_vec()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::File
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::of(TEXT.len(), &TreePath::root()))
    }

    fn content(&self, _views: &MountViews) -> Result<Bytes, Fault> {
        Ok(Bytes::from_static(TEXT.as_bytes()))
    }
}
