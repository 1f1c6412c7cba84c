//! Directory listings.
//!
//! Invariant: a cookie is the inode, and entries are listed in inode order. So an entry that exists
//! during the whole listing is listed once however the directory changes, and a cookie never
//! expires.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs3_types::nfs3::{
    Nfs3Option, READDIR3resfail, READDIR3resok, READDIRPLUS3resfail, READDIRPLUS3resok, cookieverf3, dirlist3,
    dirlistplus3, entry3, entryplus3, filename3, nfsstat3, post_op_attr, post_op_fh3,
};
use nfs3_types::xdr_codec::{List, Pack};
use parking_lot::Mutex;
use svcfs_base::{Caller, PathComponent, TreePath};

use crate::NfsServer;
use crate::dispatch::CallContext;
use crate::error::NfsError;
use crate::file_handle::{ExportEntry, HandleTarget};
use crate::xdr_reader::GarbageArguments;

const MAX_REPLY_BYTES: u32 = 1 << 20;
/// Size of a reply without its entries, in bytes.
const REPLY_OVERHEAD_BYTES: usize = 128;
/// Number of cached listings, and how long each is used to continue a READDIR.
const MAX_CACHED_LISTINGS: usize = 32;
const LISTING_TTL: Duration = Duration::from_secs(5);

/// The names of a directory, in inode order.
pub(crate) type NumberedNames = Arc<Vec<(u64, PathComponent)>>;

/// Recent listings, so that a long directory is not read again for each part of it.
#[derive(Default)]
pub(crate) struct ListingCache(Mutex<HashMap<u64, (Instant, NumberedNames)>>);

impl ListingCache {
    fn get(&self, directory: u64) -> Option<NumberedNames> {
        let listings = self.0.lock();
        listings
            .get(&directory)
            .filter(|(created, _)| created.elapsed() < LISTING_TTL)
            .map(|(_, listed)| Arc::clone(listed))
    }

    fn add(&self, directory: u64, listed: &NumberedNames) {
        let mut listings = self.0.lock();
        if listings.len() >= MAX_CACHED_LISTINGS {
            listings.retain(|_, (created, _)| created.elapsed() < LISTING_TTL);
        }
        if listings.len() >= MAX_CACHED_LISTINGS {
            listings.clear();
        }
        listings.insert(directory, (Instant::now(), Arc::clone(listed)));
    }
}

struct ReaddirEntry {
    cookie: u64,
    name: Vec<u8>,
    target: HandleTarget,
}

impl NfsServer {
    /// The entries after a cookie. The iterator is lazy: a long directory is read in many parts,
    /// and one reply holds some hundred entries.
    fn entries_after(
        &self,
        caller: &Caller,
        directory: &HandleTarget,
        after: u64,
    ) -> Result<Box<dyn Iterator<Item = ReaddirEntry>>, NfsError> {
        let dots = [(1, &b"."[..], directory.clone()), (2, b"..", self.parent_of(directory)?)];
        let dots = dots.into_iter().map(|(cookie, name, target)| ReaddirEntry { cookie, name: name.to_vec(), target });
        let dots = dots.filter(move |entry| entry.cookie > after);
        match directory {
            HandleTarget::PseudoRoot => {
                let roots = self.exports().open.into_iter().map(|export| {
                    let (cookie, name) = (export.inode_table.space_id(), export.space.name.clone().into_bytes());
                    ReaddirEntry { cookie, name, target: HandleTarget::Entry(ExportEntry::root(export)) }
                });
                let mut roots: Vec<_> = roots.filter(|entry| entry.cookie > after).collect();
                roots.sort_by_key(|entry| entry.cookie);
                Ok(Box::new(dots.chain(roots)))
            }
            HandleTarget::Entry(entry) => {
                let listed = entry.listed(caller, after > 2)?;
                let first = listed.partition_point(|(inode, _)| *inode <= after);
                let entry = entry.clone();
                let rest = (first..listed.len()).filter_map(move |at| {
                    let (inode, name) = listed.get(at)?;
                    let target = HandleTarget::Entry(ExportEntry { export: Arc::clone(&entry.export), inode: *inode });
                    Some(ReaddirEntry { cookie: *inode, name: name.as_str().as_bytes().to_vec(), target })
                });
                Ok(Box::new(dots.chain(rest)))
            }
        }
    }

    pub(crate) fn readdir(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = ctx.arguments();
        let (handle, after) = (arguments.handle()?, arguments.value::<u64>()?);
        let (_, count) = (arguments.value::<cookieverf3>()?, arguments.value::<u32>()?);
        let read = self.resolve(handle).and_then(|directory| {
            let entries = self.entries_after(&ctx.caller, &directory, after)?.map(|entry| entry3 {
                fileid: inode_of(&entry.target),
                name: filename3::from(entry.name),
                cookie: entry.cookie,
            });
            let (entries, eof) = take_fitting(entries, count, u32::MAX, |_| 0)?;
            Ok(READDIR3resok {
                dir_attributes: directory.post_op(self, &ctx.caller),
                cookieverf: cookieverf3::default(),
                reply: dirlist3 { entries: List(entries), eof },
            })
        });
        ctx.reply("READDIR", read, READDIR3resfail::default)
    }

    pub(crate) fn readdirplus(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = ctx.arguments();
        let (handle, after) = (arguments.handle()?, arguments.value::<u64>()?);
        arguments.value::<cookieverf3>()?;
        let (names, count) = (arguments.value::<u32>()?, arguments.value::<u32>()?);
        let read = self.resolve(handle).and_then(|directory| {
            let parent = match &directory {
                HandleTarget::PseudoRoot => None,
                HandleTarget::Entry(entry) => Some(entry.current_path()?),
            };
            // Attributes are read one by one, and only for entries that fit, so that they are
            // current.
            let entries = self.entries_after(&ctx.caller, &directory, after)?.map(|entry| {
                let (name_attributes, name_handle) = self.plus_attributes(&ctx.caller, parent.as_ref(), &entry);
                let (fileid, cookie) = (inode_of(&entry.target), entry.cookie);
                entryplus3 { fileid, name: filename3::from(entry.name), cookie, name_attributes, name_handle }
            });
            let (entries, eof) = take_fitting(entries, count, names, |entry| 24 + entry.name.packed_size())?;
            Ok(READDIRPLUS3resok {
                dir_attributes: directory.post_op(self, &ctx.caller),
                cookieverf: cookieverf3::default(),
                reply: dirlistplus3 { entries: List(entries), eof },
            })
        });
        ctx.reply("READDIRPLUS", read, READDIRPLUS3resfail::default)
    }

    /// Attributes and handle of a name in directory `parent`; none if the name now belongs to
    /// another file than at listing time.
    fn plus_attributes(
        &self,
        caller: &Caller,
        parent: Option<&TreePath>,
        line: &ReaddirEntry,
    ) -> (post_op_attr, post_op_fh3) {
        let handle = Nfs3Option::Some(line.target.handle());
        let (Some(parent), HandleTarget::Entry(entry), 3..) = (parent, &line.target, line.cookie) else {
            return (line.target.post_op(self, caller), handle);
        };
        let _names = entry.export.names_lock.read();
        match entry.current_path() {
            Ok(path) if path.parent().as_ref() == Some(parent) && path.name().as_bytes() == line.name => {
                let state = entry.stat_path(caller, Ok(path));
                (state.map_or(Nfs3Option::None, |state| Nfs3Option::Some(state.fattr)), handle)
            }
            Ok(_) | Err(_) => (Nfs3Option::None, Nfs3Option::None),
        }
    }
}

impl ExportEntry {
    fn listed(&self, caller: &Caller, is_continuation: bool) -> Result<NumberedNames, NfsError> {
        let _names = self.export.names_lock.read();
        let state = self.stat_directory_locked(caller)?;
        if is_continuation && let Some(listed) = self.export.listings.get(self.inode) {
            return Ok(listed);
        }
        let vfs = self.export.vfs();
        let entries = vfs.entries(caller, state.node)?;
        let names: Vec<PathComponent> = entries
            .into_iter()
            .map(|(name, node, _)| {
                // Only the listing referred to this node.
                vfs.forget(node, 0);
                name
            })
            .collect();
        let texts: Vec<&str> = names.iter().map(PathComponent::as_str).collect();
        let inodes = self.export.child_inodes(self.inode, &texts)?;
        let mut listed: Vec<(u64, PathComponent)> = inodes.into_iter().zip(names).collect();
        listed.sort_by_key(|(inode, _)| *inode);
        let listed = Arc::new(listed);
        self.export.listings.add(self.inode, &listed);
        Ok(listed)
    }
}

fn inode_of(target: &HandleTarget) -> u64 {
    match target {
        HandleTarget::PseudoRoot => crate::file_handle::PSEUDO_ROOT_ID,
        HandleTarget::Entry(entry) => entry.inode,
    }
}

/// The entries that fit into a reply of `count` bytes, `names` of them for names, and whether these
/// are all.
fn take_fitting<T: Pack>(
    entries: impl Iterator<Item = T>,
    count: u32,
    names: u32,
    name_bytes: impl Fn(&T) -> usize,
) -> Result<(Vec<T>, bool), NfsError> {
    let capacity = (count.min(MAX_REPLY_BYTES) as usize).saturating_sub(REPLY_OVERHEAD_BYTES);
    let (mut total, mut name_total, mut take_fitting) = (0, 0, Vec::new());
    for entry in entries {
        total += entry.packed_size() + 4;
        name_total += name_bytes(&entry);
        if total > capacity || (name_total > names as usize && !take_fitting.is_empty()) {
            return if take_fitting.is_empty() {
                Err(nfsstat3::NFS3ERR_TOOSMALL.into())
            } else {
                Ok((take_fitting, false))
            };
        }
        take_fitting.push(entry);
    }
    Ok((take_fitting, true))
}
