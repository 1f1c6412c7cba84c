//! Selection of nodes and edges of a canvas.

use std::collections::HashSet;

use serde_json::Value;
use svcfs_base::Fault;
use svcfs_text::canvas::{Canvas, Element};
use svcfs_text::fold::fold_name;

/// The conditions of `GET /canvas/query`.
#[derive(Debug, Default)]
pub(super) struct CanvasFilter {
    /// Text in a node or in the label of an edge.
    pub text: Option<String>,
    /// Type of nodes.
    pub node_type: Option<String>,
    /// Only this node and its neighbours.
    pub connected: Option<String>,
}

/// The matching nodes and edges.
#[derive(Debug, Default)]
pub(super) struct SelectedElements {
    pub nodes: Vec<Value>,
    pub edges: Vec<Value>,
    /// Ids of those that cannot be read, with the reason.
    pub unreadable: Vec<String>,
}

/// The nodes that match all conditions; the edges that match by id or label, or with an end at a
/// matching node.
///
/// # Errors
/// `NotFound` if `connected` is not the id of a node.
pub(super) fn select(canvas: &Canvas<'_>, filter: &CanvasFilter) -> Result<SelectedElements, Fault> {
    let text = filter.text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(fold_name);
    let (center, reachable) = match &filter.connected {
        None => (None, None),
        Some(id) => {
            if !canvas.nodes().iter().any(|node| node.id().as_ref() == Some(id)) {
                let id = svcfs_base::escape_unprintable(id);
                return Err(Fault::not_found(format!("node not found: there is no node `{id}` in the canvas")));
            }
            (Some(id.as_str()), Some(neighbors(canvas, id)))
        }
    };
    let mut selected = SelectedElements::default();
    let mut ids = HashSet::new();
    for node in canvas.nodes() {
        let id = node.id().unwrap_or_default();
        let is_reachable = reachable.as_ref().is_none_or(|reachable| reachable.contains(&id));
        let has_type = filter.node_type.as_ref().is_none_or(|wanted| node.text_of("type").as_ref() == Some(wanted));
        if !is_reachable || !has_type {
            continue;
        }
        let Some(value) = selected.value_of(node) else { continue };
        if text.as_ref().is_none_or(|text| node_matches(&value, text)) {
            ids.insert(id);
            selected.nodes.push(value);
        }
    }
    let is_filtered = text.is_some() || filter.node_type.is_some();
    for edge in canvas.edges() {
        let ends = ends(edge);
        let touches_center = center.is_none_or(|center| ends.iter().any(|end| end == center));
        let names = [edge.id(), edge.text_of("label")];
        let is_named = text
            .as_ref()
            .is_some_and(|text| names.iter().flatten().any(|name| fold_name(name).contains(text.as_ref())));
        if touches_center && (!is_filtered || is_named || ends.iter().any(|end| ids.contains(end))) {
            let value = selected.value_of(edge);
            selected.edges.extend(value);
        }
    }
    Ok(selected)
}

/// A node and those that an edge connects with it.
fn neighbors(canvas: &Canvas<'_>, id: &str) -> HashSet<String> {
    let mut neighbors = HashSet::from([id.to_owned()]);
    for edge in canvas.edges() {
        let ends = ends(edge);
        if ends.iter().any(|end| end == id) {
            neighbors.extend(ends);
        }
    }
    neighbors
}

fn ends(edge: &Element<'_>) -> Vec<String> {
    ["fromNode", "toNode"].into_iter().filter_map(|end| edge.text_of(end)).collect()
}

impl SelectedElements {
    /// The element as JSON; none for one that is nested too deep.
    fn value_of(&mut self, element: &Element<'_>) -> Option<Value> {
        let value = element.to_value();
        value
            .inspect_err(|error| {
                let id: String = element.id().unwrap_or_default().chars().take(40).collect();
                self.unreadable.push(format!("`{}` ({error})", svcfs_base::escape_unprintable(&id)));
            })
            .ok()
    }
}

/// Whether a text of the node, at its top or in `data`, contains `text`. Type, colour and sides
/// are no such texts.
fn node_matches(node: &Value, text: &str) -> bool {
    let Some(members) = node.as_object() else { return false };
    let contains = |value: &Value| value.as_str().is_some_and(|value| fold_name(value).contains(text));
    let own = members.iter().filter(|(name, _)| !matches!(name.as_str(), "type" | "color"));
    let data = members.get("data").and_then(Value::as_object);
    own.map(|(_, value)| value).chain(data.into_iter().flat_map(|data| data.values())).any(contains)
}
