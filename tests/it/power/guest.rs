//! A machine of its own whose power is cut: with everything in the memory of its kernel goes what
//! was not flushed.
//!
//! `scripts/power.sh` makes what it starts from. The guest tells over its serial line what its
//! drivers ask for and what they are told; its disk keeps a record here.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::scope;
use std::time::Duration;

use super::disk::Disk;
use super::{CACHES, Keeper, Ledgers, MOUNTED, Trial, rest};
use crate::crash::load::{Driver, Scene, Step};
use crate::crash::random::Random;
use crate::crash::server::Binary;
use crate::crash::{audit, ledger::Ledger, setting};
use crate::space::wait;

/// Where kernel, first filesystem and programs of the guest are.
const PARTS: &str = "SVCFS_POWER_GUEST";
/// Tells the guest's own part, by a number from which its drivers choose what they do, that it is
/// one.
const LOAD: &str = "SVCFS_POWER_LOAD";
/// An emulated machine is slow, and more so beside others.
const PATIENCE: Duration = Duration::from_secs(180);

/// A step as the guest tells it: the driver's number and a word.
const WORDS: [(Step, &str); 3] = [(Step::Asks, "asks"), (Step::IsAnswered, "answered"), (Step::IsSafe, "safe")];
/// Before each of the guest's lines, to tell them from what others print.
const MARK: &str = "power: ";

/// The drivers of a guest and where each takes its choices from.
fn at_work(seed: usize) -> Vec<(Driver, Random)> {
    let mut random = Random::new(seed as u64);
    Driver::all(true).into_iter().map(|driver| (driver, random.fork())).collect()
}

#[test]
fn works_until_the_power_goes() {
    // The guest's part of the test below; elsewhere it has nothing to do.
    let Some(seed) = setting(LOAD) else { return };
    let (root, mountpoint) = (Path::new("/work/root"), Path::new("/work/mnt"));
    let binary = Binary::at(PathBuf::from("/usr/bin/svcfs"));
    let server = binary.serve(root, Some(mountpoint));
    let mut working = at_work(usize::try_from(seed).unwrap());
    let numbers: Vec<Driver> = working.iter().map(|(driver, _)| *driver).collect();
    let line = Mutex::new(File::options().write(true).open("/dev/ttyS0").unwrap());
    let tell = |driver: Driver, step: Step| {
        let number = numbers.iter().position(|other| *other == driver).unwrap();
        let word = WORDS.iter().find(|(other, _)| *other == step).unwrap().1;
        let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(line, "{MARK}{number} {word}").unwrap();
        // It has left the machine before anything else happens.
        rustix::termios::tcdrain(&*line).unwrap();
        0
    };
    let scene = Scene::new(server.address(), Some(mountpoint), &tell);
    scope(|scope| {
        for (driver, random) in working.drain(..) {
            let scene = &scene;
            scope.spawn(move || driver.work(scene, &mut Ledger::default(), random));
        }
    });
}

/// A machine, switched on; switched off when dropped.
struct Guest(Child);

impl Guest {
    fn switch_on(parts: &Path, disk: &Disk, seed: usize, options: &str) -> Self {
        let drive = |file: &Path, how: &str| format!("file={},format=raw,if=virtio,{how}", file.display());
        let kernel = format!(
            "console=ttyS0 quiet loglevel=0 panic=-1 mitigations=off nokaslr tsc=unstable {LOAD}={seed} OPTIONS={options}"
        );
        let mut machine = Command::new("qemu-system-x86_64");
        machine
            .args(["-accel", "tcg", "-cpu", "max", "-m", "1024", "-nic", "none", "-nographic", "-no-reboot"])
            .args(["-monitor", "none", "-serial", "stdio"])
            .arg("-kernel")
            .arg(parts.join("vmlinuz"))
            .arg("-initrd")
            .arg(parts.join("initramfs.gz"))
            .args(["-append", &kernel])
            .args(["-drive", &drive(&parts.join("programs.img"), "readonly=on")])
            // Nothing stays in qemu or the page cache: what the guest's kernel was told is written,
            // is in the record.
            .args(["-drive", &drive(&disk.file(), "cache=none")]);
        Self(machine.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap())
    }

    fn cut_power(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.cut_power();
    }
}

/// Runs a guest until so many deeds were acknowledged and its disk was told so much more, then cuts
/// its power.
fn worked(parts: &Path, disk: &Disk, options: &str, random: &mut Random) -> Ledgers {
    let seed = random.below(1 << 30);
    let mut guest = Guest::switch_on(parts, disk, seed, options);
    let output = BufReader::new(guest.0.stdout.take().unwrap());
    let (done, target, more) = (AtomicUsize::new(0), 20 + random.below(150), random.below(40));
    let done = &done;
    scope(move |scope| {
        // In here, so that it is switched off, and is heard to end, also when it does not work.
        let mut guest = guest;
        let heard = scope.spawn(move || {
            let mut working: Vec<_> =
                at_work(seed).into_iter().map(|(driver, random)| (driver, random, Ledger::default())).collect();
            let mut others = Vec::new();
            for line in output.split(b'\n') {
                let line = String::from_utf8_lossy(&line.unwrap()).trim().to_owned();
                if let Some((_, told)) = line.split_once(MARK) {
                    done.fetch_add(usize::from(hear(told, &mut working)), Ordering::SeqCst);
                } else {
                    others.push(line);
                }
            }
            (working, others)
        });
        let is_over = || done.load(Ordering::SeqCst) >= target || heard.is_finished();
        wait::within(PATIENCE, "the guest works", is_over);
        let position = disk.position();
        wait::within(PATIENCE, "the disk is told more", || disk.position() >= position + more || heard.is_finished());
        let is_alive = guest.0.try_wait().unwrap().is_none();
        guest.cut_power();
        let (working, others) = heard.join().unwrap();
        assert!(is_alive, "the guest ended by itself:\n{}", others.join("\n"));
        working.into_iter().map(|(driver, _, ledger)| (driver, ledger)).collect()
    })
}

/// Does in the ledgers what a driver in the guest told; whether a deed became safe. Of the last
/// line only a part may have come, and what else writes to that serial line may break one into two:
/// a driver asks for nothing before it was answered, and is answered nothing it has not asked for.
fn hear(told: &str, working: &mut [(Driver, Random, Ledger)]) -> bool {
    let Some((number, word)) = told.split_once(' ') else { return false };
    let working = number.parse().ok().and_then(|number: usize| working.get_mut(number));
    let Some((driver, random, ledger)) = working else { return false };
    match WORDS.iter().find(|(_, other)| *other == word) {
        Some((Step::Asks, _)) => {
            if ledger.in_flight.is_some() {
                ledger.answered(driver.is_safe(ledger.serial).then_some(0));
            }
            driver.begin(ledger, random);
        }
        Some((step, _)) => {
            if ledger.in_flight.is_none() {
                driver.begin(ledger, random);
            }
            ledger.answered((*step == Step::IsSafe).then_some(0));
        }
        None => {}
    }
    word == WORDS[2].1
}

/// Shows: DUR-6
#[test]
fn nothing_acknowledged_is_lost_when_a_machine_loses_its_power() {
    let Some(parts) = std::env::var_os(PARTS).map(PathBuf::from) else {
        println!("skipped: {PARTS} is not set; scripts/power.sh makes a guest and sets it");
        return;
    };
    let rounds = setting("SVCFS_POWER_ROUNDS").unwrap_or(1);
    let mut trial = Trial::of(Keeper::Git(audit::history), false);
    let mut deeds = 0;
    for round in 0..rounds {
        let Some(disk) = Disk::formatted("") else { return };
        let options = MOUNTED[trial.random.below(MOUNTED.len())];
        disk.record();
        let ledgers = worked(&parts, &disk, options, &mut trial.random);
        let record = disk.recorded();
        rest();
        for cache in CACHES {
            let mut left = ledgers.clone();
            trial.cut((&record, record.len(), cache), &mut left, options);
            deeds += left.iter().map(|(_, ledger)| ledger.deeds.len()).sum::<usize>();
        }
        println!("round {round}: {} events on the disk, {options}", record.len());
    }
    println!(
        "{rounds} machines, {} disks as they left them, {deeds} acknowledged changes on them, all there",
        trial.cuts
    );
}
