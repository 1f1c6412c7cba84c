//! What the counts say.

use rusqlite::{Row, named_params};
use svcfs_base::{Timestamp, TreePath};

use super::{UsageCounts, hour_of};
use crate::StoreError;

/// A time, in whole hours: from the hour of the first moment up to and with the hour of the second.
#[derive(Debug, Clone, Copy)]
pub struct HourRange {
    from: i64,
    to: i64,
}

impl HourRange {
    /// Between two moments.
    pub fn new(from: Timestamp, to: Timestamp) -> Self {
        Self { from: hour_of(from), to: hour_of(to) }
    }
    /// As much time, right before.
    #[must_use]
    pub fn previous(self) -> Self {
        Self { from: self.from - (self.to - self.from) - 1, to: self.from - 1 }
    }
    /// Is it longer than so many hours?
    pub fn is_longer_than(self, hours: i64) -> bool {
        self.to - self.from > hours
    }
}

/// How much was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTotals {
    /// Pages read, each as often as it was.
    pub views: i64,
    /// Different pages read.
    pub pages: i64,
    /// Searches.
    pub searches: i64,
    /// Searches that found something.
    pub successes: i64,
}

/// A page and how often it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageViews {
    /// Which page.
    pub path: String,
    /// How often.
    pub count: i64,
    /// The first time.
    pub first_seen: Timestamp,
    /// The last time.
    pub last_seen: Timestamp,
}

/// A search and how often it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchCount {
    /// The words, in lower case.
    pub query: String,
    /// Which search: `search`, `verified`.
    pub kind: String,
    /// How often.
    pub count: i64,
    /// The first time.
    pub first_seen: Timestamp,
    /// The last time.
    pub last_seen: Timestamp,
}

/// A moment and what was counted in the hour or day that begins there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketCount {
    /// The beginning of the hour or day (UTC).
    pub timestamp: Timestamp,
    /// How much.
    pub count: i64,
}

/// How finely counts are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketSize {
    /// By the hour.
    Hour,
    /// By the day.
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
    /// How much was asked for in a time. All questions see what was written, see [`Usage::write`].
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn totals(&self, span: HourRange) -> Result<UsageTotals, StoreError> {
        let connection = self.connection.lock();
        let (views, pages) = connection
            .prepare_cached(
                "SELECT coalesce(sum(count), 0), count(DISTINCT path) FROM views WHERE hour BETWEEN ?1 AND ?2",
            )?
            .query_row((span.from, span.to), |row| row.try_into())?;
        let (searches, successes) = connection
            .prepare_cached(
                "SELECT coalesce(sum(count), 0), coalesce(sum(count * has_results), 0) FROM searches
                 WHERE hour BETWEEN ?1 AND ?2",
            )?
            .query_row((span.from, span.to), |row| row.try_into())?;
        Ok(UsageTotals { views, pages, searches, successes })
    }

    /// The pages read most in a time, of one path or one source alone when it is given.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn top_pages(
        &self,
        span: HourRange,
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
            named_params! { ":from": span.from, ":to": span.to, ":path": path, ":source": source, ":max": max },
            |row| {
                let (first_seen, last_seen) = (moment(row, 2)?, moment(row, 3)?);
                Ok(PageViews { path: row.get(0)?, count: row.get(1)?, first_seen, last_seen })
            },
        )?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// How often pages were read in each hour or day of a time in which any was.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn view_series(
        &self,
        span: HourRange,
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
                ":from": span.from, ":to": span.to, ":path": path, ":source": source, ":bucket": bucket.hours(),
            },
            counted,
        )?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// How many searches were made in each hour or day of a time in which any was.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn search_series(&self, span: HourRange, bucket: BucketSize) -> Result<Vec<BucketCount>, StoreError> {
        let connection = self.connection.lock();
        let mut statement = connection.prepare_cached(
            "SELECT hour / ?3 * ?3 AS begin, sum(count) FROM searches WHERE hour BETWEEN ?1 AND ?2
             GROUP BY begin ORDER BY begin",
        )?;
        let rows = statement.query_map((span.from, span.to, bucket.hours()), counted)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The searches of a time that found nothing, most frequent first.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn failed_searches(&self, span: HourRange, max: u32) -> Result<Vec<SearchCount>, StoreError> {
        self.failed("", span, max)
    }

    /// The searches that never found anything in a time, most frequent first, without those that were dismissed: what readers miss.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn content_gaps(&self, span: HourRange, max: u32) -> Result<Vec<SearchCount>, StoreError> {
        const OPEN: &str = "
            AND NOT EXISTS (SELECT 1 FROM dismissed WHERE dismissed.query = searches.query AND dismissed.kind = searches.kind)
            AND NOT EXISTS (SELECT 1 FROM searches AS other WHERE other.query = searches.query
                            AND other.has_results AND other.hour >= searches.hour)";
        self.failed(OPEN, span, max)
    }

    fn failed(&self, and: &'static str, span: HourRange, max: u32) -> Result<Vec<SearchCount>, StoreError> {
        let connection = self.connection.lock();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT query, kind, sum(count) AS total, min(first_seen), max(last_seen) FROM searches
             WHERE hour BETWEEN ?1 AND ?2 AND NOT has_results {and}
             GROUP BY query, kind ORDER BY total DESC, query LIMIT ?3"
        ))?;
        let rows = statement.query_map((span.from, span.to, max), |row| {
            let (first_seen, last_seen) = (moment(row, 3)?, moment(row, 4)?);
            Ok(SearchCount { query: row.get(0)?, kind: row.get(1)?, count: row.get(2)?, first_seen, last_seen })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// How many pages were read through each source in a time, most first.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn sources(&self, span: HourRange) -> Result<Vec<(String, i64)>, StoreError> {
        let connection = self.connection.lock();
        let mut statement = connection.prepare_cached(
            "SELECT source, sum(count) AS total FROM views WHERE hour BETWEEN ?1 AND ?2 GROUP BY source ORDER BY total DESC, source",
        )?;
        let rows = statement.query_map((span.from, span.to), |row| row.try_into())?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

fn moment(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let microsecond = row.get(column)?;
    Timestamp::from_microsecond(microsecond).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, microsecond))
}

fn counted(row: &Row<'_>) -> rusqlite::Result<BucketCount> {
    let hour: i64 = row.get(0)?;
    let timestamp = hour.checked_mul(3_600).and_then(|second| Timestamp::from_second(second).ok());
    let timestamp = timestamp.ok_or(rusqlite::Error::IntegralValueOutOfRange(0, hour))?;
    Ok(BucketCount { timestamp, count: row.get(1)? })
}
