//! A disk that answers with input/output errors for a while, and what it takes until all is well
//! again.

use std::fs;
use std::ops::Range;
use std::process::Command;

use super::writers::{Ledger, Refusals, Work, check_history};
use super::{must_put, page, put, save_safely, trouble, wait_until_ready};
use crate::crash::random::Random;
use crate::crash::server::{Binary, Server};
use crate::crash::setting;
use crate::power::disk::{Cache, Disk, Order};
use crate::power::{CACHES, rest, seed};
use crate::space::client::Client;
use crate::space::{can_mount, git, leftovers, tree, wait};

const REFUSALS: Refusals =
    Refusals { words: &["check the disk", "read-only", "will be completed"], errnos: &[5, 30, 11] };
const PAGES: usize = 6;
/// Written before the disk breaks, and refused until it is repaired.
const BEFORE: usize = 40;
const REFUSED: usize = 20;

/// A server on a disk that may break.
struct Trial {
    binary: Binary,
    /// Ends before its disk does.
    server: Server,
    disk: Disk,
    /// How far the disk was when the first server was ready, and when its filesystem was repaired:
    /// that is no work of ours.
    ready: usize,
    repaired: Range<usize>,
}

impl Trial {
    /// A server at work; none where no disk can be mounted.
    fn begin() -> Option<Self> {
        let disk = Disk::formatted("")?;
        let binary = Binary::build();
        disk.mount("").unwrap();
        disk.record();
        let server = binary.serve(&disk.root(), can_mount().then(|| disk.aside("mnt")).as_deref());
        let ready = disk.position();
        Some(Self { binary, disk, server, ready, repaired: 0..0 })
    }

    /// Starts the next server.
    fn serve(&mut self) {
        self.server = self.binary.serve(&self.disk.root(), can_mount().then(|| self.disk.aside("mnt")).as_deref());
    }

    fn client(&self) -> Client {
        Client::new(self.server.address())
    }

    /// Whether the disk's filesystem takes writes; when its journal broke, it does not until it is
    /// mounted again.
    fn is_usable(&self) -> bool {
        let at = self.disk.root().join(".svc/state/usable");
        let written = fs::File::create(&at).and_then(|file| file.sync_all());
        fs::remove_file(at).and(written).is_ok()
    }

    /// Writers at work while the disk breaks and until it is repaired.
    fn load(&self, is_broken_for_good: bool, fails: impl FnMut(Order<'_>) -> bool + Send + 'static) -> Vec<Ledger> {
        let moment = || self.disk.position();
        let work = Work::new(PAGES, REFUSALS, &moment);
        let saved = |path: &str, text: &str| save_safely(&self.disk.aside("mnt").join(path), text);
        let client = self.client();
        let ledgers = work.during(self.server.address(), can_mount().then_some(&saved), || {
            wait::until("the work gets going", || work.so_far().0 > BEFORE);
            self.disk.break_down(fails);
            wait::until("writes are refused", || work.so_far().1 > REFUSED);
            wait::until("the disk's filesystem gives up", || !is_broken_for_good || !self.is_usable());
            wait::until("it is told why", || {
                trouble(&client).is_some_and(|told| REFUSALS.words.iter().any(|words| told.contains(words)))
            });
        });
        let (taken, refused) = work.so_far();
        println!("{taken} acknowledged, {refused} refused; the disk failed {} times", self.disk.repair());
        ledgers
    }

    /// What whoever looks after the machine does: nothing when the disk works again, and what its
    /// filesystem needs when it does not.
    fn look_after(&mut self) {
        if self.is_usable() {
            return wait_until_ready(&self.client());
        }
        println!("the filesystem gave up");
        let ended = self.server.end();
        let said = self.server.said();
        let said = said.lines().last().unwrap_or_default();
        assert!(ended.success() || said.contains("it has every acknowledged write"), "{ended}: {said}");
        let begun = self.disk.position();
        self.disk.unmount();
        let checked = Command::new("e2fsck").arg("-fy").arg(self.disk.file()).output().unwrap();
        let said = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.code().is_some_and(|code| code <= 1), "e2fsck: {said}");
        self.disk.mount("").unwrap();
        self.repaired = begun..self.disk.position();
        self.serve();
    }

    /// Nothing acknowledged is lost: neither as the server sees it, nor at its end, nor when the
    /// disk loses its power then or at some moment before.
    fn end(self, ledgers: &[Ledger]) {
        self.end_cut(ledgers, &[]);
    }

    /// The same with some moments of power cuts and what the disk does then.
    fn end_cut(self, ledgers: &[Ledger], cuts: &[(usize, Cache)]) {
        let Self { binary, disk, server, ready, repaired } = self;
        let client = Client::new(server.address());
        must_put(&client, "after.md", "# After\n\nlynx\n");
        assert_eq!(page(&client, "after.md").as_deref(), Some("# After\n\nlynx\n"));
        wait::until("search is there again", || client.get("/api/svc/search?q=lynx").text().contains("after.md"));
        git::wait_for_index(&disk.root());
        server.stop();
        let end = disk.position();
        audit("at the end", &binary, &disk, (ledgers, end));
        let record = disk.recorded();
        disk.unmount();
        let mut random = Random::new(seed());
        rest();
        let chosen: Vec<_> = (0..setting("SVCFS_POWER_ROUNDS").unwrap_or(1))
            .map(|_| (ready + random.below(end - ready), CACHES[random.below(CACHES.len())]))
            .filter(|(cut, _)| !repaired.contains(cut))
            .collect();
        for (cut, cache) in cuts.iter().copied().chain([(end, Cache::Lost)]).chain(chosen) {
            let what = format!("power cut after {cut} of {end}, cache {cache:?}");
            let left = Disk::holding(record.left(cut, cache, &mut random));
            left.mount("").unwrap();
            binary.rebooted().serve(&left.root(), None).stop();
            audit(&what, &binary, &left, (ledgers, cut));
            left.unmount();
        }
    }
}

/// Looks at everything that a server left.
fn audit(what: &str, binary: &Binary, disk: &Disk, (ledgers, moment): (&[Ledger], usize)) {
    leftovers::check_root(&disk.root(), &disk.aside("clone"));
    assert_eq!(tree::files(&disk.root()), git::head(&disk.root()), "{what}: the tree differs from the newest commit");
    for ledger in ledgers {
        ledger.check(what, moment, &tree::files(&disk.root()));
    }
    check_history(what, &disk.root(), moment, ledgers);
    binary.check_index(&disk.root());
}

/// Shows: FAIL-8
#[test]
fn flushes_that_the_disk_fails_at_lose_nothing_acknowledged() {
    let Some(mut trial) = Trial::begin() else { return };
    let ledgers = trial.load(true, |order| matches!(order, Order::Flush));
    trial.look_after();
    trial.end(&ledgers);
}

/// Shows: FAIL-8
#[test]
fn a_temporarily_failing_disk_loses_no_acked_write() {
    let Some(mut trial) = Trial::begin() else { return };
    let ledgers = trial.load(true, |_| true);
    trial.look_after();
    trial.end(&ledgers);
}

/// Shows: FAIL-8
#[test]
fn a_disk_that_fails_now_and_then_loses_nothing_acknowledged() {
    let Some(mut trial) = Trial::begin() else { return };
    let mut random = Random::new(seed());
    let ledgers = trial.load(false, move |order| !matches!(order, Order::Flush) && random.below(3) == 0);
    trial.look_after();
    trial.end(&ledgers);
}

/// The text of a page that the disk fails at: as it stands in the log, and as it begins a file.
fn bad(path: &str, status: u16) -> String {
    format!("# Bad\n\n{path}: {status}\n")
}

fn is_log_of_bad(order: Order<'_>) -> bool {
    order.has(b"# Bad\n") && !order.has_block(b"# Bad\n")
}

/// Writes such a page; what was answered.
#[track_caller]
fn write_bad(trial: &Trial, ledger: &mut Ledger, path: &str, status: u16) -> String {
    let (text, since) = (bad(path, status), trial.disk.position());
    let reply = put(&trial.client(), path, &text);
    assert_eq!(reply.status, status, "{path}: {}", reply.text());
    ledger.note(path, &text, since, (status == 200).then(|| trial.disk.position()));
    reply.text()
}

/// Shows: FAIL-8
#[test]
fn blocks_refused_by_the_disk_are_reported_and_written_later() {
    let Some(trial) = Trial::begin() else { return };
    let (client, mut ledger) = (trial.client(), Ledger::default());
    trial.disk.break_down(is_log_of_bad);
    let told = write_bad(&trial, &mut ledger, "first.md", 500);
    assert!(told.contains("input/output error"), "{told}");
    assert_eq!(page(&client, "first.md"), None);
    must_put(&client, "good.md", "# Good\n");
    assert!(trial.disk.repair() > 0);
    write_bad(&trial, &mut ledger, "first.md", 200);
    let mut cuts = vec![trial.disk.position()];
    wait_until_ready(&client);

    trial.disk.break_down(|order| order.has_block(b"# Bad\n"));
    write_bad(&trial, &mut ledger, "second.md", 200);
    let mut told = None;
    wait::until("it is told that the disk fails", || {
        told = trouble(&client);
        told.is_some()
    });
    let told = told.unwrap();
    assert!(told.contains("safe in the log") && told.contains("input/output error"), "{told}");
    write_bad(&trial, &mut ledger, "third.md", 200);
    cuts.push(trial.disk.position());
    assert!(trial.disk.repair() > 0);
    wait_until_ready(&client);
    // What the log said it had, it has, although the tree may not.
    let cuts: Vec<_> = cuts.into_iter().map(|cut| (cut, Cache::Lost)).collect();
    trial.end_cut(&[ledger], &cuts);
}

/// What the log could not flush is in the memory of the machine for as long as nobody needs the
/// room, and looks as if it were flushed.
///
/// Shows: FAIL-8
#[test]
fn a_failed_log_flush_of_a_killed_server_hides_no_later_records() {
    let Some(mut trial) = Trial::begin() else { return };
    let mut ledger = Ledger::default();
    must_put(&trial.client(), "good.md", "# Good\n");
    trial.disk.break_down(is_log_of_bad);
    write_bad(&trial, &mut ledger, "small.md", 500);
    trial.server.kill();
    assert!(trial.disk.repair() > 0);
    trial.serve();
    write_bad(&trial, &mut ledger, "small.md", 200);
    // Before the tree has it for certain.
    let cut = trial.disk.position();
    trial.end_cut(&[ledger], &[(cut, Cache::Lost)]);
}

/// Shows: FAIL-8
#[test]
fn a_large_page_unlogged_by_a_killed_server_blocks_no_start() {
    let Some(mut trial) = Trial::begin() else { return };
    let client = trial.client();
    must_put(&client, "good.md", "# Good\n");
    // Its name stands in the log, and its content beside it.
    trial.disk.break_down(|order| order.has(b"large bad.txt"));
    let refused = put(&client, "large bad.txt", &"0123456789abcdef\n".repeat(1 << 17));
    assert_eq!(refused.status, 500, "{}", refused.text());
    trial.server.kill();
    assert!(trial.disk.repair() > 0);
    trial.serve();
    must_put(&trial.client(), "good.md", "# Good\n\nagain\n");
    trial.end(&[]);
}
