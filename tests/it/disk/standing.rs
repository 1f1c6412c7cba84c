//! A disk that stands still: it refuses nothing, and nothing gets on. What waits for it is bounded;
//! who comes beyond is told when to come again, and is served when it goes on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use svcfs_base::ETag;

use super::writers::{Ledger, check_history};
use super::{must_put, put, save, trouble};
use crate::crash::audit::commits;
use crate::crash::server::{Binary, Server};
use crate::power::disk::{Disk, Standstill};
use crate::space::client::{Client, Reply};
use crate::space::{can_mount, git, leftovers, tree, wait};

/// Requests that a server works at over HTTP at the same time, and how many come beyond.
const PLACES: usize = 64;
const BEYOND: usize = 8;
const NO_PLACE: &str = "the server is busy; try again in";
const STILL_WAITING: &str = "the write may still complete";
/// Bytes that may wait for the disk, and the longest text that HTTP takes: as many of them as fill
/// the queue, and one that the server is at.
const MOST_WAITING: u64 = 256 << 20;
const LONG: usize = 32 << 20;
const LONG_TEXTS: usize = 9;
const LONG_PAGE: &str = "long.txt";
const NO_ROOM: &str = "too many writes are waiting for the disk; try again in";
/// Room for all of them in the log, and for one in the tree.
const LARGE_DISK: u64 = 448 << 20;
const DISK: u64 = 160 << 20;

/// A server on a disk that stands still for a while.
struct Trial {
    binary: Binary,
    /// Ends before its disk does.
    server: Server,
    disk: Disk,
    is_going_on: AtomicBool,
    /// How often somebody was told to come again.
    sent_away: AtomicUsize,
}

impl Trial {
    /// A server at rest; none where no disk can be mounted.
    fn begin(room: u64) -> Option<Self> {
        let disk = Disk::of_size(room, "")?;
        let binary = Binary::build();
        // Who reads writes nothing.
        disk.mount("noatime").unwrap();
        let server = binary.serve(&disk.root(), can_mount().then(|| disk.aside("mnt")).as_deref());
        let trial = Self { binary, server, disk, is_going_on: AtomicBool::new(false), sent_away: AtomicUsize::new(0) };
        must_put(&trial.client(), "before.md", "# Before\n\notter\n");
        // Nothing moves by itself then.
        git::wait_for_index(&trial.disk.root());
        Some(trial)
    }

    fn client(&self) -> Client {
        Client::new(self.server.address())
    }

    fn go_on(&self, standstill: Standstill) {
        drop(standstill);
        self.is_going_on.store(true, Ordering::SeqCst);
    }

    fn wait_until_it_goes_on(&self) {
        wait::until("the disk goes on", || self.is_going_on.load(Ordering::SeqCst));
    }

    /// A server that sends somebody away says when to come again, and does not keep them waiting
    /// for long.
    fn check_sent_away(&self, reply: &Reply, why: &str) {
        assert_eq!(reply.status, 503, "{}", reply.text());
        let seconds = reply.headers.get("retry-after").map(|seconds| seconds.to_str().unwrap().parse::<u64>());
        assert!(matches!(seconds, Some(Ok(1..=60))), "{seconds:?}: {}", reply.text());
        assert!(reply.text().contains(why), "{}", reply.text());
        self.sent_away.fetch_add(1, Ordering::SeqCst);
    }

    /// Writes a page, and comes again once the disk goes on, for as long as one is sent away.
    fn insist(&self, path: &str, why: &str) -> Ledger {
        let (client, text, mut ledger) = (self.client(), format!("# {path}\n"), Ledger::default());
        loop {
            let reply = put(&client, path, &text);
            if reply.status == 200 {
                ledger.note(path, &text, 0, Some(0));
                return ledger;
            }
            // Taken, and not on the disk after half a minute: on a machine that does much else.
            if !reply.text().contains(STILL_WAITING) {
                self.check_sent_away(&reply, why);
            }
            self.wait_until_it_goes_on();
        }
    }

    /// Writes a long text, once; its hash, and whether it was acknowledged.
    fn write_long(&self, number: usize) -> (String, bool) {
        let text = format!("{number}\n{}", "x\n".repeat(LONG / 2 - 1));
        let hash = ETag::from_content(text.as_bytes()).to_string();
        let reply = put(&self.client(), LONG_PAGE, &text);
        if reply.status != 200 && !reply.text().contains(STILL_WAITING) {
            self.check_sent_away(&reply, NO_ROOM);
        }
        (hash, reply.status == 200)
    }

    /// Saves pages through the mount, one after the other, until no more are taken, and that one
    /// once more when the disk goes on.
    fn save_until_full(&self, is_full: &AtomicBool) -> Ledger {
        let mut ledger = Ledger::default();
        for number in 0.. {
            let (path, text) = (format!("program {number}.md"), format!("# Program\n\n{number}\n"));
            let at = self.disk.aside("mnt").join(&path);
            let Err(error) = save(&at, &text) else {
                ledger.note(&path, &text, 0, Some(0));
                continue;
            };
            assert_eq!(error.raw_os_error(), Some(11), "{path}: {error}");
            println!("{number} saves taken, and the next refused");
            is_full.store(true, Ordering::SeqCst);
            self.wait_until_it_goes_on();
            save(&at, &text).unwrap();
            ledger.note(&path, &text, 0, Some(0));
            return ledger;
        }
        ledger
    }

    /// Everything acknowledged is there once, and nothing else is.
    fn end(self, ledgers: &[Ledger], look: impl FnOnce(&Path)) {
        must_put(&self.client(), "after.md", "# After\n");
        git::wait_for_index(&self.disk.root());
        assert_eq!(trouble(&self.client()), None);
        let Self { binary, server, disk, .. } = self;
        server.stop();
        leftovers::check_root(&disk.root(), &disk.aside("clone"));
        let head = git::head(&disk.root());
        assert_eq!(tree::files(&disk.root()), head, "the tree differs from the newest commit");
        ledgers.iter().for_each(|ledger| ledger.check("in the newest commit", 0, &head));
        check_history("at the end", &disk.root(), 0, ledgers);
        look(&disk.root());
        binary.check_index(&disk.root());
        disk.unmount();
    }
}

/// Shows: HTTP-1
#[test]
fn a_full_write_limit_on_a_stalled_disk_returns_retry_after() {
    let Some(trial) = Trial::begin(DISK) else { return };
    let client = trial.client();
    let is_full = AtomicBool::new(!can_mount());
    let ledgers = thread::scope(|scope| {
        let (trial, is_full) = (&trial, &is_full);
        let standstill = trial.disk.stand_still();
        let mut writers: Vec<_> = (0..PLACES + BEYOND)
            .map(|number| scope.spawn(move || trial.insist(&format!("http {number}.md"), NO_PLACE)))
            .collect();
        if can_mount() {
            writers.push(scope.spawn(move || trial.save_until_full(is_full)));
        }
        let is_told = || trial.sent_away.load(Ordering::SeqCst) >= BEYOND && is_full.load(Ordering::SeqCst);
        wait::until("whoever finds no place is told", is_told);
        let told = trouble(&client).expect("a server that can do nothing more is not ready");
        assert!(told.contains("did not answer within"), "{told}");
        assert_eq!(trial.sent_away.load(Ordering::SeqCst), BEYOND, "who has a place keeps it");
        trial.go_on(standstill);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    trial.end(&ledgers, |_| {});
}

/// Shows: DUR-8
#[test]
fn a_full_queue_on_a_stalled_disk_returns_retry_after() {
    let Some(trial) = Trial::begin(LARGE_DISK) else { return };
    let client = trial.client();
    let (late, long) = thread::scope(|scope| {
        let trial = &trial;
        let standstill = trial.disk.stand_still();
        let long: Vec<_> = (0..LONG_TEXTS).map(|number| scope.spawn(move || trial.write_long(number))).collect();
        let waiting = || client.get("/readyz").json()["spaces"][0]["queue"]["bytes"].as_u64();
        wait::until("the queue is full", || waiting().is_some_and(|waiting| waiting >= MOST_WAITING));
        let late = scope.spawn(move || trial.insist("late.md", NO_ROOM));
        wait::until("whoever finds no room is told", || trial.sent_away.load(Ordering::SeqCst) > 0);
        let told = trouble(&client).expect("a server that sends writers away is not ready");
        assert!(told.contains("too many writes are waiting for the disk"), "{told}");
        trial.go_on(standstill);
        let long: Vec<_> = long.into_iter().map(|writer| writer.join().unwrap()).collect();
        (late.join().unwrap(), long)
    });
    trial.end(&[late], |root| {
        let changes = commits(root, "%s").into_iter().flat_map(|(_, _, effects)| effects);
        let kept: Vec<_> = changes.filter(|(path, _)| path == LONG_PAGE).filter_map(|(_, hash)| hash).collect();
        for (hash, is_acknowledged) in &long {
            let count = kept.iter().filter(|kept| *kept == hash).count();
            assert!(count == 1 || count == 0 && !is_acknowledged, "{hash} is {count} times in history: {long:?}");
        }
        assert!(kept.iter().all(|kept| long.iter().any(|(hash, _)| hash == kept)), "{kept:?}, asked for {long:?}");
    });
}
