//! "Did you mean" for paths: files whose path resembles one that does not exist.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension};
use svcfs_base::TreePath;
use svcfs_text::links::{LinkKey, page_keys};

use crate::pages::tree_path;
use crate::{Index, IndexError};

/// Files that are read for one name: enough to find the nearest, few enough for ten thousand
/// `index.md`.
const MAX_NAMESAKES: usize = 16;

/// Shorter names have too many neighbours.
const MIN_LETTERS: usize = 4;

/// Letters that are tried in total. Names in scripts with thousands of letters have more.
const MAX_LOOKUPS: usize = 1_000;

/// Longer paths are not compared, in bytes.
const MAX_PATH_BYTES: usize = 256;

/// The files with a name. The kinds are those of paths, not of titles and aliases.
const WITH_NAME: &str = "
    SELECT coalesce(pages.path, assets.path) FROM page_keys
    LEFT JOIN pages ON pages.id = page_keys.page LEFT JOIN assets ON assets.id = page_keys.page
    WHERE page_keys.folded = ?1 AND page_keys.kind NOT IN (3, 4) LIMIT ?2";

impl Index {
    /// The files that a path may mean, the most similar first: with the same name in another case
    /// or folder; only if there are none, with a name that differs by one edit (a letter added,
    /// removed or changed, or two swapped).
    ///
    /// Takes some hundred lookups in an index; reading all names of a large tree would take longer.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn similar_paths(&self, path: &TreePath) -> Result<Vec<TreePath>, IndexError> {
        if path.as_str().len() > MAX_PATH_BYTES {
            return Ok(Vec::new());
        }
        let names = page_keys(path.as_str(), None, &[]);
        let mut found = self.readers.peek(|connection| {
            let mut found = BTreeSet::new();
            // From the full path to the file name: the files of similar folders come first.
            for name in &names {
                add_namesakes(connection, &name.folded, &mut found)?;
            }
            if found.is_empty() {
                add_neighbours(connection, &names, &mut found)?;
            }
            found.iter().map(|path| tree_path(path)).collect::<Result<Vec<_>, _>>()
        })?;
        found.retain(|similar| similar != path && similar.as_str().len() <= MAX_PATH_BYTES);
        let wanted = path.as_str().to_lowercase();
        found.sort_by_cached_key(|path| {
            (strsim::damerau_levenshtein(&wanted, &path.as_str().to_lowercase()), path.clone())
        });
        Ok(found)
    }
}

/// Adds files with a name; returns whether there may be more.
fn add_namesakes(connection: &Connection, folded: &str, found: &mut BTreeSet<String>) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(WITH_NAME)?;
    let limit = i64::try_from(MAX_NAMESAKES).unwrap_or(i64::MAX);
    let paths = statement.query_map((folded, limit), |row| row.get::<_, String>(0))?;
    let paths = paths.collect::<rusqlite::Result<Vec<_>>>()?;
    let is_full = paths.len() == MAX_NAMESAKES;
    found.extend(paths);
    Ok(is_full)
}

/// Adds the files whose file name differs by one edit.
///
/// Letters that were left out or mistyped are those that follow a prefix of the name in the index:
/// at most positions there are few, and none behind a prefix that no file has.
fn add_neighbours(connection: &Connection, names: &[LinkKey], found: &mut BTreeSet<String>) -> rusqlite::Result<()> {
    let (Some(full), Some(file_name)) = (names.first(), names.last()) else { return Ok(()) };
    let letters: Vec<char> = file_name.folded.chars().collect();
    if letters.len() < MIN_LETTERS {
        return Ok(());
    }
    let folder = full.folded.strip_suffix(&file_name.folded).unwrap_or_default();
    let mut add = |name: &str| {
        // A common name: the file in the same folder may not be among those that were read.
        if add_namesakes(connection, name, found)? {
            add_namesakes(connection, &format!("{folder}{name}"), found)?;
        }
        Ok::<_, rusqlite::Error>(())
    };
    let rest = |at: usize| letters.iter().skip(at).collect::<String>();
    let mut lookups = 0;
    for at in 0..=letters.len() {
        let prefix: String = letters[..at].iter().collect();
        if at < letters.len() {
            add(&format!("{prefix}{}", rest(at + 1)))?;
        }
        if let [first, second, ..] = letters[at..] {
            add(&format!("{prefix}{second}{first}{}", rest(at + 2)))?;
        }
        let mut from = prefix.clone();
        let mut is_prefix_known = false;
        while let Some(name) = next_name(connection, &from)?.filter(|name| name.starts_with(&prefix)) {
            is_prefix_known = true;
            lookups += 1;
            if lookups > MAX_LOOKUPS {
                return Ok(());
            }
            let letter = name[prefix.len()..].chars().next();
            if let Some(letter) = letter {
                add(&format!("{prefix}{letter}{}", rest(at)))?;
                add(&format!("{prefix}{letter}{}", rest(at + 1)))?;
            }
            let Some(next) = next_letter(letter) else { break };
            from = format!("{prefix}{next}");
        }
        if !is_prefix_known {
            break;
        }
    }
    Ok(())
}

/// The first name in the index that is not before a text.
fn next_name(connection: &Connection, from: &str) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT folded FROM page_keys WHERE folded >= ?1 ORDER BY folded LIMIT 1";
    connection.prepare_cached(sql)?.query_row([from], |row| row.get(0)).optional()
}

/// The letter after a letter, in the order of the index; the first one for none.
fn next_letter(letter: Option<char>) -> Option<char> {
    let Some(letter) = letter else { return Some('\u{1}') };
    (u32::from(letter) + 1..=u32::from(char::MAX)).find_map(char::from_u32)
}

#[cfg(test)]
mod tests {
    use svcfs_base::TreePath;

    use crate::IndexEntry;
    use crate::tests::{Space, page};

    fn similar(space: &Space, path: &str) -> Vec<String> {
        let found = space.index.similar_paths(&TreePath::parse(path).unwrap()).unwrap();
        found.into_iter().map(|path| path.to_string()).collect()
    }

    #[test]
    fn similar_paths_differ_in_case_folder_or_one_edit() {
        let space = Space::new();
        space.put_entries(&[
            page("notes/Today.md", "x"),
            page("archive/today.md", "x"),
            page("notes/meeting notes.md", "x"),
            page("ärger/über.md", "x"),
            page("日記/毎日のメモ.md", "x"),
            page("a.md", "# Called otherwise\n"),
            IndexEntry::Asset(TreePath::parse("img/picture.png").unwrap()),
        ]);
        for (wanted, expected) in [
            ("notes/today.md", &["notes/Today.md", "archive/today.md"][..]),
            ("Notes/TODAY.md", &["notes/Today.md", "archive/today.md"]),
            ("today", &["notes/Today.md", "archive/today.md"]),
            ("notes/today", &["notes/Today.md", "archive/today.md"]),
            ("archive/todya.md", &["archive/today.md", "notes/Today.md"]),
            ("archive/tody.md", &["archive/today.md", "notes/Today.md"]),
            ("archive/todaay.md", &["archive/today.md", "notes/Today.md"]),
            ("archive/tuday.md", &["archive/today.md", "notes/Today.md"]),
            ("notes/meeting-notes.md", &["notes/meeting notes.md"]),
            ("ärger/übr.md", &[]),
            ("ärger/ühber.md", &["ärger/über.md"]),
            ("日記/毎日のメも.md", &["日記/毎日のメモ.md"]),
            ("日記/毎のメモ.md", &["日記/毎日のメモ.md"]),
            ("ärger/übber.md", &["ärger/über.md"]),
            ("picture.png", &["img/picture.png"]),
            ("img/pictur.png", &["img/picture.png"]),
            ("b.md", &[]),
            ("Called otherwise.md", &[]),
            ("notes/tdayy.md", &[]),
            ("", &[]),
        ] {
            assert_eq!(similar(&space, wanted), expected, "{wanted}");
        }
    }

    #[test]
    fn the_similar_path_of_a_common_name_is_the_one_in_the_folder() {
        let space = Space::new();
        let pages: Vec<_> = (0..50).map(|number| page(&format!("d{number}/index.md"), "x")).collect();
        space.put_entries(&pages);
        assert_eq!(similar(&space, "d49/indx.md")[0], "d49/index.md");
        assert_eq!(similar(&space, "d49/Index.md")[0], "d49/index.md");
    }
}
