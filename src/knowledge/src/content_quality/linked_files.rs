//! Which link targets that the index does not have exist: folders, hidden and ignored files.
//!
//! Invariant: a result is cached until the change feed names its path or a path below it. Empty
//! directories are not in the feed: a new or removed one is noticed at the next full survey.

use std::collections::HashMap;

use svcfs_base::{Fault, Kind, Protocol, Seq, TreePath};
use svcfs_vfs::{EntryKind, Vfs};

use super::findings::{FindingKind, FindingSeverity};

/// Limit of changes that are applied one by one; with more, the cache is dropped.
const MAX_EVENTS: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathPresence {
    Absent,
    File,
    Directory,
}

/// Cache of what exists at link targets, as of one position of the feed.
pub struct LinkedFiles {
    at: Seq,
    cached: HashMap<TreePath, PathPresence>,
}

impl LinkedFiles {
    /// An empty cache.
    pub fn new(vfs: &Vfs) -> Self {
        Self { at: vfs.feed().last_seq(), cached: HashMap::new() }
    }

    /// Drops the entries that changes since the cached position affect.
    pub fn catch_up(&mut self, vfs: &Vfs) -> Result<(), Fault> {
        let last = vfs.feed().last_seq();
        if last == self.at {
            return Ok(());
        }
        if self.cached.is_empty() || last < self.at || last.0 - self.at.0 > MAX_EVENTS as u64 {
            *self = Self { at: last, cached: HashMap::new() };
            return Ok(());
        }
        for event in vfs.feed().events_after(self.at, MAX_EVENTS)? {
            for change in &event.changes {
                let mut at_or_above = Some(change.path.clone());
                while let Some(path) = at_or_above {
                    self.cached.remove(&path);
                    at_or_above = path.parent();
                }
            }
        }
        self.at = last;
        Ok(())
    }

    /// Whether a link has a target. A markdown link may point to a directory, a wiki link may not.
    pub fn has(&mut self, vfs: &Vfs, path: &TreePath, is_wiki: bool) -> Result<bool, Fault> {
        if is_target(self.presence(vfs, path)?, is_wiki) {
            return Ok(true);
        }
        for source in sources(path) {
            if self.presence(vfs, &source)? == PathPresence::File {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn presence(&mut self, vfs: &Vfs, path: &TreePath) -> Result<PathPresence, Fault> {
        let presence = match self.cached.get(path) {
            Some(presence) => *presence,
            None => {
                let presence = presence(vfs, path)?;
                self.cached.insert(path.clone(), presence);
                presence
            }
        };
        Ok(presence)
    }
}

/// As [`LinkedFiles::has`], without a cache.
pub fn is_link_to_file(vfs: &Vfs, path: &TreePath, is_wiki: bool) -> Result<bool, Fault> {
    if is_target(presence(vfs, path)?, is_wiki) {
        return Ok(true);
    }
    for source in sources(path) {
        if presence(vfs, &source)? == PathPresence::File {
            return Ok(true);
        }
    }
    Ok(false)
}

const HTML: &str = ".html";

/// The pages of which generators such as mdBook make an HTML page: `x.md` for `x.html`, and
/// `README.md` for `index.html`.
fn sources(path: &TreePath) -> impl Iterator<Item = TreePath> {
    let stem = path.as_str().strip_suffix(HTML);
    let readme =
        stem.and_then(|stem| stem.strip_suffix("index")).filter(|above| above.is_empty() || above.ends_with('/'));
    let sources = [stem.map(|stem| format!("{stem}.md")), readme.map(|above| format!("{above}README.md"))];
    sources.into_iter().flatten().filter_map(|source| TreePath::parse(&source).ok())
}

/// Whether a broken link is to an HTML page, which a generator may put beside the pages.
pub(super) fn is_generated_page(target: &str) -> bool {
    target.split(['#', '?']).next().is_some_and(|path| path.ends_with(HTML))
}

/// The severity of a broken link.
pub(super) fn severity(target: &str) -> FindingSeverity {
    if is_generated_page(target) { FindingSeverity::Warning } else { FindingKind::BrokenLink.severity() }
}

const fn is_target(presence: PathPresence, is_wiki: bool) -> bool {
    match presence {
        PathPresence::Absent => false,
        PathPresence::File => true,
        PathPresence::Directory => !is_wiki,
    }
}

fn presence(vfs: &Vfs, path: &TreePath) -> Result<PathPresence, Fault> {
    match vfs.stat(Protocol::Internal, path) {
        Ok(attributes) if attributes.kind == EntryKind::Directory => Ok(PathPresence::Directory),
        Ok(_) => Ok(PathPresence::File),
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(PathPresence::Absent),
        Err(fault) => Err(fault),
    }
}
