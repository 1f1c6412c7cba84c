//! What joining does, what it leaves alone, and for whom it stops.

use super::*;
use crate::tests::Space;

/// A text with many words of its own.
fn text(number: usize) -> String {
    let words: String = (0..60).map(|word| format!("w{} ", (number * 7919 + word * 131) % 4_000)).collect();
    format!("# Page {number}\n\ncommon words {words}\nsee [[other|label {number}]]\n")
}

/// An index that pages were written to one after the other.
fn written(pages: usize) -> Space {
    let space = Space::new();
    (0..pages).for_each(|number| space.put(&[(&format!("p{number}.md"), &text(number))]));
    space
}

fn spread(space: &Space, table: &'static str) -> SegmentLayout {
    SegmentLayout::read(&space.index.writer.lock().connection, table).unwrap().unwrap()
}

fn parts(space: &Space, table: &'static str) -> usize {
    spread(space, table).levels.iter().map(|level| level.segments.len()).sum()
}

fn joined(space: &Space) -> MergeStep {
    space.index.merge_segments(|| false).unwrap()
}

fn step(space: &Space, pages: usize) -> MergeStep {
    merge_step(&space.index.writer.lock().connection, pages).unwrap()
}

#[test]
fn an_index_that_has_rested_has_one_part_and_answers_the_same() {
    let space = written(300);
    let asked = ["common words", "\"w131 w262\"", "w131 OR w262", "label", "title:299"];
    let answers = || asked.map(|question| space.found(question));
    let before = (space.index.fingerprint().unwrap(), answers());
    assert!(parts(&space, "texts") > 1);
    let mut steps = 0;
    while joined(&space) == MergeStep::Partial {
        steps += 1;
    }
    assert!(steps > 1);
    assert_eq!(TABLES.map(|table| parts(&space, table)), [1, 1, 1]);
    assert!(before.1.iter().all(|found| !found.is_empty()));
    assert_eq!((space.index.fingerprint().unwrap(), answers()), before);
}

#[test]
fn what_is_joined_is_not_joined_again_while_nothing_changes() {
    let space = written(40);
    while joined(&space) == MergeStep::Partial {}
    let changes = || space.index.writer.lock().connection.total_changes();
    let before = (changes(), TABLES.map(|table| spread(&space, table)));
    assert_eq!(joined(&space), MergeStep::Complete);
    assert_eq!((changes(), TABLES.map(|table| spread(&space, table))), before);
    let space = space.reopen();
    assert_eq!(joined(&space), MergeStep::Complete);
    assert_eq!(joined(&Space::new()), MergeStep::Complete);
}

#[test]
fn a_small_segment_beside_a_large_one_is_not_merged() {
    let space = written(300);
    while joined(&space) == MergeStep::Partial {}
    space.put(&[("p7.md", "few words")]);
    // The names of so few pages take no more room than the change does.
    while joined(&space) == MergeStep::Partial {}
    assert_eq!((parts(&space, "texts"), parts(&space, "names")), (2, 1));
}

#[test]
fn a_writer_does_not_wait_for_the_joining() {
    let space = written(300);
    let before = TABLES.map(|table| spread(&space, table));
    space.index.writer.waiting_writers.fetch_add(1, Ordering::Relaxed);
    // More than can be joined before anybody looks who waits.
    let given_up = space.index.writer.run_preemptible(|| false, |connection| merge_step(connection, 100_000)).unwrap();
    assert_eq!((given_up, TABLES.map(|table| spread(&space, table))), (None, before));
    space.index.writer.waiting_writers.fetch_sub(1, Ordering::Relaxed);
    let given_up = space.index.writer.run_preemptible(|| true, |connection| merge_step(connection, 100_000)).unwrap();
    assert_eq!(given_up, None);
    space.put(&[("late.md", "belated")]);
    assert_eq!(space.found("belated"), ["late.md"]);
    while joined(&space) == MergeStep::Partial {}
    assert_eq!((parts(&space, "texts"), space.found("belated")), (1, vec!["late.md".to_owned()]));
}

#[test]
fn segment_merging_yields_to_writers_and_to_a_rebuild() {
    let space = written(40);
    let writer = space.index.writer.lock();
    assert_eq!(joined(&space), MergeStep::Preempted);
    drop(writer);
    let pages = [()].into_iter().map(|()| {
        assert_eq!(joined(&space), MergeStep::Preempted);
        Ok::<_, std::convert::Infallible>(crate::tests::page("a.md", "apples"))
    });
    space.index.rebuild(pages, svcfs_base::Seq(41), |_| {}).unwrap();
    assert_eq!(space.found("apples"), ["a.md"]);
}

#[test]
fn writes_between_merge_steps_are_as_if_nothing_was_merged() {
    let (one, other) = (written(150), written(150));
    let mut began = 0;
    for round in 0..60 {
        began += usize::from(step(&one, 3) == MergeStep::Partial);
        for space in [&one, &other] {
            space.put(&[(&format!("p{}.md", round * 2), &text(1_000 + round))]);
            space.remove(&format!("p{}.md", 149 - round));
        }
    }
    assert!(began > 10);
    while joined(&one) == MergeStep::Partial {}
    assert_eq!(one.index.fingerprint().unwrap(), other.index.fingerprint().unwrap());
    assert_eq!(one.found("\"w131 w262\""), other.found("\"w131 w262\""));
}

#[test]
fn merging_resumes_after_a_small_change_without_restarting() {
    let space = written(300);
    assert_eq!((0..4).map(|_| step(&space, 8)).collect::<Vec<_>>(), [MergeStep::Partial; 4]);
    let before = spread(&space, "texts").merging_pages();
    assert!(before > 0);
    space.put(&[("late.md", "belated")]);
    assert_eq!(spread(&space, "texts").next_merge(8), Some(8));
}

#[test]
fn a_table_in_another_format_is_not_changed() {
    assert_eq!(SegmentLayout::decode(b""), None);
    assert_eq!(SegmentLayout::decode(b"\0\0\0\0\x02\x01\x05\0\0\x01\x01\x01\x02"), None);
    // One level that says it has a part, and none behind it.
    assert_eq!(SegmentLayout::decode(b"\0\0\0\0\xff\0\0\x01\x01\x01\x01\0\x01"), None);
    let level = |joining, parts: &[u64]| SegmentLevel { merging: joining, segments: parts.to_vec() };
    assert_eq!(SegmentLayout { levels: vec![] }.next_merge(8), None);
    assert_eq!(SegmentLayout { levels: vec![level(0, &[9])] }.next_merge(8), None);
    assert_eq!(SegmentLayout { levels: vec![level(0, &[1, 1]), level(0, &[17])] }.next_merge(8), None);
    assert_eq!(SegmentLayout { levels: vec![level(0, &[3]), level(0, &[9])] }.next_merge(8), Some(-8));
    // A writer joins two of three; then all are joined, with something new beside them.
    assert_eq!(SegmentLayout { levels: vec![level(2, &[2, 2]), level(0, &[9, 1])] }.next_merge(8), Some(-8));
    assert_eq!(
        SegmentLayout { levels: vec![level(0, &[1]), level(2, &[1, 1]), level(0, &[90])] }.next_merge(8),
        Some(8)
    );
}
