//! Access check for the queries of computed pages.
//!
//! Invariant: a computed page reveals no more than its author may read. The server runs the query
//! later by itself, so the author's permissions are checked when the query is written.

use svcfs_base::{Caller, Fault, Kind};
use svcfs_text::{computed_block, frontmatter};
use svcfs_vfs::{ProposedFile, WriteGate};

use super::computed_pages;

/// Refuses queries of computed pages that reach beyond the folder of the author's key.
#[derive(Debug, Clone, Copy)]
pub struct ViewGate;

impl WriteGate for ViewGate {
    fn check(&self, caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        let Some(folder) = caller.permissions.folder.as_ref().filter(|_| proposal.path.is_page()) else {
            return Ok(());
        };
        let query_of = |content: &[u8]| {
            let text = String::from_utf8_lossy(content);
            let map = frontmatter::parse(&text).map;
            let blocks =
                || computed_block::dataview_blocks(&text).into_iter().map(|block| block.query).collect::<String>();
            let query = || map.get(computed_pages::QUERY_KEY).cloned().unwrap_or_else(|| blocks().into());
            computed_pages::is_computed(&map).then(query)
        };
        let Some(query_text) = query_of(&proposal.content) else { return Ok(()) };
        // An unchanged query by another author may stay.
        if proposal.old_content.as_deref().and_then(query_of).is_some_and(|old| old == query_text) {
            return Ok(());
        }
        // An invalid query never runs.
        let query = query_text.as_str().and_then(|query| svcfs_index::DqlQuery::parse(query).ok());
        let folder_prefix = format!("{folder}/");
        if query.is_none_or(|query| query.path_prefix().is_some_and(|prefix| prefix.starts_with(&folder_prefix))) {
            return Ok(());
        }
        let message = format!(
            "path outside key scope: the query of `{}` reads pages outside `{folder}`, the folder of this key; use `FROM \"{folder_prefix}\"` \
             and no functions on links",
            proposal.path
        );
        Err(Fault::new(Kind::Forbidden, message))
    }
}
