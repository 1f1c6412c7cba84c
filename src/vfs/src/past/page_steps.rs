//! The changes of pages, followed through renames, for undo; and the trash.
//!
//! Invariant: a page is followed from its first change on, whatever its name is, also over its
//! removal to the next page of that name. So a change can be undone where the page is now.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use svcfs_base::{Actor, ETag, Fault, FileKind, Seq, Timestamp, TreePath, VersionId};
use svcfs_store::{FileCreation, HistorySet, LogEntry, NamePeriod, RemovedPath, VersionStore};

use crate::{FeedEvent, Vfs};

/// New files of a set that are compared with its removed files by similarity; in a set with more of
/// them, renamed files are recognized by equal content only.
const MAX_COMPARED_FILES: usize = 64;

/// Versions before a removal in which the removed content is searched.
const MAX_SEARCHED_VERSIONS: usize = 16;

/// The author, time and id of a set.
#[derive(Debug, Clone)]
pub struct SetOrigin {
    /// Its position in the log.
    pub seq: Seq,
    /// Its id.
    pub id: VersionId,
    /// The author.
    pub actor: Actor,
    /// When it was accepted.
    pub time: Timestamp,
}

/// A page before or after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageState {
    /// Its path.
    pub path: TreePath,
    /// The hash of its content; none if it does not exist.
    pub content: Option<ETag>,
}

/// One change of a page.
#[derive(Debug, Clone)]
pub struct PageStep {
    /// The index of its set in [`PageSteps::sets`].
    pub set: usize,
    /// The page before.
    pub before: PageState,
    /// The page after.
    pub after: PageState,
    /// The kind of file after; before, if it was removed.
    pub kind: FileKind,
}

/// The changes of one page.
#[derive(Debug, Clone, Default)]
pub struct PageTrail {
    /// The changes, oldest first.
    pub steps: Vec<PageStep>,
    /// Whether another page has its last path since.
    pub is_replaced: bool,
}

/// The changes of all pages since a set.
#[derive(Debug, Clone, Default)]
pub struct PageSteps {
    /// The sets, oldest first.
    pub sets: Vec<SetOrigin>,
    /// The pages, in the order of their first change.
    pub pages: Vec<PageTrail>,
}

/// A removed file whose content is stored.
#[derive(Debug, Clone)]
pub struct RemovedFile {
    /// Its path.
    pub path: TreePath,
    /// Its newest version before the removal.
    pub version: VersionId,
    /// Who removed it.
    pub removed_by: Actor,
    /// When, to the second.
    pub removed_at: Timestamp,
    /// Length of its content in bytes.
    pub size: u64,
}

impl Vfs {
    /// The position of a set by its id: a commit hash or its prefix, or a timestamp.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn find_set(&self, id: &str) -> Result<Option<Seq>, Fault> {
        self.wait_committed()?;
        Ok(self.core.log.find_seq(id)?)
    }

    /// The position of the first set by this actor (or any) since a time.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn first_set(&self, actor: Option<&Actor>, since: Option<Timestamp>) -> Result<Option<Seq>, Fault> {
        self.wait_committed()?;
        Ok(self.core.log.first_set(actor, since)?)
    }

    /// The changes of all pages in the sets from a position on.
    ///
    /// # Errors
    /// `Internal` when log or git cannot be read.
    pub fn page_steps(&self, first: Seq) -> Result<PageSteps, Fault> {
        self.wait_committed()?;
        let mut steps = PageSteps::default();
        let mut pages: HashMap<TreePath, usize> = HashMap::new();
        for set in self.core.log.sets_from(first)? {
            let mut renames = self.renames_of(&set)?;
            let HistorySet { seq, id, actor, time, changes, .. } = set;
            let index = steps.sets.len();
            steps.sets.push(SetOrigin { seq, id, actor, time });
            // Removals first: a name may pass from one page to another in a set.
            let (removals, others): (Vec<_>, Vec<_>) = changes.into_iter().partition(|entry| entry.new.is_none());
            let renamed: HashSet<TreePath> = renames.values().cloned().collect();
            let mut moved: HashMap<TreePath, (usize, Option<ETag>)> = HashMap::new();
            for entry in removals {
                let page = pages.remove(&entry.path).unwrap_or_else(|| steps.add_page());
                if renamed.contains(&entry.path) {
                    moved.insert(entry.path, (page, entry.old));
                } else {
                    pages.insert(entry.path.clone(), page);
                    steps.add_step(page, (index, entry.path.clone()), entry);
                }
            }
            for entry in others {
                let origin = renames.remove(&entry.path).and_then(|from| Some((moved.remove(&from)?, from)));
                let Some(((page, old), from)) = origin else {
                    let page = *pages.entry(entry.path.clone()).or_insert_with(|| steps.add_page());
                    steps.add_step(page, (index, entry.path.clone()), entry);
                    continue;
                };
                if let Some(replaced) = pages.insert(entry.path.clone(), page) {
                    steps.pages[replaced].is_replaced = true;
                }
                steps.add_step(page, (index, from), LogEntry { old, ..entry });
            }
        }
        Ok(steps)
    }

    /// The paths that an event removed and that `is_followed`, with their new names; a removed file
    /// has none. Costs nothing for events without such paths.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn relocations(
        &self,
        event: &FeedEvent,
        is_followed: impl Fn(&TreePath) -> bool,
    ) -> Result<Vec<(TreePath, Option<TreePath>)>, Fault> {
        let removed = event.changes.iter().filter(|change| change.new.is_none()).map(|change| &change.path);
        let mut relocations: Vec<_> =
            removed.filter(|path| is_followed(path)).map(|path| (path.clone(), None)).collect();
        if !relocations.is_empty()
            && let Some(set) = self.core.log.set_at(event.seq)?
        {
            let renames = self.renames_of(&set)?;
            let mut new_names: HashMap<_, _> = renames.into_iter().map(|(to, from)| (from, to)).collect();
            relocations.iter_mut().for_each(|(path, to)| *to = new_names.remove(path));
        }
        Ok(relocations)
    }

    /// The renamed files of a set: new names with the former ones.
    fn renames_of(&self, set: &HistorySet) -> Result<HashMap<TreePath, TreePath>, Fault> {
        let mut removed: Vec<&LogEntry> = set.changes.iter().filter(|entry| entry.new.is_none()).collect();
        let mut created: Vec<&LogEntry> = set.changes.iter().filter(|entry| entry.old.is_none()).collect();
        created.retain(|entry| entry.new.is_some());
        let mut renames = HashMap::new();
        if removed.is_empty() || created.is_empty() {
            return Ok(renames);
        }
        let mut by_path: HashMap<TreePath, ETag> =
            removed.drain(..).filter_map(|entry| Some((entry.path.clone(), entry.old?))).collect();
        created.retain(|entry| {
            let former = set.moves.iter().rev().find_map(|(from, to)| entry.path.rebase(to, from));
            let Some(former) = former.filter(|former| by_path.remove(former).is_some()) else { return true };
            renames.insert(entry.path.clone(), former);
            false
        });
        let mut by_content: HashMap<ETag, Vec<TreePath>> = HashMap::new();
        for (path, content) in &by_path {
            by_content.entry(*content).or_default().push(path.clone());
        }
        by_content.values_mut().for_each(|paths| paths.sort());
        created.retain(|entry| {
            let Some(paths) = entry.new.and_then(|content| by_content.get_mut(&content)) else { return true };
            let same_name = paths.iter().position(|path| path.name() == entry.path.name());
            let Some(at) = same_name.or_else(|| (!paths.is_empty()).then_some(0)) else { return true };
            let former = paths.remove(at);
            by_path.remove(&former);
            renames.insert(entry.path.clone(), former);
            false
        });
        if created.len() > MAX_COMPARED_FILES {
            return Ok(renames);
        }
        for entry in created {
            let Some(content) = entry.new.filter(|_| !by_path.is_empty()) else { continue };
            let origin = self.origin(&entry.path, FileCreation { seq: set.seq, content })?;
            if let Some((former, _)) = origin.filter(|(former, _)| by_path.remove(former).is_some()) {
                renames.insert(entry.path.clone(), former);
            }
        }
        Ok(renames)
    }

    /// The content that a path had, by its hash; none if it is not stored.
    ///
    /// # Errors
    /// `Internal` when log or history cannot be read.
    pub fn recorded_content(&self, path: &TreePath, etag: ETag) -> Result<Option<Bytes>, Fault> {
        if let VersionStore::Git { history, .. } = &self.core.versions
            && !self.core.versions.is_converted(path)
            && let Some(content) = history.read_blob(etag)?
        {
            return Ok(Some(content));
        }
        self.content_of_etag(&[NamePeriod::always(path.clone())], etag)
    }

    /// The kind of the file at a path after the set at a position; none without a file.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn recorded_kind(&self, path: &TreePath, at: Seq) -> Result<Option<FileKind>, Fault> {
        Ok(self.core.log.kind_at(path, at)?)
    }

    /// The removed files whose content is stored, newest removal first: at most `limit` after the
    /// first `skip` of those that `may_read` allows, and their total number. A renamed file is not
    /// removed.
    ///
    /// # Errors
    /// `Internal` when log or history cannot be read.
    pub fn removed_files(
        &self,
        may_read: impl Fn(&TreePath) -> bool,
        skip: usize,
        limit: usize,
    ) -> Result<(Vec<RemovedFile>, usize), Fault> {
        self.wait_committed()?;
        if matches!(self.core.versions, VersionStore::LogOnly { .. }) {
            return Ok((Vec::new(), 0));
        }
        let mut renamed_by_set: HashMap<Seq, HashSet<TreePath>> = HashMap::new();
        let mut removals = Vec::new();
        for removal in self.core.log.removed_paths()? {
            if !may_read(&removal.path) || !self.is_versioned(&removal.path) {
                continue;
            }
            let renamed = match renamed_by_set.entry(removal.seq) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let set = self.core.log.set_at(removal.seq)?;
                    let renames = set.map(|set| self.renames_of(&set)).transpose()?.unwrap_or_default();
                    unknown.insert(renames.into_values().collect())
                }
            };
            if !renamed.contains(&removal.path) {
                removals.push(removal);
            }
        }
        let total = removals.len();
        let page = removals.into_iter().skip(skip).take(limit).map(|removal| self.removed_file(removal));
        let files: Vec<Option<RemovedFile>> = page.collect::<Result<_, _>>()?;
        Ok((files.into_iter().flatten().collect(), total))
    }

    /// None when the content is no longer stored.
    fn removed_file(&self, removal: RemovedPath) -> Result<Option<RemovedFile>, Fault> {
        let RemovedPath { seq, path, content, actor, time } = removal;
        let versions = self.core.log.versions(&path, seq, MAX_SEARCHED_VERSIONS)?;
        let newest = versions.iter().find(|version| version.new == Some(content));
        let Some(newest) = newest.or_else(|| versions.iter().find(|version| version.new.is_some())) else {
            return Ok(None);
        };
        let Some(stored) = self.content_finder(&path)?(newest) else { return Ok(None) };
        match self.stored_size(&stored) {
            Ok(size) => Ok(Some(RemovedFile { path, version: newest.id, removed_by: actor, removed_at: time, size })),
            Err(fault) if fault.kind() == svcfs_base::Kind::NotFound => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

impl PageSteps {
    fn add_page(&mut self) -> usize {
        self.pages.push(PageTrail::default());
        self.pages.len() - 1
    }

    /// Adds a change to a page that had the path `from` before it.
    fn add_step(&mut self, page: usize, (set, from): (usize, TreePath), entry: LogEntry) {
        let LogEntry { path, old, new, kind, .. } = entry;
        let (before, after) = (PageState { path: from, content: old }, PageState { path, content: new });
        self.pages[page].steps.push(PageStep { set, before, after, kind });
    }
}
