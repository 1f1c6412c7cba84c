use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use svcfs_base::{ETag, Fault, Timestamp, TreePath};
use svcfs_text::Page;

use crate::comments;
use crate::files;
use crate::kernel::OperationContext;

/// A page without its text.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PageSummary {
    /// Normalised path
    pub path: TreePath,
    /// `title` in the frontmatter, else the first level-1 heading, else the file name
    pub title: String,
    /// The first paragraph without markup, at most 300 characters
    pub snippet: String,
    /// The frontmatter; empty if there is none or it is invalid
    pub frontmatter: Map<String, Value>,
    /// Pages it links to, in order of the links, without duplicates
    pub links_out: Vec<TreePath>,
    /// Targets of broken links, as written
    pub links_broken: Vec<String>,
    /// Pages that link to it, in path order
    pub links_in: Vec<TreePath>,
    /// Texts of the headings, in order
    pub headings: Vec<String>,
    /// Number of comments that are not resolved
    pub open_comments: usize,
    /// Number of words without frontmatter
    pub word_count: usize,
    /// Hash of the content
    pub etag: ETag,
    /// Length in bytes
    pub size: u64,
    /// Last modification
    pub modified: Timestamp,
}

/// Summarizes a page.
///
/// # Errors
/// `NotFound` if there is none; those of the index.
pub fn summarize(cx: &OperationContext<'_>, path: TreePath) -> Result<PageSummary, Fault> {
    let file = super::file(cx, &path)?;
    let text = super::text(&file);
    let page = Page::parse(path.as_str(), &text);
    let index = cx.index();
    let (mut links_out, mut links_broken) = (Vec::new(), Vec::new());
    let (mut paths, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for link in page.links {
        // For a key of a folder a link to a page outside is broken: its existence is not revealed.
        let target =
            files::resolve_target(cx, index, &path, &link)?.filter(|target| cx.caller.permissions.covers(target));
        match target {
            Some(target) if target.is_page() && paths.insert(target.clone()) => links_out.push(target),
            None if targets.insert(link.target.clone()) => links_broken.push(link.target),
            Some(_) | None => {}
        }
    }
    let links_in = index.linking_pages(&path)?.into_iter().filter(|path| cx.caller.permissions.covers(path)).collect();
    // An invalid comment file does not affect its page.
    let open_comments = comments::count_open(cx.space, &path).unwrap_or_else(|fault| {
        cx.add_note(fault.message());
        0
    });
    Ok(PageSummary {
        open_comments,
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
