//! kill -9 under load: what was acknowledged is there, and nothing is there by half.

pub mod audit;
mod hanging;
pub mod ledger;
pub mod load;
pub mod random;
pub mod server;
pub mod told;
mod undo;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use ledger::Ledger;
use load::{Driver, Scene};
use random::Random;
use server::{Binary, Server};
use told::Told;

use crate::space::{can_mount, folder, git, leftovers, tree, wait};

/// A number from the environment.
pub fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Kills the server at the end of the load, however the load ends.
struct Killer<'a> {
    server: &'a mut Server,
    is_killed: &'a AtomicBool,
}

impl Killer<'_> {
    fn kill(&mut self) {
        self.is_killed.store(true, Ordering::SeqCst);
        self.server.kill();
    }
}

impl Drop for Killer<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Settings of the strategies without git. All snapshots stay, so that each content can be asked
/// for.
pub const SNAPSHOTS: &str = "[versioning]\nstrategy = \"cow\"\nmax_versions = -1\n";
pub const NO_VERSIONS: &str = "[versioning]\nstrategy = \"none\"\n";

/// Settings under which commits are gathered, most of them unmade when the server is killed.
pub const GATHERING: &str = "[versioning]\nasync_commit = true\nbatch_window_ms = 150\nbatch_max_size = 4\n";

/// Shows: DUR-5
#[test]
fn a_crash_under_load_loses_no_acked_write() {
    lives("", 5, nobody, with_git(audit::history));
}

/// What stands is the agents', whatever others say of it in history.
#[test]
fn a_crash_beside_stale_index_commits_loses_no_acked_write() {
    lives("", 2, commit_from_an_older_index, with_git(audit::own_history));
}

/// Shows: ASYNC-7
#[test]
fn a_crash_under_load_loses_no_acked_write_in_gathered_mode() {
    lives(GATHERING, 2, nobody, with_git(audit::gathered_history));
}

/// Shows: COW-6
#[test]
fn a_crash_under_load_loses_no_acked_write_in_snapshot_mode() {
    let mut told = Told::default();
    lives(SNAPSHOTS, 2, nobody, |what, after| match after {
        After::Opened(address) => told.read_on(address),
        After::Stopped(root, ledgers) => {
            told.check(what, ledgers);
            told::snapshots(what, root, ledgers);
            told::whole(what, root, ledgers);
        }
    });
}

/// Shows: COW-6
#[test]
fn a_crash_under_load_loses_no_acked_write_without_versions() {
    let mut told = Told::default();
    lives(NO_VERSIONS, 2, nobody, |what, after| match after {
        After::Opened(address) => told.read_on(address),
        After::Stopped(root, ledgers) => {
            told.check(what, ledgers);
            told::whole(what, root, ledgers);
        }
    });
}

/// A moment in which a root is looked at.
enum After<'a> {
    /// A server runs that nobody has asked for anything, or that was started after a kill and whose
    /// pages are as they should be.
    Opened(SocketAddr),
    /// That one has ended.
    Stopped(&'a Path, &'a [&'a Ledger]),
}

/// Looks at a root whose history git has.
fn with_git(history: impl Fn(&str, &Path, &[&Ledger])) -> impl FnMut(&str, After) {
    move |what, after| {
        let After::Stopped(root, ledgers) = after else { return };
        history(what, root, ledgers);
        leftovers::check_root(root, &root.with_file_name("clone"));
        assert_eq!(tree::files(root), git::head(root), "{what}: the tree differs from the newest commit");
    }
}

/// Where no person is at work beside the load.
const fn nobody(_: &Path) {}

/// Commits as somebody does whose index has the agents' pages as they were three commits ago, and
/// touches none of the files.
fn commit_from_an_older_index(root: &Path) {
    let commit = ["-c", "user.name=Ann", "-c", "user.email=ann@x", "commit", "--quiet", "--message", "by hand"];
    for arguments in [&["read-tree", "HEAD~3"][..], &commit] {
        // Refused where the server moves the branch in this moment, or has no such commit yet.
        let _ = Command::new("git").arg("-C").arg(root).args(arguments).output().unwrap();
    }
}

/// Servers with some settings, each killed under load, and what a person does beside it now and
/// then; and what to look at before the first and after each.
fn lives(config: &str, rounds: u64, person: impl Fn(&Path) + Sync, mut look: impl FnMut(&str, After)) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = setting("SVCFS_CRASH_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    let rounds = setting("SVCFS_CRASH_ROUNDS").unwrap_or(rounds);
    println!("seed {seed}: SVCFS_CRASH_SEED={seed} plays it again (threads will still meet in other ways)");
    let mut random = Random::new(seed);
    let binary = Binary::build();
    let folder = folder();
    let (root, mountpoint) = (folder.path().join("root"), folder.path().join("mnt"));
    std::fs::write(root.join("seed.md"), "# Seed\n").unwrap();
    std::fs::create_dir(root.join(".svc")).unwrap();
    std::fs::write(root.join(".svc/config.toml"), config).unwrap();
    let mountpoint = can_mount().then_some(mountpoint);
    let mut ledgers: Vec<(Driver, Ledger)> =
        Driver::all(mountpoint.is_some()).into_iter().map(|driver| (driver, Ledger::default())).collect();
    for round in 0..rounds {
        let mut server = binary.serve(&root, mountpoint.as_deref());
        if round == 0 {
            look("at the start", After::Opened(server.address()));
        }
        let target = 20 + random.below(100);
        let scene = Scene::new(server.address(), mountpoint.as_deref(), &|_, _| 0);
        std::thread::scope(|scope| {
            // Also when the load does not get going: its threads end only when the server does.
            let mut killer = Killer { server: &mut server, is_killed: &scene.is_killed };
            for (driver, ledger) in &mut ledgers {
                let (random, scene) = (random.fork(), &scene);
                scope.spawn(move || driver.work(scene, ledger, random));
            }
            scope.spawn(|| beside(&scene, || person(&root)));
            scene.wait_until_done(target);
            killer.kill();
        });
        if round % 3 == 2 {
            binary.kill_while_it_recovers(&root, mountpoint.as_deref());
        }
        let server = binary.serve(&root, mountpoint.as_deref());
        for (driver, ledger) in &mut ledgers {
            audit::pages(&format!("round {round}, {driver:?}"), server.address(), ledger);
        }
        let what = format!("round {round}");
        look(&what, After::Opened(server.address()));
        server.stop();
        let all: Vec<_> = ledgers.iter().map(|(_, ledger)| ledger).collect();
        look(&what, After::Stopped(&root, &all));
        binary.check_index(&root);
        let deeds: usize = all.iter().map(|ledger| ledger.deeds.len()).sum();
        println!("{} of {rounds} kills, {deeds} acknowledged changes, all there", round + 1);
    }
}

/// Somebody who does a thing again and again, and lets the drivers go on in between.
fn beside(scene: &Scene<'_>, deed: impl Fn()) {
    let is_over = || scene.is_killed.load(Ordering::SeqCst);
    while !is_over() {
        let done = scene.done.load(Ordering::Relaxed);
        deed();
        wait::until("the others go on", || is_over() || scene.done.load(Ordering::Relaxed) > done + 5);
    }
}
