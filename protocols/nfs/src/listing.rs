//! Reading directories.
//!
//! One rule: what follows an entry is what has a greater number. However a directory changes while it is read, whatever is there all the time is
//! listed once, and a place in it is good for as long as anybody remembers it.

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

/// Most bytes of an answer.
const LONGEST: u32 = 1 << 20;
/// What is in an answer beside the entries, in bytes.
const AROUND: usize = 128;
/// So many listings are remembered for those who go on reading, each for so long.
const MOST: usize = 32;
const FRESH: Duration = Duration::from_secs(5);

/// The names of a directory by their numbers.
pub(crate) type NumberedNames = Arc<Vec<(u64, PathComponent)>>;

/// What was listed lately, so that a long directory is not read anew for each part of it.
#[derive(Default)]
pub(crate) struct ListingCache(Mutex<HashMap<u64, (Instant, NumberedNames)>>);

impl ListingCache {
    fn get(&self, directory: u64) -> Option<NumberedNames> {
        let listings = self.0.lock();
        listings.get(&directory).filter(|(made, _)| made.elapsed() < FRESH).map(|(_, listed)| Arc::clone(listed))
    }

    fn add(&self, directory: u64, listed: &NumberedNames) {
        let mut listings = self.0.lock();
        if listings.len() >= MOST {
            listings.retain(|_, (made, _)| made.elapsed() < FRESH);
        }
        if listings.len() >= MOST {
            listings.clear();
        }
        listings.insert(directory, (Instant::now(), Arc::clone(listed)));
    }
}

/// One line of a listing.
struct ReaddirEntry {
    cookie: u64,
    name: Vec<u8>,
    place: HandleTarget,
}

impl NfsServer {
    /// The lines after a place in a directory, each made when it is asked for: a long directory is read in many parts, and an answer has room for
    /// some hundred of its lines.
    fn lines(
        &self,
        caller: &Caller,
        directory: &HandleTarget,
        after: u64,
    ) -> Result<Box<dyn Iterator<Item = ReaddirEntry>>, NfsError> {
        let dots = [(1, &b"."[..], directory.clone()), (2, b"..", self.above(directory)?)];
        let dots = dots.into_iter().map(|(cookie, name, place)| ReaddirEntry { cookie, name: name.to_vec(), place });
        let dots = dots.filter(move |line| line.cookie > after);
        match directory {
            HandleTarget::Top => {
                let roots = self.exports().open.into_iter().map(|export| {
                    let (cookie, name) = (export.numbers.space_id(), export.space.name.clone().into_bytes());
                    ReaddirEntry { cookie, name, place: HandleTarget::Entry(ExportEntry::root(export)) }
                });
                let mut roots: Vec<_> = roots.filter(|line| line.cookie > after).collect();
                roots.sort_by_key(|line| line.cookie);
                Ok(Box::new(dots.chain(roots)))
            }
            HandleTarget::Entry(entry) => {
                let listed = entry.listed(caller, after > 2)?;
                let first = listed.partition_point(|(number, _)| *number <= after);
                let entry = entry.clone();
                let rest = (first..listed.len()).filter_map(move |at| {
                    let (number, name) = listed.get(at)?;
                    let place = HandleTarget::Entry(ExportEntry { export: Arc::clone(&entry.export), number: *number });
                    Some(ReaddirEntry { cookie: *number, name: name.as_str().as_bytes().to_vec(), place })
                });
                Ok(Box::new(dots.chain(rest)))
            }
        }
    }

    pub(crate) fn readdir(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = asked.arguments();
        let (handle, after) = (arguments.handle()?, arguments.value::<u64>()?);
        let (_, count) = (arguments.value::<cookieverf3>()?, arguments.value::<u32>()?);
        let read = self.place(handle).and_then(|directory| {
            let entries = self.lines(&asked.caller, &directory, after)?.map(|line| entry3 {
                fileid: number_of(&line.place),
                name: filename3::from(line.name),
                cookie: line.cookie,
            });
            let (entries, eof) = fitting(entries, count, u32::MAX, |_| 0)?;
            Ok(READDIR3resok {
                dir_attributes: directory.after(self, &asked.caller),
                cookieverf: cookieverf3::default(),
                reply: dirlist3 { entries: List(entries), eof },
            })
        });
        asked.answer("READDIR", read, READDIR3resfail::default)
    }

    pub(crate) fn readdirplus(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = asked.arguments();
        let (handle, after) = (arguments.handle()?, arguments.value::<u64>()?);
        arguments.value::<cookieverf3>()?;
        let (names, count) = (arguments.value::<u32>()?, arguments.value::<u32>()?);
        let read = self.place(handle).and_then(|directory| {
            let here = match &directory {
                HandleTarget::Top => None,
                HandleTarget::Entry(entry) => Some(entry.now()?),
            };
            // Looked at one by one, and only those that fit: what is told of a file is true now.
            let entries = self.lines(&asked.caller, &directory, after)?.map(|line| {
                let (name_attributes, name_handle) = self.behind(&asked.caller, here.as_ref(), &line);
                let (fileid, cookie) = (number_of(&line.place), line.cookie);
                entryplus3 { fileid, name: filename3::from(line.name), cookie, name_attributes, name_handle }
            });
            let (entries, eof) = fitting(entries, count, names, |entry| 24 + entry.name.packed_size())?;
            Ok(READDIRPLUS3resok {
                dir_attributes: directory.after(self, &asked.caller),
                cookieverf: cookieverf3::default(),
                reply: dirlistplus3 { entries: List(entries), eof },
            })
        });
        asked.answer("READDIRPLUS", read, READDIRPLUS3resfail::default)
    }
}

impl NfsServer {
    /// What is behind a name of a directory that lies `here`: nothing where that was given to something else since it was listed, for then it would be
    /// told of a file under the name of another.
    fn behind(&self, caller: &Caller, here: Option<&TreePath>, line: &ReaddirEntry) -> (post_op_attr, post_op_fh3) {
        let handle = Nfs3Option::Some(line.place.handle());
        let (Some(here), HandleTarget::Entry(entry), 3..) = (here, &line.place, line.cookie) else {
            return (line.place.after(self, caller), handle);
        };
        let _names = entry.export.names.read();
        match entry.now() {
            Ok(path) if path.parent().as_ref() == Some(here) && path.name().as_bytes() == line.name => {
                let seen = entry.seen_at(caller, Ok(path));
                (seen.map_or(Nfs3Option::None, |seen| Nfs3Option::Some(seen.told)), handle)
            }
            Ok(_) | Err(_) => (Nfs3Option::None, Nfs3Option::None),
        }
    }
}

impl ExportEntry {
    fn listed(&self, caller: &Caller, goes_on: bool) -> Result<NumberedNames, NfsError> {
        let _names = self.export.names.read();
        let seen = self.directory_held(caller)?;
        if goes_on && let Some(listed) = self.export.listings.get(self.number) {
            return Ok(listed);
        }
        let vfs = self.export.vfs();
        let entries = vfs.entries(caller, seen.node)?;
        let names: Vec<PathComponent> = entries
            .into_iter()
            .map(|(name, node, _)| {
                // Known to nobody but the listing.
                vfs.forget(node, 0);
                name
            })
            .collect();
        let texts: Vec<&str> = names.iter().map(PathComponent::as_str).collect();
        let numbers = self.export.numbers(self.number, &texts)?;
        let mut listed: Vec<(u64, PathComponent)> = numbers.into_iter().zip(names).collect();
        listed.sort_by_key(|(number, _)| *number);
        let listed = Arc::new(listed);
        self.export.listings.add(self.number, &listed);
        Ok(listed)
    }
}

fn number_of(place: &HandleTarget) -> u64 {
    match place {
        HandleTarget::Top => crate::file_handle::TOP,
        HandleTarget::Entry(entry) => entry.number,
    }
}

/// The first entries that fit into an answer of `count` bytes, of which `names` may be names; whether these are all.
fn fitting<T: Pack>(
    entries: impl Iterator<Item = T>,
    count: u32,
    names: u32,
    name_bytes: impl Fn(&T) -> usize,
) -> Result<(Vec<T>, bool), NfsError> {
    let room = (count.min(LONGEST) as usize).saturating_sub(AROUND);
    let (mut used, mut named, mut fitting) = (0, 0, Vec::new());
    for entry in entries {
        used += entry.packed_size() + 4;
        named += name_bytes(&entry);
        if used > room || (named > names as usize && !fitting.is_empty()) {
            return if fitting.is_empty() { Err(nfsstat3::NFS3ERR_TOOSMALL.into()) } else { Ok((fitting, false)) };
        }
        fitting.push(entry);
    }
    Ok((fitting, true))
}
