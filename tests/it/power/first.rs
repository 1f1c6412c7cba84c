//! The power goes while a server makes what it needs in a root that it sees for the first time.

use std::path::Path;

use super::{CACHES, Disk, Evidence, rest, seed};
use crate::crash::random::Random;
use crate::crash::server::Binary;
use crate::crash::{NO_VERSIONS, SNAPSHOTS, setting, told};
use crate::space::{git, leftovers, tree};

/// Cuts in each round.
const CUTS: u64 = 4;

/// Shows: DUR-6
#[test]
fn a_root_opens_after_power_loss_during_its_first_start() {
    first_starts("", CUTS, |what, root| {
        leftovers::check_root(root, &root.with_file_name("clone"));
        assert_eq!(tree::files(root), git::head(root), "{what}: the tree differs from the newest commit");
    });
}

/// Nobody has asked for anything: only what was there before stands there, and with snapshots is
/// kept.
///
/// Shows: COW-6
#[test]
fn a_root_without_git_opens_after_power_loss_in_its_first_start() {
    first_starts(SNAPSHOTS, CUTS / 2, |what, root| {
        told::whole(what, root, &[]);
        let kept = root.join(".versions/seed.md").read_dir().unwrap().map(|snapshot| snapshot.unwrap().path());
        let kept: Vec<_> = kept.map(|snapshot| std::fs::read_to_string(snapshot).unwrap()).collect();
        assert_eq!(kept, ["# Seed\n"], "{what}");
    });
    first_starts(NO_VERSIONS, CUTS / 2, |what, root| told::whole(what, root, &[]));
}

/// First starts with some settings, cut off so many times in each round, and what to look at after
/// the next one.
fn first_starts(config: &str, cuts: u64, look: impl Fn(&str, &Path)) {
    let Some(disk) = Disk::formatted(config) else { return };
    let (binary, mut random) = (Binary::build(), Random::new(seed()));
    disk.mount("commit=1,data=writeback").unwrap();
    disk.record();
    let server = binary.serve(&disk.root(), None);
    let ready = disk.position();
    server.stop();
    let record = disk.recorded();
    disk.unmount();
    rest();
    for _ in 0..cuts * setting("SVCFS_POWER_ROUNDS").unwrap_or(1) {
        let (cut, cache) = (random.below(ready + 1), CACHES[random.below(CACHES.len())]);
        let what = format!("cut after event {cut} of {ready}, cache {cache:?}");
        let left = Evidence(record.left(cut, cache, &mut random));
        let disk = Disk::holding(left.0.clone());
        disk.mount("").unwrap_or_else(|error| panic!("{what}: {error}"));
        binary.rebooted().serve(&disk.root(), None).stop();
        look(&what, &disk.root());
        disk.unmount();
    }
}
