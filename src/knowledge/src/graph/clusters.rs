//! What a community is about.

use std::collections::{BTreeSet, HashMap};

use svcfs_index::GraphNode;

use super::GraphAnalysis;
use super::operations::{MOST_LISTED, PageCluster};

/// Words told of a community.
const KEYWORDS: usize = 5;
/// Shorter words are articles and the like.
const SHORTEST: usize = 3;

/// The largest communities of at least two pages, as many as can be asked for.
pub(super) fn largest(analysis: &GraphAnalysis) -> Vec<PageCluster> {
    let everywhere = counted(analysis, analysis.graph().nodes());
    let several = analysis.communities().enumerate().take_while(|(_, nodes)| nodes.len() > 1);
    let cluster = |(id, nodes): (usize, &[GraphNode])| {
        let ranks = analysis.ranks();
        let top = nodes.iter().copied().reduce(
            |best, node| {
                if ranks[node as usize] > ranks[best as usize] { node } else { best }
            },
        );
        Some(PageCluster {
            id,
            size: nodes.len(),
            top_page: analysis.path(top?),
            keywords: keywords(analysis, nodes, &everywhere),
        })
    };
    several.take(MOST_LISTED).filter_map(cluster).collect()
}

/// The words that are in many titles of a group, and in few of all.
fn keywords(analysis: &GraphAnalysis, nodes: &[GraphNode], everywhere: &HashMap<String, usize>) -> Vec<String> {
    let pages = analysis.graph().len() as f64;
    let weight = |(word, here): (String, usize)| {
        let all = everywhere.get(&word).copied().unwrap_or(here) as f64;
        (here as f64 * (1.0 + (pages / all).ln()), word)
    };
    let mut words: Vec<(f64, String)> = counted(analysis, nodes.iter().copied()).into_iter().map(weight).collect();
    words.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    words.into_iter().take(KEYWORDS).map(|(_, word)| word).collect()
}

/// In how many titles each word is.
fn counted(analysis: &GraphAnalysis, nodes: impl Iterator<Item = GraphNode>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for node in nodes {
        let title = analysis.graph().page(node).title.to_lowercase();
        let words = title.split(|character: char| !character.is_alphanumeric());
        let words: BTreeSet<&str> = words.filter(|word| word.chars().count() >= SHORTEST).collect();
        for word in words {
            match counts.get_mut(word) {
                Some(count) => *count += 1,
                None => drop(counts.insert(word.to_owned(), 1)),
            }
        }
    }
    counts
}
