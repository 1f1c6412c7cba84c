//! Full build of the graph from all rows.
//!
//! Invariant: all connections read one snapshot, and the result does not depend on which connection
//! reads what. Reading takes two thirds of the first query after a start, and most of it runs in
//! parallel.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;
use rusqlite::Connection;
use svcfs_base::TreePath;
use svcfs_text::links::{LinkResolution, candidates};

use super::facts::PageFacts;
use super::incremental::{GraphReader, text_of};
use super::{GraphNode, GraphPage, LinkGraph, Neighbours, node_of};
use crate::links::{AllNames, AllPages, LinkTarget, PageOrdinal, link_kind};
use crate::pages::tree_path;
use crate::{IndexError, assets};

const PAGES: &str = "SELECT id, title, frontmatter, word_count, metadata, path FROM pages ORDER BY id";
/// The links of a range of pages, grouped by page.
const LINKS: &str = "SELECT page, is_wiki, target FROM links WHERE page BETWEEN ?1 AND ?2 ORDER BY page, position";

/// Pages per task of reading links: few enough that all threads end at about the same time.
const PAGES_OF_TASK: usize = if cfg!(test) { 3 } else { 4096 };

#[derive(Default)]
struct OrderedPages {
    ids: Vec<i64>,
    /// Not shared before the graph is complete.
    pages: Vec<Arc<GraphPage>>,
}

pub(super) fn build(connections: &mut [Connection], resolution: LinkResolution) -> Result<LinkGraph, IndexError> {
    let (pages, names) = (Mutex::default(), Mutex::new(None));
    run_parallel(connections, 2, |connection, task| {
        match task {
            0 => *names.lock() = Some((AllNames::read(connection, resolution)?, assets::all(connection)?)),
            _ => *pages.lock() = read_pages(connection)?,
        }
        Ok(())
    })?;
    let (OrderedPages { ids, mut pages }, Some((mut names, assets))) = (pages.into_inner(), names.into_inner()) else {
        return Err(IndexError::Damaged("a connection read nothing".to_owned()));
    };

    let paths: Vec<TreePath> = pages.iter().map(|page| page.path.clone()).collect();
    let mut by_path: Vec<PageOrdinal> = (0..node_of(pages.len())).collect();
    by_path.sort_unstable_by(|a, b| paths[*a as usize].cmp(&paths[*b as usize]));
    let all = AllPages { assets: &assets, ids: &ids, paths: &paths, by_path: &by_path };
    names.prepare(all);

    let tasks: Vec<_> = pages.chunks_mut(PAGES_OF_TASK).map(|pages| Mutex::new((pages, Vec::new()))).collect();
    run_parallel(connections, tasks.len(), |connection, task| {
        let (pages, links) = &mut *tasks[task].lock();
        *links = read_links(connection, (all, &names), (task * PAGES_OF_TASK, pages))?;
        Ok(())
    })?;
    let links: Vec<Vec<(PageOrdinal, PageOrdinal)>> = tasks.into_iter().map(|task| task.into_inner().1).collect();
    drop(names);
    Ok(build_in_path_order(&pages, &by_path, &links))
}

fn read_pages(connection: &Connection) -> Result<OrderedPages, IndexError> {
    let mut pages = OrderedPages::default();
    let mut reader = GraphReader::default();
    let mut statement = connection.prepare_cached(PAGES)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        pages.ids.push(row.get(0)?);
        pages.pages.push(Arc::new(reader.page(row, tree_path(text_of(row, 5)?)?)?));
    }
    Ok(pages)
}

/// Reads the links of some pages, starting with ordinal `first`; returns resolved links and records
/// facts in the pages.
fn read_links(
    connection: &Connection,
    (all, names): (AllPages<'_>, &AllNames),
    (first, pages): (usize, &mut [Arc<GraphPage>]),
) -> Result<Vec<(PageOrdinal, PageOrdinal)>, IndexError> {
    let ids = &all.ids[first..first + pages.len()];
    let (Some(from), Some(to)) = (ids.first(), ids.last()) else { return Ok(Vec::new()) };
    let mut links = Vec::new();
    let mut same_folder = SameFolder::default();
    let mut statement = connection.prepare_cached(LINKS)?;
    let mut rows = statement.query([from, to])?;
    let mut at = 0;
    while let Some(row) = rows.next()? {
        let page: i64 = row.get(0)?;
        while ids.get(at).is_some_and(|id| *id < page) {
            at += 1;
        }
        if ids.get(at) != Some(&page) {
            continue;
        }
        let (source, from) = (first + at, all.paths[first + at].as_str());
        let (is_wiki, target) = (row.get(1)?, text_of(row, 2)?);
        let resolved = same_folder.get_or_resolve(from, (is_wiki, target), || {
            names.resolve(all, from, &candidates(from, link_kind(is_wiki), target))
        });
        let mut ignored = PageFacts::default();
        let facts = Arc::get_mut(&mut pages[at]).map_or(&mut ignored, |page| &mut page.facts);
        match resolved {
            Some(target) => {
                facts.add_link();
                if let LinkTarget::Page(target) = target {
                    links.push((node_of(source), target));
                }
            }
            None => facts.add_unresolved(from, is_wiki, target),
        }
    }
    Ok(links)
}

/// Caches link targets per folder: a link has the same target in all pages of a folder, and those
/// are mostly adjacent.
#[derive(Default)]
struct SameFolder {
    folder: String,
    /// Markdown links, then wiki links.
    cache: [HashMap<Box<str>, Option<LinkTarget>>; 2],
}

impl SameFolder {
    fn get_or_resolve(
        &mut self,
        from: &str,
        (is_wiki, target): (bool, &str),
        resolve_target: impl FnOnce() -> Option<LinkTarget>,
    ) -> Option<LinkTarget> {
        let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
        if folder != self.folder {
            folder.clone_into(&mut self.folder);
            self.cache.iter_mut().for_each(HashMap::clear);
        }
        let cache = &mut self.cache[usize::from(is_wiki)];
        if let Some(resolved) = cache.get(target) {
            return *resolved;
        }
        let resolved = resolve_target();
        cache.insert(target.into(), resolved);
        resolved
    }
}

/// Sorts pages by path and builds the graph; links are in order of their source.
fn build_in_path_order(
    pages: &[Arc<GraphPage>],
    by_path: &[PageOrdinal],
    links: &[Vec<(PageOrdinal, PageOrdinal)>],
) -> LinkGraph {
    let mut nodes: Vec<GraphNode> = vec![0; pages.len()];
    for (node, ordinal) in (0..).zip(by_path) {
        nodes[*ordinal as usize] = node;
    }
    let mut starts = Vec::with_capacity(pages.len() + 1);
    let mut targets = Vec::with_capacity(links.iter().map(Vec::len).sum());
    for (source, target) in links.iter().flatten() {
        starts.resize(*source as usize + 1, targets.len());
        targets.push(nodes[*target as usize]);
    }
    starts.resize(pages.len() + 1, targets.len());

    let mut links_out = Neighbours::with_capacity(pages.len(), targets.len());
    let mut neighbours = Vec::new();
    for ordinal in by_path {
        let at = *ordinal as usize;
        neighbours.extend_from_slice(&targets[starts[at]..starts[at + 1]]);
        links_out.push(&mut neighbours);
    }
    LinkGraph::new(by_path.iter().map(|ordinal| Arc::clone(&pages[*ordinal as usize])).collect(), links_out)
}

/// Runs all tasks, on one thread per connection: the current one and further ones if they start.
fn run_parallel(
    connections: &mut [Connection],
    tasks: usize,
    work: impl Fn(&Connection, usize) -> Result<(), IndexError> + Sync,
) -> Result<(), IndexError> {
    let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
    let run = |connection: &Connection| {
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                return;
            }
            if let Err(error) = work(connection, task) {
                next.store(tasks, Ordering::Relaxed);
                failure.lock().get_or_insert(error);
                return;
            }
        }
    };
    let Some((first, rest)) = connections.split_first_mut() else { return Ok(()) };
    thread::scope(|scope| {
        for other in rest.iter_mut().take(tasks.saturating_sub(1)) {
            let run = &run;
            // If no thread starts, the current one runs all tasks.
            let _not_needed = thread::Builder::new().name("graph".to_owned()).spawn_scoped(scope, move || run(other));
        }
        run(first);
    });
    failure.into_inner().map_or(Ok(()), Err)
}
