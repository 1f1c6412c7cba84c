//! The three-way merge of texts by lines, as `git merge-file --diff3` does it.
//!
//! The changed lines of both sides are walked together. Changes that neither overlap nor touch are
//! both made; the same change on both sides is made once; everything else is a conflict. Git
//! reports conflicts that touch a change as one, and so does this.

use std::ops::Range;

/// Texts with more lines are compared from their ends only, so that a merge takes linear time: all
/// lines from the first to the last difference count as changed.
const MAX_COMPARED_LINES: usize = 200_000;

/// Lines of a text, counted from 0, and the lines of another text that replace them.
pub type ChangedLines = (Range<usize>, Range<usize>);

/// Compares two texts: returns the changed lines in order. A line ends with `\n` and includes it.
pub type LineDiff = fn(&str, &str) -> Vec<ChangedLines>;

/// A part of a merged text; each part borrows from the text that it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergedLines<'a> {
    /// The same lines in both, or the lines of the side that changed them.
    Resolved(&'a str),
    /// Lines that both sides changed alike; empty if both removed lines.
    Agreed(&'a str),
    /// Both sides changed these lines, differently.
    Conflict {
        /// The lines in `ours`, counted from 0.
        lines: Range<usize>,
        /// Their text in the common base.
        base: &'a str,
        /// Their text in `ours`.
        ours: &'a str,
        /// Their text in `theirs`.
        theirs: &'a str,
    },
}

/// Merges two texts that were made from the same base.
#[must_use]
pub fn merge_lines<'a>((base, ours, theirs): (&'a str, &'a str, &'a str), diff: LineDiff) -> Vec<MergedLines<'a>> {
    let [base, ours, theirs] = [base, ours, theirs].map(Lines::of);
    let hunks = combine(&ours, &theirs, (&compare(&base, &ours, diff), &compare(&base, &theirs, diff)), base.count());
    let mut merged = Vec::with_capacity(2 * hunks.len() + 1);
    let mut at = 0;
    for Hunk { side, base: in_base, ours: in_ours, theirs: in_theirs } in hunks {
        let (in_base, in_ours, in_theirs) = (to_range(&in_base), to_range(&in_ours), to_range(&in_theirs));
        merged.push(MergedLines::Resolved(ours.text(at..in_ours.start)));
        at = in_ours.end;
        merged.push(match side {
            Side::Ours => MergedLines::Resolved(ours.text(in_ours)),
            Side::Agreed => MergedLines::Agreed(ours.text(in_ours)),
            Side::Theirs => MergedLines::Resolved(theirs.text(in_theirs)),
            Side::Both => MergedLines::Conflict {
                base: base.text(in_base),
                ours: ours.text(in_ours.clone()),
                theirs: theirs.text(in_theirs),
                lines: in_ours,
            },
        });
    }
    merged.push(MergedLines::Resolved(ours.text(at..ours.count())));
    merged.retain(|part| *part != MergedLines::Resolved(""));
    merged
}

/// The start of each line of a text, and its end.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let ends = text.split_inclusive('\n').scan(0, |end, line| {
            *end += line.len();
            Some(*end)
        });
        Self { text, starts: std::iter::once(0).chain(ends).collect() }
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn text(&self, lines: Range<usize>) -> &'a str {
        let offset = |line: usize| self.starts.get(line).copied().unwrap_or(self.text.len());
        self.text.get(offset(lines.start)..offset(lines.end)).unwrap_or_default()
    }
}

fn compare(base: &Lines<'_>, side: &Lines<'_>, diff: LineDiff) -> Vec<ChangedLines> {
    if base.text == side.text {
        return Vec::new();
    }
    if base.count().max(side.count()) <= MAX_COMPARED_LINES {
        return diff(base.text, side.text);
    }
    let (before, after) = (base.text.split_inclusive('\n'), side.text.split_inclusive('\n'));
    let start = before.clone().zip(after.clone()).take_while(|(old, new)| old == new).count();
    let rest = base.count().min(side.count()) - start;
    let end = before.rev().zip(after.rev()).take(rest).take_while(|(old, new)| old == new).count();
    vec![(start..base.count() - end, start..side.count() - end)]
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Ours,
    Theirs,
    /// Both, alike.
    Agreed,
    Both,
}

/// Lines that change, in each text.
///
/// Signed numbers: a hunk that a larger hunk of the other side covers can begin before that text
/// until the two are joined.
struct Hunk {
    side: Side,
    base: Range<isize>,
    ours: Range<isize>,
    theirs: Range<isize>,
}

/// Both lists of changes as one, in order.
fn combine(
    ours: &Lines<'_>,
    theirs: &Lines<'_>,
    (in_ours, in_theirs): (&[ChangedLines], &[ChangedLines]),
    base_count: usize,
) -> Vec<Hunk> {
    let shift = |from: usize, to: usize| to.cast_signed() - from.cast_signed();
    let mut hunks: Vec<Hunk> = Vec::new();
    let (mut our_changes, mut their_changes) = (in_ours.iter().peekable(), in_theirs.iter().peekable());
    loop {
        let (our, their) = (our_changes.peek().copied(), their_changes.peek().copied());
        let (our_shift, their_shift) = (
            our.map_or_else(|| shift(base_count, ours.count()), |(old, new)| shift(old.start, new.start)),
            their.map_or_else(|| shift(base_count, theirs.count()), |(old, new)| shift(old.start, new.start)),
        );
        match (our, their) {
            (None, None) => return hunks,
            (Some((old, new)), their) if their.is_none_or(|(other, _)| old.end < other.start) => {
                let base = signed(old);
                let theirs = base.start + their_shift..base.end + their_shift;
                push(&mut hunks, Hunk { side: Side::Ours, base, ours: signed(new), theirs });
                our_changes.next();
            }
            (our, Some((old, new))) if our.is_none_or(|(other, _)| old.end < other.start) => {
                let base = signed(old);
                let ours = base.start + our_shift..base.end + our_shift;
                push(&mut hunks, Hunk { side: Side::Theirs, base, ours, theirs: signed(new) });
                their_changes.next();
            }
            (Some((our_old, our_new)), Some((their_old, their_new))) => {
                let is_same = our_old == their_old && ours.text(our_new.clone()) == theirs.text(their_new.clone());
                let hunk = conflict((our_old, our_new), (their_old, their_new));
                push(&mut hunks, if is_same { Hunk { side: Side::Agreed, ..hunk } } else { hunk });
                if our_old.end >= their_old.end {
                    their_changes.next();
                }
                if their_old.end >= our_old.end {
                    our_changes.next();
                }
            }
            // the two guards above leave no such pair
            (Some(_), None) | (None, Some(_)) => return hunks,
        }
    }
}

/// Two changes that overlap or touch: each is extended to the lines of both.
fn conflict(
    (our_old, our_new): (&Range<usize>, &Range<usize>),
    (their_old, their_new): (&Range<usize>, &Range<usize>),
) -> Hunk {
    let (our_old, their_old) = (signed(our_old), signed(their_old));
    let base = our_old.start.min(their_old.start)..our_old.end.max(their_old.end);
    let extend =
        |old: Range<isize>, new: Range<isize>| new.start - (old.start - base.start)..new.end + (base.end - old.end);
    let (ours, theirs) = (extend(our_old, signed(our_new)), extend(their_old, signed(their_new)));
    Hunk { side: Side::Both, base, ours, theirs }
}

/// Adds a hunk, as a part of the last one if they touch.
fn push(hunks: &mut Vec<Hunk>, hunk: Hunk) {
    match hunks.last_mut() {
        Some(last) if hunk.ours.start <= last.ours.end || hunk.theirs.start <= last.theirs.end => {
            if hunk.side != last.side {
                last.side = Side::Both;
            }
            last.base.end = hunk.base.end;
            last.ours.end = hunk.ours.end;
            last.theirs.end = hunk.theirs.end;
        }
        Some(_) | None => hunks.push(hunk),
    }
}

fn signed(range: &Range<usize>) -> Range<isize> {
    range.start.cast_signed()..range.end.cast_signed()
}

fn to_range(range: &Range<isize>) -> Range<usize> {
    usize::try_from(range.start).unwrap_or(0)..usize::try_from(range.end).unwrap_or(0)
}
