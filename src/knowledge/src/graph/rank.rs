//! PageRank: the probability that a random walk along links is at each page.
//!
//! petgraph's implementation takes time quadratic in the number of pages.

use svcfs_index::LinkGraph;

/// Probability of following a link; otherwise a random page is opened.
const DAMPING: f64 = 0.85;
/// Iteration stops when the ranks change by less than this in total …
const MAX_CHANGE: f64 = 1e-9;
/// … or after this many rounds.
const MAX_ROUNDS: usize = 100;

/// The rank of each node; the sum is 1. From a page without links any page is opened.
pub(super) fn ranks(graph: &LinkGraph) -> Vec<f64> {
    let count = graph.len();
    if count == 0 {
        return Vec::new();
    }
    let equal_share = 1.0 / count as f64;
    let mut ranks = vec![equal_share; count];
    let mut shares = vec![0.0; count];
    for _ in 0..MAX_ROUNDS {
        let mut dangling = 0.0;
        for node in graph.nodes() {
            let (rank, links) = (ranks[node as usize], graph.links_out(node).len());
            shares[node as usize] = if links == 0 { 0.0 } else { rank / links as f64 };
            dangling += if links == 0 { rank } else { 0.0 };
        }
        let base_rank = (1.0 - DAMPING) * equal_share + DAMPING * dangling * equal_share;
        let mut change = 0.0;
        for node in graph.nodes() {
            let incoming: f64 = graph.links_in(node).iter().map(|source| shares[*source as usize]).sum();
            let rank = base_rank + DAMPING * incoming;
            change += (rank - ranks[node as usize]).abs();
            ranks[node as usize] = rank;
        }
        if change < MAX_CHANGE {
            break;
        }
    }
    ranks
}
