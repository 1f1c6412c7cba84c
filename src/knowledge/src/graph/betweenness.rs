//! Betweenness: through which pages the shortest ways between others lead (Brandes 2001).

use std::collections::VecDeque;

use svcfs_index::{GraphNode, LinkGraph};

use super::operations::MOST_LISTED;

/// Steps along links that are taken at most, a second or so; a larger graph is judged by the ways from some of its pages.
const MOST_STEPS: usize = 30_000_000;

/// How many shortest ways lead through each page.
pub struct BetweennessScores {
    /// For each page, the share of all pairs of other pages whose shortest way leads through it, 0 to 1. Of several shortest ways
    /// each counts for its part.
    pub values: Vec<f64>,
    /// The pages with the highest values above 0, highest first, as many as can be asked for.
    pub highest: Vec<GraphNode>,
    /// From how many pages ways were looked for, when that was not every page.
    pub sample_size: Option<usize>,
}

/// The betweenness of each node, along the direction of links.
pub(super) fn of(graph: &LinkGraph) -> BetweennessScores {
    of_at_most(graph, MOST_STEPS)
}

/// The same within a number of steps.
pub(super) fn of_at_most(graph: &LinkGraph, steps: usize) -> BetweennessScores {
    let sources: Vec<GraphNode> = graph.nodes().filter(|node| !graph.links_out(*node).is_empty()).collect();
    let most = (steps / (graph.len() + graph.link_count()).max(1)).max(1);
    let taken = sources.len().min(most);
    let mut search = ShortestPathSearch::new(graph);
    for nth in 0..taken {
        // Evenly over the order of paths, so that every folder has its part.
        search.add_from(sources[nth * sources.len() / taken]);
    }
    let count = graph.len() as f64;
    let pairs = (count - 1.0) * (count - 2.0);
    let scale = if taken == 0 || pairs <= 0.0 { 0.0 } else { sources.len() as f64 / taken as f64 / pairs };
    let values: Vec<f64> = search.values.iter().map(|value| value * scale).collect();
    let mut highest: Vec<GraphNode> = graph.nodes().filter(|node| values[*node as usize] > 0.0).collect();
    highest.sort_by(|one, other| values[*other as usize].total_cmp(&values[*one as usize]));
    highest.truncate(MOST_LISTED);
    BetweennessScores { values, highest, sample_size: (taken < sources.len()).then_some(taken) }
}

struct ShortestPathSearch<'g> {
    graph: &'g LinkGraph,
    values: Vec<f64>,
    /// Of the present source, for each node: how far, over how many shortest ways, and what depends on it.
    distance: Vec<u32>,
    ways: Vec<f64>,
    depends: Vec<f64>,
    /// The nodes reached, nearest first.
    reached: Vec<GraphNode>,
}

const NOT_REACHED: u32 = u32::MAX;

impl<'g> ShortestPathSearch<'g> {
    fn new(graph: &'g LinkGraph) -> Self {
        let count = graph.len();
        Self {
            graph,
            values: vec![0.0; count],
            distance: vec![NOT_REACHED; count],
            ways: vec![0.0; count],
            depends: vec![0.0; count],
            reached: Vec::new(),
        }
    }

    /// Adds what each node is worth for the ways from one source.
    fn add_from(&mut self, source: GraphNode) {
        self.spread(source);
        while let Some(node) = self.reached.pop() {
            let at = node as usize;
            if node != source {
                self.values[at] += self.depends[at];
                let part = (1.0 + self.depends[at]) / self.ways[at];
                for before in self.graph.links_in(node) {
                    let before = *before as usize;
                    // Those not reached, and those whose turn is over, are never one step nearer.
                    if self.distance[before] != NOT_REACHED && self.distance[before] + 1 == self.distance[at] {
                        self.depends[before] += self.ways[before] * part;
                    }
                }
            }
            (self.distance[at], self.ways[at], self.depends[at]) = (NOT_REACHED, 0.0, 0.0);
        }
    }

    fn spread(&mut self, source: GraphNode) {
        let mut next = VecDeque::from([source]);
        self.distance[source as usize] = 0;
        self.ways[source as usize] = 1.0;
        while let Some(node) = next.pop_front() {
            self.reached.push(node);
            let further = self.distance[node as usize] + 1;
            for to in self.graph.links_out(node) {
                let at = *to as usize;
                if self.distance[at] == NOT_REACHED {
                    self.distance[at] = further;
                    next.push_back(*to);
                }
                if self.distance[at] == further {
                    self.ways[at] += self.ways[node as usize];
                }
            }
        }
    }
}
