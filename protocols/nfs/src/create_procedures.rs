//! Procedures that make something.

use nfs3_types::nfs3::{
    CREATE3resfail, CREATE3resok, MKDIR3resfail, MKDIR3resok, MKNOD3resfail, MKNOD3resok, Nfs3Option, SYMLINK3resfail,
    SYMLINK3resok, createhow3, mknoddata3, nfsstat3, post_op_attr, post_op_fh3, sattr3, wcc_data,
};
use svcfs_base::{Fault, Kind, PathComponent};
use svcfs_vfs::{EntryKind, SetAttributes, SpecialFile, SpecialKind, StableOperation};

use crate::NfsServer;
use crate::attributes::to_set;
use crate::dispatch::CallContext;
use crate::error::NfsError;
use crate::file_handle::{EntryAttributes, ExportEntry, HandleTarget, name};
use crate::xdr_reader::{GarbageArguments, PATH};

/// Permission bits of what is made without any.
const FILE: u32 = 0o644;
const DIRECTORY: u32 = 0o755;
/// So often a file is made anew whose name others give and take away meanwhile.
const TRIES: usize = 16;

/// What is to be made: who asks, where and by which name.
struct CreateRequest<'a> {
    asked: &'a CallContext<'a>,
    directory: &'a ExportEntry,
    seen: &'a EntryAttributes,
    name: &'a PathComponent,
}

/// Something new, with its handle and attributes, and how its directory was before and is now.
type CreateResult = (Result<(post_op_fh3, post_op_attr), NfsError>, wcc_data);

impl NfsServer {
    /// Makes something in a directory.
    fn make(
        &self,
        asked: &CallContext<'_>,
        (handle, entry): (&[u8], &[u8]),
        make: impl FnOnce(&CreateRequest<'_>) -> Result<ExportEntry, NfsError>,
    ) -> CreateResult {
        let directory = match self.entry(handle) {
            Ok(directory) => directory,
            Err(refusal) => return (Err(refusal), wcc_data::default()),
        };
        let before = directory.before(&asked.caller);
        let seen = directory.directory(&asked.caller);
        let made = seen
            .and_then(|seen| make(&CreateRequest { asked, directory: &directory, seen: &seen, name: &name(entry)? }));
        let made = made.map(|made| {
            let made = HandleTarget::Entry(made);
            (Nfs3Option::Some(made.handle()), made.after(self, &asked.caller))
        });
        (made, directory.changed(&asked.caller, before))
    }

    pub(crate) fn create(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = asked.arguments();
        let (entry, how) = (arguments.entry()?, arguments.value::<createhow3>()?);
        let made = self.make(asked, entry, |new| match &how {
            createhow3::UNCHECKED(set) => self.make_or_reuse(new, set),
            createhow3::GUARDED(set) => self.make_file(new, set),
            createhow3::EXCLUSIVE(verifier) => {
                match self.make_file(new, &sattr3::default()) {
                    Ok(made) => {
                        made.export.numbers.set_verifier(made.number, verifier.0).map_err(Fault::from)?;
                        Ok(made)
                    }
                    // Asked for again, by one who did not hear that it was made.
                    Err(NfsError::Fault(fault)) if fault.kind() == Kind::Exists => {
                        let there = new.directory.there(&asked.caller, new.name)?;
                        match there.export.numbers.has_verifier(there.number, verifier.0).map_err(Fault::from)? {
                            true => Ok(there),
                            false => Err(fault.into()),
                        }
                    }
                    made => made,
                }
            }
        });
        let done = |(obj, obj_attributes), dir_wcc| CREATE3resok { obj, obj_attributes, dir_wcc };
        asked.answer_with("CREATE", made, done, |dir_wcc| CREATE3resfail { dir_wcc })
    }

    /// Makes a file. It is in the tree once it is saved, and is not lost before when this process dies.
    fn make_file(&self, new: &CreateRequest<'_>, set: &sattr3) -> Result<ExportEntry, NfsError> {
        let (caller, export) = (&new.asked.caller, &new.directory.export);
        let set = to_set(set, None)?;
        let names = export.names.read();
        let (node, _, handle) = export.vfs().create(caller, new.seen.node, new.name, set.mode.unwrap_or(FILE))?;
        export.found(node);
        let made = new.directory.child_held(new.name)?;
        // What had this name before is gone, and another door may have taken it away.
        export.abandon(made.number)?;
        let opened = export.opened(made.number, (node, handle), caller);
        drop(names);
        let Some(mut writer) = opened else {
            export.vfs().release(caller, handle)?;
            return Ok(made);
        };
        export.promise(&mut writer, StableOperation::Resize(0), false)?;
        drop(writer);
        export.make_room();
        self.written.notify_one();
        let rest = SetAttributes { mode: None, size: set.size.filter(|size| *size > 0), ..set };
        if rest.size.is_some() || rest.modified.is_some() || rest.accessed.is_some() {
            self.apply(new.asked, &made, &rest)?;
        }
        Ok(made)
    }

    /// Makes a file, or takes the one that is there.
    fn make_or_reuse(&self, new: &CreateRequest<'_>, set: &sattr3) -> Result<ExportEntry, NfsError> {
        let mut tries = 0;
        loop {
            match self.make_file(new, set) {
                Err(NfsError::Fault(fault)) if fault.kind() == Kind::Exists => {}
                made => return made,
            }
            tries += 1;
            match self.reuse(new, set) {
                // Somebody took its name away in between.
                Err(refusal) if refusal.is_missing() && tries < TRIES => {}
                reused => return reused,
            }
        }
    }

    /// A file that is there already takes the place of one that is made.
    fn reuse(&self, new: &CreateRequest<'_>, set: &sattr3) -> Result<ExportEntry, NfsError> {
        let there = new.directory.there(&new.asked.caller, new.name)?;
        let seen = there.seen(&new.asked.caller)?;
        if seen.attributes.kind != EntryKind::File {
            return Err(nfsstat3::NFS3ERR_EXIST.into());
        }
        let size = to_set(set, None)?.size;
        if size.is_some() {
            self.apply(new.asked, &there, &SetAttributes { size, ..SetAttributes::default() })?;
        }
        Ok(there)
    }

    pub(crate) fn mkdir(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = asked.arguments();
        let (entry, set) = (arguments.entry()?, arguments.value::<sattr3>()?);
        let made = self.make(asked, entry, |&CreateRequest { directory, seen, name, .. }| {
            let mode = to_set(&set, None)?.mode.unwrap_or(DIRECTORY);
            let _names = directory.export.names.read();
            let (node, _) = directory.export.vfs().make_directory(&asked.caller, seen.node, name, mode)?;
            directory.export.found(node);
            Ok(directory.child_held(name)?)
        });
        let done = |(obj, obj_attributes), dir_wcc| MKDIR3resok { obj, obj_attributes, dir_wcc };
        asked.answer_with("MKDIR", made, done, |dir_wcc| MKDIR3resfail { dir_wcc })
    }

    pub(crate) fn symlink(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = asked.arguments();
        let entry = arguments.entry()?;
        arguments.value::<sattr3>()?;
        let target = arguments.bytes(PATH)?;
        let made = self.make(asked, entry, |&CreateRequest { directory, seen, name, .. }| {
            let target = std::str::from_utf8(target).map_err(|_| NfsError::Word(nfsstat3::NFS3ERR_INVAL))?;
            let names = directory.export.names.read();
            let (node, _) = directory.export.vfs().make_link(&asked.caller, seen.node, name, target)?;
            directory.export.found(node);
            let made = directory.child_held(name)?;
            drop(names);
            directory.export.names_are_safe()?;
            Ok(made)
        });
        let done = |(obj, obj_attributes), dir_wcc| SYMLINK3resok { obj, obj_attributes, dir_wcc };
        asked.answer_with("SYMLINK", made, done, |dir_wcc| SYMLINK3resfail { dir_wcc })
    }

    /// Pipes and sockets, which are for the programs of one machine, have their names here. Devices would be those of the server.
    pub(crate) fn mknod(&self, asked: &CallContext<'_>) -> Result<Vec<u8>, GarbageArguments> {
        let mut arguments = asked.arguments();
        let (entry, what) = (arguments.entry()?, arguments.value::<mknoddata3>()?);
        let made = self.make(asked, entry, |&CreateRequest { directory, seen, name, .. }| {
            let (kind, set) = match &what {
                mknoddata3::NF3FIFO(set) => (SpecialKind::Fifo, set),
                mknoddata3::NF3SOCK(set) => (SpecialKind::Socket, set),
                mknoddata3::NF3CHR(_) | mknoddata3::NF3BLK(_) => return Err(nfsstat3::NFS3ERR_NOTSUPP.into()),
                mknoddata3::default => return Err(nfsstat3::NFS3ERR_BADTYPE.into()),
            };
            let mode = to_set(set, None)?.mode.unwrap_or(FILE);
            let special = SpecialFile { kind, device: 0 };
            let (vfs, _names) = (directory.export.vfs(), directory.export.names.read());
            let (node, _) = vfs.make_special(&asked.caller, (seen.node, name), special, mode)?;
            directory.export.found(node);
            Ok(directory.child_held(name)?)
        });
        let done = |(obj, obj_attributes), dir_wcc| MKNOD3resok { obj, obj_attributes, dir_wcc };
        asked.answer_with("MKNOD", made, done, |dir_wcc| MKNOD3resfail { dir_wcc })
    }
}
