//! Selects the pages to score.
//!
//! Most queries match few pages, and all of them are scored. A word on ten thousand pages says
//! little about any of them, so only pages with it in their names and some others are scored.

use std::collections::{HashMap, HashSet};

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, params_from_iter};
use svcfs_text::links::{KeyKind, page_keys};

use super::anchors::{self, AnchorCounts};
use super::query::{QueryWord, WordQuery};
use super::trust::{TRUSTED, TrustBoost};
use super::{SearchQuery, score};
use crate::IndexError;
use crate::field_words;
use crate::pages::{range_below, tree_path};

/// Limit of scored pages per source of candidates.
pub(super) const MAX_SCORED: usize = 400;

/// Limit of candidates that have a query word as a subject, and number of query words that this is
/// tried for.
const MAX_SUBJECT_PAGES: usize = 100;
const SUBJECT_WORDS: usize = 3;

/// Newest pages that are scored in any case.
const MIN_NEWEST: usize = 100;

/// Limit of candidates with some of the words.
const MAX_PARTIAL: usize = 800;

/// Words in a query from which on partial matches are added when few pages have all of them. A
/// query of two words means both.
const MIN_PARTIAL_WORDS: usize = 3;

/// Fewer full matches than this are few.
const FEW_MATCHES: usize = 10;

/// A query of this many words is a description; pages with all of its words do not rank first just
/// for that.
const DESCRIPTION_WORDS: usize = 6;

#[derive(Default)]
pub(super) struct CandidateSet {
    pub(super) ids: Vec<i64>,
    pub(super) anchors: HashMap<i64, AnchorCounts>,
    /// Whether more pages match.
    pub(super) is_truncated: bool,
    /// Whether no page matches fully, so all of these are partial matches.
    pub(super) is_partial_only: bool,
    /// Whether few pages match fully, so partial matches were added.
    pub(super) has_partial: bool,
    /// Pages that rank before all others but those titled like the query.
    pub(super) top_ranked: HashSet<i64>,
    /// Pages titled like the query, up to case.
    pub(super) titled: HashSet<i64>,
    seen: HashSet<i64>,
}

impl CandidateSet {
    fn add(&mut self, ids: impl IntoIterator<Item = i64>) {
        for id in ids {
            if self.seen.insert(id) {
                self.ids.push(id);
            }
        }
    }
}

/// Selects the pages to score; `None` when nothing matches.
pub(super) fn select(
    connection: &Connection,
    query: &SearchQuery,
    parsed: &WordQuery,
) -> Result<Option<CandidateSet>, IndexError> {
    let mut candidates = CandidateSet::default();
    let titled = filter_pages(connection, query, titled_pages(connection, &query.q)?)?;
    candidates.titled.extend(&titled);
    candidates.add(titled);
    let name_matches =
        if parsed.is_positive { matching(connection, query, "names", &parsed.expression, MAX_SCORED)? } else { vec![] };
    // A page with the words in its name matches. The more of these there are, the fewer others are
    // read.
    let limit = if name_matches.len() < MAX_SCORED { MAX_SCORED } else { MIN_NEWEST };
    let matches = matching(connection, query, "texts", &parsed.expression, limit + 1)?;
    if matches.len() > limit {
        candidates.is_truncated = true;
        candidates.add(name_matches);
        if parsed.is_positive {
            add_subject_pages(connection, query, parsed, &mut candidates)?;
        }
        if query.trust != TrustBoost::Off {
            let trusted = format!("({}) AND {TRUSTED}", parsed.expression);
            candidates.add(matching(connection, query, "texts", &trusted, MAX_SCORED)?);
        }
    }
    // The more candidates there are, the fewer of the newest pages are added.
    let newest = MAX_SCORED.saturating_sub(candidates.ids.len()).max(MIN_NEWEST);
    candidates.add(matches.into_iter().take(newest));
    if parsed.is_positive {
        candidates.anchors = anchors::of(connection, &parsed.words)?;
        let link_targets: Vec<i64> =
            candidates.anchors.iter().filter(|(_, anchors)| anchors.has_all_words()).map(|(id, _)| *id).collect();
        let link_targets = filter_pages(connection, query, link_targets)?;
        if parsed.is_plain {
            candidates.add(link_targets);
        }
    }
    let words = parsed.words.len();
    if query.allow_partial && parsed.is_plain && words > 1 {
        if candidates.ids.is_empty() {
            candidates.is_partial_only = true;
            add_partial(connection, query, &parsed.words, &mut candidates)?;
        } else if (words >= MIN_PARTIAL_WORDS || query.is_question) && candidates.ids.len() < FEW_MATCHES {
            if words < DESCRIPTION_WORDS {
                candidates.top_ranked.clone_from(&candidates.seen);
            }
            let full_matches = candidates.ids.len();
            add_partial(connection, query, &parsed.words, &mut candidates)?;
            candidates.has_partial = candidates.ids.len() > full_matches;
        }
    }
    Ok((!candidates.ids.is_empty()).then_some(candidates))
}

/// The pages with this title, in any case. Each is a candidate, also where hundreds of names have
/// its words.
fn titled_pages(connection: &Connection, title: &str) -> Result<Vec<i64>, IndexError> {
    let Some(key) = page_keys("", Some(title), &[]).pop().filter(|key| key.kind == KeyKind::Title) else {
        return Ok(Vec::new());
    };
    let mut statement = connection
        .prepare_cached("SELECT page FROM page_keys WHERE folded = ?1 AND kind = ?2 ORDER BY page DESC LIMIT ?3")?;
    let limit = i64::try_from(MAX_SCORED).unwrap_or(i64::MAX);
    let pages = statement.query_map((key.folded, key.kind as u8, limit), |row| row.get(0))?;
    Ok(pages.collect::<rusqlite::Result<_>>()?)
}

/// Adds pages with some of the words, those with the rarest words first: rare words say most about
/// the subject of a query.
fn add_partial(
    connection: &Connection,
    query: &SearchQuery,
    words: &[QueryWord],
    candidates: &mut CandidateSet,
) -> Result<(), IndexError> {
    let mut by_rarity = Vec::new();
    for word in words {
        by_rarity.push((score::count_pages(connection, word)?, word.expression()));
    }
    by_rarity.sort_by(|a, b| a.0.total_cmp(&b.0));
    let link_targets = candidates.anchors.keys().copied().collect();
    candidates.add(filter_pages(connection, query, link_targets)?);
    let any: Vec<&str> = by_rarity.iter().map(|(_, expression)| expression.as_str()).collect();
    candidates.add(matching(connection, query, "names", &any.join(" OR "), MAX_PARTIAL / 3)?);
    for (index, expression) in any.iter().enumerate() {
        let capacity = MAX_PARTIAL.saturating_sub(candidates.ids.len());
        if capacity == 0 {
            break;
        }
        // Of two common words, pages with both come first.
        if let Some(next) = any.get(index + 1) {
            candidates.add(matching(connection, query, "texts", &format!("{expression} AND {next}"), capacity)?);
        }
        let capacity = MAX_PARTIAL.saturating_sub(candidates.ids.len());
        candidates.add(matching(connection, query, "texts", expression, capacity)?);
    }
    Ok(())
}

/// Adds pages with one of the words as a subject, the densest first.
fn add_subject_pages(
    connection: &Connection,
    query: &SearchQuery,
    parsed: &WordQuery,
    candidates: &mut CandidateSet,
) -> Result<(), IndexError> {
    let single = |word: &QueryWord| {
        word.spellings.iter().find_map(|spelling| match &spelling[..] {
            [term] if !word.is_prefix => Some(term.clone()),
            _ => None,
        })
    };
    let words = parsed.words.iter().filter_map(single).take(SUBJECT_WORDS);
    let mut remaining: Vec<(String, usize)> = words.map(|word| (word, MAX_SUBJECT_PAGES)).collect();
    for density in 0..field_words::DENSITIES {
        let expression_for = |words: &[(String, usize)]| {
            let any: Vec<_> =
                words.iter().map(|(word, _)| format!("\"{}\"", field_words::subject_token(density, word))).collect();
            format!("({}) AND ({})", parsed.expression, any.join(" OR "))
        };
        // First one query for all words, which is usually enough: each single query evaluates the
        // full expression.
        if remaining.len() > 1 {
            let pages = matching(connection, query, "texts", &expression_for(&remaining), MAX_SUBJECT_PAGES)?;
            if pages.len() < MAX_SUBJECT_PAGES {
                candidates.add(pages);
                continue;
            }
        }
        // Each word has its own limit, so that one word cannot displace the others.
        for entry in &mut remaining {
            let pages = matching(connection, query, "texts", &expression_for(std::slice::from_ref(entry)), entry.1)?;
            entry.1 -= pages.len();
            candidates.add(pages);
        }
        remaining.retain(|(_, capacity)| *capacity > 0);
    }
    Ok(())
}

/// The matching pages after the scored ones, newest first.
pub(super) fn next_matches(
    connection: &Connection,
    query: &SearchQuery,
    parsed: &WordQuery,
    scored: &[i64],
    (skipped, missing): (usize, usize),
) -> Result<Vec<i64>, IndexError> {
    let scored: HashSet<i64> = scored.iter().copied().collect();
    let limit = scored.len().saturating_add(skipped).saturating_add(missing);
    let matches = matching(connection, query, "texts", &parsed.expression, limit)?;
    Ok(matches.into_iter().filter(|id| !scored.contains(id)).skip(skipped).take(missing).collect())
}

/// The newest matches in a full-text table, within the folder and time limits of the query.
fn matching(
    connection: &Connection,
    query: &SearchQuery,
    table: &'static str,
    expression: &str,
    limit: usize,
) -> Result<Vec<i64>, IndexError> {
    let limit = SqlValue::from(i64::try_from(limit).unwrap_or(i64::MAX));
    let mut values = vec![SqlValue::from(expression.to_owned()), limit];
    let mut conditions = String::new();
    if let Some(below) = query.folder.as_ref().filter(|below| !below.is_root()) {
        if table == "texts" {
            // Every page has its parent folders among its words, so the full-text index filters by
            // folder.
            let folder = field_words::token(field_words::PATH, &field_words::normalize_value(below.as_str()));
            values[0] = format!("\"{folder}\" AND ({expression})").into();
        }
        let (from, to) = range_below(below);
        conditions.push_str(" AND (pages.path = ?3 OR (pages.path > ?4 AND pages.path < ?5))");
        values.extend([below.as_str().to_owned().into(), from.into(), to.into()]);
    }
    if let Some(after) = query.modified_after {
        values.push(after.as_microsecond().into());
        conditions.push_str(&format!(" AND pages.modified > ?{}", values.len()));
    }
    let join =
        if conditions.is_empty() { String::new() } else { format!("CROSS JOIN pages ON pages.id = {table}.rowid") };
    let sql = format!(
        "SELECT {table}.rowid FROM {table} {join} WHERE {table} MATCH ?1 {conditions} ORDER BY {table}.rowid DESC LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let ids = statement.query_map(params_from_iter(values), |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// Filters pages by the folder and time limits of the query.
fn filter_pages(connection: &Connection, query: &SearchQuery, mut ids: Vec<i64>) -> Result<Vec<i64>, IndexError> {
    ids.sort_unstable();
    let mut statement = connection.prepare_cached("SELECT path, modified FROM pages WHERE id = ?1")?;
    let mut admitted = Vec::with_capacity(ids.len());
    for id in ids {
        let (path, modified): (String, i64) = statement.query_row([id], |row| row.try_into())?;
        let path = tree_path(&path)?;
        if query.folder.as_ref().is_none_or(|below| path.is_under(below))
            && query.modified_after.is_none_or(|after| modified > after.as_microsecond())
        {
            admitted.push(id);
        }
    }
    Ok(admitted)
}
