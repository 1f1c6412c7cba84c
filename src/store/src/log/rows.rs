//! Records as rows.

use std::time::{Duration, SystemTime};

use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use svcfs_base::{
    Actor, CommitId, DiskAttributes, ETag, EventAnnouncement, FileKind, LargeFile, Protocol, Seq, Timestamp, TreePath,
    VersionId,
};

use super::{DiffBase, LogEntry, LogRecord, RecordKind, spool};

pub(super) fn insert(connection: &Connection, record: &LogRecord) -> rusqlite::Result<()> {
    let seq = number(record.seq);
    connection
        .prepare_cached(
            "INSERT INTO sets (seq, time, actor, door, message, provenance, announcement, commit_id, role, against)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
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
        kind: RecordKind::of_number(row.get(8)?).ok_or_else(|| damaged(8, "unknown role"))?,
        diff_base: against(row, 9)?,
        moves: Vec::new(),
        entries: Vec::new(),
    })
}

/// A row of `changes` as `path, old, new, kind, modified`, without its content and what goes with that.
pub(super) fn entry(row: &Row<'_>) -> rusqlite::Result<LogEntry> {
    let modified: Option<i64> = row.get(4)?;
    let modified = modified.map(moment);
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

/// The time of a set as its commit tells it. git keeps whole seconds: history answered from rows is the same as history
/// answered from rows that were made again from git.
pub(super) fn commit_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    Ok(whole_second(time(row, column)?))
}

/// A moment without its fraction.
pub(super) fn whole_second(moment: Timestamp) -> Timestamp {
    let second = nanosecond(moment).div_euclid(1_000_000_000);
    Timestamp::from_second(second).unwrap_or(moment)
}

pub(super) fn against(row: &Row<'_>, column: usize) -> rusqlite::Result<DiffBase> {
    DiffBase::of_number(row.get(column)?).ok_or_else(|| damaged(column, "unknown origin of a difference"))
}

/// What a set is called, by the columns of its commit and its time.
pub(super) fn version(row: &Row<'_>, commit: usize, at: usize) -> rusqlite::Result<VersionId> {
    match row.get_ref(commit)?.as_blob_or_null()? {
        Some(bytes) => CommitId::try_from(bytes).map(VersionId::Commit).map_err(|error| damaged(commit, error)),
        None => Ok(VersionId::Timestamp(time(row, at)?)),
    }
}

/// A moment as it is stored: for the years that a file's time can have.
pub(super) fn nanosecond(moment: Timestamp) -> i64 {
    i64::try_from(moment.as_nanosecond()).unwrap_or(i64::MAX)
}

pub(super) fn etag(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<ETag>> {
    let bytes: Option<Vec<u8>> = row.get(column)?;
    bytes.map(|bytes| ETag::try_from(&*bytes)).transpose().map_err(|error| damaged(column, error))
}

fn damaged(column: usize, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Null, why.into())
}

/// A file's time from what is stored of it.
pub(super) fn moment(nanoseconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds.unsigned_abs())
}

/// A file's time as it is stored.
pub(super) fn nanoseconds(time: SystemTime) -> Option<i64> {
    i64::try_from(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos()).ok()
}

/// Size and time of a large file as they are stored, of one that the disk can have.
pub(super) fn large_numbers(large: &LargeFile) -> Option<(i64, i64)> {
    Some((i64::try_from(large.size).ok()?, nanosecond(Timestamp::try_from(large.modified).ok()?)))
}

/// A large file from what is stored of it.
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
