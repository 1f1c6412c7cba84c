#![expect(clippy::disallowed_methods, reason = "the repository is damaged by hand, as a disk or a power cut does it")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use svcfs_base::{Actor, TreePath};

use crate::StoreError;
use crate::history::tests::{Fixture, at, author, fixture, write};

impl Fixture {
    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn index(&self) -> PathBuf {
        self.file(".git/index")
    }

    /// The file of an object that a person's git made of a text.
    fn loose(&self, text: &str) -> PathBuf {
        fs::write(self.file("text"), text).unwrap();
        let id = self.git(&["hash-object", "-w", "text"]);
        fs::remove_file(self.file("text")).unwrap();
        self.file(".git/objects").join(&id[..2]).join(id[2..].trim())
    }

    /// Pages that were committed and are in `.git/index`, and one that a person staged.
    fn with_a_staged_page(&self) -> [TreePath; 2] {
        let pages = ["a.md", "d/b.md"].map(at);
        fs::create_dir(self.file("d")).unwrap();
        pages.iter().for_each(|page| fs::write(self.file(page.as_str()), "1").unwrap());
        self.commit(None, &pages.each_ref().map(|page| write(page, "1")));
        self.history.refresh_index(pages.iter(), |_, _| Ok(true)).unwrap();
        fs::write(self.file("staged.md"), "staged").unwrap();
        self.git(&["add", "staged.md"]);
        pages
    }

    fn differences(&self) -> Vec<String> {
        self.history.differences().unwrap().iter().map(ToString::to_string).collect()
    }

    fn is_index_mended(&self) -> bool {
        self.history.repair_index(SystemTime::UNIX_EPOCH).unwrap()
    }

    /// What was kept of damaged files.
    fn kept(&self) -> Vec<Vec<u8>> {
        let kept = fs::read_dir(self.file(".git/damaged")).into_iter().flatten();
        kept.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
    }
}

/// What is done while the system does not let anybody read a file, for one reason and another.
fn while_unreadable(file: &Path, deed: impl Fn()) {
    let bytes = fs::read(file).unwrap();
    fs::remove_file(file).unwrap();
    // EISDIR and ELOOP, for want of a disk that says EIO.
    fs::create_dir(file).unwrap();
    deed();
    fs::remove_dir(file).unwrap();
    symlink(file, file).unwrap();
    deed();
    assert!(fs::symlink_metadata(file).unwrap().is_symlink());
    fs::remove_file(file).unwrap();
    fs::write(file, bytes).unwrap();
}

/// Writes over a file that nobody may write.
fn overwritten(file: &Path, bytes: &[u8]) {
    fs::remove_file(file).unwrap();
    fs::write(file, bytes).unwrap();
}

#[test]
fn an_object_that_cannot_be_read_in_the_moment_stays() {
    let fixture = fixture();
    let object = fixture.loose("theirs");
    while_unreadable(&object, || assert_eq!(fixture.history.remove_torn_objects().unwrap(), 0));
    assert_eq!(fixture.kept(), Vec::<Vec<u8>>::new());
    fixture.git(&["fsck", "--strict"]);
}

#[test]
fn nothing_is_built_on_an_existing_but_unreadable_object() {
    let fixture = fixture();
    let (object, page) = (fixture.loose("text"), at("page.md"));
    fs::remove_file(&object).unwrap();
    fs::create_dir(&object).unwrap();
    fixture.history.restage(None, &[write(&page, "text")], &author(&Actor::new("eve"))).unwrap();
    fixture.history.publish().unwrap();
    fs::remove_dir(&object).unwrap();
    fixture.git(&["cat-file", "-e", svcfs_base::ETag::from_content(b"text").to_string().as_str()]);
}

#[test]
fn torn_objects_with_bytes_are_set_aside_and_intact_ones_stay() {
    let fixture = fixture();
    let whole = fixture.loose("whole");
    let [other, cut, empty, zeros] = ["other", "cut", "empty", "zeros"].map(|text| fixture.loose(text));
    let bytes = fs::read(&cut).unwrap();
    overwritten(&other, &fs::read(&whole).unwrap());
    overwritten(&cut, &bytes[..bytes.len() - 6]);
    overwritten(&empty, b"");
    overwritten(&zeros, &[0; 40]);
    assert_eq!(fixture.history.remove_torn_objects().unwrap(), 4);
    assert!(whole.exists() && [other, cut, empty, zeros].iter().all(|object| !object.exists()));
    let mut kept = fixture.kept();
    kept.sort();
    let mut wanted = vec![bytes[..bytes.len() - 6].to_vec(), fs::read(whole).unwrap()];
    wanted.sort();
    assert_eq!(kept, wanted);
    fixture.git(&["fsck", "--strict"]);
}

/// Shows: GIT-7
#[test]
fn staged_changes_in_a_split_index_stay_and_edits_are_seen() {
    let fixture = fixture();
    let pages = fixture.with_a_staged_page();
    fixture.git(&["update-index", "--split-index"]);
    let before = fs::read(fixture.index()).unwrap();
    assert!(!fixture.is_index_mended());
    assert_eq!(fixture.differences(), ["staged.md"]);
    fs::write(fixture.file("a.md"), "edited").unwrap();
    fs::remove_file(fixture.file("d/b.md")).unwrap();
    fs::write(fixture.file("new.md"), "new").unwrap();
    assert_eq!(fixture.differences(), ["a.md", "d/b.md", "new.md", "staged.md"]);
    fs::write(fixture.file(".git/index.lock"), "").unwrap();
    assert_eq!(fixture.differences(), ["a.md", "d/b.md", "new.md", "staged.md"], "while somebody's git is at work");
    fs::remove_file(fixture.file(".git/index.lock")).unwrap();
    assert!(fixture.history.unmodified_paths(&pages.each_ref()).unwrap().is_empty());
    let refreshed = fixture.history.refresh_index(pages.iter(), |_, _| Ok(true));
    assert!(
        matches!(&refreshed, Err(StoreError::Repository(told)) if told.contains("--no-split-index")),
        "{refreshed:?}"
    );
    assert_eq!(fs::read(fixture.index()).unwrap(), before);
    fixture.git(&["update-index", "--no-split-index"]);
    fixture.history.refresh_index(pages.iter(), |_, _| Ok(true)).unwrap();
    assert_eq!(fixture.git(&["diff", "--cached", "--name-only"]), "staged.md\n");
}

/// Shows: GIT-7
#[test]
fn files_excluded_by_a_sparse_checkout_are_not_missing() {
    let fixture = fixture();
    fixture.with_a_staged_page();
    fs::create_dir(fixture.file("kept")).unwrap();
    for kind in ["--no-sparse-index", "--sparse-index"] {
        fixture.git(&["sparse-checkout", "set", "--cone", kind, "kept"]);
        assert!(!fixture.file("d/b.md").exists());
        let before = fs::read(fixture.index()).unwrap();
        assert!(!fixture.is_index_mended());
        assert_eq!(fixture.differences(), ["staged.md"], "{kind}");
        fs::write(fixture.file("a.md"), "edited").unwrap();
        assert_eq!(fixture.differences(), ["a.md", "staged.md"], "{kind}");
        fs::write(fixture.file("a.md"), "1").unwrap();
        if kind == "--sparse-index" {
            assert_eq!(fs::read(fixture.index()).unwrap(), before);
        }
    }
    fixture.git(&["sparse-checkout", "reapply", "--no-sparse-index"]);
    fixture.history.refresh_index([at("a.md")].iter(), |_, _| Ok(true)).unwrap();
}

/// Shows: GIT-7
#[test]
fn an_index_that_cannot_be_read_in_the_moment_stays() {
    let fixture = fixture();
    let pages = fixture.with_a_staged_page();
    let (index, beside) = (fixture.index(), fixture.file(".git/beside"));
    fs::rename(&index, &beside).unwrap();
    fs::create_dir(&index).unwrap();
    assert!(!fixture.is_index_mended());
    assert!(fixture.history.refresh_index(pages.iter(), |_, _| Ok(true)).is_err());
    assert_eq!(fixture.differences(), ["staged.md"]);
    fs::remove_dir(&index).unwrap();
    fs::rename(&beside, &index).unwrap();
    assert_eq!(fixture.git(&["diff", "--cached", "--name-only"]), "staged.md\n");
}

/// Shows: GIT-7
#[test]
fn a_damaged_index_is_set_aside_and_rebuilt() {
    let fixture = fixture();
    fixture.with_a_staged_page();
    let whole = fs::read(fixture.index()).unwrap();
    let torn = [&b""[..], &whole[..whole.len() / 2], &[0; 500], &[&whole[..40], &[0; 200]].concat()];
    for (count, bytes) in torn.iter().enumerate() {
        fs::write(fixture.index(), bytes).unwrap();
        assert!(fixture.is_index_mended(), "{bytes:?}");
        assert_eq!(fixture.git(&["diff", "--cached", "--name-only"]), "");
        assert_eq!(fixture.kept().len(), count + 1);
        assert!(fixture.kept().iter().any(|kept| kept == bytes));
    }
    assert!(!fixture.is_index_mended());
}

#[test]
fn an_index_without_a_checksum_is_not_damaged() {
    let fixture = fixture();
    fixture.with_a_staged_page();
    fixture.git(&["update-index", "--split-index"]);
    let mut index = fs::read(fixture.index()).unwrap();
    let end = index.len() - 20;
    index[end..].fill(0);
    fs::write(fixture.index(), &index).unwrap();
    assert!(!fixture.is_index_mended());
    assert_eq!(fs::read(fixture.index()).unwrap(), index);
}
