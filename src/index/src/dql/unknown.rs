//! Notes about names in a query that no page has: fields, and the folders and pages of FROM.
//!
//! Invariant: a query whose fields exist costs no statement here, because each field that was found
//! once is remembered. What lies outside the caller's folder never shows in a note.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{OptionalExtension, Transaction, params_from_iter};
use serde::de::IgnoredAny;
use svcfs_base::TreePath;

use super::ast::{Expression, PageSource, ParsedQuery, QueryMode};
use super::lexemes::ValueStep;
use super::narrow::NarrowingSql;
use super::problem::{excerpt, hint, nearest};
use super::row::ImplicitField;
use super::{QueryLimits, checks, tasks};
use crate::schema::FIELDS;
use crate::{Index, IndexError, fields};

/// Limit of names that a result has notes about.
const MAX_NAMES: usize = 5;

/// Pages whose fields are suggested: the newest.
const SAMPLED_PAGES: i64 = 1_000;

/// Limit of folders and pages that are compared with a name in FROM.
const MAX_SIBLINGS: usize = 500;

/// Dataview's fields of `file`, and their names here.
const DATAVIEW_NAMES: [(&str, &str); 11] = [
    ("ext", "_ext"),
    ("folder", "_folder"),
    ("inlinks", "inlinks()"),
    ("link", "_path"),
    ("mday", "_updated"),
    ("mtime", "_updated"),
    ("name", "_name"),
    ("outlinks", "outlinks()"),
    ("path", "_path"),
    ("size", "_size"),
    ("tags", "tags"),
];

/// The notes about a query; those about FROM only if it has no rows.
pub(super) fn notes(
    index: &Index,
    parsed: &ParsedQuery,
    limits: &QueryLimits<'_>,
    has_rows: bool,
) -> Result<Vec<String>, IndexError> {
    if limits.visible.is_some() {
        // The known names are those of all pages.
        return Ok(Vec::new());
    }
    let folder = limits.folder.filter(|folder| !folder.is_root());
    let mut names = page_fields(parsed, limits);
    names.retain(|name, _| folder.is_some() || !index.field_usage.is_existing(name));
    let mut sources = Vec::new();
    if let Some(source) = &parsed.source
        && folder.is_none()
        && !has_rows
    {
        prefixes(source, &mut sources);
    }
    if names.is_empty() && sources.is_empty() {
        return Ok(Vec::new());
    }
    index.readers.query("q", |connection| {
        let mut notes = Vec::new();
        let mut known = None;
        for (name, part) in names.into_iter().take(MAX_NAMES) {
            if is_field_of_any(connection, name, folder)? {
                if folder.is_none() {
                    index.field_usage.mark_existing(name);
                }
                continue;
            }
            let known = match &known {
                Some(known) => known,
                None => known.insert(known_fields(connection, limits, folder)?),
            };
            notes.push(field_note(name, part, known));
        }
        for source in sources.into_iter().take(MAX_NAMES) {
            notes.extend(source_note(connection, source)?);
        }
        Ok(notes)
    })
}

/// The fields of pages in a query, each with its second key.
fn page_fields<'p>(parsed: &'p ParsedQuery, limits: &QueryLimits<'_>) -> BTreeMap<&'p str, Option<&'p str>> {
    let columns = || parsed.columns.iter().chain(&parsed.group).chain(&parsed.flatten);
    let is_other = |key: &str| {
        let is_task_part = parsed.mode == QueryMode::Task && (tasks::PARTS.contains(&key) || key == tasks::META);
        let is_item = parsed.flatten.iter().any(|column| column.name.starts_with(key));
        let is_column = columns().any(|column| {
            let is_itself = matches!(&column.node.kind, Expression::Field(steps)
                if matches!(steps.first(), Some(ValueStep::Key(first)) if first == key));
            column.name == key && !is_itself
        });
        let is_count = parsed.mode == QueryMode::Count && key == "count";
        is_task_part || is_item || is_column || is_count || limits.custom_fields.0.contains_key(key)
    };
    let mut names = BTreeMap::new();
    for node in checks::nodes(parsed) {
        node.visit(&mut |node| {
            let Expression::Field(steps) = &node.kind else { return };
            let Some(ValueStep::Key(key)) = steps.first() else { return };
            if ImplicitField::named(key).is_none() && !is_other(key) {
                let part = if let Some(ValueStep::Key(part)) = steps.get(1) { Some(part.as_str()) } else { None };
                names.entry(key.as_str()).or_insert(part);
            }
        });
    }
    names
}

fn is_field_of_any(connection: &Transaction<'_>, name: &str, folder: Option<&TreePath>) -> Result<bool, IndexError> {
    let Some(word) = fields::presence_token(name) else { return Ok(true) };
    let mut statement = NarrowingSql::default();
    let word = statement.bind(format!("{{fields}} : {word}"));
    let pages = match folder {
        Some(folder) => {
            let inside = statement.folder_or_page(&format!("{folder}/"));
            format!("texts JOIN pages ON pages.id = texts.rowid WHERE texts MATCH {word} AND {inside}")
        }
        None => format!("texts WHERE texts MATCH {word}"),
    };
    let mut prepared = connection.prepare_cached(&format!("SELECT EXISTS (SELECT 1 FROM {pages})"))?;
    Ok(prepared.query_row(params_from_iter(&statement.values), |row| row.get(0))?)
}

/// The names of fields that can be suggested.
fn known_fields(
    connection: &Transaction<'_>,
    limits: &QueryLimits<'_>,
    folder: Option<&TreePath>,
) -> Result<BTreeSet<String>, IndexError> {
    let implicit = ImplicitField::ALL.iter().filter(|(_, fact)| limits.computed_fields || !fact.is_computed());
    let mut names: BTreeSet<String> = implicit.map(|(name, _)| (*name).to_owned()).collect();
    names.extend(limits.custom_fields.0.keys().cloned());
    let mut statement = NarrowingSql::default();
    let filter = folder.map_or_else(|| "1".to_owned(), |folder| statement.folder_or_page(&format!("{folder}/")));
    let limit = statement.bind(SAMPLED_PAGES);
    let sql = format!("SELECT {FIELDS} FROM pages WHERE {filter} ORDER BY id DESC LIMIT {limit}");
    let mut prepared = connection.prepare_cached(&sql)?;
    let mut rows = prepared.query(params_from_iter(&statement.values))?;
    while let Some(row) = rows.next()? {
        let page_fields = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        let members: BTreeMap<String, IgnoredAny> = serde_json::from_str(page_fields).unwrap_or_default();
        names.extend(members.into_keys());
    }
    Ok(names)
}

fn field_note(name: &str, part: Option<&str>, known: &BTreeSet<String>) -> String {
    let dataview = DATAVIEW_NAMES.iter().find(|(dataview, _)| name == "file" && part == Some(*dataview));
    let hint = match dataview {
        Some((part, here)) => format!("; Dataview's `file.{part}` is `{here}` here"),
        None => {
            let others = known.iter().map(String::as_str).filter(|known| *known != name);
            hint(name, others)
        }
    };
    format!("no page has the field `{}`{hint}", excerpt(name))
}

/// The paths that a page must be in or may be in.
fn prefixes<'s>(source: &'s PageSource, into: &mut Vec<&'s str>) {
    match source {
        PageSource::Prefix(prefix) => into.push(prefix),
        PageSource::All(sources) | PageSource::Any(sources) => {
            sources.iter().for_each(|source| prefixes(source, into));
        }
        PageSource::Visible(_) | PageSource::Tag(_) | PageSource::Not(_) => {}
    }
}

fn source_note(connection: &Transaction<'_>, source: &str) -> Result<Option<String>, IndexError> {
    let mut statement = NarrowingSql::default();
    let filter = statement.folder_or_page(source);
    let sql = format!("SELECT EXISTS (SELECT 1 FROM pages WHERE {filter})");
    let exists: bool =
        connection.prepare_cached(&sql)?.query_row(params_from_iter(&statement.values), |row| row.get(0))?;
    if exists {
        return Ok(None);
    }
    let name = source.trim_matches('/');
    let (parent, name) = name.rfind('/').map_or(("", name), |slash| name.split_at(slash + 1));
    let siblings = siblings(connection, parent)?;
    let hint = nearest(name, siblings.iter().map(String::as_str));
    let hint = hint.map(|sibling| format!("; did you mean `{parent}{sibling}`?")).unwrap_or_default();
    Ok(Some(format!("no page is in `{}`{hint}", excerpt(source))))
}

/// The folders, with a slash, and the pages in a folder. Each is found with one index lookup.
fn siblings(connection: &Transaction<'_>, parent: &str) -> Result<Vec<String>, IndexError> {
    let mut siblings = Vec::new();
    let mut next = parent.to_owned();
    let mut first = connection.prepare_cached("SELECT path FROM pages WHERE path >= ?1 ORDER BY path LIMIT 1")?;
    while siblings.len() < MAX_SIBLINGS {
        let path: Option<String> = first.query_row([&next], |row| row.get(0)).optional()?;
        let Some(rest) = path.as_deref().and_then(|path| path.strip_prefix(parent)) else { break };
        // `0` follows `/`.
        let (sibling, following) = match rest.split_once('/') {
            Some((folder, _)) => (format!("{folder}/"), format!("{parent}{folder}0")),
            None => (rest.to_owned(), format!("{parent}{rest}\u{1}")),
        };
        siblings.push(sibling);
        next = following;
    }
    Ok(siblings)
}

#[cfg(test)]
mod tests {
    use svcfs_base::TreePath;

    use super::super::tests::asking;
    use super::super::{CustomFields, DqlQuery, QueryLimits};
    use crate::tests::Space;

    fn space() -> Space {
        Space::of(&[
            ("sub/a.md", "---\nstatus: open\ndue: 2026-01-01\n---\n#tide"),
            ("submarine.md", "---\ndepth: 3\n---\nCaptain:: Nemo\n"),
            ("secret/b.md", "---\npassword: x\n---\n"),
        ])
    }

    fn notes(space: &Space, query: &str, folder: Option<&str>) -> String {
        let custom = CustomFields::default();
        let folder = folder.map(|folder| TreePath::parse(folder).unwrap());
        let limits = QueryLimits { folder: folder.as_ref(), ..asking(&custom) };
        space.index.query(&DqlQuery::parse(query).unwrap(), &limits).unwrap().notes.join("; ")
    }

    #[test]
    fn names_that_no_page_has_are_noted_with_the_nearest_name() {
        let space = space();
        for (query, expected) in [
            ("TABLE status, due", ""),
            ("LIST WHERE status = \"none\"", ""),
            ("TABLE staus", "no page has the field `staus`; did you mean `status`?"),
            ("LIST WHERE staus != 1", "no page has the field `staus`; did you mean `status`?"),
            ("LIST SORT dpeth", "no page has the field `dpeth`; did you mean `depth`?"),
            ("LIST SORT captian", "no page has the field `captian`; did you mean `captain`?"),
            ("TABLE _pth", "no page has the field `_pth`; did you mean `_path`?"),
            ("LIST WHERE file.name = \"a\"", "no page has the field `file`; Dataview's `file.name` is `_name` here"),
            ("LIST WHERE zzz", "no page has the field `zzz`"),
            ("TABLE status AS zzz SORT zzz", ""),
            ("TABLE item FLATTEN status AS item", ""),
            ("TASK WHERE completed AND meta.prio", ""),
            ("LIST FROM \"su\"", "no page is in `su`; did you mean `sub/`?"),
            ("LIST FROM \"sub/b.md\"", "no page is in `sub/b.md`; did you mean `sub/a.md`?"),
            ("LIST FROM -\"nowhere\"", ""),
            ("LIST FROM \"sub\" AND #none", ""),
            ("LIST FROM \"qqq\" OR \"sub\"", ""),
        ] {
            assert_eq!(notes(&space, query, None), expected, "{query}");
        }
    }

    #[test]
    fn notes_never_tell_what_is_outside_of_the_callers_folder() {
        let space = space();
        // The field is remembered for callers without a folder only.
        assert_eq!(notes(&space, "TABLE password", None), "");
        for (query, expected) in [
            ("TABLE password", "no page has the field `password`"),
            ("TABLE passwrd", "no page has the field `passwrd`"),
            ("TABLE staus", "no page has the field `staus`; did you mean `status`?"),
            ("TABLE status", ""),
            ("LIST FROM \"secre\"", ""),
        ] {
            assert_eq!(notes(&space, query, Some("sub")), expected, "{query}");
        }
    }
}
