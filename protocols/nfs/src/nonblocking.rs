//! Questions that can be answered from memory, by whoever hears them.
//!
//! One rule: whoever asks here may be a thread that many others wait for. Neither the disk is waited for, nor a lock that somebody holds who waits for
//! it; what would have to be has no answer here, and is asked once more in a lane ([`Door::answer`]). Why? Another thread for each question took
//! two thirds of the processor time of one: 70 to 80 µs for the LOOKUP and the READ of a small file, some 25 so.

use std::sync::Arc;

use nfs3_types::nfs3::{
    self, ACCESS3resfail, ACCESS3resok, GETATTR3resok, LOOKUP3resfail, LOOKUP3resok, NFS_PROGRAM, Nfs3Option, fattr3,
};
use nfs3_types::xdr_codec::Void;
use svcfs_base::{Caller, TreePath};
use svcfs_vfs::{CachedRead, EntryKind};

use crate::NfsServer;
use crate::attributes::told;
use crate::clients::NfsClient;
use crate::dispatch::{CallContext, ReadReply};
use crate::export::NfsExport;
use crate::file_handle::{ExportEntry, HandleTarget, name, numbers};
use crate::read_procedures::{TRANSFER, allowed};
use crate::rpc::{RpcCall, RpcReply};

/// Something in a space, and the path that it has for as long as nobody changes names.
struct CachedEntry {
    entry: ExportEntry,
    path: TreePath,
}

impl CachedEntry {
    /// What is known of it, and some of its bytes. None of a file that is being written.
    fn glance(&self, caller: &Caller, part: Option<(u64, usize)>) -> Option<(fattr3, CachedRead)> {
        let ExportEntry { export, number } = &self.entry;
        if export.writers.node(*number).is_some() {
            return None;
        }
        let glance = export.vfs().try_lookup_cached(caller, &self.path, part)?;
        if glance.pinned_node.is_some_and(|node| !export.found_again(node)) {
            return None;
        }
        Some((told(export.numbers.space_id(), *number, &glance.attributes), glance))
    }

    fn child(&self, entry: &[u8]) -> Option<Self> {
        let name = name(entry).ok()?;
        let number = self.entry.export.numbers.try_inode(self.entry.number, name.as_str())?;
        let entry = ExportEntry { export: Arc::clone(&self.entry.export), number };
        Some(Self { entry, path: self.path.join(&name) })
    }
}

impl NfsServer {
    /// The answer to a message, as [`Door::answer`] has it, if it is one of the questions that clients ask all the time, and nothing must be waited for.
    pub(crate) fn at_once(&self, client: NfsClient, record: &[u8]) -> Option<RpcReply> {
        let call = RpcCall::of(record).ok()?;
        if (call.program, call.version) != (nfs3::PROGRAM, nfs3::VERSION) || !self.lets_in(&call) {
            return None;
        }
        let procedure = NFS_PROGRAM::try_from(call.procedure).ok()?;
        let caller = self.names.known(NfsClient { user: call.user, ..client })?;
        let asked = CallContext::of(&call, caller, &self.server.metrics().requests);
        match procedure {
            NFS_PROGRAM::NFSPROC3_GETATTR => self.getattr_at_once(&asked).map(RpcReply::from),
            NFS_PROGRAM::NFSPROC3_LOOKUP => self.lookup_at_once(&asked).map(RpcReply::from),
            NFS_PROGRAM::NFSPROC3_ACCESS => self.access_at_once(&asked).map(RpcReply::from),
            NFS_PROGRAM::NFSPROC3_READ => self.read_at_once(&asked),
            _ => None,
        }
    }

    /// What a handle stands for, handed to `look` while its names stay.
    fn there<T>(&self, handle: &[u8], look: impl FnOnce(CachedEntry) -> Option<T>) -> Option<T> {
        let (space, number) = numbers(handle)?;
        let export = self.open_export(space)?;
        let _names = export.names.try_read()?;
        let path = export.numbers.try_path(number)?;
        look(CachedEntry { entry: ExportEntry { export: Arc::clone(&export), number }, path })
    }

    /// The space of this number, if it is open already, and still is.
    fn open_export(&self, space: u64) -> Option<Arc<NfsExport>> {
        let export = self.exports.try_lock()?.open.iter().find(|export| export.numbers.space_id() == space).cloned()?;
        let is_served = self.server.spaces().list_open().iter().any(|served| Arc::ptr_eq(served, &export.space));
        is_served.then_some(export)
    }

    fn getattr_at_once(&self, asked: &CallContext<'_>) -> Option<Vec<u8>> {
        let handle = asked.arguments().handle().ok()?;
        let (obj_attributes, _) = self.there(handle, |there| there.glance(&asked.caller, None))?;
        asked.answer("GETATTR", Ok(GETATTR3resok { obj_attributes }), || Void).ok()
    }

    fn lookup_at_once(&self, asked: &CallContext<'_>) -> Option<Vec<u8>> {
        let (handle, entry) = asked.arguments().entry().ok()?;
        let found = self.there(handle, |directory| {
            // Those that lead up are seldom asked for, and no names.
            let child = directory.child(entry).filter(|_| !matches!(entry, b"." | b".."))?;
            let (above, glance) = directory.glance(&asked.caller, None)?;
            let (below, _) = child.glance(&asked.caller, None)?;
            let is_directory = glance.attributes.kind == EntryKind::Directory;
            is_directory.then(|| LOOKUP3resok {
                object: HandleTarget::Entry(child.entry).handle(),
                obj_attributes: Nfs3Option::Some(below),
                dir_attributes: Nfs3Option::Some(above),
            })
        })?;
        asked.answer("LOOKUP", Ok(found), LOOKUP3resfail::default).ok()
    }

    fn access_at_once(&self, asked: &CallContext<'_>) -> Option<Vec<u8>> {
        let mut arguments = asked.arguments();
        let (handle, wanted) = (arguments.handle().ok()?, arguments.value::<u32>().ok()?);
        let (attributes, _) = self.there(handle, |there| there.glance(&asked.caller, None))?;
        let access = allowed(&attributes) & wanted;
        let found = ACCESS3resok { obj_attributes: Nfs3Option::Some(attributes), access };
        asked.answer("ACCESS", Ok(found), ACCESS3resfail::default).ok()
    }

    fn read_at_once(&self, asked: &CallContext<'_>) -> Option<RpcReply> {
        let mut arguments = asked.arguments();
        let handle = arguments.handle().ok()?;
        let (offset, count) = (arguments.value::<u64>().ok()?, arguments.value::<u32>().ok()?);
        let part = (offset, count.min(TRANSFER) as usize);
        let (told, glance) = self.there(handle, |there| there.glance(&asked.caller, Some(part)))?;
        let is_end = offset.saturating_add(glance.data.len() as u64) >= glance.attributes.size;
        asked.answer_read(Ok(ReadReply { told, data: glance.data, is_end })).ok()
    }
}
