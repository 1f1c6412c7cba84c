//! Edits of the nodes and edges of a canvas.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::{Map, Value};

use super::{Canvas, CanvasError, EMPTY_CANVAS, Element, ElementList, Members, check_element};
use crate::replace::replace_ranges;

/// An array of a canvas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// `nodes`
    Nodes,
    /// `edges`
    Edges,
}

impl ListKind {
    const fn element_name(self) -> &'static str {
        match self {
            Self::Nodes => "node",
            Self::Edges => "edge",
        }
    }
}

/// The number of elements that an edit added, changed and removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EditCounts {
    /// Added elements.
    pub added: usize,
    /// Changed elements.
    pub updated: usize,
    /// Removed elements.
    pub removed: usize,
}

/// A sequence of edits of a canvas, each of which sees the previous ones.
#[derive(Debug)]
pub struct CanvasEditor<'a> {
    canvas: &'a Canvas<'a>,
    nodes: EditedList,
    edges: EditedList,
    /// The edges that have, or had, an end at each node.
    edges_of: HashMap<String, Vec<usize>>,
}

/// An array with edits. Its slots are the elements of the document, then the added ones.
#[derive(Debug, Default)]
struct EditedList {
    slots: Vec<Slot>,
    /// The slots with each id: more than one if the document uses an id twice.
    by_id: HashMap<String, Vec<usize>>,
    counts: EditCounts,
}

#[derive(Debug, Default, Clone)]
struct Slot {
    is_removed: bool,
    /// The members to set; all members of an added element.
    changes: Map<String, Value>,
}

impl EditedList {
    fn new(list: &ElementList<'_>) -> Self {
        let mut edited = Self { slots: vec![Slot::default(); list.elements.len()], ..Self::default() };
        for (slot, element) in list.elements.iter().enumerate() {
            if let Some(id) = element.id() {
                edited.by_id.entry(id).or_default().push(slot);
            }
        }
        edited
    }

    fn find(&self, kind: ListKind, id: &str) -> Result<usize, CanvasError> {
        match self.by_id.get(id).map(Vec::as_slice) {
            None | Some([]) => Err(CanvasError(format!("there is no {} `{id}`", kind.element_name()))),
            Some([slot]) => Ok(*slot),
            Some(_) => Err(CanvasError(format!("the canvas has several {}s with the id `{id}`", kind.element_name()))),
        }
    }

    fn remove(&mut self, slot: usize, id: &str) {
        self.slots[slot].is_removed = true;
        self.counts.removed += 1;
        if let Some(slots) = self.by_id.get_mut(id) {
            slots.retain(|other| *other != slot);
        }
    }
}

impl<'a> CanvasEditor<'a> {
    /// Edits of this canvas.
    #[must_use]
    pub fn new(canvas: &'a Canvas<'a>) -> Self {
        let (nodes, edges) = (EditedList::new(&canvas.nodes), EditedList::new(&canvas.edges));
        let mut edges_of: HashMap<String, Vec<usize>> = HashMap::new();
        for (slot, edge) in canvas.edges.elements.iter().enumerate() {
            for end in ["fromNode", "toNode"].into_iter().filter_map(|end| edge.text_of(end)) {
                edges_of.entry(end).or_default().push(slot);
            }
        }
        Self { canvas, nodes, edges, edges_of }
    }

    /// The counts of the edits of nodes and of edges.
    #[must_use]
    pub fn counts(&self) -> (EditCounts, EditCounts) {
        (self.nodes.counts, self.edges.counts)
    }

    /// Adds an element with a new id. Both ends of an edge must exist.
    ///
    /// # Errors
    /// [`CanvasError`] with the reason.
    pub fn add(&mut self, kind: ListKind, element: Map<String, Value>) -> Result<(), CanvasError> {
        let value = Value::Object(element);
        check_element(kind == ListKind::Nodes, &value)?;
        let Value::Object(element) = value else { return Ok(()) };
        let id = text_member(&element, "id").unwrap_or_default().to_owned();
        if self.list(kind).by_id.get(&id).is_some_and(|slots| !slots.is_empty()) {
            return Err(CanvasError(format!("the id `{id}` is already used by another {}", kind.element_name())));
        }
        let slot = self.list(kind).slots.len();
        self.connect(kind, slot, &element)?;
        let list = self.list_mut(kind);
        list.slots.push(Slot { is_removed: false, changes: element });
        list.by_id.entry(id).or_default().push(slot);
        list.counts.added += 1;
        Ok(())
    }

    /// Sets members of an element; other members stay.
    ///
    /// # Errors
    /// [`CanvasError`] with the reason, also for another `id`.
    pub fn update(&mut self, kind: ListKind, id: &str, members: Map<String, Value>) -> Result<(), CanvasError> {
        let slot = self.list(kind).find(kind, id)?;
        if members.get("id").is_some_and(|new| new != id) {
            return Err(CanvasError("the id cannot be changed; remove the element and add another one".to_owned()));
        }
        // The required members may be absent here, so they are checked with those of the element.
        let mut checked = Map::from_iter([("id".to_owned(), Value::from(id))]);
        if kind == ListKind::Edges {
            checked.extend(["fromNode", "toNode"].map(|end| (end.to_owned(), Value::from("-"))));
        }
        checked.extend(members.clone());
        check_element(kind == ListKind::Nodes, &Value::Object(checked))?;
        self.connect(kind, slot, &members)?;
        let list = self.list_mut(kind);
        list.slots[slot].changes.extend(members);
        list.counts.updated += 1;
        Ok(())
    }

    /// Removes an element, and with a node its edges.
    ///
    /// # Errors
    /// [`CanvasError`] if there is none with this id, or several.
    pub fn remove(&mut self, kind: ListKind, id: &str) -> Result<(), CanvasError> {
        let slot = self.list(kind).find(kind, id)?;
        self.list_mut(kind).remove(slot, id);
        if kind == ListKind::Edges {
            return Ok(());
        }
        for edge in self.edges_of.remove(id).unwrap_or_default() {
            let has_end =
                ["fromNode", "toNode"].into_iter().any(|end| self.edge_text(edge, end).as_deref() == Some(id));
            if has_end && !self.edges.slots[edge].is_removed {
                let edge_id = self.edge_text(edge, "id").unwrap_or_default();
                self.edges.remove(edge, &edge_id);
            }
        }
        Ok(())
    }

    /// The new text of the document.
    #[must_use]
    pub fn into_text(self) -> String {
        let base = Canvas::parse(EMPTY_CANVAS);
        let is_blank = self.canvas.nodes.range.is_none() && self.canvas.edges.range.is_none();
        let mut replacements = Vec::new();
        let (text, lists) = match &base {
            // A document without arrays and other members gets the form of a new one.
            Ok(empty) if is_blank && self.canvas.members.0.is_empty() => {
                (EMPTY_CANVAS, [(&empty.nodes, &self.nodes, "nodes"), (&empty.edges, &self.edges, "edges")])
            }
            _ => (
                self.canvas.text,
                [(&self.canvas.nodes, &self.nodes, "nodes"), (&self.canvas.edges, &self.edges, "edges")],
            ),
        };
        for (list, edited, name) in lists {
            match &list.range {
                Some(range) if edited.slots.iter().any(Slot::is_edited) => {
                    replacements.push((range.clone(), render_list(text, list, range, edited)));
                }
                None if !edited.slots.is_empty() => {
                    let end = self.canvas.members.0.iter().map(|member| member.range.end).max().unwrap_or_default();
                    let elements = edited.slots.iter().filter(|slot| !slot.is_removed).map(Slot::to_json);
                    let elements = elements.collect::<Vec<_>>().join(",");
                    replacements.push((end..end, format!(",\"{name}\":[{elements}]")));
                }
                Some(_) | None => {}
            }
        }
        replacements.sort_by_key(|(range, _)| range.start);
        replace_ranges(text, replacements)
    }

    const fn list(&self, kind: ListKind) -> &EditedList {
        match kind {
            ListKind::Nodes => &self.nodes,
            ListKind::Edges => &self.edges,
        }
    }

    const fn list_mut(&mut self, kind: ListKind) -> &mut EditedList {
        match kind {
            ListKind::Nodes => &mut self.nodes,
            ListKind::Edges => &mut self.edges,
        }
    }

    /// Checks that the ends of an edge exist, and records the edge for them.
    fn connect(&mut self, kind: ListKind, slot: usize, members: &Map<String, Value>) -> Result<(), CanvasError> {
        if kind == ListKind::Nodes {
            return Ok(());
        }
        let ends = || ["fromNode", "toNode"].into_iter().filter_map(|end| Some((end, text_member(members, end)?)));
        for (end, id) in ends() {
            if self.nodes.by_id.get(id).is_none_or(Vec::is_empty) {
                return Err(CanvasError(format!("`{end}` is `{id}`, but there is no such node")));
            }
        }
        for (_, id) in ends() {
            self.edges_of.entry(id.to_owned()).or_default().push(slot);
        }
        Ok(())
    }

    fn edge_text(&self, slot: usize, name: &str) -> Option<String> {
        match text_member(&self.edges.slots[slot].changes, name) {
            Some(text) => Some(text.to_owned()),
            None => self.canvas.edges.elements.get(slot)?.text_of(name),
        }
    }
}

fn text_member<'m>(members: &'m Map<String, Value>, name: &str) -> Option<&'m str> {
    members.get(name)?.as_str()
}

impl Slot {
    fn is_edited(&self) -> bool {
        self.is_removed || !self.changes.is_empty()
    }

    fn to_json(&self) -> String {
        serde_json::to_string(&self.changes).unwrap_or_default()
    }
}

/// An array with its edits: separators and indentation are those of the other elements.
fn render_list(text: &str, list: &ElementList<'_>, range: &Range<usize>, edited: &EditedList) -> String {
    let originals = &list.elements;
    let (opening, closing, separator) = match (originals.first(), originals.last()) {
        (Some(first), Some(last)) => {
            let opening = &text[range.start..first.range.start];
            let separator = match originals.len() {
                1 => format!(",{}", &opening[1..]),
                count => text[originals[count - 2].range.end..last.range.start].to_owned(),
            };
            (opening.to_owned(), text[last.range.end..range.end].to_owned(), separator)
        }
        _ => empty_list_style(text, range),
    };
    let mut rendered = String::new();
    let mut last_original: Option<usize> = None;
    for (slot, edit) in edited.slots.iter().enumerate().filter(|(_, edit)| !edit.is_removed) {
        if !rendered.is_empty() {
            match last_original.filter(|last| slot < originals.len() && *last + 1 == slot) {
                Some(last) => rendered.push_str(&text[originals[last].range.end..originals[slot].range.start]),
                None => rendered.push_str(&separator),
            }
        }
        match originals.get(slot) {
            Some(element) => {
                rendered.push_str(&render_element(text, element, &edit.changes));
                last_original = Some(slot);
            }
            None => rendered.push_str(&edit.to_json()),
        }
    }
    if rendered.is_empty() { "[]".to_owned() } else { [opening, rendered, closing].concat() }
}

/// Opening, closing and separator for the first elements of an array: one per line, if the document
/// has lines.
fn empty_list_style(text: &str, range: &Range<usize>) -> (String, String, String) {
    let line = text[..range.start].rsplit_once('\n').map(|(_, line)| line);
    let Some(line) = line else { return ("[".to_owned(), "]".to_owned(), ",".to_owned()) };
    let newline = if text[..range.start].contains("\r\n") { "\r\n" } else { "\n" };
    let indent: String = line.chars().take_while(|character| matches!(character, ' ' | '\t')).collect();
    let inner = format!("{newline}{indent}{}", if indent.is_empty() { "\t" } else { &indent });
    (format!("[{inner}"), format!("{newline}{indent}]"), format!(",{inner}"))
}

/// An element with changed members: a present one is replaced in place, a new one is appended.
fn render_element(text: &str, element: &Element<'_>, changes: &Map<String, Value>) -> String {
    let Members(members) = &element.members;
    let Some(last) = members.last().filter(|_| !changes.is_empty()) else {
        return if changes.is_empty() { element.raw.to_owned() } else { Value::from(changes.clone()).to_string() };
    };
    let offset = element.range.start;
    let (mut replacements, mut appended) = (Vec::new(), String::new());
    let style = members.len().checked_sub(2).map_or("", |before| &text[members[before].range.end..last.range.start]);
    let separator: String =
        style.chars().take_while(|character| matches!(character, ',' | ' ' | '\t' | '\r' | '\n')).collect();
    let separator = if separator.starts_with(',') { separator.as_str() } else { "," };
    let colon = if style.ends_with(": ") || text[offset..last.range.start].ends_with(": ") { ": " } else { ":" };
    for (name, value) in changes {
        match element.members.get(name) {
            Some(member) => {
                let is_same = serde_json::from_str::<Value>(member.raw).is_ok_and(|old| old == *value);
                if !is_same {
                    let range = member.range.start - offset..member.range.end - offset;
                    replacements.push((range, value.to_string()));
                }
            }
            None => appended.push_str(&format!("{separator}{}{colon}{value}", Value::from(name.as_str()))),
        }
    }
    let end = last.range.end - offset;
    replacements.push((end..end, appended));
    replacements.sort_by_key(|(range, _)| range.start);
    replace_ranges(element.raw, replacements)
}
