//! Clients that write on, whatever the disk says, and remember what they asked for and what they
//! were told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{io, thread};

use svcfs_base::ETag;

use super::put;
use crate::crash::audit::commits;
use crate::space::client::Client;

/// How many write over HTTP.
pub const WRITERS: usize = 4;

/// A page that somebody asked for.
struct Asked {
    path: String,
    hash: String,
    /// How far the disk was when it was asked for, and when it was acknowledged.
    since: usize,
    acknowledged: Option<usize>,
}

/// Everything that one client asked for, in order. It writes alone in pages of its own.
#[derive(Default)]
pub struct Ledger(Vec<Asked>);

impl Ledger {
    /// Notes a write, how far the disk was when it was asked for and, unless it was refused, when
    /// it was acknowledged.
    pub fn note(&mut self, path: &str, text: &str, since: usize, acknowledged: Option<usize>) {
        self.0.push(Asked {
            path: path.to_owned(),
            hash: ETag::from_content(text.as_bytes()).to_string(),
            since,
            acknowledged,
        });
    }

    /// What was asked for of each path until the disk was so far, and whether it had been
    /// acknowledged by then.
    fn until(&self, moment: usize) -> BTreeMap<&str, Vec<(&str, bool)>> {
        let mut paths: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for Asked { path, hash, acknowledged, .. } in self.0.iter().filter(|asked| asked.since <= moment) {
            let is_acknowledged = acknowledged.is_some_and(|at| at <= moment);
            paths.entry(path).or_default().push((hash.as_str(), is_acknowledged));
        }
        paths
    }

    /// Each page that is there is one that was asked for, whole, and none older than what was
    /// acknowledged of it.
    pub fn check(&self, what: &str, moment: usize, found: &BTreeMap<String, String>) {
        for (path, asked) in self.until(moment) {
            let newest = asked.iter().rposition(|(_, is_acknowledged)| *is_acknowledged);
            let standing = found.get(path).map(|found| asked.iter().position(|(hash, _)| hash == found));
            assert_ne!(standing, Some(None), "{what}: {path} is there and is nothing that was asked for");
            assert!(standing.flatten() >= newest, "{what}: {path}: acknowledged {newest:?}, found {standing:?}");
        }
    }

    /// Everything acknowledged is in history once, and nothing is that was not asked for; in the
    /// order in which it was.
    fn check_history(&self, what: &str, moment: usize, versions: &BTreeMap<String, Vec<String>>) {
        for (path, asked) in self.until(moment) {
            let mut recorded = versions.get(path).into_iter().flatten().peekable();
            for (number, (hash, is_acknowledged)) in asked.into_iter().enumerate() {
                let is_recorded = recorded.next_if(|found| *found == hash).is_some();
                assert!(is_recorded || !is_acknowledged, "{what}: write {number} of {path} is not in history");
            }
            assert_eq!(recorded.next(), None, "{what}: nobody asked for this, now, of {path}");
        }
    }
}

/// The same for the history of a root that lies still.
pub fn check_history<'a>(what: &str, root: &Path, moment: usize, ledgers: impl IntoIterator<Item = &'a Ledger>) {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, hash) in commits(root, "%s").into_iter().flat_map(|(_, _, effects)| effects) {
        versions.entry(path).or_default().extend(hash);
    }
    for ledger in ledgers {
        ledger.check_history(what, moment, &versions);
    }
}

/// What a disk may refuse with, as callers of HTTP read it and as programs hear it.
#[derive(Clone, Copy)]
pub struct Refusals {
    pub words: &'static [&'static str],
    pub errnos: &'static [i32],
}

/// How somebody saves a text at a path of the mount.
type Save<'a> = &'a (dyn Fn(&str, &str) -> io::Result<()> + Sync);

/// Shared by everybody at work.
pub struct Work<'a> {
    is_over: AtomicBool,
    /// Acknowledged in all, and refused.
    taken: AtomicUsize,
    refused: AtomicUsize,
    /// How many pages each has: it writes them in turn.
    pages: usize,
    refusals: Refusals,
    /// How far the disk is.
    moment: &'a (dyn Fn() -> usize + Sync),
}

impl<'a> Work<'a> {
    /// Work that has not begun.
    pub fn new(pages: usize, refusals: Refusals, moment: &'a (dyn Fn() -> usize + Sync)) -> Self {
        let (is_over, taken, refused) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
        Self { is_over, taken, refused, pages, refusals, moment }
    }

    /// How many writes were acknowledged, and how many refused.
    pub fn so_far(&self) -> (usize, usize) {
        (self.taken.load(Ordering::SeqCst), self.refused.load(Ordering::SeqCst))
    }

    /// Works while something else goes on; who wrote over HTTP, and through the mount by `save`
    /// when it is given.
    pub fn during(&self, address: SocketAddr, save: Option<Save<'_>>, scene: impl FnOnce()) -> Vec<Ledger> {
        thread::scope(|scope| {
            let over = Over(self);
            let mut writers: Vec<_> = (0..WRITERS)
                .map(|number| scope.spawn(move || self.over_http(&Client::new(address), &format!("http{number}"))))
                .collect();
            writers.extend(save.map(|save| scope.spawn(move || self.through_the_mount(save))));
            scene();
            drop(over);
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        })
    }

    /// Writes one page after the other until the work is over.
    fn go_on(&self, folder: &str, mut write: impl FnMut(&str, &str) -> bool) -> Ledger {
        let mut ledger = Ledger::default();
        for number in 0.. {
            if self.is_over.load(Ordering::SeqCst) {
                break;
            }
            let path = format!("{folder} {}.md", number % self.pages);
            let text = text(&path, number);
            let since = (self.moment)();
            let is_taken = write(&path, &text);
            (if is_taken { &self.taken } else { &self.refused }).fetch_add(1, Ordering::SeqCst);
            ledger.note(&path, &text, since, is_taken.then(self.moment));
        }
        ledger
    }

    fn over_http(&self, client: &Client, folder: &str) -> Ledger {
        self.go_on(folder, |path, text| {
            let reply = put(client, path, text);
            let told = reply.text();
            let is_clear = self.refusals.words.iter().any(|words| told.contains(words));
            assert!(reply.status == 200 || is_clear, "{path}: {} {told}", reply.status);
            reply.status == 200
        })
    }

    fn through_the_mount(&self, save: &dyn Fn(&str, &str) -> io::Result<()>) -> Ledger {
        self.go_on("mount", |path, text| {
            let refused = save(path, text).err();
            let is_clear =
                |error: &io::Error| error.raw_os_error().is_some_and(|errno| self.refusals.errnos.contains(&errno));
            assert!(refused.as_ref().is_none_or(is_clear), "{path}: {refused:?}");
            refused.is_none()
        })
    }
}

/// Ends the work, however it ends: its threads wait for it.
struct Over<'a>(&'a Work<'a>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

/// A page of some ten kilobytes that no compression makes small.
fn text(path: &str, number: usize) -> String {
    let lines = (0..250).map(|line| ETag::from_content(format!("{path} {number} {line}").as_bytes()).to_string());
    format!("# {path}\n\n{}\n", lines.collect::<Vec<_>>().join("\n"))
}
