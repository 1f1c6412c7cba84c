//! Where the links of the pages of a query lead and come from.

use std::sync::Arc;

use rusqlite::Connection;

use crate::links::{Names, each_link};
use crate::pages::tree_path;
use crate::{Graph, Index, IndexError};

/// The pages on the other ends of links, for one query about many pages: names that were looked up once are kept, and what links to
/// a page is asked of the link graph, which is had when the first page needs it. The graph may have seen writes that came after
/// the query began.
pub(crate) struct Links<'c> {
    index: &'c Index,
    names: Names<'c>,
    graph: Option<Arc<Graph>>,
}

impl<'c> Links<'c> {
    pub(crate) fn new(index: &'c Index, connection: &'c Connection) -> Self {
        Self { index, names: Names::new(connection), graph: None }
    }

    /// The pages that a page links to, each once, in the order of its links.
    pub(crate) fn targets(&mut self, path: &str) -> Result<Vec<String>, IndexError> {
        let mut found: Vec<String> = Vec::new();
        each_link(&mut self.names, path, |_, target| {
            found.extend(target.filter(|target| !found.iter().any(|known| known == target)).map(str::to_owned));
            Ok(())
        })?;
        Ok(found)
    }

    /// The other pages that link to a page, in path order, each once.
    pub(crate) fn sources(&mut self, path: &str) -> Result<Vec<String>, IndexError> {
        let path = tree_path(path)?;
        Ok(self.graph()?.sources(&path).map(ToString::to_string).collect())
    }

    /// How many other pages link to a page.
    pub(crate) fn count_sources(&mut self, path: &str) -> Result<usize, IndexError> {
        let path = tree_path(path)?;
        Ok(self.graph()?.sources(&path).len())
    }

    fn graph(&mut self) -> Result<&Graph, IndexError> {
        let graph = match self.graph.take() {
            Some(graph) => graph,
            None => self.index.graph()?,
        };
        Ok(self.graph.insert(graph))
    }
}
