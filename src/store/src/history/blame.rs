//! Who last wrote each line.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use git2::{BlameOptions, Blob, DiffOptions, Oid, Patch, Repository};
use svcfs_base::{Actor, CommitId, ETag, Timestamp, TreePath};

use super::external_commits::decoded;
use super::{History, HistoryResult, commit_id, oid};

/// How many files are remembered, and how many hunks of one at most: together some 10 MB.
const MAX_KEPT_FILES: usize = 64;
const MAX_KEPT_HUNKS: usize = 2_000;

/// Consecutive lines last written by one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlameHunk {
    /// Number of the first line, from 1.
    pub first_line: usize,
    /// How many lines.
    pub lines: usize,
    /// The commit.
    pub commit: CommitId,
    /// Its author.
    pub actor: Actor,
    /// When.
    pub time: Timestamp,
}

/// One version of a file.
#[derive(Debug, Clone)]
pub struct FileVersion {
    /// The file's name then.
    pub path: TreePath,
    /// The commit that made it.
    pub commit: CommitId,
    /// Its author.
    pub actor: Actor,
    /// When.
    pub time: Timestamp,
    /// The content.
    pub blob: ETag,
}

/// Lines that a version replaced: the first of them before and after, from 0, and how many.
#[derive(Debug, Clone, Copy)]
struct ReplacedLines {
    old: usize,
    old_count: usize,
    new: usize,
    new_count: usize,
}

/// A line of the newest version, and where it stands in the version looked at.
#[derive(Debug, Clone, Copy)]
struct BlamedLine {
    newest: usize,
    here: usize,
}

impl History {
    /// Who last wrote each line of a path as of a commit, by walking through every commit before it.
    ///
    /// # Errors
    /// `Git`.
    pub fn blame(&self, path: &TreePath, newest: CommitId) -> HistoryResult<Vec<BlameHunk>> {
        self.reader(|repository| {
            let mut options = BlameOptions::new();
            options.newest_commit(oid(newest)?);
            let blame = repository.blame_file(Path::new(path.as_str()), Some(&mut options))?;
            blame
                .iter()
                .map(|hunk| {
                    let commit = repository.find_commit(hunk.final_commit_id())?;
                    let author = commit.author();
                    Ok(BlameHunk {
                        first_line: hunk.final_start_line(),
                        lines: hunk.lines_in_hunk(),
                        commit: commit_id(commit.id()),
                        actor: Actor::new(&decoded(&commit, author.name_bytes())),
                        time: Timestamp::from_second(author.when().seconds()).unwrap_or(Timestamp::UNIX_EPOCH),
                    })
                })
                .collect()
        })
    }

    /// Who last wrote each line of the first of these versions, which are all there are, newest first: the same as
    /// [`History::blame`] without looking at commits that did not touch the file. What was found for one version is remembered
    /// and used for the next.
    ///
    /// # Errors
    /// `Git` when a content is missing.
    pub fn blame_versions(&self, versions: &[FileVersion]) -> HistoryResult<Vec<BlameHunk>> {
        let Some(newest) = versions.first() else { return Ok(Vec::new()) };
        let hunks = self.reader(|repository| {
            let mut content = None;
            let mut lines: Option<Vec<BlamedLine>> = None;
            let mut writers: Vec<LineAuthor> = Vec::new();
            for (at, version) in versions.iter().enumerate() {
                if let Some(known) = self.blamed.lock().of(version) {
                    let Some(lines) = &lines else { return Ok(known.to_vec()) };
                    lines.iter().for_each(|line| writers[line.newest] = LineAuthor::of_line(known, line.here));
                    break;
                }
                let older = versions.get(at + 1);
                if older.is_some_and(|older| older.blob == version.blob) {
                    continue;
                }
                let after = match content.take() {
                    Some(content) => content,
                    None => blob(repository, version.blob)?,
                };
                let lines = lines.get_or_insert_with(|| all_lines(after.content()));
                writers.resize(lines.len().max(writers.len()), LineAuthor::of(version));
                let Some(older) = older.filter(|_| !lines.is_empty()) else {
                    lines.iter().for_each(|line| writers[line.newest] = LineAuthor::of(version));
                    break;
                };
                let before = blob(repository, older.blob)?;
                let parts = replaced(&before, &after)?;
                pass_on(lines, &parts, |line| writers[line] = LineAuthor::of(version));
                content = Some(before);
            }
            Ok(hunks(&writers))
        })?;
        self.blamed.lock().keep(newest, &hunks);
        Ok(hunks)
    }

    /// Whether two contents are so alike that one may be the other under another name: at least half of the lines are the same.
    ///
    /// # Errors
    /// `Git` when one of them is missing.
    pub fn are_similar(&self, one: ETag, other: ETag) -> HistoryResult<bool> {
        self.reader(|repository| {
            let (one, other) = (blob(repository, one)?, blob(repository, other)?);
            let total = count_lines(one.content()).max(count_lines(other.content()));
            let changed: usize = replaced(&one, &other)?.iter().map(|part| part.old_count.max(part.new_count)).sum();
            Ok(total > 0 && changed * 2 <= total)
        })
    }
}

fn blob(repository: &Repository, etag: ETag) -> HistoryResult<Blob<'_>> {
    Ok(repository.find_blob(Oid::from_bytes(etag.as_bytes())?)?)
}

/// A last line without its end is a line, too.
fn count_lines(content: &[u8]) -> usize {
    let ends = content.iter().filter(|byte| **byte == b'\n').count();
    ends + usize::from(content.last().is_some_and(|byte| *byte != b'\n'))
}

fn replaced(old: &Blob<'_>, new: &Blob<'_>) -> HistoryResult<Vec<ReplacedLines>> {
    let mut options = DiffOptions::new();
    // As stock git compares for `git blame`.
    options.context_lines(0).interhunk_lines(0).indent_heuristic(true).force_text(true);
    // Not as blobs of a repository: libgit2 then looks for attributes, in several files for each comparison.
    let patch = Patch::from_buffers(old.content(), None, new.content(), None, Some(&mut options))?;
    let mut found = Vec::with_capacity(patch.num_hunks());
    for at in 0..patch.num_hunks() {
        let (hunk, _) = patch.hunk(at)?;
        // Where nothing stands on one side, its number is that of the line before.
        let start = |first: u32, count: u32| (first as usize).saturating_sub(usize::from(count > 0));
        found.push(ReplacedLines {
            old: start(hunk.old_start(), hunk.old_lines()),
            old_count: hunk.old_lines() as usize,
            new: start(hunk.new_start(), hunk.new_lines()),
            new_count: hunk.new_lines() as usize,
        });
    }
    Ok(found)
}

/// Keeps the lines that the version before has, too, at their places there; the others are this version's.
fn pass_on(lines: &mut Vec<BlamedLine>, replaced: &[ReplacedLines], mut written_here: impl FnMut(usize)) {
    let mut parts = replaced.iter().peekable();
    // What the places before are ahead of those here, behind the last part that was passed.
    let (mut here, mut before) = (0, 0);
    lines.retain_mut(|line| {
        while let Some(part) = parts.next_if(|part| part.new + part.new_count <= line.here) {
            (here, before) = (part.new + part.new_count, part.old + part.old_count);
        }
        let is_new = parts.peek().is_some_and(|part| (part.new..part.new + part.new_count).contains(&line.here));
        if is_new {
            written_here(line.newest);
        } else {
            line.here = before + (line.here - here);
        }
        !is_new
    });
}

fn all_lines(content: &[u8]) -> Vec<BlamedLine> {
    (0..count_lines(content)).map(|at| BlamedLine { newest: at, here: at }).collect()
}

fn hunks(writers: &[LineAuthor]) -> Vec<BlameHunk> {
    let mut hunks: Vec<BlameHunk> = Vec::new();
    for (at, LineAuthor { commit, actor, time }) in writers.iter().enumerate() {
        match hunks.last_mut() {
            Some(hunk) if hunk.commit == *commit => hunk.lines += 1,
            _ => hunks.push(BlameHunk {
                first_line: at + 1,
                lines: 1,
                commit: *commit,
                actor: actor.clone(),
                time: *time,
            }),
        }
    }
    hunks
}

/// Who wrote a line.
#[derive(Debug, Clone)]
struct LineAuthor {
    commit: CommitId,
    actor: Actor,
    time: Timestamp,
}

impl LineAuthor {
    fn of(version: &FileVersion) -> Self {
        Self { commit: version.commit, actor: version.actor.clone(), time: version.time }
    }

    /// That of a line, from 0, of a version whose hunks are known and cover all its lines.
    fn of_line(hunks: &[BlameHunk], line: usize) -> Self {
        let BlameHunk { commit, actor, time, .. } =
            &hunks[hunks.partition_point(|hunk| hunk.first_line <= line + 1) - 1];
        Self { commit: *commit, actor: actor.clone(), time: *time }
    }
}

/// What was found for the newest version of some files. A version's lines never change, so nothing here is ever wrong.
#[derive(Debug, Default)]
pub(super) struct BlameCache {
    files: HashMap<TreePath, (CommitId, Vec<BlameHunk>)>,
    /// Longest unused first.
    order: VecDeque<TreePath>,
}

impl BlameCache {
    fn of(&self, version: &FileVersion) -> Option<&[BlameHunk]> {
        let (commit, hunks) = self.files.get(&version.path)?;
        (*commit == version.commit).then_some(hunks)
    }

    fn keep(&mut self, version: &FileVersion, hunks: &[BlameHunk]) {
        if hunks.len() > MAX_KEPT_HUNKS {
            return;
        }
        self.order.retain(|path| *path != version.path);
        self.order.push_back(version.path.clone());
        self.files.insert(version.path.clone(), (version.commit, hunks.to_vec()));
        if self.order.len() > MAX_KEPT_FILES
            && let Some(oldest) = self.order.pop_front()
        {
            self.files.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
