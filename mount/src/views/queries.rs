//! `.svc/query/<query>/`: links to the pages listed by a query or a saved query.

use std::sync::Arc;

use svcfs_base::{Fault, PathComponent};

use super::links::LinkQuery;
use super::{MountViews, ViewEntry, ViewNode, ViewNodeRef, ViewReader};

/// A query or a prefix of one: a name cannot contain a slash, so a query with an open quote (`FROM
/// "notes/plans"`) continues in a subfolder. The empty one lists the saved queries.
pub(super) struct QueryFolder(pub(super) String);

impl ViewNode for QueryFolder {
    fn key(&self) -> Vec<u8> {
        format!("query {}", self.0).into_bytes()
    }

    fn is_user_independent(&self) -> bool {
        false
    }

    fn lookup(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        if self.0.is_empty() {
            return Ok(Some(Arc::new(Self(name.as_str().to_owned()))));
        }
        if self.has_open_quote() {
            return Ok(Some(Arc::new(Self(format!("{}/{name}", self.0)))));
        }
        self.query().lookup(views, reader, name)
    }

    fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        if !self.0.is_empty() {
            return self.query().list(views, reader);
        }
        let saved = views.knowledge()?.saved_queries(&reader.caller)?;
        let listed = |name: String| ViewEntry { node: Arc::new(Self(name.clone())), name };
        Ok(saved.into_iter().filter(|name| PathComponent::parse(name).is_ok()).map(listed).collect())
    }
}

impl QueryFolder {
    fn query(&self) -> LinkQuery {
        LinkQuery::Query(self.0.clone())
    }

    /// Whether the query ends inside a quoted string.
    fn has_open_quote(&self) -> bool {
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
        for (text, has_open_quote) in [
            ("LIST", false),
            ("LIST FROM \"notes", true),
            ("LIST FROM \"notes\"", false),
            ("LIST WHERE a = 'it", true),
            ("LIST WHERE a = \"it's", true),
            ("LIST WHERE a = \"it's\"", false),
            ("LIST WHERE a = \"\\\"", true),
            ("LIST WHERE a = \"\\\\\"", false),
        ] {
            assert_eq!(QueryFolder(text.to_owned()).has_open_quote(), has_open_quote, "{text}");
        }
    }
}
