//! File handles: a space and an inode in it.

use std::sync::Arc;

use nfs3_types::nfs3::{Nfs3Option, fattr3, nfs_fh3, nfsstat3, post_op_attr, pre_op_attr, wcc_data};
use nfs3_types::xdr_codec::Opaque;
use svcfs_base::{Caller, Fault, Kind, PathComponent, TreePath};
use svcfs_vfs::{EntryKind, InodeTable, NodeId, PathAttributes};

use crate::NfsServer;
use crate::attributes::{pseudo_root_attributes, to_fattr, to_wcc};
use crate::error::NfsError;
use crate::export::NfsExport;

/// Id of the pseudo root, the directory that contains all spaces: as space and as inode.
pub(crate) const PSEUDO_ROOT_ID: u64 = 2;
/// First byte of a handle, so that a later format can be recognized.
const HANDLE_FORMAT: u8 = 1;

#[derive(Clone)]
pub(crate) enum HandleTarget {
    PseudoRoot,
    Entry(ExportEntry),
}

#[derive(Clone)]
pub(crate) struct ExportEntry {
    pub(crate) export: Arc<NfsExport>,
    pub(crate) inode: u64,
}

pub(crate) struct EntryAttributes {
    pub(crate) node: NodeId,
    pub(crate) attributes: PathAttributes,
    pub(crate) fattr: fattr3,
}

impl HandleTarget {
    pub(crate) fn handle(&self) -> nfs_fh3 {
        let (space, inode) = match self {
            Self::PseudoRoot => (PSEUDO_ROOT_ID, PSEUDO_ROOT_ID),
            Self::Entry(entry) => (entry.export.inode_table.space_id(), entry.inode),
        };
        let bytes = [&[HANDLE_FORMAT][..], &space.to_be_bytes(), &inode.to_be_bytes()].concat();
        nfs_fh3 { data: Opaque::owned(bytes) }
    }

    /// The entry; the pseudo root is read-only.
    pub(crate) fn entry(self) -> Result<ExportEntry, NfsError> {
        match self {
            Self::PseudoRoot => Err(nfsstat3::NFS3ERR_ROFS.into()),
            Self::Entry(entry) => Ok(entry),
        }
    }

    pub(crate) fn attributes(&self, protocol: &NfsServer, caller: &Caller) -> Result<fattr3, NfsError> {
        match self {
            Self::PseudoRoot => Ok(pseudo_root_attributes(protocol.server.spaces().list_open().len())),
            Self::Entry(entry) => Ok(entry.stat(caller)?.fattr),
        }
    }

    /// Post-operation attributes; optional in the reply.
    pub(crate) fn post_op(&self, protocol: &NfsServer, caller: &Caller) -> post_op_attr {
        self.attributes(protocol, caller).map_or(Nfs3Option::None, Nfs3Option::Some)
    }
}

impl ExportEntry {
    /// The root of a space.
    pub(crate) fn root(export: Arc<NfsExport>) -> Self {
        Self { export, inode: InodeTable::ROOT }
    }

    /// The current path of its inode. Errors: `NotFound` when the path was removed.
    pub(crate) fn current_path(&self) -> Result<TreePath, Fault> {
        let path = self.export.inode_table.path(self.inode)?;
        path.ok_or_else(|| Fault::not_found("the file was removed or renamed"))
    }

    /// The entry of a name in this directory. The caller holds `names_lock`.
    pub(crate) fn child_locked(&self, name: &PathComponent) -> Result<Self, Fault> {
        let inode = self.export.child_inodes(self.inode, &[name.as_str()])?[0];
        Ok(Self { export: Arc::clone(&self.export), inode })
    }

    /// The existing entry of a name in this directory. Errors: `NFS3ERR_NOENT` when there is none.
    pub(crate) fn existing_child(&self, caller: &Caller, name: &PathComponent) -> Result<Self, NfsError> {
        let _names = self.export.names_lock.read();
        self.existing_child_locked(caller, name)
    }

    /// As `existing_child`; the caller holds `names_lock`.
    pub(crate) fn existing_child_locked(&self, caller: &Caller, name: &PathComponent) -> Result<Self, NfsError> {
        self.stat_directory_locked(caller)?;
        // Looked up first: a name that does not exist needs no inode.
        match self.export.vfs().lookup_path(caller, &self.current_path()?.join(name)) {
            Ok((node, _)) => self.export.pin_node(node),
            Err(fault) if fault.kind() == Kind::NotFound => return Err(nfsstat3::NFS3ERR_NOENT.into()),
            Err(fault) => return Err(fault.into()),
        }
        Ok(self.child_locked(name)?)
    }

    /// The current state; of a file that is being written, the state it will have. Errors:
    /// `NFS3ERR_STALE` when it does not exist.
    pub(crate) fn stat(&self, caller: &Caller) -> Result<EntryAttributes, NfsError> {
        let _names = self.export.names_lock.read();
        self.stat_locked(caller)
    }

    /// As `stat`; the caller holds `names_lock`.
    pub(crate) fn stat_locked(&self, caller: &Caller) -> Result<EntryAttributes, NfsError> {
        self.stat_path(caller, self.current_path())
    }

    /// As `stat_locked`, for a path that the caller has just looked up.
    pub(crate) fn stat_path(
        &self,
        caller: &Caller,
        path: Result<TreePath, Fault>,
    ) -> Result<EntryAttributes, NfsError> {
        let located = path.and_then(|path| self.locate(caller, &path));
        let (node, attributes) = located.map_err(|fault| match fault.kind() {
            Kind::NotFound => NfsError::Status(nfsstat3::NFS3ERR_STALE),
            _ => NfsError::Fault(fault),
        })?;
        let fattr = to_fattr(self.export.inode_table.space_id(), self.inode, &attributes);
        Ok(EntryAttributes { node, attributes, fattr })
    }

    fn locate(&self, caller: &Caller, path: &TreePath) -> Result<(NodeId, PathAttributes), Fault> {
        let vfs = self.export.vfs();
        if let Some(node) = self.export.sessions.node(self.inode)
            && vfs.path_of(node).is_ok_and(|current| current == *path)
        {
            return Ok((node, vfs.attributes(node)?));
        }
        let located = vfs.lookup_path(caller, path)?;
        self.export.pin_node(located.0);
        Ok(located)
    }

    pub(crate) fn stat_directory(&self, caller: &Caller) -> Result<EntryAttributes, NfsError> {
        let _names = self.export.names_lock.read();
        self.stat_directory_locked(caller)
    }

    /// As `stat_directory`; the caller holds `names_lock`.
    pub(crate) fn stat_directory_locked(&self, caller: &Caller) -> Result<EntryAttributes, NfsError> {
        let state = self.stat_locked(caller)?;
        match state.attributes.kind {
            EntryKind::Directory => Ok(state),
            EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => Err(nfsstat3::NFS3ERR_NOTDIR.into()),
        }
    }

    pub(crate) fn pre_op(&self, caller: &Caller) -> pre_op_attr {
        self.stat(caller).map_or(Nfs3Option::None, |state| Nfs3Option::Some(to_wcc(&state.fattr)))
    }

    /// Attributes before and after a change (weak cache consistency).
    pub(crate) fn wcc(&self, caller: &Caller, before: pre_op_attr) -> wcc_data {
        wcc_data { before, after: self.stat(caller).map_or(Nfs3Option::None, |state| Nfs3Option::Some(state.fattr)) }
    }
}

/// Space id and inode of a handle; `None` for one that this server never issued.
pub(crate) fn decode_handle(handle: &[u8]) -> Option<(u64, u64)> {
    let (format, rest) = handle.split_first()?;
    let (space, inode) = rest.split_at_checked(8)?;
    let (space, inode) = (<[u8; 8]>::try_from(space).ok()?, <[u8; 8]>::try_from(inode).ok()?);
    (*format == HANDLE_FORMAT).then(|| (u64::from_be_bytes(space), u64::from_be_bytes(inode)))
}

/// Parses a name that a client sent. Errors: `NFS3ERR_INVAL` for one that no tree allows,
/// `NFS3ERR_NAMETOOLONG`.
pub(crate) fn parse_name(bytes: &[u8]) -> Result<PathComponent, NfsError> {
    let text = std::str::from_utf8(bytes).map_err(|_| NfsError::Status(nfsstat3::NFS3ERR_INVAL))?;
    Ok(PathComponent::parse(text)?)
}

impl NfsServer {
    /// The target of a handle. Errors: `NFS3ERR_BADHANDLE` for one that this server never issued,
    /// `NFS3ERR_STALE` when its file or space is gone.
    pub(crate) fn resolve(&self, handle: &[u8]) -> Result<HandleTarget, NfsError> {
        let (space, inode) = decode_handle(handle).ok_or(nfsstat3::NFS3ERR_BADHANDLE)?;
        if (space, inode) == (PSEUDO_ROOT_ID, PSEUDO_ROOT_ID) {
            return Ok(HandleTarget::PseudoRoot);
        }
        let stale = || NfsError::Status(nfsstat3::NFS3ERR_STALE);
        let export =
            self.exports().find(|export| export.inode_table.space_id() == space, |_| true)?.ok_or_else(stale)?;
        export.inode_table.path(inode).map_err(Fault::from)?.ok_or_else(stale)?;
        Ok(HandleTarget::Entry(ExportEntry { export, inode }))
    }
}
