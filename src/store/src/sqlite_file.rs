//! A small database of its own in the state folder, such as `claims.db`: created with its first
//! row, and kept open from then on.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction};
use svcfs_base::Timestamp;

use crate::StoreError;

/// What a database contains, and how it is written.
pub(crate) struct SqliteFormat {
    /// Name of the file, for errors.
    pub name: &'static str,
    /// `user_version` of a file of this format.
    pub version: i32,
    /// The statements that create missing tables; run at each opening, so that they must change
    /// nothing else.
    pub tables: &'static str,
    /// `journal_mode`.
    pub journal: &'static str,
}

/// The file.
pub(crate) struct SqliteFile {
    file: PathBuf,
    format: &'static SqliteFormat,
    connection: Mutex<Option<Connection>>,
}

impl SqliteFile {
    /// Opens the file and reads it; a missing one is not created, and read as the default.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read; the file is closed again then.
    pub fn open<T: Default>(
        file: &Path,
        format: &'static SqliteFormat,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<(Self, T), StoreError> {
        if !file.exists() {
            return Ok((Self::missing(file, format), T::default()));
        }
        let connection = format.connect(file)?;
        let content = read(&connection)?;
        Ok((Self { connection: Mutex::new(Some(connection)), ..Self::missing(file, format) }, content))
    }

    /// As [`open`](Self::open). A damaged file is set aside, and a new one is read as the default;
    /// `consequence` says in the log what that means.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read for another reason, such as a lock or an I/O
    /// error, and when a damaged one cannot be renamed.
    pub fn open_or_set_aside<T: Default>(
        file: &Path,
        format: &'static SqliteFormat,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
        consequence: &'static str,
    ) -> Result<(Self, T), StoreError> {
        match Self::open(file, format, read) {
            Err(error) if is_damage(&error) => {
                let aside = set_aside(file)?;
                tracing::error!(database.file = %file.display(), database.aside = %aside.display(), %error, "{} cannot be read and was set aside; {consequence}", format.name);
                Ok((Self::missing(file, format), T::default()))
            }
            outcome => outcome,
        }
    }

    /// A file that is created with the first transaction.
    pub fn missing(file: &Path, format: &'static SqliteFormat) -> Self {
        Self { file: file.to_owned(), format, connection: Mutex::new(None) }
    }

    pub fn is_missing(&self) -> bool {
        self.connection.lock().is_none()
    }

    /// Creates a missing file that only the user of this process can read, because it contains
    /// secrets.
    ///
    /// # Errors
    /// [`StoreError`] of the disk.
    pub fn create_private(&self) -> Result<(), StoreError> {
        if self.is_missing() {
            // The journal of SQLite gets the permissions of its database.
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.file)?;
            fs::set_permissions(&self.file, Permissions::from_mode(0o600))?;
        }
        Ok(())
    }

    /// Uses the database as it is; none if it is missing.
    ///
    /// # Errors
    /// Those of `action`.
    pub fn with_open<T>(
        &self,
        action: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.connection.lock().as_ref().map(action).transpose()
    }

    /// Makes changes in one transaction, with one flush.
    ///
    /// # Errors
    /// [`StoreError`] of the database, and those of `change`; nothing has changed then.
    pub fn in_transaction(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection.lock();
        let connection = match &mut *connection {
            Some(connection) => connection,
            none => none.insert(self.format.connect(&self.file)?),
        };
        let transaction = connection.transaction()?;
        change(&transaction)?;
        Ok(transaction.commit()?)
    }
}

impl SqliteFormat {
    fn connect(&self, file: &Path) -> Result<Connection, StoreError> {
        let Self { name, version, tables, journal } = self;
        let mut connection = Connection::open(file)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.pragma_update_and_check(None, "journal_mode", journal, |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let found: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        match found {
            0 => {
                let transaction = connection.transaction()?;
                transaction.execute_batch(tables)?;
                transaction.pragma_update(None, "user_version", version)?;
                transaction.commit()?;
            }
            // Tables that the first files of this version did not have.
            found if found == *version => connection.execute_batch(tables)?,
            other => {
                return Err(StoreError::Damaged(format!("{name} has version {other}, this program knows {version}")));
            }
        }
        Ok(connection)
    }
}

/// A database and the files that SQLite keeps beside it, its journal first: a journal must not
/// outlive its database and be applied to a new one.
fn files_of(database: &Path) -> [PathBuf; 3] {
    ["-wal", "-shm", ""].map(|suffix| {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    })
}

/// Renames a database that cannot be read, so that a person can look at it; returns its new name.
/// The newest rows may be in the journal only, which goes with it.
///
/// # Errors
/// If a file cannot be renamed.
fn set_aside(database: &Path) -> Result<PathBuf, StoreError> {
    let aside = database.with_extension(format!("damaged-{}", Timestamp::now().as_second()));
    let pairs = files_of(database).into_iter().zip(files_of(&aside));
    pairs.into_iter().try_for_each(|(from, to)| ignore_missing(fs::rename(from, to)))?;
    Ok(aside)
}

/// Whether the file itself is unusable, so that another attempt would fail as well.
fn is_damage(error: &StoreError) -> bool {
    match error {
        StoreError::Damaged(_) => true,
        StoreError::Database(error) => match error.sqlite_error_code() {
            Some(code) => matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown),
            // An invalid value.
            None => true,
        },
        _ => false,
    }
}

fn ignore_missing(outcome: std::io::Result<()>) -> Result<(), StoreError> {
    match outcome {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Copies a database into a new file for the user of this process, as it is at one moment, beside
/// processes that write it. Equal contents give equal files.
///
/// # Errors
/// [`StoreError`] when it cannot be read, or the copy cannot be written.
pub fn snapshot_database(from: &Path, to: &Path) -> Result<(), StoreError> {
    let connection = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    // SQLite would create it readable by all.
    crate::create_file(to, b"", 0o600)?;
    connection.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
    Ok(())
}
