//! Housekeeping that the disk refuses: what writes depend on in the end is told by `/readyz`, with
//! the reason; what leaves everything whole and is tried again is not, and `/readyz` stays as it
//! is.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use svcfs_store::{FailPoint, FailPointKind, FailPoints};

use super::{must_put, page, trouble, unsettled, wait_until_ready};
use crate::crash::server::Binary;
use crate::space::client::Client;
use crate::space::{TestSpace, folder, git, leftovers, wait};

/// Without these the log cannot let go of anything: in the end there is no room for writes.
const NEEDED: [FailPoint; 5] = [
    FailPoint::RowsWrite,
    FailPoint::RowsCommit,
    FailPoint::CheckpointFlush,
    FailPoint::CheckpointRelease,
    FailPoint::CheckpointSpool,
];
/// Packs and snapshots stay as they are, more of them than there need be, and `git status` is
/// behind.
const SAFE: [FailPoint; 7] = [
    FailPoint::SnapshotDrop,
    FailPoint::PackMerge,
    FailPoint::PackCopy,
    FailPoint::PackFlush,
    FailPoint::PackInstall,
    FailPoint::PackDrop,
    FailPoint::CheckpointIndex,
];
/// After the end nobody asks; the stop itself fails and says why.
const LAST: FailPoint = FailPoint::CloseLog;

const NO_SPACE: i32 = 28;
/// So many packs are due to become one, and some more.
const PAGES: usize = 8;
/// Of each page one snapshot is kept: the second is one too many.
const ONE_SNAPSHOT: &str = "versioning = { strategy = \"cow\", max_versions = 1 }";

#[test]
fn every_housekeeping_failure_is_reported_or_harmless() {
    let known: BTreeSet<_> = NEEDED.into_iter().chain(SAFE).chain([LAST]).collect();
    let all = FailPoint::ALL.iter().copied().filter(|point| point.kind() == FailPointKind::Housekeeping);
    assert_eq!(
        all.collect::<BTreeSet<_>>(),
        known,
        "decide for a new one what `/readyz` says, and put it on a list above"
    );
}

/// Shows: FAIL-3
#[test]
fn housekeeping_that_writes_need_makes_the_server_unready() {
    thread::scope(|scope| NEEDED.iter().for_each(|point| drop(scope.spawn(move || must_be_told(*point)))));
}

fn must_be_told(point: FailPoint) {
    let space = TestSpace::new();
    let (client, points) = (space.client(), FailPoints::new(&space.root()));
    points.inject_error(point, NO_SPACE);
    must_put(&client, "small.md", "# Small\n");
    // Its content lies beside the log.
    must_put(&client, "large.txt", &"large\n".repeat(300_000));
    let mut told = None;
    wait::until(&format!("it is told that `{}` is refused", point.name()), || {
        told = trouble(&client);
        told.is_some()
    });
    let told = told.unwrap();
    assert!(told.contains("safe in the log") && told.contains("no space left"), "`{}`: {told}", point.name());
    assert!(points.injected_errors(point) > 0, "`{}` was not refused: {told}", point.name());
    must_put(&client, "meanwhile.md", "# Meanwhile\n");
    assert_eq!(page(&client, "meanwhile.md").as_deref(), Some("# Meanwhile\n"));
    points.clear(point);
    wait_until_ready(&client);
}

/// Shows: FAIL-3
#[test]
fn harmless_housekeeping_failures_leave_the_server_ready() {
    thread::scope(|scope| SAFE.iter().for_each(|point| drop(scope.spawn(move || must_be_safe(*point)))));
}

fn must_be_safe(point: FailPoint) {
    let space = TestSpace::with(if point == FailPoint::SnapshotDrop { ONE_SNAPSHOT } else { "" }, false);
    let (client, points) = (space.client(), FailPoints::new(&space.root()));
    let must_be_ready = || assert_eq!(trouble(&client), None, "while `{}` is refused", point.name());
    points.inject_error(point, NO_SPACE);
    let mut round = 0;
    wait::until(&format!("`{}` is refused", point.name()), || {
        round += 1;
        for number in 0..PAGES {
            must_put(&client, &format!("{number}.md"), &format!("# Round {round}\n"));
        }
        // What is flushed is merged, too, when there is more of it.
        wait::until("a checkpoint begins", || {
            must_be_ready();
            points.injected_errors(point) > 0 || unsettled(&client) == Some(0)
        });
        points.injected_errors(point) > 0
    });
    // One begins when the one before has ended, and said what it was refused.
    must_put(&client, "meanwhile.md", "# Meanwhile\n");
    wait::until("the next checkpoint begins", || unsettled(&client) == Some(0));
    must_be_ready();
    points.clear(point);
    must_put(&client, "after.md", "# After\n");
    wait::until("a checkpoint begins", || unsettled(&client) == Some(0));
    must_be_ready();
}

/// Another program that writes into a database, and does not come to an end while this is there.
struct Writing(Child);

impl Writing {
    fn begin(database: &Path) -> Self {
        let mut command = Command::new("sqlite3");
        let mut program = command.arg(database).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Not closed: the program goes on until it has heard all.
        let heard = program.stdin.as_mut().unwrap();
        heard.write_all(b".timeout 20000\nBEGIN IMMEDIATE;\nSELECT 'begun';\n").unwrap();
        let mut said = String::new();
        BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let writing = Self(program);
        assert_eq!(said, "begun\n");
        writing
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let ended = self.0.kill().and_then(|()| self.0.wait());
        assert!(thread::panicking() || ended.is_ok(), "{ended:?}");
    }
}

/// It can be made anew at any time, so that it is no reason to take nothing more.
///
/// Shows: FAIL-3
#[test]
fn an_unwritable_search_index_is_unhealthy_but_writes_continue() {
    let folder = folder();
    let root = folder.path().join("root");
    fs::write(root.join("seed.md"), "# Seed\n").unwrap();
    let binary = Binary::build();
    let server = binary.serve(&root, None);
    let client = Client::new(server.address());
    let sick = || client.get("/readyz").json()["problems"].clone();
    must_put(&client, "before.md", "# Before\n\nwalrus\n");
    wait::until("search finds it", || client.found("walrus") == ["before.md"]);
    let writing = Writing::begin(&root.join(".svc/state/index.db"));
    must_put(&client, "meanwhile.md", "# Meanwhile\n\notter\n");
    let mut told = Value::Null;
    wait::until("the indexer is named as sick", || {
        told = sick();
        told[0]["component"] == "task indexer"
    });
    assert!(told[0]["reason"].as_str().is_some_and(|reason| reason.contains("search index")), "{told}");
    assert_eq!(trouble(&client), None);
    must_put(&client, "meanwhile.md", "# Meanwhile\n\notter and lynx\n");
    assert_eq!(page(&client, "meanwhile.md").as_deref(), Some("# Meanwhile\n\notter and lynx\n"));
    drop(writing);
    wait::until("search finds what was written meanwhile", || client.found("lynx") == ["meanwhile.md"]);
    wait::until("nothing is sick any more", || sick() == json!([]));
    git::wait_for_index(&root);
    server.stop();
    leftovers::check_root(&root, &folder.path().join("clone"));
    binary.check_index(&root);
}
