//! Queries over the counts.

use rusqlite::{Row, named_params};
use svcfs_base::{Timestamp, TreePath};

use super::{UsageCounts, hour_of};
use crate::StoreError;

/// A range of whole hours, both ends included.
#[derive(Debug, Clone, Copy)]
pub struct HourRange {
    from: i64,
    to: i64,
}

impl HourRange {
    /// The hours from one timestamp to another.
    pub fn new(from: Timestamp, to: Timestamp) -> Self {
        Self { from: hour_of(from), to: hour_of(to) }
    }
    /// The range of the same length directly before.
    #[must_use]
    pub fn previous(self) -> Self {
        Self { from: self.from - (self.to - self.from) - 1, to: self.from - 1 }
    }
    /// Whether it is longer than `hours` hours.
    pub fn is_longer_than(self, hours: i64) -> bool {
        self.to - self.from > hours
    }
}

/// Totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTotals {
    /// Page views.
    pub views: i64,
    /// Different pages viewed.
    pub pages: i64,
    /// Searches.
    pub searches: i64,
    /// Searches with results.
    pub successes: i64,
}

/// A page and its views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageViews {
    /// The path.
    pub path: String,
    /// Number of views.
    pub count: i64,
    /// The first view.
    pub first_seen: Timestamp,
    /// The last view.
    pub last_seen: Timestamp,
}

/// A search and its count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchCount {
    /// The query, in lower case.
    pub query: String,
    /// Which search: `search`, `verified`.
    pub kind: String,
    /// How often it ran.
    pub count: i64,
    /// The first time.
    pub first_seen: Timestamp,
    /// The last time.
    pub last_seen: Timestamp,
}

/// The count of one hour or day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketCount {
    /// Start of the hour or day (UTC).
    pub timestamp: Timestamp,
    /// The count.
    pub count: i64,
}

/// Resolution of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketSize {
    /// Hours.
    Hour,
    /// Days.
    Day,
}

impl BucketSize {
    const fn hours(self) -> i64 {
        match self {
            Self::Hour => 1,
            Self::Day => 24,
        }
    }
}

impl UsageCounts {
    /// Totals of a range. All queries see what is written, see [`UsageCounts::flush`].
    pub fn totals(&self, range: HourRange) -> Result<UsageTotals, StoreError> {
        let connection = self.connection.lock();
        let (views, pages) = connection
            .prepare_cached(
                "SELECT coalesce(sum(count), 0), count(DISTINCT path) FROM views WHERE hour BETWEEN ?1 AND ?2",
            )?
            .query_row((range.from, range.to), |row| row.try_into())?;
        let (searches, successes) = connection
            .prepare_cached(
                "SELECT coalesce(sum(count), 0), coalesce(sum(count * has_results), 0) FROM searches
                 WHERE hour BETWEEN ?1 AND ?2",
            )?
            .query_row((range.from, range.to), |row| row.try_into())?;
        Ok(UsageTotals { views, pages, searches, successes })
    }

    /// The most viewed pages of a range, optionally of one path or one source.
    pub fn top_pages(
        &self,
        range: HourRange,
        (path, source): (Option<&TreePath>, Option<&str>),
        max: u32,
    ) -> Result<Vec<PageViews>, StoreError> {
        let connection = self.connection.lock();
        let mut statement = connection.prepare_cached(
            "SELECT path, sum(count) AS total, min(first_seen), max(last_seen) FROM views
             WHERE hour BETWEEN :from AND :to AND (:path IS NULL OR path = :path) AND (:source IS NULL OR source = :source)
             GROUP BY path ORDER BY total DESC, path LIMIT :max",
        )?;
        let path = path.map(TreePath::as_str);
        let rows = statement.query_map(
            named_params! { ":from": range.from, ":to": range.to, ":path": path, ":source": source, ":max": max },
            |row| {
                let (first_seen, last_seen) = (timestamp_column(row, 2)?, timestamp_column(row, 3)?);
                Ok(PageViews { path: row.get(0)?, count: row.get(1)?, first_seen, last_seen })
            },
        )?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Views for each hour or day that has any.
    pub fn view_series(
        &self,
        range: HourRange,
        (path, source): (Option<&TreePath>, Option<&str>),
        bucket: BucketSize,
    ) -> Result<Vec<BucketCount>, StoreError> {
        let connection = self.connection.lock();
        let mut statement = connection.prepare_cached(
            "SELECT hour / :bucket * :bucket AS begin, sum(count) FROM views
             WHERE hour BETWEEN :from AND :to AND (:path IS NULL OR path = :path) AND (:source IS NULL OR source = :source)
             GROUP BY begin ORDER BY begin",
        )?;
        let path = path.map(TreePath::as_str);
        let rows = statement.query_map(
            named_params! {
                ":from": range.from, ":to": range.to, ":path": path, ":source": source, ":bucket": bucket.hours(),
            },
            bucket_row,
        )?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Searches for each hour or day that has any.
    pub fn search_series(&self, range: HourRange, bucket: BucketSize) -> Result<Vec<BucketCount>, StoreError> {
        let connection = self.connection.lock();
        let mut statement = connection.prepare_cached(
            "SELECT hour / ?3 * ?3 AS begin, sum(count) FROM searches WHERE hour BETWEEN ?1 AND ?2
             GROUP BY begin ORDER BY begin",
        )?;
        let rows = statement.query_map((range.from, range.to, bucket.hours()), bucket_row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Searches without results, most frequent first.
    pub fn failed_searches(&self, range: HourRange, max: u32) -> Result<Vec<SearchCount>, StoreError> {
        self.failed("", range, max)
    }

    /// Searches that never had results in a range, most frequent first, except dismissed ones.
    pub fn content_gaps(&self, range: HourRange, max: u32) -> Result<Vec<SearchCount>, StoreError> {
        const NOT_ANSWERED: &str = "
            AND NOT EXISTS (SELECT 1 FROM dismissed WHERE dismissed.query = searches.query AND dismissed.kind = searches.kind)
            AND NOT EXISTS (SELECT 1 FROM searches AS other WHERE other.query = searches.query
                            AND other.has_results AND other.hour >= searches.hour)";
        self.failed(NOT_ANSWERED, range, max)
    }

    fn failed(&self, and: &'static str, range: HourRange, max: u32) -> Result<Vec<SearchCount>, StoreError> {
        let connection = self.connection.lock();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT query, kind, sum(count) AS total, min(first_seen), max(last_seen) FROM searches
             WHERE hour BETWEEN ?1 AND ?2 AND NOT has_results {and}
             GROUP BY query, kind ORDER BY total DESC, query LIMIT ?3"
        ))?;
        let rows = statement.query_map((range.from, range.to, max), |row| {
            let (first_seen, last_seen) = (timestamp_column(row, 3)?, timestamp_column(row, 4)?);
            Ok(SearchCount { query: row.get(0)?, kind: row.get(1)?, count: row.get(2)?, first_seen, last_seen })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Views by source, most frequent first.
    pub fn sources(&self, range: HourRange) -> Result<Vec<(String, i64)>, StoreError> {
        let connection = self.connection.lock();
        let mut statement = connection.prepare_cached(
            "SELECT source, sum(count) AS total FROM views WHERE hour BETWEEN ?1 AND ?2 GROUP BY source ORDER BY total DESC, source",
        )?;
        let rows = statement.query_map((range.from, range.to), |row| row.try_into())?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

fn timestamp_column(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let microsecond = row.get(column)?;
    Timestamp::from_microsecond(microsecond).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, microsecond))
}

fn bucket_row(row: &Row<'_>) -> rusqlite::Result<BucketCount> {
    let hour: i64 = row.get(0)?;
    let timestamp = hour.checked_mul(3_600).and_then(|second| Timestamp::from_second(second).ok());
    let timestamp = timestamp.ok_or(rusqlite::Error::IntegralValueOutOfRange(0, hour))?;
    Ok(BucketCount { timestamp, count: row.get(1)? })
}
