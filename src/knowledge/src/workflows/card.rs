//! A page on a board.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use svcfs_base::{Fault, Timestamp, TreePath, fold_label};
use svcfs_index::WorkflowPage;

use super::blocker_names;
use super::blockers::{says_failed, says_finished};

/// Limit of the description of a card, in characters.
const MAX_DESCRIPTION: usize = 120;

/// Limit of the blockers that a card names.
const MAX_NAMED_BLOCKERS: usize = 5;

/// A page on a board. Its JSON is written once, and again when the page or its blockers change.
#[derive(Debug, Clone)]
pub struct BoardCard {
    /// Path of the page
    pub path: TreePath,
    json: Arc<RawValue>,
}

impl BoardCard {
    /// The card without the paths of the pages it waits for, which a key of a folder may not see.
    pub(super) fn redact(&mut self) -> Result<(), Fault> {
        if !self.json.get().contains("\"block_reason\"") {
            return Ok(());
        }
        let mut members: Map<String, Value> = serde_json::from_str(self.json.get()).map_err(Fault::internal)?;
        if let Some(reason) = members.get_mut("block_reason") {
            *reason = "waits for other pages".into();
            self.json = serde_json::value::to_raw_value(&members).map_err(Fault::internal)?.into();
        }
        Ok(())
    }
}

impl Serialize for BoardCard {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl JsonSchema for BoardCard {
    fn schema_name() -> Cow<'static, str> {
        CardMembers::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        CardMembers::json_schema(generator)
    }
}

/// A page on a board
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "BoardCard")]
struct CardMembers {
    /// Path of the page
    path: TreePath,
    /// Its state, as written
    state: String,
    /// Its title
    title: String,
    /// Its priority, as written
    #[serde(skip_serializing_if = "Value::is_null")]
    priority: Value,
    /// Its `tags`, or `labels`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    /// Its `due` or `due_date`, as written
    #[serde(skip_serializing_if = "Value::is_null")]
    due: Value,
    /// Its `author`, as written
    #[serde(skip_serializing_if = "Value::is_null")]
    author: Value,
    /// Its `assignee`, as written
    #[serde(skip_serializing_if = "Value::is_null")]
    assignee: Value,
    /// Its position in the column
    #[serde(skip_serializing_if = "Value::is_null")]
    ordinal: Value,
    /// Whether it waits for pages that are not finished
    blocked: bool,
    /// For which pages it waits
    #[serde(skip_serializing_if = "Option::is_none")]
    block_reason: Option<String>,
    /// Its `depends_on` and `blocked_by`, as written
    #[serde(skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<String>,
    /// Its `description`, or the beginning of its text; at most 120 characters
    description: String,
    /// Time of its last change
    modified: Timestamp,
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

/// What is read of a page: its card, and what is needed to place it.
#[derive(Debug)]
pub(super) struct ReadCard {
    /// The state, folded.
    pub state: String,
    pub ordinal: f64,
    /// Whether its status or state says by itself that it is finished.
    pub is_finished: bool,
    /// Whether its status or state says that it has failed.
    pub has_failed: bool,
    /// The frontmatter keys with its blockers, if it has any.
    pub blockers: Option<Value>,
    /// The card of a page that waits for none.
    pub unblocked: BoardCard,
    members: CardMembers,
    /// The last card of the page with the pages it waited for.
    blocked: Mutex<Option<(Vec<TreePath>, BoardCard)>>,
}

impl ReadCard {
    /// Reads a page; none if it is in another workflow.
    pub(super) fn of(page: WorkflowPage, workflow: &str) -> Result<Option<Self>, Fault> {
        let WorkflowPage { path, title, excerpt, modified, frontmatter } = page;
        let Ok(fields) = serde_json::from_str::<CardFields>(&frontmatter) else { return Ok(None) };
        if fields.workflow != workflow {
            return Ok(None);
        }
        let state = text(fields.state);
        let is_finished = says_finished(&state) || fields.status.as_str().is_some_and(says_finished);
        let has_failed = says_failed(&state) || fields.status.as_str().is_some_and(says_failed);
        let ordinal = fields.ordinal.as_f64().unwrap_or(f64::INFINITY);
        let has_blockers = !fields.depends_on.is_null() || !fields.blocked_by.is_null();
        let blockers = has_blockers
            .then(|| serde_json::json!({ "depends_on": fields.depends_on, "blocked_by": fields.blocked_by }));
        let description = match fields.description {
            Value::String(text) if !text.trim().is_empty() => text,
            _ => excerpt,
        };
        let members = CardMembers {
            path,
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
            state,
        };
        let (state, unblocked) = (fold_label(&members.state), card(&members)?);
        let blocked = Mutex::default();
        Ok(Some(Self { state, ordinal, is_finished, has_failed, blockers, unblocked, members, blocked }))
    }

    pub(super) fn path(&self) -> &TreePath {
        &self.members.path
    }

    /// The card of a page that waits for others.
    pub(super) fn blocked(&self, unfinished: Vec<TreePath>) -> Result<BoardCard, Fault> {
        let mut last = self.blocked.lock();
        if let Some((_, card)) = last.as_ref().filter(|(pages, _)| *pages == unfinished) {
            return Ok(card.clone());
        }
        let block_reason = Some(block_reason(&unfinished));
        let card = card(&CardMembers { blocked: true, block_reason, ..self.members.clone() })?;
        *last = Some((unfinished, card.clone()));
        Ok(card)
    }
}

/// Cards by path; those of a page that did not change are shared.
pub(super) type ReadCards = HashMap<TreePath, Arc<ReadCard>>;

fn card(members: &CardMembers) -> Result<BoardCard, Fault> {
    let json = serde_json::value::to_raw_value(members).map_err(Fault::internal)?;
    Ok(BoardCard { path: members.path.clone(), json: json.into() })
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

fn block_reason(unfinished: &[TreePath]) -> String {
    let names: Vec<&str> = unfinished.iter().take(MAX_NAMED_BLOCKERS).map(TreePath::as_str).collect();
    match unfinished.len() - names.len() {
        0 => format!("waits for {}", names.join(", ")),
        more => format!("waits for {} and {more} more", names.join(", ")),
    }
}
