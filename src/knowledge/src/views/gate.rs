//! Who may have what answered in a page.
//!
//! One rule: an answer tells nobody more than they may ask. The server answers for a page by itself, long after whoever wrote it is
//! gone: what their key reaches is therefore looked at when the query is written.

use svcfs_base::{Caller, Fault, Kind};
use svcfs_text::frontmatter;
use svcfs_vfs::{ProposedFile, WriteGate};

use super::computed_pages;

/// Refuses queries of computed pages that look beyond the folder that their writer's key is limited to.
#[derive(Debug, Clone, Copy)]
pub struct ViewGate;

impl WriteGate for ViewGate {
    fn check(&self, caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        let Some(folder) = caller.permissions.folder.as_ref().filter(|_| proposal.path.is_page()) else {
            return Ok(());
        };
        let asked_by = |content: &[u8]| {
            let map = frontmatter::parse(&String::from_utf8_lossy(content)).map;
            computed_pages::is_computed(&map).then(|| map.get(computed_pages::QUERY).cloned())
        };
        let Some(asked) = asked_by(&proposal.content) else { return Ok(()) };
        // What somebody else had answered there may stay.
        if proposal.old_content.as_deref().and_then(asked_by).is_some_and(|before| before == asked) {
            return Ok(());
        }
        // What is no query is never answered.
        let query = asked.as_ref().and_then(|query| svcfs_index::DqlQuery::parse(query.as_str()?).ok());
        let own = format!("{folder}/");
        if query.is_none_or(|query| query.path_prefix().is_some_and(|prefix| prefix.starts_with(&own))) {
            return Ok(());
        }
        let told = format!(
            "path outside key scope: the query of `{}` looks beyond `{folder}`, to which this key is limited; begin it with `FROM \"{own}\"`, \
             and leave out what looks at links",
            proposal.path
        );
        Err(Fault::new(Kind::Forbidden, told))
    }
}
