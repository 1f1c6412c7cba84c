//! `nfs.db`: inode numbers that survive a restart, and stable NFS writes whose files are not in the
//! tree yet.
//!
//! Invariant: a number identifies a name, whatever its content. Every save installs another file,
//! so inode numbers of the disk cannot be handles. Numbers are random, not counted: a number lost
//! in a power failure is never given to another file.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use svcfs_base::{Actor, DiskAttributes, ETag, TreePath};

use crate::StoreError;

const SCHEMA: i32 = 3;
/// Number of names cached in memory.
const MAX_CACHED: usize = 65_536;
/// Fewer free pages are not worth a `VACUUM`.
const MIN_FREE_PAGES: i64 = 256;
/// Smaller numbers are reserved.
const MIN_INODE: u64 = 16;

/// A change of a file that must not be lost although the file is not in the tree yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StableWrite {
    /// The inode number.
    pub inode: u64,
    /// The content before the first of these changes; none for a new file.
    pub base_etag: Option<ETag>,
    /// The change.
    pub operation: StableOperation,
    /// The author; none in rows of earlier versions.
    pub author: Option<Actor>,
    /// Mode and owner of a file that is not in the tree yet.
    pub attributes: DiskAttributes,
}

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StableOperation {
    /// Sets the length in bytes; creates the file if necessary.
    Resize(u64),
    /// Writes bytes at an offset.
    Write(u64, Vec<u8>),
}

#[derive(Default)]
struct InodeCache {
    names: HashMap<u64, (u64, Box<str>)>,
    numbers: HashMap<(u64, Box<str>), u64>,
}

impl InodeCache {
    fn add(&mut self, number: u64, parent: u64, name: &str) {
        if self.names.len() >= MAX_CACHED {
            self.clear();
        }
        self.names.insert(number, (parent, name.into()));
        self.numbers.insert((parent, name.into()), number);
    }

    fn clear(&mut self) {
        self.names.clear();
        self.numbers.clear();
    }
}

struct InodeRows {
    connection: Connection,
    cache: InodeCache,
}

/// The inode numbers of one space.
/// Methods fail with an error of the database unless they say otherwise.
pub struct InodeTable {
    space: u64,
    inner: Mutex<InodeRows>,
}

impl InodeTable {
    /// The number of the root.
    pub const ROOT: u64 = 3;
    /// All pending writes of a file.
    pub const ALL_POSITIONS: RangeInclusive<i64> = 0..=i64::MAX;

    /// Opens the file, or creates a new one when it is missing, damaged or of another version. Then
    /// earlier handles are stale, and the old file is retained for a person because of its pending
    /// writes.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be created, replaced or opened.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let connection = match open(file) {
            Err(error) if is_damage(&error) => {
                let aside = set_aside(file, |from, to| std::fs::rename(from, to))?;
                tracing::error!(numbers.file = %aside.display(), %error, "the inode numbers of nfs.db cannot be read; the file was renamed, and NFS clients must mount again");
                open(file)?
            }
            opened => opened?,
        };
        let space: i64 = connection.query_row("SELECT space FROM identity", [], |row| row.get(0))?;
        let inner = InodeRows { connection, cache: InodeCache::default() };
        Ok(Self { space: space.cast_unsigned(), inner: Mutex::new(inner) })
    }

    /// A number for the space, stable as long as the file exists.
    pub const fn space_id(&self) -> u64 {
        self.space
    }

    /// The number of a path; assigned if it has none.
    pub fn inode(&self, path: &TreePath) -> Result<u64, StoreError> {
        let mut inner = self.inner.lock();
        path.components().try_fold(Self::ROOT, |parent, name| inner.number(parent, name))
    }

    /// The numbers of names in a directory, in the same order.
    pub fn inodes(&self, directory: u64, names: &[&str]) -> Result<Vec<u64>, StoreError> {
        let mut inner = self.inner.lock();
        inner.connection.execute_batch("BEGIN")?;
        let numbers = names.iter().map(|name| inner.number(directory, name)).collect::<Result<Vec<_>, _>>();
        inner.connection.execute_batch("COMMIT")?;
        numbers
    }

    /// The path of a number; none for an unknown number or a removed name.
    pub fn path(&self, number: u64) -> Result<Option<TreePath>, StoreError> {
        self.inner.lock().path(number)
    }

    /// The path of a number if it is cached; waits neither for the disk nor for a lock.
    pub fn try_path(&self, number: u64) -> Option<TreePath> {
        let inner = self.inner.try_lock()?;
        path_of(number, |number| Ok::<_, ()>(inner.cache.names.get(&number).cloned())).ok()?
    }

    /// The number of a name in a directory, under the same conditions.
    pub fn try_inode(&self, directory: u64, name: &str) -> Option<u64> {
        self.inner.try_lock()?.cache.numbers.get(&(directory, name.into())).copied()
    }

    /// Records a rename; a file that had the new name loses its number.
    pub fn rename(&self, from: &TreePath, to: &TreePath) -> Result<(), StoreError> {
        let (number, parent) = (self.inode(from)?, self.inode(&to.parent().unwrap_or_else(TreePath::root))?);
        let mut inner = self.inner.lock();
        inner.cache.clear();
        let parent = parent.cast_signed();
        let transaction = inner.connection.transaction()?;
        transaction.execute("DELETE FROM files WHERE parent = ?1 AND name = ?2", params![parent, to.name()])?;
        let sql = "UPDATE files SET parent = ?2, name = ?3 WHERE number = ?1";
        transaction.execute(sql, params![number.cast_signed(), parent, to.name()])?;
        Ok(transaction.commit()?)
    }

    /// Removes a name and the pending writes of its file.
    pub fn remove(&self, path: &TreePath) -> Result<(), StoreError> {
        let number = self.inode(path)?.cast_signed();
        let mut inner = self.inner.lock();
        inner.cache.clear();
        let transaction = inner.connection.transaction()?;
        transaction.execute("DELETE FROM promises WHERE number = ?1", [number])?;
        transaction.execute("DELETE FROM files WHERE number = ?1", [number])?;
        Ok(transaction.commit()?)
    }

    /// Up to `limit` numbers after `after`, in order, to check whether their names still exist.
    pub fn list_inodes(&self, after: u64, limit: usize) -> Result<Vec<u64>, StoreError> {
        let inner = self.inner.lock();
        let sql = "SELECT number FROM files WHERE number > ?1 ORDER BY number LIMIT ?2";
        let mut statement = inner.connection.prepare_cached(sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let numbers = statement
            .query_map(params![after.cast_signed(), limit], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))?;
        Ok(numbers.collect::<rusqlite::Result<_>>()?)
    }

    /// Removes numbers whose names do not exist any more, according to `is_gone`, while the table
    /// is locked; returns how many. Numbers with pending writes stay.
    pub fn remove_inodes(&self, numbers: &[u64], is_gone: impl Fn(&TreePath) -> bool) -> Result<usize, StoreError> {
        let mut inner = self.inner.lock();
        let mut stale = Vec::new();
        for number in numbers {
            match inner.path(*number)? {
                Some(path) if !is_gone(&path) => {}
                Some(_) | None => stale.push(number.cast_signed()),
            }
        }
        inner.cache.clear();
        let transaction = inner.connection.transaction()?;
        let mut removed = 0;
        {
            let sql = "DELETE FROM files WHERE number = ?1 AND number NOT IN (SELECT number FROM promises)";
            let mut statement = transaction.prepare_cached(sql)?;
            for number in stale {
                removed += statement.execute([number])?;
            }
        }
        transaction.commit()?;
        Ok(removed)
    }

    /// Stores the verifier of the exclusive create that made a file.
    pub fn set_verifier(&self, number: u64, verifier: [u8; 8]) -> Result<(), StoreError> {
        let inner = self.inner.lock();
        let sql = "UPDATE files SET verifier = ?2 WHERE number = ?1";
        inner.connection.execute(sql, params![number.cast_signed(), &verifier[..]])?;
        Ok(())
    }

    /// Whether an exclusive create with this verifier made the file.
    pub fn has_verifier(&self, number: u64, verifier: [u8; 8]) -> Result<bool, StoreError> {
        let inner = self.inner.lock();
        let sql = "SELECT verifier = ?2 FROM files WHERE number = ?1";
        let matches = inner.connection.query_row(sql, params![number.cast_signed(), &verifier[..]], |row| {
            Ok(row.get::<_, Option<bool>>(0)?.unwrap_or(false))
        });
        Ok(matches.optional()?.unwrap_or(false))
    }

    /// Stores a write; with `is_flushed` it survives a power failure, otherwise the end of the
    /// process. Returns its position; positions of a file increase.
    ///
    /// # Errors
    /// [`StoreError`] of the database; nothing is stored then.
    pub fn record_write(&self, write: &StableWrite, is_flushed: bool) -> Result<i64, StoreError> {
        let StableWrite { inode: number, base_etag, operation, author, attributes: disk } = write;
        let (position, data) = match operation {
            StableOperation::Resize(size) => (size, None),
            StableOperation::Write(offset, data) => (offset, Some(data)),
        };
        let mut inner = self.inner.lock();
        inner.with_flush(is_flushed, |connection| {
            let sql = "INSERT INTO promises (number, base, place, data, author, mode, uid, gid)
                        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let mut statement = connection.prepare_cached(sql)?;
            let base_etag = base_etag.map(|base_etag| base_etag.to_string());
            let author = author.as_ref().map(Actor::as_str);
            let (uid, gid) = disk.owner.unzip();
            statement.insert(params![
                number.cast_signed(),
                base_etag,
                position.cast_signed(),
                data,
                author,
                disk.mode,
                uid,
                gid
            ])
        })
    }

    /// Removes pending writes in a range of positions: their files are in the tree, or removed.
    /// Earlier ones stay: they could not be replayed when the space was opened.
    pub fn discard_writes(&self, files: &[(u64, RangeInclusive<i64>)], is_flushed: bool) -> Result<(), StoreError> {
        let mut inner = self.inner.lock();
        inner.with_flush(is_flushed, |connection| {
            let transaction = connection.transaction()?;
            {
                let sql = "DELETE FROM promises WHERE number = ?1 AND position BETWEEN ?2 AND ?3";
                let mut statement = transaction.prepare_cached(sql)?;
                for (number, positions) in files {
                    statement.execute(params![number.cast_signed(), positions.start(), positions.end()])?;
                }
            }
            transaction.commit()
        })
    }

    /// Files with pending writes, ordered by their first one.
    pub fn pending_inodes(&self) -> Result<Vec<u64>, StoreError> {
        let inner = self.inner.lock();
        let mut statement =
            inner.connection.prepare("SELECT number FROM promises GROUP BY number ORDER BY min(position)")?;
        let numbers = statement.query_map([], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))?;
        Ok(numbers.collect::<rusqlite::Result<_>>()?)
    }

    /// The pending writes of a file, in order.
    ///
    /// # Errors
    /// [`StoreError`] of the database, `Damaged` for an invalid hash.
    pub fn pending_writes(&self, number: u64) -> Result<Vec<StableWrite>, StoreError> {
        let inner = self.inner.lock();
        let sql = "SELECT base, place, data, author, mode, uid, gid FROM promises WHERE number = ?1 ORDER BY position";
        let mut statement = inner.connection.prepare(sql)?;
        let rows = statement.query_map([number.cast_signed()], |row| {
            let author = row.get::<_, Option<String>>(3)?.map(|author| Actor::new(&author));
            let owner = row.get::<_, Option<u32>>(5)?.zip(row.get(6)?);
            let disk = DiskAttributes { mode: row.get(4)?, owner, ..DiskAttributes::default() };
            let operation = (row.get::<_, i64>(1)?.cast_unsigned(), row.get::<_, Option<Vec<u8>>>(2)?);
            Ok((row.get::<_, Option<String>>(0)?, operation, author, disk))
        })?;
        rows.map(|row| {
            let (base_etag, (position, data), author, disk) = row?;
            let base_etag = base_etag.map(|base_etag| ETag::parse("base", &base_etag)).transpose();
            let base_etag = base_etag.map_err(|_| StoreError::Damaged("nfs.db: invalid hash".to_owned()))?;
            let operation =
                data.map_or(StableOperation::Resize(position), |data| StableOperation::Write(position, data));
            Ok(StableWrite { inode: number, base_etag, operation, author, attributes: disk })
        })
        .collect()
    }
}

impl InodeRows {
    fn path(&mut self, number: u64) -> Result<Option<TreePath>, StoreError> {
        path_of(number, |number| self.name(number))
    }

    fn number(&mut self, parent: u64, name: &str) -> Result<u64, StoreError> {
        if let Some(cached) = self.cache.numbers.get(&(parent, name.into())) {
            return Ok(*cached);
        }
        let key = params![parent.cast_signed(), name];
        let mut statement =
            self.connection.prepare_cached("SELECT number FROM files WHERE parent = ?1 AND name = ?2")?;
        let existing = statement.query_row(key, |row| Ok(row.get::<_, i64>(0)?.cast_unsigned())).optional()?;
        let number = match existing {
            Some(number) => number,
            None => {
                let number = random_inode()?;
                let sql = "INSERT INTO files (number, parent, name) VALUES (?1, ?2, ?3)";
                let mut statement = self.connection.prepare_cached(sql)?;
                statement.execute(params![number.cast_signed(), parent.cast_signed(), name])?;
                number
            }
        };
        self.cache.add(number, parent, name);
        Ok(number)
    }

    fn name(&mut self, number: u64) -> Result<Option<(u64, Box<str>)>, StoreError> {
        if let Some(cached) = self.cache.names.get(&number) {
            return Ok(Some(cached.clone()));
        }
        let mut statement = self.connection.prepare_cached("SELECT parent, name FROM files WHERE number = ?1")?;
        let row = statement.query_row([number.cast_signed()], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, String>(1)?.into_boxed_str()))
        });
        let row = row.optional()?;
        drop(statement);
        if let Some((parent, name)) = &row {
            self.cache.add(number, *parent, name);
        }
        Ok(row)
    }

    fn with_flush<T>(
        &mut self,
        is_flushed: bool,
        act: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if !is_flushed {
            return Ok(act(&mut self.connection)?);
        }
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        let outcome = act(&mut self.connection);
        self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        Ok(outcome?)
    }
}

/// The path of a number; `name` returns parent and name of a number. None when one is unknown.
fn path_of<E>(
    number: u64,
    mut name: impl FnMut(u64) -> Result<Option<(u64, Box<str>)>, E>,
) -> Result<Option<TreePath>, E> {
    let mut parts = Vec::new();
    let mut at = number;
    while at != InodeTable::ROOT {
        // Deeper than any path: the file is damaged.
        if parts.len() > 4096 {
            return Ok(None);
        }
        let Some((parent, name)) = name(at)? else { return Ok(None) };
        parts.push(name);
        at = parent;
    }
    parts.reverse();
    Ok(TreePath::parse(&parts.join("/")).ok())
}

/// A random number, unused with overwhelming probability, that fits SQLite's integers.
fn random_inode() -> Result<u64, StoreError> {
    let random = getrandom::u64().map_err(|error| StoreError::State(io::Error::other(error.to_string())))?;
    Ok((random >> 1).max(MIN_INODE))
}

/// Whether the file is damaged. I/O errors and locks are temporary.
fn is_damage(error: &StoreError) -> bool {
    match error {
        StoreError::Database(error) => error.sqlite_error_code().is_none_or(|code| {
            matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown)
        }),
        error => matches!(error, StoreError::Damaged(_)),
    }
}

/// Renames a damaged file and its WAL; returns the new name. The WAL first: a new database must not
/// meet it.
fn set_aside(file: &Path, rename: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<PathBuf> {
    let with = |path: &Path, end: &str| PathBuf::from(format!("{}{end}", path.display()));
    let parts = ["-wal", "-shm", ""].map(|part| (part, with(file, part)));
    let is_free = |aside: &PathBuf| parts.iter().all(|(part, from)| !from.exists() || !with(aside, part).exists());
    let mut asides = (1_u64..).map(|number| with(file, &format!(".damaged-{number}")));
    let aside = asides.find(is_free).unwrap_or_default();
    for (part, from) in parts.iter().filter(|(_, from)| from.exists()) {
        rename(from, &with(&aside, part))?;
    }
    Ok(aside)
}

fn open(file: &Path) -> Result<Connection, StoreError> {
    let mut connection = Connection::open(file)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let version: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match version {
        SCHEMA => {}
        1 | 2 => {
            let transaction = connection.transaction()?;
            let columns = if version == 1 { &["author TEXT"][..] } else { &[] };
            for column in columns.iter().chain(&["mode INTEGER", "uid INTEGER", "gid INTEGER"]) {
                transaction.execute_batch(&format!("ALTER TABLE promises ADD COLUMN {column}"))?;
            }
            transaction.pragma_update(None, "user_version", SCHEMA)?;
            transaction.commit()?;
        }
        0 => {
            let transaction = connection.transaction()?;
            transaction.execute_batch(include_str!("schema.sql"))?;
            transaction.execute("INSERT INTO identity VALUES (?1)", [random_inode()?.cast_signed()])?;
            transaction.pragma_update(None, "user_version", SCHEMA)?;
            transaction.commit()?;
        }
        other => return Err(StoreError::Damaged(format!("nfs.db has version {other}, this program knows {SCHEMA}"))),
    }
    // Rows in directories whose names were removed.
    let orphans = "DELETE FROM files WHERE parent <> ?1 AND parent NOT IN (SELECT number FROM files)";
    while connection.execute(orphans, [InodeTable::ROOT.cast_signed()])? > 0 {}
    // Shrinks the file when more than half of it is free.
    let pages = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let free = pages("PRAGMA freelist_count")?;
    if free > MIN_FREE_PAGES && free > pages("PRAGMA page_count")? / 2 {
        connection.execute_batch("VACUUM")?;
    }
    Ok(connection)
}
