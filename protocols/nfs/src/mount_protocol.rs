//! The MOUNT program (RFC 1813, appendix I): from the name of a folder to its handle.

use nfs3_types::mount::{
    MOUNT_PROGRAM, dirpath, export_node, exports, fhandle3, mountlist, mountres3, mountres3_ok, mountstat3,
};
use nfs3_types::nfs3::{ftype3, nfsstat3};
use nfs3_types::xdr_codec::{List, Opaque, Pack, Unpack, Void};
use svcfs_base::TreePath;

use crate::NfsServer;
use crate::dispatch::{CallContext, ProcedureError};
use crate::error::NfsError;
use crate::file_handle::{ExportEntry, HandleTarget, name};
use crate::xdr_reader::PATH;

/// `AUTH_SYS` and `AUTH_NONE`, the better one first.
const FLAVORS: [u32; 2] = [1, 0];

impl NfsServer {
    pub(crate) fn mounting(&self, asked: &CallContext<'_>, procedure: u32) -> Result<Vec<u8>, ProcedureError> {
        let answer = match MOUNT_PROGRAM::try_from(procedure) {
            Ok(MOUNT_PROGRAM::MOUNTPROC3_MNT) => {
                let path = asked.arguments().bytes(PATH)?;
                asked.plain(&match self.mounted(asked, path) {
                    Ok(place) => {
                        let fhandle = fhandle3(place.handle().data);
                        mountres3::Ok(mountres3_ok { fhandle, auth_flavors: FLAVORS.to_vec() })
                    }
                    Err(refusal) => mountres3::Err(told(&refusal)),
                })
            }
            // Who has mounted what is not remembered: a client that went away without a word would stand there for ever.
            Ok(MOUNT_PROGRAM::MOUNTPROC3_DUMP) => asked.plain(&mountlist::default()),
            Ok(MOUNT_PROGRAM::MOUNTPROC3_EXPORT) => asked.plain(&self.exported()),
            Ok(MOUNT_PROGRAM::MOUNTPROC3_NULL | MOUNT_PROGRAM::MOUNTPROC3_UMNT | MOUNT_PROGRAM::MOUNTPROC3_UMNTALL) => {
                asked.plain(&Void)
            }
            Err(_) => return Err(ProcedureError::NoProcedure),
        };
        Ok(answer?)
    }

    /// The folder of a name: `/`, `/SPACE`, and folders below.
    fn mounted(&self, asked: &CallContext<'_>, path: &[u8]) -> Result<HandleTarget, NfsError> {
        let path = std::str::from_utf8(path).map_err(|_| NfsError::Word(nfsstat3::NFS3ERR_INVAL))?;
        let path = TreePath::parse(path)?;
        let mut parts = path.components().peekable();
        let named = parts.peek().map_or(Ok(None), |name| self.exports().named(name))?;
        let mut place = match named {
            Some(export) => {
                parts.next();
                HandleTarget::Entry(ExportEntry::root(export))
            }
            None => self.top()?,
        };
        for part in parts {
            place = self.child(&asked.caller, &place, &name(part.as_bytes())?)?;
        }
        match place.attributes(self, &asked.caller)?.type_ {
            ftype3::NF3DIR => Ok(place),
            _ => Err(nfsstat3::NFS3ERR_NOTDIR.into()),
        }
    }

    /// What is at `/`: the only space there is, else the folder that has all of them.
    pub(crate) fn top(&self) -> Result<HandleTarget, NfsError> {
        let only = self.exports().only()?;
        Ok(only.map_or(HandleTarget::Top, |export| HandleTarget::Entry(ExportEntry::root(export))))
    }

    fn exported(&self) -> exports<'static, 'static> {
        let spaces = self.server.spaces().list_open();
        let names = spaces.iter().map(|space| format!("/{}", space.name));
        let all = std::iter::once("/".to_owned()).chain(names);
        let node = |path: String| export_node {
            ex_dir: dirpath(Opaque::owned(path.into_bytes())),
            ex_groups: List::default(),
        };
        List(all.map(node).collect())
    }
}

/// The program has words of its own for some of the statuses, by the same numbers.
fn told(refusal: &NfsError) -> mountstat3 {
    let status = if refusal.is_missing() { nfsstat3::NFS3ERR_NOENT } else { refusal.told("MNT") };
    let mut number = Vec::with_capacity(4);
    let _written = status.pack(&mut number);
    mountstat3::unpack(&mut &*number).map_or(mountstat3::MNT3ERR_SERVERFAULT, |(status, _)| status)
}
