//! Canvases of the link graph.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use svcfs_base::{Fault, TreePath};
use svcfs_index::{GraphNode, LinkGraph};
use svcfs_text::canvas::{Canvas, CanvasEditor, EMPTY_CANVAS, ListKind};

use super::layout::{CanvasLayout, arrange};
use super::rearrange::{DEFAULT_SIZE, check_limits, integer};
use crate::graph::GraphAnalysis;

/// Colours of communities.
const COLORS: [&str; 12] = [
    "#4A90D9", "#E67E22", "#2ECC71", "#9B59B6", "#E74C3C", "#1ABC9C", "#F39C12", "#3498DB", "#E91E63", "#00BCD4",
    "#8BC34A", "#FF9800",
];

/// A canvas of the link graph.
pub(super) struct GeneratedCanvas {
    pub text: String,
    pub node_count: usize,
    pub edge_count: usize,
}

/// The canvas with the linked pages below a folder and the links between them.
///
/// # Errors
/// `Invalid` if these are too many.
pub(super) fn generate(
    analysis: &GraphAnalysis,
    folder: &TreePath,
    layout: CanvasLayout,
    is_colored: bool,
) -> Result<GeneratedCanvas, Fault> {
    let graph = analysis.graph();
    let (pages, edges) = linked_pages(graph, folder);
    check_limits(pages.len(), edges.len())?;
    let positions = arrange(layout, &vec![DEFAULT_SIZE; pages.len()], &edges);
    let colors = if is_colored { community_colors(analysis) } else { Vec::new() };
    let empty = Canvas::parse(EMPTY_CANVAS).map_err(Fault::internal)?;
    let mut editor = CanvasEditor::new(&empty);
    let ids = node_ids(graph, &pages);
    for ((page, id), position) in pages.iter().zip(&ids).zip(positions) {
        let mut node = Map::from_iter([
            ("id".to_owned(), json!(id)),
            ("type".to_owned(), json!("file")),
            ("file".to_owned(), json!(graph.page(*page).path)),
            ("x".to_owned(), integer(position.x)),
            ("y".to_owned(), integer(position.y)),
            ("width".to_owned(), integer(DEFAULT_SIZE.width)),
            ("height".to_owned(), integer(DEFAULT_SIZE.height)),
        ]);
        if let Some(color) = colors.get(*page as usize) {
            node.insert("color".to_owned(), Value::from(*color));
        }
        editor.add(ListKind::Nodes, node).map_err(Fault::internal)?;
    }
    for (index, (from, to)) in edges.iter().enumerate() {
        let edge = json!({ "id": format!("edge-{index}"), "fromNode": ids[*from], "toNode": ids[*to] });
        let Value::Object(edge) = edge else { continue };
        editor.add(ListKind::Edges, edge).map_err(Fault::internal)?;
    }
    Ok(GeneratedCanvas { text: editor.into_text(), node_count: pages.len(), edge_count: edges.len() })
}

/// The pages below a folder that have a link from or to another one there, in path order, and
/// these links as pairs of their numbers.
fn linked_pages(graph: &LinkGraph, folder: &TreePath) -> (Vec<GraphNode>, Vec<(usize, usize)>) {
    let below = if folder.is_root() { graph.nodes() } else { graph.nodes_below(folder) };
    let links = |page: GraphNode| graph.links_out(page).iter().map(move |target| (page, *target));
    let is_drawn = |(page, target): &(GraphNode, GraphNode)| page != target && below.contains(target);
    let links: Vec<(GraphNode, GraphNode)> = below.clone().flat_map(links).filter(is_drawn).collect();
    let mut pages: Vec<GraphNode> = links.iter().flat_map(|(from, to)| [*from, *to]).collect();
    pages.sort_unstable();
    pages.dedup();
    let number = |page: &GraphNode| pages.binary_search(page).unwrap_or_default();
    let edges = links.iter().map(|(from, to)| (number(from), number(to))).collect();
    (pages, edges)
}

/// The colour of each page of the graph: that of its community.
fn community_colors(analysis: &GraphAnalysis) -> Vec<&'static str> {
    let mut colors = vec![COLORS[0]; analysis.graph().len()];
    for (community, color) in analysis.communities().zip(COLORS.iter().cycle()) {
        for page in community {
            colors[*page as usize] = color;
        }
    }
    colors
}

/// An id for each page, made of its path.
fn node_ids(graph: &LinkGraph, pages: &[GraphNode]) -> Vec<String> {
    let mut used = HashSet::new();
    let id = |page: &GraphNode| {
        let base = graph.page(*page).path.as_str().replace(['/', '.', ' '], "-");
        let (mut id, mut number) = (base.clone(), 1);
        while !used.insert(id.clone()) {
            number += 1;
            id = format!("{base}-{number}");
        }
        id
    };
    pages.iter().map(id).collect()
}
