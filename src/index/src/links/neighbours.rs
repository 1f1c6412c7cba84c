//! Where the links of pages lead and come from, for one question about many pages.

use rusqlite::Connection;
use svcfs_text::links::candidates;

use super::names::Names;
use super::{BACKLINKS, LINKS_OUT, kind_of};
use crate::IndexError;

/// The pages on the other ends of links; names that were looked up once are kept.
pub(crate) struct Neighbours<'c> {
    names: Names<'c>,
}

impl<'c> Neighbours<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self { names: Names::new(connection) }
    }

    /// The pages that a page links to, each once, in the order of its links.
    pub(crate) fn targets(&mut self, path: &str) -> Result<Vec<String>, IndexError> {
        let mut statement = self.names.connection().prepare_cached(LINKS_OUT)?;
        let mut rows = statement.query([path])?;
        let mut found: Vec<String> = Vec::new();
        while let Some(row) = rows.next()? {
            let wanted = candidates(path, kind_of(row.get(0)?), &row.get::<_, String>(1)?);
            let target = self.names.lead_to(path, &wanted)?;
            if let Some(target) = target.filter(|target| !found.iter().any(|known| known == target)) {
                found.push(target.to_owned());
            }
        }
        Ok(found)
    }

    /// The other pages that link to a page, in path order, each once.
    pub(crate) fn sources(&mut self, path: &str) -> Result<Vec<String>, IndexError> {
        let mut statement = self.names.connection().prepare_cached(BACKLINKS)?;
        let mut rows = statement.query([path])?;
        let mut found: Vec<String> = Vec::new();
        while let Some(row) = rows.next()? {
            let from: String = row.get(0)?;
            if found.last() == Some(&from) {
                continue;
            }
            let wanted = candidates(&from, kind_of(row.get(3)?), &row.get::<_, String>(4)?);
            if self.names.lead_to(&from, &wanted)? == Some(path) {
                found.push(from);
            }
        }
        Ok(found)
    }
}
