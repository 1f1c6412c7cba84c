use std::io::Write;
use std::process::{Command, Stdio};

use svcfs_base::Actor;

use super::super::tests::{at, author, fixture, write};
use super::super::{FileEdit, commit_id};
use super::*;

#[test]
fn untouched_tree_entries_stay_as_they_were() {
    let fixture = fixture();
    let first = fixture.commit(None, &[write(&at("page.md"), "1")]);
    let blob = fixture.git(&["rev-parse", "HEAD:page.md"]);
    let blob = blob.trim();
    let sub = first.to_string();
    let mut listing = Vec::new();
    for (mode, kind, id, name) in [
        ("100664", "blob", blob, &b"group.md"[..]),
        ("100644", "blob", blob, b"latin\xe9.md"),
        ("120000", "blob", blob, b"link"),
        ("100644", "blob", blob, b"page.md"),
        ("160000", "commit", &sub, b"sub"),
    ] {
        listing.extend_from_slice(format!("{mode} {kind} {id}\t").as_bytes());
        listing.extend_from_slice(name);
        listing.push(0);
    }
    let mut child = Command::new("git")
        .arg("-C")
        .arg(fixture.directory.path())
        .args(["mktree", "-z", "--missing"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&listing).unwrap();
    let tree = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let named = ["-c", "user.name=Ann", "-c", "user.email=a@x", "commit-tree", "-m", "odd", tree.trim()];
    let odd = commit_id(Oid::from_str(fixture.git(&named).trim()).unwrap());
    fixture.history.advance(Some(first), odd).unwrap();
    let entries = |fixture: &crate::history::tests::Fixture| {
        let output = Command::new("git")
            .arg("-C")
            .arg(fixture.directory.path())
            .args(["ls-tree", "-z", "HEAD"])
            .output()
            .unwrap();
        let entries = output.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec);
        entries.filter(|entry| !entry.ends_with(b"\tpage.md")).collect::<Vec<_>>()
    };
    let before = entries(&fixture);
    assert_eq!(before.len(), 5);
    let below = at("sub/x.md");
    let refused = fixture.history.stage(Some(odd), &[write(&below, "x")], &author(&Actor::new("eve")));
    assert!(matches!(refused, Err(StoreError::Unrecordable { path, .. }) if path == below));
    fixture.commit(Some(odd), &[write(&at("page.md"), "2")]);
    assert_eq!(entries(&fixture), before);
    fixture.git(&["fsck", "--full"]);
}

#[test]
fn a_wide_directory_is_changed_and_queried_in_one_pass() {
    let fixture = fixture();
    let paths: Vec<_> = (0..10_000).map(|n| at(&format!("wide/{n:05}.md"))).collect();
    let eve = Actor::new("eve");
    let edits: Vec<_> = paths.iter().map(|path| write(path, "1")).collect();
    let first = fixture.history.stage(None, &edits, &author(&eve)).unwrap().commit;
    let edits: Vec<_> = paths.iter().map(|path| write(path, "2")).collect();
    let second = fixture.history.stage(Some(first), &edits, &author(&eve)).unwrap().commit;
    let started = std::time::Instant::now();
    let asked: Vec<_> = paths.iter().collect();
    let found = fixture.history.staged_leaves(Some(second), &asked).unwrap();
    assert!(found.iter().all(|leaf| leaf.is_some_and(|(etag, _)| etag == svcfs_base::ETag::from_content(b"2"))));
    // One by one it takes ten thousand times as long as a directory takes to read.
    assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
    let edits: Vec<_> = paths.iter().map(|path| FileEdit::Remove { path }).collect();
    let third = fixture.history.stage(Some(second), &edits, &author(&eve)).unwrap().commit;
    fixture.history.advance(None, third).unwrap();
    fixture.git(&["fsck", "--strict", "--full"]);
    assert_eq!(fixture.git(&["ls-tree", "-r", "HEAD"]), "");
}
