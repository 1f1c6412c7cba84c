//! The board of a workflow: its pages by state, from the index.
//!
//! Invariant: a board is computed again after every change of the space, because any page may be a
//! blocker; only the cards of changed pages are read again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use svcfs_base::{Fault, Seq, TreePath, fold_label};
use svcfs_index::Index;

use super::card::{ReadCard, ReadCards};
use super::{BlockerCheck, BoardCard, UNMATCHED, WorkflowDefinition, read_definition};
use crate::kernel::{OperationContext, Space};

/// Limit of the cached boards of a space.
const MAX_CACHED: usize = 16;

/// With more changes, all pages are read.
const MAX_REREAD: usize = 1_000;

/// A board: the definition, and the pages in each state.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkflowBoard {
    /// The definition
    pub workflow: WorkflowDefinition,
    /// The pages of each state, in order of `ordinal`, then of path
    pub board: BoardColumns,
    /// Number of pages in each state, also of those left out by `limit`
    pub counts: StateCounts,
}

/// States with their pages, in the order of the definition.
#[derive(Debug, Default)]
pub struct BoardColumns(pub Vec<(String, Vec<BoardCard>)>);

/// States with their numbers of pages, in the order of the definition.
#[derive(Debug, Default)]
pub struct StateCounts(pub Vec<(String, usize)>);

impl Serialize for BoardColumns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_pairs(&self.0, serializer)
    }
}

impl Serialize for StateCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_pairs(&self.0, serializer)
    }
}

fn serialize_pairs<T: Serialize, S: Serializer>(pairs: &[(String, T)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(pairs.len()))?;
    for (name, value) in pairs {
        map.serialize_entry(name, value)?;
    }
    map.end()
}

impl JsonSchema for BoardColumns {
    fn schema_name() -> Cow<'static, str> {
        "BoardColumns".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let cards = generator.subschema_for::<Vec<BoardCard>>();
        json_schema!({ "type": "object", "description": "The pages of each state", "additionalProperties": cards })
    }
}

impl JsonSchema for StateCounts {
    fn schema_name() -> Cow<'static, str> {
        "StateCounts".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let count = generator.subschema_for::<usize>();
        json_schema!({ "type": "object", "description": "The number of pages of each state", "additionalProperties": count })
    }
}

/// The boards of a space.
#[derive(Debug, Default)]
pub struct BoardCache(Mutex<HashMap<String, Arc<CachedBoard>>>);

/// A board with all pages.
#[derive(Debug)]
struct CachedBoard {
    definition: WorkflowDefinition,
    /// The last change of the space that it knows.
    seq: Seq,
    /// The generation of the index that it was read from.
    generation: u64,
    cards: ReadCards,
    columns: Vec<(String, Vec<BoardCard>)>,
}

/// The board of a workflow with the pages that the caller may see, at most `limit` in each state.
///
/// # Errors
/// `NotFound` if there is no such workflow; `Invalid` for a bad definition; those of the index.
pub fn read_board(cx: &OperationContext<'_>, name: &str, limit: Option<usize>) -> Result<WorkflowBoard, Fault> {
    let cached = cx.space.boards.current((cx.space, cx.index()), name)?;
    let mut columns = cached.columns.clone();
    if cx.caller.permissions.folder.is_some() {
        columns.iter_mut().for_each(|(_, cards)| cards.retain(|card| cx.caller.permissions.covers(&card.path)));
        columns.iter_mut().flat_map(|(_, cards)| cards).try_for_each(BoardCard::redact)?;
        columns.retain(|(state, cards)| state != UNMATCHED || !cards.is_empty());
    }
    let counts = columns.iter().map(|(state, cards)| (state.clone(), cards.len())).collect();
    if let Some(limit) = limit {
        columns.iter_mut().for_each(|(_, cards)| cards.truncate(limit));
    }
    let workflow = cached.definition.clone();
    Ok(WorkflowBoard { workflow, board: BoardColumns(columns), counts: StateCounts(counts) })
}

impl BoardCache {
    /// The board as the index knows it now.
    fn current(&self, (space, index): (&Space, &Index), name: &str) -> Result<Arc<CachedBoard>, Fault> {
        // Read before the pages: a change in between is found again by the next request.
        let seq = space.vfs.last_seq();
        let definition = read_definition(&space.vfs, name)?;
        let mut boards = self.0.lock();
        let cached = boards.get(name).cloned();
        let (generation, changed) = index.changes_since(cached.as_ref().map(|cached| cached.generation));
        if let Some(cached) = &cached
            && (cached.seq, cached.generation) == (seq, generation)
            && cached.definition == definition
        {
            return Ok(Arc::clone(cached));
        }
        let cards = match (cached, changed) {
            (Some(cached), Some(changed)) if changed.len() <= MAX_REREAD => reread(index, name, &cached, changed)?,
            _ => read_all(index, name)?,
        };
        let columns = arrange((space, index), &definition, &cards)?;
        let board = Arc::new(CachedBoard { definition, seq, generation, cards, columns });
        if boards.len() >= MAX_CACHED && !boards.contains_key(name) {
            boards.clear();
        }
        boards.insert(name.to_owned(), Arc::clone(&board));
        Ok(board)
    }
}

fn read_all(index: &Index, name: &str) -> Result<ReadCards, Fault> {
    let mut cards = ReadCards::new();
    for page in index.workflow_pages(name, None)? {
        if let Some(card) = ReadCard::of(page, name)? {
            cards.insert(card.path().clone(), Arc::new(card));
        }
    }
    Ok(cards)
}

fn reread(index: &Index, name: &str, cached: &CachedBoard, changed: Vec<TreePath>) -> Result<ReadCards, Fault> {
    let mut cards = cached.cards.clone();
    for path in changed.into_iter().filter(TreePath::is_page) {
        let card = index.workflow_page(&path)?.map(|page| ReadCard::of(page, name)).transpose()?.flatten();
        match card {
            Some(card) => drop(cards.insert(path, Arc::new(card))),
            None => drop(cards.remove(&path)),
        }
    }
    Ok(cards)
}

/// The columns of a board: its cards by state, in order, with their blockers.
fn arrange(
    (space, index): (&Space, &Index),
    definition: &WorkflowDefinition,
    cards: &ReadCards,
) -> Result<Vec<(String, Vec<BoardCard>)>, Fault> {
    let states: HashMap<String, usize> =
        definition.states.iter().enumerate().map(|(column, state)| (fold_label(&state.name), column)).collect();
    let mut blockers = BlockerCheck::new(&space.vfs, index);
    let mut sorted: Vec<(usize, &ReadCard)> = Vec::with_capacity(cards.len());
    for card in cards.values() {
        let column = states.get(&card.state).copied().unwrap_or(states.len());
        let is_terminal = definition.states.get(column).is_some_and(|state| state.terminal);
        blockers.insert(card.path().clone(), !card.has_failed && (is_terminal || card.is_finished));
        sorted.push((column, card));
    }
    sorted.sort_unstable_by(|(a_column, a), (b_column, b)| {
        a_column.cmp(b_column).then_with(|| a.ordinal.total_cmp(&b.ordinal)).then_with(|| a.path().cmp(b.path()))
    });
    let mut columns: Vec<(String, Vec<BoardCard>)> =
        definition.states.iter().map(|state| (state.name.clone(), Vec::new())).collect();
    for (column, card) in sorted {
        let unfinished = match &card.blockers {
            Some(names) => blockers.unfinished(card.path(), names)?,
            None => Vec::new(),
        };
        let card = if unfinished.is_empty() { card.unblocked.clone() } else { card.blocked(unfinished)? };
        if column == columns.len() {
            columns.push((UNMATCHED.to_owned(), Vec::new()));
        }
        columns[column].1.push(card);
    }
    Ok(columns)
}
