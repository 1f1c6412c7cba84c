//! The board of a workflow: its pages by state, from the index.

use std::borrow::Cow;
use std::collections::HashMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use svcfs_base::{Fault, Timestamp, TreePath, fold_label};
use svcfs_index::WorkflowPage;

use super::blockers::says_finished;
use super::{BlockerCheck, UNMATCHED, WorkflowDefinition, blocker_names, read_definition};
use crate::kernel::OperationContext;

/// Limit of the description of a card, in characters.
const MAX_DESCRIPTION: usize = 120;

/// Limit of the blockers that a card names.
const MAX_NAMED_BLOCKERS: usize = 5;

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

/// A page on a board.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BoardCard {
    /// Path of the page
    pub path: TreePath,
    /// Its state, as written
    pub state: String,
    /// Its title
    pub title: String,
    /// Its priority, as written
    #[serde(skip_serializing_if = "Value::is_null")]
    pub priority: Value,
    /// Its `tags`, or `labels`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its `due` or `due_date`, as written
    #[serde(skip_serializing_if = "Value::is_null")]
    pub due: Value,
    /// Its `author`, as written
    #[serde(skip_serializing_if = "Value::is_null")]
    pub author: Value,
    /// Its `assignee`, as written
    #[serde(skip_serializing_if = "Value::is_null")]
    pub assignee: Value,
    /// Its position in the column
    #[serde(skip_serializing_if = "Value::is_null")]
    pub ordinal: Value,
    /// Whether it waits for pages that are not finished
    pub blocked: bool,
    /// For which pages it waits
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_reason: Option<String>,
    /// Its `depends_on` and `blocked_by`, as written
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// Its `description`, or the beginning of its text; at most 120 characters
    pub description: String,
    /// Time of its last change
    pub modified: Timestamp,
}

/// The keys of a page's frontmatter that a board shows; the others are not parsed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CardFields {
    workflow: Value,
    state: Value,
    status: Value,
    priority: Value,
    tags: Value,
    labels: Value,
    due: Value,
    due_date: Value,
    author: Value,
    assignee: Value,
    ordinal: Value,
    depends_on: Value,
    blocked_by: Value,
    description: Value,
}

/// A card and what is needed to sort it and to find its blockers.
struct UnsortedCard {
    card: BoardCard,
    /// Index of its column.
    column: usize,
    ordinal: f64,
    blockers: Option<Value>,
}

/// The board of a workflow with the pages that the caller may see, at most `limit` in each state.
///
/// # Errors
/// `NotFound` if there is no such workflow; `Invalid` for a bad definition; those of the index.
pub fn read_board(cx: &OperationContext<'_>, name: &str, limit: Option<usize>) -> Result<WorkflowBoard, Fault> {
    let workflow = read_definition(&cx.space.vfs, name)?;
    let index = cx.index();
    let pages = index.workflow_pages(name, None)?;
    let columns: HashMap<String, usize> =
        workflow.states.iter().enumerate().map(|(column, state)| (fold_label(&state.name), column)).collect();
    let mut blockers = BlockerCheck::new(&cx.space.vfs, index);
    let mut cards: Vec<UnsortedCard> = Vec::with_capacity(pages.len());
    for page in pages.into_iter().filter(|page| cx.caller.permissions.covers(&page.path)) {
        let Some((card, status)) = card_of(page, name, &columns) else { continue };
        let is_terminal = workflow.states.get(card.column).is_some_and(|state| state.terminal);
        let is_finished = is_terminal || says_finished(&card.card.state) || status.as_str().is_some_and(says_finished);
        blockers.insert(card.card.path.clone(), is_finished);
        cards.push(card);
    }
    for card in &mut cards {
        let Some(names) = card.blockers.take() else { continue };
        let unfinished = blockers.unfinished(&card.card.path, &names)?;
        card.card.blocked = !unfinished.is_empty();
        card.card.block_reason = block_reason(&unfinished);
    }
    cards.sort_by(|a, b| a.column.cmp(&b.column).then_with(|| a.ordinal.total_cmp(&b.ordinal)));
    let mut columns: Vec<(String, Vec<BoardCard>)> =
        workflow.states.iter().map(|state| (state.name.clone(), Vec::new())).collect();
    if cards.last().is_some_and(|card| card.column == columns.len()) {
        columns.push((UNMATCHED.to_owned(), Vec::new()));
    }
    for card in cards {
        columns[card.column].1.push(card.card);
    }
    let counts = columns.iter().map(|(name, cards)| (name.clone(), cards.len())).collect();
    if let Some(limit) = limit {
        columns.iter_mut().for_each(|(_, cards)| cards.truncate(limit));
    }
    Ok(WorkflowBoard { workflow, board: BoardColumns(columns), counts: StateCounts(counts) })
}

/// The card of a page and its status; none if it is in another workflow.
fn card_of(page: WorkflowPage, workflow: &str, columns: &HashMap<String, usize>) -> Option<(UnsortedCard, Value)> {
    let WorkflowPage { path, title, excerpt, modified, frontmatter } = page;
    let fields: CardFields = serde_json::from_str(&frontmatter).ok()?;
    if fields.workflow != workflow {
        return None;
    }
    let state = text(fields.state);
    let column = columns.get(&fold_label(&state)).copied().unwrap_or(columns.len());
    let ordinal = fields.ordinal.as_f64().unwrap_or(f64::INFINITY);
    let has_blockers = !fields.depends_on.is_null() || !fields.blocked_by.is_null();
    let blockers =
        has_blockers.then(|| serde_json::json!({ "depends_on": fields.depends_on, "blocked_by": fields.blocked_by }));
    let description = match fields.description {
        Value::String(text) if !text.trim().is_empty() => text,
        _ => excerpt,
    };
    let card = BoardCard {
        state,
        title,
        priority: fields.priority,
        tags: list(if fields.tags.is_null() { fields.labels } else { fields.tags }),
        due: if fields.due.is_null() { fields.due_date } else { fields.due },
        author: fields.author,
        assignee: fields.assignee,
        ordinal: if ordinal.is_finite() { fields.ordinal } else { Value::Null },
        blocked: false,
        block_reason: None,
        depends_on: blockers.as_ref().map(blocker_names).unwrap_or_default(),
        description: cut(description),
        modified,
        path,
    };
    Some((UnsortedCard { card, column, ordinal, blockers }, fields.status))
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn list(value: Value) -> Vec<String> {
    match value {
        Value::String(text) => text.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect(),
        Value::Array(items) => items.into_iter().map(text).filter(|tag| !tag.is_empty()).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

fn cut(mut description: String) -> String {
    if let Some((end, _)) = description.char_indices().nth(MAX_DESCRIPTION) {
        description.truncate(end);
    }
    description
}

fn block_reason(unfinished: &[TreePath]) -> Option<String> {
    let names: Vec<&str> = unfinished.iter().take(MAX_NAMED_BLOCKERS).map(TreePath::as_str).collect();
    match unfinished.len() - names.len() {
        _ if names.is_empty() => None,
        0 => Some(format!("waits for {}", names.join(", "))),
        more => Some(format!("waits for {} and {more} more", names.join(", "))),
    }
}
