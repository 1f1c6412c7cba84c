//! How one page is doing.

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, TreePath};
use svcfs_index::{OutLink, PageRow, ReviewDay};
use svcfs_text::links::{LinkKind, candidates};

use super::findings::{FindingKind, PageFinding};
use super::{ReviewPolicy, find_disputes, linked_files, messages, survey};
use crate::kernel::OperationContext;

/// How one page is doing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageHealth {
    /// Which page
    pub path: TreePath,
    /// Words of its text, frontmatter left out
    pub word_count: usize,
    /// Links in it to pages and other files of the tree
    pub link_count: usize,
    /// Other pages that link to it
    pub backlink_count: usize,
    /// Whole days since it was changed last
    pub days_since_update: i64,
    /// What is wrong with it; empty when nothing is
    pub issues: Vec<PageIssue>,
}

/// Something wrong with a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageIssue {
    /// What it is
    #[serde(rename = "type")]
    pub kind: FindingKind,
    /// The same in words
    pub message: String,
}

/// Looks at one page.
///
/// # Errors
/// `NotFound` when there is no such page; those of the index.
pub fn check_page(cx: &OperationContext<'_>, path: TreePath) -> Result<PageHealth, Fault> {
    let index = cx.index();
    let page = index.page(&path)?.ok_or_else(|| Fault::file_not_found(&path))?;
    let links = index.links_out(&path)?;
    let reach = &cx.caller.permissions;
    let backlinks = index.linking_pages(&path)?.iter().filter(|source| reach.covers(source)).count();
    let review = ReviewPolicy::new(cx.now(), cx.settings().janitor.stale_days);
    let mut findings = findings(cx, &review, (&path, &page), &links)?;
    if backlinks == 0 && !survey::is_entrance(&path) {
        findings.push(PageFinding::new(path.clone(), FindingKind::Orphan, messages::ORPHAN));
    }
    for dispute in find_disputes(index, reach)?.into_iter().filter(|dispute| dispute.pages.contains(&path)) {
        findings.push(PageFinding::new(path.clone(), FindingKind::Contradiction, dispute.details));
    }
    findings.sort_by_key(|finding| finding.kind);
    let days = (cx.now().as_second() - page.modified.as_second()).max(0) / 86_400;
    Ok(PageHealth {
        word_count: page.word_count,
        link_count: links.len(),
        backlink_count: backlinks,
        days_since_update: days,
        issues: findings.into_iter().map(|PageFinding { kind, message, .. }| PageIssue { kind, message }).collect(),
        path,
    })
}

/// What is wrong with a page by its own text and links, whatever other pages say. What the caller may not see is not there.
pub(super) fn findings(
    cx: &OperationContext<'_>,
    review: &ReviewPolicy,
    (path, page): (&TreePath, &PageRow),
    links: &[OutLink],
) -> Result<Vec<PageFinding>, Fault> {
    let reach = &cx.caller.permissions;
    let mut findings = Vec::new();
    let mut find = |kind, message: String| findings.push(PageFinding::new(path.clone(), kind, message));
    if let Some((due, days)) = ReviewDay::from_metadata(&page.frontmatter).and_then(|day| review.check_overdue(day)) {
        find(FindingKind::Stale, messages::stale(due, days));
    }
    for link in links {
        let leads_to_page = link.resolved_path.as_ref().is_some_and(|target| reach.covers(target));
        if !leads_to_page && !leads_to_file(cx, path, link)? {
            find(FindingKind::BrokenLink, messages::broken_link(&link.target));
        }
    }
    if page.word_count == 0 {
        find(FindingKind::Empty, messages::EMPTY.to_owned());
    }
    if page.frontmatter.is_empty() {
        find(FindingKind::MissingFrontmatter, messages::MISSING_FRONTMATTER.to_owned());
    }
    Ok(findings)
}

/// Whether a link that leads to no page gives the address of another file of the tree, such as a picture.
fn leads_to_file(cx: &OperationContext<'_>, from: &TreePath, link: &OutLink) -> Result<bool, Fault> {
    let kind = if link.is_wiki { LinkKind::Wiki } else { LinkKind::Markdown };
    let address = candidates(from.as_str(), kind, &link.target).into_iter().next();
    let path = address.and_then(|address| TreePath::parse(&address.text).ok());
    path.filter(|path| cx.caller.permissions.covers(path))
        .map_or(Ok(false), |path| linked_files::leads_to_file(&cx.space.vfs, &path, link.is_wiki))
}
