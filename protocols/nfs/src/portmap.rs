//! The port mapper (RFC 1057, appendix A): on which port a program is heard.
//!
//! Why is it here and not on port 111? Because that one is the system's, and the clients that are told the ports of NFS and MOUNT ask nobody. Some cannot be
//! told (the one of Windows): they find us where 111 is our port, or leads to it.

use nfs3_types::portmap::{IPPROTO_TCP, PMAP_PROG, mapping, pmaplist};
use nfs3_types::xdr_codec::{List, Void};
use nfs3_types::{mount, nfs3};

use crate::NfsServer;
use crate::dispatch::{CallContext, ProcedureError};
use crate::xdr_reader::GarbageArguments;

impl NfsServer {
    /// What is heard here, by program and version. All of it is heard on one port.
    fn mappings(&self) -> [mapping; 2] {
        let port = u32::from(*self.port.get().unwrap_or(&self.settings.port));
        [(nfs3::PROGRAM, nfs3::VERSION), (mount::PROGRAM, mount::VERSION)].map(|(prog, vers)| mapping {
            prog,
            vers,
            prot: IPPROTO_TCP,
            port,
        })
    }

    pub(crate) fn mapping(&self, asked: &CallContext<'_>, procedure: u32) -> Result<Vec<u8>, ProcedureError> {
        match PMAP_PROG::try_from(procedure) {
            Ok(PMAP_PROG::PMAPPROC_NULL) => Ok(asked.plain(&Void)?),
            Ok(PMAP_PROG::PMAPPROC_GETPORT) => {
                let wanted: mapping = asked.arguments().value()?;
                // Some ask for a version that is none, to hear which ones are.
                let is_it = |there: &&mapping| (there.prog, there.prot) == (wanted.prog, wanted.prot);
                let port = self.mappings().iter().find(is_it).map_or(0, |there| there.port);
                Ok(asked.plain(&port)?)
            }
            Ok(PMAP_PROG::PMAPPROC_DUMP) => {
                let all: pmaplist = List(self.mappings().to_vec());
                Ok(asked.plain(&all)?)
            }
            // Nobody else is heard here, and nobody is called in the name of others.
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
