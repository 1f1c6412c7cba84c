//! Measurements and their statistics.

use std::time::Duration;

/// Limits of one round: the first one reached ends it.
#[derive(Debug, Clone, Copy)]
pub struct RoundBound {
    /// Maximum number of operations.
    pub count: usize,
    /// Time after which no new operation starts.
    pub time: Duration,
}

/// Creates limits.
pub const fn round_bound(count: usize, seconds: u64) -> RoundBound {
    RoundBound { count, time: Duration::from_secs(seconds) }
}

/// One round of an operation, repeated without a pause.
#[derive(Debug)]
pub struct MeasuredRound {
    /// Latency of each operation.
    pub latencies: Vec<Duration>,
    /// From the start of the first to the end of the last operation.
    pub elapsed: Duration,
}

/// The rounds of one operation. The rate is the median of the rounds, so that one disturbed round
/// has no effect; the latencies are those of all rounds.
#[derive(Debug, Clone, Default)]
pub struct RoundSeries {
    rates: Vec<f64>,
    latencies: Vec<Duration>,
}

impl RoundSeries {
    /// Adds a round.
    pub fn add(&mut self, round: MeasuredRound) {
        self.add_counted(round.latencies.len(), round.elapsed);
        self.latencies.extend(round.latencies);
        self.latencies.sort_unstable();
    }

    /// Adds a round without single latencies.
    pub fn add_counted(&mut self, count: usize, elapsed: Duration) {
        self.rates.push(count as f64 / elapsed.as_secs_f64());
        self.rates.sort_by(f64::total_cmp);
    }

    /// Operations per second in the median round; none without a round.
    pub fn rate(&self) -> Option<f64> {
        self.rates.get(self.rates.len() / 2).copied()
    }

    /// This percentile of the latencies; none without single latencies.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let rank = (share * self.latencies.len() as f64).ceil() as usize;
        self.latencies.get(rank.saturating_sub(1)).copied()
    }

    /// The maximum latency; none without single latencies.
    pub fn longest(&self) -> Option<Duration> {
        self.latencies.last().copied()
    }

    /// Number of latencies.
    pub fn len(&self) -> usize {
        self.latencies.len()
    }

    /// Whether there are no latencies.
    pub fn is_empty(&self) -> bool {
        self.latencies.is_empty()
    }

    /// Operations per second at the median latency.
    pub fn typical_rate(&self) -> Option<f64> {
        self.percentile(0.5).map(|latency| 1.0 / latency.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_real_latencies_and_rate_is_the_middle_round() {
        let mut series = RoundSeries::default();
        assert_eq!((series.rate(), series.percentile(0.5)), (None, None));
        for seconds in [1, 4, 2] {
            let latencies = (1..=100).map(Duration::from_millis).collect();
            series.add(MeasuredRound { latencies, elapsed: Duration::from_secs(seconds) });
        }
        assert_eq!(series.rate(), Some(50.0));
        for (share, millis) in [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)] {
            assert_eq!(series.percentile(share), Some(Duration::from_millis(millis)), "{share}");
        }
    }
}
