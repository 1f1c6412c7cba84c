//! Hunks of an undo: numbered parts that can be selected.
//!
//! A hunk is a range of lines that the undo replaces. A page that is created, removed or renamed,
//! or that is no text, is one hunk.

use std::collections::BTreeSet;

use bytes::Bytes;
use svcfs_base::Fault;
use svcfs_store::{changed_lines, unified_diff};

use super::operations::UndoHunk;
use super::page::PageUndo;
use super::plan::UndoPlan;
use crate::merge::apply_changes;

/// The hunks of all pages, numbered from 1, and the diff of each page, in the order of the plan.
///
/// # Errors
/// `Internal` when git cannot compare.
pub fn describe(plan: &UndoPlan) -> Result<Vec<(Vec<UndoHunk>, String)>, Fault> {
    let mut number = 0;
    let mut next = || {
        number += 1;
        number
    };
    let describe = |page: &PageUndo| {
        let now = page.now.as_ref().map(|file| &file.content[..]);
        let result = page.result.as_ref().map(|file| &file.content[..]);
        let diff = page.path().map(|path| unified_diff(path, now, result)).transpose()?.unwrap_or_default();
        let hunks = match line_texts(page) {
            Some((old, new)) => {
                let ranges = changed_lines(old, new).into_iter();
                ranges.map(|(lines, _)| UndoHunk { number: next(), start: lines.start + 1, end: lines.end }).collect()
            }
            None => {
                let lines = now.map_or(0, |content| String::from_utf8_lossy(content).lines().count());
                vec![UndoHunk { number: next(), start: 1, end: lines }]
            }
        };
        Ok((hunks, diff))
    };
    plan.pages.iter().map(describe).collect()
}

/// Leaves only these hunks in the plan.
///
/// # Errors
/// `Invalid` for a number without a hunk.
pub fn select(plan: &mut UndoPlan, numbers: &[u32]) -> Result<(), Fault> {
    let mut wanted: BTreeSet<usize> = numbers.iter().map(|number| *number as usize).collect();
    let mut number = 0;
    for page in &mut plan.pages {
        let mut take = || {
            number += 1;
            wanted.remove(&number)
        };
        let Some((old, new)) = line_texts(page) else {
            if !take() {
                page.result = page.now.clone();
            }
            continue;
        };
        let text = with_hunks(old, new, take);
        if let Some(result) = &mut page.result {
            result.content = Bytes::from(text);
        }
    }
    plan.pages.retain(|page| page.now != page.result);
    match wanted.first() {
        Some(unknown) => Err(Fault::invalid("hunks", format_args!("there is no hunk {unknown}; there are {number}"))),
        None => Ok(()),
    }
}

/// The texts of a page that the undo changes line by line.
fn line_texts(page: &PageUndo) -> Option<(&str, &str)> {
    let (now, result) = (page.now.as_ref()?, page.result.as_ref()?);
    let is_same_file = now.path == result.path && now.kind == result.kind;
    let texts = (std::str::from_utf8(&now.content).ok()?, std::str::from_utf8(&result.content).ok()?);
    is_same_file.then_some(texts)
}

/// The old text with the changes that are taken.
fn with_hunks(old: &str, new: &str, mut take: impl FnMut() -> bool) -> String {
    apply_changes(old, new, changed_lines(old, new).into_iter().filter(|_| take()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_hunks_alone_are_made() {
        let (old, new) = ("one\ntwo\nthree\nfour\nfive", "ONE\ntwo\nfour\nfive\nsix\n");
        for (taken, expected) in [
            ([true, true, true], new),
            ([false, false, false], old),
            ([true, false, false], "ONE\ntwo\nthree\nfour\nfive"),
            ([false, true, false], "one\ntwo\nfour\nfive"),
            ([false, false, true], "one\ntwo\nthree\nfour\nfive\nsix\n"),
        ] {
            let mut taken_hunks = taken.into_iter();
            assert_eq!(with_hunks(old, new, || taken_hunks.next().unwrap()), expected, "{taken:?}");
        }
    }
}
