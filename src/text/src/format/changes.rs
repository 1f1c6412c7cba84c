//! The lines of a text that another one does not have.

use imara_diff::{Algorithm, Diff, InternedInput};

/// For each line of `text` whether it was added or changed compared with `stored`.
pub(super) fn find_new_lines(stored: &str, text: &str) -> Vec<bool> {
    let input = InternedInput::new(stored, text);
    let diff = Diff::compute(Algorithm::Histogram, &input);
    (0..u32::try_from(input.after.len()).unwrap_or(u32::MAX)).map(|line| diff.is_added(line)).collect()
}
