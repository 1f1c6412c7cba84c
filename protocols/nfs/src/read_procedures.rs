//! Procedures that change nothing.

use nfs3_types::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ, ACCESS3resfail,
    ACCESS3resok, FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_SYMLINK, FSINFO3resfail, FSINFO3resok, FSSTAT3resfail,
    FSSTAT3resok, GETATTR3resok, LOOKUP3resfail, LOOKUP3resok, Nfs3Option, PATHCONF3resfail, PATHCONF3resok,
    READLINK3resfail, READLINK3resok, fattr3, nfspath3, nfsstat3, nfstime3, post_op_attr,
};
use nfs3_types::xdr_codec::Void;
use svcfs_base::{Caller, PathComponent};
use svcfs_vfs::EntryKind;

use crate::NfsServer;
use crate::dispatch::{CallContext, ReadReply};
use crate::error::NfsError;
use crate::file_handle::{ExportEntry, HandleTarget, name};
use crate::rpc::RpcReply;
use crate::xdr_reader::GarbageArguments;

/// The most that is read or written at once, in bytes.
pub(crate) const TRANSFER: u32 = 1 << 20;
/// What blocks of a file are a multiple of, in bytes.
const BLOCK: u32 = 4096;

impl NfsServer {
    pub(crate) fn getattr(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let handle = asked.arguments().handle()?;
        let found = self.place(handle).and_then(|place| place.attributes(self, &asked.caller));
        asked.answer("GETATTR", found.map(|obj_attributes| GETATTR3resok { obj_attributes }), || Void)
    }

    pub(crate) fn lookup(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let (handle, entry) = asked.arguments().entry()?;
        let directory = self.place(handle);
        let dir_attributes = self.seen(asked, directory.as_ref());
        let found = directory.and_then(|directory| {
            let found = match entry {
                b"." => directory,
                b".." => self.above(&directory)?,
                entry => self.child(&asked.caller, &directory, &name(entry)?)?,
            };
            let attributes = found.attributes(self, &asked.caller)?;
            Ok((found.handle(), attributes))
        });
        let found = found.map(|(object, attributes)| LOOKUP3resok {
            object,
            obj_attributes: Nfs3Option::Some(attributes),
            dir_attributes: dir_attributes.clone(),
        });
        asked.answer("LOOKUP", found, || LOOKUP3resfail { dir_attributes })
    }

    /// What has a name in a directory. It is there.
    pub(crate) fn child(
        &self,
        caller: &Caller,
        directory: &HandleTarget,
        name: &PathComponent,
    ) -> Result<HandleTarget, NfsError> {
        match directory {
            HandleTarget::Top => {
                let named = self.exports().named(name.as_str())?;
                Ok(HandleTarget::Entry(ExportEntry::root(named.ok_or(nfsstat3::NFS3ERR_NOENT)?)))
            }
            HandleTarget::Entry(directory) => Ok(HandleTarget::Entry(directory.there(caller, name)?)),
        }
    }

    /// The directory in which a directory lies; of the topmost that is seen, itself.
    pub(crate) fn above(&self, place: &HandleTarget) -> Result<HandleTarget, NfsError> {
        let HandleTarget::Entry(entry) = place else { return Ok(HandleTarget::Top) };
        let export = &entry.export;
        let _names = export.names.read();
        let Some(path) = entry.now()?.parent() else { return self.top() };
        let number = export.numbers.inode(&path).map_err(svcfs_base::Fault::from)?;
        Ok(HandleTarget::Entry(ExportEntry { export: export.clone(), number }))
    }

    fn seen(&self, asked: &CallContext<'_>, place: Result<&HandleTarget, &NfsError>) -> post_op_attr {
        place.map_or(Nfs3Option::None, |place| place.after(self, &asked.caller))
    }

    /// The network is what keeps others out: whoever may ask may read and write, as by every other door. Permission bits are kept for the
    /// programs that look at them.
    pub(crate) fn access(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = asked.arguments();
        let (handle, wanted) = (arguments.handle()?, arguments.value::<u32>()?);
        let found = self.place(handle).and_then(|place| {
            let attributes = place.attributes(self, &asked.caller)?;
            let allowed = match &place {
                HandleTarget::Top => ACCESS3_READ | ACCESS3_LOOKUP,
                HandleTarget::Entry(_) => allowed(&attributes),
            };
            Ok(ACCESS3resok { obj_attributes: Nfs3Option::Some(attributes), access: allowed & wanted })
        });
        asked.answer("ACCESS", found, ACCESS3resfail::default)
    }

    pub(crate) fn readlink(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let handle = asked.arguments().handle()?;
        let found = self.place(handle).and_then(|place| {
            let entry = place.entry()?;
            let seen = entry.seen(&asked.caller)?;
            if seen.attributes.kind != EntryKind::Symlink {
                return Err(nfsstat3::NFS3ERR_INVAL.into());
            }
            let target = entry.export.vfs().link_target(&asked.caller, seen.node)?;
            Ok(READLINK3resok {
                symlink_attributes: Nfs3Option::Some(seen.told),
                data: nfspath3::from(target.into_bytes()),
            })
        });
        asked.answer("READLINK", found, READLINK3resfail::default)
    }

    pub(crate) fn read(&self, asked: &CallContext<'_>) -> Result<RpcReply, GarbageArguments> {
        let mut arguments = asked.arguments();
        let (handle, offset, count) = (arguments.handle()?, arguments.value::<u64>()?, arguments.value::<u32>()?);
        let found = self.place(handle).and_then(|place| {
            let entry = place.entry()?;
            let seen = entry.seen(&asked.caller)?;
            match seen.attributes.kind {
                EntryKind::File => {}
                EntryKind::Directory => return Err(nfsstat3::NFS3ERR_ISDIR.into()),
                EntryKind::Symlink | EntryKind::Special(_) => return Err(nfsstat3::NFS3ERR_INVAL.into()),
            }
            // Some offsets behind the end the disk does not know.
            let data = match offset < seen.attributes.size {
                true => entry.export.vfs().read_node(seen.node, offset, count.min(TRANSFER) as usize)?,
                false => Default::default(),
            };
            let end = offset.saturating_add(data.len() as u64);
            Ok(ReadReply { told: seen.told, data, is_end: end >= seen.attributes.size })
        });
        asked.answer_read(found)
    }

    fn told(&self, asked: &CallContext<'_>) -> Result<(HandleTarget, fattr3), NfsError> {
        let handle = asked.arguments().handle()?;
        let place = self.place(handle)?;
        let attributes = place.attributes(self, &asked.caller)?;
        Ok((place, attributes))
    }

    pub(crate) fn fsstat(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let found = self.told(asked).and_then(|(place, attributes)| {
            let disk = match &place {
                HandleTarget::Top => self.server.primary().vfs.disk_space()?,
                HandleTarget::Entry(entry) => entry.export.vfs().disk_space()?,
            };
            let bytes = |blocks: u64| blocks.saturating_mul(u64::from(disk.block_size));
            Ok(FSSTAT3resok {
                obj_attributes: Nfs3Option::Some(attributes),
                tbytes: bytes(disk.blocks),
                fbytes: bytes(disk.free),
                abytes: bytes(disk.available),
                tfiles: disk.files,
                ffiles: disk.files_free,
                afiles: disk.files_free,
                invarsec: 0,
            })
        });
        asked.answer("FSSTAT", found, FSSTAT3resfail::default)
    }

    pub(crate) fn fsinfo(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let found = self.told(asked).map(|(_, attributes)| FSINFO3resok {
            obj_attributes: Nfs3Option::Some(attributes),
            rtmax: TRANSFER,
            rtpref: TRANSFER,
            rtmult: BLOCK,
            wtmax: TRANSFER,
            wtpref: TRANSFER,
            wtmult: BLOCK,
            dtpref: 64 << 10,
            maxfilesize: i64::MAX.cast_unsigned(),
            time_delta: nfstime3 { seconds: 0, nseconds: 1 },
            properties: FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
        });
        asked.answer("FSINFO", found, FSINFO3resfail::default)
    }

    pub(crate) fn pathconf(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let found = self.told(asked).map(|(_, attributes)| PATHCONF3resok {
            obj_attributes: Nfs3Option::Some(attributes),
            linkmax: 1,
            name_max: 255,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        });
        asked.answer("PATHCONF", found, PATHCONF3resfail::default)
    }
}

/// What whoever may ask may do with something in a space.
pub(crate) fn allowed(attributes: &fattr3) -> u32 {
    let (reads, writes) = (ACCESS3_READ, ACCESS3_MODIFY | ACCESS3_EXTEND);
    let also = match attributes.type_ == nfs3_types::nfs3::ftype3::NF3DIR {
        true => ACCESS3_LOOKUP | ACCESS3_DELETE,
        false if attributes.mode & 0o111 != 0 => ACCESS3_EXECUTE,
        false => 0,
    };
    reads | writes | also
}
