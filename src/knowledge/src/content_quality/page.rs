use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, TreePath};
use svcfs_index::{OutLink, PageRow, ReviewDay};
use svcfs_text::links::{LinkKind, target_path};
use svcfs_text::lint::LintRule;

use super::findings::{FindingKind, PageFinding};
use super::{ReviewPolicy, find_disputes, linked_files, lint_errors, messages, survey};
use crate::kernel::OperationContext;
use crate::schemas::SchemaFindings;

/// The content quality of one page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageHealth {
    /// Path of the page
    pub path: TreePath,
    /// Number of words without frontmatter
    pub word_count: usize,
    /// Number of links to pages and other files of the tree
    pub link_count: usize,
    /// Number of other pages that link to it
    pub backlink_count: usize,
    /// Full days since the last change
    pub days_since_update: i64,
    /// Problems of the page; empty if there are none
    pub issues: Vec<PageIssue>,
}

/// A problem of a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageIssue {
    /// Kind of problem
    #[serde(rename = "type")]
    pub kind: FindingKind,
    /// Description of the problem
    pub message: String,
}

/// Checks one page.
///
/// # Errors
/// `NotFound` if there is no such page; those of the index.
pub fn check_page(cx: &OperationContext<'_>, path: TreePath) -> Result<PageHealth, Fault> {
    let index = cx.index();
    let page = index.page(&path)?.ok_or_else(|| Fault::file_not_found(&path))?;
    let links = index.links_out(&path)?;
    let permissions = &cx.caller.permissions;
    let backlinks = index.linking_pages(&path)?.iter().filter(|source| permissions.covers(source)).count();
    let review = ReviewPolicy::new(cx.now(), cx.settings().janitor.stale_days);
    let mut findings = findings(cx, &review, (&path, &page), &links)?;
    if backlinks == 0 && !survey::is_entry_page(&path) {
        findings.push(PageFinding::new(path.clone(), FindingKind::Orphan, messages::ORPHAN));
    }
    for dispute in find_disputes(index, permissions)?.into_iter().filter(|dispute| dispute.pages.contains(&path)) {
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

/// Findings from the page's own text and links, without other pages. Hidden files count as absent.
pub(super) fn findings(
    cx: &OperationContext<'_>,
    review: &ReviewPolicy,
    (path, page): (&TreePath, &PageRow),
    links: &[OutLink],
) -> Result<Vec<PageFinding>, Fault> {
    let permissions = &cx.caller.permissions;
    let mut findings = Vec::new();
    let mut add = |kind, message: String| findings.push(PageFinding::new(path.clone(), kind, message));
    if let Some((due, days)) = ReviewDay::from_metadata(&page.frontmatter).and_then(|day| review.check_overdue(day)) {
        add(FindingKind::Stale, messages::stale(due, days));
    }
    for link in links {
        let has_page = link.resolved_path.as_ref().is_some_and(|target| permissions.covers(target));
        if !has_page && !is_file_link(cx, path, link)? {
            let finding = PageFinding::new(path.clone(), FindingKind::BrokenLink, messages::broken_link(&link.target));
            findings.push(finding.with_severity(linked_files::severity(&link.target)));
        }
    }
    let mut add = |kind, message: String| findings.push(PageFinding::new(path.clone(), kind, message));
    if page.word_count == 0 {
        add(FindingKind::Empty, messages::EMPTY.to_owned());
    }
    let rules = &cx.space.settings.lint.rules;
    let lint_error = page.lint_error.as_ref().and_then(|text| Some((lint_errors::current_rule(text, rules)?, text)));
    if page.frontmatter.is_empty() && lint_error.is_none_or(|(rule, _)| rule != LintRule::FrontmatterYamlInvalid) {
        add(FindingKind::MissingFrontmatter, messages::MISSING_FRONTMATTER.to_owned());
    }
    if let Some((_, message)) = lint_error {
        add(FindingKind::LintError, message.clone());
    }
    if let Some(message) = SchemaFindings::of_frontmatter(cx.space, &page.frontmatter)? {
        add(FindingKind::SchemaViolation, message);
    }
    Ok(findings)
}

/// Whether a link without a target in the index is the path of a folder, or of another file.
fn is_file_link(cx: &OperationContext<'_>, from: &TreePath, link: &OutLink) -> Result<bool, Fault> {
    let kind = if link.is_wiki { LinkKind::Wiki } else { LinkKind::Markdown };
    let path = target_path(from.as_str(), kind, &link.target);
    let path = path.and_then(|path| if path.is_empty() { Some(TreePath::root()) } else { TreePath::parse(&path).ok() });
    path.filter(|path| cx.caller.permissions.covers(path))
        .map_or(Ok(false), |path| linked_files::is_link_to_file(&cx.space.vfs, &path, link.is_wiki))
}
