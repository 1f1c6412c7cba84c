//! SQLite files that are caches: they can be deleted at any time, and one that is damaged or of
//! another version is replaced when it is opened.
#![warn(missing_docs)]

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};

/// Opens a file for writing with `try_open`, which returns none for another schema. Such a file,
/// and a damaged one, is replaced; none when the new file has another schema, too. `what` names the
/// file in the log.
///
/// # Errors
/// Those of `try_open` that a new file does not repair, and of removing the old file.
pub fn open_or_replace<E: From<rusqlite::Error> + From<std::io::Error>>(
    file: &Path,
    what: &'static str,
    try_open: impl Fn(&Path) -> rusqlite::Result<Option<Connection>>,
) -> Result<Option<Connection>, E> {
    match try_open(file) {
        Ok(Some(connection)) => return Ok(Some(connection)),
        Ok(None) => tracing::info!(database.file = %file.display(), "{what} has another schema; creating a new one"),
        Err(error) if is_corrupt(&error) => {
            tracing::warn!(database.file = %file.display(), %error, "{what} is damaged; creating a new one");
        }
        Err(error) => return Err(error.into()),
    }
    remove_files(file)?;
    Ok(try_open(file)?)
}

/// True for errors that a new file repairs.
#[must_use]
pub fn is_corrupt(error: &rusqlite::Error) -> bool {
    use ErrorCode::{DatabaseCorrupt, NotADatabase, Unknown};
    error.sqlite_error_code().is_some_and(|code| matches!(code, DatabaseCorrupt | NotADatabase | Unknown))
}

/// When an error reports damage, marks the file as outdated in its header, so that the next start
/// replaces it.
pub fn mark_if_corrupt(file: &Path, what: &'static str, error: &rusqlite::Error) {
    if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)) {
        let marked = Connection::open(file).and_then(|connection| connection.pragma_update(None, "user_version", 0));
        let is_marked = marked.is_ok();
        tracing::error!(database.file = %file.display(), %error, is_marked, "{what} is damaged; it is rebuilt at the next start");
    }
}

/// Removes the file and SQLite's files beside it.
#[expect(clippy::disallowed_methods, reason = "a cache is beside the tree, never a part of it")]
fn remove_files(file: &Path) -> std::io::Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(PathBuf::from(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
