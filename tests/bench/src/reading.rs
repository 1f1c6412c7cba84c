//! Starting over a large tree, and searching in it, beside `grep -r`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::http::Client;
use crate::machine::{self, Memory};
use crate::measure::{Bound, Series, timed};
use crate::pages::{Pages, RARE};
use crate::plan::Plan;
use crate::server::{Place, Server};

/// How long a search may take to answer right after a start.
const INDEXED: Duration = Duration::from_secs(120);

/// All that is measured of starting and searching.
pub struct Reading {
    /// What was searched, for people.
    pub corpus: String,
    /// Over a folder that svcfs has not seen.
    pub first: Start,
    /// Over the same folder, unchanged.
    pub again: Start,
    /// One for each question.
    pub questions: Vec<Answered>,
}

/// One start.
pub struct Start {
    /// From the start of the process until `/readyz` says yes.
    pub ready: Duration,
    /// From the start of the process until a search finds what `grep` finds.
    pub found: Duration,
    /// Memory at rest after it.
    pub memory: Memory,
}

/// One question, as measured.
pub struct Answered {
    /// Which.
    pub question: Question,
    /// Pages that `grep` finds.
    pub pages: usize,
    /// svcfs.
    pub svcfs: Series,
    /// `grep -r`.
    pub grep: Series,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// What it is an example of.
    pub kind: &'static str,
    /// As it is asked here.
    pub q: &'static str,
    /// The same for `grep`: pages that have all of these, the later ones sought in what the first finds.
    pub grep: &'static [&'static str],
}

/// A word in few pages comes first: it tells that the index is whole.
const OF_TLDR: [Question; 4] = [
    Question { kind: "rare word", q: "zpaq", grep: &["zpaq"] },
    Question { kind: "two words", q: "btrfs snapshot", grep: &["btrfs", "snapshot"] },
    Question { kind: "phrase", q: "\"public key\"", grep: &["public key"] },
    Question { kind: "common word", q: "file", grep: &["file"] },
];
const OF_GENERATED: [Question; 4] = [
    Question { kind: "rare word", q: RARE, grep: &[RARE] },
    Question { kind: "two words", q: "tide copper", grep: &["tide", "copper"] },
    Question { kind: "phrase", q: "\"tide copper\"", grep: &["tide copper"] },
    Question { kind: "common word", q: "tide", grep: &["tide"] },
];

/// Measures everything about starting and searching.
///
/// # Errors
/// When the server fails, or does not find what `grep` finds.
pub fn measure(program: &Path, plan: &Plan, scratch: &Path) -> Result<Reading> {
    let root = scratch.join("corpus");
    std::fs::create_dir(&root)?;
    let (name, questions) = unpack(plan, &root)?;
    let count = machine::run(Command::new("find").arg(&root).args(["-name", "*.md"]))?.lines().count();
    let corpus = format!(
        "{name}, {count} pages, {:.0} MiB on the disk",
        machine::size_on_disk(&root)? as f64 / f64::from(1 << 20)
    );
    let place = Place { program, root: &root, mountpoint: None, log: &scratch.join("corpus.log"), rest: plan.rest };
    let (rare, expected) = (questions[0], grep(&root, questions[0].grep)?);
    machine::flush_disk_of(scratch)?;
    crate::tell(&format!("first start over {corpus}"));
    let (server, first) = start(place, rare, &expected)?;
    server.stop()?;
    machine::flush_disk_of(scratch)?;
    crate::tell("start again, nothing changed");
    let (server, again) = start(place, rare, &expected)?;
    let mut answered = Vec::new();
    for question in questions {
        crate::tell(&format!("searching: {}", question.kind));
        let mut client = Client::connect(server.address())?;
        answered.push(ask(&mut client, &root, question, (plan.searches, plan.greps))?);
    }
    server.stop()?;
    Ok(Reading { corpus, first, again, questions: answered })
}

/// Puts the corpus in place; what it is called, and what is asked of it.
fn unpack(plan: &Plan, root: &Path) -> Result<(&'static str, [Question; 4])> {
    match &plan.corpus {
        Some(archive) => {
            machine::run(Command::new("tar").arg("xJf").arg(archive).arg("-C").arg(root))?;
            Ok(("tldr-pages", OF_TLDR))
        }
        None => {
            Pages { count: plan.pages }.plant(root)?;
            Ok(("the generated tree", OF_GENERATED))
        }
    }
}

fn start(place: Place<'_>, rare: Question, expected: &BTreeSet<PathBuf>) -> Result<(Server, Start)> {
    let server = Server::start(place)?;
    let mut client = Client::connect(server.address())?;
    loop {
        let found: BTreeSet<PathBuf> = client.search(rare.q)?.iter().map(|path| place.root.join(path)).collect();
        if found == *expected {
            break;
        }
        let waited = server.started.elapsed();
        ensure!(waited < INDEXED, "search for `{}` finds {found:?}, grep finds {expected:?}", rare.q);
        // Asking without a pause would slow down the indexer that is waited for.
        std::thread::park_timeout(Duration::from_millis(5));
    }
    let found = server.started.elapsed();
    server.until_quiet()?;
    let memory = machine::memory(server.process())?;
    let ready = server.ready_after;
    Ok((server, Start { ready, found, memory }))
}

fn ask(client: &mut Client, root: &Path, question: Question, (searches, greps): (Bound, Bound)) -> Result<Answered> {
    let pages = grep(root, question.grep)?.len();
    let (mut svcfs, mut grepped) = (Series::default(), Series::default());
    svcfs.add(timed(searches, |_| {
        let found = client.search(question.q)?;
        ensure!(!found.is_empty(), "search for `{}` finds nothing", question.q);
        Ok(())
    })?);
    grepped.add(timed(greps, |_| grep(root, question.grep).map(drop))?);
    Ok(Answered { question, pages, svcfs, grep: grepped })
}

/// The pages in which all of these stand as words, whatever their case, with the files in the system's cache.
fn grep(root: &Path, words: &[&str]) -> Result<BTreeSet<PathBuf>> {
    let (first, others) = words.split_first().context("nothing to look for")?;
    let mut command = Command::new("grep");
    // Bytes as they are: a locale's rules for letters would cost grep time, and the words are ASCII.
    command
        .env("LC_ALL", "C")
        .args(["-rliwF", "--null", "--include=*.md", "--exclude-dir=.git", "--exclude-dir=.svc", "-e", first])
        .arg(root);
    let mut found = files(command)?;
    for word in others {
        let mut command = Command::new("grep");
        command.env("LC_ALL", "C").args(["-liwF", "--null", "-e", word, "--"]).args(&found);
        found = files(command)?;
    }
    Ok(found)
}

fn files(mut command: Command) -> Result<BTreeSet<PathBuf>> {
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).output().context("cannot run grep")?;
    // 1: nothing found.
    ensure!(output.status.code().is_some_and(|code| code < 2), "grep fails after {:?}", begun.elapsed());
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned())).collect())
}
