use std::fs;
use std::path::PathBuf;

use svcfs_base::{CommitId, ETag};

use super::super::tests::{Fixture, at, fixture, write};
use super::*;
use crate::{FileEdit, History};

/// Pages that history, tree and index have.
fn indexed(pages: &[(&str, &str)]) -> (Fixture, CommitId) {
    let fixture = fixture();
    let head = changed(&fixture, None, pages);
    (fixture, head)
}

/// Pages as an agent writes them: in the tree, on the branch, and in the index where nothing is staged.
fn changed(fixture: &Fixture, parent: Option<CommitId>, pages: &[(&str, &str)]) -> CommitId {
    let paths: Vec<_> = pages.iter().map(|(path, _)| at(path)).collect();
    for (path, text) in pages {
        fs::write(fixture.directory.path().join(path), text).unwrap();
    }
    let edits: Vec<_> = paths.iter().zip(pages).map(|(path, (_, text))| write(path, text)).collect();
    let head = fixture.commit(parent, &edits);
    let of_agents = ["one", "two"].map(|text| ETag::from_content(text.as_bytes()));
    fixture.history.refresh_index(paths.iter(), |_, content| Ok(of_agents.contains(&content))).unwrap();
    head
}

fn folder(fixture: &Fixture) -> PathBuf {
    fixture.directory.path().join(".git")
}

/// A draft that has one page more than the index.
fn drafted(fixture: &Fixture) -> (Repository, IndexUpdate) {
    let repository = Repository::open(fixture.directory.path()).unwrap();
    let (draft, mut index) = IndexUpdate::of(&repository).unwrap();
    fs::write(fixture.directory.path().join("drafted.md"), "drafted").unwrap();
    index.add_path(Path::new("drafted.md")).unwrap();
    index.write().unwrap();
    (repository, draft)
}

fn is_clear(folder: &Path) -> bool {
    [LOCK, DRAFT, DRAFT_LOCK].iter().all(|name| !folder.join(name).exists())
}

#[test]
fn what_a_person_staged_stays_and_what_changed_beside_it_is_refreshed() {
    let (fixture, head) = indexed(&[("a.md", "one"), ("b.md", "one"), ("c.md", "one")]);
    let staged = fixture.directory.path().join("staged");
    fs::write(&staged, "staged by hand").unwrap();
    let blob = fixture.git(&["hash-object", "-w", "staged"]);
    fs::remove_file(staged).unwrap();
    fixture.git(&["update-index", "--cacheinfo", &format!("100644,{},b.md", blob.trim())]);
    fixture.git(&["rm", "-q", "--cached", "c.md"]);
    changed(&fixture, Some(head), &[("a.md", "two"), ("b.md", "two")]);
    assert_eq!(fixture.git(&["diff", "--cached", "--name-status"]), "M\tb.md\nD\tc.md\n");
    assert_eq!(fixture.git(&["show", ":b.md"]), "staged by hand");
    assert!(is_clear(&folder(&fixture)));
}

#[test]
fn what_a_person_staged_goes_when_git_has_lost_it_and_not_when_it_cannot_be_read() {
    let (fixture, head) = indexed(&[("a.md", "one")]);
    let staged = fixture.directory.path().join("staged");
    fs::write(&staged, "staged by hand").unwrap();
    let blob = fixture.git(&["hash-object", "-w", "staged"]).trim().to_owned();
    fs::remove_file(staged).unwrap();
    fixture.git(&["update-index", "--cacheinfo", &format!("100644,{blob},a.md")]);
    let noted = || fixture.git(&["ls-files", "-s", "a.md"]).contains(&blob);
    let object = folder(&fixture).join("objects").join(&blob[..2]).join(&blob[2..]);
    fs::remove_file(&object).unwrap();
    fs::write(&object, "damaged, and repaired by somebody later").unwrap();
    let head = changed(&fixture, Some(head), &[("a.md", "two")]);
    assert!(noted());
    fs::remove_file(&object).unwrap();
    changed(&fixture, Some(head), &[("a.md", "one")]);
    assert!(!noted());
}

#[test]
fn an_earlier_text_that_a_person_put_back_and_staged_stays_staged() {
    let (fixture, head) = indexed(&[("a.md", "one"), ("b.md", "one")]);
    let head = changed(&fixture, Some(head), &[("a.md", "two")]);
    // An agent removes one of them; before the index hears of that, a person has both as they were once.
    fixture.commit(Some(head), &[FileEdit::Remove { path: &at("b.md") }]);
    for page in ["a.md", "b.md"] {
        fs::write(fixture.directory.path().join(page), "one").unwrap();
        fixture.git(&["add", page]);
    }
    fixture.history.refresh_index([at("a.md"), at("b.md")].iter(), |_, _| Ok(true)).unwrap();
    assert_eq!(fixture.git(&["diff", "--cached", "--name-status"]), "M\ta.md\nA\tb.md\n");
    fixture.git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-qm", "by hand", "--", "a.md", "b.md"]);
}

#[test]
fn a_draft_is_dropped_when_somebody_wrote_the_index_meanwhile() {
    let (fixture, _) = indexed(&[("a.md", "one")]);
    let (repository, draft) = drafted(&fixture);
    fs::write(fixture.directory.path().join("added.md"), "added").unwrap();
    fixture.git(&["add", "added.md"]);
    assert!(draft.take(&repository).unwrap_err().is_locked());
    drop(draft);
    assert_eq!(fixture.git(&["ls-files"]), "a.md\nadded.md\n");
    assert!(is_clear(&folder(&fixture)));
}

#[test]
fn somebodys_lock_is_respected_and_left_alone() {
    let (fixture, _) = indexed(&[("a.md", "one")]);
    let (repository, draft) = drafted(&fixture);
    let lock = folder(&fixture).join(LOCK);
    fs::write(&lock, "theirs").unwrap();
    assert!(draft.take(&repository).unwrap_err().is_locked());
    drop(draft);
    assert!(IndexUpdate::of(&repository).err().unwrap().is_locked());
    drop(History::open(fixture.directory.path(), &[]).unwrap());
    assert_eq!(fs::read_to_string(&lock).unwrap(), "theirs");
}

#[test]
fn a_repository_that_is_moved_away_meanwhile_takes_no_lock_of_ours_along() {
    let (fixture, _) = indexed(&[("a.md", "one")]);
    let (repository, draft) = drafted(&fixture);
    let moved = fixture.directory.path().join("moved");
    fs::rename(folder(&fixture), &moved).unwrap();
    // Whether it is put in place there or not.
    let _ = draft.take(&repository);
    drop(draft);
    assert!(is_clear(&moved));
    fs::rename(moved, folder(&fixture)).unwrap();
    fixture.git(&["add", "drafted.md"]);
    fixture.git(&["fsck", "--strict"]);
}

#[test]
fn a_lock_of_the_index_that_a_killed_server_left_is_taken_away_by_the_next_start() {
    let (fixture, _) = indexed(&[("a.md", "one")]);
    let (_, draft) = drafted(&fixture);
    draft.lock().unwrap();
    std::mem::forget(draft);
    fs::write(folder(&fixture).join(DRAFT_LOCK), "").unwrap();
    drop(History::open(fixture.directory.path(), &[]).unwrap());
    assert!(is_clear(&folder(&fixture)));
    assert_eq!(fixture.git(&["ls-files"]), "a.md\n");
}
