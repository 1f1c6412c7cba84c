//! The lengths of the parts of an object, to find where each part starts.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Run-length encoded: a length, and how many consecutive parts have it.
///
/// The space in file attributes is small. Clients send parts of equal length and a shorter last
/// one, so ten thousand parts are two entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct PartLengths(Vec<(u64, u64)>);

impl PartLengths {
    /// Encodes the lengths of parts.
    pub(crate) fn of(parts: impl IntoIterator<Item = u64>) -> Self {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for length in parts {
            match runs.last_mut() {
                Some((last, count)) if *last == length => *count += 1,
                Some(_) | None => runs.push((length, 1)),
            }
        }
        Self(runs)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The byte range of a part, counted from 1. `None` when the lengths do not match the number of
    /// parts and the size: the attribute may come from another program.
    pub(crate) fn part(&self, number: u64, (parts, size): (u64, u64)) -> Option<Range<u64>> {
        let (mut before, mut start, mut range) = (0_u64, 0_u64, None);
        for (length, count) in &self.0 {
            let after = before.checked_add(*count)?;
            let end = start.checked_add(length.checked_mul(*count)?)?;
            if number > before && number <= after {
                let at = start + (number - before - 1) * length;
                range = Some(at..at + length);
            }
            (before, start) = (after, end);
        }
        range.filter(|_| (before, start) == (parts, size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_contiguous_and_equal_lengths_are_stored_compactly() {
        let sizes = [5_u64, 5, 5, 7, 5, 0];
        let lengths = PartLengths::of(sizes);
        let mut begin = 0;
        for (number, size) in (1..).zip(sizes) {
            assert_eq!(lengths.part(number, (6, 27)), Some(begin..begin + size), "{number}");
            begin += size;
        }
        assert_eq!([0, 7].map(|number| lengths.part(number, (6, 27))), [None, None]);
        let many = PartLengths::of(std::iter::repeat_n(8 << 20, 9_999).chain([1]));
        assert_eq!(serde_json::to_string(&many).unwrap(), "[[8388608,9999],[1,1]]");
        assert_eq!(many.part(10_000, (10_000, (8 << 20) * 9_999 + 1)).unwrap().end, (8 << 20) * 9_999 + 1);
    }

    #[test]
    fn lengths_that_are_not_those_of_the_object_tell_nothing() {
        let lengths = PartLengths::of([5, 5]);
        assert_eq!(lengths.part(1, (2, 11)), None);
        assert_eq!(lengths.part(1, (3, 10)), None);
        assert_eq!(PartLengths::default().part(1, (0, 0)), None);
        for odd in ["[[18446744073709551615,2]]", "[[1,18446744073709551615],[1,0],[1,1]]", "[[0,0]]"] {
            let lengths: PartLengths = serde_json::from_str(odd).unwrap();
            assert_eq!(lengths.part(1, (2, 2)), None, "{odd}");
        }
    }
}
