//! What the log's rows come to, in memory: counts and selections over the whole history without reading it.
//!
//! One rule: rows never change but when a branch is left, and then the columns are made anew; else they are only ever grown by what was
//! appended since the last question. A change
//! takes four bytes, a set twenty-four, a path its name twice over: 100,000 commits on 10,000 pages are about 4 MB. Why no
//! counting in SQL? Because joining 100,000 rows takes 60 ms for every question, and an index for each kind of question
//! would be paid by every write. Nothing is read before the first question.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use parking_lot::RwLockWriteGuard;
use rusqlite::{Connection, params};
use svcfs_base::{Actor, Seq, Timestamp, TreePath};

use super::kinds::in_history;
use super::{Log, LogResult, rows};

const SECONDS_A_DAY: i64 = 86_400;

/// Which changes of the log are meant. Knowledge about the knowledge (`.svc/**`) never is.
#[derive(Debug, Clone, Default)]
pub struct ChangeFilter {
    /// Changes by this name only.
    pub actor: Option<Actor>,
    /// Removals only, or everything but removals.
    pub is_removal: Option<bool>,
    /// Changes at or below this path only.
    pub below: Option<TreePath>,
}

/// One change of one path, found by a [`Selection`].
#[derive(Debug, Clone)]
pub struct PathOccurrence {
    /// Its set's place in the log.
    pub seq: Seq,
    /// Which path.
    pub path: TreePath,
    /// True when the path is gone since.
    pub is_removal: bool,
}

/// How much a stretch of time changed.
#[derive(Debug, Clone, Default)]
pub struct TotalActivity {
    /// Changes of all pages in it.
    pub changes: u64,
    /// Every page that was ever recorded, in path order.
    pub pages: Vec<PageActivity>,
    /// Changes of all pages by day and name, oldest day first.
    pub days: Vec<DayActivity>,
}

/// How much one page changed in a stretch of time.
#[derive(Debug, Clone)]
pub struct PageActivity {
    /// Which page.
    pub path: TreePath,
    /// How often it changed in the stretch.
    pub changes: u32,
    /// True when it changed in the stretch, every time under the same name.
    pub has_single_author: bool,
    /// When it changed last, whether in the stretch or not.
    pub newest: Timestamp,
    /// True unless its last change removed it.
    pub is_there: bool,
}

/// What one name changed on one day.
#[derive(Debug, Clone)]
pub struct DayActivity {
    /// Midnight (UTC) at which the day begins.
    pub day: Timestamp,
    /// Who.
    pub actor: Actor,
    /// How many changes of pages.
    pub changes: u32,
}

/// The columns.
#[derive(Debug, Default)]
pub(super) struct HistoryStats {
    read: Seq,
    sets: Vec<StatsSet>,
    /// A path's number, with the lowest bit for a removal.
    changes: Vec<u32>,
    paths: NameTable<TreePath>,
    actors: NameTable<Actor>,
    /// By path number: how it stands after its last change.
    standing: Vec<LatestChange>,
}

#[derive(Debug)]
struct StatsSet {
    seq: Seq,
    second: i64,
    actor: u32,
    /// Behind its last change.
    end: u32,
}

#[derive(Debug, Clone, Copy)]
struct LatestChange {
    second: i64,
    is_there: bool,
}

/// Names and their numbers, in the order of their first appearance.
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
    /// The changes that a selection means, newest first: at most `max` after the first `skip`, and how many there are in all.
    ///
    /// # Errors
    /// `Database`.
    pub fn select_changes(
        &self,
        selection: &ChangeFilter,
        skip: usize,
        max: usize,
    ) -> LogResult<(Vec<PathOccurrence>, usize)> {
        self.tallied(|tally| tally.select(selection, skip, max))
    }

    /// How much changed from `since` on, at or below a path when one is given; pages only, and none with a dot name.
    ///
    /// # Errors
    /// `Database`.
    pub fn activity(&self, since: Timestamp, below: Option<&TreePath>) -> LogResult<TotalActivity> {
        self.tallied(|tally| tally.activity(since.as_second(), below))
    }

    fn tallied<T>(&self, question: impl FnOnce(&HistoryStats) -> T) -> LogResult<T> {
        let last = self.last_seq();
        let tally = self.tally.read();
        if last <= tally.read {
            return Ok(question(&tally));
        }
        drop(tally);
        let mut tally = self.tally.write();
        if let Err(error) = self.with_reader(|connection| Ok(tally.read_on(connection, last)?)) {
            // Half a set must not be counted: the next question begins anew.
            *tally = HistoryStats::default();
            return Err(error);
        }
        // Not let go of in between: where a branch was left, it begins anew.
        Ok(question(&RwLockWriteGuard::downgrade(tally)))
    }
}

impl HistoryStats {
    /// Takes in what was appended since the last time, which reaches to `last` at least.
    fn read_on(&mut self, connection: &Connection, last: Seq) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(concat!(
            "SELECT s.seq, s.time, s.actor, c.path, c.new IS NULL FROM sets s JOIN changes c ON c.seq = s.seq
             WHERE s.seq > ?1 AND ",
            in_history!(),
            " ORDER BY s.seq, c.ordinal"
        ))?;
        let mut found = statement.query(params![rows::number(self.read)])?;
        while let Some(row) = found.next()? {
            let seq = rows::seq(row.get(0)?);
            let second = rows::commit_time(row, 1)?.as_second();
            if self.sets.last().is_none_or(|set| set.seq != seq) {
                let actor = self.actors.number(Actor::new(row.get_ref(2)?.as_str()?));
                self.sets.push(StatsSet { seq, second, actor, end: self.sets.last().map_or(0, |set| set.end) });
            }
            let path = self.paths.number(rows::path(row, 3)?);
            let is_removal: bool = row.get(4)?;
            let standing = LatestChange { second, is_there: !is_removal };
            match self.standing.get_mut(path as usize) {
                Some(known) => *known = standing,
                None => self.standing.push(standing),
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

    /// By path number, whether a path satisfies a condition and is at or below another, when one is given.
    fn marked(&self, below: Option<&TreePath>, is_meant: impl Fn(&TreePath) -> bool) -> Vec<bool> {
        let mut marks = vec![false; self.paths.names.len()];
        let mut mark = |path: &TreePath, number: u32| marks[number as usize] = is_meant(path);
        match below.filter(|below| !below.is_root()) {
            None => self.paths.numbers.iter().for_each(|(path, number)| mark(path, *number)),
            Some(below) => {
                let from = self.paths.numbers.range(below..);
                from.take_while(|(path, _)| path.as_str().starts_with(below.as_str()))
                    .filter(|(path, _)| path.is_under(below))
                    .for_each(|(path, number)| mark(path, *number));
            }
        }
        marks
    }

    fn select(&self, selection: &ChangeFilter, skip: usize, max: usize) -> (Vec<PathOccurrence>, usize) {
        let actor = match &selection.actor {
            None => None,
            Some(actor) => match self.actors.numbers.get(actor) {
                None => return (Vec::new(), 0),
                known => known.copied(),
            },
        };
        let marks = self.marked(selection.below.as_ref(), |path| path.components().next() != Some(".svc"));
        let (mut found, mut count) = (Vec::new(), 0);
        for at in (0..self.sets.len()).rev() {
            let set = &self.sets[at];
            if actor.is_some_and(|actor| actor != set.actor) {
                continue;
            }
            for change in self.changes[self.changes_of(at)].iter().rev() {
                let (path, is_removal) = ((change >> 1) as usize, change & 1 == 1);
                if !marks[path] || selection.is_removal.is_some_and(|wanted| wanted != is_removal) {
                    continue;
                }
                if count >= skip && found.len() < max {
                    found.push(PathOccurrence { seq: set.seq, path: self.paths.names[path].clone(), is_removal });
                }
                count += 1;
            }
        }
        (found, count)
    }

    fn activity(&self, since: i64, below: Option<&TreePath>) -> TotalActivity {
        let marks = self.marked(below, |path| path.is_page() && !path.is_hidden());
        let mut counts: Vec<(u32, PageAuthors)> = vec![(0, PageAuthors::None); marks.len()];
        let mut days: HashMap<(i64, u32), u32> = HashMap::new();
        let mut total = 0;
        for (at, set) in self.sets.iter().enumerate().filter(|(_, set)| set.second >= since) {
            let mut in_set = 0;
            for path in self.changes[self.changes_of(at)].iter().map(|change| (change >> 1) as usize) {
                if marks[path] {
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
            let LatestChange { second, is_there } = self.standing[number];
            let has_single_author = matches!(authors, PageAuthors::One(_));
            PageActivity { path: path.clone(), changes, has_single_author, newest: moment(second), is_there }
        };
        let pages = self.paths.numbers.iter().map(|(path, number)| (path, *number as usize));
        let mut days: Vec<_> = days
            .into_iter()
            .map(|((day, actor), changes)| DayActivity {
                day: moment(day.saturating_mul(SECONDS_A_DAY)),
                actor: self.actors.names[actor as usize].clone(),
                changes,
            })
            .collect();
        days.sort_by(|one, other| (one.day, &one.actor).cmp(&(other.day, &other.actor)));
        TotalActivity { changes: total, pages: pages.filter(|(_, number)| marks[*number]).map(page).collect(), days }
    }
}

/// Who changed a page.
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
            Self::One(known) if known == actor => self,
            Self::One(_) | Self::Several => Self::Several,
        }
    }
}

fn moment(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
