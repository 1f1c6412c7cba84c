//! Procedures that create files, directories, links and special files.

use nfs3_types::nfs3::{
    CREATE3resfail, CREATE3resok, MKDIR3resfail, MKDIR3resok, MKNOD3resfail, MKNOD3resok, Nfs3Option, SYMLINK3resfail,
    SYMLINK3resok, createhow3, mknoddata3, nfsstat3, post_op_attr, post_op_fh3, sattr3, wcc_data,
};
use svcfs_base::{Fault, Kind, PathComponent};
use svcfs_vfs::{EntryKind, SetAttributes, SpecialFile, SpecialKind, StableOperation};

use crate::NfsServer;
use crate::attributes::parse_sattr;
use crate::dispatch::CallContext;
use crate::error::NfsError;
use crate::file_handle::{EntryAttributes, ExportEntry, HandleTarget, parse_name};
use crate::xdr_reader::{GarbageArguments, MAX_PATH_BYTES};

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
/// How often creation is retried while others add and remove the same name.
const MAX_TRIES: usize = 16;

struct CreateRequest<'a> {
    ctx: &'a CallContext<'a>,
    directory: &'a ExportEntry,
    state: &'a EntryAttributes,
    name: &'a PathComponent,
}

/// Handle and attributes of the new entry, and the directory's attributes before and after.
type CreateResult = (Result<(post_op_fh3, post_op_attr), NfsError>, wcc_data);

impl NfsServer {
    fn create_entry(
        &self,
        ctx: &CallContext<'_>,
        (handle, entry): (&[u8], &[u8]),
        create: impl FnOnce(&CreateRequest<'_>) -> Result<ExportEntry, NfsError>,
    ) -> CreateResult {
        let directory = match self.entry(handle) {
            Ok(directory) => directory,
            Err(error) => return (Err(error), wcc_data::default()),
        };
        let before = directory.pre_op(&ctx.caller);
        let state = directory.stat_directory(&ctx.caller);
        let created = state.and_then(|state| {
            create(&CreateRequest { ctx, directory: &directory, state: &state, name: &parse_name(entry)? })
        });
        let created = created.map(|created| {
            let created = HandleTarget::Entry(created);
            (Nfs3Option::Some(created.handle()), created.post_op(self, &ctx.caller))
        });
        (created, directory.wcc(&ctx.caller, before))
    }

    pub(crate) fn create(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = ctx.arguments();
        let (entry, how) = (arguments.entry()?, arguments.value::<createhow3>()?);
        let created = self.create_entry(ctx, entry, |new| match &how {
            createhow3::UNCHECKED(set) => self.create_or_reuse(new, set),
            createhow3::GUARDED(set) => self.create_file(new, set),
            createhow3::EXCLUSIVE(verifier) => {
                match self.create_file(new, &sattr3::default()) {
                    Ok(created) => {
                        created.export.inode_table.set_verifier(created.inode, verifier.0).map_err(Fault::from)?;
                        Ok(created)
                    }
                    // A retransmission by a client that did not get the reply.
                    Err(NfsError::Fault(fault)) if fault.kind() == Kind::Exists => {
                        let existing = new.directory.existing_child(&ctx.caller, new.name)?;
                        match existing
                            .export
                            .inode_table
                            .has_verifier(existing.inode, verifier.0)
                            .map_err(Fault::from)?
                        {
                            true => Ok(existing),
                            false => Err(fault.into()),
                        }
                    }
                    created => created,
                }
            }
        });
        let done = |(obj, obj_attributes), dir_wcc| CREATE3resok { obj, obj_attributes, dir_wcc };
        ctx.reply_with("CREATE", created, done, |dir_wcc| CREATE3resfail { dir_wcc })
    }

    /// Creates a file. The tree has it once it is saved; until then it survives the death of this
    /// process.
    fn create_file(&self, new: &CreateRequest<'_>, set: &sattr3) -> Result<ExportEntry, NfsError> {
        let (caller, export) = (&new.ctx.caller, &new.directory.export);
        let set = parse_sattr(set, None)?;
        let names = export.names_lock.read();
        let (node, _, handle) = export.vfs().create(caller, new.state.node, new.name, set.mode.unwrap_or(FILE_MODE))?;
        export.pin_node(node);
        let created = new.directory.child_locked(new.name)?;
        // The file that had this name is removed, perhaps through another protocol.
        export.abandon(created.inode)?;
        let session_slot = export.add_session(created.inode, (node, handle), caller);
        drop(names);
        let Some(mut session) = session_slot else {
            export.vfs().release(caller, handle)?;
            return Ok(created);
        };
        export.record_stable_write(&mut session, StableOperation::Resize(0), false)?;
        drop(session);
        export.enforce_limits();
        self.write_notify.notify_one();
        let rest = SetAttributes { mode: None, size: set.size.filter(|size| *size > 0), ..set };
        if rest.size.is_some() || rest.modified.is_some() || rest.accessed.is_some() {
            self.apply(new.ctx, &created, &rest)?;
        }
        Ok(created)
    }

    /// Creates a file, or reuses the existing one.
    fn create_or_reuse(&self, new: &CreateRequest<'_>, set: &sattr3) -> Result<ExportEntry, NfsError> {
        let mut tries = 0;
        loop {
            match self.create_file(new, set) {
                Err(NfsError::Fault(fault)) if fault.kind() == Kind::Exists => {}
                created => return created,
            }
            tries += 1;
            match self.reuse(new, set) {
                // The name was removed in between.
                Err(error) if error.is_missing() && tries < MAX_TRIES => {}
                reused => return reused,
            }
        }
    }

    fn reuse(&self, new: &CreateRequest<'_>, set: &sattr3) -> Result<ExportEntry, NfsError> {
        let existing = new.directory.existing_child(&new.ctx.caller, new.name)?;
        let state = existing.stat(&new.ctx.caller)?;
        if state.attributes.kind != EntryKind::File {
            return Err(nfsstat3::NFS3ERR_EXIST.into());
        }
        let size = parse_sattr(set, None)?.size;
        if size.is_some() {
            self.apply(new.ctx, &existing, &SetAttributes { size, ..SetAttributes::default() })?;
        }
        Ok(existing)
    }

    pub(crate) fn mkdir(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = ctx.arguments();
        let (entry, set) = (arguments.entry()?, arguments.value::<sattr3>()?);
        let created = self.create_entry(ctx, entry, |&CreateRequest { directory, state, name, .. }| {
            let mode = parse_sattr(&set, None)?.mode.unwrap_or(DIRECTORY_MODE);
            let _names = directory.export.names_lock.read();
            let (node, _) = directory.export.vfs().make_directory(&ctx.caller, state.node, name, mode)?;
            directory.export.pin_node(node);
            Ok(directory.child_locked(name)?)
        });
        let done = |(obj, obj_attributes), dir_wcc| MKDIR3resok { obj, obj_attributes, dir_wcc };
        ctx.reply_with("MKDIR", created, done, |dir_wcc| MKDIR3resfail { dir_wcc })
    }

    pub(crate) fn symlink(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = ctx.arguments();
        let entry = arguments.entry()?;
        arguments.value::<sattr3>()?;
        let target = arguments.bytes(MAX_PATH_BYTES)?;
        let created = self.create_entry(ctx, entry, |&CreateRequest { directory, state, name, .. }| {
            let target = std::str::from_utf8(target).map_err(|_| NfsError::Status(nfsstat3::NFS3ERR_INVAL))?;
            let names = directory.export.names_lock.read();
            let (node, _) = directory.export.vfs().make_link(&ctx.caller, state.node, name, target)?;
            directory.export.pin_node(node);
            let created = directory.child_locked(name)?;
            drop(names);
            directory.export.sync_names()?;
            Ok(created)
        });
        let done = |(obj, obj_attributes), dir_wcc| SYMLINK3resok { obj, obj_attributes, dir_wcc };
        ctx.reply_with("SYMLINK", created, done, |dir_wcc| SYMLINK3resfail { dir_wcc })
    }

    /// Creates pipes and sockets, which programs of one machine use. Devices are refused: they
    /// would be the server's.
    pub(crate) fn mknod(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = ctx.arguments();
        let (entry, data) = (arguments.entry()?, arguments.value::<mknoddata3>()?);
        let created = self.create_entry(ctx, entry, |&CreateRequest { directory, state, name, .. }| {
            let (kind, set) = match &data {
                mknoddata3::NF3FIFO(set) => (SpecialKind::Fifo, set),
                mknoddata3::NF3SOCK(set) => (SpecialKind::Socket, set),
                mknoddata3::NF3CHR(_) | mknoddata3::NF3BLK(_) => return Err(nfsstat3::NFS3ERR_NOTSUPP.into()),
                mknoddata3::default => return Err(nfsstat3::NFS3ERR_BADTYPE.into()),
            };
            let mode = parse_sattr(set, None)?.mode.unwrap_or(FILE_MODE);
            let special = SpecialFile { kind, device: 0 };
            let (vfs, _names) = (directory.export.vfs(), directory.export.names_lock.read());
            let (node, _) = vfs.make_special(&ctx.caller, (state.node, name), special, mode)?;
            directory.export.pin_node(node);
            Ok(directory.child_locked(name)?)
        });
        let done = |(obj, obj_attributes), dir_wcc| MKNOD3resok { obj, obj_attributes, dir_wcc };
        ctx.reply_with("MKNOD", created, done, |dir_wcc| MKNOD3resfail { dir_wcc })
    }
}
