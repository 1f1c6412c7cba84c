use super::super::tests::{Fixture, fixture, record};
use super::super::{LogEntry, LogRecord};
use super::*;

/// A set by a name on a day of 1970, of paths written (or, with a `-` in front, removed).
fn set(seq: u64, actor: &str, day: i64, paths: &[&str]) -> LogRecord {
    let entry = |path: &&str| {
        let (name, is_removal) = path.strip_prefix('-').map_or((*path, false), |name| (name, true));
        let entry = record(seq, name, name.as_bytes()).entries.remove(0);
        if is_removal { LogEntry { old: entry.new, new: None, content: None, ..entry } } else { entry }
    };
    LogRecord {
        actor: Actor::new(actor),
        time: Timestamp::from_second(day * SECONDS_A_DAY + 3_600).unwrap(),
        entries: paths.iter().map(entry).collect(),
        ..record(seq, "-", b"")
    }
}

fn planted() -> Fixture {
    let fixture = fixture();
    let records = [
        set(1, "eve", 1, &["a.md", "notes/b.md"]),
        set(2, "ann", 2, &["a.md"]),
        set(3, "eve", 3, &["notes/b.md", ".svc/rules.md"]),
        set(4, "eve", 4, &["-notes/b.md", "notes-c.md"]),
    ];
    fixture.log.append(&records).unwrap();
    fixture
}

fn told(log: &Log, selection: &ChangeFilter, skip: usize, max: usize) -> (Vec<String>, usize) {
    let (found, total) = log.select_changes(selection, skip, max).unwrap();
    let told = |one: PathOccurrence| format!("{}{} {}", if one.is_removal { "-" } else { "" }, one.path, one.seq);
    (found.into_iter().map(told).collect(), total)
}

#[test]
fn changes_are_selected_newest_first_and_all_are_counted() {
    let Fixture { directory: _directory, log } = planted();
    let all = ChangeFilter::default();
    let every = ["notes-c.md 4", "-notes/b.md 4", "notes/b.md 3", "a.md 2", "notes/b.md 1", "a.md 1"];
    assert_eq!(told(&log, &all, 0, 9), (every.map(str::to_owned).to_vec(), 6));
    assert_eq!(told(&log, &all, 4, 1), (vec!["notes/b.md 1".to_owned()], 6));
    assert_eq!(told(&log, &all, 60, 1), (Vec::new(), 6));
    let below = |path: &str| vec![NamePeriod::always(TreePath::parse(path).unwrap())];
    for (selection, expected) in [
        (ChangeFilter { actor: Some(Actor::new("ann")), ..all.clone() }, &["a.md 2"][..]),
        (ChangeFilter { actor: Some(Actor::new("nobody")), ..all.clone() }, &[]),
        (ChangeFilter { is_removal: Some(true), ..all.clone() }, &["-notes/b.md 4"]),
        (ChangeFilter { below: below("notes"), ..all.clone() }, &["-notes/b.md 4", "notes/b.md 3", "notes/b.md 1"]),
        (
            ChangeFilter { below: below("notes"), is_removal: Some(false), ..all.clone() },
            &["notes/b.md 3", "notes/b.md 1"],
        ),
        (ChangeFilter { below: below("a.md"), ..all.clone() }, &["a.md 2", "a.md 1"]),
        (ChangeFilter { below: below("not"), ..all.clone() }, &[]),
        (ChangeFilter { below: below(".svc"), ..all }, &[]),
    ] {
        assert_eq!(
            told(&log, &selection, 0, 9),
            (expected.iter().map(|text| (*text).to_owned()).collect(), expected.len())
        );
    }
}

#[test]
fn later_records_are_counted_together_with_earlier_ones() {
    let Fixture { directory: _directory, log } = planted();
    let all = ChangeFilter::default();
    assert_eq!(told(&log, &all, 0, 0).1, 6);
    // With or without a commit.
    log.append(&[LogRecord { commit: None, ..set(5, "eve", 5, &["a.md"]) }, set(6, "zoe", 5, &["new.md", "a.md"])])
        .unwrap();
    assert_eq!(told(&log, &all, 0, 2), (vec!["a.md 6".to_owned(), "new.md 6".to_owned()], 9));
    assert_eq!(told(&log, &ChangeFilter { actor: Some(Actor::new("zoe")), ..all }, 0, 0).1, 2);
}

#[test]
fn activity_counts_pages_of_the_period_and_dates_the_others() {
    let Fixture { directory: _directory, log } = planted();
    let since = Timestamp::from_second(2 * SECONDS_A_DAY).unwrap();
    let activity = log.activity(since, None, &HiddenFiles::default()).unwrap();
    let pages: Vec<_> = activity
        .pages
        .iter()
        .map(|page| {
            let day = page.newest.as_second() / SECONDS_A_DAY;
            (page.path.as_str(), page.changes, page.has_single_author, day, page.is_there)
        })
        .collect();
    assert_eq!(
        pages,
        [("a.md", 1, true, 2, true), ("notes-c.md", 1, true, 4, true), ("notes/b.md", 2, true, 4, false)]
    );
    assert_eq!(activity.changes, 4);
    let days: Vec<_> = activity
        .days
        .iter()
        .map(|day| (day.day.as_second() / SECONDS_A_DAY, day.actor.as_str(), day.changes))
        .collect();
    assert_eq!(days, [(2, "ann", 1), (3, "eve", 1), (4, "eve", 2)]);
    let everything =
        log.activity(Timestamp::UNIX_EPOCH, Some(&TreePath::parse("a.md").unwrap()), &HiddenFiles::default()).unwrap();
    assert_eq!((everything.changes, everything.pages.len()), (2, 1));
    assert!(!everything.pages[0].has_single_author);
}
