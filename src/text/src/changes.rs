//! Differences between two texts, by lines.

use std::borrow::Cow;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

/// Maximum product of the numbers of lines for which texts of few different lines are compared.
const MAX_REPETITIVE_PAIRS: usize = 1 << 20;

/// What became of the lines of a stored text. Lines are counted from 0.
pub(crate) struct LineChanges {
    /// Stored lines and the lines that replace them, in order; the lines between are the same.
    hunks: Vec<(Range<usize>, Range<usize>)>,
}

impl LineChanges {
    /// A line end that is added to the last line, or removed from it, does not change that line.
    pub(crate) fn new(stored: &str, text: &str) -> Self {
        let (stored, text) = (with_final_line_end(stored), with_final_line_end(text));
        let input = InternedInput::new(&*stored, &*text);
        if is_repetitive(&input) {
            return Self { hunks: vec![middle(&input.before, &input.after)] };
        }
        let diff = Diff::compute(Algorithm::Histogram, &input);
        let lines = |range: Range<u32>| range.start as usize..range.end as usize;
        Self { hunks: diff.hunks().map(|hunk| (lines(hunk.before), lines(hunk.after))).collect() }
    }

    /// The stored lines that a line replaces, or the one that it is.
    pub(crate) fn stored_lines(&self, line: usize) -> Range<usize> {
        let after = self.hunks.partition_point(|(_, new)| new.start <= line);
        match after.checked_sub(1).map(|hunk| &self.hunks[hunk]) {
            Some((stored, new)) if new.contains(&line) => stored.clone(),
            Some((stored, new)) => stored.end + (line - new.end)..stored.end + (line - new.end) + 1,
            None => line..line + 1,
        }
    }

    /// Whether the stored text lacks a line.
    pub(crate) fn is_new(&self, line: usize) -> bool {
        let after = self.hunks.partition_point(|(_, new)| new.start <= line);
        after > 0 && self.hunks[after - 1].1.contains(&line)
    }
}

fn with_final_line_end(text: &str) -> Cow<'_, str> {
    match text {
        "" => Cow::Borrowed(text),
        _ if text.ends_with('\n') => Cow::Borrowed(text),
        _ => Cow::Owned([text, if text.contains("\r\n") { "\r\n" } else { "\n" }].concat()),
    }
}

/// Whether both texts consist of a few lines that are repeated, which takes quadratic time to
/// compare.
fn is_repetitive(input: &InternedInput<&str>) -> bool {
    let (stored, new) = (input.before.len(), input.after.len());
    let distinct = input.interner.num_tokens() as usize;
    stored.saturating_mul(new) > MAX_REPETITIVE_PAIRS && distinct < (stored + new) / 16
}

/// One hunk: all lines between the first and the last difference.
fn middle<T: PartialEq>(stored: &[T], new: &[T]) -> (Range<usize>, Range<usize>) {
    let start = stored.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = stored[start..].iter().rev().zip(new[start..].iter().rev());
    let end = rest.take_while(|(a, b)| a == b).count();
    (start..stored.len() - end, start..new.len() - end)
}
