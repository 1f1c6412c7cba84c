//! Selects the pages to score.
//!
//! Most queries match few pages, and all of them are scored. A word on ten thousand pages says
//! little about any of them, so only pages with it in their names and some others are scored.

use std::collections::{HashMap, HashSet};

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, params_from_iter};

use super::anchors::{self, AnchorCounts};
use super::query::{QueryWord, WordQuery};
use super::trust::{RISING, TrustBoost};
use super::{SearchQuery, score};
use crate::IndexError;
use crate::field_words;
use crate::pages::{range_below, tree_path};

/// Limit of scored pages per source of candidates.
pub(super) const WEIGHED: usize = 400;

/// Limit of candidates that have a query word as a subject, and number of query words that this is
/// tried for.
const ABOUT: usize = 100;
const ABOUT_WORDS: usize = 3;

/// Newest pages that are scored in any case.
const FEWEST_OTHERS: usize = 100;

/// Limit of candidates with some of the words.
const WEIGHED_FOR_SOME: usize = 800;

/// Words in a query from which on partial matches are added when few pages have all of them. A
/// query of two words means both.
const MANY_WORDS: usize = 3;

/// Fewer full matches than this are few.
const FEW: usize = 10;

/// A query of this many words is a description; pages with all of its words do not rank first just
/// for that.
const DESCRIPTION: usize = 6;

/// The pages to score.
#[derive(Default)]
pub(super) struct CandidateSet {
    /// Distinct page ids.
    pub(super) ids: Vec<i64>,
    /// Anchor text of the pages.
    pub(super) anchors: HashMap<i64, AnchorCounts>,
    /// Whether more pages match.
    pub(super) is_cut: bool,
    /// Whether no page matches fully, so all of these are partial matches.
    pub(super) has_some_only: bool,
    /// Whether few pages match fully, so partial matches were added.
    pub(super) has_some: bool,
    /// Pages that rank before all others.
    pub(super) foremost: HashSet<i64>,
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
pub(super) fn gather(
    connection: &Connection,
    query: &SearchQuery,
    question: &WordQuery,
) -> Result<Option<CandidateSet>, IndexError> {
    let mut found = CandidateSet::default();
    let named = if question.is_positive {
        matching(connection, query, "names", &question.expression, WEIGHED)?
    } else {
        vec![]
    };
    // A page with the words in its name matches. The more of these there are, the fewer others are
    // read.
    let most = if named.len() < WEIGHED { WEIGHED } else { FEWEST_OTHERS };
    let fit = matching(connection, query, "texts", &question.expression, most + 1)?;
    if fit.len() > most {
        found.is_cut = true;
        found.add(named);
        if question.is_positive {
            about(connection, query, question, &mut found)?;
        }
        if query.trust != TrustBoost::Off {
            let rising = format!("({}) AND {RISING}", question.expression);
            found.add(matching(connection, query, "texts", &rising, WEIGHED)?);
        }
    }
    // The more candidates there are, the fewer of the newest pages are added.
    let others = WEIGHED.saturating_sub(found.ids.len()).max(FEWEST_OTHERS);
    found.add(fit.into_iter().take(others));
    if question.is_positive {
        found.anchors = anchors::of(connection, &question.words)?;
        let called: Vec<i64> =
            found.anchors.iter().filter(|(_, anchors)| anchors.is_whole()).map(|(id, _)| *id).collect();
        let called = admitted(connection, query, called)?;
        if question.is_plain {
            found.add(called);
        }
    }
    let words = question.words.len();
    if query.allow_partial && question.is_plain && words > 1 {
        if found.ids.is_empty() {
            found.has_some_only = true;
            some(connection, query, &question.words, &mut found)?;
        } else if words >= MANY_WORDS && found.ids.len() < FEW {
            if words < DESCRIPTION {
                found.foremost.clone_from(&found.seen);
            }
            let fit = found.ids.len();
            some(connection, query, &question.words, &mut found)?;
            found.has_some = found.ids.len() > fit;
        }
    }
    Ok((!found.ids.is_empty()).then_some(found))
}

/// Adds pages with some of the words, those with the rarest words first: rare words say most about
/// the subject of a query.
fn some(
    connection: &Connection,
    query: &SearchQuery,
    words: &[QueryWord],
    found: &mut CandidateSet,
) -> Result<(), IndexError> {
    let mut counted = Vec::new();
    for word in words {
        counted.push((score::pages_with(connection, word)?, word.expression()));
    }
    counted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let called = found.anchors.keys().copied().collect();
    found.add(admitted(connection, query, called)?);
    let any: Vec<&str> = counted.iter().map(|(_, expression)| expression.as_str()).collect();
    found.add(matching(connection, query, "names", &any.join(" OR "), WEIGHED_FOR_SOME / 3)?);
    for (at, expression) in any.iter().enumerate() {
        let room = WEIGHED_FOR_SOME.saturating_sub(found.ids.len());
        if room == 0 {
            break;
        }
        // Of two common words, pages with both come first.
        if let Some(next) = any.get(at + 1) {
            found.add(matching(connection, query, "texts", &format!("{expression} AND {next}"), room)?);
        }
        let room = WEIGHED_FOR_SOME.saturating_sub(found.ids.len());
        found.add(matching(connection, query, "texts", expression, room)?);
    }
    Ok(())
}

/// Adds pages with one of the words as a subject, the densest first.
fn about(
    connection: &Connection,
    query: &SearchQuery,
    question: &WordQuery,
    found: &mut CandidateSet,
) -> Result<(), IndexError> {
    let single = |word: &QueryWord| {
        word.spellings.iter().find_map(|spelling| match &spelling[..] {
            [term] if !word.is_prefix => Some(term.clone()),
            _ => None,
        })
    };
    let words = question.words.iter().filter_map(single).take(ABOUT_WORDS);
    let mut open: Vec<(String, usize)> = words.map(|word| (word, ABOUT)).collect();
    for density in 0..field_words::DENSITIES {
        let of = |words: &[(String, usize)]| {
            let any: Vec<_> =
                words.iter().map(|(word, _)| format!("\"{}\"", field_words::about(density, word))).collect();
            format!("({}) AND ({})", question.expression, any.join(" OR "))
        };
        // First one query for all words, which is usually enough: each single query evaluates the
        // full expression.
        if open.len() > 1 {
            let about = matching(connection, query, "texts", &of(&open), ABOUT)?;
            if about.len() < ABOUT {
                found.add(about);
                continue;
            }
        }
        // Each word has its own limit, so that one word cannot displace the others.
        for one in &mut open {
            let about = matching(connection, query, "texts", &of(std::slice::from_ref(one)), one.1)?;
            one.1 -= about.len();
            found.add(about);
        }
        open.retain(|(_, room)| *room > 0);
    }
    Ok(())
}

/// The matching pages after the scored ones, newest first.
pub(super) fn beyond(
    connection: &Connection,
    query: &SearchQuery,
    question: &WordQuery,
    weighed: &[i64],
    (skipped, missing): (usize, usize),
) -> Result<Vec<i64>, IndexError> {
    let weighed: HashSet<i64> = weighed.iter().copied().collect();
    let enough = weighed.len().saturating_add(skipped).saturating_add(missing);
    let fit = matching(connection, query, "texts", &question.expression, enough)?;
    Ok(fit.into_iter().filter(|id| !weighed.contains(id)).skip(skipped).take(missing).collect())
}

/// The newest matches in a full-text table, within the folder and time limits of the query.
fn matching(
    connection: &Connection,
    query: &SearchQuery,
    table: &'static str,
    expression: &str,
    most: usize,
) -> Result<Vec<i64>, IndexError> {
    let most = SqlValue::from(i64::try_from(most).unwrap_or(i64::MAX));
    let mut values = vec![SqlValue::from(expression.to_owned()), most];
    let mut conditions = String::new();
    if let Some(below) = query.folder.as_ref().filter(|below| !below.is_root()) {
        if table == "texts" {
            // Every page has its parent folders among its words, so the full-text index filters by
            // folder.
            let folder = field_words::token(field_words::PATH, &field_words::whole(below.as_str()));
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
fn admitted(connection: &Connection, query: &SearchQuery, mut ids: Vec<i64>) -> Result<Vec<i64>, IndexError> {
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
