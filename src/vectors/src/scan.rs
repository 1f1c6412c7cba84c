//! Search for the nearest vectors in memory, without an approximate index.
//!
//! Up to [`EXACT_LIMIT`] vectors, each is compared. Above, the sign bits of all vectors choose
//! candidates, which are then compared: each byte of sign bits is looked up in a table with the
//! sum of the question's values under these signs (asymmetric comparison of a full question with
//! binary vectors). docs/benchmarks.md has recall and latency.

use std::num::NonZeroUsize;

/// More vectors are searched in two stages.
pub const EXACT_LIMIT: usize = 100_000;
/// Candidates of the first stage.
const CANDIDATES: usize = 2_400;
/// Fewer vectors are searched by one thread.
const MIN_PER_THREAD: usize = 20_000;

/// Vectors with ids, as int8 with a scale for each vector.
pub struct VectorSet {
    dimensions: usize,
    ids: Vec<i64>,
    /// `dimensions` numbers for each vector.
    rows: Vec<i8>,
    /// What a number of the row is worth.
    scales: Vec<f32>,
    /// One bit for each number: whether it is positive.
    signs: Vec<u8>,
}

/// A vector that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NearVector {
    /// Its id.
    pub id: i64,
    /// Cosine of the angle to the question, up to rounding.
    pub similarity: f32,
}

/// A vector in the form that is stored: numbers and what one of them is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedVector {
    /// One number for each dimension.
    pub numbers: Vec<i8>,
    /// What a number is worth.
    pub scale: f32,
}

impl QuantizedVector {
    /// Rounds a vector to int8.
    #[must_use]
    pub fn of(vector: &[f32]) -> Self {
        let largest = vector.iter().fold(f32::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
        let scale = largest / 127.0;
        Self { numbers: vector.iter().map(|value| (value / scale).round() as i8).collect(), scale }
    }

    /// The vector, up to rounding.
    #[must_use]
    pub fn to_floats(&self) -> Vec<f32> {
        self.numbers.iter().map(|number| f32::from(*number) * self.scale).collect()
    }
}

impl VectorSet {
    /// An empty set of vectors with this length.
    #[must_use]
    pub fn new(dimensions: NonZeroUsize) -> Self {
        Self { dimensions: dimensions.get(), ids: Vec::new(), rows: Vec::new(), scales: Vec::new(), signs: Vec::new() }
    }

    /// The number of vectors.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Adds a vector. The id is new in this set. A vector with another length is ignored.
    pub fn insert(&mut self, id: i64, vector: &QuantizedVector) {
        if vector.numbers.len() != self.dimensions {
            return;
        }
        self.ids.push(id);
        self.scales.push(vector.scale);
        self.rows.extend_from_slice(&vector.numbers);
        let bits = vector.numbers.chunks(8).map(|numbers| {
            numbers.iter().enumerate().fold(0, |byte, (bit, number)| byte | (u8::from(*number > 0) << bit))
        });
        self.signs.extend(bits);
    }

    /// Removes vectors; the last ones take their places. Every id is compared, without a map from
    /// ids to places, which would need as much memory as the ids three times.
    pub fn remove_where(&mut self, is_removed: impl Fn(i64) -> bool) {
        let sign_bytes = self.sign_bytes();
        for position in (0..self.ids.len()).rev() {
            if is_removed(self.ids[position]) {
                self.ids.swap_remove(position);
                self.scales.swap_remove(position);
                swap_remove_row(&mut self.rows, position, self.dimensions);
                swap_remove_row(&mut self.signs, position, sign_bytes);
            }
        }
    }

    /// The nearest vectors whose id passes the filter, the nearest first.
    pub fn search(&self, question: &[f32], limit: usize, is_wanted: impl Fn(i64) -> bool + Sync) -> Vec<NearVector> {
        if question.len() != self.dimensions || limit == 0 {
            return Vec::new();
        }
        let question = Question::new(question, self.len() > EXACT_LIMIT);
        let threads = match (self.len() / MIN_PER_THREAD).min(4) {
            0 | 1 => 1,
            // The limits of the process are files: small sets must not wait for them.
            threads => std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(threads),
        };
        let length = self.len().div_ceil(threads).max(1);
        let mut found: Vec<NearVector> = if threads == 1 {
            self.search_range(&question, 0..self.len(), limit, &is_wanted)
        } else {
            std::thread::scope(|scope| {
                let starts = (0..self.len()).step_by(length);
                let search = |start: usize| {
                    let (question, is_wanted) = (&question, &is_wanted);
                    let range = start..(start + length).min(self.len());
                    scope.spawn(move || self.search_range(question, range, limit, is_wanted))
                };
                let handles: Vec<_> = starts.map(search).collect();
                let join = |handle: std::thread::ScopedJoinHandle<'_, Vec<NearVector>>| {
                    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                };
                handles.into_iter().flat_map(join).collect()
            })
        };
        found.sort_unstable_by(|a, b| b.similarity.total_cmp(&a.similarity).then(a.id.cmp(&b.id)));
        found.truncate(limit);
        found
    }

    fn search_range(
        &self,
        question: &Question,
        range: std::ops::Range<usize>,
        limit: usize,
        is_wanted: &(impl Fn(i64) -> bool + Sync),
    ) -> Vec<NearVector> {
        let wanted = range.clone().filter(|at| is_wanted(self.ids[*at]));
        let mut best = BestPositions::new(limit);
        if let Some(tables) = &question.tables {
            // Each thread gets its part of the candidates, and a margin.
            let share = CANDIDATES.max(4 * limit) * 3 * range.len() / (2 * self.len());
            let mut candidates = BestPositions::new(share.max(limit));
            let sign_bytes = self.sign_bytes();
            wanted.for_each(|at| {
                let signs = &self.signs[at * sign_bytes..(at + 1) * sign_bytes];
                let sum: i32 = signs.iter().zip(tables).map(|(byte, table)| i32::from(table[usize::from(*byte)])).sum();
                candidates.offer(at, sum as f32);
            });
            candidates.finish().for_each(|(_, at)| best.offer(at, self.similarity(question, at)));
        } else {
            wanted.for_each(|at| best.offer(at, self.similarity(question, at)));
        }
        best.finish().map(|(similarity, at)| NearVector { id: self.ids[at], similarity }).collect()
    }

    fn similarity(&self, question: &Question, at: usize) -> f32 {
        let row = &self.rows[at * self.dimensions..(at + 1) * self.dimensions];
        let sum: i32 = row.iter().zip(&question.numbers).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
        sum as f32 * self.scales[at] * question.scale
    }

    fn sign_bytes(&self) -> usize {
        self.dimensions.div_ceil(8)
    }
}

fn swap_remove_row<T: Copy>(rows: &mut Vec<T>, position: usize, length: usize) {
    let last = rows.len() - length;
    rows.copy_within(last.., position * length);
    rows.truncate(last);
}

/// A question, prepared for the comparison.
struct Question {
    /// With up to 16 bits, so that only the rounding of the vectors counts.
    numbers: Vec<i16>,
    scale: f32,
    /// For each byte of sign bits, the sum of eight numbers with these signs; none where each
    /// vector is compared.
    tables: Option<Vec<[i16; 256]>>,
}

impl Question {
    fn new(vector: &[f32], has_tables: bool) -> Self {
        let largest = vector.iter().fold(f32::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
        // The sum of the products with int8 numbers must fit.
        let most = i32::MAX / (128 * i32::try_from(vector.len()).unwrap_or(i32::MAX / 128).max(1));
        let scale = largest / most.clamp(1, i32::from(i16::MAX)) as f32;
        let numbers: Vec<i16> = vector.iter().map(|value| (value / scale).round() as i16).collect();
        let table = |numbers: &[i16]| {
            std::array::from_fn(|byte| {
                // An eighth of each, so that the sum fits.
                let eighths = numbers.iter().map(|number| number / 8);
                let signed =
                    eighths.enumerate().map(|(bit, number)| if byte >> bit & 1 == 1 { number } else { -number });
                signed.sum()
            })
        };
        let tables = has_tables.then(|| numbers.chunks(8).map(table).collect());
        Self { numbers, scale, tables }
    }
}

/// The positions with the highest scores, without sorting all of them.
struct BestPositions {
    limit: usize,
    /// Scores below cannot be among the best.
    threshold: f32,
    scored: Vec<(f32, usize)>,
}

impl BestPositions {
    fn new(limit: usize) -> Self {
        Self { limit, threshold: f32::NEG_INFINITY, scored: Vec::with_capacity(2 * limit) }
    }

    fn offer(&mut self, position: usize, score: f32) {
        if score > self.threshold {
            self.scored.push((score, position));
            if self.scored.len() == 2 * self.limit {
                self.drop_worst();
            }
        }
    }

    fn drop_worst(&mut self) {
        let by_score = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        let (_, last, _) = self.scored.select_nth_unstable_by(self.limit - 1, by_score);
        self.threshold = last.0;
        self.scored.truncate(self.limit);
    }

    /// Scores and positions.
    fn finish(mut self) -> impl Iterator<Item = (f32, usize)> {
        if self.scored.len() > self.limit {
            self.drop_worst();
        }
        self.scored.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(seed: u64, dimensions: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let values: Vec<f32> = (0..dimensions)
            .map(|at| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                ((state >> 40) as f32 / 16_777_216.0 - 0.5) / (1.0 + at as f32).sqrt()
            })
            .collect();
        let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
        values.into_iter().map(|value| value / length).collect()
    }

    fn set_of(count: u64, dimensions: usize) -> VectorSet {
        let mut set = VectorSet::new(NonZeroUsize::new(dimensions).unwrap());
        (0..count).for_each(|id| set.insert(id.cast_signed(), &QuantizedVector::of(&vector(id + 1, dimensions))));
        set
    }

    fn exact(count: u64, question: &[f32], limit: usize, is_wanted: impl Fn(i64) -> bool) -> Vec<i64> {
        let cosine = |id: u64| vector(id + 1, question.len()).iter().zip(question).map(|(a, b)| a * b).sum::<f32>();
        let wanted = (0..count).filter(|id| is_wanted(id.cast_signed()));
        let mut all: Vec<(f32, i64)> = wanted.map(|id| (cosine(id), id.cast_signed())).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.into_iter().take(limit).map(|(_, id)| id).collect()
    }

    fn ids(found: &[NearVector]) -> Vec<i64> {
        found.iter().map(|near| near.id).collect()
    }

    #[test]
    fn a_vector_is_nearest_to_itself_in_any_dimension() {
        for dimensions in [1, 3, 8, 9, 64, 256, 1536] {
            let set = set_of(200, dimensions);
            let found = set.search(&vector(18, dimensions), 5, |_| true);
            assert!(found[0].similarity > 0.98 && found[0].similarity < 1.02, "{dimensions} {found:?}");
            assert!(found.len() == 5 && (dimensions < 8 || found[0].id == 17), "{dimensions} {found:?}");
        }
    }

    #[test]
    fn long_vectors_of_equal_numbers_do_not_overflow() {
        for dimensions in [256, 4_096, 65_536] {
            let vector = vec![1.0 / (dimensions as f32).sqrt(); dimensions];
            let mut set = VectorSet::new(NonZeroUsize::new(dimensions).unwrap());
            set.insert(1, &QuantizedVector::of(&vector));
            let found = set.search(&vector, 1, |_| true);
            assert!((found[0].similarity - 1.0).abs() < 0.01, "{dimensions} {found:?}");
        }
    }

    #[test]
    fn the_exact_scan_agrees_with_a_sort_of_all_cosines() {
        let set = set_of(3_000, 64);
        for seed in 0..20 {
            let question = vector(90_000 + seed, 64);
            let even = |id: i64| id % 2 == 0;
            let (found, expected) = (set.search(&question, 10, even), exact(3_000, &question, 10, even));
            let common = ids(&found).iter().filter(|id| expected.contains(id)).count();
            assert!(common >= 9 && found.iter().all(|near| even(near.id)), "{common} of 10");
        }
    }

    #[test]
    fn removed_and_replaced_vectors_are_not_found() {
        let mut set = set_of(500, 32);
        set.remove_where(|id| id % 3 == 0 || id == 1 || id == 12_345);
        set.insert(1, &QuantizedVector::of(&vector(9_999, 32)));
        assert_eq!(set.len(), 333);
        for id in 0..500 {
            let found = set.search(&vector(id + 1, 32), 1, |_| true);
            let is_there = id % 3 != 0 && id != 1;
            assert_eq!(found[0].id == id.cast_signed(), is_there, "{id}");
        }
        assert_eq!(set.search(&vector(9_999, 32), 1, |_| true)[0].id, 1);
    }

    #[test]
    fn two_stages_find_what_a_full_comparison_finds() {
        let count = EXACT_LIMIT as u64 + 1_000;
        let set = set_of(count, 32);
        let mut common = 0;
        for seed in 0..5 {
            let question = vector(500_000 + seed, 32);
            let expected = exact(count, &question, 10, |_| true);
            common += ids(&set.search(&question, 10, |_| true)).iter().filter(|id| expected.contains(id)).count();
        }
        assert!(common >= 45, "{common} of 50");
    }

    #[test]
    fn unfit_questions_find_nothing() {
        let set = set_of(10, 8);
        assert!(set.search(&[1.0; 7], 5, |_| true).is_empty());
        assert!(set.search(&[1.0; 8], 0, |_| true).is_empty());
        assert!(set.search(&[1.0; 8], 5, |_| false).is_empty());
        assert_eq!(set.search(&[0.0; 8], 5, |_| true).len(), 5);
        assert!(VectorSet::new(NonZeroUsize::MIN).is_empty());
    }
}
