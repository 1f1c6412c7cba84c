//! The graph of links between pages, and its analysis.
//!
//! Invariant: the index knows the links; this module only computes from them. Results are cached
//! for the newest graph.

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

use crate::kernel::OperationContext;

/// A graph and its analyses, each computed on first use.
pub struct GraphAnalysis {
    graph: Arc<LinkGraph>,
    ranks: OnceLock<Vec<f64>>,
    betweenness: OnceLock<BetweennessScores>,
    communities: OnceLock<NodeGroups>,
    components: OnceLock<GraphComponents>,
    by_rank: OnceLock<Vec<GraphNode>>,
    tags: OnceLock<siblings::PagesByTag>,
    clusters: OnceLock<Vec<PageCluster>>,
    /// The cached answer with the communities of all pages.
    communities_json: Mutex<Option<CachedJson<CommunityList>>>,
}

/// Concatenated groups of nodes: most may have one node.
struct NodeGroups {
    nodes: Vec<GraphNode>,
    ends: Vec<usize>,
}

impl NodeGroups {
    fn new(groups: &[Vec<GraphNode>]) -> Self {
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
    fn new(graph: Arc<LinkGraph>) -> Self {
        Self {
            graph,
            ranks: OnceLock::new(),
            betweenness: OnceLock::new(),
            communities: OnceLock::new(),
            components: OnceLock::new(),
            by_rank: OnceLock::new(),
            tags: OnceLock::new(),
            clusters: OnceLock::new(),
            communities_json: Mutex::new(None),
        }
    }
    /// The graph.
    pub fn graph(&self) -> &LinkGraph {
        &self.graph
    }
    /// The PageRank of each page; the sum is 1.
    pub fn ranks(&self) -> &[f64] {
        self.ranks.get_or_init(|| rank::ranks(&self.graph))
    }
    /// All pages by PageRank, highest first, then by path.
    pub fn by_rank(&self) -> &[GraphNode] {
        self.by_rank.get_or_init(|| {
            let mut nodes: Vec<GraphNode> = self.graph.nodes().collect();
            let ranks = self.ranks();
            nodes.sort_by(|a, b| ranks[*b as usize].total_cmp(&ranks[*a as usize]));
            nodes
        })
    }
    /// The betweenness of each page.
    pub fn betweenness(&self) -> &BetweennessScores {
        self.betweenness.get_or_init(|| betweenness::compute(&self.graph))
    }
    /// The communities, largest first; each page is in one.
    pub fn communities(&self) -> impl Iterator<Item = &[GraphNode]> {
        self.communities.get_or_init(|| NodeGroups::new(&communities::find(&self.graph))).all()
    }
    /// The connected components.
    pub fn components(&self) -> &GraphComponents {
        self.components.get_or_init(|| GraphComponents::new(&self.graph))
    }
    /// Descriptions of the largest communities of at least two pages.
    fn clusters(&self) -> &[PageCluster] {
        self.clusters.get_or_init(|| clusters::largest(self))
    }
    fn tags(&self) -> &siblings::PagesByTag {
        self.tags.get_or_init(|| siblings::tags(&self.graph))
    }
    fn path(&self, node: GraphNode) -> TreePath {
        self.graph.page(node).path.clone()
    }
}

/// The analysis of the pages that the caller may see: for a key of a folder no others exist.
pub(crate) fn visible_graph(cx: &OperationContext<'_>) -> Result<Arc<GraphAnalysis>, Fault> {
    cx.space.graph.analysis(cx.index(), cx.caller.permissions.folder.as_ref())
}

/// Limit of cached subgraphs of folders; each takes memory for its pages and links.
const MAX_SUBGRAPHS: usize = 8;

/// The cached analyses of one space.
#[derive(Default)]
pub struct AnalysisCache(Mutex<Option<CachedAnalyses>>);

/// The analysis of the full graph, and those of folders, most recently used last.
struct CachedAnalyses {
    full: Arc<GraphAnalysis>,
    subgraphs: Vec<(TreePath, Arc<GraphAnalysis>)>,
}

impl AnalysisCache {
    /// Drops what can be recomputed quickly; the graph itself stays.
    pub(crate) fn drop_caches(&self) {
        if let Some(analyses) = &mut *self.0.lock() {
            analyses.subgraphs = Vec::new();
            *analyses.full.communities_json.lock() = None;
        }
    }

    /// The analysis of all indexed pages; with a folder, of only the pages below it and the links
    /// between them.
    ///
    /// # Errors
    /// Those of [`Index::graph`].
    pub fn analysis(&self, index: &Index, folder: Option<&TreePath>) -> Result<Arc<GraphAnalysis>, Fault> {
        let graph = index.graph()?;
        let mut newest = self.0.lock();
        let is_newest = newest.as_ref().is_some_and(|analyses| Arc::ptr_eq(&analyses.full.graph, &graph));
        if !is_newest {
            *newest = None;
        }
        let create = || CachedAnalyses { full: Arc::new(GraphAnalysis::new(graph)), subgraphs: Vec::new() };
        let CachedAnalyses { full, subgraphs } = newest.get_or_insert_with(create);
        let Some(folder) = folder else { return Ok(Arc::clone(full)) };
        let subgraph = match subgraphs.iter().position(|(cached, _)| cached == folder) {
            Some(at) => subgraphs.remove(at).1,
            None => Arc::new(GraphAnalysis::new(Arc::new(full.graph.subgraph(folder)))),
        };
        if subgraphs.len() >= MAX_SUBGRAPHS {
            subgraphs.remove(0);
        }
        subgraphs.push((folder.clone(), Arc::clone(&subgraph)));
        Ok(subgraph)
    }
}
