//! The wire shapes of the graph.

use std::num::NonZeroUsize;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{Fault, Limit, TreePath};
use svcfs_index::GraphNode;
use svcfs_work::Lane;

use super::cached_json::CachedJson;
use super::graph_text::{GraphSelection, GraphText};
use super::siblings::{self, SiblingPage};
use super::{GraphAnalysis, paths};
use crate::kernel::{
    FolderScope, JsonText, MinSeq, Operation, OperationArea, OperationContext, OperationEntry, Route, given,
};

/// Entries of a list of the analytics at most.
pub(super) const MOST_LISTED: usize = 1000;

/// Longest answer that is kept as it was written, in bytes: what is longer would take more memory than it saves time.
const MOST_KEPT: usize = 8 << 20;

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
/// Each with the line the link stands in. A path that no page links to has an empty list, whether it exists or not. Of a list that is cut
/// at `limit` it is told how many there are in all: over HTTP by `X-Total-Count`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListBacklinks {
    /// The page linked to
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// How many pages, in path order
    #[serde(default)]
    pub limit: Limit<1000, 10_000>,
    #[serde(default)]
    pub at_least: MinSeq,
}

/// A page that links to another one.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkingPage {
    /// The page that holds the link
    pub path: TreePath,
    /// Its title
    pub title: String,
    /// The line its first link stands in; a long line is cut around the link
    pub context: String,
}

impl Operation for ListBacklinks {
    const NAME: &'static str = "backlinks";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/backlinks")];
    const TOOL: bool = true;
    type Output = Vec<LinkingPage>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<LinkingPage>, Fault> {
        given("path", &self.path)?;
        let (index, below) = (cx.index_at_seq(self.at_least)?, cx.caller.permissions.visible_root());
        let (found, total) = index.backlinks(&self.path, &below, self.limit.get())?;
        cx.set_total(total, found.len());
        let shown = |svcfs_index::Backlink { path, title, context }| LinkingPage { path, title, context };
        Ok(found.into_iter().map(shown).collect())
    }
}

/// Get every page and every link between two of them
///
/// However often a page links to another, it is one edge. Links to files that are no pages, and links that lead nowhere, are left
/// out.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetGraph {
    /// Only this many pages, those with the highest PageRank, and the links between them; all when absent
    #[serde(default)]
    pub limit: Option<NonZeroUsize>,
}

/// Every page and every link between two of them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageGraph {
    /// The pages, by path
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
    /// The topmost directory it lies in; empty for pages beside those
    pub group: String,
}

/// A link of the graph.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkEdge {
    /// The page that holds the link
    pub source: TreePath,
    /// The page it leads to
    pub target: TreePath,
}

impl Operation for GetGraph {
    const NAME: &'static str = "graph";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/graph")];
    const LANE: Lane = Lane::Slow;
    type Output = PageGraph;
    fn run(self, cx: &OperationContext<'_>) -> Result<PageGraph, Fault> {
        Ok(self.shown(cx)?.drawing())
    }
    fn run_to_json(self, cx: &OperationContext<'_>) -> Result<JsonText, Fault> {
        JsonText::from_pieces(GraphText::of(self.shown(cx)?)?)
    }
}

impl GetGraph {
    fn shown(&self, cx: &OperationContext<'_>) -> Result<GraphSelection, Fault> {
        Ok(GraphSelection::of(analysis(cx)?, self.limit.map_or(usize::MAX, NonZeroUsize::get)))
    }
}

/// See how the pages hang together: the most important ones, groups, bridges and orphans
///
/// PageRank follows links in their direction; parts and groups take them both ways. The lists of pages, groups and bridges have at
/// most `limit` entries, orphans are all told.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AnalyzeGraph {
    /// Entries in each list but `orphans`
    #[serde(default)]
    pub limit: Limit<20, { MOST_LISTED as u32 }>,
}

/// How the pages hang together.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GraphStatistics {
    /// Pages
    pub total_nodes: usize,
    /// Pairs of pages of which the first links to the second
    pub total_edges: usize,
    /// Parts that no link connects, whichever way it leads
    pub components: usize,
    /// Pages of the largest of them
    pub largest_component_size: usize,
    /// Pages that no other page links to, by path
    pub orphans: Vec<TreePath>,
    /// The pages with the highest PageRank, highest first
    pub top_pages: Vec<RankedPage>,
    /// Groups of at least two pages that link to each other more than to the rest, the largest first
    pub clusters: Vec<PageCluster>,
    /// The pages through which most of the shortest ways between others lead, highest first
    pub bridges: Vec<BridgePage>,
    /// From how many pages shortest ways were looked for, when there are too many to do it from every one: the values of `bridges`
    /// are then estimates
    #[serde(skip_serializing_if = "Option::is_none")]
    pub betweenness_sample: Option<usize>,
}

/// A page and its rank.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RankedPage {
    /// Which page
    pub path: TreePath,
    /// How often somebody who follows links at random is there; all pages together are 1
    pub pagerank: f64,
    /// Pages that link to it
    pub in_degree: usize,
    /// Pages it links to
    pub out_degree: usize,
}

/// A group of pages.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PageCluster {
    /// Its number, as in the communities
    pub id: usize,
    /// How many pages it has
    pub size: usize,
    /// The one with the highest PageRank
    pub top_page: TreePath,
    /// Words of its titles that are rare elsewhere, at most five
    pub keywords: Vec<String>,
}

/// A page that connects others.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BridgePage {
    /// Which page
    pub path: TreePath,
    /// The share of all pairs of other pages whose shortest way leads through it, 0 to 1
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
        let ranked = |node: &GraphNode| RankedPage {
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
            top_pages: analysis.by_rank().iter().take(limit).map(ranked).collect(),
            clusters: analysis.clusters().iter().take(limit).cloned().collect(),
            bridges: betweenness.highest.iter().take(limit).map(bridge).collect(),
            betweenness_sample: betweenness.sample_size,
        })
    }
}

/// List pages by their importance in the graph
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListCentrality {
    /// Only this many, the highest PageRank first; all when absent
    #[serde(default)]
    pub limit: Option<NonZeroUsize>,
}

/// Pages by their importance.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CentralityReport {
    /// The pages, the highest PageRank first
    pub pages: Vec<PageCentrality>,
    /// From how many pages shortest ways were looked for, when there are too many to do it from every one: `betweenness` is then
    /// an estimate
    #[serde(skip_serializing_if = "Option::is_none")]
    pub betweenness_sample: Option<usize>,
}

/// A page and its place in the graph.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageCentrality {
    /// Which page
    pub path: TreePath,
    /// How often somebody who follows links at random is there; all pages together are 1
    pub pagerank: f64,
    /// The share of all pairs of other pages whose shortest way leads through it, 0 to 1
    pub betweenness: f64,
    /// Pages that link to it
    pub in_degree: usize,
    /// Pages it links to
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
        let central = |node: &GraphNode| PageCentrality {
            path: analysis.path(*node),
            pagerank: analysis.ranks()[*node as usize],
            betweenness: betweenness.values[*node as usize],
            in_degree: graph.links_in(*node).len(),
            out_degree: graph.links_out(*node).len(),
        };
        let limit = self.limit.map_or(usize::MAX, NonZeroUsize::get);
        let pages = analysis.by_rank().iter().take(limit).map(central).collect();
        Ok(CentralityReport { pages, betweenness_sample: betweenness.sample_size })
    }
}

/// List groups of pages that link to each other more than to the rest
///
/// Every page is in one group; a page without links is one of its own. The same links always give the same groups.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListCommunities {}

/// The groups.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommunityList {
    /// The largest first
    pub communities: Vec<PageCommunity>,
}

/// A group of pages.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageCommunity {
    /// Its number, from 0
    pub id: usize,
    /// Its pages, by path
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
        let mut retained = analysis.grouped.lock();
        if let Some(written) = &*retained {
            return Ok(written.clone());
        }
        let pages = |nodes: &[GraphNode]| nodes.iter().map(|node| analysis.path(*node)).collect();
        let communities = analysis.communities().enumerate();
        let communities = communities.map(|(id, nodes)| PageCommunity { id, pages: pages(nodes) }).collect();
        let written = CachedJson::of(&CommunityList { communities })?;
        *retained = Some(written.clone()).filter(|written| written.bytes() <= MOST_KEPT);
        Ok(written)
    }
}

/// Find the shortest way from one page to another along links
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "from": "index.md", "to": "notes/today.md" }))]
pub struct FindPath {
    /// Where the way begins
    pub from: TreePath,
    /// Where it ends
    pub to: TreePath,
}

/// A way along links.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkPath {
    /// The pages on it, both ends included; each links to the next
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
        let way = paths::shortest(analysis.graph(), (from, to))
            .ok_or_else(|| Fault::not_found(format!("no path of links leads from `{}` to `{}`", self.from, self.to)))?;
        Ok(LinkPath { path: way.into_iter().map(|node| analysis.path(node)).collect() })
    }
}

/// See what is around a page: what it links to, what links to it, and what lies beside it
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListNeighbors {
    /// The page
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// Whether pages of the same directory, and pages with a tag of this one's, are listed
    #[serde(default = "yes")]
    pub include_siblings: bool,
    /// Entries in each list; the degrees tell how many links there are
    #[serde(default)]
    pub limit: Limit<100, 10_000>,
}

fn yes() -> bool {
    true
}

/// What is around a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageNeighborhood {
    /// The page
    pub path: TreePath,
    /// Pages it links to, by path
    pub links_out: Vec<TreePath>,
    /// Pages that link to it, by path
    pub links_in: Vec<TreePath>,
    /// Pages of its directory, by path, then others with a tag of its own; those of each kind have `limit` entries at most
    pub siblings: Vec<SiblingPage>,
    /// The share of all other pages that it links to or is linked from, 0 to 1
    pub hub_score: f64,
    /// Pages that link to it
    pub in_degree: usize,
    /// Pages it links to
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
        let (out, into) = (graph.links_out(node), graph.links_in(node));
        let listed = |nodes: &[GraphNode]| nodes.iter().take(limit).map(|node| analysis.path(*node)).collect();
        let mut siblings = Vec::new();
        if self.include_siblings {
            siblings.extend(siblings::in_directory(graph, node).take(limit));
            siblings.extend(siblings::with_tags(graph, analysis.tags(), node).take(limit));
        }
        Ok(PageNeighborhood {
            links_out: listed(out),
            links_in: listed(into),
            siblings,
            hub_score: siblings::hub_score((out, into), graph.len()),
            in_degree: into.len(),
            out_degree: out.len(),
            path: self.path,
        })
    }
}

/// What the links between the pages that the caller may see say: to a key of a folder there are no others.
fn analysis(cx: &OperationContext<'_>) -> Result<Arc<GraphAnalysis>, Fault> {
    cx.space.graph.analysis(cx.index(), cx.caller.permissions.folder.as_ref())
}

/// The node of a page that the caller named.
fn node(analysis: &GraphAnalysis, field: &str, path: &TreePath) -> Result<GraphNode, Fault> {
    given(field, path)?;
    analysis.graph().node(path).ok_or_else(|| Fault::not_found(format!("page not found: {path}")))
}
