//! Communities: groups of pages that are more densely linked than by chance (Louvain, Blondel et
//! al. 2008).
//!
//! Undirected, resolution 1, integer weights, in path order: the result is deterministic.

use std::cmp::Reverse;

use svcfs_index::{GraphNode, LinkGraph};

use super::components;

const MAX_ROUNDS: usize = 20;

/// The communities, largest first, then by their first page; the pages of each in order. A page
/// without links is its own community.
pub(super) fn find(graph: &LinkGraph) -> Vec<Vec<GraphNode>> {
    let mut level = WeightedGraph::find(graph);
    // The community of each page, as a node of the current level.
    let mut groups: Vec<GraphNode> = graph.nodes().collect();
    loop {
        let (new_groups, count) = level.move_nodes();
        if count == level.len() {
            break;
        }
        for group in &mut groups {
            *group = new_groups[*group as usize];
        }
        level = level.merge(&new_groups, count);
    }
    // A page that left a community may have split it into unconnected parts.
    let mut parts = components::components(graph, |a, b| groups[a as usize] == groups[b as usize]);
    parts.sort_by_key(|part| Reverse(part.len()));
    parts
}

/// An undirected weighted graph: first of pages, then of communities.
struct WeightedGraph {
    starts: Vec<usize>,
    /// For each node its neighbours and the weights, without itself.
    links: Vec<(GraphNode, i64)>,
    /// For each node the total weight of its link ends; internal links count twice.
    degrees: Vec<i64>,
    /// For each node the weight of its internal links, counted from both ends.
    inside: Vec<i64>,
    total: i64,
}

impl WeightedGraph {
    /// Two pages that link to each other are connected with weight 2.
    fn find(graph: &LinkGraph) -> Self {
        let edges = |node| graph.links_out(node).iter().chain(graph.links_in(node)).map(move |b| (node, *b, 1));
        Self::new(graph.len(), graph.nodes().flat_map(edges).collect(), vec![0; graph.len()])
    }

    /// A level with these links, each given from both ends; parallel links are merged.
    fn new(count: usize, mut ends: Vec<(GraphNode, GraphNode, i64)>, inside: Vec<i64>) -> Self {
        ends.sort_unstable();
        let mut starts = Vec::with_capacity(count + 1);
        let mut links: Vec<(GraphNode, i64)> = Vec::with_capacity(ends.len());
        let mut degrees = inside.clone();
        let mut ends = ends.into_iter().peekable();
        for (node, degree) in degrees.iter_mut().enumerate() {
            starts.push(links.len());
            let first = links.len();
            while let Some((_, b, weight)) = ends.next_if(|(from, ..)| *from as usize == node) {
                *degree += weight;
                match links[first..].last_mut() {
                    Some((last, sum)) if *last == b => *sum += weight,
                    Some(_) | None => links.push((b, weight)),
                }
            }
        }
        starts.push(links.len());
        let total = degrees.iter().sum();
        Self { starts, links, degrees, inside, total }
    }

    fn len(&self) -> usize {
        self.degrees.len()
    }

    fn links(&self, node: usize) -> &[(GraphNode, i64)] {
        &self.links[self.starts[node]..self.starts[node + 1]]
    }

    /// Moves nodes between communities until no move increases the modularity. Returns the
    /// community of each node and their number; they are numbered by their first node.
    fn move_nodes(&self) -> (Vec<GraphNode>, usize) {
        let count = self.len();
        let mut groups: Vec<usize> = (0..count).collect();
        let mut totals = self.degrees.clone();
        // Scratch space: the weight from the current node to each adjacent community.
        let mut weights = vec![0; count];
        let mut adjacent = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let mut has_moved = false;
            for node in 0..count {
                let (current, degree) = (groups[node], self.degrees[node]);
                for (b, weight) in self.links(node) {
                    let group = groups[*b as usize];
                    if weights[group] == 0 {
                        adjacent.push(group);
                    }
                    weights[group] += weight;
                }
                totals[current] -= degree;
                // The modularity gain, up to a constant factor.
                let gain = |group: usize| {
                    i128::from(weights[group]) * i128::from(self.total) - i128::from(degree) * i128::from(totals[group])
                };
                let best = adjacent.iter().copied().map(|group| (gain(group), Reverse(group))).max();
                let group = match best {
                    Some((best, Reverse(group))) if best > gain(current) => group,
                    Some(_) | None => current,
                };
                totals[group] += degree;
                has_moved |= group != current;
                groups[node] = group;
                for group in adjacent.drain(..) {
                    weights[group] = 0;
                }
            }
            if !has_moved {
                break;
            }
        }
        renumber(&groups)
    }

    /// The next level: each community becomes one node.
    fn merge(&self, groups: &[GraphNode], count: usize) -> Self {
        let mut inside = vec![0; count];
        let mut ends = Vec::new();
        for node in 0..self.len() {
            let current = groups[node];
            inside[current as usize] += self.inside[node];
            for (b, weight) in self.links(node) {
                match groups[*b as usize] {
                    group if group == current => inside[current as usize] += weight,
                    group => ends.push((current, group, *weight)),
                }
            }
        }
        Self::new(count, ends, inside)
    }
}

/// Renumbers communities from 0 in the order of their first nodes.
fn renumber(groups: &[usize]) -> (Vec<GraphNode>, usize) {
    let mut numbers = vec![None; groups.len()];
    let mut count: GraphNode = 0;
    let number = |group: &usize| {
        *numbers[*group].get_or_insert_with(|| {
            count += 1;
            count - 1
        })
    };
    let renumbered = groups.iter().map(number).collect();
    (renumbered, count as usize)
}
