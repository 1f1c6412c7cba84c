//! The answers to requests that their clients may send again, in `requests.db`.
//!
//! Invariant: it is a memory of answers, not of changes. What a request has changed is in the log,
//! so a lost answer never makes a change happen twice. An answer may contain a secret, such as the
//! token of a new share, so only the owner of the file can read it.

use std::path::Path;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Transaction};
use svcfs_base::{RequestMark, Timestamp};

use crate::StoreError;
use crate::sqlite_file::{SqliteFile, SqliteFormat};

const FORMAT: SqliteFormat = SqliteFormat {
    name: "requests.db",
    version: 1,
    tables: "CREATE TABLE IF NOT EXISTS answers (id BLOB PRIMARY KEY, content BLOB NOT NULL, time INTEGER NOT NULL,
             answer TEXT NOT NULL) STRICT;
             CREATE INDEX IF NOT EXISTS answers_by_time ON answers (time);",
    // One flush per transaction; any other journal needs three.
    journal: "WAL",
};

/// Limits of the file; the oldest answers are removed.
const MAX_ANSWERS: u64 = 10_000;
const MAX_BYTES: u64 = 64 << 20;
/// Answers that are removed together when a limit is reached.
const REMOVED_TOGETHER: u64 = MAX_ANSWERS / 10;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The request.
    pub mark: RequestMark,
    /// When it was answered.
    pub time: Timestamp,
    /// The answer, as JSON.
    pub answer: String,
}

/// The file; it is created with the first answer.
pub struct AnswerFile {
    file: SqliteFile,
    /// Number of answers, and their size.
    totals: Mutex<(u64, u64)>,
}

impl AnswerFile {
    /// Opens the file of a space. A damaged one is logged and set aside.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read for another reason, such as a lock or an I/O
    /// error, and when a damaged one cannot be renamed.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let consequence = "requests that are sent again get a new answer, without a second change";
        let (file, totals) = SqliteFile::open_or_set_aside(file, &FORMAT, read_totals, consequence)?;
        Ok(Self { file, totals: Mutex::new(totals) })
    }

    /// The answer to a request, if it was given since a time.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn find(&self, id: &[u8; 16], since: Timestamp) -> Result<Option<StoredAnswer>, StoreError> {
        let found = self.file.with_open(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT content, time, answer FROM answers WHERE id = ?1 AND time >= ?2")?;
            let row = statement.query_row((id, since.as_microsecond()), |row| {
                Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
            });
            Ok(row.optional()?)
        })?;
        Ok(found.flatten().and_then(|(content, time, answer)| {
            let mark = RequestMark { id: *id, content: content.try_into().ok()? };
            Some(StoredAnswer { mark, time: Timestamp::from_microsecond(time).ok()?, answer })
        }))
    }

    /// Stores an answer with one flush, and removes those from before `expired` and the oldest
    /// beyond the limits.
    ///
    /// # Errors
    /// [`StoreError`] of the database; the answer is not stored then.
    pub fn put(&self, answer: &StoredAnswer, expired: Timestamp) -> Result<(), StoreError> {
        let mut totals = self.totals.lock();
        let mut new_totals = *totals;
        let size = answer.answer.len() as u64;
        self.file.create_private()?;
        self.file.in_transaction(|transaction| {
            // Of the other answers nothing is read: there may be 64 MiB of them.
            let (old_count, old_bytes) = totals_before(transaction, expired)?;
            if old_count > 0 {
                transaction
                    .prepare_cached("DELETE FROM answers WHERE time < ?1")?
                    .execute([expired.as_microsecond()])?;
                new_totals = (new_totals.0.saturating_sub(old_count), new_totals.1.saturating_sub(old_bytes));
            }
            if new_totals.0 + 1 > MAX_ANSWERS || new_totals.1 + size > MAX_BYTES {
                remove_oldest(transaction, size)?;
                new_totals = read_totals(transaction)?;
            }
            transaction.prepare_cached("INSERT OR REPLACE INTO answers VALUES (?1, ?2, ?3, ?4)")?.execute((
                &answer.mark.id,
                &answer.mark.content,
                answer.time.as_microsecond(),
                &answer.answer,
            ))?;
            new_totals = (new_totals.0 + 1, new_totals.1 + size);
            Ok(())
        })?;
        *totals = new_totals;
        Ok(())
    }
}

/// Removes a tenth of the answers, and more until an answer of `bytes` fits.
fn remove_oldest(transaction: &Transaction<'_>, bytes: u64) -> Result<(), StoreError> {
    loop {
        let count = transaction
            .prepare_cached("DELETE FROM answers WHERE id IN (SELECT id FROM answers ORDER BY time LIMIT ?1)")?
            .execute([REMOVED_TOGETHER.cast_signed()])?;
        if count == 0 || read_totals(transaction)?.1 + bytes <= MAX_BYTES {
            return Ok(());
        }
    }
}

fn read_totals(connection: &Connection) -> Result<(u64, u64), StoreError> {
    totals_before(connection, Timestamp::MAX)
}

/// Number and size of the answers from before a time.
fn totals_before(connection: &Connection, time: Timestamp) -> Result<(u64, u64), StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*), coalesce(sum(length(CAST(answer AS BLOB))), 0) FROM answers WHERE time < ?1",
    )?;
    let totals = statement.query_row([time.as_microsecond()], |row| {
        Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
    })?;
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn answer(number: u64, second: i64) -> StoredAnswer {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        StoredAnswer { mark: RequestMark { id, content: [1; 16] }, time: at(second), answer: format!("{number}") }
    }

    #[test]
    fn answers_survive_a_reopen_and_expire() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("requests.db");
        let answers = AnswerFile::open(&file).unwrap();
        assert!(answers.find(&answer(1, 0).mark.id, at(0)).unwrap().is_none() && !file.exists());
        answers.put(&answer(1, 0), at(-60)).unwrap();
        answers.put(&answer(2, 30), at(-30)).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(answers);
        let answers = AnswerFile::open(&file).unwrap();
        assert_eq!(*answers.totals.lock(), (2, 2));
        assert_eq!(answers.find(&answer(1, 0).mark.id, at(0)).unwrap(), Some(answer(1, 0)));
        assert_eq!(answers.find(&answer(1, 0).mark.id, at(1)).unwrap(), None);
        answers.put(&answer(3, 60), at(1)).unwrap();
        assert_eq!(answers.find(&answer(1, 0).mark.id, at(0)).unwrap(), None);
        assert_eq!(*answers.totals.lock(), (2, 2));
    }

    #[test]
    fn the_file_does_not_grow_without_bound() {
        let folder = tempfile::tempdir().unwrap();
        let answers = AnswerFile::open(&folder.path().join("requests.db")).unwrap();
        let large = "x".repeat(6 << 20);
        for number in 0..25 {
            let answer = StoredAnswer { answer: large.clone(), ..answer(number, number.cast_signed()) };
            answers.put(&answer, at(0)).unwrap();
            assert!(answers.totals.lock().1 <= MAX_BYTES);
            assert_eq!(answers.find(&answer.mark.id, at(0)).unwrap(), Some(answer));
        }
    }
}
