//! The connections that read: a few, kept open, each one lent to one question at a time.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rusqlite::{Connection, Transaction};

use crate::{IndexError, schema};

/// How many idle connections are kept; more are opened when more questions come at once, and closed after.
const KEPT: usize = 4;

/// Connections that cannot write (`query_only`).
pub(crate) struct Readers {
    file: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self {
            file,
            idle: Mutex::new(Vec::new()),
        }
    }
    /// Answers one question from one consistent state of the index, however many statements it takes and whatever is
    /// written or swapped meanwhile.
    pub(crate) fn read<T>(&self, ask: impl FnOnce(&Transaction<'_>) -> Result<T, IndexError>) -> Result<T, IndexError> {
        let idle = self.idle.lock().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => schema::open_reader(&self.file)?,
        };
        let answer = ask(&connection.transaction()?);
        let mut idle = self.idle.lock();
        if idle.len() < KEPT {
            idle.push(connection);
        }
        drop(idle);
        schema::noticed(&self.file, answer)
    }
    /// The file they read.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }
}
