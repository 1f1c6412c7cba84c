//! Blame: the last author of each line.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use git2::{BlameOptions, Blob, DiffOptions, Oid, Patch, Repository};
use svcfs_base::{Actor, CommitId, ETag, Timestamp, TreePath};

use super::external_commits::decode;
use super::{History, HistoryResult, commit_id, oid};

/// Limits of the cache: number of files, and hunks of one file; together about 10 MB.
const MAX_CACHED_FILES: usize = 64;
const MAX_CACHED_HUNKS: usize = 2_000;

/// Consecutive lines last written by one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlameHunk {
    /// Number of the first line, from 1.
    pub first_line: usize,
    /// Number of lines.
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
    /// The path of the file at that time.
    pub path: TreePath,
    /// The commit that wrote it.
    pub commit: CommitId,
    /// Its author.
    pub actor: Actor,
    /// When.
    pub time: Timestamp,
    /// The content.
    pub blob: ETag,
}

/// Lines that a version replaced: the first one before and after, from 0, and the counts.
#[derive(Debug, Clone, Copy)]
struct ReplacedLines {
    old: usize,
    old_count: usize,
    new: usize,
    new_count: usize,
}

/// A line of the newest version, and its position in the version being compared.
#[derive(Debug, Clone, Copy)]
struct BlamedLine {
    newest: usize,
    here: usize,
}

impl History {
    /// The last author of each line of a path at a commit, by walking all earlier commits.
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
                        actor: Actor::new(&decode(&commit, author.name_bytes())),
                        time: Timestamp::from_second(author.when().seconds()).unwrap_or(Timestamp::UNIX_EPOCH),
                    })
                })
                .collect()
        })
    }

    /// The last author of each line of the first of these versions, which are the complete history,
    /// newest first: the result of [`History::blame`] without reading commits that do not touch the
    /// file. Results are cached and reused for the next version.
    ///
    /// # Errors
    /// `Git` when a content is missing.
    pub fn blame_versions(&self, versions: &[FileVersion]) -> HistoryResult<Vec<BlameHunk>> {
        let Some(newest) = versions.first() else { return Ok(Vec::new()) };
        let hunks = self.reader(|repository| {
            let mut content = None;
            let mut lines: Option<Vec<BlamedLine>> = None;
            let mut authors: Vec<LineAuthor> = Vec::new();
            for (at, version) in versions.iter().enumerate() {
                if let Some(cached) = self.blame_cache.lock().get(version) {
                    let Some(lines) = &lines else { return Ok(cached.to_vec()) };
                    lines.iter().for_each(|line| authors[line.newest] = LineAuthor::of_line(cached, line.here));
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
                authors.resize(lines.len().max(authors.len()), LineAuthor::of(version));
                let Some(older) = older.filter(|_| !lines.is_empty()) else {
                    lines.iter().for_each(|line| authors[line.newest] = LineAuthor::of(version));
                    break;
                };
                let before = blob(repository, older.blob)?;
                let parts = changed_lines(before.content(), after.content())?;
                map_to_older(lines, &parts, |line| authors[line] = LineAuthor::of(version));
                content = Some(before);
            }
            Ok(hunks(&authors))
        })?;
        self.blame_cache.lock().insert(newest, &hunks);
        Ok(hunks)
    }

    /// Whether two contents are similar enough for a rename: at least half of the lines are equal.
    ///
    /// # Errors
    /// `Git` when one of them is missing.
    pub fn are_similar(&self, a: ETag, b: ETag) -> HistoryResult<bool> {
        self.reader(|repository| are_similar_contents(blob(repository, a)?.content(), blob(repository, b)?.content()))
    }
}

/// As [`History::are_similar`], for contents that are not stored.
///
/// # Errors
/// `Git` when they cannot be compared.
pub fn are_similar_contents(a: &[u8], b: &[u8]) -> HistoryResult<bool> {
    let total = count_lines(a).max(count_lines(b));
    let changed: usize = changed_lines(a, b)?.iter().map(|part| part.old_count.max(part.new_count)).sum();
    Ok(total > 0 && changed * 2 <= total)
}

fn blob(repository: &Repository, etag: ETag) -> HistoryResult<Blob<'_>> {
    Ok(repository.find_blob(Oid::from_bytes(etag.as_bytes())?)?)
}

/// A last line without a line end counts.
fn count_lines(content: &[u8]) -> usize {
    let ends = content.iter().filter(|byte| **byte == b'\n').count();
    ends + usize::from(content.last().is_some_and(|byte| *byte != b'\n'))
}

fn changed_lines(old: &[u8], new: &[u8]) -> HistoryResult<Vec<ReplacedLines>> {
    let mut options = DiffOptions::new();
    // The settings of `git blame`.
    options.context_lines(0).interhunk_lines(0).indent_heuristic(true).force_text(true);
    // From buffers: for blobs of a repository libgit2 reads attributes from several files for each
    // comparison.
    let patch = Patch::from_buffers(old, None, new, None, Some(&mut options))?;
    let mut changes = Vec::with_capacity(patch.num_hunks());
    for at in 0..patch.num_hunks() {
        let (hunk, _) = patch.hunk(at)?;
        // An empty side has the number of the line before.
        let start = |first: u32, count: u32| (first as usize).saturating_sub(usize::from(count > 0));
        changes.push(ReplacedLines {
            old: start(hunk.old_start(), hunk.old_lines()),
            old_count: hunk.old_lines() as usize,
            new: start(hunk.new_start(), hunk.new_lines()),
            new_count: hunk.new_lines() as usize,
        });
    }
    Ok(changes)
}

/// Maps the lines that the older version has, too, to their positions there, and reports the
/// others.
fn map_to_older(lines: &mut Vec<BlamedLine>, changed_lines: &[ReplacedLines], mut on_new_line: impl FnMut(usize)) {
    let mut parts = changed_lines.iter().peekable();
    // Positions after the last passed hunk, in this version and in the older one.
    let (mut here, mut before) = (0, 0);
    lines.retain_mut(|line| {
        while let Some(part) = parts.next_if(|part| part.new + part.new_count <= line.here) {
            (here, before) = (part.new + part.new_count, part.old + part.old_count);
        }
        let is_new = parts.peek().is_some_and(|part| (part.new..part.new + part.new_count).contains(&line.here));
        if is_new {
            on_new_line(line.newest);
        } else {
            line.here = before + (line.here - here);
        }
        !is_new
    });
}

fn all_lines(content: &[u8]) -> Vec<BlamedLine> {
    (0..count_lines(content)).map(|at| BlamedLine { newest: at, here: at }).collect()
}

fn hunks(authors: &[LineAuthor]) -> Vec<BlameHunk> {
    let mut hunks: Vec<BlameHunk> = Vec::new();
    for (at, LineAuthor { commit, actor, time }) in authors.iter().enumerate() {
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

/// The author of a line.
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

    /// The author of a line, from 0, from hunks that cover all lines.
    fn of_line(hunks: &[BlameHunk], line: usize) -> Self {
        let BlameHunk { commit, actor, time, .. } =
            &hunks[hunks.partition_point(|hunk| hunk.first_line <= line + 1) - 1];
        Self { commit: *commit, actor: actor.clone(), time: *time }
    }
}

/// Hunks of recent versions, by path. A commit's lines never change, so entries never become stale.
#[derive(Debug, Default)]
pub(super) struct BlameCache {
    files: HashMap<TreePath, (CommitId, Vec<BlameHunk>)>,
    /// Oldest first.
    order: VecDeque<TreePath>,
}

impl BlameCache {
    fn get(&self, version: &FileVersion) -> Option<&[BlameHunk]> {
        let (commit, hunks) = self.files.get(&version.path)?;
        (*commit == version.commit).then_some(hunks)
    }

    fn insert(&mut self, version: &FileVersion, hunks: &[BlameHunk]) {
        if hunks.len() > MAX_CACHED_HUNKS {
            return;
        }
        self.order.retain(|path| *path != version.path);
        self.order.push_back(version.path.clone());
        self.files.insert(version.path.clone(), (version.commit, hunks.to_vec()));
        if self.order.len() > MAX_CACHED_FILES
            && let Some(oldest) = self.order.pop_front()
        {
            self.files.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
