//! Incremental build: derives a graph from the last one and the changed rows.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, Row};
use serde_json::Value;
use svcfs_base::TreePath;
use svcfs_text::links::candidates;

use super::cache::GraphChanges;
use super::facts::GraphFields;
use super::{GraphNode, GraphPage, LinkGraph, Neighbours, node_of};
use crate::IndexError;
use crate::links::{NameLookup, SOURCES, each_link, kind_of};
use crate::pages::tree_path;

const PAGE: &str = "SELECT id, title, frontmatter, word_count FROM pages WHERE path = ?1";

/// If more than one in this many pages (plus as many) must be read again, a full build is faster,
/// because it reads in row order.
const MOST_READ_AGAIN: usize = 8;

/// Stands for a page of the last graph that was removed.
const GONE: GraphNode = GraphNode::MAX;

/// The graph after `last`. Reads only pages that changed, and pages with a link that may mean a
/// changed name. `None` when a full build is cheaper.
pub(super) fn carried(
    connection: &Connection,
    (last, changes): (&LinkGraph, &GraphChanges),
) -> Result<Option<LinkGraph>, IndexError> {
    let most = last.len() / MOST_READ_AGAIN + MOST_READ_AGAIN;
    let mut to_read: BTreeSet<TreePath> = changes.pages.iter().cloned().collect();
    let mut statement = connection.prepare_cached(SOURCES)?;
    for name in &changes.names {
        for source in statement.query_map([name], |row| row.get::<_, String>(0))? {
            to_read.insert(tree_path(&source?)?);
        }
        if to_read.len() > most {
            break;
        }
    }
    if to_read.len() > most {
        return Ok(None);
    }
    let mut names = NameLookup::new(connection);
    let mut read = BTreeMap::new();
    for path in to_read {
        let page = PageRead::at(&mut names, &path)?;
        read.insert(path, page);
    }
    Ok(Some(joined(last, &read)))
}

/// A page that was read again.
struct PageRead {
    page: Arc<GraphPage>,
    /// The targets of its links, with duplicates.
    leads_to: Vec<String>,
}

impl PageRead {
    fn at(names: &mut NameLookup<'_>, path: &TreePath) -> Result<Option<Self>, IndexError> {
        let mut statement = names.connection().prepare_cached(PAGE)?;
        let mut rows = statement.query([path.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let mut page = GraphReader::default().page(row, path.clone())?;
        let mut leads_to = Vec::new();
        each_link(names, path.as_str(), |row, target| {
            let Some(target) = target else {
                let (is_wiki, target) = (row.get(0)?, text_of(row, 1)?);
                page.facts.add_unresolved(is_wiki, target, &candidates(path.as_str(), kind_of(is_wiki), target));
                return Ok(());
            };
            page.facts.add_link();
            leads_to.push(target.to_owned());
            Ok(())
        })?;
        Ok(Some(Self { page: Arc::new(page), leads_to }))
    }
}

/// The source of a node.
enum NodeOrigin<'r> {
    /// Unchanged; its node in the last graph.
    Last(GraphNode),
    Read(&'r PageRead),
}

/// Merges the pages read again into the last graph; `None` removes a page.
fn joined(last: &LinkGraph, read: &BTreeMap<TreePath, Option<PageRead>>) -> LinkGraph {
    let mut origins = Vec::with_capacity(last.len() + read.len());
    // Maps nodes of the last graph to new nodes, in the same order.
    let mut now = Vec::with_capacity(last.len());
    let mut done = 0;
    let keep = |origins: &mut Vec<NodeOrigin<'_>>, now: &mut Vec<GraphNode>, from: usize, to: usize| {
        now.extend((node_of(origins.len())..).take(to - from));
        origins.extend((node_of(from)..node_of(to)).map(NodeOrigin::Last));
    };
    for (path, page) in read {
        let found = last.pages.binary_search_by(|page| page.path.cmp(path));
        let (Ok(at) | Err(at)) = found;
        keep(&mut origins, &mut now, done, at);
        done = at;
        if found.is_ok() {
            now.push(page.as_ref().map_or(GONE, |_| node_of(origins.len())));
            done += 1;
        }
        origins.extend(page.as_ref().map(NodeOrigin::Read));
    }
    keep(&mut origins, &mut now, done, last.len());

    let page = |origin: &NodeOrigin<'_>| match origin {
        NodeOrigin::Last(node) => Arc::clone(&last.pages[*node as usize]),
        NodeOrigin::Read(read) => Arc::clone(&read.page),
    };
    let pages: Vec<Arc<GraphPage>> = origins.iter().map(page).collect();
    let mut links_out = Neighbours::with_capacity(pages.len(), last.link_count());
    let mut others = Vec::new();
    for origin in &origins {
        match origin {
            NodeOrigin::Last(node) => {
                let targets = last.links_out(*node).iter().map(|target| now[*target as usize]);
                others.extend(targets.filter(|target| *target != GONE));
            }
            NodeOrigin::Read(read) => others.extend(
                read.leads_to
                    .iter()
                    .filter_map(|path| pages.binary_search_by(|page| page.path.as_str().cmp(path)).ok().map(node_of)),
            ),
        }
        links_out.push(&mut others);
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
        let mut tags: Vec<Arc<str>> = Vec::new();
        each_text(fields.tags.as_ref(), |tag| {
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
fn each_text(value: Option<&Value>, mut found: impl FnMut(Cow<'_, str>)) {
    let several = match value {
        Some(Value::Array(several)) => several,
        Some(one) => std::slice::from_ref(one),
        None => return,
    };
    for one in several {
        match one {
            Value::String(text) => found(text.into()),
            Value::Number(number) => found(number.to_string().into()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
        }
    }
}

pub(super) fn text_of<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, IndexError> {
    Ok(row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?)
}
