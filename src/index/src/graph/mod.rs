//! The link graph: every page, and which page leads to which (contract 4.6).
//!
//! One rule: a graph is made once and never changed. A question gets the one that stands for everything the index has taken in;
//! after a change the next one is made from the last, and only the links that the change is about are looked up again.
//!
//! Why not rows of a table? Because a page that comes, goes or is renamed would then have to touch the rows of every page whose
//! links mean its name, in the transaction of a write; here it costs who asks, once, and only if somebody asks.

mod build;
mod cache;
mod facts;
mod incremental;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use svcfs_base::TreePath;

use crate::pages::range_below;

pub(crate) use cache::GraphCache;
pub use facts::{PageFacts, ReviewDay, UnresolvedLink};

/// A page of a [`Graph`], by its place in the order of paths.
pub type GraphNode = u32;

/// A page, as a graph knows it.
#[derive(Debug, PartialEq, Eq)]
pub struct GraphPage {
    /// Where it is.
    pub path: TreePath,
    /// Its title.
    pub title: String,
    /// The tags of its frontmatter, as written there, each once; a lone tag counts as a list of one.
    pub tags: Vec<Arc<str>>,
    /// What its text and its links say of its condition.
    pub facts: PageFacts,
}

/// Every page of the index and every link between two of them. However often a page links to another, it is one link; links of a
/// page to itself and links that lead to no page are not in it.
#[derive(Debug, PartialEq, Eq)]
pub struct LinkGraph {
    pages: Vec<Arc<GraphPage>>,
    links_out: Neighbours,
    links_in: Neighbours,
}

/// For each node, others: in order, each once.
#[derive(Debug, PartialEq, Eq)]
struct Neighbours {
    /// Where the list of each node begins, and, last, where the last one ends.
    starts: Vec<u32>,
    nodes: Vec<GraphNode>,
}

impl LinkGraph {
    /// How many pages there are.
    pub fn len(&self) -> usize {
        self.pages.len()
    }
    /// True without any page.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
    /// How many pairs of pages there are of which the first links to the second.
    pub fn link_count(&self) -> usize {
        self.links_out.nodes.len()
    }
    /// Every node, in the order of paths.
    pub fn nodes(&self) -> Range<GraphNode> {
        0..node_of(self.pages.len())
    }
    /// The page of a node of this graph.
    pub fn page(&self, node: GraphNode) -> &GraphPage {
        &self.pages[node as usize]
    }
    /// The node of a page; none when the index has no page there.
    pub fn node(&self, path: &TreePath) -> Option<GraphNode> {
        self.pages.binary_search_by(|page| page.path.cmp(path)).ok().map(node_of)
    }
    /// The pages below a directory, however deep.
    pub fn nodes_below(&self, directory: &TreePath) -> Range<GraphNode> {
        let (from, to) = range_below(directory);
        let first = |end: &str| node_of(self.pages.partition_point(|page| page.path.as_str() < end));
        first(&from)..first(&to)
    }
    /// The graph of the pages below a directory and of the links between them, as if there were no others.
    #[must_use]
    pub fn subgraph(&self, directory: &TreePath) -> Self {
        let there = self.nodes_below(directory);
        let (first, end) = (there.start as usize, there.end as usize);
        let most = self.links_out.starts[end] - self.links_out.starts[first];
        let mut links_out = Neighbours::with_capacity(there.len(), most as usize);
        let mut others = Vec::new();
        for node in there.clone() {
            let kept = self.links_out(node).iter().filter(|to| there.contains(to));
            others.extend(kept.map(|to| to - there.start));
            links_out.push(&mut others);
        }
        Self::new(self.pages[first..end].to_vec(), links_out)
    }
    /// Bytes of memory that its links take; its pages are shared with the graphs before and after it.
    pub fn memory_bytes(&self) -> usize {
        let of = |neighbours: &Neighbours| (neighbours.starts.len() + neighbours.nodes.len()) * size_of::<GraphNode>();
        self.pages.len() * size_of::<Arc<GraphPage>>() + of(&self.links_out) + of(&self.links_in)
    }
    /// The pages that a page links to.
    pub fn links_out(&self, node: GraphNode) -> &[GraphNode] {
        self.links_out.of(node)
    }
    /// The pages that link to a page.
    pub fn links_in(&self, node: GraphNode) -> &[GraphNode] {
        self.links_in.of(node)
    }

    /// The other pages that link to a page, in path order; none when there is no such page.
    pub fn linking_pages(&self, path: &TreePath) -> impl ExactSizeIterator<Item = &TreePath> {
        let sources = self.node(path).map_or(&[][..], |node| self.links_in(node));
        sources.iter().map(|source| &self.page(*source).path)
    }

    /// The graph of pages in the order of their paths, and of the links of each.
    fn new(pages: Vec<Arc<GraphPage>>, links_out: Neighbours) -> Self {
        let links_in = links_out.turned();
        Self { pages, links_out, links_in }
    }
}

impl Neighbours {
    fn with_capacity(nodes: usize, links: usize) -> Self {
        let mut starts = Vec::with_capacity(nodes + 1);
        starts.push(0);
        Self { starts, nodes: Vec::with_capacity(links) }
    }

    /// Adds the list of the next node, which may come in any order and with repetitions; the node itself is left out.
    fn push(&mut self, others: &mut Vec<GraphNode>) {
        let own = node_of(self.starts.len() - 1);
        others.sort_unstable();
        others.dedup();
        self.nodes.extend(others.drain(..).filter(|other| *other != own));
        self.starts.push(node_of(self.nodes.len()));
    }

    fn of(&self, node: GraphNode) -> &[GraphNode] {
        let at = node as usize;
        &self.nodes[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// For each node, those whose lists it is in.
    fn turned(&self) -> Self {
        let count = self.starts.len() - 1;
        let mut starts = vec![0; count + 1];
        for node in &self.nodes {
            starts[*node as usize + 1] += 1;
        }
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut nodes = vec![0; self.nodes.len()];
        for source in 0..node_of(count) {
            for node in self.of(source) {
                let place = &mut next[*node as usize];
                nodes[*place as usize] = source;
                *place += 1;
            }
        }
        Self { starts, nodes }
    }
}

/// A place in one of the lists. SQLite itself stops at fewer pages, and the links of a tree are bounded by its bytes: a count that
/// does not fit is not met, and would stop here.
fn node_of(place: usize) -> GraphNode {
    GraphNode::try_from(place).unwrap_or(GraphNode::MAX)
}
