//! The parts of a graph that no link connects, whichever way it leads.

use svcfs_index::{GraphNode, LinkGraph};

/// How a graph falls apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphComponents {
    /// How many parts there are.
    pub count: usize,
    /// How many pages the largest has.
    pub largest: usize,
}

impl GraphComponents {
    pub(super) fn of(graph: &LinkGraph) -> Self {
        let parts = parts(graph, |_, _| true);
        Self { count: parts.len(), largest: parts.iter().map(Vec::len).max().unwrap_or_default() }
    }
}

/// The connected parts, when only links between two nodes count for which `counts` is true; each in the order of nodes, and
/// they in that of their first.
pub(super) fn parts(graph: &LinkGraph, counts: impl Fn(GraphNode, GraphNode) -> bool) -> Vec<Vec<GraphNode>> {
    let mut is_seen = vec![false; graph.len()];
    let mut parts = Vec::new();
    for first in graph.nodes() {
        if std::mem::replace(&mut is_seen[first as usize], true) {
            continue;
        }
        let mut part = vec![first];
        let mut at = 0;
        while let Some(node) = part.get(at).copied() {
            at += 1;
            for other in graph.links_out(node).iter().chain(graph.links_in(node)) {
                if counts(node, *other) && !std::mem::replace(&mut is_seen[*other as usize], true) {
                    part.push(*other);
                }
            }
        }
        part.sort_unstable();
        part.shrink_to_fit();
        parts.push(part);
    }
    parts.shrink_to_fit();
    parts
}
