//! Procedures that change contents, attributes and names.

use std::error::Error;
use std::io;

use nfs3_types::nfs3::{
    COMMIT3resfail, COMMIT3resok, LINK3resfail, LINK3resok, Nfs3Option, REMOVE3resfail, REMOVE3resok, RENAME3resfail,
    RENAME3resok, RMDIR3resfail, RMDIR3resok, SETATTR3resfail, SETATTR3resok, WRITE3resfail, WRITE3resok, nfsstat3,
    sattr3, sattrguard3, stable_how, wcc_data, writeverf3,
};
use svcfs_base::{Caller, Fault, Kind};
use svcfs_vfs::{EntryKind, InodeTable, StableOperation, WriteAt};

use crate::NfsServer;
use crate::attributes::{parse_sattr, time};
use crate::dispatch::CallContext;
use crate::error::{NfsError, or_not_permitted};
use crate::file_handle::{ExportEntry, parse_name};
use crate::read_procedures::MAX_TRANSFER_BYTES;
use crate::xdr_reader::GarbageArguments;

fn map_file_too_large(fault: Fault) -> NfsError {
    let mut cause: Option<&(dyn Error + 'static)> = fault.source();
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge) {
            return nfsstat3::NFS3ERR_FBIG.into();
        }
        cause = error.source();
    }
    fault.into()
}

impl NfsServer {
    pub(crate) fn entry(&self, handle: &[u8]) -> Result<ExportEntry, NfsError> {
        self.resolve(handle)?.entry()
    }

    pub(crate) fn setattr(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = ctx.arguments();
        let handle = arguments.handle()?;
        let (set, guard) = (arguments.value::<sattr3>()?, arguments.value::<sattrguard3>()?);
        let mut obj_wcc = wcc_data::default();
        let outcome = self.entry(handle).and_then(|entry| {
            let before = entry.pre_op(&ctx.caller);
            let outcome = self.set_guarded(ctx, &entry, (&set, &guard));
            obj_wcc = entry.wcc(&ctx.caller, before);
            outcome
        });
        let (done, failed) = (|(), obj_wcc| SETATTR3resok { obj_wcc }, |obj_wcc| SETATTR3resfail { obj_wcc });
        ctx.reply_with("SETATTR", (outcome, obj_wcc), done, failed)
    }

    fn set_guarded(
        &self,
        ctx: &CallContext<'_>,
        entry: &ExportEntry,
        (set, guard): (&sattr3, &sattrguard3),
    ) -> Result<(), NfsError> {
        let state = entry.stat(&ctx.caller)?;
        if let Nfs3Option::Some(guard) = guard
            && *guard != time(state.attributes.changed)
        {
            return Err(nfsstat3::NFS3ERR_NOT_SYNC.into());
        }
        self.apply(ctx, entry, &parse_sattr(set, Some(&state.attributes))?)
    }

    /// Sets attributes; a new size is a write.
    pub(crate) fn apply(
        &self,
        ctx: &CallContext<'_>,
        entry: &ExportEntry,
        set: &svcfs_vfs::SetAttributes,
    ) -> Result<(), NfsError> {
        let export = &entry.export;
        if let Some(size) = set.size {
            if size == 0 {
                // A truncated file does not continue a rejected text.
                export.rejections.forget(entry.inode);
            }
            // As part of a write session: a truncated file is filled soon, and the empty state is
            // no version.
            let mut session = export.open_session(entry, &ctx.caller, (size, &[]))?;
            let set = svcfs_vfs::SetAttributes { handle: Some(session.handle), ..*set };
            export.vfs().set_attributes(&ctx.caller, session.node, set).map_err(map_file_too_large)?;
            export.mark_written(&mut session);
            export.record_stable_write(&mut session, StableOperation::Resize(size), false)?;
            drop(session);
            export.enforce_limits();
            self.write_notify.notify_one();
            return Ok(());
        }
        let state = entry.stat(&ctx.caller)?;
        export.vfs().set_attributes(&ctx.caller, state.node, *set)?;
        Ok(())
    }

    pub(crate) fn write(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = ctx.arguments();
        let (handle, offset) = (arguments.handle()?, arguments.value::<u64>()?);
        let (count, stable) = (arguments.value::<u32>()?, arguments.value::<stable_how>()?);
        let data = arguments.bytes(crate::record_marking::MAX_RECORD_BYTES)?;
        let done = self.entry(handle).and_then(|entry| {
            let before = entry.pre_op(&ctx.caller);
            let data = data.get(..count as usize).ok_or(nfsstat3::NFS3ERR_INVAL)?;
            if count > MAX_TRANSFER_BYTES {
                return Err(nfsstat3::NFS3ERR_INVAL.into());
            }
            let committed = self.write_data(ctx, &entry, (offset, data), stable)?;
            let file_wcc = entry.wcc(&ctx.caller, before);
            Ok(WRITE3resok { file_wcc, count, committed, verf: writeverf3(self.verifier) })
        });
        ctx.reply("WRITE", done, WRITE3resfail::default)
    }

    fn write_data(
        &self,
        ctx: &CallContext<'_>,
        entry: &ExportEntry,
        (offset, data): (u64, &[u8]),
        stable: stable_how,
    ) -> Result<stable_how, NfsError> {
        let export = &entry.export;
        let mut session = export.open_session(entry, &ctx.caller, (offset, data))?;
        export
            .vfs()
            .write_node(&ctx.caller, session.handle, WriteAt::Offset(offset), data)
            .map_err(map_file_too_large)?;
        export.mark_written(&mut session);
        let committed = match stable {
            stable_how::UNSTABLE => stable_how::UNSTABLE,
            stable_how::DATA_SYNC | stable_how::FILE_SYNC => {
                export.record_stable_write(&mut session, StableOperation::Write(offset, data.to_vec()), true)?;
                stable_how::FILE_SYNC
            }
        };
        drop(session);
        export.enforce_limits();
        self.write_notify.notify_one();
        Ok(committed)
    }

    pub(crate) fn commit(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let handle = ctx.arguments().handle()?;
        let mut file_wcc = wcc_data::default();
        let outcome = self.entry(handle).and_then(|entry| {
            let before = entry.pre_op(&ctx.caller);
            let outcome = entry.export.save_inode(entry.inode);
            file_wcc = entry.wcc(&ctx.caller, before);
            outcome?;
            // A save by another call may not be durable yet.
            Ok(entry.export.vfs().wait_applied().map(drop)?)
        });
        let done = |(), file_wcc| COMMIT3resok { file_wcc, verf: writeverf3(self.verifier) };
        ctx.reply_with("COMMIT", (outcome, file_wcc), done, |file_wcc| COMMIT3resfail { file_wcc })
    }

    pub(crate) fn remove(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let (handle, entry) = ctx.arguments().entry()?;
        let outcome = self.remove_entry(ctx, (handle, entry), false);
        let (done, failed) = (|(), dir_wcc| REMOVE3resok { dir_wcc }, |dir_wcc| REMOVE3resfail { dir_wcc });
        ctx.reply_with("REMOVE", outcome, done, failed)
    }

    pub(crate) fn rmdir(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let (handle, entry) = ctx.arguments().entry()?;
        let outcome = self.remove_entry(ctx, (handle, entry), true);
        let (done, failed) = (|(), dir_wcc| RMDIR3resok { dir_wcc }, |dir_wcc| RMDIR3resfail { dir_wcc });
        ctx.reply_with("RMDIR", outcome, done, failed)
    }

    fn remove_entry(
        &self,
        ctx: &CallContext<'_>,
        (handle, entry): (&[u8], &[u8]),
        is_directory: bool,
    ) -> (Result<(), NfsError>, wcc_data) {
        let directory = match self.entry(handle) {
            Ok(directory) => directory,
            Err(error) => return (Err(error), wcc_data::default()),
        };
        let before = directory.pre_op(&ctx.caller);
        let outcome = Self::remove_child(&ctx.caller, &directory, entry, is_directory);
        (outcome, directory.wcc(&ctx.caller, before))
    }

    fn remove_child(
        caller: &Caller,
        directory: &ExportEntry,
        entry: &[u8],
        is_directory: bool,
    ) -> Result<(), NfsError> {
        let (export, name) = (&directory.export, parse_name(entry)?);
        let vfs = export.vfs();
        let names = export.names_lock.write();
        let state = directory.stat_directory_locked(caller)?;
        let removed = directory.existing_child_locked(caller, &name)?;
        let kind = removed.stat_locked(caller)?.attributes.kind;
        let path = removed.current_path()?;
        match (is_directory, kind) {
            (true, EntryKind::Directory) => vfs.remove_directory(caller, state.node, &name)?,
            (true, _) => return Err(nfsstat3::NFS3ERR_NOTDIR.into()),
            (false, EntryKind::Directory) => return Err(nfsstat3::NFS3ERR_ISDIR.into()),
            (false, _) => vfs.unlink(caller, state.node, &name).map_err(or_not_permitted)?,
        }
        let abandoned = export.abandon(removed.inode);
        export.inode_table.remove(&path).map_err(Fault::from)?;
        drop(names);
        abandoned?;
        Ok(export.sync_names()?)
    }

    pub(crate) fn rename(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = ctx.arguments();
        let (from, to) = (arguments.entry()?, arguments.entry()?);
        let (mut fromdir_wcc, mut todir_wcc) = (wcc_data::default(), wcc_data::default());
        let outcome = self.entry(from.0).and_then(|old| {
            let new = self.entry(to.0)?;
            let (old_before, new_before) = (old.pre_op(&ctx.caller), new.pre_op(&ctx.caller));
            let outcome = Self::rename_entry(&ctx.caller, (&old, from.1), (&new, to.1));
            fromdir_wcc = old.wcc(&ctx.caller, old_before);
            todir_wcc = new.wcc(&ctx.caller, new_before);
            outcome
        });
        ctx.reply_with(
            "RENAME",
            (outcome, (fromdir_wcc, todir_wcc)),
            |(), (fromdir_wcc, todir_wcc)| RENAME3resok { fromdir_wcc, todir_wcc },
            |(fromdir_wcc, todir_wcc)| RENAME3resfail { fromdir_wcc, todir_wcc },
        )
    }

    fn rename_entry(
        caller: &Caller,
        (old, old_name): (&ExportEntry, &[u8]),
        (new, new_name): (&ExportEntry, &[u8]),
    ) -> Result<(), NfsError> {
        if old.export.inode_table.space_id() != new.export.inode_table.space_id() {
            return Err(nfsstat3::NFS3ERR_XDEV.into());
        }
        let export = &old.export;
        let (old_name, new_name) = (parse_name(old_name)?, parse_name(new_name)?);
        new.stat_directory(caller)?;
        let from = old.existing_child(caller, &old_name)?;
        if (old.inode, &old_name) == (new.inode, &new_name) {
            return Ok(());
        }
        // Its content so far is a version under the old name.
        export.save_inode(from.inode)?;
        if let Some(status) = export.sessions.rejected_status(from.inode) {
            return Err(status.into());
        }
        // Before locking the names: all calls that need a name wait for that lock.
        let (old_path, new_path) = (old.current_path()?.join(&old_name), new.current_path()?.join(&new_name));
        export.vfs().await_links(&old_path, &new_path)?;
        let names = export.names_lock.write();
        let (old_state, new_state) = (old.stat_directory_locked(caller)?, new.stat_directory_locked(caller)?);
        // Looked up again: it may have changed before the lock was taken.
        let from = old.existing_child_locked(caller, &old_name)?.current_path()?;
        let to = new.current_path()?.join(&new_name);
        let replaced = match new.existing_child_locked(caller, &new_name) {
            Ok(replaced) => Some(replaced),
            Err(error) if error.is_missing() => None,
            Err(error) => return Err(error),
        };
        export.vfs().rename_node(caller, (old_state.node, &old_name), (new_state.node, &new_name), true)?;
        let abandoned = match &replaced {
            Some(replaced) => {
                let abandoned = export.abandon(replaced.inode);
                export
                    .inode_table
                    .discard_writes(&[(replaced.inode, InodeTable::ALL_POSITIONS)], false)
                    .map_err(Fault::from)?;
                abandoned
            }
            None => Ok(()),
        };
        export.inode_table.rename(&from, &to).map_err(Fault::from)?;
        drop(names);
        abandoned?;
        Ok(export.sync_names()?)
    }

    pub(crate) fn link(&self, ctx: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = ctx.arguments();
        arguments.handle()?;
        arguments.entry()?;
        let outcome =
            Err(NfsError::from(Fault::new(Kind::Disabled, "hard links are not supported; copy the file instead")));
        ctx.reply::<LINK3resok, _>("LINK", outcome, || LINK3resfail {
            file_attributes: Nfs3Option::None,
            linkdir_wcc: wcc_data::default(),
        })
    }
}
