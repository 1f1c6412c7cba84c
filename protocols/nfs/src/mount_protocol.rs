//! The MOUNT program (RFC 1813, appendix I): maps the path of a directory to its handle.

use nfs3_types::mount::{
    MOUNT_PROGRAM, dirpath, export_node, exports, fhandle3, mountlist, mountres3, mountres3_ok, mountstat3,
};
use nfs3_types::nfs3::{ftype3, nfsstat3};
use nfs3_types::xdr_codec::{List, Opaque, Pack, Unpack, Void};
use svcfs_base::TreePath;

use crate::NfsServer;
use crate::dispatch::{CallContext, ProcedureError};
use crate::error::NfsError;
use crate::file_handle::{ExportEntry, HandleTarget, parse_name};
use crate::xdr_reader::MAX_PATH_BYTES;

/// `AUTH_SYS` and `AUTH_NONE`, preferred one first.
const FLAVORS: [u32; 2] = [1, 0];

impl NfsServer {
    pub(crate) fn mount_call(&self, ctx: &CallContext<'_>, procedure: u32) -> Result<Vec<u8>, ProcedureError> {
        let answer = match MOUNT_PROGRAM::try_from(procedure) {
            Ok(MOUNT_PROGRAM::MOUNTPROC3_MNT) => {
                let path = ctx.arguments().bytes(MAX_PATH_BYTES)?;
                ctx.reply_plain(&match self.mount_target(ctx, path) {
                    Ok(target) => {
                        let fhandle = fhandle3(target.handle().data);
                        mountres3::Ok(mountres3_ok { fhandle, auth_flavors: FLAVORS.to_vec() })
                    }
                    Err(error) => mountres3::Err(mount_status(&error)),
                })
            }
            // Mounts are not recorded: a client that disappeared would stay listed forever.
            Ok(MOUNT_PROGRAM::MOUNTPROC3_DUMP) => ctx.reply_plain(&mountlist::default()),
            Ok(MOUNT_PROGRAM::MOUNTPROC3_EXPORT) => ctx.reply_plain(&self.export_list()),
            Ok(MOUNT_PROGRAM::MOUNTPROC3_NULL | MOUNT_PROGRAM::MOUNTPROC3_UMNT | MOUNT_PROGRAM::MOUNTPROC3_UMNTALL) => {
                ctx.reply_plain(&Void)
            }
            Err(_) => return Err(ProcedureError::NoProcedure),
        };
        Ok(answer?)
    }

    fn mount_target(&self, ctx: &CallContext<'_>, path: &[u8]) -> Result<HandleTarget, NfsError> {
        let path = std::str::from_utf8(path).map_err(|_| NfsError::Status(nfsstat3::NFS3ERR_INVAL))?;
        let path = TreePath::parse(path)?;
        let mut parts = path.components().peekable();
        let export = parts.peek().map_or(Ok(None), |name| self.exports().by_name(name))?;
        let mut target = match export {
            Some(export) => {
                parts.next();
                HandleTarget::Entry(ExportEntry::root(export))
            }
            None => self.mount_root()?,
        };
        for part in parts {
            target = self.child(&ctx.caller, &target, &parse_name(part.as_bytes())?)?;
        }
        match target.attributes(self, &ctx.caller)?.type_ {
            ftype3::NF3DIR => Ok(target),
            _ => Err(nfsstat3::NFS3ERR_NOTDIR.into()),
        }
    }

    /// The directory at `/`: the root of the only space, else the pseudo root.
    pub(crate) fn mount_root(&self) -> Result<HandleTarget, NfsError> {
        let only = self.exports().single()?;
        Ok(only.map_or(HandleTarget::PseudoRoot, |export| HandleTarget::Entry(ExportEntry::root(export))))
    }

    fn export_list(&self) -> exports<'static, 'static> {
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

/// The MOUNT status, which has the same number as the NFS status.
fn mount_status(error: &NfsError) -> mountstat3 {
    let status = if error.is_missing() { nfsstat3::NFS3ERR_NOENT } else { error.log_and_status("MNT") };
    let mut number = Vec::with_capacity(4);
    let _written = status.pack(&mut number);
    mountstat3::unpack(&mut &*number).map_or(mountstat3::MNT3ERR_SERVERFAULT, |(status, _)| status)
}
