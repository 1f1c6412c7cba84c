//! Records as rows.

use std::time::{Duration, SystemTime};

use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use svcfs_base::{
    Actor, CommitId, DiskAttributes, ETag, EventAnnouncement, FileKind, LargeFile, Protocol, RequestMark, Seq,
    Timestamp, TreePath, VersionId,
};

use super::{DiffBase, LogEntry, LogRecord, RecordKind, spool};

pub(super) fn insert(connection: &Connection, record: &LogRecord) -> rusqlite::Result<()> {
    let seq = number(record.seq);
    connection
        .prepare_cached(
            "INSERT INTO sets (seq, time, actor, door, message, provenance, announcement, commit_id, role, against, request)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            seq,
            nanosecond(record.time),
            record.actor.as_str(),
            record.protocol.name(),
            record.message,
            record.provenance,
            record.announcement.name(),
            record.commit.map(|commit| commit.as_bytes().to_vec()),
            record.kind.number(),
            record.diff_base.number(),
            record.request.map(RequestMark::to_bytes),
        ])?;
    for ((from, to), ordinal) in record.moves.iter().zip(0_i64..) {
        connection
            .prepare_cached("INSERT INTO moves (seq, ordinal, old_path, new_path) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![seq, ordinal, from.as_str(), to.as_str()])?;
    }
    for (entry, ordinal) in record.entries.iter().zip(0_i64..) {
        connection
            .prepare_cached(
                "INSERT INTO changes (seq, ordinal, path, old, new, kind, modified) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                seq,
                ordinal,
                entry.path.as_str(),
                entry.old.map(|etag| etag.as_bytes().to_vec()),
                entry.new.map(|etag| etag.as_bytes().to_vec()),
                entry.kind.git_mode(),
                entry.attributes.modified.and_then(nanoseconds),
            ])?;
        if let Some(content) = &entry.content {
            let inline = (!spool::is_large(content)).then_some(&content[..]);
            let (uid, gid) = entry.attributes.owner.unzip();
            let (size, modified) = entry.replaces_large.as_ref().and_then(large_numbers).unzip();
            connection
                .prepare_cached(
                    "INSERT INTO contents (seq, ordinal, bytes, mode, uid, gid, over_size, over_modified)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                )?
                .execute(params![seq, ordinal, inline, entry.attributes.mode, uid, gid, size, modified])?;
        }
    }
    Ok(())
}

/// A row of `sets`, without its entries.
pub(super) fn record(row: &Row<'_>) -> rusqlite::Result<LogRecord> {
    let commit: Option<Vec<u8>> = row.get(7)?;
    Ok(LogRecord {
        seq: seq(row.get(0)?),
        time: time(row, 1)?,
        actor: Actor::new(&row.get::<_, String>(2)?),
        protocol: Protocol::parse(&row.get::<_, String>(3)?).ok_or_else(|| damaged(3, "unknown protocol"))?,
        message: row.get(4)?,
        provenance: row.get(5)?,
        announcement: EventAnnouncement::parse(&row.get::<_, String>(6)?)
            .ok_or_else(|| damaged(6, "unknown announcement"))?,
        commit: commit.map(|bytes| CommitId::try_from(&*bytes)).transpose().map_err(|error| damaged(7, error))?,
        kind: RecordKind::from_number(row.get(8)?).ok_or_else(|| damaged(8, "unknown role"))?,
        diff_base: diff_base(row, 9)?,
        request: request(row, 10)?,
        moves: Vec::new(),
        entries: Vec::new(),
    })
}

/// The request of a set; none for a damaged one, which only means that it would be done again.
pub(super) fn request(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<RequestMark>> {
    let bytes: Option<Vec<u8>> = row.get(column)?;
    Ok(bytes.and_then(|bytes| RequestMark::from_bytes(&bytes)))
}

/// A row of `changes` as `path, old, new, kind, modified`, without content.
pub(super) fn entry(row: &Row<'_>) -> rusqlite::Result<LogEntry> {
    let modified: Option<i64> = row.get(4)?;
    let modified = modified.map(file_time);
    Ok(LogEntry {
        path: path(row, 0)?,
        old: etag(row, 1)?,
        new: etag(row, 2)?,
        kind: FileKind::from_git_mode(row.get(3)?).ok_or_else(|| damaged(3, "unknown kind of file"))?,
        content: None,
        attributes: DiskAttributes { modified, ..DiskAttributes::default() },
        replaces_large: None,
    })
}

pub(super) fn path(row: &Row<'_>, column: usize) -> rusqlite::Result<TreePath> {
    TreePath::parse(&row.get::<_, String>(column)?).map_err(|fault| damaged(column, fault.message().to_owned()))
}

pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let nanoseconds = i128::from(row.get::<_, i64>(column)?);
    Timestamp::from_nanosecond(nanoseconds).map_err(|error| damaged(column, error))
}

/// The time of a set in whole seconds, as git stores it: rows rebuilt from git give the same
/// history.
pub(super) fn commit_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    Ok(truncate_to_second(time(row, column)?))
}

/// Drops the fraction of a second.
pub(super) fn truncate_to_second(timestamp: Timestamp) -> Timestamp {
    let second = nanosecond(timestamp).div_euclid(1_000_000_000);
    Timestamp::from_second(second).unwrap_or(timestamp)
}

pub(super) fn diff_base(row: &Row<'_>, column: usize) -> rusqlite::Result<DiffBase> {
    DiffBase::from_number(row.get(column)?).ok_or_else(|| damaged(column, "unknown diff base"))
}

/// The id of a set, from the columns of its commit and time.
pub(super) fn version(row: &Row<'_>, commit: usize, at: usize) -> rusqlite::Result<VersionId> {
    match row.get_ref(commit)?.as_blob_or_null()? {
        Some(bytes) => CommitId::try_from(bytes).map(VersionId::Commit).map_err(|error| damaged(commit, error)),
        None => Ok(VersionId::Timestamp(time(row, at)?)),
    }
}

/// A timestamp as stored; covers the years of file times.
pub(super) fn nanosecond(timestamp: Timestamp) -> i64 {
    i64::try_from(timestamp.as_nanosecond()).unwrap_or(i64::MAX)
}

pub(super) fn etag(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<ETag>> {
    let bytes: Option<Vec<u8>> = row.get(column)?;
    bytes.map(|bytes| ETag::try_from(&*bytes)).transpose().map_err(|error| damaged(column, error))
}

fn damaged(column: usize, reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Null, reason.into())
}

/// A stored time of a file.
pub(super) fn file_time(nanoseconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds.unsigned_abs())
}

/// A time of a file as stored.
pub(super) fn nanoseconds(time: SystemTime) -> Option<i64> {
    i64::try_from(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos()).ok()
}

/// Size and time of a large file as stored; none if out of range.
pub(super) fn large_numbers(large: &LargeFile) -> Option<(i64, i64)> {
    Some((i64::try_from(large.size).ok()?, nanosecond(Timestamp::try_from(large.modified).ok()?)))
}

/// A stored large file.
pub(super) fn large((size, modified): (i64, i64)) -> LargeFile {
    let modified = Timestamp::from_nanosecond(modified.into()).unwrap_or_default();
    LargeFile { size: size.unsigned_abs(), modified: modified.into() }
}

/// SQLite's integers are signed; positions stay far below.
pub(super) fn number(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

pub(super) fn seq(number: i64) -> Seq {
    Seq(u64::try_from(number).unwrap_or(0))
}
