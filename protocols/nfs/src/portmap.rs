//! The port mapper (RFC 1057, appendix A): tells on which port a program listens.
//!
//! It is served on the NFS port, not on 111, which belongs to the system; clients that are
//! configured with the ports of NFS and MOUNT need no port mapper. For others (Windows), port 111
//! can be forwarded here.

use nfs3_types::portmap::{IPPROTO_TCP, PMAP_PROG, mapping, pmaplist};
use nfs3_types::xdr_codec::{List, Void};
use nfs3_types::{mount, nfs3};

use crate::NfsServer;
use crate::dispatch::{CallContext, ProcedureError};
use crate::xdr_reader::GarbageArguments;

impl NfsServer {
    fn mappings(&self) -> [mapping; 2] {
        let port = u32::from(*self.port.get().unwrap_or(&self.settings.port));
        [(nfs3::PROGRAM, nfs3::VERSION), (mount::PROGRAM, mount::VERSION)].map(|(prog, vers)| mapping {
            prog,
            vers,
            prot: IPPROTO_TCP,
            port,
        })
    }

    pub(crate) fn portmap_call(&self, ctx: &CallContext<'_>, procedure: u32) -> Result<Vec<u8>, ProcedureError> {
        match PMAP_PROG::try_from(procedure) {
            Ok(PMAP_PROG::PMAPPROC_NULL) => Ok(ctx.reply_plain(&Void)?),
            Ok(PMAP_PROG::PMAPPROC_GETPORT) => {
                let requested: mapping = ctx.arguments().value()?;
                // The version is ignored: some clients ask with an unknown one to learn which
                // exist.
                let matches = |served: &&mapping| (served.prog, served.prot) == (requested.prog, requested.prot);
                let port = self.mappings().iter().find(matches).map_or(0, |served| served.port);
                Ok(ctx.reply_plain(&port)?)
            }
            Ok(PMAP_PROG::PMAPPROC_DUMP) => {
                let all: pmaplist = List(self.mappings().to_vec());
                Ok(ctx.reply_plain(&all)?)
            }
            // No other program is registered here, and calls are not forwarded.
            Ok(PMAP_PROG::PMAPPROC_SET | PMAP_PROG::PMAPPROC_UNSET | PMAP_PROG::PMAPPROC_CALLIT) | Err(_) => {
                Err(ProcedureError::NoProcedure)
            }
        }
    }
}

impl From<GarbageArguments> for ProcedureError {
    fn from(GarbageArguments: GarbageArguments) -> Self {
        Self::Garbage
    }
}
