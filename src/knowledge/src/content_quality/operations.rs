//! The wire shapes of health.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Limit, Timestamp, TreePath};
use svcfs_work::Lane;

use super::MAX_ISSUES;
use super::disputes::PageDispute;
use super::findings::{FindingKind, PageFinding};
use super::page::PageHealth;
use super::review::{OverduePage, ReviewPolicy};
use super::survey::TreeSurvey;
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, given};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Health",
    operations: &[
        OperationEntry::new::<AnalyzeTree>(),
        OperationEntry::new::<CheckPage>(),
        OperationEntry::new::<ListStalePages>(),
        OperationEntry::new::<ListContradictions>(),
        OperationEntry::new::<RunJanitor>(),
    ],
};

/// Days of a hundred years: more than any page waits for its review.
const MOST_DAYS: u32 = 36_500;

/// After how many days a page that was `reviewed` is due again.
fn stale_days(cx: &OperationContext<'_>, field: &str, asked: Option<u32>) -> Result<u32, Fault> {
    match asked {
        Some(days) if !(1..=MOST_DAYS).contains(&days) => {
            Err(Fault::invalid(field, format_args!("{days} is out of range; 1 to {MOST_DAYS} days are allowed")))
        }
        Some(days) => Ok(days),
        None => Ok(cx.settings().janitor.stale_days),
    }
}

/// Check how one page is doing
///
/// Issues are of the types `stale`, `orphan`, `broken_link`, `empty`, `missing_frontmatter` and `contradiction`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CheckPage {
    /// Which page
    #[schemars(example = "index.md")]
    pub path: TreePath,
}

impl Operation for CheckPage {
    const NAME: &'static str = "health_check";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/health-check")];
    const TOOL: bool = true;
    type Output = PageHealth;
    fn run(self, cx: &OperationContext<'_>) -> Result<PageHealth, Fault> {
        given("path", &self.path)?;
        super::check_page(cx, self.path)
    }
}

/// List the pages whose day of review is past, longest first
///
/// The day is `review-by` of the frontmatter, else `next-review`; of a page that only says when it was `reviewed` (or
/// `last-reviewed`), that day and `days` more. Pages whose `status` is `archived` or `deprecated` are left out.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListStalePages {
    /// After how many days a page that was reviewed is due again, 1 to 36500; `janitor.stale_days` of the settings when absent
    #[serde(default)]
    #[schemars(range(min = 1, max = 36_500))]
    pub days: Option<u32>,
}

impl Operation for ListStalePages {
    const NAME: &'static str = "stale";
    const FOLDER_SCOPE: FolderScope = FolderScope::Rows;
    const HTTP: &'static [Route] = &[Route::get("/stale")];
    type Output = Vec<OverduePage>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<OverduePage>, Fault> {
        let days = stale_days(cx, "days", self.days)?;
        super::list_overdue(cx.index(), &ReviewPolicy::new(cx.now(), days))
    }
}

/// List the pages that cannot both be right
///
/// Pages that say of the same tag that they are its `source-of-truth`, and pages that name another one in `contradicts`. Pages whose
/// `status` is `archived`, `deprecated`, `outdated` or `superseded` dispute nothing.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListContradictions {
    /// Only what this page is a part of
    #[serde(default)]
    pub path: Option<TreePath>,
}

impl Operation for ListContradictions {
    const NAME: &'static str = "contradictions";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/contradictions")];
    type Output = Vec<PageDispute>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<PageDispute>, Fault> {
        let mut found = super::find_disputes(cx.index(), &cx.caller.permissions)?;
        if let Some(path) = self.path {
            found.retain(|dispute| dispute.pages.contains(&path));
        }
        Ok(found)
    }
}

/// Look through the whole tree for what its readers would want mended
///
/// Counts of each kind of finding, the findings themselves, errors first, and what to do. The answer is kept until the tree changes.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RunJanitor {
    /// After how many days a page that was `reviewed` is due again, 1 to 36500; `janitor.stale_days` of the settings when absent
    #[serde(default)]
    #[schemars(range(min = 1, max = 36_500))]
    pub stale_days: Option<u32>,
    /// Findings in the answer
    #[serde(default)]
    pub limit: Limit<50, { MAX_ISSUES as u32 }>,
}

/// How a tree is doing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TreeHealth {
    /// Pages past their day of review
    pub stale: usize,
    /// Pages that no other page links to
    pub orphans: usize,
    /// Links that lead nowhere
    pub broken_links: usize,
    /// Pages with nothing but frontmatter
    pub empty: usize,
    /// Pages without frontmatter that can be read
    pub missing_frontmatter: usize,
    /// Pages that share their title with another
    pub duplicates: usize,
    /// Pages that dispute the truth with another
    pub contradictions: usize,
    /// What to do, the worst first; empty when nothing is wrong
    pub recommendations: Vec<String>,
    /// Pages looked at
    pub scanned: usize,
    /// Pages without a finding
    pub healthy: usize,
    /// When the tree was looked through
    pub timestamp: Timestamp,
    /// The findings, errors before warnings and notes, at most `limit` of them
    pub issues: Vec<PageFinding>,
}

impl Operation for RunJanitor {
    const NAME: &'static str = "janitor";
    const HTTP: &'static [Route] = &[Route::get("/janitor")];
    const LANE: Lane = Lane::Slow;
    type Output = TreeHealth;
    fn run(self, cx: &OperationContext<'_>) -> Result<TreeHealth, Fault> {
        let days = stale_days(cx, "stale_days", self.stale_days)?;
        let found = looked(cx, days)?;
        let mut kinds = FindingKind::ALL;
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.severity()));
        let of = |kind| if kind == FindingKind::BrokenLink { found.broken_links } else { found.count(kind) };
        let advice = kinds.into_iter().map(|kind| (kind, of(kind))).filter(|(_, count)| *count > 0);
        let recommendations = advice.map(|(kind, count)| kind.advice(count)).collect();
        Ok(TreeHealth {
            stale: found.count(FindingKind::Stale),
            orphans: found.count(FindingKind::Orphan),
            broken_links: found.broken_links,
            empty: found.count(FindingKind::Empty),
            missing_frontmatter: found.count(FindingKind::MissingFrontmatter),
            duplicates: found.count(FindingKind::Duplicate),
            contradictions: found.count(FindingKind::Contradiction),
            recommendations,
            scanned: found.scanned,
            healthy: found.healthy,
            timestamp: found.created_at,
            issues: found.issues.iter().take(self.limit.get()).cloned().collect(),
        })
    }
}

/// The tree, looked through as the caller's own writes left it.
fn looked(cx: &OperationContext<'_>, stale_days: u32) -> Result<std::sync::Arc<TreeSurvey>, Fault> {
    cx.index();
    cx.space.survey_cache.current_survey(cx.space, cx.now(), stale_days)
}

/// See how the whole tree is doing, in numbers
///
/// `link_coverage_pct` is the share of links that lead somewhere: 100 when all do, and when there are none.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AnalyzeTree {
    /// Pages in `recently_updated`
    #[serde(default)]
    pub limit: Limit<10, 100>,
}

/// A tree in numbers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TreeStatistics {
    /// Pages there are
    pub total_pages: usize,
    /// Pages past their day of review
    pub stale_pages: usize,
    /// Pages that no other page links to
    pub orphan_pages: usize,
    /// Links that lead nowhere
    pub broken_links: usize,
    /// Pages with nothing but frontmatter
    pub empty_pages: usize,
    /// Pages without frontmatter that can be read
    pub pages_without_frontmatter: usize,
    /// Of all links to files of the tree, how many percent lead somewhere
    pub link_coverage_pct: f64,
    /// The pages that were changed last, newest first
    pub recently_updated: Vec<UpdatedPage>,
}

/// A page and its last change.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UpdatedPage {
    /// Which page
    pub path: TreePath,
    /// When it was changed last
    pub updated: Timestamp,
}

impl Operation for AnalyzeTree {
    const NAME: &'static str = "analytics";
    const HTTP: &'static [Route] = &[Route::get("/analytics")];
    const TOOL: bool = true;
    const LANE: Lane = Lane::Slow;
    type Output = TreeStatistics;
    fn run(self, cx: &OperationContext<'_>) -> Result<TreeStatistics, Fault> {
        let found = looked(cx, cx.settings().janitor.stale_days)?;
        let newest = cx.space.index.recent_pages(self.limit.get())?;
        Ok(TreeStatistics {
            total_pages: found.scanned,
            stale_pages: found.count(FindingKind::Stale),
            orphan_pages: found.count(FindingKind::Orphan),
            broken_links: found.broken_links,
            empty_pages: found.count(FindingKind::Empty),
            pages_without_frontmatter: found.count(FindingKind::MissingFrontmatter),
            link_coverage_pct: percent(found.links - found.broken_links, found.links),
            recently_updated: newest.into_iter().map(|(path, updated)| UpdatedPage { path, updated }).collect(),
        })
    }
}

/// A share in percent, with one decimal.
fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 100.0 } else { (part as f64 * 1000.0 / whole as f64).round() / 10.0 }
}
