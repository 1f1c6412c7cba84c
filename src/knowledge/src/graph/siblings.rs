use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::TreePath;
use svcfs_index::{GraphNode, LinkGraph};
use svcfs_text::fold::fold_name;

/// How a sibling is related to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SiblingRelation {
    /// Both are in the same directory
    SiblingDir,
    /// Both have the tag in `shared_tag`
    SiblingTag,
}

/// A sibling of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SiblingPage {
    /// Path of the sibling
    pub path: TreePath,
    /// How it is related
    pub relation: SiblingRelation,
    /// The first tag of the page that the sibling has, too
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_tag: Option<String>,
}

pub(super) fn in_directory<'g>(graph: &'g LinkGraph, node: GraphNode) -> impl Iterator<Item = SiblingPage> + 'g {
    let directory = graph.page(node).path.parent().unwrap_or_else(TreePath::root);
    let start = if directory.is_root() { 0 } else { directory.as_str().len() + 1 };
    // The range also has pages of subdirectories.
    let is_sibling =
        move |other: &GraphNode| *other != node && !graph.page(*other).path.as_str()[start..].contains('/');
    graph.nodes_below(&directory).filter(is_sibling).map(|other| SiblingPage {
        path: graph.page(other).path.clone(),
        relation: SiblingRelation::SiblingDir,
        shared_tag: None,
    })
}

/// Pages by the folded form of their tags.
pub(super) type PagesByTag = HashMap<Arc<str>, Vec<GraphNode>>;

pub(super) fn tags(graph: &LinkGraph) -> PagesByTag {
    let mut tags = PagesByTag::new();
    for node in graph.nodes() {
        for tag in &graph.page(node).tags {
            let key = match fold_name(tag) {
                Cow::Borrowed(_) => Arc::clone(tag),
                Cow::Owned(folded) => folded.into(),
            };
            tags.entry(key).or_default().push(node);
        }
    }
    tags
}

/// The other pages that share a tag: first those of its first tag, then of the next; each once.
pub(super) fn with_tags<'g>(
    graph: &'g LinkGraph,
    tags: &'g PagesByTag,
    node: GraphNode,
) -> impl Iterator<Item = SiblingPage> + 'g {
    let page_tags = &graph.page(node).tags;
    page_tags.iter().enumerate().flat_map(move |(index, tag)| {
        let has = move |other: GraphNode, tag: &str| {
            graph.page(other).tags.iter().any(|known| fold_name(known) == fold_name(tag))
        };
        let has_earlier = move |other: GraphNode| page_tags[..index].iter().any(|tag| has(other, tag));
        let pages = tags.get(fold_name(tag).as_ref()).map_or(&[][..], Vec::as_slice).iter().copied();
        pages.filter(move |other| *other != node && !has_earlier(*other)).map(move |other| SiblingPage {
            path: graph.page(other).path.clone(),
            relation: SiblingRelation::SiblingTag,
            shared_tag: Some(tag.to_string()),
        })
    })
}

/// The share of all other pages that a page links to or is linked from, 0 to 1. `pages` includes
/// it.
pub(super) fn hub_score((to, from): (&[GraphNode], &[GraphNode]), pages: usize) -> f64 {
    let mutual = to.iter().filter(|other| from.binary_search(other).is_ok()).count();
    let other_pages = pages.saturating_sub(1);
    if other_pages == 0 { 0.0 } else { (to.len() + from.len() - mutual) as f64 / other_pages as f64 }
}
