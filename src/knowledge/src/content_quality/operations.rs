use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Limit, Timestamp, TreePath};
use svcfs_work::Lane;

use super::MAX_ISSUES;
use super::disputes::PageDispute;
use super::findings::{FindingKind, PageFinding};
use super::groups::FindingGroup;
use super::page::PageHealth;
use super::review::{OverduePage, ReviewPolicy};
use super::survey::TreeSurvey;
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, require_path};

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

/// A hundred years: more than any review interval.
const MAX_DAYS: u32 = 36_500;

/// Days after which a page with `reviewed` is due again: the requested number or the setting.
fn stale_days(cx: &OperationContext<'_>, field: &str, requested: Option<u32>) -> Result<u32, Fault> {
    match requested {
        Some(days) if !(1..=MAX_DAYS).contains(&days) => {
            Err(Fault::invalid(field, format_args!("{days} is out of range; use 1 to {MAX_DAYS} days")))
        }
        Some(days) => Ok(days),
        None => Ok(cx.settings().janitor.stale_days),
    }
}

/// Check the content quality of one page
///
/// Returns counts of words, links and backlinks, days since the last change, and issues: `stale`,
/// `orphan`, `broken_link`, `empty`, `missing_frontmatter`, `contradiction` or `lint`. Use it after
/// editing a page.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CheckPage {
    /// Path of the page
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
        require_path("path", &self.path)?;
        super::check_page(cx, self.path)
    }
}

/// List the pages past their review date, most overdue first
///
/// The date is `review-by` in the frontmatter, else `next-review`; for a page with only `reviewed`
/// (or `last-reviewed`), that date plus `days`. Pages whose `status` is `archived` or `deprecated`
/// are left out. Returns path, title, due date and days overdue of each page.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListStalePages {
    /// Days after which a page with `reviewed` is due again, 1 to 36500; default: the setting
    /// `janitor.stale_days`
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

/// List pages that contradict each other
///
/// Pages that are `source-of-truth` for the same tag, and pages that name another page in
/// `contradicts`. Pages whose `status` is `archived`, `deprecated`, `outdated` or `superseded` are
/// ignored. Returns the pages, the disputed claim and the reason of each contradiction.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListContradictions {
    /// Only contradictions that involve this page
    #[serde(default)]
    pub path: Option<TreePath>,
}

impl Operation for ListContradictions {
    const NAME: &'static str = "contradictions";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/contradictions")];
    type Output = Vec<PageDispute>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<PageDispute>, Fault> {
        let mut survey = super::find_disputes(cx.index(), &cx.caller.permissions)?;
        if let Some(path) = self.path {
            survey.retain(|dispute| dispute.pages.contains(&path));
        }
        Ok(survey)
    }
}

/// Check the content quality of the whole tree
///
/// Returns the number of findings of each kind, groups of findings with the same reason, the
/// findings themselves (errors first), and recommendations. Use it to find stale, orphaned, empty
/// or duplicate pages, broken links and lint errors. The result is cached until the tree changes.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RunJanitor {
    /// Days after which a page with `reviewed` is due again, 1 to 36500; default: the setting
    /// `janitor.stale_days`
    #[serde(default)]
    #[schemars(range(min = 1, max = 36_500))]
    pub stale_days: Option<u32>,
    /// Maximum number of findings in the answer
    #[serde(default)]
    pub limit: Limit<50, { MAX_ISSUES as u32 }>,
}

/// The content quality of a tree.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TreeHealth {
    /// Pages past their review date
    pub stale: usize,
    /// Pages that no other page links to
    pub orphans: usize,
    /// Links without a target
    pub broken_links: usize,
    /// Pages without text besides frontmatter
    pub empty: usize,
    /// Pages without valid frontmatter
    pub missing_frontmatter: usize,
    /// Pages that share their title with another
    pub duplicates: usize,
    /// Pages that contradict another page
    pub contradictions: usize,
    /// Pages with a lint error, such as frontmatter that cannot be read
    pub lint_errors: usize,
    /// Pages that do not fit the schema of their type
    pub schema_violations: usize,
    /// Recommendations, most severe first; empty if there are no findings
    pub recommendations: Vec<String>,
    /// Number of pages checked
    pub scanned: usize,
    /// Pages without a finding
    pub healthy: usize,
    /// Time of the check
    pub timestamp: Timestamp,
    /// All findings, by reason: most severe and largest groups first
    pub groups: Vec<FindingGroup>,
    /// The first `limit` findings: errors, then warnings, then notes
    pub issues: Vec<PageFinding>,
}

impl Operation for RunJanitor {
    const NAME: &'static str = "janitor";
    const HTTP: &'static [Route] = &[Route::get("/janitor")];
    const LANE: Lane = Lane::Slow;
    type Output = TreeHealth;
    fn run(self, cx: &OperationContext<'_>) -> Result<TreeHealth, Fault> {
        let days = stale_days(cx, "stale_days", self.stale_days)?;
        let survey = current_survey(cx, days)?;
        let mut kinds = FindingKind::ALL;
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.severity()));
        let count_of = |kind| if kind == FindingKind::BrokenLink { survey.broken_links } else { survey.count(kind) };
        let advice = kinds.into_iter().map(|kind| (kind, count_of(kind))).filter(|(_, count)| *count > 0);
        let recommendations = advice.map(|(kind, count)| kind.advice(count)).collect();
        Ok(TreeHealth {
            stale: survey.count(FindingKind::Stale),
            orphans: survey.count(FindingKind::Orphan),
            broken_links: survey.broken_links,
            empty: survey.count(FindingKind::Empty),
            missing_frontmatter: survey.count(FindingKind::MissingFrontmatter),
            duplicates: survey.count(FindingKind::Duplicate),
            contradictions: survey.count(FindingKind::Contradiction),
            lint_errors: survey.count(FindingKind::LintError),
            schema_violations: survey.count(FindingKind::SchemaViolation),
            recommendations,
            scanned: survey.scanned,
            healthy: survey.healthy,
            timestamp: survey.created_at,
            groups: survey.groups.clone(),
            issues: survey.issues.iter().take(self.limit.get()).cloned().collect(),
        })
    }
}

/// The survey of the tree, including the caller's own writes.
fn current_survey(cx: &OperationContext<'_>, stale_days: u32) -> Result<std::sync::Arc<TreeSurvey>, Fault> {
    cx.index();
    cx.space.survey_cache.current_survey(cx.space, cx.now(), stale_days)
}

/// Get statistics about the whole tree
///
/// Returns the number of pages, of quality problems by kind, the share of working links, and the
/// pages changed last. `link_coverage_pct` is 100 if there are no links.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AnalyzeTree {
    /// Maximum number of pages in `recently_updated`
    #[serde(default)]
    pub limit: Limit<10, 100>,
}

/// Statistics about a tree.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TreeStatistics {
    /// Number of pages
    pub total_pages: usize,
    /// Pages past their review date
    pub stale_pages: usize,
    /// Pages that no other page links to
    pub orphan_pages: usize,
    /// Links without a target
    pub broken_links: usize,
    /// Pages without text besides frontmatter
    pub empty_pages: usize,
    /// Pages without valid frontmatter
    pub pages_without_frontmatter: usize,
    /// Percentage of links within the tree that have a target
    pub link_coverage_pct: f64,
    /// The pages changed last, newest first
    pub recently_updated: Vec<UpdatedPage>,
}

/// A page and its last change.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UpdatedPage {
    /// Path of the page
    pub path: TreePath,
    /// Time of the last change
    pub updated: Timestamp,
}

impl Operation for AnalyzeTree {
    const NAME: &'static str = "analytics";
    const HTTP: &'static [Route] = &[Route::get("/analytics")];
    const TOOL: bool = true;
    const LANE: Lane = Lane::Slow;
    type Output = TreeStatistics;
    fn run(self, cx: &OperationContext<'_>) -> Result<TreeStatistics, Fault> {
        let survey = current_survey(cx, cx.settings().janitor.stale_days)?;
        let newest = cx.space.index.recent_pages(self.limit.get())?;
        Ok(TreeStatistics {
            total_pages: survey.scanned,
            stale_pages: survey.count(FindingKind::Stale),
            orphan_pages: survey.count(FindingKind::Orphan),
            broken_links: survey.broken_links,
            empty_pages: survey.count(FindingKind::Empty),
            pages_without_frontmatter: survey.count(FindingKind::MissingFrontmatter),
            link_coverage_pct: percent(survey.links - survey.broken_links, survey.links),
            recently_updated: newest.into_iter().map(|(path, updated)| UpdatedPage { path, updated }).collect(),
        })
    }
}

fn percent(part: usize, total: usize) -> f64 {
    if total == 0 { 100.0 } else { (part as f64 * 1000.0 / total as f64).round() / 10.0 }
}
