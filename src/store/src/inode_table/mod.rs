//! `nfs.db`: numbers of files that outlive the server, and what was promised of files before they are in the tree.
//!
//! One rule: a number stands for a name, whatever bytes stand there. Every save puts another file of the disk in place, so that the disk's
//! own numbers are no handles. Numbers are drawn, not counted: what a power cut takes away is never given to another file.

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
/// So many names are kept in memory; the others are asked of the file.
const MOST_KNOWN: usize = 65_536;
/// So many empty pages are worth nobody's time.
const LEAST_FREE: i64 = 256;
/// Smaller numbers mean something else, to protocols and to us.
const SMALLEST: u64 = 16;

/// Something that was done to a file and must not be lost, although the file is not in the tree yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StableWrite {
    /// The file.
    pub inode: u64,
    /// What stood there when the first of these was made: none when the file was new.
    pub base_etag: Option<ETag>,
    /// What was done.
    pub operation: StableOperation,
    /// Who did it; none where an earlier program noted it.
    pub author: Option<Actor>,
    /// Permission bits and owner of a file that is not in the tree yet.
    pub attributes: DiskAttributes,
}

/// What was done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StableOperation {
    /// It got this length in bytes; a file that was not there was made.
    Resize(u64),
    /// These bytes were written at this offset.
    Write(u64, Vec<u8>),
}

#[derive(Default)]
struct KnownFile {
    names: HashMap<u64, (u64, Box<str>)>,
    numbers: HashMap<(u64, Box<str>), u64>,
}

impl KnownFile {
    fn add(&mut self, number: u64, parent: u64, name: &str) {
        if self.names.len() >= MOST_KNOWN {
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
    known: KnownFile,
}

/// The numbers of one space.
pub struct InodeTable {
    space: u64,
    inner: Mutex<InodeRows>,
}

impl InodeTable {
    /// The number of the root.
    pub const ROOT: u64 = 3;
    /// All that is promised of a file.
    pub const ALL_POSITIONS: RangeInclusive<i64> = 0..=i64::MAX;

    /// Opens the file, or makes a new one when it is absent, damaged or of another version: handles given before are stale then, and the old one is
    /// left beside it for a person, because of what is promised in it.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be made, replaced, or opened in this moment.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let connection = match open(file) {
            Err(error) if is_damage(&error) => {
                let aside = put_aside(file, |from, to| std::fs::rename(from, to))?;
                tracing::error!(numbers.file = %aside.display(), %error, "the numbers of files cannot be read, and are put aside; NFS clients must mount again");
                open(file)?
            }
            opened => opened?,
        };
        let space: i64 = connection.query_row("SELECT space FROM identity", [], |row| row.get(0))?;
        let inner = InodeRows { connection, known: KnownFile::default() };
        Ok(Self { space: space.cast_unsigned(), inner: Mutex::new(inner) })
    }

    /// The number of the space itself, the same for as long as the file lives.
    pub const fn space_id(&self) -> u64 {
        self.space
    }

    /// The number of a path, given to it now if it has none.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn inode(&self, path: &TreePath) -> Result<u64, StoreError> {
        let mut inner = self.inner.lock();
        path.components().try_fold(Self::ROOT, |parent, name| inner.number(parent, name))
    }

    /// The numbers of names in a directory, in the same order.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn inodes(&self, directory: u64, names: &[&str]) -> Result<Vec<u64>, StoreError> {
        let mut inner = self.inner.lock();
        inner.connection.execute_batch("BEGIN")?;
        let found = names.iter().map(|name| inner.number(directory, name)).collect::<Result<Vec<_>, _>>();
        inner.connection.execute_batch("COMMIT")?;
        found
    }

    /// The path of a number; none for one that was never given, or whose name is gone.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn path(&self, number: u64) -> Result<Option<TreePath>, StoreError> {
        self.inner.lock().path(number)
    }

    /// The path of a number, if nothing must be waited for: neither the disk nor whoever writes to it.
    pub fn try_path(&self, number: u64) -> Option<TreePath> {
        let inner = self.inner.try_lock()?;
        path_of(number, |number| Ok::<_, ()>(inner.known.names.get(&number).cloned())).ok()?
    }

    /// The number that a name in a directory has, as far as that can be told in the same way.
    pub fn try_inode(&self, directory: u64, name: &str) -> Option<u64> {
        self.inner.try_lock()?.known.numbers.get(&(directory, name.into())).copied()
    }

    /// A file or directory has another name; what had that name is gone.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn rename(&self, from: &TreePath, to: &TreePath) -> Result<(), StoreError> {
        let (number, parent) = (self.inode(from)?, self.inode(&to.parent().unwrap_or_else(TreePath::root))?);
        let mut inner = self.inner.lock();
        inner.known.clear();
        let parent = parent.cast_signed();
        let transaction = inner.connection.transaction()?;
        transaction.execute("DELETE FROM files WHERE parent = ?1 AND name = ?2", params![parent, to.name()])?;
        let tail = "UPDATE files SET parent = ?2, name = ?3 WHERE number = ?1";
        transaction.execute(tail, params![number.cast_signed(), parent, to.name()])?;
        Ok(transaction.commit()?)
    }

    /// A name is gone, and what was promised of its file with it.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn remove(&self, path: &TreePath) -> Result<(), StoreError> {
        let number = self.inode(path)?.cast_signed();
        let mut inner = self.inner.lock();
        inner.known.clear();
        let transaction = inner.connection.transaction()?;
        transaction.execute("DELETE FROM promises WHERE number = ?1", [number])?;
        transaction.execute("DELETE FROM files WHERE number = ?1", [number])?;
        Ok(transaction.commit()?)
    }

    /// Some numbers that were given, in their order behind one of them; to be looked through for names that are gone.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn list_inodes(&self, after: u64, most: usize) -> Result<Vec<u64>, StoreError> {
        let inner = self.inner.lock();
        let tail = "SELECT number FROM files WHERE number > ?1 ORDER BY number LIMIT ?2";
        let mut statement = inner.connection.prepare_cached(tail)?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let found =
            statement.query_map(params![after.cast_signed(), most], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }

    /// Lets go of numbers whose names are gone, as `is_gone` says of each while nobody is given a number; says how many. One of which something is
    /// promised stays.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn remove_inodes(&self, numbers: &[u64], is_gone: impl Fn(&TreePath) -> bool) -> Result<usize, StoreError> {
        let mut inner = self.inner.lock();
        let mut gone = Vec::new();
        for number in numbers {
            match inner.path(*number)? {
                Some(path) if !is_gone(&path) => {}
                Some(_) | None => gone.push(number.cast_signed()),
            }
        }
        inner.known.clear();
        let transaction = inner.connection.transaction()?;
        let mut forgotten = 0;
        {
            let tail = "DELETE FROM files WHERE number = ?1 AND number NOT IN (SELECT number FROM promises)";
            let mut statement = transaction.prepare_cached(tail)?;
            for number in gone {
                forgotten += statement.execute([number])?;
            }
        }
        transaction.commit()?;
        Ok(forgotten)
    }

    /// Remembers whose exclusive creation made a file.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn set_verifier(&self, number: u64, verifier: [u8; 8]) -> Result<(), StoreError> {
        let inner = self.inner.lock();
        let tail = "UPDATE files SET verifier = ?2 WHERE number = ?1";
        inner.connection.execute(tail, params![number.cast_signed(), &verifier[..]])?;
        Ok(())
    }

    /// Whether this exclusive creation made a file.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn has_verifier(&self, number: u64, verifier: [u8; 8]) -> Result<bool, StoreError> {
        let inner = self.inner.lock();
        let tail = "SELECT verifier = ?2 FROM files WHERE number = ?1";
        let found = inner.connection.query_row(tail, params![number.cast_signed(), &verifier[..]], |row| {
            Ok(row.get::<_, Option<bool>>(0)?.unwrap_or(false))
        });
        Ok(found.optional()?.unwrap_or(false))
    }

    /// Notes what must not be lost; with `is_flushed` not in a power cut either, else not when this process dies. The position says which of a
    /// file's promises it is: later ones have greater ones.
    ///
    /// # Errors
    /// [`StoreError`] of the database; nothing is promised then.
    pub fn record_write(&self, promise: &StableWrite, is_flushed: bool) -> Result<i64, StoreError> {
        let StableWrite { inode: number, base_etag: base, operation: act, author, attributes: disk } = promise;
        let (place, data) = match act {
            StableOperation::Resize(size) => (size, None),
            StableOperation::Write(offset, data) => (offset, Some(data)),
        };
        let mut inner = self.inner.lock();
        inner.flushing(is_flushed, |connection| {
            let tail = "INSERT INTO promises (number, base, place, data, author, mode, uid, gid)
                        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let mut statement = connection.prepare_cached(tail)?;
            let base = base.map(|base| base.to_string());
            let author = author.as_ref().map(Actor::as_str);
            let (uid, gid) = disk.owner.unzip();
            statement.insert(params![
                number.cast_signed(),
                base,
                place.cast_signed(),
                data,
                author,
                disk.mode,
                uid,
                gid
            ])
        })
    }

    /// Files are in the tree with what was promised of them from one position to another, or gone. What was promised before stays: it could not be
    /// done when the space was opened.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn discard_writes(&self, files: &[(u64, RangeInclusive<i64>)], is_flushed: bool) -> Result<(), StoreError> {
        let mut inner = self.inner.lock();
        inner.flushing(is_flushed, |connection| {
            let transaction = connection.transaction()?;
            {
                let tail = "DELETE FROM promises WHERE number = ?1 AND position BETWEEN ?2 AND ?3";
                let mut statement = transaction.prepare_cached(tail)?;
                for (number, positions) in files {
                    statement.execute(params![number.cast_signed(), positions.start(), positions.end()])?;
                }
            }
            transaction.commit()
        })
    }

    /// The files of which something is promised, the first promise first.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn pending_inodes(&self) -> Result<Vec<u64>, StoreError> {
        let inner = self.inner.lock();
        let mut statement =
            inner.connection.prepare("SELECT number FROM promises GROUP BY number ORDER BY min(position)")?;
        let found = statement.query_map([], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }

    /// What is promised of a file, in order, each handed to `take`.
    ///
    /// # Errors
    /// [`StoreError`] of the database, `Damaged` for a hash that is none.
    pub fn pending_writes(&self, number: u64) -> Result<Vec<StableWrite>, StoreError> {
        let inner = self.inner.lock();
        let tail = "SELECT base, place, data, author, mode, uid, gid FROM promises WHERE number = ?1 ORDER BY position";
        let mut statement = inner.connection.prepare(tail)?;
        let rows = statement.query_map([number.cast_signed()], |row| {
            let author = row.get::<_, Option<String>>(3)?.map(|author| Actor::new(&author));
            let owner = row.get::<_, Option<u32>>(5)?.zip(row.get(6)?);
            let disk = DiskAttributes { mode: row.get(4)?, owner, ..DiskAttributes::default() };
            let act = (row.get::<_, i64>(1)?.cast_unsigned(), row.get::<_, Option<Vec<u8>>>(2)?);
            Ok((row.get::<_, Option<String>>(0)?, act, author, disk))
        })?;
        rows.map(|row| {
            let (base, (place, data), author, disk) = row?;
            let base = base.map(|base| ETag::parse("base", &base)).transpose();
            let base = base.map_err(|_| StoreError::Damaged("nfs.db: a hash that is none".to_owned()))?;
            let act = data.map_or(StableOperation::Resize(place), |data| StableOperation::Write(place, data));
            Ok(StableWrite { inode: number, base_etag: base, operation: act, author, attributes: disk })
        })
        .collect()
    }
}

impl InodeRows {
    fn path(&mut self, number: u64) -> Result<Option<TreePath>, StoreError> {
        path_of(number, |number| self.name(number))
    }

    fn number(&mut self, parent: u64, name: &str) -> Result<u64, StoreError> {
        if let Some(known) = self.known.numbers.get(&(parent, name.into())) {
            return Ok(*known);
        }
        let place = params![parent.cast_signed(), name];
        let mut statement =
            self.connection.prepare_cached("SELECT number FROM files WHERE parent = ?1 AND name = ?2")?;
        let found = statement.query_row(place, |row| Ok(row.get::<_, i64>(0)?.cast_unsigned())).optional()?;
        let number = match found {
            Some(number) => number,
            None => {
                let number = drawn()?;
                let tail = "INSERT INTO files (number, parent, name) VALUES (?1, ?2, ?3)";
                let mut statement = self.connection.prepare_cached(tail)?;
                statement.execute(params![number.cast_signed(), parent.cast_signed(), name])?;
                number
            }
        };
        self.known.add(number, parent, name);
        Ok(number)
    }

    fn name(&mut self, number: u64) -> Result<Option<(u64, Box<str>)>, StoreError> {
        if let Some(known) = self.known.names.get(&number) {
            return Ok(Some(known.clone()));
        }
        let mut statement = self.connection.prepare_cached("SELECT parent, name FROM files WHERE number = ?1")?;
        let found = statement.query_row([number.cast_signed()], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, String>(1)?.into_boxed_str()))
        });
        let found = found.optional()?;
        drop(statement);
        if let Some((parent, name)) = &found {
            self.known.add(number, *parent, name);
        }
        Ok(found)
    }

    fn flushing<T>(
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

/// The path of a number, as `name` tells the directory and the name of each; none where it knows one of them not.
fn path_of<E>(
    number: u64,
    mut name: impl FnMut(u64) -> Result<Option<(u64, Box<str>)>, E>,
) -> Result<Option<TreePath>, E> {
    let mut parts = Vec::new();
    let mut at = number;
    while at != InodeTable::ROOT {
        // Deeper than any path can be: the file is damaged.
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

/// A number that no file has, in all likelihood; such that it is one of SQLite's, too.
fn drawn() -> Result<u64, StoreError> {
    let drawn = getrandom::u64().map_err(|error| StoreError::State(io::Error::other(error.to_string())))?;
    Ok((drawn >> 1).max(SMALLEST))
}

/// Whether a file is not what it should be. What the disk refuses, or somebody holds, may be read another time.
fn is_damage(error: &StoreError) -> bool {
    match error {
        StoreError::Database(error) => error.sqlite_error_code().is_none_or(|code| {
            matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown)
        }),
        error => matches!(error, StoreError::Damaged(_)),
    }
}

/// Gives a damaged file and its logs another name; which one. The logs first: a new file must never meet them.
fn put_aside(file: &Path, rename: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<PathBuf> {
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
            transaction.execute("INSERT INTO identity VALUES (?1)", [drawn()?.cast_signed()])?;
            transaction.pragma_update(None, "user_version", SCHEMA)?;
            transaction.commit()?;
        }
        other => return Err(StoreError::Damaged(format!("nfs.db has version {other}, this program knows {SCHEMA}"))),
    }
    // What lay in directories whose names are gone.
    let orphans = "DELETE FROM files WHERE parent <> ?1 AND parent NOT IN (SELECT number FROM files)";
    while connection.execute(orphans, [InodeTable::ROOT.cast_signed()])? > 0 {}
    // The disk gets its room back where more than half of the file is of rows that went.
    let pages = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let free = pages("PRAGMA freelist_count")?;
    if free > LEAST_FREE && free > pages("PRAGMA page_count")? / 2 {
        connection.execute_batch("VACUUM")?;
    }
    Ok(connection)
}
