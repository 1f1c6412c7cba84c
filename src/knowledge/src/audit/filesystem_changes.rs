//! Audit of changes through a mounted folder, where there are no requests.
//!
//! Reads are not recorded: the kernel prefetches and answers from its cache, so the server cannot
//! know who read what. Every change reaches the server.

use std::sync::Arc;

use svcfs_base::{AuditEntry, Kind, Protocol};
use svcfs_vfs::{ChangeOutcome, RequestedChange, Vfs};

use super::AuditRecorder;

/// The recorded status of a change that was not refused.
const OK_STATUS: u16 = 200;

/// Records the changes through the kernel mount and NFS. Other protocols record their requests.
pub(crate) fn follow(vfs: &Vfs, recorder: &Arc<AuditRecorder>, space: &str) {
    let (recorder, space) = (Arc::clone(recorder), space.to_owned());
    vfs.on_change(Box::new(move |outcome| {
        // A save that fails with `Stale` is retried and recorded then.
        if is_file_protocol(outcome.caller.protocol) && outcome.refusal.is_none_or(|fault| fault.kind() != Kind::Stale)
        {
            outcome.changes.iter().for_each(|change| recorder.record(to_entry(outcome, change, &space)));
        }
    }));
}

/// Whether the protocol shows the space as a folder, without requests.
const fn is_file_protocol(protocol: Protocol) -> bool {
    match protocol {
        Protocol::Fuse | Protocol::Nfs => true,
        Protocol::Http
        | Protocol::Mcp
        | Protocol::WebDav
        | Protocol::S3
        | Protocol::Remote
        | Protocol::Cli
        | Protocol::Direct
        | Protocol::Internal => false,
    }
}

fn to_entry(outcome: &ChangeOutcome<'_>, change: &RequestedChange, space: &str) -> AuditEntry {
    let ChangeOutcome { caller, timestamp: at, duration: took, refusal, changes: _ } = outcome;
    let RequestedChange { method, path, destination: to } = change;
    AuditEntry {
        ts: *at,
        protocol: caller.protocol,
        method: (*method).to_owned(),
        path: path.to_string(),
        query: to.as_ref().map(|to| format!("to={to}")),
        operation: None,
        file: Some(path.to_string()),
        space: Some(space.to_owned()),
        actor: caller.actor().as_str().to_owned(),
        token_hash: None,
        ip: caller.address,
        status: refusal.map_or(OK_STATUS, |fault| fault.kind().http()),
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        request_id: None,
        x_space: None,
        provenance: caller.provenance.as_ref().map(ToString::to_string),
        lost_before: 0,
    }
}
