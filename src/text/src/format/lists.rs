//! Step 4: bullets become `-`. Numbers stay as they are: readers see the first one, and authors
//! refer to all of them.

use super::edits::{EditGroup, FormatInput, TextEdit};
use super::rendering::{Tolerance, apply_verified};

/// `*` and `+` become `-`, except where only different bullets separate two adjacent lists.
pub(super) fn normalize_bullets(input: &FormatInput<'_>) -> Option<String> {
    let lists = &input.blocks.lists;
    let mut is_separator = vec![false; lists.len()];
    for (index, list) in lists.iter().enumerate() {
        if let Some(previous) = list.follows
            && list.start.is_none()
            && lists[previous].start.is_none()
        {
            is_separator[previous] = true;
            is_separator[index] = true;
        }
    }
    let bullets = lists.iter().zip(is_separator).filter(|(list, is_separator)| list.start.is_none() && !is_separator);
    let groups = bullets.map(|(list, _)| {
        let items = list.items.iter();
        let items = items.filter(|item| matches!(input.body.as_bytes().get(item.start), Some(b'*' | b'+')));
        let edits = items.map(|item| TextEdit { range: item.start..item.start + 1, text: "-".to_owned() });
        EditGroup::of_lines(edits.collect())
    });
    apply_verified(input, groups, Tolerance::Nothing)
}
