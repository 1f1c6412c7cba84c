//! The whole graph as text, written while it is sent.

use std::sync::Arc;

use svcfs_base::Fault;
use svcfs_index::GraphNode;

use super::GraphAnalysis;
use super::operations::{LinkEdge, PageGraph, PageNode};
use crate::kernel::{JsonPieces, ListSeparator, PIECE_BYTES, write_json};

/// Which pages of a graph are shown.
pub(super) struct GraphSelection {
    analysis: Arc<GraphAnalysis>,
    /// For each node whether it is; none where all of them are.
    nodes: Option<Vec<bool>>,
}

impl GraphSelection {
    /// All pages; with a limit, so many of them, those with the highest PageRank.
    pub(super) fn of(analysis: Arc<GraphAnalysis>, limit: usize) -> Self {
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

    /// The title of a page and the topmost directory it lies in.
    fn labels(&self, node: GraphNode) -> (&str, &str) {
        let page = self.analysis.graph().page(node);
        (&page.title, page.path.as_str().split_once('/').map_or("", |(top, _)| top))
    }

    /// These pages and the links between them.
    pub(super) fn drawing(&self) -> PageGraph {
        let (graph, path) = (self.analysis.graph(), |node| self.analysis.path(node));
        let shown = || graph.nodes().filter(|node| self.has(*node));
        let dot = |node| {
            let (title, group) = self.labels(node);
            PageNode { id: path(node), title: title.to_owned(), group: group.to_owned() }
        };
        let edges = |source| {
            let targets = graph.links_out(source).iter().filter(|target| self.has(**target));
            targets.map(move |target| LinkEdge { source: path(source), target: path(*target) })
        };
        PageGraph { nodes: shown().map(dot).collect(), edges: shown().flat_map(edges).collect() }
    }
}

/// A [`Drawing`] that is written piece by piece. The graph is never changed, so that all pieces are of one state.
pub(super) struct GraphText {
    shown: GraphSelection,
    paths: QuotedPaths,
    next: GraphCursor,
    separator: ListSeparator,
}

/// What is written next.
enum GraphCursor {
    /// This page, or those after it.
    Dot(GraphNode),
    /// This link of this page, or those after it.
    Edge(GraphNode, usize),
}

impl GraphText {
    pub(super) fn of(shown: GraphSelection) -> Result<Self, Fault> {
        Ok(Self {
            paths: QuotedPaths::of(&shown)?,
            shown,
            next: GraphCursor::Dot(0),
            separator: ListSeparator::default(),
        })
    }

    /// Writes pages from this one on; where to go on.
    fn write_dots(&mut self, mut node: GraphNode, text: &mut Vec<u8>, end: usize) -> Result<GraphCursor, Fault> {
        let count = self.shown.analysis.graph().nodes().end;
        while node < count && text.len() < end {
            if self.shown.has(node) {
                let (title, group) = self.shown.labels(node);
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
            return Ok(GraphCursor::Dot(node));
        }
        text.extend_from_slice(br#"],"edges":["#);
        self.separator = ListSeparator::default();
        Ok(GraphCursor::Edge(0, 0))
    }

    /// Writes links from this one on; where to go on.
    fn write_edges(&mut self, (mut node, mut link): (GraphNode, usize), text: &mut Vec<u8>, end: usize) -> GraphCursor {
        let graph = self.shown.analysis.graph();
        while node < graph.nodes().end && text.len() < end {
            let links = if self.shown.has(node) { graph.links_out(node) } else { &[] };
            let Some(target) = links.get(link) else {
                (node, link) = (node + 1, 0);
                continue;
            };
            link += 1;
            if self.shown.has(*target) {
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
        if matches!(self.next, GraphCursor::Dot(0)) {
            text.extend_from_slice(br#"{"nodes":["#);
        }
        if let GraphCursor::Dot(node) = self.next {
            self.next = self.write_dots(node, text, end)?;
        }
        if let GraphCursor::Edge(node, link) = self.next {
            self.next = self.write_edges((node, link), text, end);
        }
        let has_more = match self.next {
            GraphCursor::Dot(_) => true,
            GraphCursor::Edge(node, _) => node < self.shown.analysis.graph().nodes().end,
        };
        if !has_more {
            text.extend_from_slice(b"]}");
        }
        Ok(has_more)
    }

    fn memory_bytes(&self) -> usize {
        let shown = self.shown.nodes.as_ref().map_or(0, Vec::len);
        self.paths.text.len()
            + self.paths.ends.len() * size_of::<usize>()
            + shown
            + self.shown.analysis.graph().memory_bytes()
    }
}

/// The paths of pages as they are written, one behind the other: most of them are written many times.
struct QuotedPaths {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl QuotedPaths {
    fn of(shown: &GraphSelection) -> Result<Self, Fault> {
        let graph = shown.analysis.graph();
        let mut paths = Self { text: Vec::new(), ends: Vec::with_capacity(graph.len()) };
        for node in graph.nodes() {
            if shown.has(node) {
                write_json(&mut paths.text, graph.page(node).path.as_str())?;
            }
            paths.ends.push(paths.text.len());
        }
        Ok(paths)
    }

    fn get(&self, node: GraphNode) -> &[u8] {
        let at = node as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start..self.ends[at]]
    }
}
