//! Opening a space: the log's unsettled end is done again, then what changed behind us is adopted.
//!
//! One rule: nothing that was not flushed is trusted. Commits are built again from the log (the same sets on the same parent
//! give the same ids), files are installed again where the tree does not have them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use svcfs_base::{CommitId, DiskAttributes, ETag, Fault, Seq, TreePath};
use svcfs_store::{Author, Edit, Install, Record, StoreError};
use tracing::{info, warn};

use crate::committer::{Committer, foreign_records};
use crate::core::{Core, is_missing};

/// Brings log, git and tree into agreement, and makes the committer that goes on from there.
pub(crate) fn recover(core: &Arc<Core>, is_new_log: bool) -> Result<Committer, Fault> {
    let mut committer = Committer {
        core: Arc::clone(core),
        head: None,
        last: core.log.last()?,
        touched: std::collections::BTreeSet::new(),
        unsettled_bytes: 0,
        is_unsettled: false,
        held: Vec::new(),
        last_work: Instant::now(),
    };
    let (_, settled_head) = core.log.settled()?;
    let unsettled = core.log.unsettled()?;
    committer.head = settled_head;
    if !unsettled.is_empty() {
        info!(sets = unsettled.len(), "completing changes that were logged and not settled");
        replay(core, &mut committer, &unsettled)?;
    }
    let head = core.history.head()?;
    if let Some(theirs) = head.filter(|_| head != committer.head) {
        let records = foreign_records(core, committer.head, theirs, committer.last)?;
        if is_new_log && !records.is_empty() {
            info!(commits = records.len(), "reading the history that is there");
        }
        core.log.append(&records)?;
        committer.last = records.last().map_or(committer.last, |record| record.seq);
        committer.head = Some(theirs);
        committer.is_unsettled = true;
    }
    Ok(committer)
}

fn replay(core: &Core, committer: &mut Committer, unsettled: &[Record]) -> Result<(), Fault> {
    let mut commits = rebuild(core, committer.head, unsettled)?;
    let mut target = commits.last().map(|(_, commit)| *commit).or(committer.head);
    if let Some(ours) = target {
        match core.history.head()? {
            Some(head) if head == ours || core.history.contains(head, ours)? => {}
            Some(head) if core.history.contains(ours, head)? => core.history.advance(Some(head), ours)?,
            None => core.history.advance(None, ours)?,
            Some(head) => {
                // Somebody committed on what ours stood on: ours come on top of theirs.
                warn!(commit.id = %head, "the branch was moved while changes were unsettled; building on it");
                commits = rebuild(core, Some(head), unsettled)?;
                target = commits.last().map(|(_, commit)| *commit);
                if let Some(ours) = target.filter(|ours| *ours != head) {
                    core.history.advance(Some(head), ours)?;
                }
                let theirs = foreign_records(core, committer.head, head, committer.last)?;
                core.log.append(&theirs)?;
                committer.last = theirs.last().map_or(committer.last, |record| record.seq);
            }
        }
    }
    core.log.set_commits(&commits)?;
    install(core, unsettled)?;
    committer.head = target;
    committer.is_unsettled = true;
    committer.touched.extend(unsettled.iter().flat_map(|record| &record.entries).map(|entry| entry.path.clone()));
    Ok(())
}

fn rebuild(core: &Core, parent: Option<CommitId>, records: &[Record]) -> Result<Vec<(Seq, CommitId)>, Fault> {
    let mut parent = parent;
    let mut commits = Vec::with_capacity(records.len());
    for record in records {
        if record.foreign {
            parent = record.commit;
            continue;
        }
        let mut contents: Vec<Option<Bytes>> = Vec::with_capacity(record.entries.len());
        for entry in &record.entries {
            contents.push(match (&entry.content, entry.new) {
                (Some(content), _) => Some(content.clone()),
                (None, Some(blob)) => Some(content_of(core, &entry.path, blob, records)?),
                (None, None) => None,
            });
        }
        let edits: Vec<_> = record
            .entries
            .iter()
            .zip(&contents)
            .map(|(entry, content)| match content {
                Some(content) => Edit::Write { path: &entry.path, kind: entry.kind, content },
                None => Edit::Remove { path: &entry.path },
            })
            .collect();
        let author = Author { actor: &record.actor, time: record.time, message: &record.message };
        let staged = core.history.stage(parent, &edits, &author)?;
        parent = Some(staged.commit);
        commits.push((record.seq, staged.commit));
    }
    Ok(commits)
}

/// Content that the log does not hold itself: of an adopted edit or a directory rename.
fn content_of(core: &Core, path: &TreePath, blob: ETag, records: &[Record]) -> Result<Bytes, Fault> {
    let logged = records
        .iter()
        .flat_map(|record| &record.entries)
        .find(|entry| entry.new == Some(blob) && entry.content.is_some());
    if let Some(content) = logged.and_then(|entry| entry.content.clone()) {
        return Ok(content);
    }
    if let Ok((content, _)) = core.tree.read_leaf(path)
        && ETag::of(&content) == blob
    {
        return Ok(content);
    }
    match core.history.blob(blob)? {
        Some(content) => Ok(content),
        None => {
            Err(StoreError::Damaged(format!("the content of `{path}` ({blob}) is neither in the tree nor in git"))
                .into())
        }
    }
}

/// Puts the last logged state of each path in place, unless somebody edited the file after it was logged.
fn install(core: &Core, records: &[Record]) -> Result<(), Fault> {
    for (from, to) in records.iter().flat_map(|record| &record.moves) {
        if core.tree.stat(from).is_ok() {
            core.tree.make_parents(to)?;
            match core.tree.rename(from, to, true) {
                Err(StoreError::Disk { source, .. }) if source.kind() == std::io::ErrorKind::DirectoryNotEmpty => {}
                outcome => outcome?,
            }
        }
    }
    let mut known: HashMap<&TreePath, Vec<Option<ETag>>> = HashMap::new();
    for entry in records.iter().flat_map(|record| &record.entries) {
        let states = known.entry(&entry.path).or_default();
        states.push(entry.old);
        states.push(entry.new);
    }
    let mut done = std::collections::HashSet::new();
    for entry in records.iter().rev().flat_map(|record| record.entries.iter().rev()) {
        if !done.insert(&entry.path) {
            continue;
        }
        let present = match core.tree.read_leaf(&entry.path) {
            Ok((content, _)) => Some(ETag::of(&content)),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error.into()),
        };
        if present == entry.new {
            continue;
        }
        if !known[&entry.path].contains(&present) {
            warn!(page.path = %entry.path, "edited behind the server after its last write; the edit is kept and recorded");
            continue;
        }
        match entry.new {
            None => core.tree.remove(&entry.path)?,
            Some(blob) => {
                let content = match &entry.content {
                    Some(content) => content.clone(),
                    None => content_of(core, &entry.path, blob, records)?,
                };
                let path = &entry.path;
                let disk = DiskAttributes { modified: entry.modified, ..DiskAttributes::default() };
                core.tree.install(&Install { path, content: &content, kind: entry.kind, disk })?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
