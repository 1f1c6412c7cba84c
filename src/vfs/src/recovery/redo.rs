//! The files of the log's unsettled end, put in place again.

use std::collections::{BTreeSet, HashMap, HashSet};

use svcfs_base::{DiskAttributes, ETag, Fault, LargeFile, TreePath};
use svcfs_store::{
    ExpectedFile, FailPoint, InstallResult, LogEntry, LogRecord, PathState, StatKind, StatePaths, StoreError, WriteTip,
    boot_marker,
};
use tracing::warn;

use super::replay_set::ReplaySet;
use super::without_commit;
use crate::core::{VfsCore, kept_if_in_the_way};
use crate::overlay::OverlayFile;
use crate::progress::{OpenProgress, ProgressReporter};

/// The least a disk writes at once, in bytes.
const BLOCK: usize = 512;

/// The paths at which the tree has what was logged last: after a kill nearly all. Nothing is changed, and what is found not to be in
/// place is looked at once more when its turn comes.
pub(super) fn in_place<'r>(core: &VfsCore, logged: &ReplaySet<'r>) -> HashSet<&'r TreePath> {
    let is_in_place = |path: &TreePath, entries: &[&LogEntry]| {
        let newest = entries.last().map(|newest| newest.new.map(|blob| (blob, newest.kind)));
        let standing = core.standing(path).map(|standing| standing.map(|leaf| (leaf.etag, leaf.kind)));
        let is_that = standing.is_ok_and(|standing| newest == Some(standing));
        // One that is nothing to versions may have to give way.
        is_that && (newest.is_some_and(|state| state.is_some()) || large_at(core, path).is_none())
    };
    logged.by_path().iter().filter(|(path, entries)| is_in_place(path, entries)).map(|(path, _)| *path).collect()
}

/// A file that has not got its last logged state.
struct RedoEntry<'r> {
    entry: &'r LogEntry,
    disk: DiskAttributes,
    /// What stood there when it was looked at: anything else was put there since, by somebody.
    stood: Option<ETag>,
    large: Option<LargeFile>,
    /// It was removed and made again since: what stands there is another file.
    is_removed: bool,
}

impl RedoEntry<'_> {
    fn known(&self) -> ExpectedFile<'_> {
        ExpectedFile { contents: self.stood.as_slice(), large: self.large, is_removed: self.is_removed }
    }
}

/// Puts the last logged state of each path in place of which `is_done` does not say that it is there, or that others put something else there;
/// unless somebody edited the file after it was logged.
pub(super) fn complete(
    core: &VfsCore,
    settled: WriteTip,
    (logged, is_done): (&ReplaySet<'_>, impl Fn(&TreePath) -> bool),
    reporter: &mut ProgressReporter,
) -> Result<(), Fault> {
    rename_directories(core, logged.records)?;
    // What others committed they put in place themselves, and only a power cut takes it from there, or a disk that did not flush.
    let is_as_left = !core.tree.has_sync_failed()
        && boot_marker::opened_since_boot(&StatePaths::new(&core.root), core.tree.boot_time());
    let is_done = |path: &TreePath| is_done(path) || is_as_left && logged.of_others().contains(path);
    let lost: Vec<_> = logged.of_others().iter().copied().filter(|path| !is_done(path)).collect();
    let on_top = on_top(core, logged, &lost)?;
    let left: Vec<_> = logged.by_path().iter().filter(|(path, _)| !is_done(path)).collect();
    let paths: Vec<_> = left.iter().map(|(path, _)| **path).collect();
    let recorded = core.memory.checkpoint_states(settled, &paths)?;
    let brought = brought(logged.records);
    let total = paths.len();
    let (mut changed, mut others) = (Vec::new(), Vec::new());
    reporter.tell(OpenProgress::Restoring { files: 0, total });
    for (at, ((path, entries), recorded)) in left.into_iter().zip(recorded).enumerate() {
        reporter.pass(OpenProgress::Restoring { files: at, total });
        let Some(newest) = on_top.get(*path).or(entries.last()) else { continue };
        let is_removed = entries.iter().any(|entry| entry.new.is_none());
        let behind = |stood, large, disk| RedoEntry { entry: newest, disk, stood, large, is_removed };
        if let Some(large) = large_at(core, path) {
            if entries.iter().any(|entry| entry.replaces_large == Some(large)) {
                changed.push(behind(None, Some(large), attributes(entries)));
            } else if newest.new.is_some() {
                warn!(page.path = %path, "a file too large for any version came here after the last write; it is kept");
            }
            continue;
        }
        let present = match core.standing(path) {
            Ok(standing) => standing.map(|leaf| (leaf.etag, leaf.kind)),
            Err(error) => {
                warn!(page.path = %path, %error, "what stands here cannot be read; it is kept");
                continue;
            }
        };
        if present == newest.new.map(|blob| (blob, newest.kind)) {
            continue;
        }
        let stood = present.map(|(blob, _)| blob);
        let is_brought = || brought.get(path).is_some_and(|states| states.contains(&present));
        if present == recorded || may_stand(entries, present) || is_brought() {
            changed.push(behind(stood, None, attributes(entries)));
        } else if is_left_torn(core, logged, (path, entries))? {
            // It is the file itself, and has what it was given since.
            let disk = DiskAttributes { modified: newest.attributes.modified, ..DiskAttributes::default() };
            changed.push(behind(stood, None, disk));
        } else {
            others.push((*path, behind(stood, None, attributes(entries))));
        }
    }
    let lost = overwritten(core, logged, others.iter().map(|(path, _)| *path))?;
    for (path, change) in others {
        if lost.contains(path) {
            changed.push(change);
        } else {
            warn!(page.path = %path, "edited behind the server after its last write; the edit is kept and recorded");
        }
    }
    core.fail.hit(FailPoint::OpenRestore);
    // Removals first: a file may have given way to a directory, or a directory to a file.
    for behind in changed.iter().filter(|behind| behind.entry.new.is_none()) {
        remove(core, behind)?;
    }
    for behind in &changed {
        if let Some(blob) = behind.entry.new {
            install(core, (behind, blob), logged)?;
        }
    }
    reporter.tell(OpenProgress::Restoring { files: total, total });
    Ok(())
}

/// What has the last word at paths of which others' commits are the last that is logged: ours that is to be committed on top of theirs, or else
/// what the newest commit has.
fn on_top<'r>(
    core: &VfsCore,
    logged: &ReplaySet<'r>,
    paths: &[&'r TreePath],
) -> Result<HashMap<&'r TreePath, &'r LogEntry>, StoreError> {
    let waiting: HashMap<_, _> =
        without_commit(logged.records).flat_map(|record| &record.entries).map(|entry| (&entry.path, entry)).collect();
    let newest = core.memory.current_states(paths)?;
    let last_word = |(path, newest): (&&'r TreePath, PathState)| {
        let is_newest = |entry: &&&LogEntry| entry.new.map(|blob| (blob, entry.kind)) == newest;
        let entries = logged.by_path().get(*path)?;
        let entry = waiting.get(*path).or_else(|| entries.iter().rev().find(is_newest))?;
        Some((*path, *entry))
    };
    Ok(paths.iter().zip(newest).filter_map(last_word).collect())
}

/// Writes the files anew whose content the log has; what somebody edited or removed since is theirs.
pub(super) fn renew(core: &VfsCore, logged: &ReplaySet<'_>) -> Result<(), Fault> {
    for (path, entries) in logged.by_path() {
        // Not the last one always: others' commits may be logged behind what came on top of them.
        let present = core.standing(path)?.map(|leaf| leaf.etag);
        let ours = entries.iter().rev().filter_map(|entry| entry.new).find(|blob| present == Some(*blob));
        let Some((blob, content)) = ours.and_then(|blob| Some((blob, logged.kept(blob)?))) else { continue };
        let Ok(stat) = core.tree.stat(path) else { continue };
        let Some(kind) = stat.file_kind() else { continue };
        let disk = DiskAttributes { modified: Some(stat.modified), ..DiskAttributes::default() };
        // An edit is seen by the next look at the tree, as any other.
        let _ =
            core.put_in_place(path, &OverlayFile { disk, ..OverlayFile::new(content, kind) }, Some([blob][..].into()))?;
    }
    Ok(())
}

/// Whether one of the entries of a path says that this stood there, before or after it.
fn may_stand(entries: &[&LogEntry], present: PathState) -> bool {
    entries
        .iter()
        .flat_map(|entry| [entry.old, entry.new].map(|blob| blob.map(|blob| (blob, entry.kind))))
        .any(|state| state == present)
}

/// The file too large for any version that stands at a path.
fn large_at(core: &VfsCore, path: &TreePath) -> Option<LargeFile> {
    core.tree.stat(path).ok().and_then(|stat| stat.large_file())
}

/// What the renames of directories brought to each path: a file is written over it when its directory is renamed and its links
/// are led to the new name.
fn brought(records: &[LogRecord]) -> HashMap<TreePath, Vec<PathState>> {
    let mut brought: HashMap<TreePath, Vec<PathState>> = HashMap::new();
    for record in records {
        for (from, to) in &record.moves {
            for entry in record.entries.iter().filter(|entry| entry.new.is_none()) {
                if let (Some(path), Some(blob)) = (entry.path.rebase(from, to), entry.old) {
                    brought.entry(path).or_default().push(Some((blob, entry.kind)));
                }
            }
        }
    }
    brought
}

/// Renames directories whose rename did not reach the disk. Where a later record has to do with either name, it did: what
/// stands there now is another directory.
fn rename_directories(core: &VfsCore, records: &[LogRecord]) -> Result<(), Fault> {
    for (at, record) in records.iter().enumerate() {
        for (from, to) in &record.moves {
            let is_used_later = records[at + 1..].iter().any(|later| {
                let entries = later.entries.iter().map(|entry| &entry.path);
                let moves = later.moves.iter().flat_map(|(one, other)| [one, other]);
                entries
                    .chain(moves)
                    .any(|path| [from, to].iter().any(|name| path.is_under(name) || name.is_under(path)))
            });
            if is_used_later || core.tree.stat(to).is_ok() || core.tree.stat(from).is_err() {
                continue;
            }
            let moved = core.tree.make_parents(to).and_then(|_| core.tree.rename(from, to, false));
            kept_if_in_the_way(to, moved)?;
        }
    }
    Ok(())
}

/// Whether a file is what a power cut or a broken disk left of one of ours: it was renamed into place before its bytes reached the
/// disk. Zeros in their place are nobody's edit; what is only shorter may be one, unless nobody touched it since the machine was
/// started.
fn is_left_torn(
    core: &VfsCore,
    logged: &ReplaySet<'_>,
    (path, entries): (&TreePath, &[&LogEntry]),
) -> Result<bool, StoreError> {
    let Ok((present, stat)) = core.tree.read_leaf(path) else { return Ok(false) };
    let is_edit = !present.contains(&0) && stat.changed >= core.tree.boot_time();
    if stat.kind != StatKind::File || is_edit {
        return Ok(false);
    }
    for blob in entries.iter().filter_map(|entry| entry.new) {
        if logged.content_of(core, path, blob)?.is_some_and(|content| is_torn(&present, &content)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The files that have bytes of another one since a power cut: ext4 with `data=writeback` gives the room of a file that was removed or replaced away
/// before it is safe that it was. Nobody touched them since the machine was started, nor since they were noted as what history had, in
/// `.git/index` or in the log.
fn overwritten<'p>(
    core: &VfsCore,
    logged: &ReplaySet<'_>,
    paths: impl Iterator<Item = &'p TreePath>,
) -> Result<HashSet<&'p TreePath>, Fault> {
    let started = core.tree.boot_time();
    let is_older = |path: &&TreePath| core.tree.stat(path).is_ok_and(|stat| stat.changed < started);
    let paths: Vec<_> = paths.filter(is_older).collect();
    if paths.is_empty() {
        return Ok(HashSet::new());
    }
    let mut found = core.memory.unmodified_paths(&paths)?;
    for path in paths {
        if !found.contains(path) && has_time_of_another(core, logged, path)? {
            found.insert(path);
        }
    }
    Ok(found)
}

/// Whether a file has the time of change, to the nanosecond, that we gave another content at this path: whoever writes to a file changes that time.
fn has_time_of_another(core: &VfsCore, logged: &ReplaySet<'_>, path: &TreePath) -> Result<bool, StoreError> {
    let Ok((present, stat)) = core.tree.read_leaf(path) else { return Ok(false) };
    let entries = logged.by_path().get(path).into_iter().flatten();
    let unsettled =
        entries.filter(|entry| entry.attributes.modified == Some(stat.modified)).filter_map(|entry| entry.new);
    let put: Vec<ETag> = unsettled.chain(core.log.etags_at(path, stat.modified)?).collect();
    Ok(stat.kind == StatKind::File && !put.is_empty() && !put.contains(&ETag::from_content(&present)))
}

/// A beginning of the content, with zeros for what follows of it, or with nothing; or all of it, with zeros for some blocks.
fn is_torn(present: &[u8], content: &[u8]) -> bool {
    let zeros = present.iter().rev().take_while(|byte| **byte == 0).count();
    let is_cut = present.len() <= content.len() && content.starts_with(&present[..present.len() - zeros]);
    let mut blocks = present.chunks(BLOCK).zip(content.chunks(BLOCK));
    let is_lost = |(there, ours): (&[u8], &[u8])| there == ours || there.iter().all(|byte| *byte == 0);
    is_cut || present.len() == content.len() && blocks.all(is_lost)
}

fn remove(core: &VfsCore, behind: &RedoEntry<'_>) -> Result<(), Fault> {
    let path = &behind.entry.path;
    match core.tree.remove_expected(path, behind.known()) {
        Ok(placed) => tell_edited(path, placed),
        Err(error) if error.is_missing() => {}
        Err(error) => kept_if_in_the_way(path, Err(error))?,
    }
    Ok(())
}

fn tell_edited(path: &TreePath, placed: InstallResult) {
    if placed == InstallResult::ConflictingEdit {
        // It is compared with history in a moment.
        warn!(page.path = %path, "edited behind the server while it was opened; the edit is kept and recorded");
    }
}

/// What a file gets beside its content: each write that says nothing of permission bits or owner keeps what was there.
fn attributes(entries: &[&LogEntry]) -> DiskAttributes {
    entries.iter().fold(DiskAttributes::default(), |before, entry| match entry.new {
        None => DiskAttributes::default(),
        Some(_) => DiskAttributes {
            mode: entry.attributes.mode.or(before.mode),
            owner: entry.attributes.owner.or(before.owner),
            modified: entry.attributes.modified,
            accessed: None,
        },
    })
}

fn install(core: &VfsCore, (behind, blob): (&RedoEntry<'_>, ETag), logged: &ReplaySet<'_>) -> Result<(), Fault> {
    let RedoEntry { entry, disk, .. } = behind;
    let path = &entry.path;
    let content = match &entry.content {
        Some(content) => Some(content.clone()),
        None => logged.content_of(core, path, blob)?,
    };
    let Some(content) = content else { return Ok(()) };
    clear_empty_directories(core, path);
    let leaf = OverlayFile { disk: *disk, ..OverlayFile::new(content, entry.kind) };
    tell_edited(path, core.put_in_place(path, &leaf, Some(behind.known()))?);
    Ok(())
}

/// Directories that hold nothing any more give way to a file of their name.
fn clear_empty_directories(core: &VfsCore, path: &TreePath) {
    let mut open = vec![path.clone()];
    let mut seen = BTreeSet::new();
    while let Some(directory) = open.last().cloned() {
        let below = core.tree.list(&directory).unwrap_or_default();
        if seen.insert(directory.clone()) && !below.is_empty() {
            open.extend(below.iter().map(|(name, _)| directory.join(name)));
        } else {
            // What cannot be removed is not empty, and stays.
            let _ = core.tree.remove_directory(&directory);
            open.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use svcfs_base::Change;
    use svcfs_store::RecordKind;

    use super::*;
    use crate::tests::{TestSpace, at, eve};

    /// Writes to a file and sets its time of change, as nothing but a broken disk does.
    #[expect(clippy::disallowed_methods, reason = "a disk's fault is imitated")]
    fn filled(space: &TestSpace, text: &str, modified: SystemTime) {
        let file = space.directory.path().join("b.md");
        std::fs::write(&file, text).unwrap();
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    }

    #[test]
    fn a_file_with_our_time_and_other_bytes_is_no_edit_though_the_index_of_git_was_lost_too() {
        let space = TestSpace::new();
        space.put("a.md", "one");
        space.vfs.apply(&eve(), Change::rename(at("a.md"), at("b.md"))).unwrap();
        space.vfs.wait_committed().unwrap();
        let core = &space.vfs.core;
        // Of the journal rows are made when it is full, or when a root is opened.
        let unsettled = core.log.pending_records().unwrap();
        let logged = ReplaySet::new(&unsettled);
        let is_lost = || has_time_of_another(core, &logged, &at("b.md")).unwrap();
        let modified = core.tree.stat(&at("b.md")).unwrap().modified;
        assert!(!is_lost());
        filled(&space, "of a reflog", modified);
        assert!(is_lost());
        filled(&space, "an edit", modified + Duration::from_nanos(1));
        assert!(!is_lost());
        assert!(!has_time_of_another(core, &logged, &at("never.md")).unwrap());
        filled(&space, "of a reflog", modified);
        space.vfs.close().unwrap();
        assert!(has_time_of_another(core, &ReplaySet::new(&[]), &at("b.md")).unwrap());
    }

    #[test]
    fn whatever_was_written_is_known_by_its_time_through_whichever_door_it_came() {
        let space = TestSpace::new();
        let large = "of many lines\n".repeat(100_000);
        space.put("b.md", &large);
        space.vfs.wait_applied().unwrap();
        let core = &space.vfs.core;
        let modified = core.tree.stat(&at("b.md")).unwrap().modified;
        space.vfs.apply(&eve(), Change::remove(at("b.md"))).unwrap();
        space.vfs.wait_committed().unwrap();
        // The cut takes the removal of the name, and part of what has had the room of the file since is in it.
        filled(&space, &large.replacen("lines", "pages", 7), modified);
        let unsettled = core.log.pending_records().unwrap();
        assert!(has_time_of_another(core, &ReplaySet::new(&unsettled), &at("b.md")).unwrap());
    }

    #[test]
    fn what_the_power_took_of_a_page_that_others_committed_is_what_came_on_top_of_them_or_what_they_left() {
        let space = TestSpace::new();
        space.put("a.md", "one");
        space.put("a.md", "two");
        let core = &space.vfs.core;
        let page = at("a.md");
        let unsettled = core.log.pending_records().unwrap();
        let [one, two] = [&unsettled[0], &unsettled[1]];
        let last_word = |records: &[LogRecord]| {
            let logged = ReplaySet::new(records);
            assert!(logged.of_others().contains(&page));
            on_top(core, &logged, &[&page]).unwrap()[&page].new
        };
        let with = |role, record: &LogRecord| LogRecord { kind: role, ..record.clone() };
        let (first, second) = (one.entries[0].new, two.entries[0].new);
        // The newest commit has the second text.
        assert_eq!(last_word(&[one.clone(), two.clone(), with(RecordKind::ExternalCommit, one)]), second);
        assert_eq!(last_word(&[one.clone(), with(RecordKind::ExternalCommit, two)]), second);
        assert_eq!(last_word(&[with(RecordKind::Uncommitted, one), with(RecordKind::ExternalCommit, two)]), first);
        let gathered =
            [with(RecordKind::Uncommitted, one), with(RecordKind::ExternalCommit, two), with(RecordKind::Commit, one)];
        assert_eq!(last_word(&gathered), second, "what is gathered has its commit");
    }

    #[test]
    fn a_torn_file_is_told_from_an_edited_one() {
        let content = b"one\ntwo\n";
        for torn in [&b""[..], b"one\n", b"one\n\0\0\0\0", b"\0\0\0"] {
            assert!(is_torn(torn, content), "{torn:?}");
        }
        let large: Vec<u8> = (0..4 * BLOCK).map(|at| b'a' + (at / BLOCK) as u8).collect();
        let with = |range: std::ops::Range<usize>, byte| {
            let mut other = large.clone();
            other[range].fill(byte);
            other
        };
        assert!(is_torn(&with(BLOCK..2 * BLOCK, 0), &large));
        assert!(!is_torn(&with(BLOCK..2 * BLOCK, b'x'), &large) && !is_torn(&with(BLOCK..BLOCK + 9, 0), &large));
        for edited in [&b"two\n"[..], b"one\ntwo\nthree\n", b"one\n\0\0\0\0\0", b"on\0x"] {
            assert!(!is_torn(edited, content), "{edited:?}");
        }
    }
}
