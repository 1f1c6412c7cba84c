//! The power goes: what was acknowledged as safe is there, whatever the disk did with what it was
//! not told to flush.

pub mod disk;
mod first;
mod guest;
mod said;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread::scope;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::crash::ledger::Ledger;
use crate::crash::load::{Driver, Scene, Step};
use crate::crash::random::Random;
use crate::crash::server::{Binary, Server};
use crate::crash::told::{self, Told};
use crate::crash::{GATHERING, NO_VERSIONS, SNAPSHOTS, audit, setting};
use crate::disk::unsettled;
use crate::space::client::Client;
use crate::space::{can_mount, git, leftovers, tree, wait};
use disk::{Cache, Disk, Record};

/// How the filesystem may have been mounted: how often it writes by itself, and in which order.
const MOUNTED: [&str; 4] =
    ["commit=300", "commit=1,data=writeback,noauto_da_alloc", "commit=300,noauto_da_alloc", "commit=1,data=journal"];
pub const CACHES: [Cache; 3] = [Cache::Written, Cache::Lost, Cache::Torn];
/// How long a power cut lasts. The next server believes that its machine was started at most a
/// second ago.
const OUTAGE: Duration = Duration::from_millis(1100);
/// Cuts of the work in each round; each recovery is cut off, too.
const CUTS: usize = 4;

type Ledgers = Vec<(Driver, Ledger)>;

/// What remembers what was done, and so what is held against the ledgers after a cut.
#[derive(Clone, Copy)]
enum Keeper {
    /// git, with what history must be like.
    Git(fn(&str, &Path, &[&Ledger])),
    /// A snapshot of each content, and the change feed.
    Snapshots,
    /// The change feed alone.
    Feed,
}

impl Keeper {
    const fn is_git(self) -> bool {
        matches!(self, Self::Git(_))
    }
}

/// A server at work on a disk whose power is cut at many moments.
struct Trial {
    binary: Binary,
    random: Random,
    keeper: Keeper,
    /// Where git does not remember: what was told until the work began that is cut now.
    told: Told,
    /// Whether a person commits beside the load: in the long form.
    has_person: bool,
    /// Cuts that were looked at.
    cuts: usize,
    /// Cuts after which the filesystem could not be mounted.
    unmountable: usize,
}

impl Trial {
    /// A trial that has not begun.
    fn of(keeper: Keeper, has_person: bool) -> Self {
        let (binary, random) = (Binary::build(), Random::new(seed()));
        Self { binary, random, keeper, told: Told::default(), has_person, cuts: 0, unmountable: 0 }
    }

    /// Lets what lay in the root before anybody worked be told, and flushed: the feed of whatever a
    /// cut leaves is read from there on.
    fn begin(&mut self, disk: &Disk) {
        if !self.keeper.is_git() {
            disk.mount("").unwrap();
            let server = self.binary.serve(&disk.root(), None);
            self.told.read_on(server.address());
            server.stop();
            disk.unmount();
        }
    }

    /// Loads a server that runs on a disk, in two goes with a checkpoint between; what the disk was
    /// told.
    fn work(&mut self, disk: &Disk, ledgers: &mut Ledgers, options: &str) -> Record {
        disk.mount(options).unwrap();
        disk.record();
        let mountpoint = can_mount().then(|| disk.aside("mnt"));
        let server = self.binary.serve(&disk.root(), mountpoint.as_deref());
        let position = |_: Driver, _: Step| disk.position();
        for _ in 0..2 {
            let scene = Scene::new(server.address(), mountpoint.as_deref(), &position);
            let target = 20 + self.random.below(60);
            scope(|scope| {
                let _over = Over(&scene);
                for (driver, ledger) in ledgers.iter_mut() {
                    let (random, scene) = (self.random.fork(), &scene);
                    scope.spawn(move || driver.work(scene, ledger, random));
                }
                if self.has_person {
                    scope.spawn(|| commit_by_hand(disk, &scene));
                }
                scene.wait_until_done(target);
            });
            self.wait_for_checkpoint(disk, &server);
        }
        server.stop();
        let record = disk.recorded();
        disk.unmount();
        record
    }

    /// Waits until the server, with nobody at work, has made a checkpoint; where git does not
    /// remember, until one has begun.
    fn wait_for_checkpoint(&self, disk: &Disk, server: &Server) {
        if self.keeper.is_git() {
            git::wait_for_index(&disk.root());
        } else {
            let client = Client::new(server.address());
            wait::until("a checkpoint of all that the log holds begins", || unsettled(&client) == Some(0));
        }
    }

    /// Cuts the power after so many events and starts everything again; the ledgers say afterwards
    /// what there is. The disk, and what was told until then where git does not remember.
    fn cut(
        &mut self,
        (record, cut, cache): (&Record, usize, Cache),
        ledgers: &mut Ledgers,
        options: &str,
    ) -> (Disk, Told) {
        let what = format!("cut {} after event {cut} of {}, cache {cache:?}, {options}", self.cuts, record.len());
        let left = Evidence(record.left(cut, cache, &mut self.random));
        let disk = Disk::holding(left.0.clone());
        disk.record();
        if let Err(error) = disk.mount(options) {
            // A block of ext4's own journal is torn, or is not what its checksum was made of, which
            // happens with `data=journal` ("JBD2: Invalid checksum recovering data block"): what it
            // lost, nothing on it could keep.
            self.unmountable += 1;
            let may_be = cache == Cache::Torn || cache == Cache::Written && options.contains("data=journal");
            assert!(may_be && self.unmountable * 50 <= self.cuts + 50, "{what}: {error}");
            println!("{what}: {error}; the same moment once more, with all of the cache lost");
            return self.cut((record, cut, Cache::Lost), ledgers, options);
        }
        self.cuts += 1;
        let told = self.audit(&what, &disk, ledgers);
        disk.unmount();
        (disk, told)
    }

    /// Some moment of a record, and something the disk may have done in it.
    fn choose(&mut self, record: &Record) -> (usize, Cache) {
        (1 + self.random.below(record.len()), CACHES[self.random.below(CACHES.len())])
    }

    fn audit(&self, what: &str, disk: &Disk, ledgers: &mut Ledgers) -> Told {
        let server = self.binary.rebooted().serve(&disk.root(), None);
        for (driver, ledger) in ledgers.iter_mut() {
            audit::pages(&format!("{what}, {driver:?}"), server.address(), ledger);
        }
        let mut told = self.told.clone();
        if !self.keeper.is_git() {
            told.read_on(server.address());
        }
        server.stop();
        let (root, all) = (disk.root(), ledgers.iter().map(|(_, ledger)| ledger).collect::<Vec<_>>());
        match self.keeper {
            Keeper::Git(history) => {
                history(what, &root, &all);
                take_back_what_was_staged(&root);
                leftovers::check_root(&root, &disk.aside("clone"));
                assert_eq!(tree::files(&root), git::head(&root), "{what}: the tree differs from the newest commit");
            }
            Keeper::Snapshots => {
                told.check(what, &all);
                told::snapshots(what, &root, &all);
                told::whole(what, &root, &all);
            }
            Keeper::Feed => {
                told.check(what, &all);
                told::whole(what, &root, &all);
            }
        }
        self.binary.check_index(&root);
        told
    }
}

/// What a power cut left; kept for a closer look when it was not enough.
struct Evidence(Vec<u8>);

impl Drop for Evidence {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let file = std::env::temp_dir().join("svcfs-after-power-cut.img");
            println!("the disk as the power cut left it: {}: {:?}", file.display(), std::fs::write(&file, &self.0));
        }
    }
}

/// A person who commits pages of theirs beside the load. Nobody promised them anything: git flushes
/// none of its objects.
fn commit_by_hand(disk: &Disk, scene: &Scene<'_>) {
    let root = disk.root();
    let is_over = || scene.is_over.load(Ordering::SeqCst);
    while !is_over() {
        let (done, page) = (scene.done.load(Ordering::Relaxed), format!("{}/{}.md", audit::BY_HAND, disk.position()));
        fs::create_dir_all(root.join(audit::BY_HAND)).unwrap();
        fs::write(root.join(&page), "by hand\n").unwrap();
        let commit =
            ["-c", "user.name=Ann", "-c", "user.email=ann@x", "commit", "--quiet", "--message", "by hand", "--", &page];
        for arguments in [&["add", &page][..], &commit] {
            // Refused where the server moves the branch in this moment, or had the page before.
            let _ = Command::new("git").arg("-C").arg(&root).args(arguments).output().unwrap();
        }
        wait::until("the others go on", || is_over() || scene.done.load(Ordering::Relaxed) > done + 5);
    }
}

/// What a person had staged, and the power kept from being committed, stays staged for them: they
/// look, and take it back.
fn take_back_what_was_staged(root: &Path) {
    if root.join(audit::BY_HAND).exists() {
        git::git(root, &["reset", "--quiet", "--", audit::BY_HAND]);
    }
}

/// Ends the work, however it ends: its threads wait for it.
struct Over<'a>(&'a Scene<'a>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
        if std::thread::panicking() {
            self.0.is_killed.store(true, Ordering::SeqCst);
        }
    }
}

/// Waits until a machine that lost its power a moment ago could be up again: what was written after
/// it was is somebody's edit.
pub fn rest() {
    let cut = SystemTime::now();
    wait::until("the machine is up again", || cut.elapsed().is_ok_and(|passed| passed > OUTAGE));
}

fn at(ledgers: &Ledgers, moment: usize) -> Ledgers {
    ledgers.iter().map(|(driver, ledger)| (*driver, ledger.at(moment))).collect()
}

/// What the chances of a test come from; said, so that it can be played again.
pub fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = setting("SVCFS_POWER_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    println!("seed {seed}: SVCFS_POWER_SEED={seed} plays it again (threads will still meet in other ways)");
    seed
}

/// Shows: DUR-6
#[test]
fn nothing_acknowledged_is_lost_with_what_a_disk_did_not_flush() {
    cuts("", CUTS, Keeper::Git(audit::history));
}

/// Shows: ASYNC-7
#[test]
fn power_loss_loses_no_acked_write_in_gathered_mode() {
    cuts(GATHERING, CUTS / 2, Keeper::Git(audit::gathered_history));
}

/// Shows: COW-6
#[test]
fn power_loss_loses_no_acked_write_in_snapshot_mode() {
    cuts(SNAPSHOTS, CUTS / 2, Keeper::Snapshots);
}

/// Shows: COW-6
#[test]
fn power_loss_loses_no_acked_write_without_versions() {
    cuts(NO_VERSIONS, CUTS / 2, Keeper::Feed);
}

/// Servers with some settings on a disk whose power is cut so many times in each round, and in as
/// many recoveries.
fn cuts(config: &str, cuts: usize, keeper: Keeper) {
    let rounds = setting("SVCFS_POWER_ROUNDS").unwrap_or(1);
    let Some(mut disk) = Disk::formatted(config) else { return };
    // Where git does not remember, nobody can commit.
    let mut trial = Trial::of(keeper, rounds > 1 && keeper.is_git());
    trial.begin(&disk);
    let drivers = Driver::all(can_mount()).into_iter();
    let mut ledgers: Ledgers = drivers.map(|driver| (driver, Ledger::default())).collect();
    for _ in 0..rounds {
        let options = MOUNTED[trial.random.below(MOUNTED.len())];
        let record = trial.work(&disk, &mut ledgers, options);
        let mut recoveries = Vec::new();
        rest();
        for _ in 0..cuts {
            let (cut, cache) = trial.choose(&record);
            let left = at(&ledgers, cut);
            let (disk, _) = trial.cut((&record, cut, cache), &mut left.clone(), options);
            recoveries.push((disk.recorded(), left));
        }
        rest();
        for (recovery, mut left) in recoveries {
            let (cut, cache) = trial.choose(&recovery);
            trial.cut((&recovery, cut, cache), &mut left, options);
        }
        // At the end everything is on the disk, whatever it did with its cache; the next round goes
        // on from there.
        ledgers = at(&ledgers, record.len());
        (disk, trial.told) = trial.cut((&record, record.len(), Cache::Lost), &mut ledgers, options);
    }
    let deeds: usize = ledgers.iter().map(|(_, ledger)| ledger.deeds.len()).sum();
    println!("{} cuts, {deeds} acknowledged changes, all there", trial.cuts);
}
