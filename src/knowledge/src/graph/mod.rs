//! How pages hang together (contract 4.6).
//!
//! One rule: the index says which page leads to which; here that is only counted, weighed and walked. What was worked out for a
//! graph is kept as long as it is the newest, so that a question asked again before anything changed costs nothing.

mod betweenness;
mod cached_json;
mod clusters;
mod communities;
mod components;
mod graph_text;
mod operations;
mod paths;
mod rank;
mod siblings;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use svcfs_base::{Fault, TreePath};
use svcfs_index::{GraphNode, Index, LinkGraph};

pub use operations::AREA;

use betweenness::BetweennessScores;
use cached_json::CachedJson;
use components::GraphComponents;
use operations::{CommunityList, PageCluster};

/// A graph and what was worked out for it, each part when somebody first asks for it.
pub struct GraphAnalysis {
    graph: Arc<LinkGraph>,
    ranks: OnceLock<Vec<f64>>,
    betweenness: OnceLock<BetweennessScores>,
    communities: OnceLock<NodeGroups>,
    components: OnceLock<GraphComponents>,
    by_rank: OnceLock<Vec<GraphNode>>,
    tags: OnceLock<siblings::PagesByTag>,
    clusters: OnceLock<Vec<PageCluster>>,
    /// The answer that tells of every page.
    grouped: Mutex<Option<CachedJson<CommunityList>>>,
}

/// Groups of nodes, one behind the other: most of them may be of one node.
struct NodeGroups {
    nodes: Vec<GraphNode>,
    ends: Vec<usize>,
}

impl NodeGroups {
    fn of(groups: &[Vec<GraphNode>]) -> Self {
        let ends = groups.iter().scan(0, |end, group| {
            *end += group.len();
            Some(*end)
        });
        Self { nodes: groups.concat(), ends: ends.collect() }
    }

    fn all(&self) -> impl Iterator<Item = &[GraphNode]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.nodes[start..*end])
    }
}

impl GraphAnalysis {
    fn of(graph: Arc<LinkGraph>) -> Self {
        Self {
            graph,
            ranks: OnceLock::new(),
            betweenness: OnceLock::new(),
            communities: OnceLock::new(),
            components: OnceLock::new(),
            by_rank: OnceLock::new(),
            tags: OnceLock::new(),
            clusters: OnceLock::new(),
            grouped: Mutex::new(None),
        }
    }
    /// The graph itself.
    pub fn graph(&self) -> &LinkGraph {
        &self.graph
    }
    /// The PageRank of each page; all of them are 1 together.
    pub fn ranks(&self) -> &[f64] {
        self.ranks.get_or_init(|| rank::ranks(&self.graph))
    }
    /// Every page, those with the highest PageRank first, then by path.
    pub fn by_rank(&self) -> &[GraphNode] {
        self.by_rank.get_or_init(|| {
            let mut nodes: Vec<GraphNode> = self.graph.nodes().collect();
            let ranks = self.ranks();
            nodes.sort_by(|one, other| ranks[*other as usize].total_cmp(&ranks[*one as usize]));
            nodes
        })
    }
    /// How many shortest ways lead through each page.
    pub fn betweenness(&self) -> &BetweennessScores {
        self.betweenness.get_or_init(|| betweenness::of(&self.graph))
    }
    /// Groups of pages that link to each other more than to the rest, the largest first; each page is in one.
    pub fn communities(&self) -> impl Iterator<Item = &[GraphNode]> {
        self.communities.get_or_init(|| NodeGroups::of(&communities::of(&self.graph))).all()
    }
    /// The parts that no link connects.
    pub fn components(&self) -> &GraphComponents {
        self.components.get_or_init(|| GraphComponents::of(&self.graph))
    }
    /// What the largest communities of at least two pages are about.
    fn clusters(&self) -> &[PageCluster] {
        self.clusters.get_or_init(|| clusters::largest(self))
    }
    /// The pages of each tag.
    fn tags(&self) -> &siblings::PagesByTag {
        self.tags.get_or_init(|| siblings::tags(&self.graph))
    }
    /// The path of a node.
    fn path(&self, node: GraphNode) -> TreePath {
        self.graph.page(node).path.clone()
    }
}

/// Folders whose part of the newest graph is kept; each takes as much memory as its pages have links.
const MOST_PARTS: usize = 8;

/// The newest analyses of one space.
#[derive(Default)]
pub struct AnalysisCache(Mutex<Option<CachedAnalyses>>);

/// The analysis of a whole graph, and those of folders that were asked for, the latest last.
struct CachedAnalyses {
    whole: Arc<GraphAnalysis>,
    parts: Vec<(TreePath, Arc<GraphAnalysis>)>,
}

impl AnalysisCache {
    /// Drops what can be made again quickly; the graph itself stays.
    pub(crate) fn rest(&self) {
        if let Some(analyses) = &mut *self.0.lock() {
            analyses.parts = Vec::new();
            *analyses.whole.grouped.lock() = None;
        }
    }

    /// The analysis of everything the index has taken in; with a folder, of the pages below it and the links between them, as if there
    /// were no others.
    ///
    /// # Errors
    /// Those of [`Index::graph`].
    pub fn analysis(&self, index: &Index, folder: Option<&TreePath>) -> Result<Arc<GraphAnalysis>, Fault> {
        let graph = index.graph()?;
        let mut newest = self.0.lock();
        let is_newest = newest.as_ref().is_some_and(|analyses| Arc::ptr_eq(&analyses.whole.graph, &graph));
        if !is_newest {
            *newest = None;
        }
        let fresh = || CachedAnalyses { whole: Arc::new(GraphAnalysis::of(graph)), parts: Vec::new() };
        let CachedAnalyses { whole, parts } = newest.get_or_insert_with(fresh);
        let Some(folder) = folder else { return Ok(Arc::clone(whole)) };
        let part = match parts.iter().position(|(known, _)| known == folder) {
            Some(at) => parts.remove(at).1,
            None => Arc::new(GraphAnalysis::of(Arc::new(whole.graph.subgraph(folder)))),
        };
        if parts.len() >= MOST_PARTS {
            parts.remove(0);
        }
        parts.push((folder.clone(), Arc::clone(&part)));
        Ok(part)
    }
}
