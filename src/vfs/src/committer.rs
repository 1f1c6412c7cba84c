//! Steps 6 to 9 of the write path, one thread for each space.
//!
//! One rule: log, tree, git, feed, in this order. A set is logged with the commit it will get (commits are a function of
//! parent, content, author and time), so that after a crash the same sets give the same commits. Until the log has a set,
//! nothing of it is visible but unreferenced objects; from then on it will happen, whatever breaks.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use svcfs_base::{Actor, Announcement, CommitId, Door, Durability, Fault, FileKind, Seq, TreePath};
use svcfs_store::{Author, Edit, Entry, Record, StoreError};
use tracing::{debug, error, warn};

use crate::apply::many_message;
use crate::core::{Core, is_missing};
use crate::feed::Event;
use crate::overlay::Leaf;
use crate::queue::{After, Before, Effect, Next, Prepared, Receipt};

/// A checkpoint comes after this long without writes, or when this much waits in the log.
const IDLE: Duration = Duration::from_secs(1);
const MAX_UNSETTLED_BYTES: usize = 64 << 20;
const MAX_LOOSE_OBJECTS: usize = 20_000;
const RETRY: Duration = Duration::from_millis(200);

pub(crate) struct Committer {
    pub(crate) core: Arc<Core>,
    /// The newest commit that the log knows.
    pub(crate) head: Option<CommitId>,
    /// The newest position of the log.
    pub(crate) last: Seq,
    /// Paths whose entry in `.git/index` is out of date.
    pub(crate) touched: BTreeSet<TreePath>,
    pub(crate) unsettled_bytes: usize,
    pub(crate) is_unsettled: bool,
    /// Sets that nobody waits for and that the log could not take yet.
    pub(crate) held: Vec<Prepared>,
    pub(crate) last_work: Instant,
}

/// A set with its record.
struct Planned {
    prepared: Prepared,
    record: Record,
}

impl Committer {
    pub(crate) fn run(mut self) {
        loop {
            match self.core.queue.take(self.deadline()) {
                Next::Batch(batch) => {
                    let mut sets = std::mem::take(&mut self.held);
                    sets.extend(batch);
                    self.process(sets);
                }
                Next::Idle => self.idle(),
                Next::Closed => return self.finish(),
            }
            if self.unsettled_bytes > MAX_UNSETTLED_BYTES || self.core.history.loose_count() > MAX_LOOSE_OBJECTS {
                self.checkpoint();
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let departure = self.core.departures.lock().values().map(|departure| departure.due).min();
        let checkpoint = self.is_unsettled.then(|| self.last_work + IDLE);
        let retry = (!self.held.is_empty()).then(|| Instant::now() + RETRY);
        // Departures are entered without waking this thread: it looks often enough for their two seconds.
        let look = Instant::now() + IDLE;
        [departure, checkpoint, retry, Some(look)].into_iter().flatten().min()
    }

    fn idle(&mut self) {
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.process(held);
        }
        self.record_departures(Instant::now());
        if self.is_unsettled && self.last_work.elapsed() >= IDLE {
            self.checkpoint();
        }
    }

    fn finish(mut self) {
        self.record_departures(Instant::now() + crate::core::DEPARTURE * 2);
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.process(held);
        }
        for prepared in &self.held {
            error!(message = %prepared.message, "an accepted write could not be logged before the end");
        }
        self.checkpoint();
        self.core.feed.close();
    }

    /// Pages that left under a scratch name and did not come back are removed from history.
    fn record_departures(&mut self, now: Instant) {
        let due: Vec<_> = {
            let mut departures = self.core.departures.lock();
            let paths: Vec<_> =
                departures.iter().filter(|(_, gone)| gone.due <= now).map(|(path, _)| path.clone()).collect();
            paths.into_iter().filter_map(|path| departures.remove(&path).map(|gone| (path, gone))).collect()
        };
        let sets: Vec<_> = due
            .into_iter()
            .map(|(path, gone)| Prepared {
                actor: gone.actor,
                door: gone.door,
                provenance: None,
                announcement: Announcement::Files,
                message: format!("delete: {path}"),
                durability: Durability::Soon,
                stamp: self.core.stamp(),
                moves: Vec::new(),
                effects: vec![Effect { path, before: Some(gone.before), after: None }],
                spent: Vec::new(),
                is_adopted: true,
                answer: None,
            })
            .collect();
        if !sets.is_empty() {
            self.process_uncounted(sets);
        }
    }

    fn process(&mut self, sets: Vec<Prepared>) {
        let count = sets.len();
        let held_before = self.held.len();
        self.process_uncounted(sets);
        // Held sets are still pending: they are counted when they leave.
        self.core.queue.done(count - (self.held.len() - held_before));
    }

    fn process_uncounted(&mut self, sets: Vec<Prepared>) {
        self.last_work = Instant::now();
        match self.log_all(sets) {
            Ok(planned) => {
                if !planned.is_empty() {
                    self.settle(planned);
                }
                *self.core.trouble.lock() = None;
            }
            Err((sets, fault)) => self.refuse(sets, &fault),
        }
    }

    /// Nothing was logged. Those who wait are told; what nobody waits for was accepted and is tried again.
    fn refuse(&mut self, sets: Vec<Prepared>, fault: &Fault) {
        error!(error = ?fault, sets = sets.len(), "changes could not be logged");
        *self.core.trouble.lock() = Some(fault.again());
        for mut prepared in sets {
            match prepared.answer.take() {
                Some(answer) => {
                    self.forget(&prepared);
                    // The writer may have given up waiting.
                    let _ = answer.send(Err(fault.again()));
                }
                None => self.held.push(prepared),
            }
        }
    }

    fn forget(&self, prepared: &Prepared) {
        for effect in &prepared.effects {
            self.core.overlay.clear(&effect.path, prepared.stamp);
        }
        for path in &prepared.spent {
            self.core.overlay.clear(path, prepared.stamp);
        }
    }

    /// Step 6, with the objects of step 8 made first.
    fn log_all(&mut self, sets: Vec<Prepared>) -> Result<Vec<Planned>, (Vec<Prepared>, Fault)> {
        if let Err(error) = self.follow_head() {
            return Err((sets, error.into()));
        }
        let mut planned = Vec::with_capacity(sets.len());
        let mut parent = self.head;
        let mut seq = self.last;
        let mut sets = sets.into_iter();
        while let Some(prepared) = sets.next() {
            match self.plan(prepared, &mut parent, &mut seq) {
                Ok(more) => planned.extend(more),
                Err((prepared, StoreError::Unrecordable { path, reason })) => {
                    self.forget(&prepared);
                    if let Some(answer) = &prepared.answer {
                        let _ = answer.send(Err(StoreError::Unrecordable { path, reason }.into()));
                    } else {
                        error!(page.path = %path, reason, "git cannot record this path; the file is on the disk only");
                        for effect in &prepared.effects {
                            if let Some(After::Leaf(leaf)) = &effect.after
                                && let Err(error) = self.core.install(&effect.path, leaf)
                            {
                                error!(page.path = %effect.path, %error, "the file could not be kept on the disk");
                            }
                        }
                    }
                }
                Err((prepared, error)) => {
                    let all = planned.into_iter().map(|planned: Planned| planned.prepared);
                    return Err((all.chain([prepared]).chain(sets).collect(), error.into()));
                }
            }
        }
        let records: Vec<Record> = planned.iter().map(|planned| planned.record.clone()).collect();
        if records.is_empty() {
            return Ok(planned);
        }
        if let Err(error) = self.core.log.append(&records) {
            return Err((planned.into_iter().map(|planned| planned.prepared).collect(), error.into()));
        }
        self.last = seq;
        self.is_unsettled = true;
        self.unsettled_bytes += records.iter().flat_map(|record| &record.entries).map(size_of_entry).sum::<usize>();
        Ok(planned)
    }

    /// Makes a set's commit, unreferenced, and its record; before them, those of edits behind us that the set would cover.
    fn plan(
        &self,
        prepared: Prepared,
        parent: &mut Option<CommitId>,
        seq: &mut Seq,
    ) -> Result<Vec<Planned>, (Prepared, StoreError)> {
        let mut planned = Vec::new();
        let (mut next_parent, mut next_seq) = (*parent, *seq);
        let outcome = (|| {
            if let Some(unseen) = self.unseen(&prepared, next_parent)? {
                planned.push(self.record(unseen, &mut next_parent, &mut next_seq)?);
            }
            Ok(())
        })();
        match outcome {
            Ok(()) => {}
            Err(error) => return Err((prepared, error)),
        }
        let record = match self.build(&prepared, &mut next_parent, &mut next_seq) {
            Ok(record) => record,
            Err(error) => return Err((prepared, error)),
        };
        (*parent, *seq) = (next_parent, next_seq);
        planned.push(Planned { prepared, record });
        Ok(planned)
    }

    fn record(&self, prepared: Prepared, parent: &mut Option<CommitId>, seq: &mut Seq) -> Result<Planned, StoreError> {
        let record = self.build(&prepared, parent, seq)?;
        Ok(Planned { prepared, record })
    }

    fn build(&self, prepared: &Prepared, parent: &mut Option<CommitId>, seq: &mut Seq) -> Result<Record, StoreError> {
        let time = self.core.clock.now();
        let author = Author { actor: &prepared.actor, time, message: &prepared.message };
        let edits: Vec<_> = prepared.effects.iter().map(edit_of).collect();
        let staged = self.core.history.stage(*parent, &edits, &author)?;
        let is_kept = !prepared.is_adopted;
        let entry = |effect: &Effect| {
            let leaf = match &effect.after {
                Some(After::Leaf(leaf)) if is_kept => Some(leaf),
                Some(After::Leaf(_) | After::Blob(..)) | None => None,
            };
            let kind = effect.after.as_ref().map(After::kind).or(effect.before.as_ref().map(|before| before.kind));
            Entry {
                path: effect.path.clone(),
                old: effect.before.as_ref().map(|before| before.etag),
                new: effect.after.as_ref().map(After::etag),
                kind: kind.unwrap_or(FileKind::Regular),
                content: leaf.map(|leaf| leaf.content.clone()),
                modified: leaf.and_then(|leaf| leaf.disk.modified),
            }
        };
        *parent = Some(staged.commit);
        *seq = seq.next();
        Ok(Record {
            seq: *seq,
            time,
            actor: prepared.actor.clone(),
            door: prepared.door,
            message: prepared.message.clone(),
            provenance: prepared.provenance.clone(),
            announcement: prepared.announcement,
            foreign: false,
            commit: Some(staged.commit),
            moves: prepared.moves.clone(),
            entries: prepared.effects.iter().map(entry).collect(),
        })
    }

    /// What stood in the tree when the set was accepted and history has never seen: somebody edited behind us, and the set is
    /// about to cover it. Both versions are kept.
    fn unseen(&self, prepared: &Prepared, parent: Option<CommitId>) -> Result<Option<Prepared>, StoreError> {
        if prepared.is_adopted {
            return Ok(None);
        }
        let mut effects = Vec::new();
        for effect in &prepared.effects {
            let Some(Before { etag, kind, seen: Some(content) }) = &effect.before else {
                continue;
            };
            let known = match parent {
                Some(parent) => self.core.history.leaf(parent, &effect.path)?,
                None => None,
            };
            if known != Some((*etag, *kind)) {
                effects.push(Effect {
                    path: effect.path.clone(),
                    before: known.map(|(etag, kind)| Before { etag, kind, seen: None }),
                    after: Some(After::Leaf(Leaf::new(content.clone(), *kind))),
                });
            }
        }
        Ok((!effects.is_empty()).then(|| self.adoption(effects)))
    }

    /// A set of edits that are in the tree already.
    pub(crate) fn adoption(&self, effects: Vec<Effect>) -> Prepared {
        adopted(&self.core, effects, None)
    }

    /// Steps 7 to 9, tried until they are done: what is logged will happen.
    fn settle(&mut self, mut planned: Vec<Planned>) {
        let mut is_closing = false;
        loop {
            match self.try_settle(&mut planned) {
                Ok(()) => break,
                Err(error) if is_closing => {
                    // The log has it; the next opening completes it.
                    error!(%error, "logged changes are not in place yet; they will be when the space is opened again");
                    return;
                }
                Err(error) => {
                    warn!(%error, "logged changes are not in place yet; trying again");
                    let fault: Fault = error.into();
                    let text =
                        format!("the write is recorded and will be completed, but the disk refuses now: {fault}");
                    *self.core.trouble.lock() = Some(Fault::unavailable(text).inside(format!("{fault:?}")));
                    is_closing = self.core.queue.pause(RETRY);
                }
            }
        }
        self.core.feed.publish(planned.iter().map(|planned| Event::from(planned.record.clone())));
        for Planned { prepared, record } in &planned {
            self.forget(prepared);
            if let Some(answer) = &prepared.answer {
                // The writer may have given up waiting.
                let _ = answer.send(Ok(Receipt { seq: record.seq, commit: record.commit }));
            }
        }
        self.last_work = Instant::now();
    }

    fn try_settle(&mut self, planned: &mut [Planned]) -> Result<(), StoreError> {
        self.install(planned)?; // 7
        let Some(target) = planned.last().and_then(|planned| planned.record.commit) else {
            return Ok(());
        };
        if Some(target) != self.head {
            if let Err(error) = self.core.history.advance(self.head, target) {
                if !self.has_moved()? {
                    return Err(error);
                }
                debug!(%error, "the branch was moved by somebody else; building on it");
                return self.rebuild(planned);
            }
        }
        self.head = Some(target); // 8
        self.touched.extend(planned.iter().flat_map(|planned| &planned.record.entries).map(|entry| entry.path.clone()));
        Ok(())
    }

    fn install(&self, planned: &[Planned]) -> Result<(), StoreError> {
        let mut newest: HashMap<&TreePath, usize> = HashMap::new();
        for (at, Planned { prepared, .. }) in planned.iter().enumerate() {
            newest.extend(prepared.effects.iter().map(|effect| (&effect.path, at)));
        }
        for (at, Planned { prepared, .. }) in
            planned.iter().enumerate().filter(|(_, planned)| !planned.prepared.is_adopted)
        {
            for (from, to) in &prepared.moves {
                self.move_directory(from, to)?;
            }
            if !prepared.moves.is_empty() {
                continue;
            }
            for effect in prepared.effects.iter().filter(|effect| newest[&effect.path] == at) {
                match &effect.after {
                    Some(After::Leaf(leaf)) => self.core.install(&effect.path, leaf)?,
                    Some(After::Blob(..)) => {}
                    None => self.remove(&effect.path)?,
                }
            }
            for path in &prepared.spent {
                self.remove(path)?;
            }
        }
        Ok(())
    }

    fn move_directory(&self, from: &TreePath, to: &TreePath) -> Result<(), StoreError> {
        match self.core.tree.stat(from) {
            Ok(_) => {
                self.core.tree.make_parents(to)?;
                self.core.tree.rename(from, to, true)
            }
            // Done in an earlier attempt.
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn remove(&self, path: &TreePath) -> Result<(), StoreError> {
        match self.core.tree.remove(path) {
            Err(error) if is_missing(&error) => Ok(()),
            outcome => outcome,
        }
    }

    fn has_moved(&self) -> Result<bool, StoreError> {
        Ok(self.core.history.head()? != self.head)
    }

    /// The branch moved between staging and advancing: the logged sets get new commits on top of what is there.
    fn rebuild(&mut self, planned: &mut [Planned]) -> Result<(), StoreError> {
        let Some(theirs) = self.core.history.head()? else {
            return Err(StoreError::Damaged(
                "the git branch is gone; restore it, or run `git switch` to one that exists".to_owned(),
            ));
        };
        let mut parent = Some(theirs);
        for Planned { prepared, record } in planned.iter_mut() {
            let edits: Vec<_> = prepared.effects.iter().map(edit_of).collect();
            let author = Author { actor: &record.actor, time: record.time, message: &record.message };
            let staged = self.core.history.stage(parent, &edits, &author)?;
            record.commit = Some(staged.commit);
            parent = Some(staged.commit);
        }
        let commits: Vec<_> =
            planned.iter().filter_map(|planned| Some((planned.record.seq, planned.record.commit?))).collect();
        self.core.log.set_commits(&commits)?;
        if let Some(target) = parent {
            self.core.history.advance(Some(theirs), target)?;
        }
        // Their commits are recorded after ours in the log, which never changes the past.
        let mut records = foreign_records(&self.core, self.head, theirs, self.last)?;
        self.head = parent;
        self.record_foreign(&mut records)
    }

    /// Records commits that somebody else put on the branch since the last one of ours.
    fn follow_head(&mut self) -> Result<(), StoreError> {
        let head = self.core.history.head()?;
        let Some(theirs) = head.filter(|_| head != self.head) else {
            if head.is_none() && self.head.is_some() {
                return Err(StoreError::Damaged(
                    "the git branch is gone; restore it, or run `git switch` to one that exists".to_owned(),
                ));
            }
            return Ok(());
        };
        let mut records = foreign_records(&self.core, self.head, theirs, self.last)?;
        self.head = Some(theirs);
        self.record_foreign(&mut records)
    }

    fn record_foreign(&mut self, records: &mut Vec<Record>) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        self.core.log.append(records)?;
        if let Some(newest) = records.last() {
            self.last = newest.seq;
        }
        self.is_unsettled = true;
        self.touched.extend(records.iter().flat_map(|record| &record.entries).map(|entry| entry.path.clone()));
        self.core.feed.publish(records.drain(..).map(Event::from));
        Ok(())
    }

    /// Flushes tree and objects, brings `.git/index` up to date, and lets go of contents in the log.
    fn checkpoint(&mut self) {
        if let Err(error) = self.follow_head() {
            warn!(%error, "commits of others could not be recorded");
        }
        if !self.is_unsettled {
            return;
        }
        let started = Instant::now();
        let outcome = self.try_checkpoint();
        self.last_work = Instant::now();
        match outcome {
            Ok(()) => debug!(seq = %self.last, took_ms = started.elapsed().as_millis(), "checkpoint"),
            Err(error) => warn!(%error, "checkpoint failed; the log keeps everything and it is tried again"),
        }
    }

    fn try_checkpoint(&mut self) -> Result<(), StoreError> {
        let packed = self.core.history.pack()?;
        match self.core.history.refresh_index(self.touched.iter()) {
            Ok(()) => self.touched.clear(),
            // A person's git holds the index; it is refreshed at the next checkpoint.
            Err(error) => warn!(%error, "`.git/index` could not be refreshed"),
        }
        self.core.tree.flush()?;
        self.core.history.drop_loose(packed)?;
        self.core.log.settle(self.last, self.head)?;
        self.unsettled_bytes = 0;
        self.is_unsettled = !self.touched.is_empty();
        Ok(())
    }
}

/// A set of edits that are in the tree already, under the name of the watcher.
pub(crate) fn adopted(
    core: &Core,
    effects: Vec<Effect>,
    answer: Option<std::sync::mpsc::SyncSender<Result<Receipt, Fault>>>,
) -> Prepared {
    let actor = Actor::new(Door::Direct.default_actor());
    let message = match &effects[..] {
        [effect] if effect.after.is_none() => format!("delete: {}", effect.path),
        [effect] => format!("{actor}: {}", effect.path),
        _ => many_message(&format!("{actor}: {} files", effects.len()), effects.iter().map(|effect| &effect.path)),
    };
    Prepared {
        actor,
        door: Door::Direct,
        provenance: None,
        announcement: Announcement::Files,
        message,
        durability: if answer.is_some() { Durability::Now } else { Durability::Soon },
        stamp: core.stamp(),
        moves: Vec::new(),
        effects,
        spent: Vec::new(),
        is_adopted: true,
        answer,
    }
}

/// Records for the commits that lead from one head to another.
pub(crate) fn foreign_records(
    core: &Core,
    from: Option<CommitId>,
    to: CommitId,
    last: Seq,
) -> Result<Vec<Record>, StoreError> {
    let mut seq = last;
    let commits = core.history.between(from, to)?;
    Ok(commits
        .into_iter()
        .map(|commit| {
            seq = seq.next();
            let entry = |entry: svcfs_store::ForeignEntry| Entry {
                path: entry.path,
                old: entry.old,
                new: entry.new,
                kind: entry.kind,
                content: None,
                modified: None,
            };
            Record {
                seq,
                time: commit.time,
                actor: commit.actor,
                door: Door::Direct,
                message: commit.message,
                provenance: None,
                announcement: Announcement::Files,
                foreign: true,
                commit: Some(commit.commit),
                moves: Vec::new(),
                entries: commit.entries.into_iter().map(entry).collect(),
            }
        })
        .collect())
}

fn edit_of(effect: &Effect) -> Edit<'_> {
    let path = &effect.path;
    match &effect.after {
        Some(After::Leaf(leaf)) => Edit::Write { path, kind: leaf.kind, content: &leaf.content },
        Some(After::Blob(blob, kind)) => Edit::Place { path, kind: *kind, blob: *blob },
        None => Edit::Remove { path },
    }
}

fn size_of_entry(entry: &Entry) -> usize {
    entry.content.as_ref().map_or(0, bytes::Bytes::len) + 128
}
