//! Shortest paths along links.

use svcfs_index::{GraphNode, LinkGraph};

/// The nodes of a shortest path, including both ends; none if there is none. Deterministic.
///
/// Bidirectional breadth-first search; the smaller frontier is expanded first, so that only a small
/// part of a large graph is visited.
pub(super) fn shortest(graph: &LinkGraph, (from, to): (GraphNode, GraphNode)) -> Option<Vec<GraphNode>> {
    let mut forward = PathFrontier::at(graph, from);
    let mut backward = PathFrontier::at(graph, to);
    let mut meeting = (from == to).then_some(from);
    while meeting.is_none() {
        if forward.frontier.is_empty() || backward.frontier.is_empty() {
            return None;
        }
        meeting = if forward.frontier.len() <= backward.frontier.len() {
            forward.step(|node| graph.links_out(node), &backward)
        } else {
            backward.step(|node| graph.links_in(node), &forward)
        };
    }
    let meeting = meeting?;
    let mut path: Vec<GraphNode> = forward.path_from(meeting).collect();
    path.reverse();
    path.extend(backward.path_from(meeting).skip(1));
    Some(path)
}

const UNREACHED: GraphNode = GraphNode::MAX;

struct PathFrontier {
    /// The predecessor of each node; the end is its own.
    predecessor: Vec<GraphNode>,
    frontier: Vec<GraphNode>,
}

impl PathFrontier {
    fn at(graph: &LinkGraph, end: GraphNode) -> Self {
        let mut predecessor = vec![UNREACHED; graph.len()];
        predecessor[end as usize] = end;
        Self { predecessor, frontier: vec![end] }
    }

    /// Expands the frontier by one step. Returns a node that the other search has reached, too. The
    /// first such node is on a shortest path: on a shorter one the searches would have met earlier.
    fn step<'g>(&mut self, links: impl Fn(GraphNode) -> &'g [GraphNode], other: &Self) -> Option<GraphNode> {
        let mut frontier = Vec::new();
        for node in std::mem::take(&mut self.frontier) {
            for next in links(node) {
                if self.predecessor[*next as usize] != UNREACHED {
                    continue;
                }
                self.predecessor[*next as usize] = node;
                if other.predecessor[*next as usize] != UNREACHED {
                    return Some(*next);
                }
                frontier.push(*next);
            }
        }
        self.frontier = frontier;
        None
    }

    fn path_from(&self, node: GraphNode) -> impl Iterator<Item = GraphNode> {
        std::iter::successors(Some(node), |node| {
            let previous = self.predecessor[*node as usize];
            (previous != *node).then_some(previous)
        })
    }
}
