//! What is changed through a folder, by programs that know nothing of requests.
//!
//! The kernel asks for what it does not remember, ahead of those who read, and hands files to programs without asking again: who read what cannot be
//! told from that, and is not kept. What changes something always comes here.

use std::sync::Arc;

use svcfs_base::{AuditEntry, Kind, Protocol};
use svcfs_vfs::{ChangeOutcome, RequestedChange, Vfs};

use super::AuditRecorder;

/// What is kept of a change that was not refused.
const DONE: u16 = 200;

/// Keeps what is changed in this tree through the kernel mount and over NFS. Other doors tell of their requests.
pub(crate) fn follow(vfs: &Vfs, recorder: &Arc<AuditRecorder>, space: &str) {
    let (recorder, space) = (Arc::clone(recorder), space.to_owned());
    vfs.on_change(Box::new(move |done| {
        // A save that lost a race is tried again, and told of then.
        if is_folder(done.caller.protocol) && done.refusal.is_none_or(|fault| fault.kind() != Kind::Stale) {
            done.changes.iter().for_each(|change| recorder.record(entry(done, change, &space)));
        }
    }));
}

/// Whether what comes through a door are calls on a folder.
const fn is_folder(protocol: Protocol) -> bool {
    match protocol {
        Protocol::Fuse | Protocol::Nfs => true,
        Protocol::Http
        | Protocol::Mcp
        | Protocol::WebDav
        | Protocol::S3
        | Protocol::Cli
        | Protocol::Direct
        | Protocol::Internal => false,
    }
}

/// One change, in the words of requests.
fn entry(done: &ChangeOutcome<'_>, change: &RequestedChange, space: &str) -> AuditEntry {
    let ChangeOutcome { caller, timestamp: at, duration: took, refusal, changes: _ } = done;
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
        status: refusal.map_or(DONE, |fault| fault.kind().http()),
        duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        request_id: None,
        x_space: None,
        provenance: caller.provenance.as_ref().map(ToString::to_string),
        lost_before: 0,
    }
}
