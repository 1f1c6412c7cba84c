//! Dispatch of calls to procedures.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Instant;

use bytes::Bytes;
use nfs3_types::nfs3::{self, NFS_PROGRAM, Nfs3Option, Nfs3Result, READ3resfail, READ3resok, fattr3, nfsstat3};
use nfs3_types::rpc::accept_stat_data;
use nfs3_types::xdr_codec::{Opaque, Pack, Void};
use nfs3_types::{mount, portmap};
use svcfs_base::Caller;
use svcfs_knowledge::metrics::RequestMetrics;

use crate::NfsServer;
use crate::clients::NfsClient;
use crate::error::NfsError;
use crate::reply_cache::ReplyLookup;
use crate::rpc::{RpcCall, RpcRejection, RpcReply};
use crate::xdr_reader::{GarbageArguments, XdrReader};

pub(crate) struct CallContext<'a> {
    pub(crate) caller: Caller,
    call: &'a RpcCall<'a>,
    metrics: &'a RequestMetrics,
    started: Instant,
}

impl<'a> CallContext<'a> {
    pub(crate) fn of(call: &'a RpcCall<'a>, caller: Caller, metrics: &'a RequestMetrics) -> Self {
        Self { caller, call, metrics, started: Instant::now() }
    }
}

pub(crate) struct ReadReply {
    pub(crate) fattr: fattr3,
    pub(crate) data: Bytes,
    /// Whether the file ends after these bytes.
    pub(crate) is_end: bool,
}

/// The encoded reply, or an error if the arguments cannot be decoded.
type ProcedureResult = Result<Vec<u8>, GarbageArguments>;

#[derive(Debug)]
pub(crate) enum ProcedureError {
    Garbage,
    NoProcedure,
}

impl From<ProcedureError> for accept_stat_data {
    fn from(error: ProcedureError) -> Self {
        match error {
            ProcedureError::Garbage => Self::GARBAGE_ARGS,
            ProcedureError::NoProcedure => Self::PROC_UNAVAIL,
        }
    }
}

impl CallContext<'_> {
    pub(crate) fn arguments(&self) -> XdrReader<'_> {
        self.call.arguments
    }

    /// Encodes the outcome of a procedure; `failed` gives the body of an error reply.
    pub(crate) fn reply<T: Pack, E: Pack>(
        &self,
        procedure: &'static str,
        outcome: Result<T, NfsError>,
        failed: impl FnOnce() -> E,
    ) -> ProcedureResult {
        let status = self.record_outcome(procedure, &outcome);
        Ok(self.call.success(&match outcome {
            Ok(done) => Nfs3Result::Ok(done),
            Err(_) => Nfs3Result::Err((status, failed())),
        }))
    }

    /// Encodes the outcome of a change; `wcc` is part of both replies.
    pub(crate) fn reply_with<V, C, T: Pack, E: Pack>(
        &self,
        procedure: &'static str,
        (outcome, wcc): (Result<V, NfsError>, C),
        done: impl FnOnce(V, C) -> T,
        failed: impl FnOnce(C) -> E,
    ) -> ProcedureResult {
        let status = self.record_outcome(procedure, &outcome);
        Ok(self.call.success(&match outcome {
            Ok(value) => Nfs3Result::Ok(done(value, wcc)),
            Err(_) => Nfs3Result::Err((status, failed(wcc))),
        }))
    }

    pub(crate) fn reply_read(&self, outcome: Result<ReadReply, NfsError>) -> Result<RpcReply, GarbageArguments> {
        match outcome {
            Ok(ReadReply { fattr, data, is_end }) => {
                self.record_outcome("READ", &Ok(()));
                let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
                let (file_attributes, none) = (Nfs3Option::Some(fattr), Opaque::borrowed(&[]));
                let done = READ3resok { file_attributes, count, eof: is_end, data: none };
                Ok(self.call.success_with_data(&Nfs3Result::<_, READ3resfail>::Ok(done), data))
            }
            status => self.reply("READ", status.map(|_| Void), READ3resfail::default).map(RpcReply::from),
        }
    }

    /// Counts a call in the metrics and returns its status.
    fn record_outcome<T>(&self, procedure: &'static str, outcome: &Result<T, NfsError>) -> nfsstat3 {
        let status = outcome.as_ref().err().map(|error| error.log_and_status(procedure));
        let error = status.map(|status| format!("{status:?}"));
        self.metrics.record_protocol_call(svcfs_base::Protocol::Nfs, procedure, error, self.started.elapsed());
        status.unwrap_or(nfsstat3::NFS3_OK)
    }

    pub(crate) fn reply_plain(&self, body: &impl Pack) -> ProcedureResult {
        Ok(self.call.success(body))
    }
}

/// Whether executing a call twice differs from executing it once.
const fn is_non_idempotent(procedure: NFS_PROGRAM) -> bool {
    use NFS_PROGRAM as P;
    matches!(
        procedure,
        P::NFSPROC3_SETATTR
            | P::NFSPROC3_CREATE
            | P::NFSPROC3_MKDIR
            | P::NFSPROC3_SYMLINK
            | P::NFSPROC3_MKNOD
            | P::NFSPROC3_REMOVE
            | P::NFSPROC3_RMDIR
            | P::NFSPROC3_RENAME
    )
}

impl NfsServer {
    /// Executes a call and returns the reply; `None` for a message that is no call, or one whose
    /// original is still in progress.
    pub(crate) fn dispatch(&self, client: NfsClient, record: &[u8]) -> Option<RpcReply> {
        let call = match RpcCall::parse(record) {
            Ok(call) => call,
            Err(RpcRejection::Reply(reply)) => return Some(reply.into()),
            Err(RpcRejection::NotACall) => return None,
        };
        if !self.is_allowed(&call) {
            return Some(call.deny().into());
        }
        let client = NfsClient { user: call.user, ..client };
        let version = match call.program {
            nfs3::PROGRAM => nfs3::VERSION,
            mount::PROGRAM => mount::VERSION,
            portmap::PROGRAM => portmap::VERSION,
            _ => return Some(call.error(accept_stat_data::PROG_UNAVAIL).into()),
        };
        if call.version != version {
            return Some(call.error(accept_stat_data::PROG_MISMATCH { low: version, high: version }).into());
        }
        let metrics = &self.server.metrics().requests;
        let ctx = CallContext::of(&call, self.actors.caller(client), metrics);
        let reply = match call.program {
            mount::PROGRAM => self.mount_call(&ctx, call.procedure).map(RpcReply::from),
            portmap::PROGRAM => self.portmap_call(&ctx, call.procedure).map(RpcReply::from),
            _ => {
                let Ok(procedure) = NFS_PROGRAM::try_from(call.procedure) else {
                    return Some(call.error(accept_stat_data::PROC_UNAVAIL).into());
                };
                if is_non_idempotent(procedure) {
                    return self.dispatch_once(client, &ctx, (procedure, record));
                }
                self.call_procedure(&ctx, procedure).map_err(ProcedureError::from)
            }
        };
        Some(reply.unwrap_or_else(|error| call.error(error.into()).into()))
    }

    /// Whether a call is accepted. NFS carries no keys, so a server that requires keys and has no
    /// `nfs.allow` list accepts only NULL.
    pub(crate) fn is_allowed(&self, call: &RpcCall<'_>) -> bool {
        self.settings.has_allow_list || self.server.access().is_open() || call.procedure == 0
    }

    /// Executes a non-idempotent call; a retransmission gets the cached reply.
    fn dispatch_once(
        &self,
        client: NfsClient,
        ctx: &CallContext<'_>,
        (procedure, record): (NFS_PROGRAM, &[u8]),
    ) -> Option<RpcReply> {
        let mut hash = DefaultHasher::new();
        record.hash(&mut hash);
        let key = (client.address, ctx.call.id, hash.finish());
        let pending = match self.replies.lookup(key) {
            ReplyLookup::Cached(reply) => return Some(reply.into()),
            ReplyLookup::InProgress => return None,
            ReplyLookup::New(pending) => pending,
        };
        let reply = self.call_procedure(ctx, procedure);
        let reply = reply.unwrap_or_else(|GarbageArguments| ctx.call.error(accept_stat_data::GARBAGE_ARGS).into());
        pending.complete(&reply.head);
        Some(reply)
    }

    fn call_procedure(&self, ctx: &CallContext<'_>, procedure: NFS_PROGRAM) -> Result<RpcReply, GarbageArguments> {
        let reply = match procedure {
            NFS_PROGRAM::NFSPROC3_NULL => ctx.reply_plain(&Void),
            NFS_PROGRAM::NFSPROC3_GETATTR => self.getattr(ctx),
            NFS_PROGRAM::NFSPROC3_SETATTR => self.setattr(ctx),
            NFS_PROGRAM::NFSPROC3_LOOKUP => self.lookup(ctx),
            NFS_PROGRAM::NFSPROC3_ACCESS => self.access(ctx),
            NFS_PROGRAM::NFSPROC3_READLINK => self.readlink(ctx),
            NFS_PROGRAM::NFSPROC3_READ => return self.read(ctx),
            NFS_PROGRAM::NFSPROC3_WRITE => self.write(ctx),
            NFS_PROGRAM::NFSPROC3_CREATE => self.create(ctx),
            NFS_PROGRAM::NFSPROC3_MKDIR => self.mkdir(ctx),
            NFS_PROGRAM::NFSPROC3_SYMLINK => self.symlink(ctx),
            NFS_PROGRAM::NFSPROC3_MKNOD => self.mknod(ctx),
            NFS_PROGRAM::NFSPROC3_REMOVE => self.remove(ctx),
            NFS_PROGRAM::NFSPROC3_RMDIR => self.rmdir(ctx),
            NFS_PROGRAM::NFSPROC3_RENAME => self.rename(ctx),
            NFS_PROGRAM::NFSPROC3_LINK => self.link(ctx),
            NFS_PROGRAM::NFSPROC3_READDIR => self.readdir(ctx),
            NFS_PROGRAM::NFSPROC3_READDIRPLUS => self.readdirplus(ctx),
            NFS_PROGRAM::NFSPROC3_FSSTAT => self.fsstat(ctx),
            NFS_PROGRAM::NFSPROC3_FSINFO => self.fsinfo(ctx),
            NFS_PROGRAM::NFSPROC3_PATHCONF => self.pathconf(ctx),
            NFS_PROGRAM::NFSPROC3_COMMIT => self.commit(ctx),
        };
        reply.map(RpcReply::from)
    }
}
