//! Betweenness centrality: the share of shortest paths that lead through a page (Brandes 2001).

use std::collections::VecDeque;

use svcfs_index::{GraphNode, LinkGraph};

use super::operations::MAX_LISTED;

/// Limit of link traversals, about a second. A larger graph is sampled.
const MAX_STEPS: usize = 30_000_000;

pub struct BetweennessScores {
    /// For each page the share of all pairs of other pages whose shortest path leads through it, 0
    /// to 1. Several shortest paths of a pair count proportionally.
    pub values: Vec<f64>,
    /// The pages with the highest values above 0, highest first, at most [`MAX_LISTED`].
    pub highest: Vec<GraphNode>,
    /// Number of source pages, if not all were used.
    pub sample_size: Option<usize>,
}

/// The betweenness of each node, along the direction of links.
pub(super) fn compute(graph: &LinkGraph) -> BetweennessScores {
    compute_with_limit(graph, MAX_STEPS)
}

/// The same with a limit of traversals.
pub(super) fn compute_with_limit(graph: &LinkGraph, steps: usize) -> BetweennessScores {
    let sources: Vec<GraphNode> = graph.nodes().filter(|node| !graph.links_out(*node).is_empty()).collect();
    let max_sources = (steps / (graph.len() + graph.link_count()).max(1)).max(1);
    let sample_size = sources.len().min(max_sources);
    let mut search = ShortestPathSearch::new(graph);
    for nth in 0..sample_size {
        // Evenly over the path order, so that every folder is represented.
        search.add_from(sources[nth * sources.len() / sample_size]);
    }
    let count = graph.len() as f64;
    let pairs = (count - 1.0) * (count - 2.0);
    let scale = if sample_size == 0 || pairs <= 0.0 { 0.0 } else { sources.len() as f64 / sample_size as f64 / pairs };
    let values: Vec<f64> = search.values.iter().map(|value| value * scale).collect();
    let mut highest: Vec<GraphNode> = graph.nodes().filter(|node| values[*node as usize] > 0.0).collect();
    highest.sort_by(|a, b| values[*b as usize].total_cmp(&values[*a as usize]));
    highest.truncate(MAX_LISTED);
    BetweennessScores { values, highest, sample_size: (sample_size < sources.len()).then_some(sample_size) }
}

struct ShortestPathSearch<'g> {
    graph: &'g LinkGraph,
    values: Vec<f64>,
    /// For the current source, per node: distance, shortest paths, accumulated dependency.
    distance: Vec<u32>,
    path_counts: Vec<f64>,
    dependencies: Vec<f64>,
    reached: Vec<GraphNode>,
}

const UNREACHED: u32 = u32::MAX;

impl<'g> ShortestPathSearch<'g> {
    fn new(graph: &'g LinkGraph) -> Self {
        let count = graph.len();
        Self {
            graph,
            values: vec![0.0; count],
            distance: vec![UNREACHED; count],
            path_counts: vec![0.0; count],
            dependencies: vec![0.0; count],
            reached: Vec::new(),
        }
    }

    fn add_from(&mut self, source: GraphNode) {
        self.search_from(source);
        while let Some(node) = self.reached.pop() {
            let index = node as usize;
            if node != source {
                self.values[index] += self.dependencies[index];
                let share = (1.0 + self.dependencies[index]) / self.path_counts[index];
                for previous in self.graph.links_in(node) {
                    let previous = *previous as usize;
                    // False for nodes that were not reached or are already done.
                    if self.distance[previous] != UNREACHED && self.distance[previous] + 1 == self.distance[index] {
                        self.dependencies[previous] += self.path_counts[previous] * share;
                    }
                }
            }
            (self.distance[index], self.path_counts[index], self.dependencies[index]) = (UNREACHED, 0.0, 0.0);
        }
    }

    fn search_from(&mut self, source: GraphNode) {
        let mut queue = VecDeque::from([source]);
        self.distance[source as usize] = 0;
        self.path_counts[source as usize] = 1.0;
        while let Some(node) = queue.pop_front() {
            self.reached.push(node);
            let next_distance = self.distance[node as usize] + 1;
            for to in self.graph.links_out(node) {
                let index = *to as usize;
                if self.distance[index] == UNREACHED {
                    self.distance[index] = next_distance;
                    queue.push_back(*to);
                }
                if self.distance[index] == next_distance {
                    self.path_counts[index] += self.path_counts[node as usize];
                }
            }
        }
    }
}
