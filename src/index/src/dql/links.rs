//! Where the links of the pages of a query lead and come from.

use std::sync::Arc;

use rusqlite::Connection;
use svcfs_base::TreePath;

use crate::links::{NameLookup, each_link};
use crate::pages::tree_path;
use crate::{Index, IndexError, LinkGraph};

/// The pages on the other ends of links, for one query about many pages: names that were looked up once are kept, and what links to
/// a page is asked of the link graph, which is had when the first page needs it. The graph may have seen writes that came after
/// the query began. Only pages at or below one path are known: the others are on no end of a link.
pub(crate) struct LinkedPages<'c> {
    index: &'c Index,
    below: Option<&'c TreePath>,
    names: NameLookup<'c>,
    graph: Option<Arc<LinkGraph>>,
}

impl<'c> LinkedPages<'c> {
    pub(crate) fn new(index: &'c Index, connection: &'c Connection, below: Option<&'c TreePath>) -> Self {
        Self { index, below, names: NameLookup::new(connection), graph: None }
    }

    /// The pages that a page links to, each once, in the order of its links.
    pub(crate) fn targets(&mut self, path: &str) -> Result<Vec<String>, IndexError> {
        let mut found: Vec<String> = Vec::new();
        let below = self.below;
        each_link(&mut self.names, path, |_, target| {
            if let Some(target) = target.filter(|target| !found.iter().any(|known| known == target))
                && is_seen(&tree_path(target)?, below)
            {
                found.push(target.to_owned());
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The other pages that link to a page, in path order, each once.
    pub(crate) fn sources(&mut self, path: &str) -> Result<Vec<String>, IndexError> {
        let (path, below) = (tree_path(path)?, self.below);
        let sources = self.graph()?.linking_pages(&path).filter(|source| is_seen(source, below));
        Ok(sources.map(ToString::to_string).collect())
    }

    /// How many other pages link to a page.
    pub(crate) fn count_sources(&mut self, path: &str) -> Result<usize, IndexError> {
        let (path, below) = (tree_path(path)?, self.below);
        Ok(self.graph()?.linking_pages(&path).filter(|source| is_seen(source, below)).count())
    }

    fn graph(&mut self) -> Result<&LinkGraph, IndexError> {
        let graph = match self.graph.take() {
            Some(graph) => graph,
            None => self.index.graph()?,
        };
        Ok(self.graph.insert(graph))
    }
}

fn is_seen(path: &TreePath, below: Option<&TreePath>) -> bool {
    below.is_none_or(|below| path.is_under(below))
}
