//! The link graph: every page, and every link between pages.
//!
//! Invariant: a graph is immutable. Readers get the graph of the current state of the index; after
//! a change the next one is derived from the last, and only links affected by the change are
//! resolved again.
//!
//! Why is it not stored in a table? A page that is created, removed or renamed would then have to
//! update, within its transaction, the rows of every page whose links mean its name. Here the cost
//! is paid on read, once.

mod cache;
mod facts;
mod full_build;
mod incremental;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use svcfs_base::TreePath;

use crate::pages::range_below;

pub(crate) use cache::GraphCache;
pub use facts::{PageFacts, ReviewDay, UnresolvedLink};

/// A page of a [`LinkGraph`], as its index in path order.
pub type GraphNode = u32;

/// A page in the graph.
#[derive(Debug, PartialEq, Eq)]
pub struct GraphPage {
    /// Path of the page.
    pub path: TreePath,
    /// Its title.
    pub title: String,
    /// Its distinct tags as written, of frontmatter and text.
    pub tags: Vec<Arc<str>>,
    /// Facts for quality checks.
    pub facts: PageFacts,
}

/// Every page of the index and every link between two of them. Several links between two pages
/// count as one; links of a page to itself and broken links are left out.
#[derive(Debug, PartialEq, Eq)]
pub struct LinkGraph {
    pages: Vec<Arc<GraphPage>>,
    links_out: Neighbours,
    links_in: Neighbours,
}

/// Adjacency list (compressed sparse rows): for each node, its distinct neighbours in order.
#[derive(Debug, PartialEq, Eq)]
struct Neighbours {
    /// Start of each node's list, and the end of the last list.
    starts: Vec<u32>,
    nodes: Vec<GraphNode>,
}

impl LinkGraph {
    /// Number of pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }
    /// True without any page.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
    /// Number of links between pages.
    pub fn link_count(&self) -> usize {
        self.links_out.nodes.len()
    }
    /// Every node, in path order.
    pub fn nodes(&self) -> Range<GraphNode> {
        0..node_of(self.pages.len())
    }
    /// The page of a node.
    pub fn page(&self, node: GraphNode) -> &GraphPage {
        &self.pages[node as usize]
    }
    /// The node of a page; `None` for an unknown path.
    pub fn node(&self, path: &TreePath) -> Option<GraphNode> {
        self.pages.binary_search_by(|page| page.path.cmp(path)).ok().map(node_of)
    }
    /// The pages below a directory, recursively.
    pub fn nodes_below(&self, directory: &TreePath) -> Range<GraphNode> {
        let (from, to) = range_below(directory);
        let first = |end: &str| node_of(self.pages.partition_point(|page| page.path.as_str() < end));
        first(&from)..first(&to)
    }
    /// The graph of the pages below a directory and the links between them.
    #[must_use]
    pub fn subgraph(&self, directory: &TreePath) -> Self {
        let nodes = self.nodes_below(directory);
        let (first, end) = (nodes.start as usize, nodes.end as usize);
        let max_links = self.links_out.starts[end] - self.links_out.starts[first];
        let mut links_out = Neighbours::with_capacity(nodes.len(), max_links as usize);
        let mut targets = Vec::new();
        for node in nodes.clone() {
            let inside = self.links_out(node).iter().filter(|to| nodes.contains(to));
            targets.extend(inside.map(|to| to - nodes.start));
            links_out.push(&mut targets);
        }
        Self::new(self.pages[first..end].to_vec(), links_out)
    }
    /// Memory of the links in bytes. Pages are shared with earlier and later graphs.
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

    /// The other pages that link to a page, in path order; empty for an unknown page.
    pub fn linking_pages(&self, path: &TreePath) -> impl ExactSizeIterator<Item = &TreePath> {
        let sources = self.node(path).map_or(&[][..], |node| self.links_in(node));
        sources.iter().map(|source| &self.page(*source).path)
    }

    fn new(pages: Vec<Arc<GraphPage>>, links_out: Neighbours) -> Self {
        let links_in = links_out.reversed();
        Self { pages, links_out, links_in }
    }
}

impl Neighbours {
    fn with_capacity(nodes: usize, links: usize) -> Self {
        let mut starts = Vec::with_capacity(nodes + 1);
        starts.push(0);
        Self { starts, nodes: Vec::with_capacity(links) }
    }

    /// Adds the list of the next node from `targets`, which may be unsorted and have duplicates; a
    /// self-link is dropped. Clears `targets`.
    fn push(&mut self, targets: &mut Vec<GraphNode>) {
        let own = node_of(self.starts.len() - 1);
        targets.sort_unstable();
        targets.dedup();
        self.nodes.extend(targets.drain(..).filter(|target| *target != own));
        self.starts.push(node_of(self.nodes.len()));
    }

    fn of(&self, node: GraphNode) -> &[GraphNode] {
        let index = node as usize;
        &self.nodes[self.starts[index] as usize..self.starts[index + 1] as usize]
    }

    /// The same links in the opposite direction.
    fn reversed(&self) -> Self {
        let count = self.starts.len() - 1;
        let mut starts = vec![0; count + 1];
        for node in &self.nodes {
            starts[*node as usize + 1] += 1;
        }
        for index in 0..count {
            starts[index + 1] += starts[index];
        }
        let mut next = starts.clone();
        let mut nodes = vec![0; self.nodes.len()];
        for source in 0..node_of(count) {
            for node in self.of(source) {
                let slot = &mut next[*node as usize];
                nodes[*slot as usize] = source;
                *slot += 1;
            }
        }
        Self { starts, nodes }
    }
}

/// Converts an index. SQLite's limits are lower, so an overflow cannot happen.
fn node_of(index: usize) -> GraphNode {
    GraphNode::try_from(index).unwrap_or(GraphNode::MAX)
}
