//! In-memory columns of the log's rows, for counts and selections over the whole history.
//!
//! Invariant: rows do not change, except when a branch is left; then the columns are rebuilt.
//! Otherwise new rows are appended at the next query. A change takes four bytes, a set 24, a path
//! twice its name: 100,000 commits on 10,000 pages take about 4 MB. In SQL, joining 100,000 rows
//! takes 60 ms per query, and every write would pay for an index per kind of query. Nothing is read
//! before the first query.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use parking_lot::RwLockWriteGuard;
use rusqlite::{Connection, params};
use svcfs_base::{Actor, HiddenFiles, Seq, Timestamp, TreePath};

use super::kinds::in_history;
use super::{Log, LogResult, NamePeriod, rows};

const SECONDS_A_DAY: i64 = 86_400;

/// Selects changes of the log. Changes below `.svc` are never selected.
#[derive(Debug, Clone, Default)]
pub struct ChangeFilter {
    /// Only changes by this name.
    pub actor: Option<Actor>,
    /// Only removals, or only other changes.
    pub is_removal: Option<bool>,
    /// Only changes at or below one of these names; of all paths if empty.
    pub below: Vec<NamePeriod>,
    /// Only files that are not hidden, apart from these exceptions.
    pub hidden_files: Option<HiddenFiles>,
}

/// A change of a path, selected by a [`ChangeFilter`].
#[derive(Debug, Clone)]
pub struct PathOccurrence {
    /// The position of its set in the log.
    pub seq: Seq,
    /// The path.
    pub path: TreePath,
    /// Whether it removed the path.
    pub is_removal: bool,
}

/// The changes in a period.
#[derive(Debug, Clone, Default)]
pub struct TotalActivity {
    /// Changes of all pages.
    pub changes: u64,
    /// Every page that was ever recorded, in path order.
    pub pages: Vec<PageActivity>,
    /// Changes of pages by day and name, oldest first.
    pub days: Vec<DayActivity>,
}

/// The changes of one page in a period.
#[derive(Debug, Clone)]
pub struct PageActivity {
    /// The page.
    pub path: TreePath,
    /// Number of changes in the period.
    pub changes: u32,
    /// Whether all changes in the period have the same author; false without changes.
    pub has_single_author: bool,
    /// The time of the last change, also outside the period.
    pub newest: Timestamp,
    /// Whether the page exists: its last change is no removal.
    pub is_there: bool,
}

/// The changes of one author on one day.
#[derive(Debug, Clone)]
pub struct DayActivity {
    /// Start of the day (midnight UTC).
    pub day: Timestamp,
    /// The author.
    pub actor: Actor,
    /// Number of changes of pages.
    pub changes: u32,
}

/// The columns.
#[derive(Debug, Default)]
pub(super) struct HistoryStats {
    read: Seq,
    sets: Vec<StatsSet>,
    /// Path number in the upper bits; the lowest bit marks a removal.
    changes: Vec<u32>,
    paths: NameTable<TreePath>,
    actors: NameTable<Actor>,
    /// By path number: its last change.
    latest: Vec<LatestChange>,
}

#[derive(Debug)]
struct StatsSet {
    seq: Seq,
    second: i64,
    actor: u32,
    /// Index after its last change.
    end: u32,
}

#[derive(Debug, Clone, Copy)]
struct LatestChange {
    second: i64,
    exists: bool,
}

/// Names and their numbers, in order of first appearance.
#[derive(Debug)]
struct NameTable<T> {
    numbers: BTreeMap<T, u32>,
    names: Vec<T>,
}

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), names: Vec::new() }
    }
}

impl<T: Ord + Clone> NameTable<T> {
    fn number(&mut self, name: T) -> u32 {
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }
}

impl Log {
    /// The changes selected by a filter, newest first: at most `max` after the first `skip`, and
    /// their total number.
    pub fn select_changes(
        &self,
        filter: &ChangeFilter,
        skip: usize,
        max: usize,
    ) -> LogResult<(Vec<PathOccurrence>, usize)> {
        self.with_stats(|stats| stats.select(filter, skip, max))
    }

    /// The changes since a time, optionally at or below a path; only pages, without hidden ones
    /// that are no exceptions.
    pub fn activity(
        &self,
        since: Timestamp,
        below: Option<&TreePath>,
        hidden_files: &HiddenFiles,
    ) -> LogResult<TotalActivity> {
        self.with_stats(|stats| stats.activity(since.as_second(), below, hidden_files))
    }

    /// The actors of all changes, each once, in the order of their first change.
    pub fn actors(&self) -> LogResult<Vec<Actor>> {
        self.with_stats(|stats| stats.actors.names.clone())
    }

    fn with_stats<T>(&self, query: impl FnOnce(&HistoryStats) -> T) -> LogResult<T> {
        let last = self.last_seq();
        let stats = self.stats.read();
        if last <= stats.read {
            return Ok(query(&stats));
        }
        drop(stats);
        let mut stats = self.stats.write();
        if let Err(error) = self.with_reader(|connection| Ok(stats.append_rows(connection, last)?)) {
            // A half-read set must not be counted: the next query starts again.
            *stats = HistoryStats::default();
            return Err(error);
        }
        // Downgraded without a gap: another thread could reset the columns.
        Ok(query(&RwLockWriteGuard::downgrade(stats)))
    }
}

impl HistoryStats {
    /// Reads new rows, at least up to `last`.
    fn append_rows(&mut self, connection: &Connection, last: Seq) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(concat!(
            "SELECT s.seq, s.time, s.actor, c.path, c.new IS NULL FROM sets s JOIN changes c ON c.seq = s.seq
             WHERE s.seq > ?1 AND ",
            in_history!(),
            " ORDER BY s.seq, c.ordinal"
        ))?;
        let mut rows_iter = statement.query(params![rows::number(self.read)])?;
        while let Some(row) = rows_iter.next()? {
            let seq = rows::seq(row.get(0)?);
            let second = rows::commit_time(row, 1)?.as_second();
            if self.sets.last().is_none_or(|set| set.seq != seq) {
                let actor = self.actors.number(Actor::new(row.get_ref(2)?.as_str()?));
                self.sets.push(StatsSet { seq, second, actor, end: self.sets.last().map_or(0, |set| set.end) });
            }
            let path = self.paths.number(rows::path(row, 3)?);
            let is_removal: bool = row.get(4)?;
            let latest = LatestChange { second, exists: !is_removal };
            match self.latest.get_mut(path as usize) {
                Some(existing) => *existing = latest,
                None => self.latest.push(latest),
            }
            self.changes.push(path << 1 | u32::from(is_removal));
            if let Some(set) = self.sets.last_mut() {
                set.end = u32::try_from(self.changes.len()).unwrap_or(u32::MAX);
            }
        }
        self.read = self.sets.last().map_or(last, |set| set.seq.max(last));
        Ok(())
    }

    fn changes_of(&self, at: usize) -> Range<usize> {
        let start = at.checked_sub(1).map_or(0, |before| self.sets[before].end);
        start as usize..self.sets[at].end as usize
    }

    /// By path number: whether a path matches a condition, and is at or below `below` if given.
    fn select_paths(&self, below: Option<&TreePath>, matches: impl Fn(&TreePath) -> bool) -> Vec<bool> {
        let mut selected = vec![false; self.paths.names.len()];
        let mut select_path = |path: &TreePath, number: u32| selected[number as usize] = matches(path);
        match below.filter(|below| !below.is_root()) {
            None => self.paths.numbers.iter().for_each(|(path, number)| select_path(path, *number)),
            Some(below) => {
                let from = self.paths.numbers.range(below..);
                from.take_while(|(path, _)| path.as_str().starts_with(below.as_str()))
                    .filter(|(path, _)| path.is_under(below))
                    .for_each(|(path, number)| select_path(path, *number));
            }
        }
        selected
    }

    /// By path number: whether a path that may be listed is at or below one of the names at some
    /// time.
    fn select_named(&self, filter: &ChangeFilter) -> Vec<bool> {
        let is_listed = |path: &TreePath| match &filter.hidden_files {
            Some(hidden_files) => hidden_files.lists(path),
            None => path.components().next() != Some(".svc"),
        };
        let Some((first, others)) = filter.below.split_first() else { return self.select_paths(None, is_listed) };
        let mut selected = self.select_paths(Some(&first.path), is_listed);
        for name in others {
            let also = self.select_paths(Some(&name.path), is_listed);
            selected.iter_mut().zip(also).for_each(|(selected, also)| *selected |= also);
        }
        selected
    }

    fn select(&self, filter: &ChangeFilter, skip: usize, max: usize) -> (Vec<PathOccurrence>, usize) {
        let actor = match &filter.actor {
            None => None,
            Some(actor) => match self.actors.numbers.get(actor) {
                None => return (Vec::new(), 0),
                existing => existing.copied(),
            },
        };
        let selected = self.select_named(filter);
        let is_limited = filter.below.iter().any(|name| *name != NamePeriod::always(name.path.clone()));
        let (mut page, mut count) = (Vec::new(), 0);
        for at in (0..self.sets.len()).rev() {
            let set = &self.sets[at];
            if actor.is_some_and(|actor| actor != set.actor) {
                continue;
            }
            for change in self.changes[self.changes_of(at)].iter().rev() {
                let (path, is_removal) = ((change >> 1) as usize, change & 1 == 1);
                if !selected[path] || filter.is_removal.is_some_and(|removal| removal != is_removal) {
                    continue;
                }
                let is_named = || filter.below.iter().any(|name| name.covers(set.seq, &self.paths.names[path]));
                if is_limited && !is_named() {
                    continue;
                }
                if count >= skip && page.len() < max {
                    page.push(PathOccurrence { seq: set.seq, path: self.paths.names[path].clone(), is_removal });
                }
                count += 1;
            }
        }
        (page, count)
    }

    fn activity(&self, since: i64, below: Option<&TreePath>, hidden_files: &HiddenFiles) -> TotalActivity {
        let selected = self.select_paths(below, |path| path.is_page() && hidden_files.lists(path));
        let mut counts: Vec<(u32, PageAuthors)> = vec![(0, PageAuthors::None); selected.len()];
        let mut days: HashMap<(i64, u32), u32> = HashMap::new();
        let mut total = 0;
        for (at, set) in self.sets.iter().enumerate().filter(|(_, set)| set.second >= since) {
            let mut in_set = 0;
            for path in self.changes[self.changes_of(at)].iter().map(|change| (change >> 1) as usize) {
                if selected[path] {
                    let (changes, authors) = &mut counts[path];
                    *changes += 1;
                    *authors = authors.and(set.actor);
                    in_set += 1;
                }
            }
            if in_set > 0 {
                *days.entry((set.second.div_euclid(SECONDS_A_DAY), set.actor)).or_default() += in_set;
                total += u64::from(in_set);
            }
        }
        let page = |(path, number): (&TreePath, usize)| {
            let (changes, authors) = counts[number];
            let LatestChange { second, exists } = self.latest[number];
            let has_single_author = matches!(authors, PageAuthors::One(_));
            PageActivity { path: path.clone(), changes, has_single_author, newest: timestamp(second), is_there: exists }
        };
        let pages = self.paths.numbers.iter().map(|(path, number)| (path, *number as usize));
        let mut days: Vec<_> = days
            .into_iter()
            .map(|((day, actor), changes)| DayActivity {
                day: timestamp(day.saturating_mul(SECONDS_A_DAY)),
                actor: self.actors.names[actor as usize].clone(),
                changes,
            })
            .collect();
        days.sort_by(|a, b| (a.day, &a.actor).cmp(&(b.day, &b.actor)));
        TotalActivity { changes: total, pages: pages.filter(|(_, number)| selected[*number]).map(page).collect(), days }
    }
}

/// The authors of a page.
#[derive(Debug, Clone, Copy)]
enum PageAuthors {
    None,
    One(u32),
    Several,
}

impl PageAuthors {
    fn and(self, actor: u32) -> Self {
        match self {
            Self::None => Self::One(actor),
            Self::One(existing) if existing == actor => self,
            Self::One(_) | Self::Several => Self::Several,
        }
    }
}

fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
