//! A page at a glance.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use svcfs_base::{ETag, Fault, Timestamp, TreePath};
use svcfs_text::Page;

use crate::files;
use crate::kernel::OperationContext;

/// What a page is about, without its text (contract 4.17).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PageSummary {
    /// Normalised path
    pub path: TreePath,
    /// `title` of the frontmatter, else the first heading, else the file name
    pub title: String,
    /// The first paragraph without markup, at most 300 characters
    pub snippet: String,
    /// The frontmatter; empty when there is none or when it cannot be read
    pub frontmatter: Map<String, Value>,
    /// Pages this page links to, each once, in the order of the links
    pub links_out: Vec<TreePath>,
    /// Targets of links that lead nowhere, as they are written
    pub links_broken: Vec<String>,
    /// Pages that link to this page, in path order
    pub links_in: Vec<TreePath>,
    /// The words of the headings, in order
    pub headings: Vec<String>,
    /// Words of the text, frontmatter left out
    pub word_count: usize,
    /// Hash of the content
    pub etag: ETag,
    /// Length in bytes
    pub size: u64,
    /// Last modification
    pub modified: Timestamp,
}

/// Looks at a page.
///
/// # Errors
/// `NotFound` when there is none; those of the index.
pub fn glance(cx: &OperationContext<'_>, path: TreePath) -> Result<PageSummary, Fault> {
    let file = super::file(cx, &path)?;
    let text = super::text(&file);
    let page = Page::parse(path.as_str(), &text);
    let index = cx.index();
    let (mut links_out, mut links_broken) = (Vec::new(), Vec::new());
    let (mut paths, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for link in page.links {
        // To a key of a folder what leads elsewhere leads nowhere: that something is there is not told either.
        let target =
            files::resolve_target(cx, index, &path, &link)?.filter(|target| cx.caller.permissions.covers(target));
        match target {
            Some(target) if target.is_page() && paths.insert(target.clone()) => links_out.push(target),
            None if targets.insert(link.target.clone()) => links_broken.push(link.target),
            Some(_) | None => {}
        }
    }
    let links_in = index.linking_pages(&path)?.into_iter().filter(|path| cx.caller.permissions.covers(path)).collect();
    Ok(PageSummary {
        title: page.title,
        snippet: page.excerpt,
        frontmatter: page.frontmatter,
        links_out,
        links_broken,
        links_in,
        headings: page.headings.into_iter().map(|heading| heading.text).collect(),
        word_count: page.word_count,
        etag: file.etag,
        size: file.content.len() as u64,
        modified: files::to_timestamp(file.attributes.modified),
        path,
    })
}
