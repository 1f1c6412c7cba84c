use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, Fault, Limit, TreePath};

use super::{TimePeriod, burst_parts, days_between};
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea =
    OperationArea { title: "Insight", operations: &[OperationEntry::new::<MeasureVelocity>()] };

/// Measure where the tree changes often and where it does not
///
/// Use it to find active topics, neglected pages and pages with a single author. Each page of a
/// commit counts as one change; deleted pages count only in `total_changes` and `bursts`. Returns
/// most and least changed pages, bursts and single-author pages of the period.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MeasureVelocity {
    #[serde(default)]
    pub period: TimePeriod,
    /// Maximum number of entries in each list
    #[serde(default)]
    pub limit: Limit<20, 500>,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
}

/// Changes of the tree in a period.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VelocityReport {
    /// The period, as in the request
    pub period: String,
    /// Number of changes of pages in the period
    pub total_changes: u64,
    /// Pages that changed in the period, most changes first
    pub hot_spots: Vec<HotSpot>,
    /// Pages that did not change in the period, oldest last change first
    pub cold_spots: Vec<ColdSpot>,
    /// Days on which one actor made at least 5 changes and more than three times the daily average
    /// of the tree; most changes first
    pub bursts: Vec<ActivityBurst>,
    /// Pages that changed in the period, only by one actor
    pub single_author_pages: Vec<TreePath>,
}

/// A page that changes often.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HotSpot {
    /// Path of the page
    pub path: TreePath,
    /// Number of changes in the period
    pub changes: u32,
}

/// A page that does not change.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ColdSpot {
    /// Path of the page
    pub path: TreePath,
    /// Number of changes in the period: always 0
    pub changes: u32,
    /// Full days since its last change
    pub days_since_update: i64,
}

/// A day with unusually many changes by one actor.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ActivityBurst {
    /// Day (UTC), such as `2026-11-20`
    pub date: String,
    /// Number of changes of pages by this actor on that day
    pub changes: u32,
    /// Author of the changes
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
        let velocity =
            super::measure_velocity(&cx.space.vfs, (&self.period, now), self.path_prefix.as_ref(), self.limit.get())?;
        Ok(VelocityReport {
            period: self.period.as_str().to_owned(),
            total_changes: velocity.total,
            hot_spots: velocity
                .hot
                .into_iter()
                .map(|page| HotSpot { path: page.path, changes: page.changes })
                .collect(),
            cold_spots: velocity
                .cold
                .into_iter()
                .map(|page| ColdSpot {
                    days_since_update: days_between(page.newest, now),
                    path: page.path,
                    changes: page.changes,
                })
                .collect(),
            bursts: velocity
                .bursts
                .into_iter()
                .map(burst_parts)
                .map(|(date, actor, changes)| ActivityBurst { date, changes, actor })
                .collect(),
            single_author_pages: velocity.single_author,
        })
    }
}
