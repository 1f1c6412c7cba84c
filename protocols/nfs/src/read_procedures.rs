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
use crate::file_handle::{ExportEntry, HandleTarget, parse_name};
use crate::rpc::RpcReply;
use crate::xdr_reader::GarbageArguments;

/// Maximum bytes per READ or WRITE.
pub(crate) const MAX_TRANSFER_BYTES: u32 = 1 << 20;
const BLOCK_BYTES: u32 = 4096;

impl NfsServer {
    pub(crate) fn getattr(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let handle = ctx.arguments().handle()?;
        let outcome = self.resolve(handle).and_then(|target| target.attributes(self, &ctx.caller));
        ctx.reply("GETATTR", outcome.map(|obj_attributes| GETATTR3resok { obj_attributes }), || Void)
    }

    pub(crate) fn lookup(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let (handle, entry) = ctx.arguments().entry()?;
        let directory = self.resolve(handle);
        let dir_attributes = self.post_op_attributes(ctx, directory.as_ref());
        let outcome = directory.and_then(|directory| {
            let outcome = match entry {
                b"." => directory,
                b".." => self.parent_of(&directory)?,
                entry => self.child(&ctx.caller, &directory, &parse_name(entry)?)?,
            };
            let attributes = outcome.attributes(self, &ctx.caller)?;
            Ok((outcome.handle(), attributes))
        });
        let outcome = outcome.map(|(object, attributes)| LOOKUP3resok {
            object,
            obj_attributes: Nfs3Option::Some(attributes),
            dir_attributes: dir_attributes.clone(),
        });
        ctx.reply("LOOKUP", outcome, || LOOKUP3resfail { dir_attributes })
    }

    /// The existing entry of a name in a directory.
    pub(crate) fn child(
        &self,
        caller: &Caller,
        directory: &HandleTarget,
        name: &PathComponent,
    ) -> Result<HandleTarget, NfsError> {
        match directory {
            HandleTarget::PseudoRoot => {
                let export = self.exports().by_name(name.as_str())?;
                Ok(HandleTarget::Entry(ExportEntry::root(export.ok_or(nfsstat3::NFS3ERR_NOENT)?)))
            }
            HandleTarget::Entry(directory) => Ok(HandleTarget::Entry(directory.existing_child(caller, name)?)),
        }
    }

    /// The parent directory; the topmost visible directory is its own parent.
    pub(crate) fn parent_of(&self, target: &HandleTarget) -> Result<HandleTarget, NfsError> {
        let HandleTarget::Entry(entry) = target else { return Ok(HandleTarget::PseudoRoot) };
        let export = &entry.export;
        let _names = export.names_lock.read();
        let Some(path) = entry.current_path()?.parent() else { return self.mount_root() };
        let inode = export.inode_table.inode(&path).map_err(svcfs_base::Fault::from)?;
        Ok(HandleTarget::Entry(ExportEntry { export: export.clone(), inode }))
    }

    fn post_op_attributes(&self, ctx: &CallContext<'_>, target: Result<&HandleTarget, &NfsError>) -> post_op_attr {
        target.map_or(Nfs3Option::None, |target| target.post_op(self, &ctx.caller))
    }

    /// Permission bits do not restrict access: the allow list does, and an accepted client may read
    /// and write everything, as in the other protocols. The bits are stored for programs that read
    /// them.
    pub(crate) fn access(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = ctx.arguments();
        let (handle, requested) = (arguments.handle()?, arguments.value::<u32>()?);
        let outcome = self.resolve(handle).and_then(|target| {
            let attributes = target.attributes(self, &ctx.caller)?;
            let allowed = match &target {
                HandleTarget::PseudoRoot => ACCESS3_READ | ACCESS3_LOOKUP,
                HandleTarget::Entry(_) => allowed_access(&attributes),
            };
            Ok(ACCESS3resok { obj_attributes: Nfs3Option::Some(attributes), access: allowed & requested })
        });
        ctx.reply("ACCESS", outcome, ACCESS3resfail::default)
    }

    pub(crate) fn readlink(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let handle = ctx.arguments().handle()?;
        let outcome = self.resolve(handle).and_then(|target| {
            let entry = target.entry()?;
            let state = entry.stat(&ctx.caller)?;
            if state.attributes.kind != EntryKind::Symlink {
                return Err(nfsstat3::NFS3ERR_INVAL.into());
            }
            let target = entry.export.vfs().link_target(&ctx.caller, state.node)?;
            Ok(READLINK3resok {
                symlink_attributes: Nfs3Option::Some(state.fattr),
                data: nfspath3::from(target.into_bytes()),
            })
        });
        ctx.reply("READLINK", outcome, READLINK3resfail::default)
    }

    pub(crate) fn read(&self, ctx: &CallContext<'_>) -> Result<RpcReply, GarbageArguments> {
        let mut arguments = ctx.arguments();
        let (handle, offset, count) = (arguments.handle()?, arguments.value::<u64>()?, arguments.value::<u32>()?);
        let outcome = self.resolve(handle).and_then(|target| {
            let entry = target.entry()?;
            let state = entry.stat(&ctx.caller)?;
            match state.attributes.kind {
                EntryKind::File => {}
                EntryKind::Directory => return Err(nfsstat3::NFS3ERR_ISDIR.into()),
                EntryKind::Symlink | EntryKind::Special(_) => return Err(nfsstat3::NFS3ERR_INVAL.into()),
            }
            // The disk refuses some offsets beyond the end.
            let data = match offset < state.attributes.size {
                true => entry.export.vfs().read_node(state.node, offset, count.min(MAX_TRANSFER_BYTES) as usize)?,
                false => Default::default(),
            };
            let end = offset.saturating_add(data.len() as u64);
            Ok(ReadReply { fattr: state.fattr, data, is_end: end >= state.attributes.size })
        });
        ctx.reply_read(outcome)
    }

    fn target_attributes(&self, ctx: &CallContext<'_>) -> Result<(HandleTarget, fattr3), NfsError> {
        let handle = ctx.arguments().handle()?;
        let target = self.resolve(handle)?;
        let attributes = target.attributes(self, &ctx.caller)?;
        Ok((target, attributes))
    }

    pub(crate) fn fsstat(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let outcome = self.target_attributes(ctx).and_then(|(target, attributes)| {
            let disk = match &target {
                HandleTarget::PseudoRoot => self.server.primary().vfs.disk_space()?,
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
        ctx.reply("FSSTAT", outcome, FSSTAT3resfail::default)
    }

    pub(crate) fn fsinfo(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let outcome = self.target_attributes(ctx).map(|(_, attributes)| FSINFO3resok {
            obj_attributes: Nfs3Option::Some(attributes),
            rtmax: MAX_TRANSFER_BYTES,
            rtpref: MAX_TRANSFER_BYTES,
            rtmult: BLOCK_BYTES,
            wtmax: MAX_TRANSFER_BYTES,
            wtpref: MAX_TRANSFER_BYTES,
            wtmult: BLOCK_BYTES,
            dtpref: 64 << 10,
            maxfilesize: i64::MAX.cast_unsigned(),
            time_delta: nfstime3 { seconds: 0, nseconds: 1 },
            properties: FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
        });
        ctx.reply("FSINFO", outcome, FSINFO3resfail::default)
    }

    pub(crate) fn pathconf(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let outcome = self.target_attributes(ctx).map(|(_, attributes)| PATHCONF3resok {
            obj_attributes: Nfs3Option::Some(attributes),
            linkmax: 1,
            name_max: 255,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        });
        ctx.reply("PATHCONF", outcome, PATHCONF3resfail::default)
    }
}

/// The access that every accepted client has to an entry.
pub(crate) fn allowed_access(attributes: &fattr3) -> u32 {
    let (read, write) = (ACCESS3_READ, ACCESS3_MODIFY | ACCESS3_EXTEND);
    let extra = match attributes.type_ == nfs3_types::nfs3::ftype3::NF3DIR {
        true => ACCESS3_LOOKUP | ACCESS3_DELETE,
        false if attributes.mode & 0o111 != 0 => ACCESS3_EXECUTE,
        false => 0,
    };
    read | write | extra
}
