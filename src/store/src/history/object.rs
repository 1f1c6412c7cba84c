//! New git objects: hashed in memory, written when their batch is published as a pack.
//!
//! They are compressed at publication, during the flush of the log: a writer waits for the hashes
//! only.
//!
//! libgit2's loose objects cost a file each, and its pack builder a delta search. A commit is four
//! small objects, and a batch needs one file.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use flate2::read::ZlibDecoder;
use git2::{ObjectType, OdbLookupFlags, Oid, Repository};
use sha1::{Digest, Sha1};

use super::HistoryResult;
use super::deflate::Deflater;
use crate::StoreError;

/// Bytes of trees that are cached for the next commit.
const MAX_CACHED_TREE_BYTES: usize = 16 << 20;
const MAX_CACHED_COMMITS: usize = 4096;

/// Bytes that may wait for compression; further objects are compressed when added.
const MAX_UNCOMPRESSED_BYTES: usize = 2 << 20;

/// One object that is in no pack.
struct NewObject {
    id: Oid,
    body: ObjectBody,
}

enum ObjectBody {
    Raw(ObjectType, Arc<[u8]>),
    /// In the form of a pack entry.
    Deflated(Vec<u8>),
}

/// New objects, and caches for the next ones.
#[derive(Default)]
pub(super) struct ObjectBuilder {
    deflater: Deflater,
    new_objects: Vec<NewObject>,
    /// Bytes of uncompressed objects.
    uncompressed_bytes: usize,
    /// Positions in `new_objects`.
    positions: HashMap<Oid, usize>,
    trees: HashMap<Oid, Arc<[u8]>>,
    cached_tree_bytes: usize,
    /// Trees of recent commits.
    commits: HashMap<Oid, Oid>,
    /// Objects that git has are not added again, because a branch contains them.
    pub(super) reuse_existing: bool,
}

impl ObjectBuilder {
    /// Adds a blob, even if git has it: it may be unreferenced, and a concurrent `git gc` may
    /// remove it.
    pub(super) fn blob(&mut self, repository: &Repository, content: &[u8]) -> HistoryResult<Oid> {
        let id = hash(ObjectType::Blob, content);
        self.add(repository, id, ObjectType::Blob, || content.into())?;
        Ok(id)
    }

    /// Adds a tree in git's format.
    pub(super) fn tree(&mut self, repository: &Repository, raw: Vec<u8>) -> HistoryResult<Oid> {
        let id = hash(ObjectType::Tree, &raw);
        let raw: Arc<[u8]> = raw.into();
        self.add(repository, id, ObjectType::Tree, || Arc::clone(&raw))?;
        self.cache_tree(id, raw);
        Ok(id)
    }

    /// Adds a commit in git's format.
    pub(super) fn commit(&mut self, repository: &Repository, tree: Oid, raw: &[u8]) -> HistoryResult<Oid> {
        let id = hash(ObjectType::Commit, raw);
        self.add(repository, id, ObjectType::Commit, || raw.into())?;
        if self.commits.len() >= MAX_CACHED_COMMITS {
            self.commits.clear();
        }
        self.commits.insert(id, tree);
        Ok(id)
    }

    fn add(
        &mut self,
        repository: &Repository,
        id: Oid,
        kind: ObjectType,
        content: impl FnOnce() -> Arc<[u8]>,
    ) -> HistoryResult<()> {
        // Without a refresh: other processes do not write objects of our branch.
        let exists = || {
            let stored = repository.odb()?;
            // An unreadable object must be written again.
            Ok::<_, git2::Error>(stored.exists_ext(id, OdbLookupFlags::NO_REFRESH) && stored.read_header(id).is_ok())
        };
        if self.positions.contains_key(&id) || self.reuse_existing && exists()? {
            return Ok(());
        }
        let content = content();
        let body = if self.uncompressed_bytes + content.len() > MAX_UNCOMPRESSED_BYTES {
            ObjectBody::Deflated(pack_entry(&mut self.deflater, kind, &content)?)
        } else {
            self.uncompressed_bytes += content.len();
            ObjectBody::Raw(kind, content)
        };
        self.new_objects.push(NewObject { id, body });
        self.positions.insert(id, self.new_objects.len() - 1);
        Ok(())
    }

    /// A tree in git's format, published or not.
    pub(super) fn raw_tree(&mut self, repository: &Repository, id: Oid) -> HistoryResult<Arc<[u8]>> {
        if let Some(raw) = self.trees.get(&id) {
            return Ok(Arc::clone(raw));
        }
        if let Some(at) = self.positions.get(&id) {
            let raw: Arc<[u8]> = match &self.new_objects[*at].body {
                ObjectBody::Raw(_, content) => Arc::clone(content),
                ObjectBody::Deflated(bytes) => inflate(bytes)?.into(),
            };
            self.cache_tree(id, Arc::clone(&raw));
            return Ok(raw);
        }
        let stored = repository.odb()?;
        let object = stored.read(id)?;
        if object.kind() != ObjectType::Tree {
            return Err(StoreError::Damaged(format!("git object {id} should be a tree")));
        }
        let raw: Arc<[u8]> = object.data().into();
        self.cache_tree(id, Arc::clone(&raw));
        Ok(raw)
    }

    fn cache_tree(&mut self, id: Oid, raw: Arc<[u8]>) {
        if self.cached_tree_bytes + raw.len() > MAX_CACHED_TREE_BYTES {
            self.trees.clear();
            self.cached_tree_bytes = 0;
        }
        self.cached_tree_bytes += raw.len();
        self.trees.insert(id, raw);
    }

    /// The tree of a commit, published or not.
    pub(super) fn tree_of(&self, repository: &Repository, commit: Oid) -> HistoryResult<Oid> {
        match self.commits.get(&commit) {
            Some(tree) => Ok(*tree),
            None => Ok(repository.find_commit(commit)?.tree_id()),
        }
    }

    /// Number of new objects.
    pub(super) fn count(&self) -> usize {
        self.new_objects.len()
    }

    /// The new objects as pack entries.
    pub(super) fn deflate_all(&mut self) -> HistoryResult<Vec<(Oid, &[u8])>> {
        for NewObject { body, .. } in &mut self.new_objects {
            if let ObjectBody::Raw(kind, content) = body {
                let bytes = pack_entry(&mut self.deflater, *kind, content)?;
                self.uncompressed_bytes -= content.len();
                *body = ObjectBody::Deflated(bytes);
            }
        }
        let entries = self.new_objects.iter().filter_map(|new_objects| match &new_objects.body {
            ObjectBody::Deflated(bytes) => Some((new_objects.id, &**bytes)),
            ObjectBody::Raw(..) => None,
        });
        Ok(entries.collect())
    }

    /// Drops all new objects: they were published or discarded.
    pub(super) fn clear(&mut self) {
        self.truncate(0);
    }

    /// Drops all but the first `count` objects, after a set was refused.
    pub(super) fn truncate(&mut self, count: usize) {
        for NewObject { body, .. } in self.new_objects.drain(count.min(self.new_objects.len())..) {
            if let ObjectBody::Raw(_, content) = body {
                self.uncompressed_bytes -= content.len();
            }
        }
        self.positions.retain(|_, at| *at < count);
    }
}

fn hash(kind: ObjectType, content: &[u8]) -> Oid {
    let mut hasher = Sha1::new();
    hasher.update(format!("{} {}\0", kind.str(), content.len()).as_bytes());
    hasher.update(content);
    // An object id has twenty bytes.
    Oid::from_bytes(&hasher.finalize()).unwrap_or(Oid::ZERO_SHA1)
}

/// The pack entry of an object (gitformat-pack(5)): kind and length, then the compressed content.
fn pack_entry(deflater: &mut Deflater, kind: ObjectType, content: &[u8]) -> HistoryResult<Vec<u8>> {
    let kind_bits: u8 = match kind {
        ObjectType::Commit => 1,
        ObjectType::Tree => 2,
        _ => 3,
    };
    let mut bytes = Vec::with_capacity(content.len() / 2 + 32);
    let mut remaining = content.len();
    #[expect(clippy::cast_possible_truncation, reason = "masked to the retained bits")]
    let mut byte = (kind_bits << 4) | (remaining & 0x0f) as u8;
    remaining >>= 4;
    while remaining > 0 {
        bytes.push(byte | 0x80);
        #[expect(clippy::cast_possible_truncation, reason = "masked to the retained bits")]
        let low = (remaining & 0x7f) as u8;
        byte = low;
        remaining >>= 7;
    }
    bytes.push(byte);
    deflater.append(content, &mut bytes)?;
    bytes.shrink_to_fit();
    Ok(bytes)
}

/// The content of a pack entry.
fn inflate(entry: &[u8]) -> HistoryResult<Vec<u8>> {
    let header = entry.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    let mut content = Vec::new();
    ZlibDecoder::new(entry.get(header..).unwrap_or_default()).read_to_end(&mut content)?;
    Ok(content)
}
