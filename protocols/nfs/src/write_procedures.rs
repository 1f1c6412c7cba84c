//! Procedures that change what is there: contents, attributes, names.

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
use crate::attributes::{time, to_set};
use crate::dispatch::CallContext;
use crate::error::NfsError;
use crate::file_handle::{ExportEntry, name};
use crate::read_procedures::TRANSFER;
use crate::xdr_reader::GarbageArguments;

/// What the disk says of a length that it has not.
fn too_far(fault: Fault) -> NfsError {
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
        self.place(handle)?.entry()
    }

    pub(crate) fn setattr(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = asked.arguments();
        let handle = arguments.handle()?;
        let (set, guard) = (arguments.value::<sattr3>()?, arguments.value::<sattrguard3>()?);
        let mut obj_wcc = wcc_data::default();
        let outcome = self.entry(handle).and_then(|entry| {
            let before = entry.before(&asked.caller);
            let outcome = self.set(asked, &entry, (&set, &guard));
            obj_wcc = entry.changed(&asked.caller, before);
            outcome
        });
        let (done, failed) = (|(), obj_wcc| SETATTR3resok { obj_wcc }, |obj_wcc| SETATTR3resfail { obj_wcc });
        asked.answer_with("SETATTR", (outcome, obj_wcc), done, failed)
    }

    fn set(
        &self,
        asked: &CallContext<'_>,
        entry: &ExportEntry,
        (set, guard): (&sattr3, &sattrguard3),
    ) -> Result<(), NfsError> {
        let seen = entry.seen(&asked.caller)?;
        if let Nfs3Option::Some(guard) = guard
            && *guard != time(seen.attributes.changed)
        {
            return Err(nfsstat3::NFS3ERR_NOT_SYNC.into());
        }
        self.apply(asked, entry, &to_set(set, Some(&seen.attributes))?)
    }

    /// Sets attributes; a new length is a write.
    pub(crate) fn apply(
        &self,
        asked: &CallContext<'_>,
        entry: &ExportEntry,
        set: &svcfs_vfs::SetAttributes,
    ) -> Result<(), NfsError> {
        let export = &entry.export;
        if let Some(size) = set.size {
            if size == 0 {
                // Whoever empties a file has nothing more to do with what was refused of it.
                export.refused.forget(entry.number);
            }
            // Held open: what is emptied is filled in a moment, and nobody's version before.
            let mut writer = export.writer(entry, &asked.caller, (size, &[]))?;
            let set = svcfs_vfs::SetAttributes { handle: Some(writer.handle), ..*set };
            export.vfs().set_attributes(&asked.caller, writer.node, set).map_err(too_far)?;
            export.wrote(&mut writer);
            export.promise(&mut writer, StableOperation::Resize(size), false)?;
            drop(writer);
            export.make_room();
            self.written.notify_one();
            return Ok(());
        }
        let seen = entry.seen(&asked.caller)?;
        export.vfs().set_attributes(&asked.caller, seen.node, *set)?;
        Ok(())
    }

    pub(crate) fn write(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = asked.arguments();
        let (handle, offset) = (arguments.handle()?, arguments.value::<u64>()?);
        let (count, stable) = (arguments.value::<u32>()?, arguments.value::<stable_how>()?);
        let data = arguments.bytes(crate::record_marking::LONGEST)?;
        let done = self.entry(handle).and_then(|entry| {
            let before = entry.before(&asked.caller);
            let data = data.get(..count as usize).ok_or(nfsstat3::NFS3ERR_INVAL)?;
            if count > TRANSFER {
                return Err(nfsstat3::NFS3ERR_INVAL.into());
            }
            let committed = self.put(asked, &entry, (offset, data), stable)?;
            let file_wcc = entry.changed(&asked.caller, before);
            Ok(WRITE3resok { file_wcc, count, committed, verf: writeverf3(self.verifier) })
        });
        asked.answer("WRITE", done, WRITE3resfail::default)
    }

    /// Writes, and says how safe it is.
    fn put(
        &self,
        asked: &CallContext<'_>,
        entry: &ExportEntry,
        (offset, data): (u64, &[u8]),
        stable: stable_how,
    ) -> Result<stable_how, NfsError> {
        let export = &entry.export;
        let mut writer = export.writer(entry, &asked.caller, (offset, data))?;
        export.vfs().write_node(&asked.caller, writer.handle, WriteAt::Offset(offset), data).map_err(too_far)?;
        export.wrote(&mut writer);
        let committed = match stable {
            stable_how::UNSTABLE => stable_how::UNSTABLE,
            stable_how::DATA_SYNC | stable_how::FILE_SYNC => {
                export.promise(&mut writer, StableOperation::Write(offset, data.to_vec()), true)?;
                stable_how::FILE_SYNC
            }
        };
        drop(writer);
        export.make_room();
        self.written.notify_one();
        Ok(committed)
    }

    pub(crate) fn commit(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let handle = asked.arguments().handle()?;
        let mut file_wcc = wcc_data::default();
        let outcome = self.entry(handle).and_then(|entry| {
            let before = entry.before(&asked.caller);
            let outcome = entry.export.settle(entry.number);
            file_wcc = entry.changed(&asked.caller, before);
            outcome?;
            // What another question has saved may be on its way to the disk.
            Ok(entry.export.vfs().wait_applied().map(drop)?)
        });
        let done = |(), file_wcc| COMMIT3resok { file_wcc, verf: writeverf3(self.verifier) };
        asked.answer_with("COMMIT", (outcome, file_wcc), done, |file_wcc| COMMIT3resfail { file_wcc })
    }

    pub(crate) fn remove(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let (handle, entry) = asked.arguments().entry()?;
        let removed = self.removed(asked, (handle, entry), false);
        let (done, failed) = (|(), dir_wcc| REMOVE3resok { dir_wcc }, |dir_wcc| REMOVE3resfail { dir_wcc });
        asked.answer_with("REMOVE", removed, done, failed)
    }

    pub(crate) fn rmdir(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let (handle, entry) = asked.arguments().entry()?;
        let removed = self.removed(asked, (handle, entry), true);
        let (done, failed) = (|(), dir_wcc| RMDIR3resok { dir_wcc }, |dir_wcc| RMDIR3resfail { dir_wcc });
        asked.answer_with("RMDIR", removed, done, failed)
    }

    fn removed(
        &self,
        asked: &CallContext<'_>,
        (handle, entry): (&[u8], &[u8]),
        is_directory: bool,
    ) -> (Result<(), NfsError>, wcc_data) {
        let directory = match self.entry(handle) {
            Ok(directory) => directory,
            Err(refusal) => return (Err(refusal), wcc_data::default()),
        };
        let before = directory.before(&asked.caller);
        let outcome = Self::take_away(&asked.caller, &directory, entry, is_directory);
        (outcome, directory.changed(&asked.caller, before))
    }

    fn take_away(caller: &Caller, directory: &ExportEntry, entry: &[u8], is_directory: bool) -> Result<(), NfsError> {
        let (export, name) = (&directory.export, name(entry)?);
        let vfs = export.vfs();
        let names = export.names.write();
        let seen = directory.directory_held(caller)?;
        let gone = directory.there_held(caller, &name)?;
        let kind = gone.seen_held(caller)?.attributes.kind;
        let path = gone.now()?;
        match (is_directory, kind) {
            (true, EntryKind::Directory) => vfs.remove_directory(caller, seen.node, &name)?,
            (true, _) => return Err(nfsstat3::NFS3ERR_NOTDIR.into()),
            (false, EntryKind::Directory) => return Err(nfsstat3::NFS3ERR_ISDIR.into()),
            (false, _) => vfs.unlink(caller, seen.node, &name)?,
        }
        let abandoned = export.abandon(gone.number);
        export.numbers.remove(&path).map_err(Fault::from)?;
        drop(names);
        abandoned?;
        Ok(export.names_are_safe()?)
    }

    pub(crate) fn rename(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = asked.arguments();
        let (from, to) = (arguments.entry()?, arguments.entry()?);
        let (mut fromdir_wcc, mut todir_wcc) = (wcc_data::default(), wcc_data::default());
        let outcome = self.entry(from.0).and_then(|old| {
            let new = self.entry(to.0)?;
            let (old_before, new_before) = (old.before(&asked.caller), new.before(&asked.caller));
            let outcome = Self::move_to(&asked.caller, (&old, from.1), (&new, to.1));
            fromdir_wcc = old.changed(&asked.caller, old_before);
            todir_wcc = new.changed(&asked.caller, new_before);
            outcome
        });
        asked.answer_with(
            "RENAME",
            (outcome, (fromdir_wcc, todir_wcc)),
            |(), (fromdir_wcc, todir_wcc)| RENAME3resok { fromdir_wcc, todir_wcc },
            |(fromdir_wcc, todir_wcc)| RENAME3resfail { fromdir_wcc, todir_wcc },
        )
    }

    fn move_to(
        caller: &Caller,
        (old, old_name): (&ExportEntry, &[u8]),
        (new, new_name): (&ExportEntry, &[u8]),
    ) -> Result<(), NfsError> {
        if old.export.numbers.space_id() != new.export.numbers.space_id() {
            return Err(nfsstat3::NFS3ERR_XDEV.into());
        }
        let export = &old.export;
        let (old_name, new_name) = (name(old_name)?, name(new_name)?);
        new.directory(caller)?;
        let from = old.there(caller, &old_name)?;
        if (old.number, &old_name) == (new.number, &new_name) {
            return Ok(());
        }
        // What is in it so far is a version of its old name.
        export.settle(from.number)?;
        if let Some(status) = export.writers.refused(from.number) {
            return Err(status.into());
        }
        // While names are held everybody waits who asks for one.
        let (old_path, new_path) = (old.now()?.join(&old_name), new.now()?.join(&new_name));
        export.vfs().await_links(&old_path, &new_path)?;
        let names = export.names.write();
        let (old_seen, new_seen) = (old.directory_held(caller)?, new.directory_held(caller)?);
        // Looked at anew: others may have changed it meanwhile.
        let from = old.there_held(caller, &old_name)?.now()?;
        let to = new.now()?.join(&new_name);
        let replaced = match new.there_held(caller, &new_name) {
            Ok(replaced) => Some(replaced),
            Err(refusal) if refusal.is_missing() => None,
            Err(refusal) => return Err(refusal),
        };
        export.vfs().rename_node(caller, (old_seen.node, &old_name), (new_seen.node, &new_name), true)?;
        let abandoned = match &replaced {
            Some(replaced) => {
                let abandoned = export.abandon(replaced.number);
                export
                    .numbers
                    .discard_writes(&[(replaced.number, InodeTable::ALL_POSITIONS)], false)
                    .map_err(Fault::from)?;
                abandoned
            }
            None => Ok(()),
        };
        export.numbers.rename(&from, &to).map_err(Fault::from)?;
        drop(names);
        abandoned?;
        Ok(export.names_are_safe()?)
    }

    /// A file has one name here.
    pub(crate) fn link(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = asked.arguments();
        arguments.handle()?;
        arguments.entry()?;
        let refused =
            Err(NfsError::from(Fault::new(Kind::Disabled, "a file has one name here: hard links are not kept")));
        asked.answer::<LINK3resok, _>("LINK", refused, || LINK3resfail {
            file_attributes: Nfs3Option::None,
            linkdir_wcc: wcc_data::default(),
        })
    }
}
