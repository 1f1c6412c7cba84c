//! A parent's tree with changed paths.
//!
//! Invariant: trees have git's order and format, and contain no name that git refuses.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use git2::{Oid, Repository};
use svcfs_base::{FileKind, PathComponent, TreePath};

use super::object::ObjectBuilder;
use super::{HistoryResult, file_mode};
use crate::{StoreError, git_names};

const TREE_MODE: u32 = 0o040_000;
const LINK_MODE: u32 = 0o120_000;

/// The changes of a commit, as a tree of names. Iterative everywhere: a path may have 2,000 levels.
pub(super) struct TreeChanges<'a> {
    /// The root first; each node comes after the one of its directory.
    nodes: Vec<ChangeNode<'a>>,
}

/// The change of one name, and of the names below it.
#[derive(Default)]
struct ChangeNode<'a> {
    leaf: Option<TreeLeaf<'a>>,
    below: BTreeMap<&'a str, usize>,
}

struct TreeLeaf<'a> {
    path: &'a TreePath,
    /// The new blob; none to remove the file.
    blob: Option<(FileKind, Oid)>,
}

impl Default for TreeChanges<'_> {
    fn default() -> Self {
        Self { nodes: vec![ChangeNode::default()] }
    }
}

impl<'a> TreeChanges<'a> {
    /// Records the change of a path; the last one wins.
    pub(super) fn set(&mut self, path: &'a TreePath, blob: Option<(FileKind, Oid)>) {
        let mut at = 0;
        for name in path.components() {
            let next = self.nodes.len();
            at = *self.nodes[at].below.entry(name).or_insert(next);
            if at == next {
                self.nodes.push(ChangeNode::default());
            }
        }
        self.nodes[at].leaf = Some(TreeLeaf { path, blob });
    }

    /// A path at or below a node that gets a file.
    fn any_path(&self, node: usize) -> Option<&'a TreePath> {
        let mut pending = vec![node];
        while let Some(at) = pending.pop() {
            let ChangeNode { leaf, below } = &self.nodes[at];
            if let Some(leaf) = leaf.as_ref().filter(|leaf| leaf.blob.is_some()) {
                return Some(leaf.path);
            }
            pending.extend(below.values().rev());
        }
        None
    }
}

/// Mode and object of a tree entry.
type EntryState = Option<(u32, Oid)>;

/// One entry of a tree.
struct TreeEntry<'a> {
    mode: u32,
    name: &'a [u8],
    id: Oid,
}

impl TreeEntry<'_> {
    const fn is_tree(&self) -> bool {
        self.mode == TREE_MODE
    }
}

/// Applies changes to the tree `base`; none when the result is empty.
pub(super) fn apply_changes(
    objects: &mut ObjectBuilder,
    repository: &Repository,
    base: Option<Oid>,
    changes: &TreeChanges<'_>,
) -> HistoryResult<Option<Oid>> {
    let mut before: Vec<EntryState> = vec![None; changes.nodes.len()];
    before[0] = base.map(|id| (TREE_MODE, id));
    // Downwards: what each changed name was.
    for (node, change) in changes.nodes.iter().enumerate() {
        let Some((TREE_MODE, id)) = before[node].filter(|_| !change.below.is_empty()) else { continue };
        let raw = objects.raw_tree(repository, id)?;
        let entries = parse_tree(&raw)?;
        for (name, below) in &change.below {
            before[*below] = position(&entries, name.as_bytes()).ok().map(|at| (entries[at].mode, entries[at].id));
        }
    }
    // Upwards: what it becomes.
    let mut after: Vec<EntryState> = vec![None; changes.nodes.len()];
    for node in (1..changes.nodes.len()).rev() {
        after[node] = entry_after(objects, repository, (&before, &after), (changes, node))?;
    }
    directory_after(objects, repository, base, (&before, &after), (changes, 0))
}

/// The tree of a directory after the changes of its names; none when it is empty.
fn directory_after(
    objects: &mut ObjectBuilder,
    repository: &Repository,
    base: Option<Oid>,
    (before, after): (&[EntryState], &[EntryState]),
    (changes, node): (&TreeChanges<'_>, usize),
) -> HistoryResult<Option<Oid>> {
    let below = &changes.nodes[node].below;
    if below.values().all(|below| before[*below] == after[*below]) {
        return Ok(base);
    }
    let raw = match base {
        Some(id) => objects.raw_tree(repository, id)?,
        None => Vec::new().into(),
    };
    let mut entries = parse_tree(&raw)?;
    for (name, below) in below {
        let (before, after) = (before[*below], after[*below]);
        if after == before {
            continue;
        }
        if before.is_none() {
            check_name(name, (changes, *below), after)?;
        }
        if let Ok(at) = position(&entries, name.as_bytes()) {
            entries.remove(at);
        }
        if let Some((mode, id)) = after {
            let entry = TreeEntry { mode, name: name.as_bytes(), id };
            let at = entries.partition_point(|b| compare_entries(b, &entry) == Ordering::Less);
            entries.insert(at, entry);
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let mut raw = Vec::with_capacity(entries.len() * 40);
    for entry in &entries {
        raw.extend_from_slice(format!("{:o} ", entry.mode).as_bytes());
        raw.extend_from_slice(entry.name);
        raw.push(0);
        raw.extend_from_slice(entry.id.as_bytes());
    }
    Ok(Some(objects.tree(repository, raw)?))
}

/// The files of a tree at these paths, in order; each directory is read once.
pub(super) fn leaves(
    objects: &mut ObjectBuilder,
    repository: &Repository,
    root: Oid,
    paths: &[&TreePath],
) -> HistoryResult<Vec<Option<(Oid, FileKind)>>> {
    let mut requested: Vec<_> =
        paths.iter().enumerate().map(|(at, path)| WantedPath { names: path.components().collect(), at }).collect();
    requested.sort_unstable_by(|a, b| a.names.cmp(&b.names));
    let mut results = vec![None; paths.len()];
    // Paths, sorted, and the tree of the directory that their first `depth` names form.
    let mut pending = vec![(root, 0, &*requested)];
    while let Some((tree, depth, requested)) = pending.pop() {
        let raw = objects.raw_tree(repository, tree)?;
        let entries = parse_tree(&raw)?;
        // The root itself is no file.
        let requested = &requested[requested.partition_point(|requested| requested.names.len() <= depth)..];
        for same in requested.chunk_by(|a, b| a.names[depth] == b.names[depth]) {
            let Ok(at) = position(&entries, same[0].names[depth].as_bytes()) else { continue };
            let TreeEntry { mode, id, .. } = entries[at];
            let (here, deeper) = same.split_at(same.partition_point(|requested| requested.names.len() == depth + 1));
            for requested in here {
                let kind = i32::try_from(mode).ok().and_then(FileKind::from_git_mode);
                results[requested.at] = kind.map(|kind| (id, kind));
            }
            if mode == TREE_MODE && !deeper.is_empty() {
                pending.push((id, depth + 1, deeper));
            }
        }
    }
    Ok(results)
}

/// A requested path, and its position in the result.
struct WantedPath<'a> {
    names: Vec<&'a str>,
    at: usize,
}

/// The files of a tree that conflict with a file at a path: one where a directory above it must be,
/// or all below it.
pub(super) fn type_conflicts(
    objects: &mut ObjectBuilder,
    repository: &Repository,
    root: Oid,
    path: &TreePath,
) -> HistoryResult<Vec<TreePath>> {
    let (mut tree, mut at) = (root, TreePath::root());
    for name in path.components() {
        let raw = objects.raw_tree(repository, tree)?;
        let entries = parse_tree(&raw)?;
        let Ok(index) = position(&entries, name.as_bytes()) else { return Ok(Vec::new()) };
        let Ok(name) = PathComponent::parse(name) else { return Ok(Vec::new()) };
        at = at.join(&name);
        if !entries[index].is_tree() {
            return Ok(if at == *path { Vec::new() } else { vec![at] });
        }
        tree = entries[index].id;
    }
    let mut below = Vec::new();
    let mut pending = vec![(at, tree)];
    while let Some((directory, tree)) = pending.pop() {
        let raw = objects.raw_tree(repository, tree)?;
        for entry in parse_tree(&raw)? {
            // Names that svcfs cannot represent conflict as well.
            let name = std::str::from_utf8(entry.name).ok().and_then(|name| PathComponent::parse(name).ok());
            let at = name.map_or_else(|| directory.clone(), |name| directory.join(&name));
            if entry.is_tree() && at != directory { pending.push((at, entry.id)) } else { below.push(at) }
        }
    }
    Ok(below)
}

/// The entry of one name afterwards. The names below it are done.
fn entry_after(
    objects: &mut ObjectBuilder,
    repository: &Repository,
    states: (&[EntryState], &[EntryState]),
    (changes, node): (&TreeChanges<'_>, usize),
) -> HistoryResult<EntryState> {
    let (before, change) = (states.0[node], &changes.nodes[node]);
    let directory = before.filter(|(mode, _)| *mode == TREE_MODE).map(|(_, id)| id);
    let file = before.filter(|(mode, _)| *mode != TREE_MODE);
    let removes_file = change.leaf.as_ref().is_some_and(|leaf| leaf.blob.is_none());
    let mut below = directory;
    if !change.below.is_empty() {
        let is_blocked = file.is_some() && !removes_file;
        let written = || change.below.values().find_map(|below| changes.any_path(*below));
        if let Some(path) = is_blocked.then(written).flatten() {
            return Err(unrecordable(path, "a directory above it is a file"));
        }
        below = directory_after(objects, repository, directory, states, (changes, node))?;
    }
    match change.leaf.as_ref() {
        Some(TreeLeaf { path, blob: Some((kind, id)) }) => match below {
            Some(_) => Err(unrecordable(path, "a directory has the same name")),
            None => Ok(Some((u32::try_from(i32::from(file_mode(*kind))).unwrap_or(0o100_644), *id))),
        },
        Some(TreeLeaf { blob: None, .. }) => Ok(below.map(|id| (TREE_MODE, id))),
        None => Ok(below.map(|id| (TREE_MODE, id)).or(file)),
    }
}

fn check_name(name: &str, (changes, node): (&TreeChanges<'_>, usize), after: EntryState) -> HistoryResult<()> {
    let is_symlink = after.is_some_and(|(mode, _)| mode == LINK_MODE);
    match (git_names::refusal_of_name(name, is_symlink), changes.any_path(node)) {
        (Some(reason), Some(path)) => Err(unrecordable(path, &reason)),
        (Some(_) | None, _) => Ok(()),
    }
}

fn unrecordable(path: &TreePath, reason: &str) -> StoreError {
    StoreError::Unrecordable { path: path.clone(), reason: reason.to_owned() }
}

fn parse_tree(raw: &[u8]) -> HistoryResult<Vec<TreeEntry<'_>>> {
    let damaged = || StoreError::Damaged("a git tree object cannot be read".to_owned());
    let mut entries = Vec::with_capacity(raw.len() / 32);
    let mut rest = raw;
    while !rest.is_empty() {
        let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(damaged)?;
        let mode = std::str::from_utf8(&rest[..space]).ok().and_then(|text| u32::from_str_radix(text, 8).ok());
        let name_end = rest.iter().position(|byte| *byte == 0).filter(|end| *end > space).ok_or_else(damaged)?;
        let id = rest.get(name_end + 1..name_end + 21).ok_or_else(damaged)?;
        entries.push(TreeEntry {
            mode: mode.ok_or_else(damaged)?,
            name: &rest[space + 1..name_end],
            id: Oid::from_bytes(id)?,
        });
        rest = &rest[name_end + 21..];
    }
    Ok(entries)
}

/// The position of a name. git sorts a directory as if its name ended in a slash, so both positions
/// are checked.
fn position(entries: &[TreeEntry<'_>], name: &[u8]) -> Result<usize, ()> {
    [TREE_MODE, 0o100_644]
        .into_iter()
        .find_map(|mode| {
            let requested = TreeEntry { mode, name, id: Oid::ZERO_SHA1 };
            let at = entries.binary_search_by(|b| compare_entries(b, &requested)).ok()?;
            (entries[at].name == name).then_some(at)
        })
        .ok_or(())
}

/// git's order of entries (`base_name_compare`).
fn compare_entries(a: &TreeEntry<'_>, b: &TreeEntry<'_>) -> Ordering {
    let common = a.name.len().min(b.name.len());
    a.name[..common].cmp(&b.name[..common]).then_with(|| {
        let next = |entry: &TreeEntry<'_>| match entry.name.get(common) {
            Some(byte) => *byte,
            None if entry.is_tree() => b'/',
            None => 0,
        };
        next(a).cmp(&next(b))
    })
}

#[cfg(test)]
mod tests;
