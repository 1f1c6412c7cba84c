//! Pages that cannot both be right.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svcfs_base::{Fault, Permissions, TreePath};
use svcfs_index::{Index, MetaRow, PageRow};
use svcfs_text::frontmatter::Frontmatter;

/// Pages that claim the same thing, and do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PageDispute {
    /// The pages, in path order
    pub pages: Vec<TreePath>,
    /// What is disputed
    pub claim: String,
    /// Why the pages do not fit together
    pub details: String,
}

/// The keys without one of which a page disputes nothing.
const KEYS: [&str; 2] = ["source-of-truth", "contradicts"];
/// What of a status says that a page holds no more.
const GIVEN_UP: [&str; 4] = ["archived", "deprecated", "outdated", "superseded"];

/// The disputes of a tree: pages that name each other in `contradicts`, and pages that say of the same tag that they are its
/// `source-of-truth`. Pages whose status says that they hold no more dispute nothing, nor do those that the caller may not see.
///
/// # Errors
/// Those of the index.
pub fn find_disputes(index: &Index, reach: &Permissions) -> Result<Vec<PageDispute>, Fault> {
    of_rows(index, index.pages_with_keys(&KEYS)?, reach)
}

/// The disputes of pages that are known to have one of the keys.
///
/// # Errors
/// Those of the index.
pub(super) fn disputes_of(index: &Index, paths: &[TreePath], reach: &Permissions) -> Result<Vec<PageDispute>, Fault> {
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
    of_rows(index, pages, reach)
}

fn of_rows(index: &Index, mut pages: Vec<MetaRow>, reach: &Permissions) -> Result<Vec<PageDispute>, Fault> {
    pages.retain(|page| !is_given_up(page) && reach.covers(&page.path));
    let mut found = named(index, &pages)?;
    found.retain(|dispute| dispute.pages.iter().all(|page| reach.covers(page)));
    found.extend(same_truth(&pages));
    Ok(found)
}

/// What `contradicts` says: one dispute for each pair, whoever names whom.
fn named(index: &Index, pages: &[MetaRow]) -> Result<Vec<PageDispute>, Fault> {
    let mut pairs: BTreeMap<BTreeSet<TreePath>, String> = BTreeMap::new();
    for page in pages {
        for written in frontmatter(page).texts("contradicts") {
            let Some(link) = svcfs_text::links::parse_link(&written) else {
                continue;
            };
            if let Some(other) = index.resolve(&page.path, &link.target)?
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

/// Several sources of truth for one tag.
fn same_truth(pages: &[MetaRow]) -> Vec<PageDispute> {
    let mut of_tag: BTreeMap<String, Vec<TreePath>> = BTreeMap::new();
    for page in pages.iter().filter(|page| page.metadata.get("source-of-truth") == Some(&Value::Bool(true))) {
        let tags: BTreeSet<String> =
            svcfs_text::tags(&frontmatter(page)).into_iter().map(|tag| tag.to_lowercase()).collect();
        for tag in tags {
            of_tag.entry(tag).or_default().push(page.path.clone());
        }
    }
    let several = of_tag.into_iter().filter(|(_, pages)| pages.len() > 1);
    several
        .map(|(tag, pages)| PageDispute {
            details: format!("{} pages with the tag `{tag}` say `source-of-truth: true`", pages.len()),
            claim: format!("source of truth for `{tag}`"),
            pages,
        })
        .collect()
}

fn is_given_up(page: &MetaRow) -> bool {
    let status = page.metadata.get("status").and_then(Value::as_str).unwrap_or_default();
    GIVEN_UP.iter().any(|given_up| status.eq_ignore_ascii_case(given_up))
}

fn frontmatter(page: &MetaRow) -> Frontmatter {
    Frontmatter { map: page.metadata.as_object().cloned().unwrap_or_default(), error: None }
}
