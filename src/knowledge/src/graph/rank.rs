//! PageRank: how often somebody who follows links at random is on each page.
//!
//! Our own, because petgraph's asks every page for every other one: its time grows with the square of the pages.

use svcfs_index::LinkGraph;

/// How often a link is followed; else any page is opened (gaps.md 4.6).
const DAMPING: f64 = 0.85;
/// Rounds stop when all ranks together move less than this …
const STILL: f64 = 1e-9;
/// … or after this many.
const MOST_ROUNDS: usize = 100;

/// The rank of each node; together they are 1. Who is on a page without links opens any page.
pub(super) fn ranks(graph: &LinkGraph) -> Vec<f64> {
    let count = graph.len();
    if count == 0 {
        return Vec::new();
    }
    let each = 1.0 / count as f64;
    let mut ranks = vec![each; count];
    let mut shares = vec![0.0; count];
    for _ in 0..MOST_ROUNDS {
        let mut lost = 0.0;
        for node in graph.nodes() {
            let (rank, links) = (ranks[node as usize], graph.links_out(node).len());
            shares[node as usize] = if links == 0 { 0.0 } else { rank / links as f64 };
            lost += if links == 0 { rank } else { 0.0 };
        }
        let given = (1.0 - DAMPING) * each + DAMPING * lost * each;
        let mut moved = 0.0;
        for node in graph.nodes() {
            let followed: f64 = graph.links_in(node).iter().map(|source| shares[*source as usize]).sum();
            let rank = given + DAMPING * followed;
            moved += (rank - ranks[node as usize]).abs();
            ranks[node as usize] = rank;
        }
        if moved < STILL {
            break;
        }
    }
    ranks
}
