//! The graph that is kept, and what the index took in since it was made.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, OptionalExtension};
use svcfs_base::TreePath;

use super::{LinkGraph, build, incremental};
use crate::document::PageDocument;
use crate::writer::{self, WriteStep};
use crate::{Index, IndexError, connections};

/// Changed pages and names that are remembered; with more, the next graph is made from all rows.
const MOST_CHANGES: usize = 20_000;

/// Threads that read all rows in parallel at most: with more, what must be done alone takes most of the time.
const MAX_THREADS: usize = 4;

/// The last graph and what changed since.
///
/// Lock order: the graph, then the changes. Whoever writes holds the changes while its transaction is committed, and whoever reads
/// while its own begins: what is taken from them is then exactly what was committed.
#[derive(Default)]
pub(crate) struct GraphCache {
    graph: Mutex<Option<Arc<LinkGraph>>>,
    since: Mutex<PendingChanges>,
}

/// What the index took in since the graph was made.
#[derive(Default)]
enum PendingChanges {
    /// Too much to follow, or there was no graph: nothing needs to be remembered.
    #[default]
    Anything,
    These(GraphChanges),
}

/// Pages that came, went or were written, and names that a page has more or less than before.
#[derive(Default)]
pub(super) struct GraphChanges {
    pub(super) pages: HashSet<TreePath>,
    /// In lower case, as links ask for them.
    pub(super) names: HashSet<String>,
}

/// The changes of a transaction that is not committed yet; nothing is gathered while nobody asked for a graph.
pub(crate) struct UncommittedChanges(PendingChanges);

impl GraphCache {
    /// The graph, if there is one of everything that was taken in.
    pub(crate) fn current(&self) -> Option<Arc<LinkGraph>> {
        // Whoever makes a graph now has it later than rows could be read.
        let kept = self.graph.try_lock()?;
        let is_current = matches!(&*self.since.lock(), PendingChanges::These(changes) if changes.pages.is_empty());
        kept.as_ref().filter(|_| is_current).map(Arc::clone)
    }

    /// What a transaction will gather.
    pub(crate) fn changed(&self) -> UncommittedChanges {
        UncommittedChanges(match *self.since.lock() {
            PendingChanges::Anything => PendingChanges::Anything,
            PendingChanges::These(_) => PendingChanges::These(GraphChanges::default()),
        })
    }

    /// Holds the changes back until the transaction that made them is committed; see [`Committing::done`].
    pub(crate) fn committing(&self) -> CommitGuard<'_> {
        CommitGuard(self.since.lock())
    }
}

/// A transaction is being committed, and no graph begins to be made.
pub(crate) struct CommitGuard<'k>(MutexGuard<'k, PendingChanges>);

impl CommitGuard<'_> {
    /// The transaction is committed.
    pub(crate) fn done(mut self, changed: UncommittedChanges) {
        let PendingChanges::These(so_far) = &mut *self.0 else { return };
        match changed.0 {
            PendingChanges::These(GraphChanges { pages, names }) => {
                so_far.pages.extend(pages);
                so_far.names.extend(names);
                if so_far.pages.len() + so_far.names.len() > MOST_CHANGES {
                    *self.0 = PendingChanges::Anything;
                }
            }
            // A graph was made while it was under way, of the rows before it.
            PendingChanges::Anything => *self.0 = PendingChanges::Anything,
        }
    }

    /// A transaction that replaced all rows is committed.
    pub(crate) fn replaced(mut self) {
        *self.0 = PendingChanges::Anything;
    }
}

impl UncommittedChanges {
    /// Notes what a step is about to do to the rows.
    pub(crate) fn note(&mut self, connection: &Connection, step: &WriteStep) -> Result<(), IndexError> {
        let PendingChanges::These(changes) = &mut self.0 else { return Ok(()) };
        let found = connection
            .prepare_cached("SELECT id, etag FROM pages WHERE path = ?1")?
            .query_row([step.path().as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 20]>(1)?)))
            .optional()?;
        let (before, after) = match (found, step) {
            (None, WriteStep::Remove(_)) => return Ok(()),
            (Some((_, etag)), WriteStep::Put(document)) if etag == *document.etag.as_bytes() => return Ok(()),
            (None, WriteStep::Put(document)) => (BTreeSet::new(), names_of(document)),
            (Some((id, _)), WriteStep::Put(document)) => (names_of_row(connection, id)?, names_of(document)),
            (Some((id, _)), WriteStep::Remove(_)) => (names_of_row(connection, id)?, BTreeSet::new()),
        };
        changes.pages.insert(step.path().clone());
        let differing = before.symmetric_difference(&after);
        changes.names.extend(differing.map(|(folded, ..)| folded.clone()));
        Ok(())
    }
}

/// A name: in lower case, of which kind, as written. A page found under another spelling may be found in place of another one.
type PageKey = (String, u8, String);

fn names_of(document: &PageDocument) -> BTreeSet<PageKey> {
    document.keys.iter().map(|key| (key.folded.clone(), key.kind as u8, key.text.clone())).collect()
}

fn names_of_row(connection: &Connection, id: i64) -> Result<BTreeSet<PageKey>, IndexError> {
    let mut statement = connection.prepare_cached("SELECT folded, kind, text FROM page_keys WHERE page = ?1")?;
    let names = statement.query_map([id], |row| row.try_into())?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

impl Index {
    /// The link graph of everything the index has taken in.
    ///
    /// The first one is made from all rows, 100,000 pages with 500,000 links in about a second; while nothing changes it is the same
    /// one again. After a change the pages concerned are read, and the rest is taken from the last.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn graph(&self) -> Result<Arc<LinkGraph>, IndexError> {
        let mut kept = self.graph.graph.lock();
        let outcome = match self.carried(kept.as_ref()) {
            Ok(None) => self.fresh(),
            Ok(Some(graph)) => Ok(graph),
            Err(error) => Err(error),
        };
        match &outcome {
            Ok(graph) => *kept = Some(Arc::clone(graph)),
            Err(_) => *self.graph.since.lock() = PendingChanges::Anything,
        }
        outcome
    }

    /// The next graph after `last`, which is the same where nothing changed; none where all rows are to be read.
    fn carried(&self, last: Option<&Arc<LinkGraph>>) -> Result<Option<Arc<LinkGraph>>, IndexError> {
        let Some(last) = last else { return Ok(None) };
        self.readers.read(|connection| {
            let since = {
                let mut since = self.graph.since.lock();
                match &*since {
                    PendingChanges::Anything => return Ok(None),
                    PendingChanges::These(changes) if changes.pages.is_empty() => return Ok(Some(Arc::clone(last))),
                    PendingChanges::These(_) => {}
                }
                // The first statement fixes which rows are read.
                writer::cursor(connection)?;
                std::mem::replace(&mut *since, PendingChanges::These(GraphChanges::default()))
            };
            let PendingChanges::These(changes) = since else { return Ok(None) };
            Ok(build::carried(connection, (last, &changes))?.map(Arc::new))
        })
    }

    /// The graph of all rows.
    pub(super) fn fresh(&self) -> Result<Arc<LinkGraph>, IndexError> {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_THREADS);
        self.readers.read_together(threads, |connections| {
            let mut since = self.graph.since.lock();
            connections::begin(connections)?;
            *since = PendingChanges::These(GraphChanges::default());
            drop(since);
            incremental::fresh(connections).map(Arc::new)
        })
    }
}
