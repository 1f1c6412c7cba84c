//! What is measured, and how it is summed up.

use std::time::Duration;

/// How long one kind of work is done in one round: until the first of both is reached.
#[derive(Debug, Clone, Copy)]
pub struct RoundBound {
    /// Times.
    pub count: usize,
    /// How long nothing new is begun after.
    pub time: Duration,
}

/// At most this often, at most for this long.
pub const fn round_bound(count: usize, seconds: u64) -> RoundBound {
    RoundBound { count, time: Duration::from_secs(seconds) }
}

/// One kind of work, done again and again without a break.
#[derive(Debug)]
pub struct MeasuredRound {
    /// How long each took.
    pub latencies: Vec<Duration>,
    /// From the first beginning to the last end.
    pub elapsed: Duration,
}

/// The rounds of one kind of work. Its rate is that of the round in the middle, so that one disturbed round changes nothing;
/// its latencies are those of all rounds.
#[derive(Debug, Clone, Default)]
pub struct RoundSeries {
    rates: Vec<f64>,
    latencies: Vec<Duration>,
}

impl RoundSeries {
    /// Takes in a round.
    pub fn add(&mut self, round: MeasuredRound) {
        self.add_counted(round.latencies.len(), round.elapsed);
        self.latencies.extend(round.latencies);
        self.latencies.sort_unstable();
    }

    /// Takes in a round of which only the whole was measured.
    pub fn add_counted(&mut self, count: usize, elapsed: Duration) {
        self.rates.push(count as f64 / elapsed.as_secs_f64());
        self.rates.sort_by(f64::total_cmp);
    }

    /// Times per second, in the round in the middle; none without a round.
    pub fn rate(&self) -> Option<f64> {
        self.rates.get(self.rates.len() / 2).copied()
    }

    /// The latency that this share of all stays at or below; none when single ones were not measured.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let place = (share * self.latencies.len() as f64).ceil() as usize;
        self.latencies.get(place.saturating_sub(1)).copied()
    }

    /// The longest; none when single ones were not measured.
    pub fn longest(&self) -> Option<Duration> {
        self.latencies.last().copied()
    }

    /// How many single latencies there are.
    pub fn len(&self) -> usize {
        self.latencies.len()
    }

    /// Whether no single latency was measured.
    pub fn is_empty(&self) -> bool {
        self.latencies.is_empty()
    }

    /// How many of these could be done in a second at the latency in the middle.
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
