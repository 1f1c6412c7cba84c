//! Application of the operations of `PATCH /canvas`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svcfs_base::{Fault, escape_unprintable};
use svcfs_text::canvas::{Canvas, CanvasEditor, ListKind};

/// One change of a canvas.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CanvasOperation {
    /// `add_node`, `update_node`, `remove_node`, `add_edge`, `update_edge` or `remove_edge`
    pub op: String,
    /// Id of the node or edge to update or to remove
    #[serde(default)]
    pub id: Option<String>,
    /// The node to add, with a new `id`; or the members to set, the others stay
    #[serde(default)]
    pub node: Option<Map<String, Value>>,
    /// The edge to add, with a new `id`; or the members to set, the others stay
    #[serde(default)]
    pub edge: Option<Map<String, Value>>,
}

/// Number of changed nodes and edges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AppliedEdits {
    /// Added nodes
    pub nodes_added: usize,
    /// Updated nodes
    pub nodes_updated: usize,
    /// Removed nodes
    pub nodes_removed: usize,
    /// Added edges
    pub edges_added: usize,
    /// Updated edges
    pub edges_updated: usize,
    /// Removed edges, also those that were removed with a node
    pub edges_removed: usize,
}

/// The text of a canvas after these operations: all of them or none.
///
/// # Errors
/// `Rejected` with the first operation that cannot be applied.
pub(super) fn apply(canvas: &Canvas<'_>, operations: &[CanvasOperation]) -> Result<(String, AppliedEdits), Fault> {
    let mut editor = CanvasEditor::new(canvas);
    for (index, operation) in operations.iter().enumerate() {
        apply_one(&mut editor, operation).map_err(|reason| {
            Fault::rejected(format!("op {index} ({}): {reason}", escape_unprintable(&operation.op)))
        })?;
    }
    let (nodes, edges) = editor.counts();
    let applied = AppliedEdits {
        nodes_added: nodes.added,
        nodes_updated: nodes.updated,
        nodes_removed: nodes.removed,
        edges_added: edges.added,
        edges_updated: edges.updated,
        edges_removed: edges.removed,
    };
    Ok((editor.into_text(), applied))
}

fn apply_one(editor: &mut CanvasEditor<'_>, operation: &CanvasOperation) -> Result<(), String> {
    let (action, list) = match operation.op.split_once('_') {
        Some((action @ ("add" | "update" | "remove"), "node")) => (action, ListKind::Nodes),
        Some((action @ ("add" | "update" | "remove"), "edge")) => (action, ListKind::Edges),
        _ => {
            let known = "`add_node`, `update_node`, `remove_node`, `add_edge`, `update_edge` or `remove_edge`";
            return Err(format!("unknown operation; use {known}"));
        }
    };
    let (name, element) = match list {
        ListKind::Nodes => ("node", &operation.node),
        ListKind::Edges => ("edge", &operation.edge),
    };
    let id = || operation.id.as_deref().filter(|id| !id.is_empty()).ok_or_else(|| "`id` is required".to_owned());
    let element = || element.clone().ok_or_else(|| format!("`{name}` is required and must be an object"));
    let outcome = match action {
        "add" => editor.add(list, element()?),
        "update" => editor.update(list, id()?, element()?),
        _ => editor.remove(list, id()?),
    };
    outcome.map_err(|error| error.to_string())
}
