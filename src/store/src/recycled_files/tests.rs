use std::io::Write;

use super::*;

struct Place {
    directory: tempfile::TempDir,
    spares: RecyclePool,
    reclaimer: Reclaimer,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let spares = RecyclePool::named(directory.path().join(".spare-"));
        Self { directory, spares, reclaimer: Reclaimer::default() }
    }
    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
    /// Makes a file for reading only, as packs are, and keeps it; which inode it is.
    fn kept(&self, name: &str) -> u64 {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o444).open(self.at(name)).unwrap();
        (&file).write_all(b"old").unwrap();
        self.spares.recycle(&self.at(name), &self.reclaimer).unwrap();
        assert!(!self.at(name).exists());
        file.metadata().unwrap().ino()
    }
    fn take(&self) -> Option<(PathBuf, File)> {
        self.spares.take(&self.reclaimer)
    }
    fn names(&self) -> usize {
        fs::read_dir(self.directory.path()).unwrap().count()
    }
}

#[test]
fn a_recycled_file_without_open_handles_is_reused() {
    let place = Place::new();
    assert!(place.take().is_none());
    let (one, two) = (place.kept("one"), place.kept("two"));
    let (name, file) = place.take().unwrap();
    let stat = file.metadata().unwrap();
    assert_eq!((stat.ino(), stat.mode() & 0o777), (one, 0o444));
    (&file).write_all(b"new").unwrap();
    assert_eq!(fs::read(name).unwrap(), b"new");
    assert_eq!(place.take().unwrap().1.metadata().unwrap().ino(), two);
    assert!(place.take().is_none());
}

#[test]
fn a_file_with_open_handles_is_removed_instead_of_reused() {
    let place = Place::new();
    fs::write(place.at("one"), "old").unwrap();
    let reader = File::open(place.at("one")).unwrap();
    place.spares.recycle(&place.at("one"), &place.reclaimer).unwrap();
    assert!(place.take().is_none());
    assert_eq!(place.names(), 0);
    assert_eq!(io::read_to_string(reader).unwrap(), "old");
}

/// Shows: GIT-10
#[test]
fn a_file_that_another_process_has_open_is_not_used_again() {
    let place = Place::new();
    fs::write(place.at("one"), "old").unwrap();
    let mut other =
        std::process::Command::new("sleep").arg("60").stdin(File::open(place.at("one")).unwrap()).spawn().unwrap();
    place.spares.recycle(&place.at("one"), &place.reclaimer).unwrap();
    let taken = place.take();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(taken.is_none());
}

#[test]
fn a_file_with_a_second_hard_link_is_not_reused() {
    let place = Place::new();
    fs::write(place.at("one"), "old").unwrap();
    fs::hard_link(place.at("one"), place.at("clone")).unwrap();
    place.spares.recycle(&place.at("one"), &place.reclaimer).unwrap();
    assert!(place.take().is_none());
    assert_eq!((fs::read(place.at("clone")).unwrap(), place.names()), (b"old".to_vec(), 1));
}

#[test]
fn what_is_too_large_or_too_many_is_removed() {
    let place = Place::new();
    fs::write(place.at("one"), vec![0; MAX_BYTES as usize + 1]).unwrap();
    place.spares.recycle(&place.at("one"), &place.reclaimer).unwrap();
    assert!(place.take().is_none());
    for number in 0..=MAX_FILES {
        place.kept(&number.to_string());
    }
    assert_eq!(place.names(), MAX_FILES);
    place.spares.recycle(&place.at("gone"), &place.reclaimer).unwrap();
}

#[test]
fn spares_go_with_their_keeper() {
    let Place { directory, spares, reclaimer } = Place::new();
    fs::write(directory.path().join("one"), "old").unwrap();
    spares.recycle(&directory.path().join("one"), &reclaimer).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    drop(spares);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
