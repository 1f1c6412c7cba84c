//! kill -9 under load: what was acknowledged is there, and nothing is there by half.

mod audit;
mod ledger;
mod load;
mod random;
mod server;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use ledger::Ledger;
use load::Driver;
use random::Random;
use server::Binary;

use crate::space::{can_mount, folder, git, leftovers, tree, wait};

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed_under_load() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = setting("SVCFS_CRASH_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    let rounds = setting("SVCFS_CRASH_ROUNDS").unwrap_or(10);
    println!("seed {seed}: SVCFS_CRASH_SEED={seed} plays it again (threads will still meet in other ways)");
    let mut random = Random::new(seed);
    let binary = Binary::build();
    let folder = folder();
    let (root, mountpoint) = (folder.path().join("root"), folder.path().join("mnt"));
    std::fs::write(root.join("seed.md"), "# Seed\n").unwrap();
    let mountpoint = can_mount().then_some(mountpoint);
    let mut ledgers: Vec<(Driver, Ledger)> =
        Driver::all(mountpoint.is_some()).into_iter().map(|driver| (driver, Ledger::default())).collect();
    for round in 0..rounds {
        let mut server = binary.serve(&root, mountpoint.as_deref());
        let target = 30 + random.below(150);
        let (done, is_killed) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for (driver, ledger) in &mut ledgers {
                let random = random.fork();
                let at = (server.address(), mountpoint.as_deref());
                let (done, is_killed) = (&done, &is_killed);
                scope.spawn(move || driver.work(at, ledger, random, (done, is_killed)));
            }
            wait::until("the load gets going", || done.load(Ordering::Relaxed) >= target);
            is_killed.store(true, Ordering::SeqCst);
            server.kill();
        });
        if round % 3 == 2 {
            binary.kill_while_it_recovers(&root, mountpoint.as_deref());
        }
        let server = binary.serve(&root, mountpoint.as_deref());
        for (driver, ledger) in &mut ledgers {
            audit::pages(&format!("round {round}, {driver:?}"), server.address(), ledger);
        }
        server.stop();
        audit::history(&format!("round {round}"), &root, ledgers.iter().map(|(_, ledger)| ledger));
        leftovers::check_root(&root, &folder.path().join("clone"));
        assert_eq!(tree::files(&root), git::head(&root), "round {round}: the tree differs from the newest commit");
        binary.check_index(&root);
    }
    let deeds: usize = ledgers.iter().map(|(_, ledger)| ledger.deeds.len()).sum();
    println!("{rounds} kills, {deeds} acknowledged changes, all there");
}
