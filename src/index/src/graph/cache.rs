//! The cached graph and the changes since it was built.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, OptionalExtension};
use svcfs_base::TreePath;
use svcfs_text::links::page_keys;

use super::{LinkGraph, full_build, incremental};
use crate::document::PageDocument;
use crate::writer::{self, WriteStep};
use crate::{Index, IndexError, assets, connections};

/// Limit of recorded pages and names; beyond, the next graph is a full build.
const MAX_RECORDED_CHANGES: usize = 20_000;

/// Limit of threads for a full build: beyond, the sequential part dominates.
const MAX_THREADS: usize = 4;

/// The last graph and the changes since.
///
/// Lock order: the graph, then the changes. A writer holds the changes while its transaction
/// commits, and a reader while its snapshot starts: so the changes that a reader takes are exactly
/// those in its snapshot.
#[derive(Default)]
pub(crate) struct GraphCache {
    graph: Mutex<Option<Arc<LinkGraph>>>,
    pending: Mutex<PendingChanges>,
}

#[derive(Default)]
enum PendingChanges {
    /// Too many to record, or there is no graph: the next one is a full build.
    #[default]
    Unknown,
    Recorded(GraphChanges),
}

/// Changed pages, and names that were added or removed.
#[derive(Default)]
pub(super) struct GraphChanges {
    pub(super) pages: HashSet<TreePath>,
    pub(super) names: HashSet<String>,
}

impl GraphChanges {
    fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.names.is_empty()
    }
}

/// The changes of an open transaction; nothing is recorded while there is no graph.
pub(crate) struct UncommittedChanges(PendingChanges);

impl GraphCache {
    /// The graph, if it is current.
    pub(crate) fn current(&self) -> Option<Arc<LinkGraph>> {
        // If a graph is being built, reading rows is faster than waiting for it.
        let cached = self.graph.try_lock()?;
        let is_current = matches!(&*self.pending.lock(), PendingChanges::Recorded(changes) if changes.is_empty());
        cached.as_ref().filter(|_| is_current).map(Arc::clone)
    }

    pub(crate) fn start_recording(&self) -> UncommittedChanges {
        UncommittedChanges(match *self.pending.lock() {
            PendingChanges::Unknown => PendingChanges::Unknown,
            PendingChanges::Recorded(_) => PendingChanges::Recorded(GraphChanges::default()),
        })
    }

    /// Locks the changes while a transaction commits; see [`CommitGuard::record`].
    pub(crate) fn lock_for_commit(&self) -> CommitGuard<'_> {
        CommitGuard(self.pending.lock())
    }
}

/// While it exists, a transaction is committing and no graph build starts.
pub(crate) struct CommitGuard<'k>(MutexGuard<'k, PendingChanges>);

impl CommitGuard<'_> {
    /// Records the changes of the committed transaction.
    pub(crate) fn record(mut self, uncommitted: UncommittedChanges) {
        let PendingChanges::Recorded(recorded) = &mut *self.0 else { return };
        match uncommitted.0 {
            PendingChanges::Recorded(GraphChanges { pages, names }) => {
                recorded.pages.extend(pages);
                recorded.names.extend(names);
                if recorded.pages.len() + recorded.names.len() > MAX_RECORDED_CHANGES {
                    *self.0 = PendingChanges::Unknown;
                }
            }
            // A graph of the rows before the transaction was built while it was open.
            PendingChanges::Unknown => *self.0 = PendingChanges::Unknown,
        }
    }

    /// Records that the committed transaction replaced all rows.
    pub(crate) fn record_full_change(mut self) {
        *self.0 = PendingChanges::Unknown;
    }
}

impl UncommittedChanges {
    /// Records a step before it changes the rows.
    pub(crate) fn record_step(&mut self, connection: &Connection, step: &WriteStep) -> Result<(), IndexError> {
        let PendingChanges::Recorded(changes) = &mut self.0 else { return Ok(()) };
        if !step.path().is_page() {
            if assets::has(connection, step.path())? != !matches!(step, WriteStep::Remove(_)) {
                let keys = page_keys(step.path().as_str(), None, &[]);
                changes.names.extend(keys.into_iter().map(|key| key.folded));
            }
            return Ok(());
        }
        let existing = connection
            .prepare_cached("SELECT id, etag FROM pages WHERE path = ?1")?
            .query_row([step.path().as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 20]>(1)?)))
            .optional()?;
        let (before, after) = match (existing, step) {
            (_, WriteStep::PutAsset(_) | WriteStep::PutCanvas(..)) | (None, WriteStep::Remove(_)) => return Ok(()),
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

/// A name: folded, kind, as written. The spelling counts too: it can decide between two pages.
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
    /// The current link graph.
    ///
    /// The first build reads all rows: 100,000 pages with 500,000 links take about a second.
    /// Without changes the same graph is returned; after a change only the affected pages are read.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn graph(&self) -> Result<Arc<LinkGraph>, IndexError> {
        let mut cached = self.graph.graph.lock();
        let outcome = match self.update_graph(cached.as_ref()) {
            Ok(None) => self.build_graph(),
            Ok(Some(graph)) => Ok(graph),
            Err(error) => Err(error),
        };
        match &outcome {
            Ok(graph) => *cached = Some(Arc::clone(graph)),
            Err(_) => *self.graph.pending.lock() = PendingChanges::Unknown,
        }
        outcome
    }

    /// The graph after `last`, or `last` itself without changes; `None` when a full build is
    /// needed.
    fn update_graph(&self, last: Option<&Arc<LinkGraph>>) -> Result<Option<Arc<LinkGraph>>, IndexError> {
        let Some(last) = last else { return Ok(None) };
        self.readers.read(|connection| {
            let pending = {
                let mut pending = self.graph.pending.lock();
                match &*pending {
                    PendingChanges::Unknown => return Ok(None),
                    PendingChanges::Recorded(changes) if changes.is_empty() => return Ok(Some(Arc::clone(last))),
                    PendingChanges::Recorded(_) => {}
                }
                // The first statement fixes the snapshot.
                writer::cursor(connection)?;
                std::mem::replace(&mut *pending, PendingChanges::Recorded(GraphChanges::default()))
            };
            let PendingChanges::Recorded(changes) = pending else { return Ok(None) };
            Ok(incremental::update(connection, self.link_resolution, (last, &changes))?.map(Arc::new))
        })
    }

    pub(super) fn build_graph(&self) -> Result<Arc<LinkGraph>, IndexError> {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_THREADS);
        self.readers.read_parallel(threads, |connections| {
            let mut pending = self.graph.pending.lock();
            connections::begin_all(connections)?;
            *pending = PendingChanges::Recorded(GraphChanges::default());
            drop(pending);
            full_build::build(connections, self.link_resolution).map(Arc::new)
        })
    }
}
