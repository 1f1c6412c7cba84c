use std::collections::{BTreeSet, HashMap};

use svcfs_index::GraphNode;

use super::GraphAnalysis;
use super::operations::{MAX_LISTED, PageCluster};

const MAX_KEYWORDS: usize = 5;
/// Shorter words are mostly articles.
const MIN_WORD_CHARS: usize = 3;

/// The largest communities of at least two pages, at most [`MAX_LISTED`].
pub(super) fn largest(analysis: &GraphAnalysis) -> Vec<PageCluster> {
    let overall_counts = count_words(analysis, analysis.graph().nodes());
    let groups = analysis.communities().enumerate().take_while(|(_, nodes)| nodes.len() > 1);
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
            keywords: keywords(analysis, nodes, &overall_counts),
        })
    };
    groups.take(MAX_LISTED).filter_map(cluster).collect()
}

/// Words that are frequent in titles of the group and rare elsewhere.
fn keywords(analysis: &GraphAnalysis, nodes: &[GraphNode], overall_counts: &HashMap<String, usize>) -> Vec<String> {
    let pages = analysis.graph().len() as f64;
    let weight = |(word, count): (String, usize)| {
        let overall = overall_counts.get(&word).copied().unwrap_or(count) as f64;
        (count as f64 * (1.0 + (pages / overall).ln()), word)
    };
    let mut words: Vec<(f64, String)> = count_words(analysis, nodes.iter().copied()).into_iter().map(weight).collect();
    words.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    words.into_iter().take(MAX_KEYWORDS).map(|(_, word)| word).collect()
}

/// The number of titles with each word.
fn count_words(analysis: &GraphAnalysis, nodes: impl Iterator<Item = GraphNode>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for node in nodes {
        let title = analysis.graph().page(node).title.to_lowercase();
        let words = title.split(|character: char| !character.is_alphanumeric());
        let words: BTreeSet<&str> = words.filter(|word| word.chars().count() >= MIN_WORD_CHARS).collect();
        for word in words {
            match counts.get_mut(word) {
                Some(count) => *count += 1,
                None => drop(counts.insert(word.to_owned(), 1)),
            }
        }
    }
    counts
}
