//! The encoding of a batch.
//!
//! Invariant: decoding gives the same records as the rows. Batches of earlier versions stay
//! readable: new fields are not inserted, but follow in a trailer.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use svcfs_base::{
    Actor, CommitId, DiskAttributes, ETag, EventAnnouncement, FileKind, Protocol, RequestMark, Seq, Timestamp, TreePath,
};

use super::super::{DiffBase, LogEntry, LogRecord, RecordKind, rows, spool};
use super::SpooledContent;
use crate::StoreError;

#[derive(Serialize, Deserialize)]
struct JournalBatch<'b> {
    after: u64,
    #[serde(borrow)]
    sets: Vec<JournalSet<'b>>,
}

#[derive(Serialize, Deserialize)]
struct JournalSet<'b> {
    seq: u64,
    /// Nanoseconds since 1970, as all times here.
    time: i64,
    actor: &'b str,
    protocol: &'b str,
    message: &'b str,
    provenance: Option<&'b str>,
    announcement: &'b str,
    role: i64,
    against: i64,
    commit: Option<[u8; 20]>,
    #[serde(borrow)]
    moves: Vec<(&'b str, &'b str)>,
    #[serde(borrow)]
    changes: Vec<JournalChange<'b>>,
}

#[derive(Serialize, Deserialize)]
struct JournalChange<'b> {
    path: &'b str,
    old: Option<[u8; 20]>,
    new: Option<[u8; 20]>,
    kind: i32,
    modified: Option<i64>,
    #[serde(borrow)]
    content: Option<JournalContent<'b>>,
}

#[derive(Serialize, Deserialize)]
struct JournalContent<'b> {
    /// None when it is in a spool file.
    #[serde(borrow)]
    bytes: Option<&'b serde_bytes::Bytes>,
    mode: Option<u32>,
    owner: Option<(u32, u32)>,
}

/// Follows a batch: changes that replace a file too large for versions.
#[derive(Serialize, Deserialize, Default)]
struct BatchTrailer {
    replacements: Vec<LargeReplacement>,
}

/// Follows the first trailer, if a set has a request: positions and stored forms of requests.
#[derive(Serialize, Deserialize, Default)]
struct RequestTrailer {
    requests: Vec<(u64, [u8; 32])>,
}

#[derive(Serialize, Deserialize)]
struct LargeReplacement {
    seq: u64,
    ordinal: usize,
    /// Size and time, as in the rows.
    large: (i64, i64),
}

/// Encodes records and the position that they follow, after `zeros` zero bytes.
pub(super) fn encode(after: Seq, records: &[LogRecord], zeros: usize) -> Result<Vec<u8>, StoreError> {
    let batch = JournalBatch { after: after.0, sets: records.iter().map(set_of).collect() };
    let requests = records.iter().filter_map(|record| Some((record.seq.0, record.request?.to_bytes()))).collect();
    let requests = RequestTrailer { requests };
    postcard::to_extend(&batch, vec![0; zeros])
        .and_then(|bytes| postcard::to_extend(&trailer_of(records), bytes))
        .and_then(|bytes| if requests.requests.is_empty() { Ok(bytes) } else { postcard::to_extend(&requests, bytes) })
        .map_err(|error| StoreError::Damaged(format!("a batch cannot be encoded: {error}")))
}

fn trailer_of(records: &[LogRecord]) -> BatchTrailer {
    let replacements = records.iter().flat_map(|record| {
        let entries = record.entries.iter().enumerate().filter(|(_, entry)| entry.content.is_some());
        entries.filter_map(|(ordinal, entry)| {
            let large = entry.replaces_large.as_ref().and_then(rows::large_numbers)?;
            Some(LargeReplacement { seq: record.seq.0, ordinal, large })
        })
    });
    BatchTrailer { replacements: replacements.collect() }
}

fn set_of(record: &LogRecord) -> JournalSet<'_> {
    JournalSet {
        seq: record.seq.0,
        time: rows::nanosecond(record.time),
        actor: record.actor.as_str(),
        protocol: record.protocol.name(),
        message: &record.message,
        provenance: record.provenance.as_deref(),
        announcement: record.announcement.name(),
        role: record.kind.number(),
        against: record.diff_base.number(),
        commit: record.commit.map(|commit| *commit.as_bytes()),
        moves: record.moves.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect(),
        changes: record.entries.iter().map(change_of).collect(),
    }
}

fn change_of(entry: &LogEntry) -> JournalChange<'_> {
    let content = entry.content.as_deref().map(|content| JournalContent {
        bytes: (!spool::is_large(content)).then_some(serde_bytes::Bytes::new(content)),
        mode: entry.attributes.mode,
        owner: entry.attributes.owner,
    });
    JournalChange {
        path: entry.path.as_str(),
        old: entry.old.map(|etag| *etag.as_bytes()),
        new: entry.new.map(|etag| *etag.as_bytes()),
        kind: entry.kind.git_mode(),
        modified: entry.attributes.modified.and_then(rows::nanoseconds),
        content,
    }
}

/// Decodes a batch, and the position that it follows. Contents of spool files are read by record,
/// ordinal and hash.
pub(super) fn read(bytes: &[u8], spooled: SpooledContent<'_>) -> Result<(Seq, Vec<LogRecord>), StoreError> {
    let decode_error = |error: postcard::Error| damaged(&error.to_string());
    let (batch, rest): (JournalBatch<'_>, _) = postcard::take_from_bytes(bytes).map_err(decode_error)?;
    let (trailer, rest): (BatchTrailer, _) = take_if_present(rest).map_err(decode_error)?;
    let (RequestTrailer { requests }, _) = take_if_present(rest).map_err(decode_error)?;
    let mut records = batch.sets.into_iter().map(|set| record_of(set, spooled)).collect::<Result<Vec<_>, _>>()?;
    for LargeReplacement { seq, ordinal, large } in trailer.replacements {
        let record = records.iter_mut().find(|record| record.seq.0 == seq);
        let entry = record.and_then(|record| record.entries.get_mut(ordinal));
        entry.ok_or_else(|| damaged("the trailer refers to a missing change"))?.replaces_large =
            Some(rows::large(large));
    }
    for (seq, request) in requests {
        let record = records.iter_mut().find(|record| record.seq.0 == seq);
        record.ok_or_else(|| damaged("the trailer refers to a missing set"))?.request =
            RequestMark::from_bytes(&request);
    }
    Ok((Seq(batch.after), records))
}

/// Decodes a trailer, which batches of earlier versions do not have.
fn take_if_present<'b, T: Deserialize<'b> + Default>(bytes: &'b [u8]) -> postcard::Result<(T, &'b [u8])> {
    if bytes.is_empty() { Ok((T::default(), bytes)) } else { postcard::take_from_bytes(bytes) }
}

fn record_of(set: JournalSet<'_>, spooled: SpooledContent<'_>) -> Result<LogRecord, StoreError> {
    let seq = Seq(set.seq);
    let entries = set.changes.into_iter().zip(0_i64..).map(|(change, ordinal)| {
        let new = change.new.map(ETag::from_bytes);
        let content = match &change.content {
            Some(JournalContent { bytes: Some(bytes), .. }) => Some(Bytes::copy_from_slice(bytes)),
            Some(JournalContent { bytes: None, .. }) => Some(spooled(seq, ordinal, new)?),
            None => None,
        };
        let (mode, owner) = change.content.map_or((None, None), |content| (content.mode, content.owner));
        Ok(LogEntry {
            path: path(change.path)?,
            old: change.old.map(ETag::from_bytes),
            new,
            kind: FileKind::from_git_mode(change.kind).ok_or_else(|| damaged("unknown kind of file"))?,
            content,
            attributes: DiskAttributes { mode, owner, modified: change.modified.map(rows::file_time), accessed: None },
            replaces_large: None,
        })
    });
    Ok(LogRecord {
        seq,
        time: Timestamp::from_nanosecond(set.time.into()).map_err(|error| damaged(&error.to_string()))?,
        actor: Actor::new(set.actor),
        protocol: Protocol::parse(set.protocol).ok_or_else(|| damaged("unknown protocol"))?,
        message: set.message.to_owned(),
        provenance: set.provenance.map(str::to_owned),
        announcement: EventAnnouncement::parse(set.announcement).ok_or_else(|| damaged("unknown announcement"))?,
        kind: RecordKind::from_number(set.role).ok_or_else(|| damaged("unknown role"))?,
        diff_base: DiffBase::from_number(set.against).ok_or_else(|| damaged("unknown diff base"))?,
        commit: set.commit.map(CommitId::from_bytes),
        request: None,
        moves: set.moves.iter().map(|(from, to)| Ok((path(from)?, path(to)?))).collect::<Result<_, StoreError>>()?,
        entries: entries.collect::<Result<_, StoreError>>()?,
    })
}

fn path(text: &str) -> Result<TreePath, StoreError> {
    TreePath::parse(text).map_err(|fault| damaged(fault.message()))
}

fn damaged(reason: &str) -> StoreError {
    StoreError::Damaged(format!("the journal of `log.db` is damaged: {reason}"))
}
