//! A graph made from the last graph and the rows of what changed since.

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

/// One page.
const PAGE: &str = "SELECT id, title, frontmatter, word_count FROM pages WHERE path = ?1";

/// When more than this share of all pages (and as many) have to be read again, reading all is quicker: they are then read in the
/// order they lie in.
const MOST_READ_AGAIN: usize = 8;

/// A page of the last graph that is none any more.
const GONE: GraphNode = GraphNode::MAX;

/// The next graph after `last`: only pages that changed, and those with a link that may mean a name that changed, are read again.
/// None when that would be so many that all may as well be.
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

/// A page as it is now.
struct PageRead {
    page: Arc<GraphPage>,
    /// The pages its links lead to, as often as they do.
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

/// Where the page of a node comes from.
enum NodeOrigin<'r> {
    /// The last graph, where it was this node.
    Last(GraphNode),
    Read(&'r PageRead),
}

/// The last graph with the pages that were read in their places; none takes a page out.
fn joined(last: &LinkGraph, read: &BTreeMap<TreePath, Option<PageRead>>) -> LinkGraph {
    let mut origins = Vec::with_capacity(last.len() + read.len());
    // What the nodes of the last graph are now; the order stays.
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

/// Reads pages, which share the texts of their tags.
#[derive(Default)]
pub(super) struct GraphReader {
    tags: HashSet<Arc<str>>,
}

impl GraphReader {
    /// The page of a row that begins as those of [`PAGE`] do, without its links.
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

/// The texts and numbers of a value, or of a list of them.
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
