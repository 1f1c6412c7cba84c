//! The wire shapes of insight.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, Fault, Limit, TreePath};

use super::{TimePeriod, day_of, days_between};
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea =
    OperationArea { title: "Insight", operations: &[OperationEntry::new::<MeasureVelocity>()] };

/// See where the tree changes fast and where it lies still
///
/// Counts every recorded change of a page, one for each page of a commit; pages that are gone count in `total_changes` and in
/// `bursts` only.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MeasureVelocity {
    #[serde(default)]
    pub period: TimePeriod,
    /// Entries in each list of the answer
    #[serde(default)]
    pub limit: Limit<20, 500>,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
}

/// How the tree changed in a period.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VelocityReport {
    /// The period, as it was asked for
    pub period: String,
    /// Changes of pages in the period
    pub total_changes: u64,
    /// Pages that changed in the period, most often changed first
    pub hot_spots: Vec<HotSpot>,
    /// Pages that did not change in the period, longest untouched first
    pub cold_spots: Vec<ColdSpot>,
    /// Days on which one actor made at least 5 changes and more than three times as many as the whole tree has on an average day
    /// of the period; most first
    pub bursts: Vec<ActivityBurst>,
    /// Pages that changed in the period, every time by the same actor
    pub single_author_pages: Vec<TreePath>,
}

/// A page that changes often.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HotSpot {
    /// Which page
    pub path: TreePath,
    /// Changes in the period
    pub changes: u32,
}

/// A page that lies still.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ColdSpot {
    /// Which page
    pub path: TreePath,
    /// Changes in the period: none
    pub changes: u32,
    /// Whole days since its last change
    pub days_since_update: i64,
}

/// A day on which one actor changed unusually much.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ActivityBurst {
    /// The day (UTC), such as `2026-11-20`
    pub date: String,
    /// Changes of pages on that day by this actor
    pub changes: u32,
    /// Who
    pub actor: Actor,
}

impl Operation for MeasureVelocity {
    const NAME: &'static str = "velocity";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path_prefix");
    const HTTP: &'static [Route] = &[Route::get("/velocity")];
    const TOOL: bool = true;
    type Output = VelocityReport;
    fn run(self, cx: &OperationContext<'_>) -> Result<VelocityReport, Fault> {
        let now = cx.now();
        let found =
            super::measure_velocity(&cx.space.vfs, (&self.period, now), self.path_prefix.as_ref(), self.limit.get())?;
        Ok(VelocityReport {
            period: self.period.as_str().to_owned(),
            total_changes: found.total,
            hot_spots: found.hot.into_iter().map(|page| HotSpot { path: page.path, changes: page.changes }).collect(),
            cold_spots: found
                .cold
                .into_iter()
                .map(|page| ColdSpot {
                    days_since_update: days_between(page.newest, now),
                    path: page.path,
                    changes: page.changes,
                })
                .collect(),
            bursts: found
                .bursts
                .into_iter()
                .map(day_of)
                .map(|(date, actor, changes)| ActivityBurst { date, changes, actor })
                .collect(),
            single_author_pages: found.single_author,
        })
    }
}
