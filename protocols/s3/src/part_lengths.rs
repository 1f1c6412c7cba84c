//! How long the parts were that an object came in: where each of them begins.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Lengths of parts, in the order of the parts: each length, and how many parts after one another have it.
///
/// Why so? Because a file has little room for what is kept beside it, and clients send parts of one length and a shorter one behind them: ten thousand
/// of those are two entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct PartLengths(Vec<(u64, u64)>);

impl PartLengths {
    /// Those of parts with so many bytes.
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

    /// Whether none are known.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes of the part of a number, which begin at 1, of an object of so many parts and bytes; none where these are not its lengths: whoever
    /// reaches the disk can write anything.
    pub(crate) fn part(&self, number: u64, (parts, size): (u64, u64)) -> Option<Range<u64>> {
        let (mut before, mut begin, mut found) = (0_u64, 0_u64, None);
        for (length, count) in &self.0 {
            let after = before.checked_add(*count)?;
            let end = begin.checked_add(length.checked_mul(*count)?)?;
            if number > before && number <= after {
                let at = begin + (number - before - 1) * length;
                found = Some(at..at + length);
            }
            (before, begin) = (after, end);
        }
        found.filter(|_| (before, begin) == (parts, size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_begins_where_the_one_before_it_ends_and_parts_of_one_length_take_no_more_room_than_one() {
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
