//! Connected components, ignoring the direction of links.

use svcfs_index::{GraphNode, LinkGraph};

/// The number and size of connected components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphComponents {
    /// Number of components.
    pub count: usize,
    /// Number of pages in the largest component.
    pub largest: usize,
}

impl GraphComponents {
    pub(super) fn new(graph: &LinkGraph) -> Self {
        let components = components(graph, |_, _| true);
        Self { count: components.len(), largest: components.iter().map(Vec::len).max().unwrap_or_default() }
    }
}

/// The connected components of the graph with only those links that `includes` accepts. Nodes are
/// in order, components in the order of their first nodes.
pub(super) fn components(graph: &LinkGraph, includes: impl Fn(GraphNode, GraphNode) -> bool) -> Vec<Vec<GraphNode>> {
    let mut is_seen = vec![false; graph.len()];
    let mut components = Vec::new();
    for first in graph.nodes() {
        if std::mem::replace(&mut is_seen[first as usize], true) {
            continue;
        }
        let mut component = vec![first];
        let mut next = 0;
        while let Some(node) = component.get(next).copied() {
            next += 1;
            for other in graph.links_out(node).iter().chain(graph.links_in(node)) {
                if includes(node, *other) && !std::mem::replace(&mut is_seen[*other as usize], true) {
                    component.push(*other);
                }
            }
        }
        component.sort_unstable();
        component.shrink_to_fit();
        components.push(component);
    }
    components.shrink_to_fit();
    components
}
