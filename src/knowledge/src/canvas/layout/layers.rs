//! Layout in layers, from top to bottom.

use dagre::graph::{Graph, GraphOptions};
use dagre::{EdgeLabel, LayoutOptions, NodeLabel};

use super::{ConnectedGraph, NODE_GAP, Point};

/// Limit of nodes and crossings of edges with layers for `dagre`: its time grows faster than their
/// square (500 nodes with 1,000 random edges: a minute).
const MAX_DAGRE_CELLS: usize = 300;

/// Space between two layers.
const LAYER_GAP: f64 = 80.0;

/// Passes over all layers that bring neighbours closer together.
const ORDER_PASSES: usize = 12;

/// Small graphs by `dagre`, whose layers follow the direction of the edges. Large ones in layers of
/// equal distance from the hub, so that no edge crosses a layer.
pub(super) fn arrange(graph: &ConnectedGraph) -> Vec<Point> {
    if graph.len() + layer_crossings(graph) <= MAX_DAGRE_CELLS { by_dagre(graph) } else { by_distance(graph) }
}

fn by_dagre(graph: &ConnectedGraph) -> Vec<Point> {
    let options = GraphOptions { directed: true, multigraph: false, compound: false };
    let mut drawing: Graph<NodeLabel, EdgeLabel> = Graph::with_options(options);
    for (node, size) in graph.sizes.iter().enumerate() {
        let label = NodeLabel { width: size.width, height: size.height, ..NodeLabel::default() };
        drawing.set_node(node.to_string(), Some(label));
    }
    for (from, to) in &graph.edges {
        drawing.set_edge(from.to_string(), to.to_string(), Some(EdgeLabel::default()), None);
    }
    let options = LayoutOptions { nodesep: NODE_GAP, ranksep: LAYER_GAP, ..LayoutOptions::default() };
    dagre::layout(&mut drawing, Some(options));
    let center = |node: usize| {
        let label = drawing.node(&node.to_string());
        let (x, y) = label.map_or((None, None), |label| (label.x, label.y));
        Point { x: x.unwrap_or_default(), y: y.unwrap_or_default() }
    };
    (0..graph.len()).map(center).collect()
}

/// The number of layers that edges cross, if every node is in the layer after its predecessors.
/// Edges that close a cycle count in the opposite direction.
fn layer_crossings(graph: &ConnectedGraph) -> usize {
    let mut successors = vec![Vec::new(); graph.len()];
    for (from, to) in &graph.edges {
        successors[*from].push(*to);
    }
    // Depth-first search: nodes in the order in which they are finished.
    let mut finished = Vec::with_capacity(graph.len());
    let mut seen = vec![false; graph.len()];
    for start in 0..graph.len() {
        let mut stack = vec![(start, 0)];
        while let Some((node, next)) = stack.pop() {
            if next == 0 && std::mem::replace(&mut seen[node], true) {
                continue;
            }
            match successors[node].get(next) {
                Some(successor) => stack.extend([(node, next + 1), (*successor, 0)]),
                None => finished.push(node),
            }
        }
    }
    let mut positions = vec![0; graph.len()];
    for (position, node) in finished.iter().rev().enumerate() {
        positions[*node] = position;
    }
    let ordered = |(from, to): &(usize, usize)| {
        if positions[*from] < positions[*to] { (*from, *to) } else { (*to, *from) }
    };
    let mut below = vec![Vec::new(); graph.len()];
    for (from, to) in graph.edges.iter().map(ordered) {
        below[from].push(to);
    }
    let mut layers = vec![0_usize; graph.len()];
    for node in finished.into_iter().rev() {
        for successor in &below[node] {
            layers[*successor] = layers[*successor].max(layers[node] + 1);
        }
    }
    graph.edges.iter().map(ordered).map(|(from, to)| layers[to] - layers[from] - 1).sum()
}

fn by_distance(graph: &ConnectedGraph) -> Vec<Point> {
    let mut layers: Vec<Vec<usize>> = Vec::new();
    let mut layer_of = vec![0_usize; graph.len()];
    for (node, parent) in graph.breadth_first(graph.hub()) {
        layer_of[node] = parent.map_or(0, |parent| layer_of[parent] + 1);
        if layers.len() == layer_of[node] {
            layers.push(Vec::new());
        }
        layers[layer_of[node]].push(node);
    }
    // The place of each node in its layer, 0 to 1.
    let mut places = vec![0.5; graph.len()];
    let place = |layer: &[usize], places: &mut [f64]| {
        for (index, node) in layer.iter().enumerate() {
            places[*node] = (index as f64 + 0.5) / layer.len() as f64;
        }
    };
    layers.iter().for_each(|layer| place(layer, &mut places));
    for pass in 0..ORDER_PASSES {
        let count = layers.len();
        for step in 1..count {
            let (current, fixed) = if pass % 2 == 0 { (step, step - 1) } else { (count - 1 - step, count - step) };
            let barycenter = |node: &usize| {
                let near = graph.neighbors[*node].iter().filter(|other| layer_of[**other] == fixed);
                let (sum, count) = near.fold((0.0, 0.0), |(sum, count), other| (sum + places[*other], count + 1.0));
                if count > 0.0 { sum / count } else { places[*node] }
            };
            let mut keyed: Vec<(f64, usize)> = layers[current].iter().map(|node| (barycenter(node), *node)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            layers[current] = keyed.into_iter().map(|(_, node)| node).collect();
            place(&layers[current], &mut places);
        }
    }
    in_rows(graph, &layers)
}

/// Layers as centred rows; a layer of many nodes becomes several rows.
fn in_rows(graph: &ConnectedGraph, layers: &[Vec<usize>]) -> Vec<Point> {
    let longest = (2.0 * (graph.len() as f64).sqrt()).ceil() as usize;
    let mut centers = vec![Point::default(); graph.len()];
    let mut top = 0.0;
    for layer in layers {
        let row_count = layer.len().div_ceil(longest.max(1)).max(1);
        // Consecutive nodes go to different rows, so that each stays near its neighbours.
        let rows: Vec<Vec<usize>> =
            (0..row_count).map(|row| layer.iter().copied().skip(row).step_by(row_count).collect()).collect();
        for row in rows {
            let width: f64 = row.iter().map(|node| graph.sizes[*node].width + NODE_GAP).sum();
            let height = row.iter().map(|node| graph.sizes[*node].height).fold(0.0, f64::max);
            let mut left = -width / 2.0;
            for node in row {
                centers[node] = Point { x: left + (graph.sizes[node].width + NODE_GAP) / 2.0, y: top + height / 2.0 };
                left += graph.sizes[node].width + NODE_GAP;
            }
            top += height + NODE_GAP;
        }
        top += LAYER_GAP - NODE_GAP;
    }
    centers
}
