//! Conditional writes of many clients on a few pages: no update is lost, and nobody reads an old
//! text after a new one was acknowledged or seen.

mod checker;
mod clients;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::crash::random::Random;
use crate::space::TestSpace;
use crate::space::wait::LIMIT;
use checker::{Deed, Operation};
use clients::{Agent, Asker, Browser, Editor, InPlace, Page};

/// Few pages, so that the clients meet.
const PAGES: usize = 3;

/// What one client did to which page.
type Recorded = Vec<(usize, Operation)>;

/// The clock and the texts that all clients share.
struct Course {
    start: Instant,
    lasts: Duration,
    texts: AtomicU64,
    /// How often the page was written on a condition that held, and on one that did not.
    meetings: [(AtomicU64, AtomicU64); PAGES],
}

impl Course {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap()
    }

    /// The time is over and the clients met on every page, which on a busy machine takes longer.
    fn is_over(&self) -> bool {
        let is_met = |(held, refused): &(AtomicU64, AtomicU64)| {
            held.load(Ordering::Relaxed) > 0 && refused.load(Ordering::Relaxed) > 0
        };
        let late = self.start.elapsed().saturating_sub(self.lasts);
        !late.is_zero() && (late > LIMIT || self.meetings.iter().all(is_met))
    }

    /// One client, at work until the time is over: it looks at a page, and often writes what
    /// follows from what it saw.
    fn run(&self, mut client: Box<dyn Asker + Send + '_>, mut random: Random) -> Recorded {
        let mut recorded = Recorded::new();
        let mut seen = [None; PAGES];
        while !self.is_over() {
            let page = Page(random.below(client.pages()));
            let called = self.now();
            let deed = if random.below(10) < 4 {
                Deed::Read(client.reads(page))
            } else {
                client.writes(page, seen[page.0], self.texts.fetch_add(1, Ordering::Relaxed))
            };
            let (held, refused) = &self.meetings[page.0];
            match deed {
                Deed::Read(state) => seen[page.0] = state,
                Deed::Write(text) => seen[page.0] = Some(text),
                Deed::Swap(_, text) => {
                    seen[page.0] = Some(text);
                    held.fetch_add(1, Ordering::Relaxed);
                }
                Deed::Refused(_) => {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
            recorded.push((page.0, Operation { called, returned: Some(self.now()), deed }));
        }
        recorded
    }
}

fn seconds() -> u64 {
    std::env::var("SVCFS_LINEAR_SECONDS").map_or(3, |text| text.parse().unwrap())
}

/// Has clients meet on the pages of a space, and checks every page.
fn all_answers_fit(space: &TestSpace, clients: Vec<Box<dyn Asker + Send + '_>>) {
    let lasts = Duration::from_secs(seconds());
    let course = Course { start: Instant::now(), lasts, texts: AtomicU64::new(1), meetings: Default::default() };
    let mut random = Random::new(7);
    let recorded: Vec<Recorded> = thread::scope(|scope| {
        let threads: Vec<_> = clients
            .into_iter()
            .map(|client| {
                let (course, random) = (&course, random.fork());
                scope.spawn(move || course.run(client, random))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut pages: BTreeMap<usize, Vec<Operation>> = BTreeMap::new();
    for (page, operation) in recorded.into_iter().flatten() {
        pages.entry(page).or_default().push(operation);
    }
    for (page, operations) in pages {
        let count = |is: fn(&Deed) -> bool| operations.iter().filter(|operation| is(&operation.deed)).count();
        let swapped = count(|deed| matches!(deed, Deed::Swap(..)));
        let written = count(|deed| matches!(deed, Deed::Write(_)));
        let refused = count(|deed| matches!(deed, Deed::Refused(_)));
        println!("page {page}: {} operations, {swapped} swaps, {written} writes, {refused} refusals", operations.len());
        assert!(swapped > 0 && refused > 0, "the clients did not meet");
        if let Err(found) = checker::check(operations) {
            panic!("page {page}: no order explains what was answered: {found:#?}");
        }
    }
    space.settle();
}

/// Shows: VIS-1
#[test]
fn http_and_mcp_conditional_writes_are_linearizable() {
    let space = TestSpace::new();
    let mut clients: Vec<Box<dyn Asker + Send>> = Vec::new();
    for _ in 0..4 {
        clients.push(Box::new(Browser::new(&space)));
    }
    clients.push(Box::new(Agent::new(&space)));
    clients.push(Box::new(Agent::new(&space)));
    all_answers_fit(&space, clients);
}

/// Shows: VIS-3
#[test]
fn mount_saves_and_conditional_writes_are_linearizable() {
    let Some(space) = TestSpace::mounted() else { return };
    let mut clients: Vec<Box<dyn Asker + Send>> = Vec::new();
    for number in 0..2 {
        clients.push(Box::new(Editor::new(&space, number)));
        clients.push(Box::new(Browser::new(&space)));
    }
    clients.push(Box::new(Agent::new(&space)));
    all_answers_fit(&space, clients);
}

/// Shows: VIS-1
#[test]
fn fsynced_data_is_read_by_other_protocols() {
    let Some(space) = TestSpace::mounted() else { return };
    let clients: Vec<Box<dyn Asker + Send>> = vec![
        Box::new(InPlace::new(&space)),
        Box::new(Browser::new(&space)),
        Box::new(Browser::new(&space)),
        Box::new(Agent::new(&space)),
    ];
    all_answers_fit(&space, clients);
}
