use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{Fault, Limit, TreePath};
use svcfs_index::GraphNode;
use svcfs_work::Lane;

use super::cached_json::CachedJson;
use super::graph_text::{GraphSelection, GraphText};
use super::siblings::{self, SiblingPage};
use super::{GraphAnalysis, paths, visible_graph as analysis};
use crate::kernel::{
    FolderScope, JsonText, MinSeq, Operation, OperationArea, OperationContext, OperationEntry, Route, default_true,
    require_path,
};

pub(super) const MAX_LISTED: usize = 1000;

/// Limit of a cached JSON answer in bytes: for longer ones the memory is not worth it.
const MAX_CACHED_BYTES: usize = 8 << 20;

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Graph",
    operations: &[
        OperationEntry::new::<ListBacklinks>(),
        OperationEntry::new::<GetGraph>(),
        OperationEntry::new::<AnalyzeGraph>(),
        OperationEntry::new::<ListCentrality>(),
        OperationEntry::new::<ListCommunities>(),
        OperationEntry::new::<FindPath>(),
        OperationEntry::new::<ListNeighbors>(),
    ],
};

/// List the pages that link to a page
///
/// Use it before you change or rename a page, or to find related pages. Returns path and title of
/// each linking page and the line with its first link; an empty list if no page links there, even
/// if the page does not exist. If the list is cut at `limit`, the total number is reported, over
/// HTTP in `X-Total-Count`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListBacklinks {
    /// Path of the linked page
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// Maximum number of pages, in path order
    #[serde(default)]
    pub limit: Limit<1000, 10_000>,
    #[serde(default)]
    pub at_least: MinSeq,
}

/// A page that links to another page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkingPage {
    /// Path of the linking page
    pub path: TreePath,
    /// Its title
    pub title: String,
    /// Line with its first link; a long line is cut around the link
    pub context: String,
}

impl Operation for ListBacklinks {
    const NAME: &'static str = "backlinks";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/backlinks")];
    const TOOL: bool = true;
    type Output = Vec<LinkingPage>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<LinkingPage>, Fault> {
        require_path("path", &self.path)?;
        let (index, below) = (cx.index_at_seq(self.at_least)?, cx.caller.permissions.visible_root());
        let (backlinks, total) = index.backlinks(&self.path, &below, self.limit.get())?;
        cx.set_total(total, backlinks.len());
        let selection = |svcfs_index::Backlink { path, title, context }| LinkingPage { path, title, context };
        Ok(backlinks.into_iter().map(selection).collect())
    }
}

/// Get the full link graph: all pages and links
///
/// Several links from one page to another are one edge. Links to files that are not pages and
/// broken links are left out. To analyze the graph use `graph_analytics`; for one page use
/// `graph_walk`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetGraph {
    /// Return only this many pages, those with the highest PageRank, and the links between them;
    /// default: all
    #[serde(default)]
    pub limit: Option<NonZeroUsize>,
}

/// Pages and the links between them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageGraph {
    /// The pages in path order
    pub nodes: Vec<PageNode>,
    /// The links
    pub edges: Vec<LinkEdge>,
}

/// A page of the graph.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageNode {
    /// Its path
    pub id: TreePath,
    /// Its title
    pub title: String,
    /// Top-level directory of the page; empty for pages at the root
    pub group: String,
}

/// A link of the graph.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkEdge {
    /// Path of the linking page
    pub source: TreePath,
    /// Path of the linked page
    pub target: TreePath,
}

impl Operation for GetGraph {
    const NAME: &'static str = "graph";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/graph")];
    const LANE: Lane = Lane::Slow;
    type Output = PageGraph;
    fn run(self, cx: &OperationContext<'_>) -> Result<PageGraph, Fault> {
        Ok(self.selection(cx)?.to_graph())
    }
    fn run_to_json(self, cx: &OperationContext<'_>) -> Result<JsonText, Fault> {
        JsonText::from_pieces(GraphText::new(self.selection(cx)?)?)
    }
}

impl GetGraph {
    fn selection(&self, cx: &OperationContext<'_>) -> Result<GraphSelection, Fault> {
        Ok(GraphSelection::new(analysis(cx)?, self.limit.map_or(usize::MAX, NonZeroUsize::get)))
    }
}

/// Get link graph statistics: important pages, clusters, bridges and orphans
///
/// Use it to find central pages and pages that need links. PageRank and betweenness follow the
/// direction of links; components and clusters ignore it. Returns totals and lists of at most
/// `limit` entries; all orphans are listed.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AnalyzeGraph {
    /// Maximum number of entries in each list except `orphans`
    #[serde(default)]
    pub limit: Limit<20, { MAX_LISTED as u32 }>,
}

/// Statistics of the link graph.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GraphStatistics {
    /// Number of pages
    pub total_nodes: usize,
    /// Number of pairs of pages of which the first links to the second
    pub total_edges: usize,
    /// Number of connected components, ignoring the direction of links
    pub components: usize,
    /// Number of pages in the largest component
    pub largest_component_size: usize,
    /// Pages that no other page links to, in path order
    pub orphans: Vec<TreePath>,
    /// Pages with the highest PageRank, highest first
    pub top_pages: Vec<RankedPage>,
    /// Communities of at least two pages, largest first
    pub clusters: Vec<PageCluster>,
    /// Pages with the highest betweenness, highest first
    pub bridges: Vec<BridgePage>,
    /// Number of pages sampled as path sources in a large graph: the values of `bridges` are then
    /// estimates
    #[serde(skip_serializing_if = "Option::is_none")]
    pub betweenness_sample: Option<usize>,
}

/// A page and its PageRank.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RankedPage {
    /// Path of the page
    pub path: TreePath,
    /// Probability that a random walk along links is at this page; the sum over all pages is 1
    pub pagerank: f64,
    /// Number of pages that link to it
    pub in_degree: usize,
    /// Number of pages it links to
    pub out_degree: usize,
}

/// A community of pages.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PageCluster {
    /// Number of the community, as in `graph_communities`
    pub id: usize,
    /// Number of pages
    pub size: usize,
    /// Page with the highest PageRank
    pub top_page: TreePath,
    /// Words that are frequent in its titles and rare elsewhere, at most five
    pub keywords: Vec<String>,
}

/// A page that connects other pages.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BridgePage {
    /// Path of the page
    pub path: TreePath,
    /// Share of all pairs of other pages whose shortest path leads through it, 0 to 1
    pub betweenness: f64,
}

impl Operation for AnalyzeGraph {
    const NAME: &'static str = "graph_analytics";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/graph/analytics")];
    const TOOL: bool = true;
    const LANE: Lane = Lane::Slow;
    type Output = GraphStatistics;
    fn run(self, cx: &OperationContext<'_>) -> Result<GraphStatistics, Fault> {
        let (analysis, limit) = (analysis(cx)?, self.limit.get());
        let graph = analysis.graph();
        let to_ranked = |node: &GraphNode| RankedPage {
            path: analysis.path(*node),
            pagerank: analysis.ranks()[*node as usize],
            in_degree: graph.links_in(*node).len(),
            out_degree: graph.links_out(*node).len(),
        };
        let betweenness = analysis.betweenness();
        let bridge = |node: &GraphNode| BridgePage {
            path: analysis.path(*node),
            betweenness: betweenness.values[*node as usize],
        };
        Ok(GraphStatistics {
            total_nodes: graph.len(),
            total_edges: graph.link_count(),
            components: analysis.components().count,
            largest_component_size: analysis.components().largest,
            orphans: graph
                .nodes()
                .filter(|node| graph.links_in(*node).is_empty())
                .map(|node| analysis.path(node))
                .collect(),
            top_pages: analysis.by_rank().iter().take(limit).map(to_ranked).collect(),
            clusters: analysis.clusters().iter().take(limit).cloned().collect(),
            bridges: betweenness.highest.iter().take(limit).map(bridge).collect(),
            betweenness_sample: betweenness.sample_size,
        })
    }
}

/// List pages by their importance in the link graph
///
/// Use it to rank all pages. Returns PageRank (highest first), betweenness and link counts.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListCentrality {
    /// Maximum number of pages; default: all
    #[serde(default)]
    pub limit: Option<NonZeroUsize>,
}

/// Pages by importance.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CentralityReport {
    /// The pages, highest PageRank first
    pub pages: Vec<PageCentrality>,
    /// Number of pages sampled as path sources in a large graph: `betweenness` is then an estimate
    #[serde(skip_serializing_if = "Option::is_none")]
    pub betweenness_sample: Option<usize>,
}

/// A page and its centrality.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageCentrality {
    /// Path of the page
    pub path: TreePath,
    /// Probability that a random walk along links is at this page; the sum over all pages is 1
    pub pagerank: f64,
    /// Share of all pairs of other pages whose shortest path leads through it, 0 to 1
    pub betweenness: f64,
    /// Number of pages that link to it
    pub in_degree: usize,
    /// Number of pages it links to
    pub out_degree: usize,
}

impl Operation for ListCentrality {
    const NAME: &'static str = "graph_centrality";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/graph/centrality")];
    const TOOL: bool = true;
    const LANE: Lane = Lane::Slow;
    type Output = CentralityReport;
    fn run(self, cx: &OperationContext<'_>) -> Result<CentralityReport, Fault> {
        let analysis = analysis(cx)?;
        let (graph, betweenness) = (analysis.graph(), analysis.betweenness());
        let to_centrality = |node: &GraphNode| PageCentrality {
            path: analysis.path(*node),
            pagerank: analysis.ranks()[*node as usize],
            betweenness: betweenness.values[*node as usize],
            in_degree: graph.links_in(*node).len(),
            out_degree: graph.links_out(*node).len(),
        };
        let limit = self.limit.map_or(usize::MAX, NonZeroUsize::get);
        let pages = analysis.by_rank().iter().take(limit).map(to_centrality).collect();
        Ok(CentralityReport { pages, betweenness_sample: betweenness.sample_size })
    }
}

/// List communities: groups of densely linked pages
///
/// Use it to find topics. Every page is in exactly one community; a page without links is its own.
/// The result depends only on the links. Returns the pages of each community, largest first.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListCommunities {}

/// All communities.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommunityList {
    /// The communities, largest first
    pub communities: Vec<PageCommunity>,
}

/// A community of pages.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageCommunity {
    /// Number of the community, from 0
    pub id: usize,
    /// Its pages in path order
    pub pages: Vec<TreePath>,
}

impl Operation for ListCommunities {
    const NAME: &'static str = "graph_communities";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/graph/communities")];
    const TOOL: bool = true;
    const LANE: Lane = Lane::Slow;
    type Output = CachedJson<CommunityList>;
    fn run(self, cx: &OperationContext<'_>) -> Result<CachedJson<CommunityList>, Fault> {
        let analysis = analysis(cx)?;
        let mut cached = analysis.communities_json.lock();
        if let Some(json) = &*cached {
            return Ok(json.clone());
        }
        let pages = |nodes: &[GraphNode]| nodes.iter().map(|node| analysis.path(*node)).collect();
        let communities = analysis.communities().enumerate();
        let communities = communities.map(|(id, nodes)| PageCommunity { id, pages: pages(nodes) }).collect();
        let json = CachedJson::of(&CommunityList { communities })?;
        *cached = Some(json.clone()).filter(|json| json.bytes() <= MAX_CACHED_BYTES);
        Ok(json)
    }
}

/// Find the shortest path of links from one page to another
///
/// Use it to see how two pages are related. Links are followed in their direction. Returns the
/// pages on the path; 404 if there is none.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "from": "index.md", "to": "notes/today.md" }))]
pub struct FindPath {
    /// First page of the path
    pub from: TreePath,
    /// Last page of the path
    pub to: TreePath,
}

/// A path along links.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkPath {
    /// The pages on the path, including both ends; each links to the next
    pub path: Vec<TreePath>,
}

impl Operation for FindPath {
    const NAME: &'static str = "graph_path";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/graph/path")];
    const TOOL: bool = true;
    type Output = LinkPath;
    fn run(self, cx: &OperationContext<'_>) -> Result<LinkPath, Fault> {
        let analysis = analysis(cx)?;
        let (from, to) = (node(&analysis, "from", &self.from)?, node(&analysis, "to", &self.to)?);
        let path = paths::shortest(analysis.graph(), (from, to))
            .ok_or_else(|| Fault::not_found(format!("no path of links from `{}` to `{}`", self.from, self.to)))?;
        Ok(LinkPath { path: path.into_iter().map(|node| analysis.path(node)).collect() })
    }
}

/// List the neighbors of a page: links, backlinks and siblings
///
/// Use it to find related pages. Returns the pages it links to, the pages that link to it, and
/// pages in the same directory or with the same tag.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListNeighbors {
    /// Path of the page
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// Include pages of the same directory and pages that share a tag
    #[serde(default = "default_true")]
    pub include_siblings: bool,
    /// Maximum number of entries in each list; the degrees give the full number of links
    #[serde(default)]
    pub limit: Limit<100, 10_000>,
}

/// The neighbors of a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageNeighborhood {
    /// Path of the page
    pub path: TreePath,
    /// Pages it links to, in path order
    pub links_out: Vec<TreePath>,
    /// Pages that link to it, in path order
    pub links_in: Vec<TreePath>,
    /// Pages of the same directory, in path order, then other pages that share a tag; at most
    /// `limit` of each kind
    pub siblings: Vec<SiblingPage>,
    /// Share of all other pages that it links to or is linked from, 0 to 1
    pub hub_score: f64,
    /// Number of pages that link to it
    pub in_degree: usize,
    /// Number of pages it links to
    pub out_degree: usize,
}

impl Operation for ListNeighbors {
    const NAME: &'static str = "graph_walk";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/graph/walk")];
    const TOOL: bool = true;
    type Output = PageNeighborhood;
    fn run(self, cx: &OperationContext<'_>) -> Result<PageNeighborhood, Fault> {
        let (analysis, limit) = (analysis(cx)?, self.limit.get());
        let (graph, node) = (analysis.graph(), node(&analysis, "path", &self.path)?);
        let (outgoing, incoming) = (graph.links_out(node), graph.links_in(node));
        let to_paths = |nodes: &[GraphNode]| nodes.iter().take(limit).map(|node| analysis.path(*node)).collect();
        let mut siblings = Vec::new();
        if self.include_siblings {
            siblings.extend(siblings::in_directory(graph, node).take(limit));
            siblings.extend(siblings::with_tags(graph, analysis.tags(), node).take(limit));
        }
        Ok(PageNeighborhood {
            links_out: to_paths(outgoing),
            links_in: to_paths(incoming),
            siblings,
            hub_score: siblings::hub_score((outgoing, incoming), graph.len()),
            in_degree: incoming.len(),
            out_degree: outgoing.len(),
            path: self.path,
        })
    }
}

fn node(analysis: &GraphAnalysis, field: &str, path: &TreePath) -> Result<GraphNode, Fault> {
    require_path(field, path)?;
    analysis
        .graph()
        .node(path)
        .ok_or_else(|| Fault::not_found(format!("page not found: {path}")).with_missing_path(path))
}
