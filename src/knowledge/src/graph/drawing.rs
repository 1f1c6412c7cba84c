//! The whole graph, written out.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use svcfs_base::TreePath;
use svcfs_index::Node;

use super::Analysis;

/// A [`Drawing`](super::operations::Drawing) that is written out from the graph itself, without a copy of every path.
pub(super) struct Drawn<'a> {
    analysis: &'a Analysis,
    /// Which pages it has; all of them where none is left out.
    is_shown: Option<Vec<bool>>,
}

impl<'a> Drawn<'a> {
    /// The pages with the highest PageRank, so many of them, and the links between them.
    pub(super) fn of(analysis: &'a Analysis, limit: usize) -> Self {
        let count = analysis.graph().len();
        let is_shown = (limit < count).then(|| {
            let mut is_shown = vec![false; count];
            analysis.by_rank().iter().take(limit).for_each(|node| is_shown[*node as usize] = true);
            is_shown
        });
        Self { analysis, is_shown }
    }

    fn shows(&self, node: Node) -> bool {
        self.is_shown.as_ref().is_none_or(|is_shown| is_shown[node as usize])
    }

    fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        self.analysis.graph().nodes().filter(|node| self.shows(*node))
    }
}

/// The entries of one list of a [`Drawn`].
struct DrawnDots<'a>(&'a Drawn<'a>);
struct DrawnEdges<'a>(&'a Drawn<'a>);

/// As [`Dot`](super::operations::Dot).
#[derive(Serialize)]
struct DotRef<'a> {
    id: &'a TreePath,
    title: &'a str,
    group: &'a str,
}

/// As [`Edge`](super::operations::Edge).
#[derive(Serialize)]
struct EdgeRef<'a> {
    source: &'a TreePath,
    target: &'a TreePath,
}

impl Serialize for Drawn<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut drawing = serializer.serialize_struct("Drawing", 2)?;
        drawing.serialize_field("nodes", &DrawnDots(self))?;
        drawing.serialize_field("edges", &DrawnEdges(self))?;
        drawing.end()
    }
}

impl Serialize for DrawnDots<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let graph = self.0.analysis.graph();
        serializer.collect_seq(self.0.nodes().map(|node| {
            let page = graph.page(node);
            let group = page.path.as_str().split_once('/').map_or("", |(top, _)| top);
            DotRef { id: &page.path, title: &page.title, group }
        }))
    }
}

impl Serialize for DrawnEdges<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let graph = self.0.analysis.graph();
        serializer.collect_seq(self.0.nodes().flat_map(|node| {
            let source = &graph.page(node).path;
            let targets = graph.links_out(node).iter().filter(|to| self.0.shows(**to));
            targets.map(move |to| EdgeRef { source, target: &graph.page(*to).path })
        }))
    }
}
