//! Counts over the pages of a tree: the outline for an agent when no page describes the tree.

use rusqlite::{CachedStatement, Connection, ToSql};
use svcfs_base::TreePath;

use crate::pages::range_below;
use crate::schema::FIELDS;
use crate::{Index, IndexError};

/// Values with their number of pages, most frequent first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopCounts {
    /// The most frequent values, each with its number of pages.
    pub top: Vec<(String, usize)>,
    /// Number of further values.
    pub other_count: usize,
}

/// The outline of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeOutline {
    /// Number of pages.
    pub pages: usize,
    /// First-level folders, with the number of pages below each.
    pub folders: TopCounts,
    /// Values of the field `type`.
    pub types: TopCounts,
    /// Top-level frontmatter fields, each with its most frequent JSON type, such as `due: text`.
    pub fields: TopCounts,
    /// Tags of the field `tags`.
    pub tags: TopCounts,
}

/// The pages below a directory: `?1` and `?2` are the range, `?3` is the length of its path with
/// the trailing slash.
const PAGES: &str = "pages WHERE path > ?1 AND path < ?2 AND ?3 >= 0";

impl Index {
    /// Counts values of the pages below a directory, with at most `max` entries per kind.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn outline(&self, below: &TreePath, max: usize) -> Result<TreeOutline, IndexError> {
        let (from, to) = range_below(below);
        let start = if below.is_root() { 0 } else { below.as_str().chars().count() + 1 };
        let start = i64::try_from(start).unwrap_or_default();
        let range: [&dyn ToSql; 3] = [&from, &to, &start];
        self.readers.read(|connection| {
            let count_by = |select: &str, rest: &str| {
                let sql = format!("SELECT {select}, count(*) FROM {rest} GROUP BY 1 ORDER BY 2 DESC, 1");
                counts(connection.prepare_cached(&sql)?, &range, max)
            };
            let values_of = |path: &str, kinds: &str| {
                format!(
                    "(SELECT entry.value FROM pages, json_each({FIELDS}, '{path}') AS entry
                      WHERE pages.path > ?1 AND pages.path < ?2 AND ?3 >= 0 AND entry.type IN ({kinds}))"
                )
            };
            let total = connection.prepare_cached(&format!("SELECT count(*) FROM {PAGES}"))?;
            Ok(TreeOutline {
                pages: single_count(total, &range)?,
                folders: count_by(
                    "substr(path, ?3 + 1, instr(substr(path, ?3 + 1), '/') - 1)",
                    &format!("{PAGES} AND instr(substr(path, ?3 + 1), '/') > 0"),
                )?,
                types: count_by("CAST(value AS TEXT)", &values_of("$.type", "'text'"))?,
                fields: fields(connection, &range, max)?,
                tags: count_by("CAST(value AS TEXT)", &values_of("$.tags", "'text', 'integer', 'real'"))?,
            })
        })
    }
}

fn fields(connection: &Connection, range: &[&dyn ToSql], max: usize) -> Result<TopCounts, IndexError> {
    // With a single max(), SQLite takes the other columns from the row with the maximum.
    let sql = "SELECT key || ': ' || kind, pages FROM (
                   SELECT key, kind, sum(pages) AS pages, max(pages) FROM (
                       SELECT entry.key AS key, count(*) AS pages, CASE entry.type
                           WHEN 'integer' THEN 'number' WHEN 'real' THEN 'number' WHEN 'true' THEN 'boolean'
                           WHEN 'false' THEN 'boolean' WHEN 'array' THEN 'list' ELSE entry.type END AS kind
                       FROM pages, json_each(coalesce(pages.metadata, pages.frontmatter)) AS entry
                       WHERE pages.path > ?1 AND pages.path < ?2 AND ?3 >= 0 AND entry.type <> 'null' GROUP BY 1, 3
                   ) GROUP BY key
               ) ORDER BY 2 DESC, 1";
    counts(connection.prepare_cached(sql)?, range, max)
}

fn single_count(mut statement: CachedStatement<'_>, range: &[&dyn ToSql]) -> Result<usize, IndexError> {
    Ok(statement.query_row(range, |row| row.get::<_, i64>(0))?.try_into().unwrap_or_default())
}

fn counts(mut statement: CachedStatement<'_>, range: &[&dyn ToSql], max: usize) -> Result<TopCounts, IndexError> {
    let mut counts = TopCounts::default();
    let mut rows = statement.query(range)?;
    while let Some(row) = rows.next()? {
        if counts.top.len() == max {
            counts.other_count += 1;
            continue;
        }
        let pages = row.get::<_, i64>(1)?.try_into().unwrap_or_default();
        counts.top.push((row.get(0)?, pages));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Space, at};

    fn rows(counts: &TopCounts) -> Vec<(&str, usize)> {
        counts.top.iter().map(|(name, pages)| (name.as_str(), *pages)).collect()
    }

    #[test]
    fn an_outline_counts_folders_types_fields_and_tags() {
        let space = Space::of(&[
            ("a.md", "---\ntype: note\ntags: [x, y]\ndue: 2026-01-01\n---\nA\n"),
            ("notes/b.md", "---\ntype: note\ntags: [x]\npriority: 2\n---\nB\n"),
            ("notes/deep/c.md", "---\ntype: task\npriority: high\ndone: true\nempty:\n---\nC\n"),
            ("notes/d.md", "---\npriority: 3\n---\nD\n"),
            ("notesbook/\u{e9}/e.md", "E\n"),
        ]);
        let outline = space.index.outline(&TreePath::root(), 10).unwrap();
        assert_eq!(outline.pages, 5);
        assert_eq!(rows(&outline.folders), [("notes", 3), ("notesbook", 1)]);
        assert_eq!(rows(&outline.types), [("note", 2), ("task", 1)]);
        let fields =
            [("priority: number", 3), ("type: text", 3), ("tags: list", 2), ("done: boolean", 1), ("due: text", 1)];
        assert_eq!(rows(&outline.fields), fields);
        assert_eq!(rows(&outline.tags), [("x", 2), ("y", 1)]);
    }

    #[test]
    fn an_outline_of_a_folder_knows_nothing_of_the_rest() {
        let space = Space::of(&[
            ("a.md", "---\ntype: note\n---\nA\n"),
            ("\u{e9}/b.md", "---\ntags: [x, y, z]\n---\nB\n"),
            ("\u{e9}/deep/c.md", "C\n"),
            ("\u{e9}a/d.md", "D\n"),
        ]);
        let outline = space.index.outline(&at("\u{e9}"), 2).unwrap();
        assert_eq!((outline.pages, rows(&outline.folders)), (2, vec![("deep", 1)]));
        assert_eq!((rows(&outline.types), rows(&outline.fields)), (vec![], vec![("tags: list", 1)]));
        assert_eq!((rows(&outline.tags), outline.tags.other_count), (vec![("x", 1), ("y", 1)], 1));
        assert_eq!(space.index.outline(&at("none"), 2).unwrap(), TreeOutline::default());
    }
}
