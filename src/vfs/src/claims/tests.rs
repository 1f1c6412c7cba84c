use std::sync::atomic::{AtomicI64, Ordering};

use svcfs_base::{Change, Clock, Kind, Protocol};

use super::*;
use crate::VfsOptions;
use crate::tests::space::options;

const LEASE: Duration = Duration::from_secs(60);

/// A clock that a test moves.
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::Relaxed)).unwrap()
    }
}

struct ClaimSpace {
    directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    vfs: Arc<Vfs>,
    is_enforced: bool,
}

impl ClaimSpace {
    fn new(is_enforced: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock(AtomicI64::new(1_800_000_000)));
        let vfs = open(directory.path(), &clock, is_enforced);
        Self { directory, clock, vfs, is_enforced }
    }
    fn reopen(&mut self) {
        self.vfs.close().unwrap();
        self.vfs = open(self.directory.path(), &self.clock, self.is_enforced);
    }
    fn advance(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds, Ordering::Relaxed);
    }
    fn put(&self, path: &str, text: &str) {
        self.vfs.apply(&caller("setup"), Change::put(at(path), text.to_owned())).unwrap();
    }
    fn claim(&self, actor: &str, path: &str) -> Claim {
        match self.vfs.start_claim(&Actor::new(actor), &at(path), LEASE).unwrap() {
            ClaimAttempt::Started(started) => started.confirm().unwrap(),
            ClaimAttempt::Active(claim) | ClaimAttempt::Lapsed(claim) => panic!("{claim:?}"),
        }
    }
}

fn open(root: &std::path::Path, clock: &Arc<ManualClock>, is_enforced: bool) -> Arc<Vfs> {
    let vfs = Vfs::open(VfsOptions { clock: Arc::clone(clock) as _, ..options(root, false) }).unwrap();
    let is_task = Box::new(|content: &[u8]| content.starts_with(b"task"));
    vfs.set_claim_policy(ClaimPolicy { is_enabled: true, is_enforced, is_task });
    vfs
}

fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

fn caller(actor: &str) -> Caller {
    Caller::new(Protocol::Http).with_actor(Actor::new(actor))
}

fn with_fence(actor: &str, fence: u64) -> Caller {
    Caller { claim_fence: Some(fence), ..caller(actor) }
}

/// Each way to write a page.
fn writes(path: &str) -> Vec<Change> {
    vec![
        Change::put(at(path), "task two\n"),
        Change::rename(at(path), at("elsewhere.md")),
        Change::rename(at("other.md"), at(path)),
        Change::rename(at("d"), at("e")),
        Change::remove(at(path)),
    ]
}

#[test]
fn a_page_claimed_by_another_is_not_written() {
    for (is_enforced, text, is_refused) in [(false, "task\n", true), (true, "page\n", true), (false, "page\n", false)] {
        for n in 0..5 {
            let space = ClaimSpace::new(is_enforced);
            space.put("d/a.md", text);
            space.put("other.md", "x\n");
            let claim = space.claim("ann", "d/a.md");
            let change = writes("d/a.md").swap_remove(n);
            for protocol in
                [Protocol::Http, Protocol::Mcp, Protocol::Fuse, Protocol::Nfs, Protocol::WebDav, Protocol::S3]
            {
                if !is_refused {
                    break;
                }
                let bob = Caller { protocol, ..caller("bob") };
                let fault = space.vfs.apply(&bob, change.clone()).unwrap_err();
                let kind = if protocol.is_filesystem() { Kind::Locked } else { Kind::Conflict };
                assert_eq!(fault.kind(), kind, "{change:?} {fault}");
                assert!(fault.message().starts_with("claim_lost: `d/a.md` is claimed by `ann`"), "{fault}");
                assert_eq!(fault.detail()["active_claim"], claim.to_json());
            }
            if !is_refused {
                let notes = space.vfs.apply(&caller("bob"), change.clone()).unwrap().notes;
                assert_eq!(notes, ["`d/a.md` is claimed by `ann` until 2027-01-15T08:01:00Z"], "{change:?}");
            } else if n != 3 {
                assert!(space.vfs.apply(&caller("ann"), change).unwrap().notes.is_empty());
            }
        }
    }
}

#[test]
fn a_fence_must_be_that_of_the_active_claim_of_its_actor() {
    let space = ClaimSpace::new(false);
    space.put("a.md", "page\n");
    let write = |caller: &Caller| {
        let outcome = space.vfs.apply(caller, Change::put(at("a.md"), "page 2\n"));
        outcome.map(drop).map_err(|fault| (fault.message().to_owned(), fault.detail()["active_claim"].clone()))
    };
    let first = space.claim("ann", "a.md");
    assert_eq!(first.fence, 1_800_000_000_000);
    write(&with_fence("ann", first.fence)).unwrap();
    let (message, active) = write(&with_fence("bob", first.fence)).unwrap_err();
    assert_eq!(message, "claim_lost: fence 1800000000000 of `a.md` belongs to `ann`; write as that actor");
    assert_eq!(active, first.to_json());
    space.advance(30);
    let renewed = space.claim("ann", "a.md");
    assert_eq!((renewed.fence, renewed.claimed_at), (first.fence, first.claimed_at));
    space.advance(60);
    let (message, active) = write(&with_fence("ann", first.fence)).unwrap_err();
    assert!(
        message.starts_with("claim_lost: the lease of `a.md` with fence 1800000000000 ended at 2027-"),
        "{message}"
    );
    assert!(active.is_null());
    let [lapsed] = space.vfs.lapsed_claims().try_into().unwrap();
    space.vfs.end_lapsed_claim(&lapsed).unwrap();
    let second = space.claim("bob", "a.md");
    assert_eq!(second.fence, first.fence + 1);
    let (message, active) = write(&with_fence("ann", first.fence)).unwrap_err();
    assert!(message.contains("is claimed by `bob` with fence 1800000000001; fence 1800000000000 is over"), "{message}");
    assert_eq!(active, second.to_json());
    assert!(space.vfs.release_claim(&Actor::new("bob"), &at("a.md"), None).unwrap());
    let (message, _) = write(&with_fence("bob", second.fence)).unwrap_err();
    assert!(message.contains("`a.md` has no claim with fence 1800000000001"), "{message}");
    write(&caller("ann")).unwrap();
}

#[test]
fn a_rename_by_the_holder_moves_the_claim() {
    let space = ClaimSpace::new(true);
    space.put("d/a.md", "page\n");
    let claim = space.claim("ann", "d/a.md");
    for (from, to, now_at) in [("d/a.md", "d/b.md", "d/b.md"), ("d", "e", "e/b.md")] {
        space.vfs.apply(&caller("ann"), Change::rename(at(from), at(to))).unwrap();
        let moved = Claim { path: at(now_at), ..claim.clone() };
        assert_eq!(space.vfs.claims_below(&TreePath::root()).unwrap(), [moved]);
    }
    // An editor that keeps a backup renames the page and writes it again.
    space.vfs.apply(&caller("ann"), Change::rename(at("e/b.md"), at("e/b.md~"))).unwrap();
    assert!(space.vfs.claim_at(&at("e/b.md")).is_some());
}

#[test]
fn claims_and_fences_survive_a_restart() {
    let mut space = ClaimSpace::new(false);
    space.put("a.md", "page\n");
    space.put("b.md", "page\n");
    let (a, b) = (space.claim("ann", "a.md"), space.claim("ann", "b.md"));
    assert!(space.vfs.release_claim(&Actor::new("ann"), &b.path, Some(b.fence)).unwrap());
    space.reopen();
    assert_eq!(space.vfs.claims_below(&TreePath::root()).unwrap(), [a]);
    assert!(space.claim("bob", "b.md").fence > b.fence);
}

#[test]
fn an_unconfirmed_claim_ends_and_a_disabled_space_has_none() {
    let space = ClaimSpace::new(true);
    space.put("a.md", "page\n");
    let ann = Actor::new("ann");
    let started = space.vfs.start_claim(&ann, &at("a.md"), LEASE).unwrap();
    assert!(matches!(space.vfs.start_claim(&Actor::new("bob"), &at("a.md"), LEASE).unwrap(), ClaimAttempt::Active(_)));
    drop(started);
    space.claim("bob", "a.md");
    let (events, is_incomplete) = space.vfs.claim_events_after(0);
    assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [ClaimEventKind::Claim]);
    assert!(!is_incomplete);

    let directory = tempfile::tempdir().unwrap();
    let vfs = Vfs::open(options(directory.path(), false)).unwrap();
    vfs.set_claim_policy(ClaimPolicy { is_enabled: false, ..ClaimPolicy::default() });
    let outcome = vfs.start_claim(&ann, &at("a.md"), LEASE).map(drop);
    assert_eq!(outcome.unwrap_err().message(), "claims not enabled");
    let outcome = vfs.apply(&with_fence("ann", 1), Change::put(at("a.md"), "x\n"));
    assert_eq!(outcome.unwrap_err().kind(), Kind::NotEnabled);
}

#[test]
fn stored_claims_do_not_count_while_claims_are_switched_off() {
    let space = ClaimSpace::new(false);
    space.put("a.md", "task\n");
    space.claim("ann", "a.md");
    space.vfs.close().unwrap();
    let root = space.directory.path();
    let vfs = Vfs::open(VfsOptions { clock: Arc::clone(&space.clock) as _, ..options(root, false) }).unwrap();
    vfs.set_claim_policy(ClaimPolicy { is_enabled: false, ..ClaimPolicy::default() });
    assert!(vfs.claim_at(&at("a.md")).is_none());
    vfs.apply(&caller("bob"), Change::put(at("a.md"), "task 2\n")).unwrap();
}

#[test]
fn many_actors_claim_each_page_once() {
    let space = ClaimSpace::new(false);
    for n in 0..20 {
        space.put(&format!("{n}.md"), "task\n");
    }
    let won: Vec<Vec<Claim>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|worker| {
                let vfs = &space.vfs;
                scope.spawn(move || {
                    let actor = Actor::new(&format!("worker {worker}"));
                    let claimed = (0..20).filter_map(|n| {
                        match vfs.start_claim(&actor, &at(&format!("{n}.md")), LEASE).unwrap() {
                            ClaimAttempt::Started(started) => Some(started.confirm().unwrap()),
                            ClaimAttempt::Active(_) | ClaimAttempt::Lapsed(_) => None,
                        }
                    });
                    claimed.collect()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let mut fences: Vec<u64> = won.iter().flatten().map(|claim| claim.fence).collect();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 20);
    assert_eq!(space.vfs.claims_below(&TreePath::root()).unwrap().len(), 20);
}
