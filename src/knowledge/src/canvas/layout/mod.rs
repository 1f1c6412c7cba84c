//! Positions of the nodes of a graph.
//!
//! Invariant: equal input gives equal positions, and no two nodes overlap. Each connected part is
//! laid out by itself; the parts are packed in rows.

mod circles;
mod force;
mod layers;
mod overlap;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;

/// Space between two nodes.
const NODE_GAP: f64 = 50.0;

/// Space between two parts of the graph.
const PART_GAP: f64 = 120.0;

/// Width of the drawing relative to its height.
const ASPECT_RATIO: f64 = 1.6;

/// How nodes are placed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CanvasLayout {
    /// In layers, from top to bottom.
    #[default]
    Hierarchical,
    /// On rings around the node with the most edges.
    Radial,
    /// As if edges were springs.
    Force,
    /// On a circle.
    Circular,
    /// The same as `hierarchical`.
    Dot,
    /// The same as `force`.
    Neato,
    /// The same as `force`.
    Fdp,
    /// The same as `circular`.
    Circo,
    /// The same as `radial`.
    Twopi,
}

/// Width and height of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NodeSize {
    pub width: f64,
    pub height: f64,
}

impl NodeSize {
    fn diagonal(self) -> f64 {
        self.width.hypot(self.height)
    }
}

/// A position: of a node's centre within this module, of its top left corner outside.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
}

/// A connected graph. Its nodes are numbers.
struct ConnectedGraph {
    sizes: Vec<NodeSize>,
    /// Edges between different nodes, each once, in their direction.
    edges: Vec<(usize, usize)>,
    /// The neighbours of each node in either direction, each once, in order.
    neighbors: Vec<Vec<usize>>,
}

impl ConnectedGraph {
    fn len(&self) -> usize {
        self.sizes.len()
    }

    /// The node with the most neighbours.
    fn hub(&self) -> usize {
        (0..self.len()).max_by_key(|node| (self.neighbors[*node].len(), Reverse(*node))).unwrap_or_default()
    }

    /// Every node with its parent in a breadth-first search from `root`, which has none.
    fn breadth_first(&self, root: usize) -> Vec<(usize, Option<usize>)> {
        let mut seen = vec![false; self.len()];
        let mut order = vec![(root, None)];
        seen[root] = true;
        let mut next = 0;
        while let Some((node, _)) = order.get(next).copied() {
            next += 1;
            for neighbor in &self.neighbors[node] {
                if !std::mem::replace(&mut seen[*neighbor], true) {
                    order.push((*neighbor, Some(node)));
                }
            }
        }
        order
    }
}

/// The top left corners of nodes with these sizes; `edges` are pairs of node numbers.
pub(super) fn arrange(layout: CanvasLayout, sizes: &[NodeSize], edges: &[(usize, usize)]) -> Vec<Point> {
    let mut parts: Vec<(Vec<usize>, Vec<Point>, NodeSize)> = split(sizes, edges)
        .into_iter()
        .map(|(nodes, graph)| {
            let centers = match layout {
                _ if graph.len() == 1 => vec![Point::default()],
                CanvasLayout::Hierarchical | CanvasLayout::Dot => layers::arrange(&graph),
                CanvasLayout::Radial | CanvasLayout::Twopi => circles::rings(&graph),
                CanvasLayout::Circular | CanvasLayout::Circo => circles::circle(&graph),
                CanvasLayout::Force | CanvasLayout::Neato | CanvasLayout::Fdp => force::arrange(&graph),
            };
            let (corners, size) = to_corners(&graph.sizes, centers);
            (nodes, corners, size)
        })
        .collect();
    parts.sort_by_key(|(nodes, ..)| Reverse(nodes.len()));
    let offsets = pack(&parts.iter().map(|(_, _, size)| *size).collect::<Vec<_>>());
    let mut positions = vec![Point::default(); sizes.len()];
    for ((nodes, corners, _), offset) in parts.iter().zip(offsets) {
        for (node, corner) in nodes.iter().zip(corners) {
            positions[*node] = Point { x: (corner.x + offset.x).round(), y: (corner.y + offset.y).round() };
        }
    }
    positions
}

/// The connected parts in the order of their first node, with the numbers of their nodes.
fn split(sizes: &[NodeSize], edges: &[(usize, usize)]) -> Vec<(Vec<usize>, ConnectedGraph)> {
    let edges: BTreeSet<(usize, usize)> = edges.iter().copied().filter(|(from, to)| from != to).collect();
    let mut neighbors = vec![Vec::new(); sizes.len()];
    for (from, to) in &edges {
        neighbors[*from].push(*to);
        if !edges.contains(&(*to, *from)) {
            neighbors[*to].push(*from);
        }
    }
    neighbors.iter_mut().for_each(|list| list.sort_unstable());
    // The part of each node, and its number in the part.
    let mut places: Vec<Option<(usize, usize)>> = vec![None; sizes.len()];
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for start in 0..sizes.len() {
        if places[start].is_some() {
            continue;
        }
        let (mut nodes, mut next) = (vec![start], 0);
        places[start] = Some((parts.len(), 0));
        while let Some(node) = nodes.get(next).copied() {
            next += 1;
            for neighbor in &neighbors[node] {
                if places[*neighbor].is_none() {
                    places[*neighbor] = Some((parts.len(), nodes.len()));
                    nodes.push(*neighbor);
                }
            }
        }
        parts.push(nodes);
    }
    let mut edges_of_parts = vec![Vec::new(); parts.len()];
    for (from, to) in edges {
        if let (Some((part, from)), Some((_, to))) = (places[from], places[to]) {
            edges_of_parts[part].push((from, to));
        }
    }
    let number = |node: &usize| places[*node].map_or(0, |(_, number)| number);
    let graphs = parts.into_iter().zip(edges_of_parts).map(|(nodes, edges)| {
        let graph = ConnectedGraph {
            sizes: nodes.iter().map(|node| sizes[*node]).collect(),
            edges,
            neighbors: nodes.iter().map(|node| neighbors[*node].iter().map(number).collect()).collect(),
        };
        (nodes, graph)
    });
    graphs.collect()
}

/// The top left corners of nodes with these centres, from (0, 0), and the size of all together.
fn to_corners(sizes: &[NodeSize], centers: Vec<Point>) -> (Vec<Point>, NodeSize) {
    let corner =
        |(size, center): (&NodeSize, Point)| Point { x: center.x - size.width / 2.0, y: center.y - size.height / 2.0 };
    let corners: Vec<Point> = sizes.iter().zip(centers).map(corner).collect();
    let left = corners.iter().map(|corner| corner.x).fold(f64::INFINITY, f64::min);
    let top = corners.iter().map(|corner| corner.y).fold(f64::INFINITY, f64::min);
    let corners: Vec<Point> =
        corners.into_iter().map(|corner| Point { x: corner.x - left, y: corner.y - top }).collect();
    let right = corners.iter().zip(sizes).map(|(corner, size)| corner.x + size.width).fold(0.0, f64::max);
    let bottom = corners.iter().zip(sizes).map(|(corner, size)| corner.y + size.height).fold(0.0, f64::max);
    (corners, NodeSize { width: right, height: bottom })
}

/// The top left corners of boxes in rows, in this order.
fn pack(boxes: &[NodeSize]) -> Vec<Point> {
    let area: f64 = boxes.iter().map(|size| (size.width + PART_GAP) * (size.height + PART_GAP)).sum();
    let widest = boxes.iter().map(|size| size.width).fold(0.0, f64::max);
    let width = (area * ASPECT_RATIO).sqrt().max(widest);
    let (mut x, mut y, mut row_height) = (0.0, 0.0, 0.0_f64);
    let place = |size: &NodeSize| {
        if x > 0.0 && x + size.width > width {
            y += row_height + if row_height > 0.0 { PART_GAP } else { 0.0 };
            (x, row_height) = (0.0, 0.0);
        }
        let corner = Point { x, y };
        x += size.width + PART_GAP;
        row_height = row_height.max(size.height);
        corner
    };
    boxes.iter().map(place).collect()
}

#[cfg(test)]
mod tests;
