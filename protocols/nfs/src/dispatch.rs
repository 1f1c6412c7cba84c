//! Which procedure answers a call.

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

/// A call, as procedures see it.
pub(crate) struct CallContext<'a> {
    pub(crate) caller: Caller,
    call: &'a RpcCall<'a>,
    measures: &'a RequestMetrics,
    begun: Instant,
}

impl<'a> CallContext<'a> {
    pub(crate) fn of(call: &'a RpcCall<'a>, caller: Caller, measures: &'a RequestMetrics) -> Self {
        Self { caller, call, measures, begun: Instant::now() }
    }
}

/// What was read of a file.
pub(crate) struct ReadReply {
    pub(crate) told: fattr3,
    pub(crate) data: Bytes,
    /// Whether the file ends behind it.
    pub(crate) is_end: bool,
}

/// The answer, or that the arguments are none.
type ProcedureResult = Result<Vec<u8>, GarbageArguments>;

/// Why no procedure answers.
#[derive(Debug)]
pub(crate) enum ProcedureError {
    Garbage,
    NoProcedure,
}

impl From<ProcedureError> for accept_stat_data {
    fn from(why: ProcedureError) -> Self {
        match why {
            ProcedureError::Garbage => Self::GARBAGE_ARGS,
            ProcedureError::NoProcedure => Self::PROC_UNAVAIL,
        }
    }
}

impl CallContext<'_> {
    pub(crate) fn arguments(&self) -> XdrReader<'_> {
        self.call.arguments
    }

    /// The answer to a procedure that went so; `failed` is what comes with a status that is no success.
    pub(crate) fn answer<T: Pack, E: Pack>(
        &self,
        procedure: &'static str,
        outcome: Result<T, NfsError>,
        failed: impl FnOnce() -> E,
    ) -> ProcedureResult {
        let refused = self.counted(procedure, &outcome);
        Ok(self.call.answer(&match outcome {
            Ok(done) => Nfs3Result::Ok(done),
            Err(_) => Nfs3Result::Err((refused, failed())),
        }))
    }

    /// The answer to a change that went so; `with` is told in any case.
    pub(crate) fn answer_with<V, C, T: Pack, E: Pack>(
        &self,
        procedure: &'static str,
        (outcome, with): (Result<V, NfsError>, C),
        done: impl FnOnce(V, C) -> T,
        failed: impl FnOnce(C) -> E,
    ) -> ProcedureResult {
        let refused = self.counted(procedure, &outcome);
        Ok(self.call.answer(&match outcome {
            Ok(value) => Nfs3Result::Ok(done(value, with)),
            Err(_) => Nfs3Result::Err((refused, failed(with))),
        }))
    }

    /// The answer to a READ that went so.
    pub(crate) fn answer_read(&self, outcome: Result<ReadReply, NfsError>) -> Result<RpcReply, GarbageArguments> {
        match outcome {
            Ok(ReadReply { told, data, is_end }) => {
                self.counted("READ", &Ok(()));
                let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
                let (file_attributes, none) = (Nfs3Option::Some(told), Opaque::borrowed(&[]));
                let done = READ3resok { file_attributes, count, eof: is_end, data: none };
                Ok(self.call.answer_with(&Nfs3Result::<_, READ3resfail>::Ok(done), data))
            }
            refused => self.answer("READ", refused.map(|_| Void), READ3resfail::default).map(RpcReply::from),
        }
    }

    /// Counts a procedure that went so, and gives its status.
    fn counted<T>(&self, procedure: &'static str, outcome: &Result<T, NfsError>) -> nfsstat3 {
        let status = outcome.as_ref().err().map(|refusal| refusal.told(procedure));
        let refusal = status.map(|status| format!("{status:?}"));
        self.measures.record_protocol_call(svcfs_base::Protocol::Nfs, procedure, refusal, self.begun.elapsed());
        status.unwrap_or(nfsstat3::NFS3_OK)
    }

    pub(crate) fn plain(&self, body: &impl Pack) -> ProcedureResult {
        Ok(self.call.answer(body))
    }
}

/// Whether doing it twice is not doing it once.
const fn is_once(procedure: NFS_PROGRAM) -> bool {
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
    /// Answers a message; none when there is nothing to answer, or it is being answered already.
    pub(crate) fn answer(&self, client: NfsClient, record: &[u8]) -> Option<RpcReply> {
        let call = match RpcCall::of(record) {
            Ok(call) => call,
            Err(RpcRejection::Told(answer)) => return Some(answer.into()),
            Err(RpcRejection::Nonsense) => return None,
        };
        if !self.lets_in(&call) {
            return Some(call.deny().into());
        }
        let client = NfsClient { user: call.user, ..client };
        let version = match call.program {
            nfs3::PROGRAM => nfs3::VERSION,
            mount::PROGRAM => mount::VERSION,
            portmap::PROGRAM => portmap::VERSION,
            _ => return Some(call.refuse(accept_stat_data::PROG_UNAVAIL).into()),
        };
        if call.version != version {
            return Some(call.refuse(accept_stat_data::PROG_MISMATCH { low: version, high: version }).into());
        }
        let measures = &self.server.metrics().requests;
        let asked = CallContext::of(&call, self.names.caller(client), measures);
        let answer = match call.program {
            mount::PROGRAM => self.mounting(&asked, call.procedure).map(RpcReply::from),
            portmap::PROGRAM => self.mapping(&asked, call.procedure).map(RpcReply::from),
            _ => {
                let Ok(procedure) = NFS_PROGRAM::try_from(call.procedure) else {
                    return Some(call.refuse(accept_stat_data::PROC_UNAVAIL).into());
                };
                if is_once(procedure) {
                    return self.answer_once(client, &asked, (procedure, record));
                }
                self.ask(&asked, procedure).map_err(ProcedureError::from)
            }
        };
        Some(answer.unwrap_or_else(|why| call.refuse(why.into()).into()))
    }

    /// Whether a call is heard. By a server that asks for keys since it was started none is but that which asks for nothing: this protocol carries
    /// none (gaps.md D12).
    pub(crate) fn lets_in(&self, call: &RpcCall<'_>) -> bool {
        self.settings.has_allow_list || self.server.access().is_open() || call.procedure == 0
    }

    /// Answers what was answered before in the same words.
    fn answer_once(
        &self,
        client: NfsClient,
        asked: &CallContext<'_>,
        (procedure, record): (NFS_PROGRAM, &[u8]),
    ) -> Option<RpcReply> {
        let mut hash = DefaultHasher::new();
        record.hash(&mut hash);
        let question = (client.address, asked.call.id, hash.finish());
        let asking = match self.replies.hear(question) {
            ReplyLookup::Before(answer) => return Some(answer.into()),
            ReplyLookup::Now => return None,
            ReplyLookup::New(asking) => asking,
        };
        let answer = self.ask(asked, procedure);
        let answer = answer.unwrap_or_else(|GarbageArguments| asked.call.refuse(accept_stat_data::GARBAGE_ARGS).into());
        asking.answered(&answer.head);
        Some(answer)
    }

    fn ask(&self, asked: &CallContext<'_>, procedure: NFS_PROGRAM) -> Result<RpcReply, GarbageArguments> {
        let answer = match procedure {
            NFS_PROGRAM::NFSPROC3_NULL => asked.plain(&Void),
            NFS_PROGRAM::NFSPROC3_GETATTR => self.getattr(asked),
            NFS_PROGRAM::NFSPROC3_SETATTR => self.setattr(asked),
            NFS_PROGRAM::NFSPROC3_LOOKUP => self.lookup(asked),
            NFS_PROGRAM::NFSPROC3_ACCESS => self.access(asked),
            NFS_PROGRAM::NFSPROC3_READLINK => self.readlink(asked),
            NFS_PROGRAM::NFSPROC3_READ => return self.read(asked),
            NFS_PROGRAM::NFSPROC3_WRITE => self.write(asked),
            NFS_PROGRAM::NFSPROC3_CREATE => self.create(asked),
            NFS_PROGRAM::NFSPROC3_MKDIR => self.mkdir(asked),
            NFS_PROGRAM::NFSPROC3_SYMLINK => self.symlink(asked),
            NFS_PROGRAM::NFSPROC3_MKNOD => self.mknod(asked),
            NFS_PROGRAM::NFSPROC3_REMOVE => self.remove(asked),
            NFS_PROGRAM::NFSPROC3_RMDIR => self.rmdir(asked),
            NFS_PROGRAM::NFSPROC3_RENAME => self.rename(asked),
            NFS_PROGRAM::NFSPROC3_LINK => self.link(asked),
            NFS_PROGRAM::NFSPROC3_READDIR => self.readdir(asked),
            NFS_PROGRAM::NFSPROC3_READDIRPLUS => self.readdirplus(asked),
            NFS_PROGRAM::NFSPROC3_FSSTAT => self.fsstat(asked),
            NFS_PROGRAM::NFSPROC3_FSINFO => self.fsinfo(asked),
            NFS_PROGRAM::NFSPROC3_PATHCONF => self.pathconf(asked),
            NFS_PROGRAM::NFSPROC3_COMMIT => self.commit(asked),
        };
        answer.map(RpcReply::from)
    }
}
