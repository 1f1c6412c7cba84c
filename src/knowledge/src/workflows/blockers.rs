//! Pages that must be finished before another one: `depends_on` and `blocked_by`.
//!
//! Invariant: a page is finished if its state is a terminal one of its workflow, or if its `status`
//! or `state` says so. A failed page is not finished, whatever its workflow says. A name without a
//! page does not block.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use svcfs_base::{Fault, Kind, Permissions, Protocol, TreePath};
use svcfs_config::LinksConfig;
use svcfs_index::Index;
use svcfs_text::frontmatter;
use svcfs_text::links::{LinkKind, links};
use svcfs_vfs::Vfs;

use super::{WorkflowDefinition, read_definition};

/// Values of `status` or `state` of a finished page.
const FINISHED: [&str; 9] =
    ["done", "complete", "completed", "finished", "closed", "resolved", "cancelled", "canceled", "archived"];

/// The `status` or `state` of a page whose work was given up.
const FAILED: &str = "failed";

/// Limit of the pages that a search for a cycle visits.
const MAX_VISITED: usize = 10_000;

/// Where blockers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageSource {
    Index,
    /// Stored pages, of which the index may not know the newest.
    Tree,
}

/// Resolves the blockers of pages. What was read is used again, so it is made for one request.
pub struct BlockerCheck<'a> {
    vfs: &'a Vfs,
    index: &'a Index,
    source: PageSource,
    definitions: HashMap<String, Option<WorkflowDefinition>>,
    finished: HashMap<TreePath, bool>,
}

impl<'a> BlockerCheck<'a> {
    /// A check of indexed pages, with nothing read yet.
    pub fn new(vfs: &'a Vfs, index: &'a Index) -> Self {
        Self { vfs, index, source: PageSource::Index, definitions: HashMap::new(), finished: HashMap::new() }
    }

    /// A check of pages as they are stored now; names are found in the index.
    pub fn of_stored_pages(vfs: &'a Vfs, index: &'a Index) -> Self {
        Self { source: PageSource::Tree, ..Self::new(vfs, index) }
    }

    /// Records whether a page is finished, so that it is not read.
    pub(super) fn insert(&mut self, path: TreePath, is_finished: bool) {
        self.finished.insert(path, is_finished);
    }

    /// Whether the page with this frontmatter is finished, so that it blocks no other.
    pub fn is_finished(&mut self, frontmatter: &Value) -> bool {
        !has_failed(frontmatter) && self.has_ended(frontmatter)
    }

    /// Whether work on the page with this frontmatter has ended: it is finished, or has failed.
    pub fn has_ended(&mut self, frontmatter: &Value) -> bool {
        let text = |field: &str| frontmatter.get(field).and_then(Value::as_str);
        let (status, state) = (text("status"), text("state"));
        if has_failed(frontmatter) || [status, state].into_iter().flatten().any(says_finished) {
            return true;
        }
        let (Some(workflow), Some(state)) = (text("workflow"), state) else { return false };
        let vfs = self.vfs;
        // An invalid definition has no terminal states; it is reported where it is used.
        let definition =
            self.definitions.entry(workflow.to_owned()).or_insert_with(|| read_definition(vfs, workflow).ok());
        definition.as_ref().and_then(|definition| definition.state(state)).is_some_and(|state| state.terminal)
    }

    /// The pages that must be finished before the page with this frontmatter, and are not.
    ///
    /// # Errors
    /// Those of the index.
    pub fn unfinished(&mut self, from: &TreePath, frontmatter: &Value) -> Result<Vec<TreePath>, Fault> {
        self.unfinished_of(from, &blocker_names(frontmatter))
    }

    /// As [`unfinished`](Self::unfinished), for the names of the blockers of a page.
    ///
    /// # Errors
    /// Those of the index.
    pub fn unfinished_of(&mut self, from: &TreePath, names: &[String]) -> Result<Vec<TreePath>, Fault> {
        let mut unfinished = Vec::new();
        for page in self.resolve_all(from, names)? {
            let is_finished = match self.finished.get(&page) {
                Some(is_finished) => *is_finished,
                None => {
                    let fields = self.frontmatter(&page)?;
                    let is_finished = fields.is_none_or(|fields| self.is_finished(&Value::Object(fields)));
                    self.finished.insert(page.clone(), is_finished);
                    is_finished
                }
            };
            if !is_finished && !unfinished.contains(&page) {
                unfinished.push(page);
            }
        }
        Ok(unfinished)
    }

    /// The pages that the frontmatter of a page names as its blockers.
    fn blockers(&self, from: &TreePath, frontmatter: &Value) -> Result<Vec<TreePath>, Fault> {
        self.resolve_all(from, &blocker_names(frontmatter))
    }

    fn resolve_all(&self, from: &TreePath, names: &[String]) -> Result<Vec<TreePath>, Fault> {
        let mut pages = Vec::new();
        for name in names {
            pages.extend(self.resolve(from, name)?);
        }
        Ok(pages)
    }

    /// The frontmatter of a page; none without a page.
    fn frontmatter(&self, page: &TreePath) -> Result<Option<Map<String, Value>>, Fault> {
        match self.source {
            PageSource::Index => Ok(self.index.page(page)?.map(|row| row.frontmatter)),
            PageSource::Tree => Ok(stored_fields(self.vfs, page)),
        }
    }

    /// The page that a link, path or name in the frontmatter of a page refers to.
    ///
    /// # Errors
    /// Those of the index.
    pub fn resolve(&self, from: &TreePath, text: &str) -> Result<Option<TreePath>, Fault> {
        // Most names are full paths, which come first: no need to ask the index.
        let name = text.trim().trim_start_matches("[[").trim_end_matches("]]");
        if name.contains('/') {
            let paths = [name.to_owned(), format!("{name}.md")];
            let known = paths.iter().filter_map(|path| TreePath::parse(path).ok());
            if let Some(path) = known.into_iter().find(|path| self.finished.contains_key(path)) {
                return Ok(Some(path));
            }
        }
        let target = blocker_target(text);
        if let Some(found) = self.index.resolve(from, &target)? {
            return Ok(Some(found.path).filter(TreePath::is_page));
        }
        // A page that was written just now may not be indexed yet.
        let is_stored = |path: &TreePath| self.vfs.stat(Protocol::Internal, path).is_ok();
        let path = TreePath::parse(&target).ok().filter(|path| path.is_page() && !path.is_root());
        Ok(path.filter(|path| self.source == PageSource::Tree && is_stored(path)))
    }

    /// Refuses a page that waits for itself, also through other pages.
    ///
    /// # Errors
    /// `NotAllowed` with the cycle, of which a key of a folder gets its own pages; those of the
    /// index.
    pub fn check_acyclic(&self, permissions: &Permissions, page: &TreePath, frontmatter: &Value) -> Result<(), Fault> {
        let mut visited: HashMap<TreePath, TreePath> = HashMap::new();
        let mut queue: Vec<TreePath> = Vec::new();
        let mut next = self.blockers(page, frontmatter)?;
        let mut from = page.clone();
        loop {
            for blocker in next {
                if blocker == *page {
                    return Err(cycle_fault(permissions, page, &from, &visited));
                }
                if !visited.contains_key(&blocker) {
                    visited.insert(blocker.clone(), from.clone());
                    queue.push(blocker);
                }
            }
            let Some(visiting) = queue.pop().filter(|_| visited.len() < MAX_VISITED) else { return Ok(()) };
            let frontmatter = self.frontmatter(&visiting)?.map(Value::Object);
            next = frontmatter.map_or_else(|| Ok(Vec::new()), |map| self.blockers(&visiting, &map))?;
            from = visiting;
        }
    }
}

/// Whether a `status` or `state` says by itself that a page is finished.
pub(super) fn says_finished(value: &str) -> bool {
    FINISHED.contains(&value.trim().to_lowercase().as_str())
}

/// Whether the `status` or `state` of a page says that its work was given up.
pub(super) fn says_failed(value: &str) -> bool {
    value.trim().eq_ignore_ascii_case(FAILED)
}

fn has_failed(frontmatter: &Value) -> bool {
    ["status", "state"].iter().filter_map(|field| frontmatter.get(*field)?.as_str()).any(says_failed)
}

/// The frontmatter of a page as it is stored now; none without a page.
pub fn stored_fields(vfs: &Vfs, path: &TreePath) -> Option<Map<String, Value>> {
    let file = vfs.read(Protocol::Internal, path).ok()?;
    Some(frontmatter::parse(std::str::from_utf8(&file.content).ok()?).map)
}

/// The names of the pages that must be finished before a page with this frontmatter.
pub fn blocker_names(frontmatter: &Value) -> Vec<String> {
    LinksConfig::DEPENDENCY_FIELDS.iter().filter_map(|field| frontmatter.get(*field)).flat_map(strings).collect()
}

/// The target of a link, path or name in the frontmatter of a page.
pub fn blocker_target(text: &str) -> String {
    match links(text).into_iter().next() {
        Some(link) if link.kind == LinkKind::Wiki => link.target,
        Some(link) => format!("./{}", link.target),
        None => text.trim().to_owned(),
    }
}

/// All strings in a value: an unquoted `depends_on: [[a]]` is a list in a list.
pub fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

fn cycle_fault(
    permissions: &Permissions,
    page: &TreePath,
    last: &TreePath,
    visited: &HashMap<TreePath, TreePath>,
) -> Fault {
    let shown = |path: &TreePath| if permissions.covers(path) { path.to_string() } else { "…".to_owned() };
    let mut cycle = vec![page.to_string()];
    let (mut at, mut seen) = (last, HashSet::new());
    while at != page && seen.insert(at) {
        cycle.push(shown(at));
        match visited.get(at) {
            Some(previous) => at = previous,
            None => break,
        }
    }
    cycle.push(page.to_string());
    cycle.reverse();
    let message = format!(
        "`{page}` would wait for itself: {}; remove one of these from `blocked_by` or `depends_on`",
        cycle.join(" ← ")
    );
    Fault::new(Kind::NotAllowed, message).with_detail("cycle", cycle)
}
