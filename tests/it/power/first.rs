//! The power goes while a server makes what it needs in a root that it sees for the first time.

use super::{CACHES, Disk, Evidence, rest, seed};
use crate::crash::random::Random;
use crate::crash::server::Binary;
use crate::crash::setting;
use crate::space::{git, leftovers, tree};

/// Cuts in each round.
const CUTS: u64 = 4;

#[test]
fn a_root_whose_first_start_lost_its_power_is_opened_by_the_next_start() {
    let Some(disk) = Disk::formatted("") else { return };
    let (binary, mut random) = (Binary::build(), Random::new(seed()));
    disk.mount("commit=1,data=writeback").unwrap();
    disk.record();
    let server = binary.serve(&disk.root(), None);
    let ready = disk.position();
    server.stop();
    let record = disk.recorded();
    disk.unmount();
    rest();
    for _ in 0..CUTS * setting("SVCFS_POWER_ROUNDS").unwrap_or(1) {
        let (cut, cache) = (random.below(ready + 1), CACHES[random.below(CACHES.len())]);
        let what = format!("cut after event {cut} of {ready}, cache {cache:?}");
        let left = Evidence(record.left(cut, cache, &mut random));
        let disk = Disk::holding(left.0.clone());
        disk.mount("").unwrap_or_else(|error| panic!("{what}: {error}"));
        binary.rebooted().serve(&disk.root(), None).stop();
        leftovers::check_root(&disk.root(), &disk.aside("clone"));
        assert_eq!(
            tree::files(&disk.root()),
            git::head(&disk.root()),
            "{what}: the tree differs from the newest commit"
        );
        disk.unmount();
    }
}
