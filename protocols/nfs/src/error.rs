//! Errors of procedures, and their NFS status.

use nfs3_types::nfs3::nfsstat3;
use nfs3_types::xdr_codec::Unpack;
use svcfs_base::{Fault, Kind, LogLevel};

use crate::xdr_reader::GarbageArguments;

#[derive(Debug)]
pub(crate) enum NfsError {
    Status(nfsstat3),
    Fault(Fault),
}

impl From<nfsstat3> for NfsError {
    fn from(status: nfsstat3) -> Self {
        Self::Status(status)
    }
}

impl From<Fault> for NfsError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<GarbageArguments> for NfsError {
    fn from(GarbageArguments: GarbageArguments) -> Self {
        Self::Status(nfsstat3::NFS3ERR_INVAL)
    }
}

/// Maps `NotAllowed` to the status for `EPERM` for removals: `rm -f` takes `EINVAL` for a missing
/// file, and would report success.
pub(crate) fn or_not_permitted(fault: Fault) -> NfsError {
    if fault.kind() == Kind::NotAllowed { nfsstat3::NFS3ERR_PERM.into() } else { fault.into() }
}

pub(crate) fn status(kind: Kind) -> nfsstat3 {
    nfsstat3::unpack(&mut &kind.nfs().to_be_bytes()[..]).map_or(nfsstat3::NFS3ERR_SERVERFAULT, |(status, _)| status)
}

impl NfsError {
    /// The status for the client. Faults are logged here and nowhere else.
    pub(crate) fn log_and_status(&self, procedure: &'static str) -> nfsstat3 {
        let fault = match self {
            Self::Status(status) => return *status,
            Self::Fault(fault) => fault,
        };
        let kind = fault.kind().name();
        match fault.kind().level() {
            LogLevel::Debug => tracing::debug!(procedure, kind, error = ?fault, "`{procedure}` over NFS: not found"),
            LogLevel::Info => tracing::info!(procedure, kind, error = ?fault, "`{procedure}` over NFS was refused"),
            LogLevel::Error => tracing::error!(procedure, kind, error = ?fault, "`{procedure}` over NFS failed"),
        }
        status(fault.kind())
    }

    pub(crate) fn is_missing(&self) -> bool {
        match self {
            Self::Status(status) => matches!(status, nfsstat3::NFS3ERR_NOENT | nfsstat3::NFS3ERR_STALE),
            Self::Fault(fault) => matches!(fault.kind(), Kind::NotFound | Kind::Stale),
        }
    }
}
