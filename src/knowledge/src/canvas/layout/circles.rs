//! Layouts on circles.

use std::cmp::Reverse;
use std::f64::consts::TAU;

use super::{ConnectedGraph, NODE_GAP, Point, overlap};

pub(super) fn on_circle(radius: f64, angle: f64) -> Point {
    Point { x: radius * angle.cos(), y: radius * angle.sin() }
}

/// All nodes on one circle, neighbours near each other as far as a depth-first search finds them.
pub(super) fn circle(graph: &ConnectedGraph) -> Vec<Point> {
    let order = depth_first(graph, graph.hub());
    let arc = |node: usize| graph.sizes[node].diagonal() + NODE_GAP;
    let circumference: f64 = order.iter().map(|node| arc(*node)).sum();
    let mut centers = vec![Point::default(); graph.len()];
    let mut position = 0.0;
    for node in order {
        let middle = position + arc(node) / 2.0;
        centers[node] = on_circle(circumference / TAU, middle / circumference * TAU - TAU / 4.0);
        position += arc(node);
    }
    overlap::remove(&graph.sizes, &mut centers);
    centers
}

fn depth_first(graph: &ConnectedGraph, root: usize) -> Vec<usize> {
    let mut seen = vec![false; graph.len()];
    let (mut order, mut stack) = (Vec::new(), vec![root]);
    while let Some(node) = stack.pop() {
        if std::mem::replace(&mut seen[node], true) {
            continue;
        }
        order.push(node);
        // The neighbour with the fewest edges comes first: long branches stay together.
        let mut next: Vec<usize> = graph.neighbors[node].iter().copied().filter(|node| !seen[*node]).collect();
        next.sort_by_key(|node| Reverse((graph.neighbors[*node].len(), *node)));
        stack.extend(next);
    }
    order
}

/// The hub in the middle, and each other node on the ring of its distance, in the sector of the
/// node through which the hub reaches it.
pub(super) fn rings(graph: &ConnectedGraph) -> Vec<Point> {
    let order = graph.breadth_first(graph.hub());
    let mut depths = vec![0_usize; graph.len()];
    let mut children = vec![Vec::new(); graph.len()];
    for (node, parent) in &order {
        if let Some(parent) = parent {
            depths[*node] = depths[*parent] + 1;
            children[*parent].push(*node);
        }
    }
    // The share of the circle of each node is that of the leaves below it.
    let mut leaves = vec![0_usize; graph.len()];
    for (node, _) in order.iter().rev() {
        leaves[*node] = children[*node].iter().map(|child| leaves[*child]).sum::<usize>().max(1);
    }
    let total = leaves[order[0].0].max(1) as f64;
    let sector = |node: usize| leaves[node] as f64 / total * TAU;
    let largest = graph.sizes.iter().map(|size| size.diagonal()).fold(0.0, f64::max);
    let mut radii = vec![0.0_f64; depths.iter().max().copied().unwrap_or_default() + 1];
    for (node, _) in &order {
        let needed = (graph.sizes[*node].diagonal() + NODE_GAP) / sector(*node);
        if depths[*node] > 0 {
            radii[depths[*node]] = radii[depths[*node]].max(needed);
        }
    }
    for depth in 1..radii.len() {
        radii[depth] = radii[depth].max(radii[depth - 1] + largest + NODE_GAP);
    }
    let mut starts = vec![0.0; graph.len()];
    let mut centers = vec![Point::default(); graph.len()];
    for (node, _) in order {
        centers[node] = on_circle(radii[depths[node]], starts[node] + sector(node) / 2.0 - TAU / 4.0);
        let mut start = starts[node];
        for child in &children[node] {
            starts[*child] = start;
            start += sector(*child);
        }
    }
    overlap::remove(&graph.sizes, &mut centers);
    centers
}
