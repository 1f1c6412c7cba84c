//! Writing: svcfs over HTTP and over its mount, beside git and beside the bare filesystem.
//!
//! One rule: what is compared is measured in the same round, one after the other, with the disk flushed and the server at rest
//! in between. A machine that is busy with something else then slows all of them alike.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::disk::{self, Close};
use crate::git::{self, Flush};
use crate::http::{self, Client, Crowd};
use crate::machine;
use crate::measure::{Round, Series};
use crate::pages::Pages;
use crate::plan::Plan;
use crate::server::{Place, Server};

/// Clients of the crowded row.
pub const MANY: usize = 64;
/// Pages of `cp -r`.
pub const COPIED: usize = 1000;

/// All that is measured of writing.
#[derive(Default)]
pub struct Writing {
    /// Over HTTP, by one client.
    pub http_one: Series,
    /// Over HTTP, by [`MANY`].
    pub http_many: Series,
    /// Creating pages on the mount.
    pub mount_close: Series,
    /// The same with `fsync`.
    pub mount_fsync: Series,
    /// `cp -r` into the mount.
    pub mount_copy: Series,
    /// Why there are no figures of the mount.
    pub no_mount: Option<String>,
    /// `git add` and `git commit`.
    pub git: Series,
    /// The same with everything flushed.
    pub git_flushed: Series,
    /// Write and rename on the bare filesystem.
    pub bare_replace: Series,
    /// Creating pages there.
    pub bare_close: Series,
    /// The same with `fsync`.
    pub bare_fsync: Series,
    /// `cp -r` there.
    pub bare_copy: Series,
    /// One append and `fdatasync`.
    pub bare_append: Series,
    /// From the acknowledgement of a write right after the crowd's last until search finds it; the longest.
    pub found_after: Duration,
    /// The server's memory at rest before the first write, in bytes.
    pub memory_before: u64,
    /// The most while [`MANY`] wrote.
    pub memory_writing: u64,
    /// How long the server took to stop.
    pub stop: Duration,
    /// What is left of it all.
    pub size: Option<git::Size>,
}

/// Where everything happens.
struct Field<'a> {
    plan: &'a Plan,
    pages: Pages,
    scratch: &'a Path,
    root: PathBuf,
    mountpoint: PathBuf,
    git: PathBuf,
    bare: PathBuf,
    /// What `cp -r` copies.
    small: PathBuf,
}

/// Measures everything about writing.
///
/// # Errors
/// When anything is refused, or history does not hold exactly one commit for every write.
pub fn measure(program: &Path, plan: &Plan, scratch: &Path) -> Result<Writing> {
    let at = |name: &str| scratch.join(name);
    let pages = Pages { count: plan.pages };
    let field = Field {
        plan,
        pages,
        scratch,
        root: at("root"),
        mountpoint: at("mnt"),
        git: at("git"),
        bare: at("bare"),
        small: at("small"),
    };
    for tree in [&field.root, &field.git, &field.bare] {
        pages.plant(tree)?;
    }
    Pages { count: COPIED }.plant(&field.small)?;
    std::fs::create_dir(&field.mountpoint)?;
    git::begin(&field.git)?;
    let mut writing = Writing { no_mount: no_mount(), ..Writing::default() };
    let mountpoint = writing.no_mount.is_none().then_some(&*field.mountpoint);
    let server =
        Server::start(Place { program, root: &field.root, mountpoint, log: &at("server.log"), rest: plan.rest })?;
    server.until_quiet()?;
    writing.memory_before = machine::memory(server.process())?.resident;
    for round in 0..plan.rounds {
        crate::tell(&format!("writing, round {} of {}", round + 1, plan.rounds));
        field.round(&mut writing, &server, round).with_context(|| format!("in round {}", round + 1))?;
    }
    writing.stop = server.stop()?;
    crate::tell("git gc on a copy of what svcfs left");
    git::check_authors(&field.root)?;
    writing.size = Some(git::size(&field.root, scratch)?);
    Ok(writing)
}

/// Why nothing can be mounted here, if so.
fn no_mount() -> Option<String> {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    device.err().map(|error| format!("/dev/fuse cannot be opened: {error}"))
}

impl Field<'_> {
    fn round(&self, writing: &mut Writing, server: &Server, round: usize) -> Result<()> {
        let Self { plan, pages, .. } = *self;
        let (short, long) = (plan.short, plan.long);
        let mut next = Numbers::of(round);
        let rest = || machine::flush_disk_of(self.scratch);

        rest()?;
        writing.bare_append.add(disk::append(self.scratch, pages, short)?);
        writing.http_one.add(self.http(server, Crowd { clients: 1, bound: short, first: next.take() })?.0);
        rest()?;
        writing.bare_replace.add(disk::replace(&self.bare, pages, short, next.take())?);
        rest()?;
        writing.git.add(git::commit_each(&self.git, pages, (Flush::AsGitComes, short), next.take())?);
        rest()?;
        let (many, memory) = self.http(server, Crowd { clients: MANY, bound: long, first: next.take() })?;
        writing.http_many.add(many);
        writing.memory_writing = writing.memory_writing.max(memory);
        writing.found_after = writing.found_after.max(found_after(server, round)?);
        server.until_quiet()?;
        rest()?;
        writing.git_flushed.add(git::commit_each(&self.git, pages, (Flush::Everything, short), next.take())?);
        rest()?;
        writing.bare_close.add(disk::create(&self.bare, pages, (Close::Plain, plan.creating), next.take())?);
        rest()?;
        writing.bare_fsync.add(disk::create(&self.bare, pages, (Close::Flushed, plan.creating), next.take())?);
        rest()?;
        let name = format!("copied-{round}");
        writing.bare_copy.add_counted(COPIED, disk::copy(&self.small, &self.bare.join(&name))?);
        if writing.no_mount.is_some() {
            return Ok(());
        }
        rest()?;
        writing.mount_close.add(self.mount(server, Close::Plain, next.take())?);
        rest()?;
        writing.mount_fsync.add(self.mount(server, Close::Flushed, next.take())?);
        rest()?;
        let before = git::commits(&self.root)?;
        let copied = disk::copy(&self.small, &self.mountpoint.join(&name))?;
        writing.mount_copy.add_counted(COPIED, copied + self.settle(server)?);
        self.check_commits(server, before + COPIED + 1)
    }

    /// Durable writes, each its own request and commit.
    fn http(&self, server: &Server, crowd: Crowd) -> Result<(Round, u64)> {
        let before = git::commits(&self.root)?;
        let (round, memory) = http::write_all(server.address(), self.pages, crowd, server.process())?;
        let expected = before + round.latencies.len();
        let counted = git::commits(&self.root)?;
        ensure!(counted == expected, "{counted} commits instead of {expected} right after the last acknowledgement");
        if crowd.clients == 1 {
            server.until_quiet()?;
        }
        Ok((round, memory))
    }

    /// New pages on the mount. What was only closed is not measured before it is committed, too.
    fn mount(&self, server: &Server, close: Close, first: usize) -> Result<Round> {
        let before = git::commits(&self.root)?;
        let Round { latencies, elapsed } =
            disk::create(&self.mountpoint, self.pages, (close, self.plan.creating), first)?;
        let elapsed = elapsed + self.settle(server)?;
        self.check_commits(server, before + latencies.len() + 1)?;
        Ok(Round { latencies, elapsed })
    }

    /// How long until everything accepted is flushed and committed: a durable write stands behind all others in the queue.
    fn settle(&self, server: &Server) -> Result<Duration> {
        let mut client = Client::connect(server.address())?;
        let begun = Instant::now();
        client.write("settled.md", format!("# Settled\n\n{:?}\n", begun))?;
        Ok(begun.elapsed())
    }

    fn check_commits(&self, server: &Server, expected: usize) -> Result<()> {
        let counted = git::commits(&self.root)?;
        ensure!(counted == expected, "{counted} commits in history instead of {expected}: not one for every write");
        server.until_quiet()
    }
}

/// How long after its acknowledgement search finds a write, with the indexer still busy with those before it.
fn found_after(server: &Server, round: usize) -> Result<Duration> {
    let mut client = Client::connect(server.address())?;
    let word = format!("needle{round}stack");
    client.write("needle.md", format!("# Needle\n\nThe word is {word}.\n"))?;
    let acknowledged = Instant::now();
    while client.search(&word)?.is_empty() {
        ensure!(acknowledged.elapsed() < Duration::from_secs(60), "search does not find `{word}`");
    }
    Ok(acknowledged.elapsed())
}

/// Numbers of writes: no two rows share one, so that no content is written twice.
struct Numbers(usize);

impl Numbers {
    const fn of(round: usize) -> Self {
        Self(round * 20_000_000)
    }

    const fn take(&mut self) -> usize {
        let number = self.0;
        self.0 += 1_000_000;
        number
    }
}
