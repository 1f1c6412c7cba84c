//! A parent's tree with some paths changed.
//!
//! One rule: a tree comes out in the order and form git itself gives it, and no name goes in that git would refuse.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use git2::{Oid, Repository};
use svcfs_base::{FileKind, PathComponent, TreePath};

use super::object::ObjectBuilder;
use super::{HistoryResult, file_mode};
use crate::StoreError;

const TREE_MODE: u32 = 0o040_000;

/// What becomes of one name, and of the names below it.
#[derive(Default)]
pub(super) struct TreeChange<'a> {
    leaf: Option<TreeLeaf<'a>>,
    below: BTreeMap<&'a str, TreeChange<'a>>,
}

struct TreeLeaf<'a> {
    path: &'a TreePath,
    /// The new blob; none when the file goes.
    blob: Option<(FileKind, Oid)>,
}

impl<'a> TreeChange<'a> {
    /// Notes what becomes of a path; the last word counts.
    pub(super) fn set(&mut self, path: &'a TreePath, blob: Option<(FileKind, Oid)>) {
        let branch = path.components().fold(self, |branch, name| branch.below.entry(name).or_default());
        branch.leaf = Some(TreeLeaf { path, blob });
    }

    /// A path at or below this branch that gets a file.
    fn any_path(&self) -> Option<&'a TreePath> {
        let own = self.leaf.as_ref().filter(|leaf| leaf.blob.is_some()).map(|leaf| leaf.path);
        own.or_else(|| self.below.values().find_map(TreeChange::any_path))
    }
}

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

/// The tree that `branch` makes of `base`; none when nothing is left in it.
pub(super) fn grown(
    objects: &mut ObjectBuilder,
    repository: &Repository,
    base: Option<Oid>,
    branch: &TreeChange<'_>,
) -> HistoryResult<Option<Oid>> {
    let raw = match base {
        Some(id) => objects.raw_tree(repository, id)?,
        None => Vec::new().into(),
    };
    let mut entries = parsed(&raw)?;
    let mut is_changed = false;
    for (name, branch) in &branch.below {
        let at = position(&entries, name.as_bytes());
        let before = at.ok().map(|at| (entries[at].mode, entries[at].id));
        let after = entry_after(objects, repository, before, branch)?;
        if after == before {
            continue;
        }
        is_changed = true;
        if before.is_none() {
            check_name(repository, name, branch)?;
        }
        if let Ok(at) = at {
            entries.remove(at);
        }
        if let Some((mode, id)) = after {
            let entry = TreeEntry { mode, name: name.as_bytes(), id };
            let at = entries.partition_point(|other| order(other, &entry) == Ordering::Less);
            entries.insert(at, entry);
        }
    }
    if !is_changed {
        return Ok(base);
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

/// The files a tree has at these paths, in their order; each directory is read once.
pub(super) fn leaves(
    objects: &mut ObjectBuilder,
    repository: &Repository,
    root: Oid,
    paths: &[&TreePath],
) -> HistoryResult<Vec<Option<(Oid, FileKind)>>> {
    let mut wanted: Vec<_> =
        paths.iter().enumerate().map(|(at, path)| WantedPath { names: path.components().collect(), at }).collect();
    wanted.sort_unstable_by(|one, other| one.names.cmp(&other.names));
    let mut look = TreeLookup { objects, repository, found: vec![None; paths.len()] };
    look.below(root, 0, &wanted)?;
    Ok(look.found)
}

/// A path that is looked for, and its place among the answers.
struct WantedPath<'a> {
    names: Vec<&'a str>,
    at: usize,
}

struct TreeLookup<'a> {
    objects: &'a mut ObjectBuilder,
    repository: &'a Repository,
    found: Vec<Option<(Oid, FileKind)>>,
}

impl TreeLookup<'_> {
    /// Looks in the tree of a directory so many names deep, all of which the paths, in order, have in common.
    fn below(&mut self, tree: Oid, depth: usize, wanted: &[WantedPath<'_>]) -> HistoryResult<()> {
        let raw = self.objects.raw_tree(self.repository, tree)?;
        let entries = parsed(&raw)?;
        // The root itself is no file.
        let wanted = &wanted[wanted.partition_point(|wanted| wanted.names.len() <= depth)..];
        for same in wanted.chunk_by(|one, other| one.names[depth] == other.names[depth]) {
            let Ok(at) = position(&entries, same[0].names[depth].as_bytes()) else { continue };
            let TreeEntry { mode, id, .. } = entries[at];
            let (here, deeper) = same.split_at(same.partition_point(|wanted| wanted.names.len() == depth + 1));
            for wanted in here {
                let kind = i32::try_from(mode).ok().and_then(FileKind::from_git_mode);
                self.found[wanted.at] = kind.map(|kind| (id, kind));
            }
            if mode == TREE_MODE && !deeper.is_empty() {
                self.below(id, depth + 1, deeper)?;
            }
        }
        Ok(())
    }
}

/// The files of a tree that keep it from having a file at a path: one where a directory above it must be, or all below it.
pub(super) fn in_the_way(
    objects: &mut ObjectBuilder,
    repository: &Repository,
    root: Oid,
    path: &TreePath,
) -> HistoryResult<Vec<TreePath>> {
    let (mut tree, mut at) = (root, TreePath::root());
    for name in path.components() {
        let raw = objects.raw_tree(repository, tree)?;
        let entries = parsed(&raw)?;
        let Ok(place) = position(&entries, name.as_bytes()) else { return Ok(Vec::new()) };
        let Ok(name) = PathComponent::parse(name) else { return Ok(Vec::new()) };
        at = at.join(&name);
        if !entries[place].is_tree() {
            return Ok(if at == *path { Vec::new() } else { vec![at] });
        }
        tree = entries[place].id;
    }
    let mut below = Vec::new();
    let mut open = vec![(at, tree)];
    while let Some((directory, tree)) = open.pop() {
        let raw = objects.raw_tree(repository, tree)?;
        for entry in parsed(&raw)? {
            // Names that are none of ours are in the way all the same.
            let name = std::str::from_utf8(entry.name).ok().and_then(|name| PathComponent::parse(name).ok());
            let at = name.map_or_else(|| directory.clone(), |name| directory.join(&name));
            if entry.is_tree() && at != directory { open.push((at, entry.id)) } else { below.push(at) }
        }
    }
    Ok(below)
}

/// What stands under one name afterwards.
fn entry_after(
    objects: &mut ObjectBuilder,
    repository: &Repository,
    before: Option<(u32, Oid)>,
    branch: &TreeChange<'_>,
) -> HistoryResult<Option<(u32, Oid)>> {
    let directory = before.filter(|(mode, _)| *mode == TREE_MODE).map(|(_, id)| id);
    let file = before.filter(|(mode, _)| *mode != TREE_MODE);
    let is_file_going = branch.leaf.as_ref().is_some_and(|leaf| leaf.blob.is_none());
    let mut below = directory;
    if !branch.below.is_empty() {
        let is_in_the_way = file.is_some() && !is_file_going;
        if let Some(path) = branch.below.values().find_map(TreeChange::any_path).filter(|_| is_in_the_way) {
            return Err(refused(path, "a file stands where a directory must be"));
        }
        below = grown(objects, repository, directory, branch)?;
    }
    match branch.leaf.as_ref() {
        Some(TreeLeaf { path, blob: Some((kind, id)) }) => match below {
            Some(_) => Err(refused(path, "a directory stands where the file must be")),
            None => Ok(Some((u32::try_from(i32::from(file_mode(*kind))).unwrap_or(0o100_644), *id))),
        },
        Some(TreeLeaf { blob: None, .. }) => Ok(below.map(|id| (TREE_MODE, id))),
        None => Ok(below.map(|id| (TREE_MODE, id)).or(file)),
    }
}

/// Why git would not record a name, if it would not. libgit2 knows which names are git's own in every disguise.
pub(super) fn refusal_of(repository: &Repository, name: &str) -> HistoryResult<Option<String>> {
    let anything = Oid::from_bytes(&[1; 20])?;
    Ok(repository.treebuilder(None)?.insert(name, anything, 0o100_644).err().map(|error| error.message().to_owned()))
}

fn check_name(repository: &Repository, name: &str, branch: &TreeChange<'_>) -> HistoryResult<()> {
    match (refusal_of(repository, name)?, branch.any_path()) {
        (Some(reason), Some(path)) => Err(refused(path, &reason)),
        (Some(_) | None, _) => Ok(()),
    }
}

fn refused(path: &TreePath, reason: &str) -> StoreError {
    StoreError::Unrecordable { path: path.clone(), reason: reason.to_owned() }
}

fn parsed(raw: &[u8]) -> HistoryResult<Vec<TreeEntry<'_>>> {
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

/// Where a name stands: git sorts a directory as if its name ended in a slash, so both places are looked at.
fn position(entries: &[TreeEntry<'_>], name: &[u8]) -> Result<usize, ()> {
    [TREE_MODE, 0o100_644]
        .into_iter()
        .find_map(|mode| {
            let wanted = TreeEntry { mode, name, id: Oid::ZERO_SHA1 };
            let at = entries.binary_search_by(|other| order(other, &wanted)).ok()?;
            (entries[at].name == name).then_some(at)
        })
        .ok_or(())
}

/// git's order of entries (`base_name_compare`).
fn order(one: &TreeEntry<'_>, other: &TreeEntry<'_>) -> Ordering {
    let common = one.name.len().min(other.name.len());
    one.name[..common].cmp(&other.name[..common]).then_with(|| {
        let next = |entry: &TreeEntry<'_>| match entry.name.get(common) {
            Some(byte) => *byte,
            None if entry.is_tree() => b'/',
            None => 0,
        };
        next(one).cmp(&next(other))
    })
}

#[cfg(test)]
mod tests;
