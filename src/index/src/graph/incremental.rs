//! Incremental build: derives a graph from the last one and the changed rows.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, Row};
use serde_json::Value;
use svcfs_base::TreePath;
use svcfs_text::links::LinkResolution;

use super::cache::GraphChanges;
use super::facts::GraphFields;
use super::{GraphNode, GraphPage, LinkGraph, Neighbours, node_of};
use crate::IndexError;
use crate::links::{NameLookup, SOURCES, for_each_link};
use crate::pages::tree_path;

const PAGE: &str = "SELECT id, title, frontmatter, word_count, metadata FROM pages WHERE path = ?1";

/// If more than one in this many pages (plus as many) must be read again, a full build is faster,
/// because it reads in row order.
const MAX_REREAD_SHARE: usize = 8;

/// Stands for a page of the last graph that was removed.
const REMOVED: GraphNode = GraphNode::MAX;

/// The graph after `last`. Reads only pages that changed, and pages with a link that may mean a
/// changed name. `None` when a full build is cheaper.
pub(super) fn update(
    connection: &Connection,
    resolution: LinkResolution,
    (last, changes): (&LinkGraph, &GraphChanges),
) -> Result<Option<LinkGraph>, IndexError> {
    let limit = last.len() / MAX_REREAD_SHARE + MAX_REREAD_SHARE;
    let mut to_read: BTreeSet<TreePath> = changes.pages.iter().cloned().collect();
    let mut statement = connection.prepare_cached(SOURCES)?;
    for name in &changes.names {
        for source in statement.query_map([name], |row| row.get::<_, String>(0))? {
            to_read.insert(tree_path(&source?)?);
        }
        if to_read.len() > limit {
            break;
        }
    }
    if to_read.len() > limit {
        return Ok(None);
    }
    let mut names = NameLookup::new(connection, resolution);
    let mut reread = BTreeMap::new();
    for path in to_read {
        let page = PageRead::at(&mut names, &path)?;
        reread.insert(path, page);
    }
    Ok(Some(merge(last, &reread)))
}

struct PageRead {
    page: Arc<GraphPage>,
    /// The targets of its links, with duplicates.
    targets: Vec<String>,
}

impl PageRead {
    fn at(names: &mut NameLookup<'_>, path: &TreePath) -> Result<Option<Self>, IndexError> {
        let mut statement = names.connection().prepare_cached(PAGE)?;
        let mut rows = statement.query([path.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let mut page = GraphReader::default().page(row, path.clone())?;
        let mut targets = Vec::new();
        for_each_link(names, path.as_str(), |row, target| {
            let Some(target) = target else {
                let (is_wiki, target) = (row.get(0)?, text_of(row, 1)?);
                page.facts.add_unresolved(path.as_str(), is_wiki, target);
                return Ok(());
            };
            page.facts.add_link();
            targets.push(target.to_owned());
            Ok(())
        })?;
        Ok(Some(Self { page: Arc::new(page), targets }))
    }
}

enum NodeOrigin<'r> {
    /// Unchanged; its node in the last graph.
    Last(GraphNode),
    Read(&'r PageRead),
}

/// Merges the pages read again into the last graph; `None` removes a page.
fn merge(last: &LinkGraph, reread: &BTreeMap<TreePath, Option<PageRead>>) -> LinkGraph {
    let mut origins = Vec::with_capacity(last.len() + reread.len());
    // Maps nodes of the last graph to new nodes, in the same order.
    let mut new_nodes = Vec::with_capacity(last.len());
    let mut copied = 0;
    let copy_unchanged = |origins: &mut Vec<NodeOrigin<'_>>, new_nodes: &mut Vec<GraphNode>, from: usize, to: usize| {
        new_nodes.extend((node_of(origins.len())..).take(to - from));
        origins.extend((node_of(from)..node_of(to)).map(NodeOrigin::Last));
    };
    for (path, page) in reread {
        let position = last.pages.binary_search_by(|page| page.path.cmp(path));
        let (Ok(at) | Err(at)) = position;
        copy_unchanged(&mut origins, &mut new_nodes, copied, at);
        copied = at;
        if position.is_ok() {
            new_nodes.push(page.as_ref().map_or(REMOVED, |_| node_of(origins.len())));
            copied += 1;
        }
        origins.extend(page.as_ref().map(NodeOrigin::Read));
    }
    copy_unchanged(&mut origins, &mut new_nodes, copied, last.len());

    let page = |origin: &NodeOrigin<'_>| match origin {
        NodeOrigin::Last(node) => Arc::clone(&last.pages[*node as usize]),
        NodeOrigin::Read(reread) => Arc::clone(&reread.page),
    };
    let pages: Vec<Arc<GraphPage>> = origins.iter().map(page).collect();
    let mut links_out = Neighbours::with_capacity(pages.len(), last.link_count());
    let mut neighbours = Vec::new();
    for origin in &origins {
        match origin {
            NodeOrigin::Last(node) => {
                let mapped = last.links_out(*node).iter().map(|target| new_nodes[*target as usize]);
                neighbours.extend(mapped.filter(|target| *target != REMOVED));
            }
            NodeOrigin::Read(reread) => neighbours.extend(
                reread
                    .targets
                    .iter()
                    .filter_map(|path| pages.binary_search_by(|page| page.path.as_str().cmp(path)).ok().map(node_of)),
            ),
        }
        links_out.push(&mut neighbours);
    }
    LinkGraph::new(pages, links_out)
}

/// Reads pages; equal tags share one allocation.
#[derive(Default)]
pub(super) struct GraphReader {
    tags: HashSet<Arc<str>>,
}

impl GraphReader {
    /// Reads the page of a row with the columns of [`PAGE`], without its links.
    pub(super) fn page(&mut self, row: &Row<'_>, path: TreePath) -> Result<GraphPage, IndexError> {
        let (title, json): (String, &str) = (row.get(1)?, text_of(row, 2)?);
        let fields = GraphFields::read(json, &path)?;
        let facts = fields.facts(json, &title, row.get(3)?);
        let queried = match row.get_ref(4)?.as_str_or_null().map_err(rusqlite::Error::from)? {
            Some(metadata) => GraphFields::read(metadata, &path)?,
            None => fields,
        };
        let mut tags: Vec<Arc<str>> = Vec::new();
        for_each_text(queried.tags.as_ref(), |tag| {
            if !tags.iter().any(|known| **known == *tag) {
                let shared = self.tags.get(&*tag).map_or_else(|| tag.into(), Arc::clone);
                self.tags.insert(Arc::clone(&shared));
                tags.push(shared);
            }
        });
        Ok(GraphPage { path, title, tags, facts })
    }
}

/// Calls `visit` with the texts and numbers of a value or list.
fn for_each_text(value: Option<&Value>, mut visit: impl FnMut(Cow<'_, str>)) {
    let values = match value {
        Some(Value::Array(values)) => values,
        Some(item) => std::slice::from_ref(item),
        None => return,
    };
    for item in values {
        match item {
            Value::String(text) => visit(text.into()),
            Value::Number(number) => visit(number.to_string().into()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
        }
    }
}

pub(super) fn text_of<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, IndexError> {
    Ok(row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?)
}
