//! The shortest way from one page to another along links.

use svcfs_index::{GraphNode, LinkGraph};

/// The nodes of a shortest way, both ends included; none when no way leads there. Of several, always the same one.
///
/// Looked for from both ends, the end with fewer nodes at its border first: of a large graph only a small part is seen.
pub(super) fn shortest(graph: &LinkGraph, (from, to): (GraphNode, GraphNode)) -> Option<Vec<GraphNode>> {
    let mut ahead = PathFrontier::at(graph, from);
    let mut back = PathFrontier::at(graph, to);
    let mut meeting = (from == to).then_some(from);
    while meeting.is_none() {
        if ahead.border.is_empty() || back.border.is_empty() {
            return None;
        }
        meeting = if ahead.border.len() <= back.border.len() {
            ahead.step(|node| graph.links_out(node), &back)
        } else {
            back.step(|node| graph.links_in(node), &ahead)
        };
    }
    let meeting = meeting?;
    let mut way: Vec<GraphNode> = ahead.way_from(meeting).collect();
    way.reverse();
    way.extend(back.way_from(meeting).skip(1));
    Some(way)
}

const UNSEEN: GraphNode = GraphNode::MAX;

/// What is seen from one end.
struct PathFrontier {
    /// The node each was reached from; the end itself from itself.
    reached_from: Vec<GraphNode>,
    border: Vec<GraphNode>,
}

impl PathFrontier {
    fn at(graph: &LinkGraph, end: GraphNode) -> Self {
        let mut reached_from = vec![UNSEEN; graph.len()];
        reached_from[end as usize] = end;
        Self { reached_from, border: vec![end] }
    }

    /// One step further; gives a node that the other side has reached too. The first such is on a shortest way: were there a shorter
    /// one, the two would have met a step before.
    fn step<'g>(&mut self, links: impl Fn(GraphNode) -> &'g [GraphNode], other: &Self) -> Option<GraphNode> {
        let mut border = Vec::new();
        for node in std::mem::take(&mut self.border) {
            for next in links(node) {
                if self.reached_from[*next as usize] != UNSEEN {
                    continue;
                }
                self.reached_from[*next as usize] = node;
                if other.reached_from[*next as usize] != UNSEEN {
                    return Some(*next);
                }
                border.push(*next);
            }
        }
        self.border = border;
        None
    }

    /// The way back from a node to this side's end.
    fn way_from(&self, node: GraphNode) -> impl Iterator<Item = GraphNode> {
        std::iter::successors(Some(node), |node| {
            let before = self.reached_from[*node as usize];
            (before != *node).then_some(before)
        })
    }
}
