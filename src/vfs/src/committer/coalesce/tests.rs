use svcfs_base::{DiskAttributes, ETag, EventAnnouncement, FileKind, Protocol, Seq, Timestamp};
use svcfs_store::{DiffBase, LogEntry, RecordKind};

use super::*;

/// A set by somebody, of paths written (or, with a `-` in front, removed).
fn set(actor: &str, message: &str, paths: &[&str]) -> LogRecord {
    let entry = |path: &&str| {
        let (name, new) =
            path.strip_prefix('-').map_or((*path, Some(ETag::from_content(message.as_bytes()))), |name| (name, None));
        let path = TreePath::parse(name).unwrap();
        LogEntry {
            path,
            old: None,
            new,
            kind: FileKind::Regular,
            content: None,
            attributes: DiskAttributes::default(),
            replaces_large: None,
        }
    };
    LogRecord {
        seq: Seq(1),
        time: Timestamp::UNIX_EPOCH,
        actor: Actor::new(actor),
        protocol: Protocol::Http,
        message: message.to_owned(),
        provenance: None,
        announcement: EventAnnouncement::Files,
        kind: RecordKind::Uncommitted,
        diff_base: DiffBase::Parent,
        commit: None,
        request: None,
        moves: Vec::new(),
        entries: paths.iter().map(entry).collect(),
    }
}

/// Who made the sets of each commit and what they said, in the order of the commits.
fn commits(sets: &[LogRecord], max_paths: usize) -> Vec<Vec<String>> {
    let said =
        |gathering: CommitGroup<'_>| gathering.sets.iter().map(|set| format!("{}{}", set.actor, set.message)).collect();
    coalesce(sets, max_paths).into_iter().map(said).collect()
}

#[test]
fn changes_of_one_actor_go_together_though_others_come_between() {
    let sets = [set("eve", "1", &["a"]), set("ann", "2", &["b"]), set("eve", "3", &["c"]), set("ann", "4", &["-d"])];
    assert_eq!(commits(&sets, 50), [["eve1", "eve3"], ["ann2", "ann4"]]);
}

#[test]
fn a_change_never_overtakes_another_authors_change_of_its_path() {
    let sets = [set("eve", "1", &["a"]), set("ann", "2", &["a"]), set("eve", "3", &["b"]), set("eve", "4", &["a"])];
    assert_eq!(commits(&sets, 50), [vec!["eve1", "eve3"], vec!["ann2"], vec!["eve4"]]);
}

/// Shows: ASYNC-5
#[test]
fn a_change_does_not_pass_a_change_above_or_below_it() {
    let above = [set("eve", "1", &["x"]), set("ann", "2", &["-d"]), set("eve", "3", &["d/e/f"])];
    assert_eq!(commits(&above, 50), [["eve1"], ["ann2"], ["eve3"]]);
    let below = [set("eve", "1", &["x"]), set("ann", "2", &["-d/e/f"]), set("eve", "3", &["d"])];
    assert_eq!(commits(&below, 50), [["eve1"], ["ann2"], ["eve3"]]);
    let beside = [set("eve", "1", &["x"]), set("ann", "2", &["d-e", "d.md"]), set("eve", "3", &["d"])];
    assert_eq!(commits(&beside, 50), [vec!["eve1", "eve3"], vec!["ann2"]]);
}

#[test]
fn a_commit_is_limited_in_paths_but_not_in_changes_per_path() {
    let sets: Vec<_> =
        ["a", "b", "a", "c", "b", "d"].iter().map(|path| set("eve", &format!("-{path}"), &[path])).collect();
    let wanted = [vec!["eve-a", "eve-b", "eve-a"], vec!["eve-c", "eve-b"], vec!["eve-d"]];
    assert_eq!(commits(&sets, 2), wanted);
}

#[test]
fn a_set_of_several_paths_is_one_commit_of_any_size() {
    let sets = [
        set("eve", "1", &["a"]),
        set("eve", "2", &["b", "c", "d"]),
        set("eve", "3", &["e"]),
        set("eve", "4", &["f"]),
        set("eve", "5", &["g", "-h"]),
    ];
    assert_eq!(commits(&sets, 2), [vec!["eve1"], vec!["eve2"], vec!["eve3", "eve4"], vec!["eve5"]]);
}

#[test]
fn a_commit_says_what_each_of_its_sets_said() {
    let message = |sets: &[LogRecord]| coalesce(sets, 50).remove(0).message(&Actor::new("eve"));
    assert_eq!(message(&[set("eve", "eve: a.md", &["a.md"])]), "eve: a.md");
    let again = [set("eve", "eve: a.md", &["a.md"]), set("eve", "eve: a.md", &["a.md"])];
    assert_eq!(message(&again), "eve: a.md");
    let one = [set("eve", "begun", &["a.md"]), set("eve", "done", &["a.md"])];
    assert_eq!(message(&one), "eve: a.md\n\nbegun\ndone");
    let two = [
        set("eve", "eve: a.md", &["a.md"]),
        set("eve", "why\n\nbecause", &["b.md"]),
        set("eve", "delete: c.md", &["-c.md"]),
    ];
    assert_eq!(message(&two), "eve: 3 files\n\neve: a.md\nwhy\n\nbecause\ndelete: c.md");
}
