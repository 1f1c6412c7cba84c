//! What a handle means: a space, and a file's number in it.

use std::sync::Arc;

use nfs3_types::nfs3::{Nfs3Option, fattr3, nfs_fh3, nfsstat3, post_op_attr, pre_op_attr, wcc_data};
use nfs3_types::xdr_codec::Opaque;
use svcfs_base::{Caller, Fault, Kind, PathComponent, TreePath};
use svcfs_vfs::{EntryKind, InodeTable, NodeId, PathAttributes};

use crate::NfsServer;
use crate::attributes::{before, of_top, told};
use crate::error::NfsError;
use crate::export::NfsExport;

/// The number of the folder that has all spaces in it: as a space and as a file.
pub(crate) const TOP: u64 = 2;
/// Handles begin with it, so that another layout can be told from this one.
const LAYOUT: u8 = 1;

/// What a handle stands for.
#[derive(Clone)]
pub(crate) enum HandleTarget {
    /// The folder that has all spaces in it.
    Top,
    Entry(ExportEntry),
}

/// Something in a space.
#[derive(Clone)]
pub(crate) struct ExportEntry {
    pub(crate) export: Arc<NfsExport>,
    pub(crate) number: u64,
}

/// An entry that is there.
pub(crate) struct EntryAttributes {
    pub(crate) node: NodeId,
    pub(crate) attributes: PathAttributes,
    pub(crate) told: fattr3,
}

impl HandleTarget {
    pub(crate) fn handle(&self) -> nfs_fh3 {
        let (space, number) = match self {
            Self::Top => (TOP, TOP),
            Self::Entry(entry) => (entry.export.numbers.space_id(), entry.number),
        };
        let bytes = [&[LAYOUT][..], &space.to_be_bytes(), &number.to_be_bytes()].concat();
        nfs_fh3 { data: Opaque::owned(bytes) }
    }

    /// The entry; the folder of all spaces can only be looked at.
    pub(crate) fn entry(self) -> Result<ExportEntry, NfsError> {
        match self {
            Self::Top => Err(nfsstat3::NFS3ERR_ROFS.into()),
            Self::Entry(entry) => Ok(entry),
        }
    }

    pub(crate) fn attributes(&self, protocol: &NfsServer, caller: &Caller) -> Result<fattr3, NfsError> {
        match self {
            Self::Top => Ok(of_top(protocol.server.spaces().list_open().len())),
            Self::Entry(entry) => Ok(entry.seen(caller)?.told),
        }
    }

    /// The attributes for an answer that does not hang on them.
    pub(crate) fn after(&self, protocol: &NfsServer, caller: &Caller) -> post_op_attr {
        self.attributes(protocol, caller).map_or(Nfs3Option::None, Nfs3Option::Some)
    }
}

impl ExportEntry {
    /// The root of a space.
    pub(crate) fn root(export: Arc<NfsExport>) -> Self {
        Self { export, number: InodeTable::ROOT }
    }

    /// The path that its number has now.
    ///
    /// # Errors
    /// `NotFound` when its name is gone.
    pub(crate) fn now(&self) -> Result<TreePath, Fault> {
        let path = self.export.numbers.path(self.number)?;
        path.ok_or_else(|| Fault::not_found("the name of this file is gone"))
    }

    /// A name in this directory, for whoever holds the names.
    pub(crate) fn child_held(&self, name: &PathComponent) -> Result<Self, Fault> {
        let number = self.export.numbers(self.number, &[name.as_str()])?[0];
        Ok(Self { export: Arc::clone(&self.export), number })
    }

    /// What has a name in this directory. It is there.
    ///
    /// # Errors
    /// `NFS3ERR_NOENT` when nothing has.
    pub(crate) fn there(&self, caller: &Caller, name: &PathComponent) -> Result<Self, NfsError> {
        let _names = self.export.names.read();
        self.there_held(caller, name)
    }

    /// The same for whoever holds the names.
    pub(crate) fn there_held(&self, caller: &Caller, name: &PathComponent) -> Result<Self, NfsError> {
        self.directory_held(caller)?;
        // Looked for first: a name that is nowhere needs no number.
        match self.export.vfs().lookup_path(caller, &self.now()?.join(name)) {
            Ok((node, _)) => self.export.found(node),
            Err(fault) if fault.kind() == Kind::NotFound => return Err(nfsstat3::NFS3ERR_NOENT.into()),
            Err(fault) => return Err(fault.into()),
        }
        Ok(self.child_held(name)?)
    }

    /// What stands there. Of a file that is written, what will stand there.
    ///
    /// # Errors
    /// `NFS3ERR_STALE` when nothing does.
    pub(crate) fn seen(&self, caller: &Caller) -> Result<EntryAttributes, NfsError> {
        let _names = self.export.names.read();
        self.seen_held(caller)
    }

    /// The same for whoever holds the names.
    pub(crate) fn seen_held(&self, caller: &Caller) -> Result<EntryAttributes, NfsError> {
        self.seen_at(caller, self.now())
    }

    /// The same of the path that its number has, as was just asked.
    pub(crate) fn seen_at(&self, caller: &Caller, path: Result<TreePath, Fault>) -> Result<EntryAttributes, NfsError> {
        let found = path.and_then(|path| self.found(caller, &path));
        let (node, attributes) = found.map_err(|fault| match fault.kind() {
            Kind::NotFound => NfsError::Word(nfsstat3::NFS3ERR_STALE),
            _ => NfsError::Fault(fault),
        })?;
        let told = told(self.export.numbers.space_id(), self.number, &attributes);
        Ok(EntryAttributes { node, attributes, told })
    }

    /// The same, without the attributes as the protocol tells them.
    fn found(&self, caller: &Caller, path: &TreePath) -> Result<(NodeId, PathAttributes), Fault> {
        let vfs = self.export.vfs();
        if let Some(node) = self.export.writers.node(self.number)
            && vfs.path_of(node).is_ok_and(|now| now == *path)
        {
            return Ok((node, vfs.attributes(node)?));
        }
        let found = vfs.lookup_path(caller, path)?;
        self.export.found(found.0);
        Ok(found)
    }

    /// The same, of a directory.
    pub(crate) fn directory(&self, caller: &Caller) -> Result<EntryAttributes, NfsError> {
        let _names = self.export.names.read();
        self.directory_held(caller)
    }

    /// The same for whoever holds the names.
    pub(crate) fn directory_held(&self, caller: &Caller) -> Result<EntryAttributes, NfsError> {
        let seen = self.seen_held(caller)?;
        match seen.attributes.kind {
            EntryKind::Directory => Ok(seen),
            EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => Err(nfsstat3::NFS3ERR_NOTDIR.into()),
        }
    }

    /// What is compared with what comes after a change.
    pub(crate) fn before(&self, caller: &Caller) -> pre_op_attr {
        self.seen(caller).map_or(Nfs3Option::None, |seen| Nfs3Option::Some(before(&seen.told)))
    }

    /// The attributes before and after a change.
    pub(crate) fn changed(&self, caller: &Caller, before: pre_op_attr) -> wcc_data {
        wcc_data { before, after: self.seen(caller).map_or(Nfs3Option::None, |seen| Nfs3Option::Some(seen.told)) }
    }
}

/// The numbers in a handle: of a space, and of a file in it. None for one that this server never gave.
pub(crate) fn numbers(handle: &[u8]) -> Option<(u64, u64)> {
    let (layout, rest) = handle.split_first()?;
    let (space, number) = rest.split_at_checked(8)?;
    let (space, number) = (<[u8; 8]>::try_from(space).ok()?, <[u8; 8]>::try_from(number).ok()?);
    (*layout == LAYOUT).then(|| (u64::from_be_bytes(space), u64::from_be_bytes(number)))
}

/// A name, as a client gives it.
///
/// # Errors
/// `NFS3ERR_INVAL` for one that no tree has, `NFS3ERR_NAMETOOLONG`.
pub(crate) fn name(bytes: &[u8]) -> Result<PathComponent, NfsError> {
    let text = std::str::from_utf8(bytes).map_err(|_| NfsError::Word(nfsstat3::NFS3ERR_INVAL))?;
    Ok(PathComponent::parse(text)?)
}

impl NfsServer {
    /// What a handle stands for.
    ///
    /// # Errors
    /// `NFS3ERR_BADHANDLE` for one that this server never gave, `NFS3ERR_STALE` for one whose file or space is gone.
    pub(crate) fn place(&self, handle: &[u8]) -> Result<HandleTarget, NfsError> {
        let (space, number) = numbers(handle).ok_or(nfsstat3::NFS3ERR_BADHANDLE)?;
        if (space, number) == (TOP, TOP) {
            return Ok(HandleTarget::Top);
        }
        let stale = || NfsError::Word(nfsstat3::NFS3ERR_STALE);
        let export = self.exports().find(|export| export.numbers.space_id() == space, |_| true)?.ok_or_else(stale)?;
        export.numbers.path(number).map_err(Fault::from)?.ok_or_else(stale)?;
        Ok(HandleTarget::Entry(ExportEntry { export, number }))
    }
}
