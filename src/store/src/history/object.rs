//! Objects on their way into git: hashed in memory, on disk when their batch is published as a pack.
//!
//! They are deflated when they are published, which somebody else does while the log is flushed: a writer waits for their names only.
//!
//! Why not libgit2's own object writers? Loose objects cost a file each, and packs made by its builder cost a delta search; a
//! commit is four small objects, and what a batch of them needs is one file.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use flate2::read::ZlibDecoder;
use git2::{ObjectType, OdbLookupFlags, Oid, Repository};
use sha1::{Digest, Sha1};

use super::HistoryResult;
use super::deflate::Deflater;
use crate::StoreError;

/// Trees kept in memory for the next commit on top of them, in bytes.
const MAX_KEPT_TREES: usize = 16 << 20;
const MAX_KEPT_COMMITS: usize = 4096;

/// So much waits to be deflated at most, in bytes: what comes beyond that is deflated at once.
const MAX_WHOLE: usize = 2 << 20;

/// One object that no pack has.
struct NewObject {
    id: Oid,
    body: ObjectBody,
}

enum ObjectBody {
    Whole(ObjectType, Arc<[u8]>),
    /// As it stands in a pack.
    Deflated(Vec<u8>),
}

/// Objects that no pack has yet, and what the next ones are made from.
#[derive(Default)]
pub(super) struct ObjectBuilder {
    deflater: Deflater,
    fresh: Vec<NewObject>,
    /// Bytes of those that are not deflated yet.
    whole: usize,
    /// Where each of them stands in `fresh`.
    places: HashMap<Oid, usize>,
    trees: HashMap<Oid, Arc<[u8]>>,
    kept_bytes: usize,
    /// Trees of recent commits.
    commits: HashMap<Oid, Oid>,
    /// Objects that git has are not made again: a branch shows them.
    pub(super) is_shown: bool,
}

impl ObjectBuilder {
    /// Adds a blob. Also one that git has: no reference may show it, and somebody's `git gc` is about to take it away.
    pub(super) fn blob(&mut self, repository: &Repository, content: &[u8]) -> HistoryResult<Oid> {
        let id = hash(ObjectType::Blob, content);
        self.add(repository, id, ObjectType::Blob, || content.into())?;
        Ok(id)
    }

    /// Adds a tree in git's own form.
    pub(super) fn tree(&mut self, repository: &Repository, raw: Vec<u8>) -> HistoryResult<Oid> {
        let id = hash(ObjectType::Tree, &raw);
        let raw: Arc<[u8]> = raw.into();
        self.add(repository, id, ObjectType::Tree, || Arc::clone(&raw))?;
        self.keep_tree(id, raw);
        Ok(id)
    }

    /// Adds a commit in git's own form.
    pub(super) fn commit(&mut self, repository: &Repository, tree: Oid, raw: &[u8]) -> HistoryResult<Oid> {
        let id = hash(ObjectType::Commit, raw);
        self.add(repository, id, ObjectType::Commit, || raw.into())?;
        if self.commits.len() >= MAX_KEPT_COMMITS {
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
        // Not looked for anew: nobody else writes objects that a branch showed before.
        let is_there = || {
            let stored = repository.odb()?;
            // One that is there and cannot be read is of no use to who builds on it.
            Ok::<_, git2::Error>(stored.exists_ext(id, OdbLookupFlags::NO_REFRESH) && stored.read_header(id).is_ok())
        };
        if self.places.contains_key(&id) || self.is_shown && is_there()? {
            return Ok(());
        }
        let content = content();
        let body = if self.whole + content.len() > MAX_WHOLE {
            ObjectBody::Deflated(entry(&mut self.deflater, kind, &content)?)
        } else {
            self.whole += content.len();
            ObjectBody::Whole(kind, content)
        };
        self.fresh.push(NewObject { id, body });
        self.places.insert(id, self.fresh.len() - 1);
        Ok(())
    }

    /// A tree in git's own form, published or not.
    pub(super) fn raw_tree(&mut self, repository: &Repository, id: Oid) -> HistoryResult<Arc<[u8]>> {
        if let Some(raw) = self.trees.get(&id) {
            return Ok(Arc::clone(raw));
        }
        if let Some(at) = self.places.get(&id) {
            let raw: Arc<[u8]> = match &self.fresh[*at].body {
                ObjectBody::Whole(_, content) => Arc::clone(content),
                ObjectBody::Deflated(bytes) => inflated(bytes)?.into(),
            };
            self.keep_tree(id, Arc::clone(&raw));
            return Ok(raw);
        }
        let stored = repository.odb()?;
        let object = stored.read(id)?;
        if object.kind() != ObjectType::Tree {
            return Err(StoreError::Damaged(format!("git object {id} should be a tree")));
        }
        let raw: Arc<[u8]> = object.data().into();
        self.keep_tree(id, Arc::clone(&raw));
        Ok(raw)
    }

    fn keep_tree(&mut self, id: Oid, raw: Arc<[u8]>) {
        if self.kept_bytes + raw.len() > MAX_KEPT_TREES {
            self.trees.clear();
            self.kept_bytes = 0;
        }
        self.kept_bytes += raw.len();
        self.trees.insert(id, raw);
    }

    /// The tree of a commit, published or not.
    pub(super) fn tree_of(&self, repository: &Repository, commit: Oid) -> HistoryResult<Oid> {
        match self.commits.get(&commit) {
            Some(tree) => Ok(*tree),
            None => Ok(repository.find_commit(commit)?.tree_id()),
        }
    }

    /// How many objects no pack has yet.
    pub(super) fn count(&self) -> usize {
        self.fresh.len()
    }

    /// What no pack has yet, as it stands in one.
    pub(super) fn deflated(&mut self) -> HistoryResult<Vec<(Oid, &[u8])>> {
        for NewObject { body, .. } in &mut self.fresh {
            if let ObjectBody::Whole(kind, content) = body {
                let bytes = entry(&mut self.deflater, *kind, content)?;
                self.whole -= content.len();
                *body = ObjectBody::Deflated(bytes);
            }
        }
        let all = self.fresh.iter().filter_map(|fresh| match &fresh.body {
            ObjectBody::Deflated(bytes) => Some((fresh.id, &**bytes)),
            ObjectBody::Whole(..) => None,
        });
        Ok(all.collect())
    }

    /// Lets go of objects: a pack has them, or nobody wants them any more.
    pub(super) fn forget_fresh(&mut self) {
        self.forget_after(0);
    }

    /// Lets go of all but the first objects, of which there were so many before a set that came to nothing.
    pub(super) fn forget_after(&mut self, count: usize) {
        for NewObject { body, .. } in self.fresh.drain(count.min(self.fresh.len())..) {
            if let ObjectBody::Whole(_, content) = body {
                self.whole -= content.len();
            }
        }
        self.places.retain(|_, at| *at < count);
    }
}

fn hash(kind: ObjectType, content: &[u8]) -> Oid {
    let mut hasher = Sha1::new();
    hasher.update(format!("{} {}\0", kind.str(), content.len()).as_bytes());
    hasher.update(content);
    // Twenty bytes are what an object id is.
    Oid::from_bytes(&hasher.finalize()).unwrap_or(Oid::ZERO_SHA1)
}

/// The pack entry of an object (gitformat-pack(5)): kind and length, then the content, deflated.
fn entry(deflater: &mut Deflater, kind: ObjectType, content: &[u8]) -> HistoryResult<Vec<u8>> {
    let kind_bits: u8 = match kind {
        ObjectType::Commit => 1,
        ObjectType::Tree => 2,
        _ => 3,
    };
    let mut bytes = Vec::with_capacity(content.len() / 2 + 32);
    let mut rest = content.len();
    #[expect(clippy::cast_possible_truncation, reason = "masked to the bits that are kept")]
    let mut byte = (kind_bits << 4) | (rest & 0x0f) as u8;
    rest >>= 4;
    while rest > 0 {
        bytes.push(byte | 0x80);
        #[expect(clippy::cast_possible_truncation, reason = "masked to the bits that are kept")]
        let low = (rest & 0x7f) as u8;
        byte = low;
        rest >>= 7;
    }
    bytes.push(byte);
    deflater.append(content, &mut bytes)?;
    bytes.shrink_to_fit();
    Ok(bytes)
}

/// The content of a pack entry.
fn inflated(entry: &[u8]) -> HistoryResult<Vec<u8>> {
    let header = entry.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    let mut content = Vec::new();
    ZlibDecoder::new(entry.get(header..).unwrap_or_default()).read_to_end(&mut content)?;
    Ok(content)
}
