//! The pages around a page.

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::TreePath;
use svcfs_index::{GraphNode, LinkGraph};

/// Why a page that is not linked stands beside another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SiblingRelation {
    /// Both lie in the same directory
    SiblingDir,
    /// Both have the tag in `shared_tag`
    SiblingTag,
}

/// A page beside another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SiblingPage {
    /// Where it is
    pub path: TreePath,
    /// In what way
    pub relation: SiblingRelation,
    /// The first tag of the page asked about that it has too
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_tag: Option<String>,
}

/// The other pages of a page's directory, in order.
pub(super) fn in_directory<'g>(graph: &'g LinkGraph, node: GraphNode) -> impl Iterator<Item = SiblingPage> + 'g {
    let directory = graph.page(node).path.parent().unwrap_or_else(TreePath::root);
    let start = if directory.is_root() { 0 } else { directory.as_str().len() + 1 };
    // Those of deeper directories stand among them.
    let is_beside = move |other: &GraphNode| *other != node && !graph.page(*other).path.as_str()[start..].contains('/');
    graph.nodes_below(&directory).filter(is_beside).map(|other| SiblingPage {
        path: graph.page(other).path.clone(),
        relation: SiblingRelation::SiblingDir,
        shared_tag: None,
    })
}

/// The pages of each tag, in order.
pub(super) type PagesByTag = HashMap<Arc<str>, Vec<GraphNode>>;

/// The pages of each tag of a graph.
pub(super) fn tags(graph: &LinkGraph) -> PagesByTag {
    let mut tags = PagesByTag::new();
    for node in graph.nodes() {
        for tag in &graph.page(node).tags {
            tags.entry(Arc::clone(tag)).or_default().push(node);
        }
    }
    tags
}

/// The other pages with a tag of this one's: those of its first tag in order, then those of the next; each once.
pub(super) fn with_tags<'g>(
    graph: &'g LinkGraph,
    tags: &'g PagesByTag,
    node: GraphNode,
) -> impl Iterator<Item = SiblingPage> + 'g {
    let own = &graph.page(node).tags;
    own.iter().enumerate().flat_map(move |(at, tag)| {
        let has_earlier = move |other: GraphNode| own[..at].iter().any(|tag| graph.page(other).tags.contains(tag));
        let pages = tags.get(tag).map_or(&[][..], Vec::as_slice).iter().copied();
        pages.filter(move |other| *other != node && !has_earlier(*other)).map(move |other| SiblingPage {
            path: graph.page(other).path.clone(),
            relation: SiblingRelation::SiblingTag,
            shared_tag: Some(tag.to_string()),
        })
    })
}

/// The share of all other pages, of so many with itself, that a page links to or is linked from, 0 to 1.
pub(super) fn hub_score((to, from): (&[GraphNode], &[GraphNode]), pages: usize) -> f64 {
    let both = to.iter().filter(|other| from.binary_search(other).is_ok()).count();
    let others = pages.saturating_sub(1);
    if others == 0 { 0.0 } else { (to.len() + from.len() - both) as f64 / others as f64 }
}
