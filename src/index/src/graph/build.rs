//! A graph made from the rows of the index: from all of them, or from the last graph and what changed since.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, Row};
use serde_json::Value;
use svcfs_base::TreePath;
use svcfs_text::links::candidates;

use super::facts::Fields;
use super::kept::Changes;
use super::{Graph, GraphPage, Neighbours, Node, node_of};
use crate::IndexError;
use crate::links::{Names, SOURCES, each_link, kind_of};
use crate::pages::tree_path;

/// Every page.
const PAGES: &str = "SELECT id, title, frontmatter, word_count, path FROM pages";
/// Every link, those of a page together.
const LINKS: &str = "SELECT page, is_wiki, target FROM links ORDER BY page, position";
/// One page.
const PAGE: &str = "SELECT id, title, frontmatter, word_count FROM pages WHERE path = ?1";

/// When more than this share of all pages (and as many) have to be read again, reading all is quicker: they are then read in the
/// order they lie in.
const MOST_READ_AGAIN: usize = 8;

/// A page of the last graph that is none any more.
const GONE: Node = Node::MAX;

/// Reads every page and every link.
pub(super) fn fresh(connection: &Connection) -> Result<Graph, IndexError> {
    let mut pages = Vec::new();
    let mut reader = Reader::default();
    let mut statement = connection.prepare_cached(PAGES)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        pages.push((id, reader.page(row, tree_path(text_of(row, 4)?)?)?));
    }
    // The order of the rows is that in which the pages came.
    pages.sort_unstable_by(|(_, one), (_, other)| one.path.cmp(&other.path));
    let links = links_of_all(connection, &mut pages)?;

    let mut links_out = Neighbours::with_capacity(pages.len(), links.len());
    let mut links = links.into_iter().peekable();
    let mut others = Vec::new();
    for node in 0..node_of(pages.len()) {
        others.extend(std::iter::from_fn(|| links.next_if(|(from, _)| *from == node).map(|(_, to)| to)));
        links_out.push(&mut others);
    }
    Ok(Graph::new(pages.into_iter().map(|(_, page)| Arc::new(page)).collect(), links_out))
}

/// Where links lead that pages of one folder have. From all of them a link leads to the same page, and pages of a folder mostly lie together.
#[derive(Default)]
struct SameFolder {
    folder: String,
    /// Of wiki links and of those by address.
    known: [HashMap<Box<str>, Option<Node>>; 2],
}

impl SameFolder {
    fn get_or_look_up(
        &mut self,
        from: &str,
        (is_wiki, target): (bool, &str),
        look_up: impl FnOnce() -> Result<Option<Node>, IndexError>,
    ) -> Result<Option<Node>, IndexError> {
        let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
        if folder != self.folder {
            folder.clone_into(&mut self.folder);
            self.known.iter_mut().for_each(HashMap::clear);
        }
        let known = &mut self.known[usize::from(is_wiki)];
        if let Some(found) = known.get(target) {
            return Ok(*found);
        }
        let found = look_up()?;
        known.insert(target.into(), found);
        Ok(found)
    }
}

/// Every link that leads to a page, in order; each page learns about its own.
fn links_of_all(connection: &Connection, pages: &mut [(i64, GraphPage)]) -> Result<Vec<(Node, Node)>, IndexError> {
    let paths: Vec<TreePath> = pages.iter().map(|(_, page)| page.path.clone()).collect();
    let by_id: HashMap<i64, Node> = pages.iter().map(|(id, _)| *id).zip(0..).collect();
    let by_path: HashMap<&str, Node> = paths.iter().map(TreePath::as_str).zip(0..).collect();
    let path_of = |id| by_id.get(&id).map(|node| paths[*node as usize].as_str());
    let mut names = Names::all(connection, path_of)?;
    let mut links = Vec::new();
    let mut led = SameFolder::default();
    let mut statement = connection.prepare_cached(LINKS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Some(source) = by_id.get(&row.get(0)?) else { continue };
        let (from, facts) = (paths[*source as usize].as_str(), &mut pages[*source as usize].1.facts);
        let (is_wiki, target) = (row.get(1)?, text_of(row, 2)?);
        let wanted = || candidates(from, kind_of(is_wiki), target);
        let found = led.get_or_look_up(from, (is_wiki, target), || {
            Ok(names.lead_to(from, &wanted())?.and_then(|path| by_path.get(path).copied()))
        })?;
        match found {
            Some(target) => {
                facts.add_link();
                links.push((*source, target));
            }
            None => facts.add_unresolved(is_wiki, target, &wanted()),
        }
    }
    links.sort_unstable();
    Ok(links)
}

/// The next graph after `last`: only pages that changed, and those with a link that may mean a name that changed, are read again.
/// None when that would be so many that all may as well be.
pub(super) fn carried(
    connection: &Connection,
    (last, changes): (&Graph, &Changes),
) -> Result<Option<Graph>, IndexError> {
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
    let mut names = Names::new(connection);
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
    fn at(names: &mut Names<'_>, path: &TreePath) -> Result<Option<Self>, IndexError> {
        let mut statement = names.connection().prepare_cached(PAGE)?;
        let mut rows = statement.query([path.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let mut page = Reader::default().page(row, path.clone())?;
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
enum Origin<'r> {
    /// The last graph, where it was this node.
    Last(Node),
    Read(&'r PageRead),
}

/// The last graph with the pages that were read in their places; none takes a page out.
fn joined(last: &Graph, read: &BTreeMap<TreePath, Option<PageRead>>) -> Graph {
    let mut origins = Vec::with_capacity(last.len() + read.len());
    // What the nodes of the last graph are now; the order stays.
    let mut now = Vec::with_capacity(last.len());
    let mut done = 0;
    let keep = |origins: &mut Vec<Origin<'_>>, now: &mut Vec<Node>, from: usize, to: usize| {
        now.extend((node_of(origins.len())..).take(to - from));
        origins.extend((node_of(from)..node_of(to)).map(Origin::Last));
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
        origins.extend(page.as_ref().map(Origin::Read));
    }
    keep(&mut origins, &mut now, done, last.len());

    let page = |origin: &Origin<'_>| match origin {
        Origin::Last(node) => Arc::clone(&last.pages[*node as usize]),
        Origin::Read(read) => Arc::clone(&read.page),
    };
    let pages: Vec<Arc<GraphPage>> = origins.iter().map(page).collect();
    let mut links_out = Neighbours::with_capacity(pages.len(), last.links());
    let mut others = Vec::new();
    for origin in &origins {
        match origin {
            Origin::Last(node) => {
                let targets = last.links_out(*node).iter().map(|target| now[*target as usize]);
                others.extend(targets.filter(|target| *target != GONE));
            }
            Origin::Read(read) => others.extend(
                read.leads_to
                    .iter()
                    .filter_map(|path| pages.binary_search_by(|page| page.path.as_str().cmp(path)).ok().map(node_of)),
            ),
        }
        links_out.push(&mut others);
    }
    Graph::new(pages, links_out)
}

/// Reads pages, which share the texts of their tags.
#[derive(Default)]
struct Reader {
    tags: HashSet<Arc<str>>,
}

impl Reader {
    /// The page of a row of [`PAGES`] or [`PAGE`], without its links.
    fn page(&mut self, row: &Row<'_>, path: TreePath) -> Result<GraphPage, IndexError> {
        let (title, json): (String, &str) = (row.get(1)?, text_of(row, 2)?);
        let fields = Fields::read(json, &path)?;
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

fn text_of<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, IndexError> {
    Ok(row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?)
}
