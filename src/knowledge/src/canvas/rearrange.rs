//! New positions for the nodes of an existing canvas.
//!
//! Invariant: a group stays around the nodes that are in it. Its content is arranged first; the
//! group gets the size of it, and is then arranged as one node among its neighbours.

use std::collections::HashMap;

use serde_json::{Map, Value};
use svcfs_base::{Fault, Kind};
use svcfs_text::canvas::{Canvas, CanvasEditor, Element, ListKind};

use super::layout::{CanvasLayout, NodeSize, Point, arrange};
use super::{MAX_ARRANGED_EDGES, MAX_ARRANGED_NODES};

/// Size of a node without one, and of generated ones.
pub(super) const DEFAULT_SIZE: NodeSize = NodeSize { width: 250.0, height: 60.0 };

/// Limit of sizes and coordinates; larger ones count as absent.
const MAX_COORDINATE: f64 = 1e9;

/// Space between a group and its content.
const GROUP_PADDING: f64 = 40.0;

/// A node as it is before.
struct OldNode {
    id: String,
    corner: Option<Point>,
    size: NodeSize,
    is_group: bool,
}

/// The text of a canvas with arranged nodes.
///
/// # Errors
/// `Invalid` for too many nodes or edges, and for nodes without an id or with the same one.
pub(super) fn rearrange(canvas: &Canvas<'_>, layout: CanvasLayout) -> Result<String, Fault> {
    check_limits(canvas.nodes().len(), canvas.edges().len())?;
    let nodes: Vec<OldNode> = canvas.nodes().iter().map(old_node).collect();
    let mut numbers = HashMap::new();
    for (number, node) in nodes.iter().enumerate() {
        if node.id.is_empty() || numbers.insert(node.id.clone(), number).is_some() {
            let id = svcfs_base::escape_unprintable(&node.id);
            let message = format!("nodes[{number}] has the id `{id}`; every node needs an id of its own");
            return Err(Fault::invalid("path", message));
        }
    }
    let number = |edge: &Element<'_>, end: &str| numbers.get(&edge.text_of(end)?).copied();
    let edges = canvas.edges().iter().filter_map(|edge| Some((number(edge, "fromNode")?, number(edge, "toNode")?)));
    let (corners, sizes) = arrange_with_groups(&nodes, &edges.collect::<Vec<_>>(), layout);
    let mut editor = CanvasEditor::new(canvas);
    for ((node, corner), size) in nodes.iter().zip(corners).zip(sizes) {
        let mut members = Map::from_iter([("x".to_owned(), integer(corner.x)), ("y".to_owned(), integer(corner.y))]);
        if size != node.size {
            members.insert("width".to_owned(), integer(size.width));
            members.insert("height".to_owned(), integer(size.height));
        }
        editor
            .update(ListKind::Nodes, &node.id, members)
            .map_err(|error| Fault::invalid("path", format_args!("the node `{}`: {error}", node.id)))?;
    }
    Ok(editor.into_text())
}

/// Checks that a graph is not too large to be arranged.
pub(super) fn check_limits(nodes: usize, edges: usize) -> Result<(), Fault> {
    for (count, limit, what) in [(nodes, MAX_ARRANGED_NODES, "nodes"), (edges, MAX_ARRANGED_EDGES, "edges")] {
        if count > limit {
            let message = format!(
                "{count} {what} are too many to arrange; the limit is {limit}. Choose a folder, or split the canvas"
            );
            return Err(Fault::new(Kind::Invalid, message));
        }
    }
    Ok(())
}

/// A coordinate as Obsidian writes it.
pub(super) fn integer(coordinate: f64) -> Value {
    Value::from(coordinate.round() as i64)
}

fn old_node(node: &Element<'_>) -> OldNode {
    let number = |name| node.number_of(name).filter(|number| number.abs() <= MAX_COORDINATE);
    let length = |name, default| number(name).filter(|length| *length >= 1.0).unwrap_or(default);
    OldNode {
        id: node.id().unwrap_or_default(),
        corner: number("x").zip(number("y")).map(|(x, y)| Point { x, y }),
        size: NodeSize { width: length("width", DEFAULT_SIZE.width), height: length("height", DEFAULT_SIZE.height) },
        is_group: node.text_of("type").as_deref() == Some("group"),
    }
}

/// The smallest group that contains each node, and the groups, smallest first.
fn groups_of(nodes: &[OldNode]) -> (Vec<Option<usize>>, Vec<usize>) {
    let area = |node: usize| nodes[node].size.width * nodes[node].size.height;
    let mut groups: Vec<usize> = (0..nodes.len()).filter(|node| nodes[*node].is_group).collect();
    groups.sort_by(|a, b| area(*a).total_cmp(&area(*b)).then(a.cmp(b)));
    let contains = |group: usize, node: usize| {
        let (Some(outer), Some(inner)) = (nodes[group].corner, nodes[node].corner) else { return false };
        let (outer_size, inner_size) = (nodes[group].size, nodes[node].size);
        outer.x <= inner.x
            && outer.y <= inner.y
            && inner.x + inner_size.width <= outer.x + outer_size.width
            && inner.y + inner_size.height <= outer.y + outer_size.height
    };
    let group_of = |node: usize| {
        // A group is only in a later one of this order, so that none contains itself.
        let own = groups.iter().position(|group| *group == node).map_or(0, |position| position + 1);
        groups[own..].iter().copied().find(|group| contains(*group, node))
    };
    let parents = (0..nodes.len()).map(group_of).collect();
    (parents, groups)
}

/// The new corners and sizes of all nodes.
fn arrange_with_groups(
    nodes: &[OldNode],
    edges: &[(usize, usize)],
    layout: CanvasLayout,
) -> (Vec<Point>, Vec<NodeSize>) {
    let (parents, mut order) = groups_of(nodes);
    // The content of each group; that of none last.
    let outside = nodes.len();
    let mut contents = vec![Vec::new(); nodes.len() + 1];
    let mut places = vec![0; nodes.len()];
    for (node, parent) in parents.iter().enumerate() {
        let content = &mut contents[parent.unwrap_or(outside)];
        places[node] = content.len();
        content.push(node);
    }
    // An edge between contents of different groups counts as one between these groups.
    let ancestors = |node: usize| std::iter::successors(Some(node), |node| parents[*node]).collect::<Vec<_>>();
    let mut edges_in = vec![Vec::new(); nodes.len() + 1];
    for (from, to) in edges {
        let (from, to) = (ancestors(*from), ancestors(*to));
        let common = from.iter().rev().zip(to.iter().rev()).take_while(|(a, b)| a == b).count();
        if let (Some(from), Some(to)) = (from.iter().rev().nth(common), to.iter().rev().nth(common)) {
            edges_in[parents[*from].unwrap_or(outside)].push((places[*from], places[*to]));
        }
    }
    let mut sizes: Vec<NodeSize> = nodes.iter().map(|node| node.size).collect();
    let mut offsets = vec![Point::default(); nodes.len()];
    order.retain(|group| !contents[*group].is_empty());
    for group in order.iter().copied().chain([outside]) {
        let content = &contents[group];
        let content_sizes: Vec<NodeSize> = content.iter().map(|node| sizes[*node]).collect();
        let corners = arrange(layout, &content_sizes, &edges_in[group]);
        let (mut right, mut bottom) = (0.0_f64, 0.0_f64);
        for (node, corner) in content.iter().zip(corners) {
            offsets[*node] = corner;
            right = right.max(corner.x + sizes[*node].width);
            bottom = bottom.max(corner.y + sizes[*node].height);
        }
        if let Some(size) = sizes.get_mut(group) {
            *size = NodeSize {
                width: (right + 2.0 * GROUP_PADDING).round(),
                height: (bottom + 2.0 * GROUP_PADDING).round(),
            };
        }
    }
    // From the outermost group inwards; the canvas stays where it was.
    let olds = || nodes.iter().filter_map(|node| node.corner);
    let origin = match olds().next() {
        Some(_) => Point {
            x: olds().map(|corner| corner.x).fold(f64::INFINITY, f64::min),
            y: olds().map(|corner| corner.y).fold(f64::INFINITY, f64::min),
        },
        None => Point::default(),
    };
    let mut corners = offsets;
    let shift = |corner: &mut Point, by: Point| (corner.x, corner.y) = (corner.x + by.x, corner.y + by.y);
    contents[outside].iter().for_each(|node| shift(&mut corners[*node], origin));
    for group in order.into_iter().rev() {
        let Point { x, y } = corners[group];
        let inner = Point { x: x + GROUP_PADDING, y: y + GROUP_PADDING };
        contents[group].iter().for_each(|node| shift(&mut corners[*node], inner));
    }
    (corners, sizes)
}
