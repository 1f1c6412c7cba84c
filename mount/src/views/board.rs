//! `.svc/board/<workflow>/<state>/`: links to the pages in a state. Moving a link to another state
//! moves the page.
//!
//! Invariant: a move is the operation `workflow_advance`, with the same checks. A refused one is
//! EPERM; the reason is the newest line of [`REFUSED_FILE`], and `user.svc.lint` of the page.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use fuser::{Errno, INodeNo};
use parking_lot::Mutex;
use svcfs_base::{Caller, ETag, Fault, Kind, PathComponent, Seq, TreePath};

use super::links::PageLink;
use super::reader::ReaderRights;
use super::recent_cache::RecentCache;
use super::{MountViews, ViewAttributes, ViewEntry, ViewNode, ViewNodeKind, ViewNodeRef, ViewReader};
use crate::reply::RequestFailure;

/// File of a workflow with the refused moves.
const REFUSED_FILE: &str = ".refused";

/// Limit of the lines of [`REFUSED_FILE`].
const MAX_REFUSED: usize = 100;

/// Hexadecimal digits that tell pages with the same name apart.
const HASH_DIGITS: usize = 8;

/// Limit of the stem of a name with such digits: a name has at most 255 bytes.
const MAX_STEM_BYTES: usize = 200;

/// A board, changed at `seq`, for readers with the same rights.
type BoardKey = (String, Option<Arc<ReaderRights>>, Seq);

/// The boards of a mount.
#[derive(Default)]
pub(super) struct Boards {
    recent: RecentCache<BoardKey, Vec<NamedColumn>>,
    refused: Mutex<HashMap<String, VecDeque<RefusedMove>>>,
}

/// A state with the names of its links.
struct NamedColumn {
    state: String,
    pages: HashMap<String, TreePath>,
}

#[derive(Clone)]
struct RefusedMove {
    page: TreePath,
    line: String,
}

/// `.svc/board`, with a folder for each workflow.
pub(super) struct BoardRoot;

impl ViewNode for BoardRoot {
    fn key(&self) -> Vec<u8> {
        b"board".to_vec()
    }

    fn is_user_independent(&self) -> bool {
        false
    }

    fn lookup(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        let is_workflow =
            views.knowledge()?.workflows(&reader.caller)?.iter().any(|workflow| workflow == name.as_str());
        let folder = || Arc::new(WorkflowFolder(name.as_str().to_owned())) as ViewNodeRef;
        Ok(is_workflow.then(folder))
    }

    fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let workflows = views.knowledge()?.workflows(&reader.caller)?;
        let entry = |name: String| ViewEntry { node: Arc::new(WorkflowFolder(name.clone())), name };
        Ok(workflows.into_iter().map(entry).collect())
    }
}

/// A workflow, with a folder for each state.
struct WorkflowFolder(String);

impl ViewNode for WorkflowFolder {
    fn key(&self) -> Vec<u8> {
        format!("board {}", self.0).into_bytes()
    }

    fn is_user_independent(&self) -> bool {
        false
    }

    fn lookup(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        if name.as_str() == REFUSED_FILE {
            return Ok(Some(Arc::new(RefusedFile::read(views, reader, &self.0)?)));
        }
        let columns = views.board(reader, &self.0)?;
        let is_state = columns.iter().any(|column| column.state == name.as_str());
        Ok(is_state.then(|| Arc::new(StateFolder::new(&self.0, name.as_str())) as ViewNodeRef))
    }

    fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let columns = views.board(reader, &self.0)?;
        let states = columns.iter().map(|NamedColumn { state, .. }| ViewEntry {
            name: state.clone(),
            node: Arc::new(StateFolder::new(&self.0, state)),
        });
        let refused: ViewNodeRef = Arc::new(RefusedFile::read(views, reader, &self.0)?);
        Ok(states.chain([ViewEntry { name: REFUSED_FILE.to_owned(), node: refused }]).collect())
    }
}

/// A state, with a link for each page.
struct StateFolder {
    workflow: String,
    state: String,
}

impl StateFolder {
    fn new(workflow: &str, state: &str) -> Self {
        Self { workflow: workflow.to_owned(), state: state.to_owned() }
    }

    /// The link to a page, from three levels below `.svc/`.
    fn link(page: &TreePath) -> ViewNodeRef {
        Arc::new(PageLink { target: format!("../../../../{page}"), page: page.clone() })
    }

    /// The page of a link.
    fn page(&self, views: &MountViews, reader: &ViewReader, name: &str) -> Result<Option<TreePath>, Fault> {
        let columns = views.board(reader, &self.workflow)?;
        let column = columns.iter().find(|column| column.state == self.state);
        Ok(column.and_then(|column| column.pages.get(name)).cloned())
    }
}

impl ViewNode for StateFolder {
    fn key(&self) -> Vec<u8> {
        format!("board {}/{}", self.workflow, self.state).into_bytes()
    }

    fn is_user_independent(&self) -> bool {
        false
    }

    fn lookup(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        Ok(self.page(views, reader, name.as_str())?.map(|page| Self::link(&page)))
    }

    fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let columns = views.board(reader, &self.workflow)?;
        let column = columns.iter().find(|column| column.state == self.state);
        let pages = column.into_iter().flat_map(|column| &column.pages);
        let mut entries: Vec<ViewEntry> =
            pages.map(|(name, page)| ViewEntry { name: name.clone(), node: Self::link(page) }).collect();
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn move_entry(
        &self,
        views: &MountViews,
        (reader, author): (&ViewReader, &Caller),
        name: &PathComponent,
        (target, new_name): (&[u8], &PathComponent),
    ) -> Result<(), RequestFailure> {
        let page = self.page(views, reader, name.as_str())?.ok_or(RequestFailure::Errno(Errno::ENOENT))?;
        let columns = views.board(reader, &self.workflow)?;
        let state = columns.iter().find(|column| Self::new(&self.workflow, &column.state).key() == target);
        let refusal = match state {
            None => Fault::new(Kind::NotAllowed, "a link can be moved to another state of its workflow only"),
            Some(_) if name != new_name => {
                Fault::new(Kind::NotAllowed, "a link keeps its name; rename the page instead")
            }
            Some(_) if !reader.access(&views.vfs).can_write(&page)? => {
                return Err(RequestFailure::Errno(Errno::EACCES));
            }
            Some(column) => match views.knowledge()?.advance(author, &page, &column.state) {
                Ok(()) => return Ok(()),
                // The server failed, or cannot answer now.
                Err(fault) if fault.kind().http() >= 500 => return Err(fault.into()),
                Err(fault) => fault,
            },
        };
        let target = state.map_or_else(|| String::from_utf8_lossy(target).into_owned(), |column| column.state.clone());
        let reason = refusal.message().replace('\n', " ");
        let line = format!("{} {} {page} {} -> {target}: {reason}\n", views.clock.now(), author.actor(), self.state);
        views.boards.record_refused(&self.workflow, RefusedMove { page: page.clone(), line });
        views.vfs.note_refusal(&page, &reason);
        Err(RequestFailure::Errno(Errno::EPERM))
    }
}

impl Boards {
    fn record_refused(&self, workflow: &str, refused: RefusedMove) {
        let mut all = self.refused.lock();
        let moves = all.entry(workflow.to_owned()).or_default();
        if moves.len() == MAX_REFUSED {
            moves.pop_front();
        }
        moves.push_back(refused);
    }
}

/// The refused moves of pages that the reader may read, newest last. Other lines are another inode,
/// so that cached content stays valid.
struct RefusedFile {
    workflow: String,
    text: String,
}

impl RefusedFile {
    fn read(views: &MountViews, reader: &ViewReader, workflow: &str) -> Result<Self, Fault> {
        let moves = views.boards.refused.lock().get(workflow).cloned().unwrap_or_default();
        let (mut access, mut text) = (reader.access(&views.vfs), String::new());
        for RefusedMove { page, line } in moves {
            if access.can_read(&page)? {
                text.push_str(&line);
            }
        }
        Ok(Self { workflow: workflow.to_owned(), text })
    }
}

impl ViewNode for RefusedFile {
    fn key(&self) -> Vec<u8> {
        format!("refused {}\0{}", self.workflow, self.text).into_bytes()
    }

    fn node_kind(&self) -> ViewNodeKind {
        ViewNodeKind::File
    }

    fn attributes(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::sized(self.text.len(), &TreePath::root()))
    }

    fn content(&self, _views: &MountViews) -> Result<Bytes, Fault> {
        Ok(Bytes::copy_from_slice(self.text.as_bytes()))
    }
}

impl MountViews {
    /// The board of a workflow, with the pages that the reader may read.
    fn board(&self, reader: &ViewReader, workflow: &str) -> Result<Arc<Vec<NamedColumn>>, Fault> {
        // Read before the board: a later change makes another key.
        let key = (workflow.to_owned(), reader.rights(), self.vfs.last_seq());
        if let Some(columns) = self.boards.recent.get(&key) {
            return Ok(columns);
        }
        let columns = self.knowledge()?.board(&reader.caller, workflow)?;
        let mut access = reader.access(&self.vfs);
        let names = LinkNames::of(columns.iter().flat_map(|(_, pages)| pages));
        let mut named = Vec::with_capacity(columns.len());
        for (state, pages) in columns {
            let mut column = NamedColumn { state, pages: HashMap::with_capacity(pages.len()) };
            for page in pages {
                if access.can_read(&page)? {
                    column.pages.insert(names.name(&page), page);
                }
            }
            named.push(column);
        }
        Ok(self.boards.recent.insert(key, named))
    }

    /// Moves an entry of a view folder.
    ///
    /// # Errors
    /// `EROFS` if the folder's entries cannot be moved; those of the move.
    pub(crate) fn move_entry(
        &self,
        (reader, author): (&ViewReader, &Caller),
        (folder, name): (INodeNo, &PathComponent),
        (new_folder, new_name): (INodeNo, &PathComponent),
    ) -> Result<(), RequestFailure> {
        let target = self.table.get(new_folder)?.key();
        self.table.get(folder)?.move_entry(self, (reader, author), name, (&target, new_name))
    }
}

/// Names of links: the names of the pages, and for those that several pages have, a hash of the
/// path in addition. A page has the same name in every state.
struct LinkNames {
    ambiguous: HashSet<String>,
}

impl LinkNames {
    fn of<'p>(pages: impl Iterator<Item = &'p TreePath>) -> Self {
        let (mut seen, mut ambiguous) = (HashSet::new(), HashSet::new());
        for page in pages {
            if !seen.insert(page.name()) {
                ambiguous.insert(page.name().to_owned());
            }
        }
        Self { ambiguous }
    }

    fn name(&self, page: &TreePath) -> String {
        let name = page.name();
        if !self.ambiguous.contains(name) {
            return name.to_owned();
        }
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let stem = &stem[..stem.floor_char_boundary(MAX_STEM_BYTES)];
        let hash = ETag::from_content(page.as_str().as_bytes()).to_string();
        format!("{stem}~{}.{extension}", &hash[..HASH_DIGITS.min(hash.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_one_name_have_links_of_different_names() {
        let long = format!("c/{}.md", "x".repeat(250));
        let other = format!("d/{}.md", "x".repeat(250));
        let pages: Vec<TreePath> =
            ["a/x.md", "b/x.md", "a/y.md", &long, &other].iter().map(|path| TreePath::parse(path).unwrap()).collect();
        let names = LinkNames::of(pages.iter());
        let named: Vec<String> = pages.iter().map(|page| names.name(page)).collect();
        assert_eq!(named[2], "y.md");
        assert!(named[0].starts_with("x~") && named[0].ends_with(".md") && named[0].len() == 13, "{}", named[0]);
        assert_eq!(named.iter().collect::<HashSet<_>>().len(), 5);
        assert!(named.iter().all(|name| PathComponent::parse(name).is_ok()));
    }
}
