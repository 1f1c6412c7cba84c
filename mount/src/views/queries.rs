//! `.svc/query/<query>/`: the pages that a query lists, or a saved view of that name, as links to them.

use std::sync::Arc;

use svcfs_base::{Fault, PathComponent, TreePath};

use super::links::LinkQuery;
use super::{MountViews, ViewAttributes, ViewEntry, ViewNode, ViewNodeKind, ViewNodeRef, ViewReader};

/// A query, or its beginning: a name cannot hold a slash, so that one between quotes (`FROM "notes/plans"`) goes on in the folder
/// below. What lists all queries is the empty one.
pub(super) struct QueryFolder(pub(super) String);

impl ViewNode for QueryFolder {
    fn key(&self) -> Vec<u8> {
        format!("query {}", self.0).into_bytes()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::Folder
    }

    fn is_for_all(&self) -> bool {
        false
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::folder(&TreePath::root()))
    }

    fn find(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        if self.0.is_empty() {
            return Ok(Some(Arc::new(Self(name.as_str().to_owned()))));
        }
        if self.is_open() {
            return Ok(Some(Arc::new(Self(format!("{}/{name}", self.0)))));
        }
        self.question().find(views, reader, name)
    }

    fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        if !self.0.is_empty() {
            return self.question().list(views, reader);
        }
        let saved = views.knowledge()?.saved_queries(&reader.caller)?;
        let listed = |name: String| ViewEntry { place: Arc::new(Self(name.clone())), name };
        Ok(saved.into_iter().filter(|name| PathComponent::parse(name).is_ok()).map(listed).collect())
    }
}

impl QueryFolder {
    fn question(&self) -> LinkQuery {
        LinkQuery::Query(self.0.clone())
    }

    /// Whether a quote is open at its end.
    fn is_open(&self) -> bool {
        let mut open = None;
        let mut characters = self.0.chars();
        while let Some(character) = characters.next() {
            match (open, character) {
                (Some(_), '\\') => drop(characters.next()),
                (Some(quote), _) if quote == character => open = None,
                (None, '"' | '\'') => open = Some(character),
                (Some(_) | None, _) => {}
            }
        }
        open.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_goes_on_with_a_query_whose_quotes_are_open() {
        for (text, is_open) in [
            ("LIST", false),
            ("LIST FROM \"notes", true),
            ("LIST FROM \"notes\"", false),
            ("LIST WHERE a = 'it", true),
            ("LIST WHERE a = \"it's", true),
            ("LIST WHERE a = \"it's\"", false),
            ("LIST WHERE a = \"\\\"", true),
            ("LIST WHERE a = \"\\\\\"", false),
        ] {
            assert_eq!(QueryFolder(text.to_owned()).is_open(), is_open, "{text}");
        }
    }
}
