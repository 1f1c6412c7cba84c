//! What must be true after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;

use svcfs_base::ETag;

use super::ledger::{Deed, Ledger, Pages};
use crate::space::client::{Client, endpoint};
use crate::space::git::git;

/// A driver's pages are exactly those it was told are safe, perhaps with some of what it did after
/// that, in order and each deed whole. Search agrees.
pub fn pages(what: &str, address: SocketAddr, ledger: &mut Ledger) {
    let client = Client::new(address);
    let states = ledger.possible();
    let paths: BTreeSet<&String> = states.iter().flat_map(BTreeMap::keys).collect();
    let mut found = Pages::new();
    for path in paths {
        let reply = client.get(&endpoint("/file", &[("path", path)]));
        match reply.status {
            200 => drop(found.insert(path.clone(), reply.text())),
            404 => {}
            status => panic!("{what}: reading {path}: {status} {}", reply.text()),
        }
    }
    let state = states.iter().rposition(|state| *state == found);
    let Some(state) = state else {
        panic!("{what}: {}", difference(&found, &states[0], ledger.in_flight.as_ref()));
    };
    // Large texts are alike, whatever their names became.
    let pages = found.iter().filter(|(path, content)| path.ends_with(".md") && content.starts_with("# Serial"));
    for (path, content) in pages.take(10) {
        let phrase = content.lines().nth(2).unwrap();
        assert_eq!(client.found(&format!("\"{phrase}\"")), [path.as_str()], "{what}: `{phrase}`");
    }
    ledger.resolve(state);
}

fn difference(found: &Pages, expected: &Pages, in_flight: Option<&Deed>) -> String {
    let short = |text: Option<&String>| text.map(|text| text.lines().take(3).collect::<Vec<_>>().join(" / "));
    let paths = found.keys().chain(expected.keys()).collect::<BTreeSet<_>>();
    let differing = paths.into_iter().filter(|path| found.get(*path) != expected.get(*path));
    let lines: Vec<String> = differing
        .map(|path| format!("{path}: found {:?}, acknowledged {:?}", short(found.get(path)), short(expected.get(path))))
        .collect();
    format!("{}\nnot answered: {:?}", lines.join("\n"), in_flight.map(|deed| &deed.subject))
}

/// One commit as a deed: what git says was done, with hashes in place of contents.
pub type Done = (String, String, BTreeMap<String, Option<String>>);

/// History has every acknowledged deed once, under its author and message, and nothing else.
pub fn history(what: &str, root: &Path, ledgers: &[&Ledger]) {
    let mut expected: BTreeMap<Done, usize> = BTreeMap::new();
    for Deed { author, subject, effects } in ledgers.iter().flat_map(|ledger| &ledger.deeds) {
        let hash = |content: &String| ETag::from_content(content.as_bytes()).to_string();
        let effects = effects.iter().map(|(path, content)| (path.clone(), content.as_ref().map(hash))).collect();
        *expected.entry((author.clone(), subject.clone(), effects)).or_default() += 1;
    }
    let mut found: BTreeMap<Done, usize> = BTreeMap::new();
    for done in commits(root, "%s") {
        *found.entry(done).or_default() += 1;
    }
    let lost: Vec<_> = expected.iter().filter(|(done, count)| found.get(*done) != Some(count)).collect();
    let unasked: Vec<_> = found.iter().filter(|(done, count)| expected.get(*done) != Some(count)).collect();
    assert!(
        lost.is_empty() && unasked.is_empty(),
        "{what}: not in history as acknowledged: {lost:#?}\nin history: {unasked:#?}"
    );
}

/// History has every acknowledged deed that left something, once, under its author and message,
/// whatever others committed between them.
pub fn own_history(what: &str, root: &Path, ledgers: &[&Ledger]) {
    let mut commits = commits(root, "%s");
    for Deed { author, subject, effects } in ledgers.iter().flat_map(|ledger| &ledger.deeds) {
        let left = effects.iter().filter_map(|(path, content)| Some((path, content.as_ref()?)));
        let left: Vec<_> =
            left.map(|(path, content)| (path, Some(ETag::from_content(content.as_bytes()).to_string()))).collect();
        let is_it = |(by, says, done): &Done| {
            by == author && says == subject && left.iter().all(|(path, content)| done.get(*path) == Some(content))
        };
        let found = commits.iter().position(is_it).map(|at| commits.remove(at));
        assert!(found.is_some() || left.is_empty(), "{what}: not in history as acknowledged: {subject}");
        let again = commits.iter().any(|done| is_it(done) && !left.is_empty());
        assert!(!again, "{what}: twice in history: {subject}");
    }
}

/// History has every acknowledged deed under its author, in a commit that says so: its content, or
/// that of a later deed of the same commit. Nothing else is there, and each path has what became of
/// it in the order in which it was done.
pub fn gathered_history(what: &str, root: &Path, ledgers: &[&Ledger]) {
    let commits = commits(root, "%B");
    for ledger in ledgers {
        // Where the commits of each path were left by the deed before.
        let mut reached: BTreeMap<&String, usize> = BTreeMap::new();
        for (number, deed) in ledger.deeds.iter().enumerate() {
            for (path, content) in &deed.effects {
                let hash = content.as_ref().map(|content| ETag::from_content(content.as_bytes()).to_string());
                let from = reached.get(path).copied().unwrap_or(0);
                let later = || ledger.deeds[number + 1..].iter().filter_map(|later| later.effects.get(path));
                let is_it = |(author, message, effects): &Done| {
                    let is_covered = || {
                        let kept = effects.get(path)?;
                        let mut later = later().map(|content| {
                            content.as_ref().map(|content| ETag::from_content(content.as_bytes()).to_string())
                        });
                        later.find(|content| content == kept)
                    };
                    let is_said = *author == deed.author && message.lines().any(|line| line == deed.subject);
                    is_said && (effects.get(path) == Some(&hash) || is_covered().is_some())
                };
                // Made and removed again in one commit: nothing is left to tell of it.
                let is_nothing = || content.is_none() || later().any(Option::is_none);
                match commits[from..].iter().position(is_it) {
                    Some(at) => drop(reached.insert(path, from + at)),
                    None => assert!(is_nothing(), "{what}: not in history as acknowledged: {} at {path}", deed.subject),
                }
            }
        }
    }
    let mut known: BTreeMap<&String, Vec<Option<String>>> = BTreeMap::new();
    for (path, content) in ledgers.iter().flat_map(|ledger| &ledger.deeds).flat_map(|deed| &deed.effects) {
        known
            .entry(path)
            .or_default()
            .push(content.as_ref().map(|content| ETag::from_content(content.as_bytes()).to_string()));
    }
    for (author, message, effects) in &commits {
        let is_known =
            |(path, content): (&String, &Option<String>)| known.get(path).is_some_and(|known| known.contains(content));
        assert!(effects.iter().all(is_known), "{what}: nobody did this: {author}: {message}: {effects:?}");
    }
}

/// Where a person works whom nobody promised anything.
pub const BY_HAND: &str = "by-hand";

/// Every commit but that of the seed, which was there before the first server, and what a person
/// did by hand; oldest first.
pub fn commits(root: &Path, message: &str) -> Vec<Done> {
    let format = format!("--format=%x01%an%x02{message}%x02");
    let log = git(root, &["log", "--reverse", "--topo-order", "--raw", "--no-abbrev", "--no-renames", "-z", &format]);
    let all = log.split('\u{1}').skip(1).map(done);
    let is_other = |path: &String| path == "seed.md" || path.starts_with(".svc/") || path.starts_with(BY_HAND);
    all.filter(|done| !["fswatch", "Ann"].contains(&done.0.as_str()) || !done.2.keys().all(is_other)).collect()
}

fn done(commit: &str) -> Done {
    let mut parts = commit.split('\u{2}');
    let mut next = || parts.next().unwrap().to_owned();
    let (author, subject, changes) = (next(), next(), next());
    let words: Vec<&str> = changes.split('\0').map(str::trim_start).filter(|word| !word.is_empty()).collect();
    // Each is `:<old mode> <new mode> <old hash> <new hash> <what>`, then the path.
    let effects = words.chunks(2).map(|pair| {
        let about: Vec<&str> = pair[0].split(' ').collect();
        (pair[1].to_owned(), (about[4] != "D").then(|| about[3].to_owned()))
    });
    (author, subject, effects.collect())
}
