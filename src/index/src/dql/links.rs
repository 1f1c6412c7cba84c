//! Links of the pages of a query.

use std::sync::Arc;

use rusqlite::Connection;

use crate::links::{NameLookup, for_each_link};
use crate::pages::tree_path;
use crate::visible::PageScope;
use crate::{Index, IndexError, LinkGraph};

/// Link targets and sources, for one query over many pages. Names are cached; sources come from the
/// link graph, which is loaded for the first page that needs it. The graph may include writes after
/// the start of the query. Pages outside `scope` are treated as absent.
pub(crate) struct LinkedPages<'c> {
    index: &'c Index,
    scope: PageScope<'c>,
    names: NameLookup<'c>,
    graph: Option<Arc<LinkGraph>>,
}

impl<'c> LinkedPages<'c> {
    pub(crate) fn new(index: &'c Index, connection: &'c Connection, scope: PageScope<'c>) -> Self {
        Self { index, scope, names: index.names(connection), graph: None }
    }

    /// The distinct pages that a page links to, in the order of its links.
    pub(crate) fn targets(&mut self, path: &str) -> Result<Vec<String>, IndexError> {
        let mut targets: Vec<String> = Vec::new();
        let scope = self.scope;
        for_each_link(&mut self.names, path, |_, target| {
            let is_new = |target: &&str| !targets.iter().any(|existing| existing == target);
            if let Some(target) = target.filter(is_new) {
                let path = tree_path(target)?;
                if path.is_page() && scope.includes(&path) {
                    targets.push(target.to_owned());
                }
            }
            Ok(())
        })?;
        Ok(targets)
    }

    /// The other pages that link to a page, in path order.
    pub(crate) fn sources(&mut self, path: &str) -> Result<Vec<String>, IndexError> {
        let (path, scope) = (tree_path(path)?, self.scope);
        let sources = self.graph()?.linking_pages(&path).filter(|source| scope.includes(source));
        Ok(sources.map(ToString::to_string).collect())
    }

    pub(crate) fn count_sources(&mut self, path: &str) -> Result<usize, IndexError> {
        let (path, scope) = (tree_path(path)?, self.scope);
        Ok(self.graph()?.linking_pages(&path).filter(|source| scope.includes(source)).count())
    }

    fn graph(&mut self) -> Result<&LinkGraph, IndexError> {
        let graph = match self.graph.take() {
            Some(graph) => graph,
            None => self.index.graph()?,
        };
        Ok(self.graph.insert(graph))
    }
}
