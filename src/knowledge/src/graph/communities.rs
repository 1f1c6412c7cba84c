//! Communities: groups of pages that link to each other more than chance would have it (Louvain, Blondel et al. 2008).
//!
//! Undirected, resolution 1, in whole numbers and in the order of paths: the same links always give the same groups.

use std::cmp::Reverse;

use svcfs_index::{GraphNode, LinkGraph};

use super::components;

/// Rounds in which pages change their group, in each level.
const MOST_ROUNDS: usize = 20;

/// The groups, the largest first, then by their first page; the pages of each in order. A page without links is a group of its own.
pub(super) fn of(graph: &LinkGraph) -> Vec<Vec<GraphNode>> {
    let mut level = WeightedGraph::of(graph);
    // The group of each page, as the level above knows it.
    let mut groups: Vec<GraphNode> = graph.nodes().collect();
    loop {
        let (moved, count) = level.moved();
        if count == level.len() {
            break;
        }
        for group in &mut groups {
            *group = moved[*group as usize];
        }
        level = level.joined(&moved, count);
    }
    // A page that leaves a group may leave two halves behind that nothing connects.
    let mut parts = components::parts(graph, |one, other| groups[one as usize] == groups[other as usize]);
    parts.sort_by_key(|part| Reverse(part.len()));
    parts
}

/// An undirected graph whose links have weights: first the pages, then groups of them.
struct WeightedGraph {
    starts: Vec<usize>,
    /// For each node its neighbours with the weight between them, itself not among them.
    links: Vec<(GraphNode, i64)>,
    /// The weight of all ends of links at a node, twice that of links inside it included.
    degrees: Vec<i64>,
    /// The weight inside each node, counted from both ends.
    inside: Vec<i64>,
    /// All degrees together.
    total: i64,
}

impl WeightedGraph {
    /// A page that links to another, which links back, is tied to it twice.
    fn of(graph: &LinkGraph) -> Self {
        let both = |node| graph.links_out(node).iter().chain(graph.links_in(node)).map(move |other| (node, *other, 1));
        Self::new(graph.len(), graph.nodes().flat_map(both).collect(), vec![0; graph.len()])
    }

    /// The level of these links, each given from both its ends; links between the same two nodes become one.
    fn new(count: usize, mut ends: Vec<(GraphNode, GraphNode, i64)>, inside: Vec<i64>) -> Self {
        ends.sort_unstable();
        let mut starts = Vec::with_capacity(count + 1);
        let mut links: Vec<(GraphNode, i64)> = Vec::with_capacity(ends.len());
        let mut degrees = inside.clone();
        let mut ends = ends.into_iter().peekable();
        for (node, degree) in degrees.iter_mut().enumerate() {
            starts.push(links.len());
            let first = links.len();
            while let Some((_, other, weight)) = ends.next_if(|(from, ..)| *from as usize == node) {
                *degree += weight;
                match links[first..].last_mut() {
                    Some((last, sum)) if *last == other => *sum += weight,
                    Some(_) | None => links.push((other, weight)),
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

    /// The group of each node once no node gains by going to that of a neighbour, and how many groups there are; they are numbered
    /// in the order of their first nodes.
    fn moved(&self) -> (Vec<GraphNode>, usize) {
        let count = self.len();
        let mut groups: Vec<usize> = (0..count).collect();
        let mut totals = self.degrees.clone();
        // The weight from the node in hand to each group around it, and which groups those are.
        let mut weights = vec![0; count];
        let mut around = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let mut has_moved = false;
            for node in 0..count {
                let (own, degree) = (groups[node], self.degrees[node]);
                for (other, weight) in self.links(node) {
                    let group = groups[*other as usize];
                    if weights[group] == 0 {
                        around.push(group);
                    }
                    weights[group] += weight;
                }
                totals[own] -= degree;
                // What a group gains by the node, but for a factor that is the same for all.
                let gain = |group: usize| {
                    i128::from(weights[group]) * i128::from(self.total) - i128::from(degree) * i128::from(totals[group])
                };
                let best = around.iter().copied().map(|group| (gain(group), Reverse(group))).max();
                let group = match best {
                    Some((best, Reverse(group))) if best > gain(own) => group,
                    Some(_) | None => own,
                };
                totals[group] += degree;
                has_moved |= group != own;
                groups[node] = group;
                for group in around.drain(..) {
                    weights[group] = 0;
                }
            }
            if !has_moved {
                break;
            }
        }
        numbered(&groups)
    }

    /// The level above: each group one node.
    fn joined(&self, groups: &[GraphNode], count: usize) -> Self {
        let mut inside = vec![0; count];
        let mut ends = Vec::new();
        for node in 0..self.len() {
            let own = groups[node];
            inside[own as usize] += self.inside[node];
            for (other, weight) in self.links(node) {
                match groups[*other as usize] {
                    group if group == own => inside[own as usize] += weight,
                    group => ends.push((own, group, *weight)),
                }
            }
        }
        Self::new(count, ends, inside)
    }
}

/// Groups numbered from 0 in the order of their first nodes.
fn numbered(groups: &[usize]) -> (Vec<GraphNode>, usize) {
    let mut numbers = vec![None; groups.len()];
    let mut count: GraphNode = 0;
    let number = |group: &usize| {
        *numbers[*group].get_or_insert_with(|| {
            count += 1;
            count - 1
        })
    };
    let numbered = groups.iter().map(number).collect();
    (numbered, count as usize)
}
