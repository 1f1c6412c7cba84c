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

/// Pages as an agent writes them: in the tree, on the branch, and in the index where nothing is
/// staged.
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
    let (draft, mut index) = IndexUpdate::new(&repository).unwrap();
    fs::write(fixture.directory.path().join("drafted.md"), "drafted").unwrap();
    index.add_path(Path::new("drafted.md")).unwrap();
    index.write().unwrap();
    (repository, draft)
}

fn is_clear(folder: &Path) -> bool {
    [LOCK, COPY, COPY_LOCK].iter().all(|name| !folder.join(name).exists())
}

/// Shows: GIT-6
#[test]
fn staged_changes_stay_and_unstaged_entries_are_refreshed() {
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
fn staged_content_lost_in_git_is_dropped_and_unreadable_stays() {
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
fn an_earlier_text_restored_and_staged_by_a_user_stays_staged() {
    let (fixture, head) = indexed(&[("a.md", "one"), ("b.md", "one")]);
    let head = changed(&fixture, Some(head), &[("a.md", "two")]);
    // An agent removes one of them; before the index hears of that, a person has both as they were
    // once.
    fixture.commit(Some(head), &[FileEdit::Remove { path: &at("b.md") }]);
    for page in ["a.md", "b.md"] {
        fs::write(fixture.directory.path().join(page), "one").unwrap();
        fixture.git(&["add", page]);
    }
    fixture.history.refresh_index([at("a.md"), at("b.md")].iter(), |_, _| Ok(true)).unwrap();
    assert_eq!(fixture.git(&["diff", "--cached", "--name-status"]), "M\ta.md\nA\tb.md\n");
    fixture.git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-qm", "by hand", "--", "a.md", "b.md"]);
}

/// Shows: GIT-9
#[test]
fn an_index_draft_is_dropped_after_an_external_index_write() {
    let (fixture, _) = indexed(&[("a.md", "one")]);
    let (repository, draft) = drafted(&fixture);
    fs::write(fixture.directory.path().join("added.md"), "added").unwrap();
    fixture.git(&["add", "added.md"]);
    assert!(draft.install(&repository).unwrap_err().is_locked());
    drop(draft);
    assert_eq!(fixture.git(&["ls-files"]), "a.md\nadded.md\n");
    assert!(is_clear(&folder(&fixture)));
}

/// Shows: GIT-9
#[test]
fn a_foreign_index_lock_is_respected_and_not_removed() {
    let (fixture, _) = indexed(&[("a.md", "one")]);
    let (repository, draft) = drafted(&fixture);
    let lock = folder(&fixture).join(LOCK);
    fs::write(&lock, "theirs").unwrap();
    assert!(draft.install(&repository).unwrap_err().is_locked());
    drop(draft);
    assert!(IndexUpdate::new(&repository).err().unwrap().is_locked());
    drop(History::open(fixture.directory.path(), &[]).unwrap());
    assert_eq!(fs::read_to_string(&lock).unwrap(), "theirs");
}

/// Shows: GIT-9
#[test]
fn a_repository_moved_away_takes_no_svcfs_lock_along() {
    let (fixture, _) = indexed(&[("a.md", "one")]);
    let (repository, draft) = drafted(&fixture);
    let moved = fixture.directory.path().join("moved");
    fs::rename(folder(&fixture), &moved).unwrap();
    // Whether it is put in place there or not.
    let _ = draft.install(&repository);
    drop(draft);
    assert!(is_clear(&moved));
    fs::rename(moved, folder(&fixture)).unwrap();
    fixture.git(&["add", "drafted.md"]);
    fixture.git(&["fsck", "--strict"]);
}

/// Shows: GIT-9
#[test]
fn an_index_lock_of_a_killed_server_is_removed_at_next_start() {
    let (fixture, _) = indexed(&[("a.md", "one")]);
    let (_, draft) = drafted(&fixture);
    draft.lock().unwrap();
    std::mem::forget(draft);
    fs::write(folder(&fixture).join(COPY_LOCK), "").unwrap();
    drop(History::open(fixture.directory.path(), &[]).unwrap());
    assert!(is_clear(&folder(&fixture)));
    assert_eq!(fixture.git(&["ls-files"]), "a.md\n");
}
