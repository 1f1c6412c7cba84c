//! Who loads the server until it is killed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use super::ledger::{Deed, Ledger};
use super::random::Random;
use crate::protocols::kernel::save;
use crate::space::client::{Client, Failure, endpoint};
use crate::space::{me, wait};

/// Pages a driver has at most at a time: few, so that they are overwritten, renamed and removed
/// often.
const PAGES: usize = 12;
const BULK_FILES: usize = 5;
/// Now and then a file is too large for the log's own database: more than a megabyte.
const LARGE_EVERY: usize = 25;
const LARGE_LINES: usize = 11_000;
/// How many saves may be on their way to the disk at a time.
const SAVES_UNTIL_FSYNC: usize = 10;

/// A step of a driver's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is about to ask for a deed.
    Asks,
    /// The deed was taken, and will be safe a moment later.
    IsAnswered,
    /// The deed was acknowledged as safe, and so is everything the driver did before.
    IsSafe,
}

/// Where drivers work, and what they share.
pub struct Scene<'a> {
    pub address: SocketAddr,
    pub mountpoint: Option<PathBuf>,
    /// Deeds acknowledged as safe, of all drivers.
    pub done: AtomicUsize,
    /// Set when the server may be gone.
    pub is_killed: AtomicBool,
    /// Set when no driver shall begin another deed.
    pub is_over: AtomicBool,
    /// Hears of every step at once; how far the disk was then.
    pub moment: &'a (dyn Fn(Driver, Step) -> usize + Sync),
}

impl<'a> Scene<'a> {
    /// A server at work.
    pub fn new(
        address: SocketAddr,
        mountpoint: Option<&Path>,
        moment: &'a (dyn Fn(Driver, Step) -> usize + Sync),
    ) -> Self {
        let mountpoint = mountpoint.map(Path::to_owned);
        let (done, is_killed, is_over) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
        Self { address, mountpoint, done, is_killed, is_over, moment }
    }

    /// Waits until so many deeds were acknowledged.
    pub fn wait_until_done(&self, target: usize) {
        wait::until("the load gets going", || self.done.load(Ordering::Relaxed) >= target);
    }
}

/// One client of the server, at work in a part of the tree of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// Writes, renames and removes over HTTP.
    Http(usize),
    /// Writes several files at once over HTTP.
    Bulk,
    /// Writes, renames and removes through the mount. As on any disk, a change is safe when `fsync`
    /// of the file, or of the directory, has returned.
    Mount,
    /// Writes through the mount and closes, as most programs do: safe a moment later, in order. Now
    /// and then it asks for `fsync`.
    Close,
}

impl Driver {
    /// Everybody who works on one server.
    pub fn all(with_mount: bool) -> Vec<Self> {
        let mut all = vec![Self::Http(0), Self::Http(1), Self::Http(2), Self::Bulk];
        if with_mount {
            all.extend([Self::Mount, Self::Close]);
        }
        all
    }

    fn folder(self) -> String {
        match self {
            Self::Http(number) => format!("http{number}"),
            Self::Bulk => "bulk".to_owned(),
            Self::Mount => "mount".to_owned(),
            Self::Close => "close".to_owned(),
        }
    }

    fn author(self) -> String {
        match self {
            Self::Http(_) | Self::Bulk => format!("agent:{}", self.folder()),
            Self::Mount | Self::Close => me(),
        }
    }

    /// Works until the server is gone, or the work is over. Before the server is killed nothing may
    /// fail.
    pub fn work(self, scene: &Scene, ledger: &mut Ledger, mut random: Random) {
        let client = Client::new(scene.address);
        let mountpoint = || scene.mountpoint.as_deref().unwrap();
        while !scene.is_over.load(Ordering::SeqCst) {
            let deed = self.begin(ledger, &mut random);
            ledger.asked.push((scene.moment)(self, Step::Asks));
            let is_safe = self.is_safe(ledger.serial);
            let outcome = match self {
                Self::Http(_) | Self::Bulk => over_http(&client, &deed),
                Self::Close if !is_safe => closed(mountpoint(), &deed).map_err(Failure::from),
                Self::Mount | Self::Close => through_mount(mountpoint(), &deed).map_err(Failure::from),
            };
            if let Err(failure) = outcome {
                let is_killed = scene.is_killed.load(Ordering::SeqCst);
                assert!(is_killed, "{self:?}: `{}` failed: {failure}", deed.subject);
                return;
            }
            let moment = (scene.moment)(self, if is_safe { Step::IsSafe } else { Step::IsAnswered });
            ledger.answered(is_safe.then_some(moment));
            scene.done.fetch_add(usize::from(is_safe), Ordering::Relaxed);
        }
    }

    /// Chooses the next deed and notes that it is asked for.
    pub fn begin(self, ledger: &mut Ledger, random: &mut Random) -> Deed {
        ledger.serial += 1;
        let deed = self.choose(ledger, random);
        ledger.in_flight = Some(deed.clone());
        deed
    }

    /// Whether the answer to its deed of this number promises that it is on the disk, and
    /// everything before it.
    pub fn is_safe(self, serial: usize) -> bool {
        self != Self::Close || serial.is_multiple_of(SAVES_UNTIL_FSYNC)
    }

    /// The next deed: by chance, and possible in the present state of the driver's pages.
    fn choose(self, ledger: &Ledger, random: &mut Random) -> Deed {
        let (pages, serial, author) = (ledger.pages(), ledger.serial, self.author());
        let content =
            |path: &str| Some(format!("# Serial {serial}\n\nword{serial} of {path}\n{}", "x\n".repeat(serial % 700)));
        let page = |number: usize| format!("{}/page {number}.md", self.folder());
        if self == Self::Http(0) && serial % LARGE_EVERY == LARGE_EVERY / 2 {
            let path = format!("{}/large {}.txt", self.folder(), serial % 2);
            let text = format!("serial {serial}\n{}", format!("{}\n", "x".repeat(99)).repeat(LARGE_LINES));
            return Deed { subject: format!("{author}: {path}"), author, effects: [(path, Some(text))].into() };
        }
        if self == Self::Bulk {
            let paths = (0..BULK_FILES).map(|file| page((serial + file * 3) % (PAGES * 2)));
            let effects: BTreeMap<_, _> = paths.map(|path| (path.clone(), content(&path))).collect();
            return Deed { subject: format!("{author}: bulk {serial}"), author, effects };
        }
        let standing: Vec<&String> = pages.keys().collect();
        let chosen = random.below(standing.len().max(1));
        // Who is not told what is safe only writes: no two states of such pages are then alike.
        let kind = if self == Self::Close { 9 } else { random.below(10) };
        match kind {
            0 if !standing.is_empty() => {
                let path = standing[chosen].clone();
                Deed { subject: format!("delete: {path}"), author, effects: [(path, None)].into() }
            }
            1 | 2 if !standing.is_empty() => {
                let (from, to) = (standing[chosen].clone(), format!("{}/renamed {serial}.md", self.folder()));
                let effects = [(to.clone(), pages.get(&from).cloned()), (from.clone(), None)].into();
                Deed { subject: format!("{author}: rename {from} → {to}"), author, effects }
            }
            _ => {
                let path = page(random.below(PAGES));
                Deed { subject: format!("{author}: {path}"), author, effects: [(path.clone(), content(&path))].into() }
            }
        }
    }
}

/// Which verb a deed is.
enum Verb<'a> {
    Write(&'a str, &'a str),
    Remove(&'a str),
    Rename(&'a str, &'a str),
    Bulk,
}

impl Deed {
    fn verb(&self) -> Verb<'_> {
        let effects: Vec<(&str, Option<&str>)> =
            self.effects.iter().map(|(path, content)| (path.as_str(), content.as_deref())).collect();
        match effects[..] {
            [(path, Some(content))] => Verb::Write(path, content),
            [(path, None)] => Verb::Remove(path),
            [(to, Some(_)), (from, None)] | [(from, None), (to, Some(_))] => Verb::Rename(from, to),
            _ => Verb::Bulk,
        }
    }
}

fn over_http(client: &Client, deed: &Deed) -> Result<(), Failure> {
    let (method, target, body) = match deed.verb() {
        Verb::Write(path, content) => ("PUT", endpoint("/file", &[("path", path)]), content.to_owned()),
        Verb::Remove(path) => ("DELETE", endpoint("/file", &[("path", path)]), String::new()),
        Verb::Rename(from, to) => ("POST", endpoint("/rename", &[]), json!({ "from": from, "to": to }).to_string()),
        Verb::Bulk => {
            let files: Vec<_> =
                deed.effects.iter().map(|(path, content)| json!({ "path": path, "content": content })).collect();
            ("POST", endpoint("/bulk", &[]), json!({ "files": files, "message": deed.subject }).to_string())
        }
    };
    let reply = client.try_send(method, &target, &[("X-Actor", &deed.author)], body)?;
    assert!((200..300).contains(&reply.status), "`{}`: {} {}", deed.subject, reply.status, reply.text());
    Ok(())
}

/// Saves as a program does that never heard of `fsync`.
fn closed(mountpoint: &Path, deed: &Deed) -> io::Result<()> {
    let Verb::Write(path, content) = deed.verb() else { return Err(io::Error::other("only writes are closed")) };
    let at = mountpoint.join(path);
    at.parent().map_or(Ok(()), fs::create_dir_all)?;
    save(File::create(at)?, content.as_bytes()).map_err(io::Error::other)
}

fn through_mount(mountpoint: &Path, deed: &Deed) -> io::Result<()> {
    let at = |path: &str| mountpoint.join(path);
    match deed.verb() {
        Verb::Write(path, content) => {
            if let Some(parent) = at(path).parent() {
                fs::create_dir_all(parent)?;
            }
            let mut file = File::create(at(path))?;
            file.write_all(content.as_bytes())?;
            file.sync_all()
        }
        Verb::Remove(path) => fs::remove_file(at(path)).and_then(|()| synced(&at(path))),
        Verb::Rename(from, to) => fs::rename(at(from), at(to)).and_then(|()| synced(&at(to))),
        Verb::Bulk => Err(io::Error::other("a mount has no bulk writes")),
    }
}

/// Returns when what happened to a name is safe.
fn synced(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}
