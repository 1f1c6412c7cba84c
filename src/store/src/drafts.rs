//! `drafts.db`: open drafts, and the pages that they change.
//!
//! Invariant: a write is acknowledged after one transaction with one flush. The contents are the
//! only copy of what their authors wrote, so a damaged file is set aside and never removed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Transaction};
use svcfs_base::{Actor, CommitId, Draft, DraftDirectory, DraftId, DraftPage, ETag, Seq, Timestamp, TreePath};

use crate::StoreError;
use crate::sqlite_file::{SqliteFile, SqliteFormat};

const FORMAT: SqliteFormat = SqliteFormat {
    name: "drafts.db",
    version: 1,
    tables: "CREATE TABLE IF NOT EXISTS drafts (id INTEGER PRIMARY KEY, actor TEXT NOT NULL, created_at INTEGER NOT NULL,
             base_commit BLOB, base_seq INTEGER NOT NULL) STRICT;
             CREATE TABLE IF NOT EXISTS pages (draft INTEGER NOT NULL, path TEXT NOT NULL, base BLOB, base_content BLOB, etag BLOB,
             content BLOB, author TEXT NOT NULL, changed_at INTEGER NOT NULL, PRIMARY KEY (draft, path)) STRICT;
             CREATE TABLE IF NOT EXISTS directories (draft INTEGER NOT NULL, path TEXT NOT NULL, is_made INTEGER NOT NULL,
             PRIMARY KEY (draft, path)) STRICT;
             CREATE TABLE IF NOT EXISTS closed (draft INTEGER PRIMARY KEY) STRICT;",
    // One flush per transaction; any other journal needs three.
    journal: "WAL",
};

/// A draft, without contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDraft {
    /// The draft.
    pub draft: Draft,
    /// The pages that it changes.
    pub pages: BTreeMap<TreePath, DraftPage>,
    /// The directories that it makes and removes.
    pub directories: BTreeMap<TreePath, DraftDirectory>,
}

/// A change of one page of a draft.
#[derive(Debug, Clone)]
pub enum DraftWrite {
    /// The first change of a page, with the version of the tree, or a new base.
    Start {
        /// The page.
        path: TreePath,
        /// Its new state.
        page: DraftPage,
        /// The content of [`DraftPage::base`].
        base: Option<Bytes>,
        /// The content of [`DraftPage::etag`].
        content: Option<Bytes>,
    },
    /// A later change; the base stays.
    Update {
        /// The page.
        path: TreePath,
        /// Its new state.
        page: DraftPage,
        /// The content of [`DraftPage::etag`].
        content: Option<Bytes>,
    },
    /// The draft does not change the page any more.
    Drop(TreePath),
    /// A directory is made or removed; none if the draft does not change it any more.
    Directory(TreePath, Option<DraftDirectory>),
}

/// The contents of a page of a draft.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DraftContents {
    /// The version of the tree when the draft first changed the page.
    pub base: Option<Bytes>,
    /// The content in the draft.
    pub content: Option<Bytes>,
}

/// The file; it is created with the first draft.
pub struct DraftFile(SqliteFile);

impl DraftFile {
    /// Opens the file of a space and reads the drafts. A damaged file is logged and set aside with
    /// its journal: a space must open without it.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read for another reason, such as a lock or an I/O
    /// error, and when a damaged one cannot be renamed.
    pub fn open(file: &Path) -> Result<(Self, Vec<StoredDraft>), StoreError> {
        let consequence = "the branches of the drafts have their last contents";
        let (database, drafts) = SqliteFile::open_or_set_aside(file, &FORMAT, read_all, consequence)?;
        Ok((Self(database), drafts))
    }

    /// Whether there is no file: no draft was created yet, or the file was lost or set aside.
    pub fn is_missing(&self) -> bool {
        self.0.is_missing()
    }

    /// Adds a draft without pages.
    ///
    /// # Errors
    /// [`StoreError`] of the database; nothing has changed then, as for all methods.
    pub fn create(&self, draft: &Draft) -> Result<(), StoreError> {
        self.0.in_transaction(|transaction| {
            transaction.prepare_cached("INSERT INTO drafts VALUES (?1, ?2, ?3, ?4, ?5)")?.execute((
                draft.id.0,
                draft.actor.as_str(),
                draft.created_at.as_microsecond(),
                draft.base_commit.map(|commit| *commit.as_bytes()),
                draft.base_seq.0.cast_signed(),
            ))?;
            Ok(())
        })
    }

    /// Removes a draft with its pages; it is [closed](Self::closed) until its branch is removed.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn remove(&self, id: DraftId) -> Result<(), StoreError> {
        self.0.in_transaction(|transaction| {
            transaction.execute("DELETE FROM pages WHERE draft = ?1", [id.0])?;
            transaction.execute("DELETE FROM directories WHERE draft = ?1", [id.0])?;
            transaction.execute("DELETE FROM drafts WHERE id = ?1", [id.0])?;
            transaction.execute("INSERT OR IGNORE INTO closed VALUES (?1)", [id.0])?;
            Ok(())
        })
    }

    /// The closed drafts whose branches may exist.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn closed(&self) -> Result<BTreeSet<DraftId>, StoreError> {
        let closed = self.0.with_open(|connection| {
            let mut statement = connection.prepare_cached("SELECT draft FROM closed")?;
            let ids = statement.query_map([], |row| Ok(DraftId(row.get(0)?)))?;
            Ok(ids.collect::<Result<BTreeSet<_>, _>>()?)
        })?;
        Ok(closed.unwrap_or_default())
    }

    /// Records that the branch of a closed draft is removed.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn forget_closed(&self, id: DraftId) -> Result<(), StoreError> {
        self.0.in_transaction(|transaction| {
            transaction.execute("DELETE FROM closed WHERE draft = ?1", [id.0])?;
            Ok(())
        })
    }

    /// Changes pages of a draft, all or none.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn write(&self, id: DraftId, writes: &[DraftWrite]) -> Result<(), StoreError> {
        self.0.in_transaction(|transaction| writes.iter().try_for_each(|write| apply(transaction, id, write)))
    }

    /// The contents of a page; both are none when the draft does not change it.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn contents(&self, id: DraftId, path: &TreePath) -> Result<DraftContents, StoreError> {
        let contents = self.0.with_open(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT base_content, content FROM pages WHERE draft = ?1 AND path = ?2")?;
            let bytes = |bytes: Option<Vec<u8>>| bytes.map(Bytes::from);
            let read = statement.query_row((id.0, path.as_str()), |row| {
                Ok(DraftContents { base: bytes(row.get(0)?), content: bytes(row.get(1)?) })
            });
            Ok(read.optional()?)
        })?;
        Ok(contents.flatten().unwrap_or_default())
    }
}

fn apply(transaction: &Transaction<'_>, id: DraftId, write: &DraftWrite) -> Result<(), StoreError> {
    let hash = |etag: Option<ETag>| etag.map(|etag| *etag.as_bytes());
    match write {
        DraftWrite::Start { path, page, base, content } => {
            let sql =
                "INSERT OR REPLACE INTO pages (draft, path, base, base_content, etag, content, author, changed_at)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            transaction.prepare_cached(sql)?.execute((
                id.0,
                path.as_str(),
                hash(page.base),
                base.as_deref(),
                hash(page.etag),
                content.as_deref(),
                page.author.as_str(),
                page.changed_at.as_microsecond(),
            ))?;
        }
        DraftWrite::Update { path, page, content } => {
            let sql = "UPDATE pages SET etag = ?3, content = ?4, author = ?5, changed_at = ?6
                       WHERE draft = ?1 AND path = ?2";
            transaction.prepare_cached(sql)?.execute((
                id.0,
                path.as_str(),
                hash(page.etag),
                content.as_deref(),
                page.author.as_str(),
                page.changed_at.as_microsecond(),
            ))?;
        }
        DraftWrite::Drop(path) => {
            let sql = "DELETE FROM pages WHERE draft = ?1 AND path = ?2";
            transaction.prepare_cached(sql)?.execute((id.0, path.as_str()))?;
        }
        DraftWrite::Directory(path, Some(directory)) => {
            let sql = "INSERT OR REPLACE INTO directories (draft, path, is_made) VALUES (?1, ?2, ?3)";
            let is_made = *directory == DraftDirectory::Made;
            transaction.prepare_cached(sql)?.execute((id.0, path.as_str(), is_made))?;
        }
        DraftWrite::Directory(path, None) => {
            let sql = "DELETE FROM directories WHERE draft = ?1 AND path = ?2";
            transaction.prepare_cached(sql)?.execute((id.0, path.as_str()))?;
        }
    }
    Ok(())
}

/// Reads everything but the contents; rows with an invalid path or time are skipped.
fn read_all(connection: &Connection) -> Result<Vec<StoredDraft>, StoreError> {
    let mut drafts = BTreeMap::new();
    let mut statement = connection.prepare("SELECT id, actor, created_at, base_commit, base_seq FROM drafts")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id = DraftId(row.get(0)?);
        let Ok(created_at) = Timestamp::from_microsecond(row.get(2)?) else { continue };
        let base_commit = row.get::<_, Option<[u8; 20]>>(3)?.map(CommitId::from_bytes);
        let base_seq = Seq(row.get::<_, i64>(4)?.cast_unsigned());
        let draft = Draft { id, actor: Actor::new(&row.get::<_, String>(1)?), created_at, base_commit, base_seq };
        drafts.insert(id, StoredDraft { draft, pages: BTreeMap::new(), directories: BTreeMap::new() });
    }
    let mut statement =
        connection.prepare("SELECT draft, path, base, etag, length(content), author, changed_at FROM pages")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let path = TreePath::parse(&row.get::<_, String>(1)?);
        let (Some(stored), Ok(path), Ok(changed_at)) =
            (drafts.get_mut(&DraftId(row.get(0)?)), path, Timestamp::from_microsecond(row.get(6)?))
        else {
            continue;
        };
        let page = DraftPage {
            base: row.get::<_, Option<[u8; 20]>>(2)?.map(ETag::from_bytes),
            etag: row.get::<_, Option<[u8; 20]>>(3)?.map(ETag::from_bytes),
            size: row.get::<_, Option<i64>>(4)?.unwrap_or_default().cast_unsigned(),
            author: Actor::new(&row.get::<_, String>(5)?),
            changed_at,
        };
        stored.pages.insert(path, page);
    }
    let mut statement = connection.prepare("SELECT draft, path, is_made FROM directories")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let path = TreePath::parse(&row.get::<_, String>(1)?);
        let (Some(stored), Ok(path)) = (drafts.get_mut(&DraftId(row.get(0)?)), path) else { continue };
        let directory = if row.get(2)? { DraftDirectory::Made } else { DraftDirectory::Removed };
        stored.directories.insert(path, directory);
    }
    Ok(drafts.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(id: u32) -> Draft {
        Draft {
            id: DraftId(id),
            actor: Actor::new("ann"),
            created_at: Timestamp::from_second(1_800_000_000).unwrap(),
            base_commit: Some(CommitId::from_bytes([7; 20])),
            base_seq: Seq(9),
        }
    }

    fn page(base: Option<&str>, content: Option<&str>) -> DraftPage {
        let hash = |text: &str| ETag::from_content(text.as_bytes());
        DraftPage {
            base: base.map(hash),
            etag: content.map(hash),
            size: content.map_or(0, str::len) as u64,
            author: Actor::new("bob"),
            changed_at: Timestamp::from_microsecond(1_800_000_000_000_001).unwrap(),
        }
    }

    fn start(path: &str, base: Option<&'static str>, content: Option<&'static str>) -> DraftWrite {
        let (page, path) = (page(base, content), TreePath::parse(path).unwrap());
        DraftWrite::Start { path, page, base: base.map(Bytes::from), content: content.map(Bytes::from) }
    }

    #[test]
    fn drafts_and_their_pages_survive_a_reopen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("drafts.db");
        let (drafts, stored) = DraftFile::open(&file).unwrap();
        assert!(stored.is_empty() && !file.exists());
        drafts.create(&draft(1)).unwrap();
        drafts.create(&draft(u32::MAX)).unwrap();
        let (a, b) = (TreePath::parse("a.md").unwrap(), TreePath::parse("b.md").unwrap());
        drafts.write(DraftId(1), &[start("a.md", Some("one"), Some("two")), start("b.md", None, Some("new"))]).unwrap();
        let update =
            DraftWrite::Update { path: a.clone(), page: page(Some("one"), Some("")), content: Some(Bytes::new()) };
        drafts.write(DraftId(1), &[update, DraftWrite::Drop(b.clone()), start("c.md", Some("x"), None)]).unwrap();
        drafts.write(DraftId(u32::MAX), &[start("a.md", None, Some("other"))]).unwrap();
        let made = |name: &str| DraftWrite::Directory(TreePath::parse(name).unwrap(), Some(DraftDirectory::Made));
        drafts.write(DraftId(u32::MAX), &[made("e")]).unwrap();
        drafts.write(DraftId(1), &[made("e"), made("f"), made("g")]).unwrap();
        let removed = |name: &str, state| DraftWrite::Directory(TreePath::parse(name).unwrap(), state);
        drafts.write(DraftId(1), &[removed("f", Some(DraftDirectory::Removed)), removed("g", None)]).unwrap();
        drafts.remove(DraftId(u32::MAX)).unwrap();
        drop(drafts);
        let (drafts, stored) = DraftFile::open(&file).unwrap();
        assert_eq!(drafts.closed().unwrap(), BTreeSet::from([DraftId(u32::MAX)]));
        drafts.forget_closed(DraftId(u32::MAX)).unwrap();
        assert_eq!(drafts.closed().unwrap(), BTreeSet::new());
        let pages = BTreeMap::from([
            (a.clone(), page(Some("one"), Some(""))),
            (TreePath::parse("c.md").unwrap(), page(Some("x"), None)),
        ]);
        let directories = BTreeMap::from([
            (TreePath::parse("e").unwrap(), DraftDirectory::Made),
            (TreePath::parse("f").unwrap(), DraftDirectory::Removed),
        ]);
        assert_eq!(stored, [StoredDraft { draft: draft(1), pages, directories }]);
        let contents = DraftContents { base: Some(Bytes::from("one")), content: Some(Bytes::new()) };
        assert_eq!(drafts.contents(DraftId(1), &a).unwrap(), contents);
        assert_eq!(drafts.contents(DraftId(1), &b).unwrap(), DraftContents::default());
        assert_eq!(drafts.contents(DraftId(u32::MAX), &a).unwrap(), DraftContents::default());
    }

    #[test]
    fn a_file_of_an_earlier_program_gets_the_later_tables() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("drafts.db");
        DraftFile::open(&file).unwrap().0.create(&draft(1)).unwrap();
        Connection::open(&file).unwrap().execute_batch("DROP TABLE directories; DROP TABLE closed").unwrap();
        let (drafts, stored) = DraftFile::open(&file).unwrap();
        assert_eq!(stored.len(), 1);
        let made = DraftWrite::Directory(TreePath::parse("e").unwrap(), Some(DraftDirectory::Made));
        drafts.write(DraftId(1), &[made]).unwrap();
        drafts.remove(DraftId(1)).unwrap();
    }

    #[test]
    fn a_damaged_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("drafts.db");
        let text = "not a database, but long enough to be one".repeat(100);
        std::fs::write(&file, &text).unwrap();
        let (drafts, stored) = DraftFile::open(&file).unwrap();
        assert!(stored.is_empty());
        drafts.create(&draft(1)).unwrap();
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let aside = names.filter(|path| path.to_string_lossy().contains("damaged")).collect::<Vec<_>>();
        let [aside] = &aside[..] else { panic!("{aside:?}") };
        assert_eq!(std::fs::read_to_string(aside).unwrap(), text);
    }
}
