//! Notes on fields that no page has.

use std::collections::BTreeSet;
use std::sync::Arc;

use svcfs_text::metadata::normalize_key;

use super::QueryRun;
use super::item::FIELDS;
use super::result::QueryResult;
use crate::page::Page;
use crate::syntax::{Command, ExpressionKind, ParsedQuery, QueryType};

/// Minimum similarity (Jaro-Winkler) of a suggested name.
const MIN_SIMILARITY: f64 = 0.8;

const MAX_NOTES: usize = 3;

/// Says which fields no page has, if the result has no rows or a column without values. Dataview
/// gives null for them without a word.
pub(super) fn add_notes(run: &mut QueryRun<'_>, parsed: &ParsedQuery, result: &QueryResult) {
    let is_null = |column: usize| result.rows.iter().all(|row| row.cells.get(column).is_none_or(|cell| cell.is_null()));
    let first = usize::from(result.has_id);
    let has_null_column =
        parsed.kind != QueryType::Task && (0..parsed.columns.len()).any(|column| is_null(column + first));
    if !result.rows.is_empty() && !has_null_column {
        return;
    }
    let known = known_fields(&run.pages);
    for name in field_names(parsed).into_iter().filter(|name| !known.contains(*name)).take(MAX_NOTES) {
        let similarity = |other: &String| strsim::jaro_winkler(name, other);
        let near = known.iter().map(|other| (similarity(other), other)).filter(|(score, _)| *score >= MIN_SIMILARITY);
        let hint = near.max_by(|(a, _), (b, _)| a.total_cmp(b));
        let hint = hint.map(|(_, other)| format!("; did you mean `{other}`?")).unwrap_or_default();
        let name = svcfs_base::escape_unprintable(&name.chars().take(40).collect::<String>());
        run.notes.push(format!("no page has the field `{name}`, so it is null{hint}"));
    }
}

fn known_fields(pages: &[Arc<Page>]) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for page in pages {
        let items = page.items.iter().flat_map(|item| &item.fields).map(|(key, _)| key);
        let inline = page.inline_fields.iter().map(|(key, _)| key);
        for key in page.frontmatter.keys().chain(inline).chain(items) {
            if !known.contains(key) {
                known.insert(normalize_key(key));
                known.insert(key.clone());
            }
        }
    }
    known
}

/// The names of fields in a query, without parameters and names that the query defines.
fn field_names(parsed: &ParsedQuery) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut defined = BTreeSet::from(["file", "this", "row", "rows", "key"]);
    for command in &parsed.commands {
        if let Command::Group(named) | Command::Flatten(named) = command {
            defined.insert(&*named.name);
        }
    }
    if parsed.kind == QueryType::Task {
        defined.extend(FIELDS);
    }
    parsed.visit_expressions(&mut |expression| match &expression.kind {
        ExpressionKind::Variable(name) => {
            names.insert(&**name);
        }
        ExpressionKind::Lambda(lambda) => defined.extend(lambda.parameters.iter().map(|name| &**name)),
        _ => {}
    });
    names.difference(&defined).copied().collect()
}
