//! The wire shapes of usage.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svcfs_base::{Fault, Limit, Timestamp, TreePath};
use svcfs_store::{BucketSize, HourRange};

use crate::insight::TimePeriod;
use crate::kernel::{Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Usage",
    operations: &[
        OperationEntry::new::<GetUsageOverview>(),
        OperationEntry::new::<ListTopPages>(),
        OperationEntry::new::<GetViewsOverTime>(),
        OperationEntry::new::<GetSearchStatistics>(),
        OperationEntry::new::<ListFailedSearches>(),
        OperationEntry::new::<GetViewTrends>(),
        OperationEntry::new::<ListContentGaps>(),
        OperationEntry::new::<CountSources>(),
        OperationEntry::new::<DismissContentGap>(),
    ],
};

/// Up to so many hours a series is told by the hour, beyond by the day.
const HOURLY: i64 = 7 * 24;
/// Pages whose counts are compared for trends: all of them. One that was read most in one period may be the least read of the other.
const COMPARED: u32 = u32::MAX;

fn span(cx: &OperationContext<'_>, period: &TimePeriod) -> HourRange {
    HourRange::new(period.start_before(cx.now()), cx.now())
}

fn bucket(span: HourRange) -> BucketSize {
    if span.is_longer_than(HOURLY) { BucketSize::Day } else { BucketSize::Hour }
}

/// How much more there is now than before, in percent: 100 when there was nothing before, 0 when there is nothing in either.
fn delta(now: i64, before: i64) -> f64 {
    match (now, before) {
        (0, 0) => 0.0,
        (_, 0) => 100.0,
        (now, before) => tenth((now - before) as f64 * 100.0 / before as f64),
    }
}

/// A share in percent; 0 of nothing.
fn percent(part: i64, whole: i64) -> f64 {
    if whole == 0 { 0.0 } else { tenth(part as f64 * 100.0 / whole as f64) }
}

/// A count of rows as the counts take it.
fn most(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}

fn tenth(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Compare how much was read and looked for with the time before
///
/// Counted are pages read over HTTP and by agents, and searches. Reading through the mount is not counted: the kernel keeps pages.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetUsageOverview {
    #[serde(default)]
    pub period: TimePeriod,
}

/// How much was asked for in a period, beside the period before.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UsageOverview {
    /// The period, as it was asked for
    pub period: String,
    /// Pages read, each as often as it was
    pub total_views: i64,
    /// The same against the period before, in percent
    pub views_delta_percent: f64,
    /// Searches
    pub total_searches: i64,
    /// The same against the period before, in percent
    pub searches_delta_percent: f64,
    /// Searches that found something, in percent of all
    pub search_success_rate: f64,
    /// The same less that of the period before, in percentage points
    pub success_rate_delta_pp: f64,
    /// Different pages read
    pub unique_pages_viewed: i64,
    /// The same against the period before, in percent
    pub unique_pages_delta_percent: f64,
}

impl Operation for GetUsageOverview {
    const NAME: &'static str = "analytics_overview";
    const HTTP: &'static [Route] = &[Route::get("/analytics/overview")];
    type Output = UsageOverview;
    fn run(self, cx: &OperationContext<'_>) -> Result<UsageOverview, Fault> {
        let (usage, span) = (cx.usage()?, span(cx, &self.period));
        let (now, before) = (usage.totals(span)?, usage.totals(span.previous())?);
        let rate = percent(now.successes, now.searches);
        Ok(UsageOverview {
            period: self.period.as_str().to_owned(),
            total_views: now.views,
            views_delta_percent: delta(now.views, before.views),
            total_searches: now.searches,
            searches_delta_percent: delta(now.searches, before.searches),
            search_success_rate: rate,
            success_rate_delta_pp: tenth(rate - percent(before.successes, before.searches)),
            unique_pages_viewed: now.pages,
            unique_pages_delta_percent: delta(now.pages, before.pages),
        })
    }
}

/// List the pages that are read most
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListTopPages {
    #[serde(default)]
    pub period: TimePeriod,
    /// Pages in the answer
    #[serde(default)]
    pub limit: Limit<20, 500>,
}

/// The pages that are read most.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TopPages {
    /// The period, as it was asked for
    pub period: String,
    /// The pages, most often read first
    pub pages: Vec<PageViewCount>,
}

/// A page and how often it was read.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageViewCount {
    /// Which page
    pub path: String,
    /// How often
    pub count: i64,
    /// The first time in the period
    pub first_seen: Timestamp,
    /// The last time
    pub last_seen: Timestamp,
}

impl From<svcfs_store::PageViews> for PageViewCount {
    fn from(page: svcfs_store::PageViews) -> Self {
        let svcfs_store::PageViews { path, count, first_seen, last_seen } = page;
        Self { path, count, first_seen, last_seen }
    }
}

impl Operation for ListTopPages {
    const NAME: &'static str = "analytics_views";
    const HTTP: &'static [Route] = &[Route::get("/analytics/views")];
    type Output = TopPages;
    fn run(self, cx: &OperationContext<'_>) -> Result<TopPages, Fault> {
        let pages = cx.usage()?.top_pages(span(cx, &self.period), (None, None), most(self.limit.get()))?;
        Ok(TopPages {
            period: self.period.as_str().to_owned(),
            pages: pages.into_iter().map(PageViewCount::from).collect(),
        })
    }
}

/// See how often pages are read over time
///
/// By the hour for a week or less, else by the day; hours and days without readers are left out.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetViewsOverTime {
    /// Only this page
    #[serde(default)]
    pub path: Option<TreePath>,
    /// Only what was read through this door: `http`, `mcp` or `cli`
    #[serde(default)]
    pub source: Option<String>,
    #[serde(default)]
    pub period: TimePeriod,
}

/// How often pages were read over time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ViewsOverTime {
    /// The period, as it was asked for
    pub period: String,
    /// The page, when one was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<TreePath>,
    /// The door, when one was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How often pages were read in each hour or day
    pub time_series: Vec<TimeSeriesPoint>,
    /// The pages read most, at most 20
    pub top_pages: Vec<PageViewCount>,
}

/// An hour or a day, and what was counted in it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TimeSeriesPoint {
    /// Its beginning (UTC)
    pub timestamp: Timestamp,
    /// How much
    pub count: i64,
}

impl From<svcfs_store::BucketCount> for TimeSeriesPoint {
    fn from(counted: svcfs_store::BucketCount) -> Self {
        Self { timestamp: counted.timestamp, count: counted.count }
    }
}

impl Operation for GetViewsOverTime {
    const NAME: &'static str = "analytics_views_v2";
    const HTTP: &'static [Route] = &[Route::get("/analytics/views/v2")];
    type Output = ViewsOverTime;
    fn run(self, cx: &OperationContext<'_>) -> Result<ViewsOverTime, Fault> {
        let (usage, span) = (cx.usage()?, span(cx, &self.period));
        let of = (self.path.as_ref(), self.source.as_deref());
        let series = usage.view_series(span, of, bucket(span))?;
        let pages = usage.top_pages(span, of, 20)?;
        Ok(ViewsOverTime {
            time_series: series.into_iter().map(TimeSeriesPoint::from).collect(),
            top_pages: pages.into_iter().map(PageViewCount::from).collect(),
            period: self.period.as_str().to_owned(),
            path: self.path,
            source: self.source,
        })
    }
}

/// See how much is looked for, and what is not found
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetSearchStatistics {
    #[serde(default)]
    pub period: TimePeriod,
}

/// Searches over time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchStatistics {
    /// The period, as it was asked for
    pub period: String,
    /// Searches that found something, in percent of all
    pub search_success_rate: f64,
    /// Searches in each hour or day
    pub time_series: Vec<TimeSeriesPoint>,
    /// The searches that found nothing, most frequent first, at most 20
    pub top_failed: Vec<FailedSearch>,
}

/// A search that found nothing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FailedSearch {
    /// The words, in lower case
    pub query: String,
    /// Which search it was: `search` or `verified`
    pub search_type: String,
    /// How often
    pub count: i64,
    /// The first time
    pub first_seen: Timestamp,
    /// The last time
    pub last_seen: Timestamp,
}

impl From<svcfs_store::SearchCount> for FailedSearch {
    fn from(searched: svcfs_store::SearchCount) -> Self {
        let svcfs_store::SearchCount { query, kind, count, first_seen, last_seen } = searched;
        Self { query, search_type: kind, count, first_seen, last_seen }
    }
}

impl Operation for GetSearchStatistics {
    const NAME: &'static str = "analytics_searches";
    const HTTP: &'static [Route] = &[Route::get("/analytics/searches")];
    type Output = SearchStatistics;
    fn run(self, cx: &OperationContext<'_>) -> Result<SearchStatistics, Fault> {
        let (usage, span) = (cx.usage()?, span(cx, &self.period));
        let totals = usage.totals(span)?;
        Ok(SearchStatistics {
            search_success_rate: percent(totals.successes, totals.searches),
            time_series: usage.search_series(span, bucket(span))?.into_iter().map(TimeSeriesPoint::from).collect(),
            top_failed: usage.failed_searches(span, 20)?.into_iter().map(FailedSearch::from).collect(),
            period: self.period.as_str().to_owned(),
        })
    }
}

/// List the searches that found nothing
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListFailedSearches {
    /// Searches in the answer
    #[serde(default)]
    pub top: Limit<20, 500>,
    /// Only those after this moment (RFC 3339), to the hour; all that are kept when absent
    #[serde(default)]
    pub since: Option<Timestamp>,
}

/// Searches that found nothing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FailedSearchList {
    /// The searches, most frequent first
    pub results: Vec<FailedSearch>,
}

impl Operation for ListFailedSearches {
    const NAME: &'static str = "failed_searches";
    const HTTP: &'static [Route] = &[Route::get("/analytics/failed-searches")];
    type Output = FailedSearchList;
    fn run(self, cx: &OperationContext<'_>) -> Result<FailedSearchList, Fault> {
        let span = HourRange::new(self.since.unwrap_or(Timestamp::UNIX_EPOCH), cx.now());
        let found = cx.usage()?.failed_searches(span, most(self.top.get()))?;
        Ok(FailedSearchList { results: found.into_iter().map(FailedSearch::from).collect() })
    }
}

/// See which pages are read more than before, and which less
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetViewTrends {
    #[serde(default)]
    pub period: TimePeriod,
}

/// Pages whose readers came or went.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ViewTrends {
    /// The period, as it was asked for
    pub period: String,
    /// Pages read more than in the period before, the largest gain first, at most 20
    pub trending: Vec<PageTrend>,
    /// Pages read less, the largest loss first, at most 20
    pub declining: Vec<PageTrend>,
}

/// A page and how its readers changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageTrend {
    /// Which page
    pub path: String,
    /// How often it was read in the period
    pub current_views: i64,
    /// How often in the period before
    pub previous_views: i64,
    /// The difference in percent
    pub delta_percent: f64,
}

impl Operation for GetViewTrends {
    const NAME: &'static str = "analytics_trends";
    const HTTP: &'static [Route] = &[Route::get("/analytics/trends")];
    type Output = ViewTrends;
    fn run(self, cx: &OperationContext<'_>) -> Result<ViewTrends, Fault> {
        let (usage, span) = (cx.usage()?, span(cx, &self.period));
        let mut counts: HashMap<String, (i64, i64)> = HashMap::new();
        for page in usage.top_pages(span, (None, None), COMPARED)? {
            counts.entry(page.path).or_default().0 = page.count;
        }
        for page in usage.top_pages(span.previous(), (None, None), COMPARED)? {
            counts.entry(page.path).or_default().1 = page.count;
        }
        let trend = |(path, (current_views, previous_views))| PageTrend {
            path,
            current_views,
            previous_views,
            delta_percent: delta(current_views, previous_views),
        };
        let gain = |trend: &PageTrend| trend.current_views - trend.previous_views;
        let changed = counts.into_iter().map(trend).filter(|trend| gain(trend) != 0);
        let (mut trending, mut declining): (Vec<_>, Vec<_>) = changed.partition(|trend| gain(trend) > 0);
        for list in [&mut trending, &mut declining] {
            list.sort_by(|one, other| gain(other).abs().cmp(&gain(one).abs()).then_with(|| one.path.cmp(&other.path)));
            list.truncate(20);
        }
        Ok(ViewTrends { period: self.period.as_str().to_owned(), trending, declining })
    }
}

/// List what readers look for and never find
///
/// Searches without results that found nothing later either; those that were dismissed are left out.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListContentGaps {
    /// Searches in the answer
    #[serde(default)]
    pub limit: Limit<20, 500>,
}

impl Operation for ListContentGaps {
    const NAME: &'static str = "content_gaps";
    const HTTP: &'static [Route] = &[Route::get("/analytics/content-gaps")];
    type Output = FailedSearchList;
    fn run(self, cx: &OperationContext<'_>) -> Result<FailedSearchList, Fault> {
        let span = HourRange::new(Timestamp::UNIX_EPOCH, cx.now());
        let found = cx.usage()?.content_gaps(span, most(self.limit.get()))?;
        Ok(FailedSearchList { results: found.into_iter().map(FailedSearch::from).collect() })
    }
}

/// See where the pages come from
///
/// Pages are counted by `_source` of their frontmatter, which imports set; those without one are left out. Beside it, through which
/// doors pages were read.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CountSources {
    #[serde(default)]
    pub period: TimePeriod,
}

/// Where pages come from, and through what they are read.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SourceCounts {
    /// The period of `views`, as it was asked for
    pub period: String,
    /// Pages of each `_source`
    pub sources: BTreeMap<String, usize>,
    /// Pages read through each door
    pub views: BTreeMap<String, i64>,
}

impl Operation for CountSources {
    const NAME: &'static str = "analytics_sources";
    const HTTP: &'static [Route] = &[Route::get("/analytics/sources")];
    type Output = SourceCounts;
    fn run(self, cx: &OperationContext<'_>) -> Result<SourceCounts, Fault> {
        let mut sources = BTreeMap::new();
        for page in cx.index().pages_with_keys(&["_source"])? {
            if let Some(source) = page.metadata.get("_source").and_then(Value::as_str) {
                *sources.entry(source.to_owned()).or_default() += 1;
            }
        }
        let views = cx.usage()?.sources(span(cx, &self.period))?.into_iter().collect();
        Ok(SourceCounts { period: self.period.as_str().to_owned(), sources, views })
    }
}

/// Say that something readers look for shall not be written
///
/// It is left out of the content gaps from now on.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({ "query": "helm charts" }))]
pub struct DismissContentGap {
    /// The search, in any case
    #[schemars(regex(pattern = r"\S"))]
    pub query: String,
    /// Which search it was
    #[serde(default)]
    pub search_type: SearchType,
}

/// The kinds of searches that are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchType {
    /// `search`
    #[default]
    Search,
    /// `search_verified`
    Verified,
}

/// What was dismissed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DismissedGap {
    /// The search, as it was given
    pub dismissed: String,
}

impl Operation for DismissContentGap {
    const NAME: &'static str = "dismiss_content_gap";
    const HTTP: &'static [Route] = &[Route::post("/analytics/content-gaps/dismiss")];
    type Output = DismissedGap;
    fn run(self, cx: &OperationContext<'_>) -> Result<DismissedGap, Fault> {
        if self.query.trim().is_empty() {
            return Err(Fault::invalid("query", "is empty; give the words of the search"));
        }
        let kind = match self.search_type {
            SearchType::Search => "search",
            SearchType::Verified => "verified",
        };
        cx.space.usage.dismiss(&self.query, kind)?;
        Ok(DismissedGap { dismissed: self.query })
    }
}
