//! The full graph as JSON, written while it is sent.

use std::sync::Arc;

use svcfs_base::Fault;
use svcfs_index::GraphNode;

use super::GraphAnalysis;
use super::operations::{LinkEdge, PageGraph, PageNode};
use crate::kernel::{JsonPieces, ListSeparator, PIECE_BYTES, write_json};

pub(super) struct GraphSelection {
    analysis: Arc<GraphAnalysis>,
    /// For each node whether it is included; none if all are.
    nodes: Option<Vec<bool>>,
}

impl GraphSelection {
    /// The `limit` pages with the highest PageRank.
    pub(super) fn new(analysis: Arc<GraphAnalysis>, limit: usize) -> Self {
        let count = analysis.graph().len();
        let nodes = (limit < count).then(|| {
            let mut nodes = vec![false; count];
            analysis.by_rank().iter().take(limit).for_each(|node| nodes[*node as usize] = true);
            nodes
        });
        Self { analysis, nodes }
    }

    fn has(&self, node: GraphNode) -> bool {
        self.nodes.as_ref().is_none_or(|nodes| nodes[node as usize])
    }

    /// The title of a page and its top-level directory.
    fn labels(&self, node: GraphNode) -> (&str, &str) {
        let page = self.analysis.graph().page(node);
        (&page.title, page.path.as_str().split_once('/').map_or("", |(top, _)| top))
    }

    /// The selected pages and the links between them.
    pub(super) fn to_graph(&self) -> PageGraph {
        let (graph, path) = (self.analysis.graph(), |node| self.analysis.path(node));
        let selection = || graph.nodes().filter(|node| self.has(*node));
        let to_node = |node| {
            let (title, group) = self.labels(node);
            PageNode { id: path(node), title: title.to_owned(), group: group.to_owned() }
        };
        let edges = |source| {
            let targets = graph.links_out(source).iter().filter(|target| self.has(**target));
            targets.map(move |target| LinkEdge { source: path(source), target: path(*target) })
        };
        PageGraph { nodes: selection().map(to_node).collect(), edges: selection().flat_map(edges).collect() }
    }
}

/// A [`PageGraph`] that is written in pieces. The graph is immutable: all pieces are consistent.
pub(super) struct GraphText {
    selection: GraphSelection,
    paths: QuotedPaths,
    next: GraphCursor,
    separator: ListSeparator,
}

enum GraphCursor {
    Node(GraphNode),
    Edge(GraphNode, usize),
}

impl GraphText {
    pub(super) fn new(selection: GraphSelection) -> Result<Self, Fault> {
        Ok(Self {
            paths: QuotedPaths::new(&selection)?,
            selection,
            next: GraphCursor::Node(0),
            separator: ListSeparator::default(),
        })
    }

    /// Writes pages from this one on; returns the next position.
    fn write_nodes(&mut self, mut node: GraphNode, text: &mut Vec<u8>, end: usize) -> Result<GraphCursor, Fault> {
        let count = self.selection.analysis.graph().nodes().end;
        while node < count && text.len() < end {
            if self.selection.has(node) {
                let (title, group) = self.selection.labels(node);
                self.separator.write(text);
                text.extend_from_slice(br#"{"id":"#);
                text.extend_from_slice(self.paths.get(node));
                text.extend_from_slice(br#","title":"#);
                write_json(text, title)?;
                text.extend_from_slice(br#","group":"#);
                write_json(text, group)?;
                text.push(b'}');
            }
            node += 1;
        }
        if node < count {
            return Ok(GraphCursor::Node(node));
        }
        text.extend_from_slice(br#"],"edges":["#);
        self.separator = ListSeparator::default();
        Ok(GraphCursor::Edge(0, 0))
    }

    /// Writes links from this one on; returns the next position.
    fn write_edges(&mut self, (mut node, mut link): (GraphNode, usize), text: &mut Vec<u8>, end: usize) -> GraphCursor {
        let graph = self.selection.analysis.graph();
        while node < graph.nodes().end && text.len() < end {
            let links = if self.selection.has(node) { graph.links_out(node) } else { &[] };
            let Some(target) = links.get(link) else {
                (node, link) = (node + 1, 0);
                continue;
            };
            link += 1;
            if self.selection.has(*target) {
                self.separator.write(text);
                text.extend_from_slice(br#"{"source":"#);
                text.extend_from_slice(self.paths.get(node));
                text.extend_from_slice(br#","target":"#);
                text.extend_from_slice(self.paths.get(*target));
                text.push(b'}');
            }
        }
        GraphCursor::Edge(node, link)
    }
}

impl JsonPieces for GraphText {
    fn write_next(&mut self, text: &mut Vec<u8>) -> Result<bool, Fault> {
        let end = text.len() + PIECE_BYTES;
        if matches!(self.next, GraphCursor::Node(0)) {
            text.extend_from_slice(br#"{"nodes":["#);
        }
        if let GraphCursor::Node(node) = self.next {
            self.next = self.write_nodes(node, text, end)?;
        }
        if let GraphCursor::Edge(node, link) = self.next {
            self.next = self.write_edges((node, link), text, end);
        }
        let has_more = match self.next {
            GraphCursor::Node(_) => true,
            GraphCursor::Edge(node, _) => node < self.selection.analysis.graph().nodes().end,
        };
        if !has_more {
            text.extend_from_slice(b"]}");
        }
        Ok(has_more)
    }

    fn memory_bytes(&self) -> usize {
        let selection = self.selection.nodes.as_ref().map_or(0, Vec::len);
        self.paths.text.len()
            + self.paths.ends.len() * size_of::<usize>()
            + selection
            + self.selection.analysis.graph().memory_bytes()
    }
}

/// The JSON strings of the paths, concatenated: most are written many times.
struct QuotedPaths {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl QuotedPaths {
    fn new(selection: &GraphSelection) -> Result<Self, Fault> {
        let graph = selection.analysis.graph();
        let mut paths = Self { text: Vec::new(), ends: Vec::with_capacity(graph.len()) };
        for node in graph.nodes() {
            if selection.has(node) {
                write_json(&mut paths.text, graph.page(node).path.as_str())?;
            }
            paths.ends.push(paths.text.len());
        }
        Ok(paths)
    }

    fn get(&self, node: GraphNode) -> &[u8] {
        let index = node as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }
}
