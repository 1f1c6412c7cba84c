use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svcfs_base::{Fault, Permissions, TreePath};
use svcfs_index::{Index, MetaRow, PageRow};
use svcfs_text::frontmatter::Frontmatter;

/// Pages that make conflicting claims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PageDispute {
    /// The pages, in path order
    pub pages: Vec<TreePath>,
    /// The disputed claim
    pub claim: String,
    /// Why the pages conflict
    pub details: String,
}

/// Frontmatter keys; a page without any of them disputes nothing.
const KEYS: [&str; 2] = ["source-of-truth", "contradicts"];
const OBSOLETE_STATUSES: [&str; 4] = ["archived", "deprecated", "outdated", "superseded"];

/// The disputes of a tree: pages that name each other in `contradicts`, and pages that are
/// `source-of-truth` for the same tag. Pages with an obsolete status and pages hidden from the
/// caller are ignored.
pub fn find_disputes(index: &Index, permissions: &Permissions) -> Result<Vec<PageDispute>, Fault> {
    find_among(index, index.pages_with_keys(&KEYS)?, permissions)
}

/// The disputes among these pages, which have at least one of the keys.
pub(super) fn disputes_of(
    index: &Index,
    paths: &[TreePath],
    permissions: &Permissions,
) -> Result<Vec<PageDispute>, Fault> {
    let mut pages = Vec::with_capacity(paths.len());
    for path in paths {
        let page = index.page(path)?;
        let row = |page: PageRow| MetaRow {
            path: path.clone(),
            title: page.title,
            metadata: Value::Object(page.frontmatter),
        };
        pages.extend(page.map(row));
    }
    find_among(index, pages, permissions)
}

fn find_among(index: &Index, mut pages: Vec<MetaRow>, permissions: &Permissions) -> Result<Vec<PageDispute>, Fault> {
    pages.retain(|page| !is_obsolete(page) && permissions.covers(&page.path));
    let mut disputes = declared_contradictions(index, &pages)?;
    disputes.retain(|dispute| dispute.pages.iter().all(|page| permissions.covers(page)));
    disputes.extend(competing_sources(&pages));
    Ok(disputes)
}

/// Disputes from `contradicts`: one for each pair, whichever page names the other.
fn declared_contradictions(index: &Index, pages: &[MetaRow]) -> Result<Vec<PageDispute>, Fault> {
    let mut pairs: BTreeMap<BTreeSet<TreePath>, String> = BTreeMap::new();
    for page in pages {
        for target in frontmatter(page).texts("contradicts") {
            let Some(link) = svcfs_text::links::parse_link(&target) else {
                continue;
            };
            if let Some(other) = index.resolve(&page.path, &link.target)?
                && other.path.is_page()
                && other.path != page.path
            {
                let details = format!("`{}` says that it contradicts `{}`", page.path, other.path);
                pairs.entry([page.path.clone(), other.path].into()).or_insert(details);
            }
        }
    }
    let dispute = |(pages, details): (BTreeSet<TreePath>, String)| PageDispute {
        pages: pages.into_iter().collect(),
        claim: "contradicts".to_owned(),
        details,
    };
    Ok(pairs.into_iter().map(dispute).collect())
}

/// Disputes from several `source-of-truth` pages for one tag.
fn competing_sources(pages: &[MetaRow]) -> Vec<PageDispute> {
    let mut pages_by_tag: BTreeMap<String, Vec<TreePath>> = BTreeMap::new();
    for page in pages.iter().filter(|page| page.metadata.get("source-of-truth") == Some(&Value::Bool(true))) {
        let tags: BTreeSet<String> =
            svcfs_text::tags(&frontmatter(page)).into_iter().map(|tag| tag.to_lowercase()).collect();
        for tag in tags {
            pages_by_tag.entry(tag).or_default().push(page.path.clone());
        }
    }
    let competing = pages_by_tag.into_iter().filter(|(_, pages)| pages.len() > 1);
    competing
        .map(|(tag, pages)| PageDispute {
            details: format!("{} pages with the tag `{tag}` have `source-of-truth: true`", pages.len()),
            claim: format!("source of truth for `{tag}`"),
            pages,
        })
        .collect()
}

fn is_obsolete(page: &MetaRow) -> bool {
    let status = page.metadata.get("status").and_then(Value::as_str).unwrap_or_default();
    OBSOLETE_STATUSES.iter().any(|obsolete| status.eq_ignore_ascii_case(obsolete))
}

fn frontmatter(page: &MetaRow) -> Frontmatter {
    Frontmatter { map: page.metadata.as_object().cloned().unwrap_or_default(), error: None }
}
