//! Servers whose git is taken away while many write through HTTP and the mount.

use std::collections::BTreeMap;

use super::{Patient, rename};
use crate::crash::GATHERING;
use crate::disk::writers::{Ledger, Refusals, WRITERS, Work, check_history};
use crate::disk::{must_put, save_safely, trouble, wait_until_ready};
use crate::space::client::Client;
use crate::space::{can_mount, git, leftovers, tree, wait};

/// What is said while git is away: by whom nothing of was taken, and by whom something is in the
/// log already. Programs are told to try again.
const REFUSALS: Refusals = Refusals { words: &["restore `.git`", "restore it", "will be completed"], errnos: &[11] };
/// Pages of each writer: few, so that they are overwritten often.
const PAGES: usize = 6;
/// How often git is taken away; each time at another step of somebody's write.
const TIMES: usize = 5;
/// Acknowledged before each time.
const BEFORE: usize = 30;
/// Refused, where writes are, before git is put back.
const REFUSED: usize = 3 * WRITERS;

/// Takes git away again and again while everybody writes, and puts it back; what each of them was
/// told.
fn load(patient: &Patient, client: &Client, work: &Work<'_>) -> Vec<Ledger> {
    let (git, taken) = (patient.at(".git"), patient.aside("taken"));
    let saved = |path: &str, text: &str| save_safely(&patient.aside("mnt").join(path), text);
    let goes_on = || {
        let (before, _) = work.so_far();
        wait::until("writes are taken", || work.so_far().0 > before + BEFORE);
    };
    let reason = || trouble(client).filter(|told| REFUSALS.words.iter().any(|words| told.contains(words)));
    work.during(client.address(), can_mount().then_some(&saved), || {
        for time in 0..TIMES {
            goes_on();
            let (_, before) = work.so_far();
            rename(&git, &taken);
            let mut told = None;
            wait::until("the server says that git is gone", || {
                told = reason();
                told.is_some()
            });
            // Who has something in the log already is not sent away at once, and whoever comes
            // behind them waits, too.
            wait::until("writers are refused, or held", || {
                told = reason().or(told.take());
                let is_held = told.as_ref().is_some_and(|told| told.contains("will be completed"));
                is_held || work.so_far().1 >= before + REFUSED
            });
            assert!(!git.exists(), "another repository was begun in its place");
            rename(&taken, &git);
            wait_until_ready(client);
            println!("{time}: {} refused; {}", work.so_far().1 - before, told.unwrap_or_default());
        }
        goes_on();
    })
}

/// Has git taken away under the load of a server with some settings, and looks at everything
/// afterwards but the order of history, which is for whoever asked; what each writer was told.
fn taken_away(patient: &Patient) -> Vec<Ledger> {
    let mountpoint = can_mount().then(|| patient.aside("mnt"));
    let server = patient.binary.serve(&patient.root(), mountpoint.as_deref());
    let client = Client::new(server.address());
    let work = Work::new(PAGES, REFUSALS, &|| 0);
    let ledgers = load(patient, &client, &work);
    must_put(&client, "last.md", "# Last\n");
    let check = |what: &str, found: &BTreeMap<String, String>| {
        ledgers.iter().for_each(|ledger| ledger.check(what, 0, found));
    };
    check("on the disk", &tree::files(&patient.root()));
    git::wait_for_index(&patient.root());
    server.stop();
    leftovers::check_root(&patient.root(), &patient.aside("clone"));
    let head = git::head(&patient.root());
    assert_eq!(tree::files(&patient.root()), head, "the tree differs from the newest commit");
    check("in the newest commit", &head);
    patient.binary.check_index(&patient.root());
    patient.doctor(&[]).must_be_silent("git was back");
    let (taken, refused) = work.so_far();
    println!("{taken} acknowledged, {refused} refused");
    ledgers
}

/// Shows: FAIL-4
#[test]
fn removing_git_under_load_loses_no_acked_write() {
    let patient = Patient::new();
    let ledgers = taken_away(&patient);
    check_history("at the end", &patient.root(), 0, &ledgers);
}

/// Commits that were due while git was away are made when it is back.
///
/// Shows: FAIL-4
#[test]
fn removing_git_under_load_loses_no_acked_gathered_write() {
    taken_away(&Patient::keeping(GATHERING));
}
