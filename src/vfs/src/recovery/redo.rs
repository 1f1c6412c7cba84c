//! Redo: installs the files logged since the checkpoint.

use std::collections::{BTreeSet, HashMap, HashSet};

use svcfs_base::{DiskAttributes, ETag, Fault, LargeFile, TreePath};
use svcfs_store::{
    ExpectedFile, FailPoint, InstallResult, LogEntry, LogRecord, PathState, StatKind, StatePaths, StoreError, WriteTip,
    boot_marker,
};
use tracing::warn;

use super::replay_set::ReplaySet;
use super::uncommitted_records;
use crate::core::{VfsCore, tolerate_type_conflict};
use crate::overlay::OverlayFile;
use crate::progress::{OpenProgress, ProgressReporter};

/// The smallest unit that a disk writes.
const DISK_BLOCK_BYTES: usize = 512;

/// Paths whose file is the last logged state: after a kill nearly all. Changes nothing; the other
/// paths are checked again when they are processed.
pub(super) fn paths_in_place<'r>(core: &VfsCore, replay: &ReplaySet<'r>) -> HashSet<&'r TreePath> {
    let is_in_place = |path: &TreePath, entries: &[&LogEntry]| {
        let newest = entries.last().map(|newest| newest.new.map(|blob| (blob, newest.kind)));
        let on_disk = core.read_worktree(path).map(|on_disk| on_disk.map(|leaf| (leaf.etag, leaf.kind)));
        let is_newest = on_disk.is_ok_and(|on_disk| newest == Some(on_disk));
        // An unversioned large file may have to be replaced.
        is_newest && (newest.is_some_and(|state| state.is_some()) || large_at(core, path).is_none())
    };
    replay.by_path().iter().filter(|(path, entries)| is_in_place(path, entries)).map(|(path, _)| *path).collect()
}

/// A file that is not in its last logged state.
struct RedoEntry<'r> {
    entry: &'r LogEntry,
    disk: DiskAttributes,
    /// Hash on disk at check time: any other content was written externally since.
    found_etag: Option<ETag>,
    large: Option<LargeFile>,
    /// It was removed and created again since: the file on disk is another one.
    is_removed: bool,
}

impl RedoEntry<'_> {
    fn expected(&self) -> ExpectedFile<'_> {
        ExpectedFile { contents: self.found_etag.as_slice(), large: self.large, is_removed: self.is_removed }
    }
}

/// Installs the last logged state of each path, unless `is_done` says that it needs no redo, or the
/// file was edited externally after it was logged.
pub(super) fn redo_files(
    core: &VfsCore,
    checkpoint: WriteTip,
    (replay, is_done): (&ReplaySet<'_>, impl Fn(&TreePath) -> bool),
    reporter: &mut ProgressReporter,
) -> Result<(), Fault> {
    rename_directories(core, replay.records)?;
    // External commits installed their own files: only a power cut or a failed flush loses those.
    let is_trusted = !core.tree.has_sync_failed()
        && boot_marker::opened_since_boot(&StatePaths::new(&core.root), core.tree.boot_time());
    let is_done = |path: &TreePath| is_done(path) || is_trusted && replay.external_paths().contains(path);
    let lost_paths: Vec<_> = replay.external_paths().iter().copied().filter(|path| !is_done(path)).collect();
    let winners = winning_entries(core, replay, &lost_paths)?;
    let missing: Vec<_> = replay.by_path().iter().filter(|(path, _)| !is_done(path)).collect();
    let paths: Vec<_> = missing.iter().map(|(path, _)| **path).collect();
    let recorded = core.versions.checkpoint_states(checkpoint, &paths)?;
    let renamed = renamed_states(replay.records);
    let total = paths.len();
    let (mut changed, mut unexplained) = (Vec::new(), Vec::new());
    reporter.report(OpenProgress::Restoring { files: 0, total });
    for (index, ((path, entries), recorded)) in missing.into_iter().zip(recorded).enumerate() {
        reporter.report_throttled(OpenProgress::Restoring { files: index, total });
        let Some(newest) = winners.get(*path).or(entries.last()) else { continue };
        let is_removed = entries.iter().any(|entry| entry.new.is_none());
        let redo = |found_etag, large, disk| RedoEntry { entry: newest, disk, found_etag, large, is_removed };
        if let Some(large) = large_at(core, path) {
            if entries.iter().any(|entry| entry.replaces_large == Some(large)) {
                changed.push(redo(None, Some(large), merged_attributes(entries)));
            } else if newest.new.is_some() {
                warn!(page.path = %path, "an external process put a file too large for versions here; it is kept");
            }
            continue;
        }
        let on_disk = match core.read_worktree(path) {
            Ok(on_disk) => on_disk.map(|leaf| (leaf.etag, leaf.kind)),
            Err(error) => {
                warn!(page.path = %path, %error, "the file here cannot be read; it is kept");
                continue;
            }
        };
        if on_disk == newest.new.map(|blob| (blob, newest.kind)) {
            continue;
        }
        let found_etag = on_disk.map(|(blob, _)| blob);
        let is_renamed = || renamed.get(path).is_some_and(|states| states.contains(&on_disk));
        if on_disk == recorded || is_logged_state(entries, on_disk) || is_renamed() {
            changed.push(redo(found_etag, None, merged_attributes(entries)));
        } else if is_torn_write(core, replay, (path, entries))? {
            // The file itself is there, with its later attributes.
            let disk = DiskAttributes { modified: newest.attributes.modified, ..DiskAttributes::default() };
            changed.push(redo(found_etag, None, disk));
        } else {
            unexplained.push((*path, redo(found_etag, None, merged_attributes(entries))));
        }
    }
    let lost_paths = paths_with_recycled_blocks(core, replay, unexplained.iter().map(|(path, _)| *path))?;
    for (path, change) in unexplained {
        if lost_paths.contains(path) {
            changed.push(change);
        } else {
            warn!(page.path = %path, "an external edit followed the last write; it is kept and recorded");
        }
    }
    core.fail_points.hit(FailPoint::OpenRestore);
    // Removals first: a directory may replace a file, or a file a directory.
    for redo in changed.iter().filter(|redo| redo.entry.new.is_none()) {
        remove(core, redo)?;
    }
    for redo in &changed {
        if let Some(blob) = redo.entry.new {
            install(core, (redo, blob), replay)?;
        }
    }
    reporter.report(OpenProgress::Restoring { files: total, total });
    Ok(())
}

/// The entry that wins at paths whose last record is an external commit: an uncommitted own one,
/// which will be committed after it, or else the entry in the newest commit.
fn winning_entries<'r>(
    core: &VfsCore,
    replay: &ReplaySet<'r>,
    paths: &[&'r TreePath],
) -> Result<HashMap<&'r TreePath, &'r LogEntry>, StoreError> {
    let uncommitted: HashMap<_, _> = uncommitted_records(replay.records)
        .flat_map(|record| &record.entries)
        .map(|entry| (&entry.path, entry))
        .collect();
    let newest = core.versions.current_states(paths)?;
    let winner = |(path, newest): (&&'r TreePath, PathState)| {
        let is_newest = |entry: &&&LogEntry| entry.new.map(|blob| (blob, entry.kind)) == newest;
        let entries = replay.by_path().get(*path)?;
        let entry = uncommitted.get(*path).or_else(|| entries.iter().rev().find(is_newest))?;
        Some((*path, *entry))
    };
    Ok(paths.iter().zip(newest).filter_map(winner).collect())
}

/// Rewrites the files whose content is in the log; external edits and removals stay.
pub(super) fn rewrite_files(core: &VfsCore, replay: &ReplaySet<'_>) -> Result<(), Fault> {
    for (path, entries) in replay.by_path() {
        // Not always the last one: an external commit may be logged after own sets that
        // follow it.
        let on_disk = core.read_worktree(path)?.map(|leaf| leaf.etag);
        let expected_block = entries.iter().rev().filter_map(|entry| entry.new).find(|blob| on_disk == Some(*blob));
        let Some((blob, content)) = expected_block.and_then(|blob| Some((blob, replay.logged_content(blob)?))) else {
            continue;
        };
        let Ok(stat) = core.tree.stat(path) else { continue };
        let Some(kind) = stat.file_kind() else { continue };
        let disk = DiskAttributes { modified: Some(stat.modified), ..DiskAttributes::default() };
        // A conflicting edit is found by the next rescan.
        let _ = core.install_logged(
            path,
            &OverlayFile { disk, ..OverlayFile::new(content, kind) },
            Some([blob][..].into()),
        )?;
    }
    Ok(())
}

/// Whether an entry of the path has this state, before or after it.
fn is_logged_state(entries: &[&LogEntry], on_disk: PathState) -> bool {
    entries
        .iter()
        .flat_map(|entry| [entry.old, entry.new].map(|blob| blob.map(|blob| (blob, entry.kind))))
        .any(|state| state == on_disk)
}

fn large_at(core: &VfsCore, path: &TreePath) -> Option<LargeFile> {
    core.tree.stat(path).ok().and_then(|stat| stat.large_file())
}

/// States that directory renames moved to each path. The same set may overwrite them, to update
/// links to the new name.
fn renamed_states(records: &[LogRecord]) -> HashMap<TreePath, Vec<PathState>> {
    let mut renamed: HashMap<TreePath, Vec<PathState>> = HashMap::new();
    for record in records {
        for (from, to) in &record.moves {
            for entry in record.entries.iter().filter(|entry| entry.new.is_none()) {
                if let (Some(path), Some(blob)) = (entry.path.rebase(from, to), entry.old) {
                    renamed.entry(path).or_default().push(Some((blob, entry.kind)));
                }
            }
        }
    }
    renamed
}

/// Repeats directory renames that did not reach the disk. Where a later record uses either name,
/// the rename did reach it: the directory there now is another one.
fn rename_directories(core: &VfsCore, records: &[LogRecord]) -> Result<(), Fault> {
    for (index, record) in records.iter().enumerate() {
        for (from, to) in &record.moves {
            let is_used_later = records[index + 1..].iter().any(|later| {
                let entries = later.entries.iter().map(|entry| &entry.path);
                let moves = later.moves.iter().flat_map(|(a, b)| [a, b]);
                entries
                    .chain(moves)
                    .any(|path| [from, to].iter().any(|name| path.is_under(name) || name.is_under(path)))
            });
            if is_used_later || core.tree.stat(to).is_ok() || core.tree.stat(from).is_err() {
                continue;
            }
            let moved = core.tree.make_parents(to).and_then(|_| core.tree.rename(from, to, false));
            tolerate_type_conflict(to, moved)?;
        }
    }
    Ok(())
}

/// Whether a file is one of the path's logged contents, torn by a power cut or disk failure: it was
/// renamed into place before its bytes were written. Zeros are no edit; a shorter file may be one,
/// unless it is older than the boot.
fn is_torn_write(
    core: &VfsCore,
    replay: &ReplaySet<'_>,
    (path, entries): (&TreePath, &[&LogEntry]),
) -> Result<bool, StoreError> {
    let Ok((on_disk, stat)) = core.tree.read_leaf(path) else { return Ok(false) };
    let is_edit = !on_disk.contains(&0) && stat.changed >= core.tree.boot_time();
    if stat.kind != StatKind::File || is_edit {
        return Ok(false);
    }
    for blob in entries.iter().filter_map(|entry| entry.new) {
        if replay.find_content(core, path, blob)?.is_some_and(|content| is_torn(&on_disk, &content)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Files with recycled blocks after a power cut: ext4 with `data=writeback` reuses the blocks of a
/// removed file before the removal is safe. Such a file did not change since boot, nor since
/// `.git/index` or the log recorded it.
fn paths_with_recycled_blocks<'p>(
    core: &VfsCore,
    replay: &ReplaySet<'_>,
    paths: impl Iterator<Item = &'p TreePath>,
) -> Result<HashSet<&'p TreePath>, Fault> {
    let boot_time = core.tree.boot_time();
    let is_older = |path: &&TreePath| core.tree.stat(path).is_ok_and(|stat| stat.changed < boot_time);
    let paths: Vec<_> = paths.filter(is_older).collect();
    if paths.is_empty() {
        return Ok(HashSet::new());
    }
    let mut recycled = core.versions.unmodified_paths(&paths)?;
    for path in paths {
        if !recycled.contains(path) && holds_recycled_blocks(core, replay, path)? {
            recycled.insert(path);
        }
    }
    Ok(recycled)
}

/// Whether a file has the exact mtime of another content that svcfs wrote here: an external edit
/// would have changed the mtime.
fn holds_recycled_blocks(core: &VfsCore, replay: &ReplaySet<'_>, path: &TreePath) -> Result<bool, StoreError> {
    let Ok((on_disk, stat)) = core.tree.read_leaf(path) else { return Ok(false) };
    let entries = replay.by_path().get(path).into_iter().flatten();
    let pending =
        entries.filter(|entry| entry.attributes.modified == Some(stat.modified)).filter_map(|entry| entry.new);
    let known_etags: Vec<ETag> = pending.chain(core.log.etags_at(path, stat.modified)?).collect();
    Ok(stat.kind == StatKind::File && !known_etags.is_empty() && !known_etags.contains(&ETag::from_content(&on_disk)))
}

/// A prefix of the content, then zeros or nothing; or all of it, with some blocks zero.
fn is_torn(on_disk: &[u8], content: &[u8]) -> bool {
    let zeros = on_disk.iter().rev().take_while(|byte| **byte == 0).count();
    let is_cut = on_disk.len() <= content.len() && content.starts_with(&on_disk[..on_disk.len() - zeros]);
    let mut blocks = on_disk.chunks(DISK_BLOCK_BYTES).zip(content.chunks(DISK_BLOCK_BYTES));
    let is_lost =
        |(block, expected_block): (&[u8], &[u8])| block == expected_block || block.iter().all(|byte| *byte == 0);
    is_cut || on_disk.len() == content.len() && blocks.all(is_lost)
}

fn remove(core: &VfsCore, redo: &RedoEntry<'_>) -> Result<(), Fault> {
    let path = &redo.entry.path;
    match core.tree.remove_expected(path, redo.expected()) {
        Ok(outcome) => warn_if_edited(path, outcome),
        Err(error) if error.is_missing() => {}
        Err(error) => tolerate_type_conflict(path, Err(error))?,
    }
    Ok(())
}

fn warn_if_edited(path: &TreePath, outcome: InstallResult) {
    if outcome == InstallResult::ConflictingEdit {
        // The rescan that follows compares it with history.
        warn!(page.path = %path, "an external edit came during recovery; it is kept and recorded");
    }
}

/// Merged attributes: a write without mode or owner inherits from the write before it.
fn merged_attributes(entries: &[&LogEntry]) -> DiskAttributes {
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

fn install(core: &VfsCore, (redo, blob): (&RedoEntry<'_>, ETag), replay: &ReplaySet<'_>) -> Result<(), Fault> {
    let RedoEntry { entry, disk, .. } = redo;
    let path = &entry.path;
    let content = match &entry.content {
        Some(content) => Some(content.clone()),
        None => replay.find_content(core, path, blob)?,
    };
    let Some(content) = content else { return Ok(()) };
    clear_empty_directories(core, path);
    let leaf = OverlayFile { disk: *disk, ..OverlayFile::new(content, entry.kind) };
    warn_if_edited(path, core.install_logged(path, &leaf, Some(redo.expected()))?);
    Ok(())
}

/// Removes empty directories in the place of a file.
fn clear_empty_directories(core: &VfsCore, path: &TreePath) {
    let mut stack = vec![path.clone()];
    let mut visited = BTreeSet::new();
    while let Some(directory) = stack.last().cloned() {
        let below = core.tree.list(&directory).unwrap_or_default();
        if visited.insert(directory.clone()) && !below.is_empty() {
            stack.extend(below.iter().map(|(name, _)| directory.join(name)));
        } else {
            // A directory that cannot be removed is not empty, and stays.
            let _ = core.tree.remove_directory(&directory);
            stack.pop();
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
    fn a_file_with_own_mtime_and_other_bytes_is_no_external_edit() {
        let space = TestSpace::new();
        space.put("a.md", "one");
        space.vfs.apply(&eve(), Change::rename(at("a.md"), at("b.md"))).unwrap();
        space.vfs.wait_committed().unwrap();
        let core = &space.vfs.core;
        // Of the journal rows are made when it is full, or when a root is opened.
        let unsettled = core.log.pending_records().unwrap();
        let logged = ReplaySet::new(&unsettled);
        let is_lost = || holds_recycled_blocks(core, &logged, &at("b.md")).unwrap();
        let modified = core.tree.stat(&at("b.md")).unwrap().modified;
        assert!(!is_lost());
        filled(&space, "of a reflog", modified);
        assert!(is_lost());
        filled(&space, "an edit", modified + Duration::from_nanos(1));
        assert!(!is_lost());
        assert!(!holds_recycled_blocks(core, &logged, &at("never.md")).unwrap());
        filled(&space, "of a reflog", modified);
        space.vfs.close().unwrap();
        assert!(holds_recycled_blocks(core, &ReplaySet::new(&[]), &at("b.md")).unwrap());
    }

    /// Shows: EDIT-4
    #[test]
    fn every_written_file_is_recognised_by_mtime_for_any_protocol() {
        let space = TestSpace::new();
        let large = "of many lines\n".repeat(100_000);
        space.put("b.md", &large);
        space.vfs.wait_applied().unwrap();
        let core = &space.vfs.core;
        let modified = core.tree.stat(&at("b.md")).unwrap().modified;
        space.vfs.apply(&eve(), Change::remove(at("b.md"))).unwrap();
        space.vfs.wait_committed().unwrap();
        // The cut takes the removal of the name, and part of what has had the room of the file
        // since is in it.
        filled(&space, &large.replacen("lines", "pages", 7), modified);
        let unsettled = core.log.pending_records().unwrap();
        assert!(holds_recycled_blocks(core, &ReplaySet::new(&unsettled), &at("b.md")).unwrap());
    }

    #[test]
    fn pages_in_external_commits_are_restored_after_power_loss() {
        let space = TestSpace::new();
        space.put("a.md", "one");
        space.put("a.md", "two");
        let core = &space.vfs.core;
        let page = at("a.md");
        let unsettled = core.log.pending_records().unwrap();
        let [one, two] = [&unsettled[0], &unsettled[1]];
        let last_word = |records: &[LogRecord]| {
            let logged = ReplaySet::new(records);
            assert!(logged.external_paths().contains(&page));
            winning_entries(core, &logged, &[&page]).unwrap()[&page].new
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

    /// Shows: EDIT-4
    #[test]
    fn a_torn_file_is_distinguished_from_an_edited_one() {
        let content = b"one\ntwo\n";
        for torn in [&b""[..], b"one\n", b"one\n\0\0\0\0", b"\0\0\0"] {
            assert!(is_torn(torn, content), "{torn:?}");
        }
        let large: Vec<u8> = (0..4 * DISK_BLOCK_BYTES).map(|at| b'a' + (at / DISK_BLOCK_BYTES) as u8).collect();
        let with = |range: std::ops::Range<usize>, byte| {
            let mut other = large.clone();
            other[range].fill(byte);
            other
        };
        assert!(is_torn(&with(DISK_BLOCK_BYTES..2 * DISK_BLOCK_BYTES, 0), &large));
        assert!(
            !is_torn(&with(DISK_BLOCK_BYTES..2 * DISK_BLOCK_BYTES, b'x'), &large)
                && !is_torn(&with(DISK_BLOCK_BYTES..DISK_BLOCK_BYTES + 9, 0), &large)
        );
        for edited in [&b"two\n"[..], b"one\ntwo\nthree\n", b"one\n\0\0\0\0\0", b"on\0x"] {
            assert!(!is_torn(edited, content), "{edited:?}");
        }
    }
}
