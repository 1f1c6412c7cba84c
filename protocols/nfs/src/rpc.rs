//! Remote procedure calls (RFC 5531): headers of calls and replies.

use bytes::Bytes;
use nfs3_types::rpc::{
    accept_stat_data, accepted_reply, auth_stat, msg_body, opaque_auth, rejected_reply, reply_body, rpc_msg,
};
use nfs3_types::xdr_codec::Pack;

use crate::xdr_reader::{GarbageArguments, XdrReader};

const RPC_VERSION: u32 = 2;
/// `AUTH_NONE` and `AUTH_SYS` (RFC 5531 8.2).
const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;
const MAX_CREDENTIALS_BYTES: usize = 400;
const MAX_GROUPS: u32 = 16;

/// A call: procedure, user and arguments.
#[derive(Debug)]
pub(crate) struct RpcCall<'a> {
    pub(crate) id: u32,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
    /// User id; `None` when the client sends none.
    pub(crate) user: Option<u32>,
    pub(crate) arguments: XdrReader<'a>,
}

/// A reply: its header, and the file content at its end, which is not copied.
#[derive(Debug)]
pub(crate) struct RpcReply {
    pub(crate) head: Vec<u8>,
    pub(crate) data: Bytes,
}

impl From<Vec<u8>> for RpcReply {
    fn from(head: Vec<u8>) -> Self {
        Self { head, data: Bytes::new() }
    }
}

impl RpcReply {
    /// Zero padding to a multiple of four bytes.
    pub(crate) const fn padding(&self) -> &'static [u8] {
        match self.data.len() % 4 {
            1 => &[0; 3],
            2 => &[0; 2],
            3 => &[0; 1],
            _ => &[],
        }
    }

    pub(crate) const fn length(&self) -> usize {
        self.head.len() + self.data.len() + self.padding().len()
    }
}

/// A message that no procedure handles.
#[derive(Debug)]
pub(crate) enum RpcRejection {
    /// Not a call: it gets no reply.
    NotACall,
    /// An error reply.
    Reply(Vec<u8>),
}

impl From<GarbageArguments> for RpcRejection {
    fn from(GarbageArguments: GarbageArguments) -> Self {
        Self::NotACall
    }
}

impl<'a> RpcCall<'a> {
    pub(crate) fn parse(record: &'a [u8]) -> Result<Self, RpcRejection> {
        let mut head = XdrReader::new(record);
        let id = head.value()?;
        if head.value::<u32>()? != 0 {
            return Err(RpcRejection::NotACall);
        }
        if head.value::<u32>()? != RPC_VERSION {
            return Err(RpcRejection::Reply(denied(id, rejected_reply::rpc_mismatch(RPC_VERSION, RPC_VERSION))));
        }
        let (program, version, procedure) = (head.value()?, head.value()?, head.value()?);
        let (flavor, credentials) = (head.value::<u32>()?, head.bytes(MAX_CREDENTIALS_BYTES)?);
        head.value::<u32>()?;
        head.bytes(MAX_CREDENTIALS_BYTES)?;
        let auth_error = |stat| RpcRejection::Reply(denied(id, rejected_reply::auth_error(stat)));
        let user = match flavor {
            AUTH_NONE => None,
            AUTH_SYS => Some(user(credentials).map_err(|GarbageArguments| auth_error(auth_stat::AUTH_BADCRED))?),
            _ => return Err(auth_error(auth_stat::AUTH_TOOWEAK)),
        };
        Ok(Self { id, program, version, procedure, user, arguments: head })
    }

    pub(crate) fn success(&self, body: &impl Pack) -> Vec<u8> {
        let mut reply = accepted(self.id, accept_stat_data::SUCCESS);
        reply.reserve(body.packed_size());
        // Writing into memory does not fail.
        let _written = body.pack(&mut reply);
        reply
    }

    /// A successful reply that ends with `data`; `body` ends with an empty byte string, whose
    /// length is replaced (RFC 4506 4.10).
    pub(crate) fn success_with_data(&self, body: &impl Pack, data: Bytes) -> RpcReply {
        let mut head = self.success(body);
        head.truncate(head.len() - size_of::<u32>());
        // Reads are limited far below 4 GiB.
        head.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
        RpcReply { head, data }
    }

    /// An error reply of the RPC layer.
    pub(crate) fn error(&self, error: accept_stat_data) -> Vec<u8> {
        accepted(self.id, error)
    }

    pub(crate) fn deny(&self) -> Vec<u8> {
        denied(self.id, rejected_reply::auth_error(auth_stat::AUTH_TOOWEAK))
    }
}

/// The user id in `AUTH_SYS` credentials (RFC 5531, appendix A).
fn user(credentials: &[u8]) -> Result<u32, GarbageArguments> {
    let mut credentials = XdrReader::new(credentials);
    credentials.value::<u32>()?;
    credentials.bytes(255)?;
    let user = credentials.value()?;
    credentials.value::<u32>()?;
    let groups = credentials.value::<u32>()?;
    if groups > MAX_GROUPS {
        return Err(GarbageArguments);
    }
    for _ in 0..groups {
        credentials.value::<u32>()?;
    }
    credentials.end()?;
    Ok(user)
}

fn accepted(id: u32, reply_data: accept_stat_data) -> Vec<u8> {
    packed(id, reply_body::MSG_ACCEPTED(accepted_reply { verf: opaque_auth::default(), reply_data }))
}

fn denied(id: u32, error: rejected_reply) -> Vec<u8> {
    packed(id, reply_body::MSG_DENIED(error))
}

fn packed(xid: u32, body: reply_body<'static>) -> Vec<u8> {
    let message = rpc_msg { xid, body: msg_body::REPLY(body) };
    let mut bytes = Vec::with_capacity(64);
    let _written = message.pack(&mut bytes);
    bytes
}
