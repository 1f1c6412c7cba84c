#![expect(clippy::disallowed_methods, reason = "the repository is damaged by hand, as a disk or a power cut does it")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use svcfs_base::Actor;

use crate::history::tests::{Fixture, at, author, fixture, write};

impl Fixture {
    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file of an object that a person's git made of a text.
    fn loose(&self, text: &str) -> PathBuf {
        fs::write(self.file("text"), text).unwrap();
        let id = self.git(&["hash-object", "-w", "text"]);
        fs::remove_file(self.file("text")).unwrap();
        self.file(".git/objects").join(&id[..2]).join(id[2..].trim())
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
    while_unreadable(&object, || assert_eq!(fixture.history.sweep_torn_objects().unwrap(), 0));
    assert_eq!(fixture.kept(), Vec::<Vec<u8>>::new());
    fixture.git(&["fsck", "--strict"]);
}

#[test]
fn nothing_is_built_upon_an_object_that_is_there_and_cannot_be_read() {
    let fixture = fixture();
    let (object, page) = (fixture.loose("text"), at("page.md"));
    fs::remove_file(&object).unwrap();
    fs::create_dir(&object).unwrap();
    fixture.history.stage_shown(None, &[write(&page, "text")], &author(&Actor::new("eve"))).unwrap();
    fixture.history.publish().unwrap();
    fs::remove_dir(&object).unwrap();
    fixture.git(&["cat-file", "-e", svcfs_base::ETag::of(b"text").to_string().as_str()]);
}

#[test]
fn of_torn_objects_those_with_bytes_are_kept_and_whole_ones_stay() {
    let fixture = fixture();
    let whole = fixture.loose("whole");
    let [other, cut, empty, zeros] = ["other", "cut", "empty", "zeros"].map(|text| fixture.loose(text));
    let bytes = fs::read(&cut).unwrap();
    overwritten(&other, &fs::read(&whole).unwrap());
    overwritten(&cut, &bytes[..bytes.len() - 6]);
    overwritten(&empty, b"");
    overwritten(&zeros, &[0; 40]);
    assert_eq!(fixture.history.sweep_torn_objects().unwrap(), 4);
    assert!(whole.exists() && [other, cut, empty, zeros].iter().all(|object| !object.exists()));
    let mut kept = fixture.kept();
    kept.sort();
    let mut wanted = vec![bytes[..bytes.len() - 6].to_vec(), fs::read(whole).unwrap()];
    wanted.sort();
    assert_eq!(kept, wanted);
    fixture.git(&["fsck", "--strict"]);
}
