use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svcfs_base::{Fault, Limit, Timestamp, TreePath};
use svcfs_store::{BucketSize, HourRange};

use super::SearchType;
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

/// Up to this many hours a time series has a point per hour, beyond that per day.
const MAX_HOURLY_HOURS: i64 = 7 * 24;
/// Trends compare all pages: the most viewed one may have been the least viewed before.
const ALL_PAGES: u32 = u32::MAX;

fn span(cx: &OperationContext<'_>, period: &TimePeriod) -> HourRange {
    HourRange::new(period.start_before(cx.now()), cx.now())
}

fn bucket(span: HourRange) -> BucketSize {
    if span.is_longer_than(MAX_HOURLY_HOURS) { BucketSize::Day } else { BucketSize::Hour }
}

/// Change in percent: 100 if there was nothing before, 0 if both are 0.
fn delta(now: i64, previous: i64) -> f64 {
    match (now, previous) {
        (0, 0) => 0.0,
        (_, 0) => 100.0,
        (now, previous) => round_to_tenth((now - previous) as f64 * 100.0 / previous as f64),
    }
}

fn percent(part: i64, total: i64) -> f64 {
    if total == 0 { 0.0 } else { round_to_tenth(part as f64 * 100.0 / total as f64) }
}

fn row_limit(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}

fn round_to_tenth(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Compare views and searches with the previous period
///
/// Counts pages read over HTTP and by agents, and searches. Reads through the mount are not
/// counted, because the kernel caches pages. Returns totals and their changes.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetUsageOverview {
    #[serde(default)]
    pub period: TimePeriod,
}

/// Usage in a period, compared with the previous one.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UsageOverview {
    /// The period, as in the request
    pub period: String,
    /// Number of page views
    pub total_views: i64,
    /// Change against the previous period, in percent
    pub views_delta_percent: f64,
    /// Number of searches
    pub total_searches: i64,
    /// Change against the previous period, in percent
    pub searches_delta_percent: f64,
    /// Percentage of searches with results
    pub search_success_rate: f64,
    /// Change against the previous period, in percentage points
    pub success_rate_delta_pp: f64,
    /// Number of different pages viewed
    pub unique_pages_viewed: i64,
    /// Change against the previous period, in percent
    pub unique_pages_delta_percent: f64,
}

impl Operation for GetUsageOverview {
    const NAME: &'static str = "analytics_overview";
    const HTTP: &'static [Route] = &[Route::get("/analytics/overview")];
    type Output = UsageOverview;
    fn run(self, cx: &OperationContext<'_>) -> Result<UsageOverview, Fault> {
        let (usage, span) = (cx.usage()?, span(cx, &self.period));
        let (now, previous) = (usage.totals(span)?, usage.totals(span.previous())?);
        let rate = percent(now.successes, now.searches);
        Ok(UsageOverview {
            period: self.period.as_str().to_owned(),
            total_views: now.views,
            views_delta_percent: delta(now.views, previous.views),
            total_searches: now.searches,
            searches_delta_percent: delta(now.searches, previous.searches),
            search_success_rate: rate,
            success_rate_delta_pp: round_to_tenth(rate - percent(previous.successes, previous.searches)),
            unique_pages_viewed: now.pages,
            unique_pages_delta_percent: delta(now.pages, previous.pages),
        })
    }
}

/// List the most viewed pages
///
/// Returns path, number of views, first and last view of each page in the period.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListTopPages {
    #[serde(default)]
    pub period: TimePeriod,
    /// Maximum number of pages
    #[serde(default)]
    pub limit: Limit<20, 500>,
}

/// The most viewed pages.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TopPages {
    /// The period, as in the request
    pub period: String,
    /// The pages, most views first
    pub pages: Vec<PageViewCount>,
}

/// A page and its views.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageViewCount {
    /// Path of the page
    pub path: String,
    /// Number of views
    pub count: i64,
    /// First view in the period
    pub first_seen: Timestamp,
    /// Last view in the period
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
        let pages = cx.usage()?.top_pages(span(cx, &self.period), (None, None), row_limit(self.limit.get()))?;
        Ok(TopPages {
            period: self.period.as_str().to_owned(),
            pages: pages.into_iter().map(PageViewCount::from).collect(),
        })
    }
}

/// Get page views over time
///
/// Returns views per hour for a period of up to a week, otherwise per day (without empty hours and
/// days), and the most viewed pages.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetViewsOverTime {
    /// Only views of this page
    #[serde(default)]
    pub path: Option<TreePath>,
    /// Only views through this protocol: `http`, `mcp` or `cli`
    #[serde(default)]
    pub source: Option<String>,
    #[serde(default)]
    pub period: TimePeriod,
}

/// Page views over time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ViewsOverTime {
    /// The period, as in the request
    pub period: String,
    /// The page, if requested
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<TreePath>,
    /// The protocol, if requested
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Views in each hour or day
    pub time_series: Vec<TimeSeriesPoint>,
    /// The most viewed pages, at most 20
    pub top_pages: Vec<PageViewCount>,
}

/// A count for an hour or a day.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TimeSeriesPoint {
    /// Start of the hour or day (UTC)
    pub timestamp: Timestamp,
    /// Number of events
    pub count: i64,
}

impl From<svcfs_store::BucketCount> for TimeSeriesPoint {
    fn from(bucket_count: svcfs_store::BucketCount) -> Self {
        Self { timestamp: bucket_count.timestamp, count: bucket_count.count }
    }
}

impl Operation for GetViewsOverTime {
    const NAME: &'static str = "analytics_views_v2";
    const HTTP: &'static [Route] = &[Route::get("/analytics/views/v2")];
    type Output = ViewsOverTime;
    fn run(self, cx: &OperationContext<'_>) -> Result<ViewsOverTime, Fault> {
        let (usage, span) = (cx.usage()?, span(cx, &self.period));
        let filter = (self.path.as_ref(), self.source.as_deref());
        let series = usage.view_series(span, filter, bucket(span))?;
        let pages = usage.top_pages(span, filter, 20)?;
        Ok(ViewsOverTime {
            time_series: series.into_iter().map(TimeSeriesPoint::from).collect(),
            top_pages: pages.into_iter().map(PageViewCount::from).collect(),
            period: self.period.as_str().to_owned(),
            path: self.path,
            source: self.source,
        })
    }
}

/// Get search statistics
///
/// Returns the success rate, searches over time, and the most frequent searches without results.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetSearchStatistics {
    #[serde(default)]
    pub period: TimePeriod,
}

/// Searches over time.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchStatistics {
    /// The period, as in the request
    pub period: String,
    /// Percentage of searches with results
    pub search_success_rate: f64,
    /// Searches in each hour or day
    pub time_series: Vec<TimeSeriesPoint>,
    /// Searches without results, most frequent first, at most 20
    pub top_failed: Vec<FailedSearch>,
}

/// A search without results.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FailedSearch {
    /// The query, in lower case
    pub query: String,
    /// Kind of search: `search`, `verified` or `semantic`
    pub search_type: String,
    /// Number of searches
    pub count: i64,
    /// First search
    pub first_seen: Timestamp,
    /// Last search
    pub last_seen: Timestamp,
}

impl From<svcfs_store::SearchCount> for FailedSearch {
    fn from(search: svcfs_store::SearchCount) -> Self {
        let svcfs_store::SearchCount { query, kind, count, first_seen, last_seen } = search;
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

/// List searches without results
///
/// Returns the queries, most frequent first. For queries that still find nothing use
/// `content_gaps`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListFailedSearches {
    /// Maximum number of searches
    #[serde(default)]
    pub top: Limit<20, 500>,
    /// Only searches after this time (RFC 3339), rounded to the hour; default: all recorded ones
    #[serde(default)]
    pub since: Option<Timestamp>,
}

/// Searches without results.
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
        let searches = cx.usage()?.failed_searches(span, row_limit(self.top.get()))?;
        Ok(FailedSearchList { results: searches.into_iter().map(FailedSearch::from).collect() })
    }
}

/// List pages with rising and falling views
///
/// Compares the period with the previous one.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct GetViewTrends {
    #[serde(default)]
    pub period: TimePeriod,
}

/// Pages whose views changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ViewTrends {
    /// The period, as in the request
    pub period: String,
    /// Pages with more views than in the previous period, largest gain first, at most 20
    pub trending: Vec<PageTrend>,
    /// Pages with fewer views, largest loss first, at most 20
    pub declining: Vec<PageTrend>,
}

/// A page and the change of its views.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageTrend {
    /// Path of the page
    pub path: String,
    /// Views in the period
    pub current_views: i64,
    /// Views in the previous period
    pub previous_views: i64,
    /// Change in percent
    pub delta_percent: f64,
}

impl Operation for GetViewTrends {
    const NAME: &'static str = "analytics_trends";
    const HTTP: &'static [Route] = &[Route::get("/analytics/trends")];
    type Output = ViewTrends;
    fn run(self, cx: &OperationContext<'_>) -> Result<ViewTrends, Fault> {
        let (usage, span) = (cx.usage()?, span(cx, &self.period));
        let mut counts: HashMap<String, (i64, i64)> = HashMap::new();
        for page in usage.top_pages(span, (None, None), ALL_PAGES)? {
            counts.entry(page.path).or_default().0 = page.count;
        }
        for page in usage.top_pages(span.previous(), (None, None), ALL_PAGES)? {
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
            list.sort_by(|a, b| gain(b).abs().cmp(&gain(a).abs()).then_with(|| a.path.cmp(&b.path)));
            list.truncate(20);
        }
        Ok(ViewTrends { period: self.period.as_str().to_owned(), trending, declining })
    }
}

/// List content gaps: searches that never find anything
///
/// Use it to find missing pages. Returns searches without results, unless a later one found
/// something or the gap was dismissed; most frequent first.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListContentGaps {
    /// Maximum number of searches
    #[serde(default)]
    pub limit: Limit<20, 500>,
}

impl Operation for ListContentGaps {
    const NAME: &'static str = "content_gaps";
    const HTTP: &'static [Route] = &[Route::get("/analytics/content-gaps")];
    type Output = FailedSearchList;
    fn run(self, cx: &OperationContext<'_>) -> Result<FailedSearchList, Fault> {
        let span = HourRange::new(Timestamp::UNIX_EPOCH, cx.now());
        let searches = cx.usage()?.content_gaps(span, row_limit(self.limit.get()))?;
        Ok(FailedSearchList { results: searches.into_iter().map(FailedSearch::from).collect() })
    }
}

/// Count pages by source, and views by protocol
///
/// The source is `_source` in the frontmatter, which imports set; pages without it are left out.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CountSources {
    #[serde(default)]
    pub period: TimePeriod,
}

/// Pages by source and views by protocol.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SourceCounts {
    /// The period of `views`, as in the request
    pub period: String,
    /// Number of pages by `_source`
    pub sources: BTreeMap<String, usize>,
    /// Number of views by protocol
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

/// Dismiss a content gap
///
/// Removes a search from the content gaps, because no page will be written for it.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({ "query": "helm charts" }))]
pub struct DismissContentGap {
    /// The query, ignoring case
    #[schemars(regex(pattern = r"\S"))]
    pub query: String,
    /// Kind of search
    #[serde(default)]
    pub search_type: SearchType,
}

/// The result of a dismissal.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DismissedGap {
    /// The query, as in the request
    pub dismissed: String,
}

impl Operation for DismissContentGap {
    const NAME: &'static str = "dismiss_content_gap";
    const HTTP: &'static [Route] = &[Route::post("/analytics/content-gaps/dismiss")];
    type Output = DismissedGap;
    fn run(self, cx: &OperationContext<'_>) -> Result<DismissedGap, Fault> {
        if self.query.trim().is_empty() {
            return Err(Fault::invalid("query", "is empty; use the query of a content gap"));
        }
        cx.space.usage.dismiss(&self.query, self.search_type.name())?;
        Ok(DismissedGap { dismissed: self.query })
    }
}
