//! Files over WebDAV, S3 and NFS, beside the servers that a user would run instead.
//!
//! One rule: the same requests of the same clients, one server after the other in each round. Of a
//! rival that is not installed only that is told.

mod nfs;
mod rivals;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use svcfs_measure::http::BenchClient;
use svcfs_measure::machine;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{RoundBound, RoundSeries};
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell, column, factor, quotient, text};

use self::nfs::{Nfs, Share};
use self::rivals::{Rival, free_port};
use crate::plan::Extent;

const MIB: usize = 1 << 20;
/// Clients at once, for small files.
const CLIENTS: usize = 8;
/// Bytes of a small file.
const SMALL: usize = 1 << 10;
/// Times a large file is read in a round.
const READS: usize = 3;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    ReadSmall,
    ReadLarge,
    WriteSmall,
    WriteLarge,
}

impl Deed {
    /// In this order: what is read was written before.
    const ALL: [Self; 4] = [Self::WriteSmall, Self::ReadSmall, Self::WriteLarge, Self::ReadLarge];

    const fn name(self) -> &'static str {
        match self {
            Self::ReadSmall => "reading files of 1 KiB, 8 clients: files/s",
            Self::ReadLarge => "reading a large file: MiB/s",
            Self::WriteSmall => "writing new files of 1 KiB, 8 clients: files/s",
            Self::WriteLarge => "writing a large file: MiB/s",
        }
    }
}

/// nginx that serves files; it ends with this.
pub struct FileServer(Rival);

impl FileServer {
    /// Where it answers.
    pub const fn address(&self) -> std::net::SocketAddr {
        self.0.address
    }
}

/// nginx with these files; `None` if it is not installed.
///
/// # Errors
/// When it does not answer in time, or when the run is to end.
pub fn nginx_alone(run: &BenchRun, files: &[(&str, &[u8])]) -> Result<Option<FileServer>> {
    Ok(Rival::nginx_with(run, files)?.map(FileServer))
}

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub struct Amount {
    /// Small files.
    pub files: usize,
    /// How long they are read in a round.
    pub reading: RoundBound,
    /// MiB of the large file: more than a version can have, so that it goes the way of such files.
    pub large: usize,
}

/// All that is measured of it.
pub struct Doors {
    contestants: Vec<Contestant>,
    /// Writing and flushing the large file on the disk itself.
    bare: RoundSeries,
    /// Which rivals were not there.
    missing: Vec<String>,
}

/// A server, and how it did.
struct Contestant {
    name: &'static str,
    key: &'static str,
    is_ours: bool,
    is_nfs: bool,
    /// In the order of [`Deed::ALL`].
    done: [RoundSeries; 4],
}

/// Where a server answers, what its paths begin with, and the folder they are in.
struct At<'a> {
    address: std::net::SocketAddr,
    prefix: &'a str,
    folder: &'a Path,
    can_write: bool,
    only_writes: bool,
    /// Where it is mounted from, if it speaks NFS.
    share: Option<Share>,
}

/// Measures everything, in turn.
///
/// # Errors
/// When something is refused, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Doors> {
    let amount = extent.protocols;
    let (root, log, large) = (run.path("root"), run.path("doors.log"), run.path("large.bin"));
    fs::create_dir(&root)?;
    fs::write(&large, noise(amount.large * MIB))?;
    let ports = [free_port()?, free_port()?, free_port()?].map(|port| port.to_string());
    let protocols = [
        ["--webdav", "--webdav-port", &ports[0]],
        ["--s3", "--s3-port", &ports[1]],
        ["--nfs", "--nfs-port", &ports[2]],
    ];
    let place = ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time };
    let server = ServerProcess::start_with_args(run, place, &protocols.concat())?;
    let (rivals, missing) = Rival::start_all(run)?;
    let ours = |port: &str, prefix: &'static str| -> Result<At<'_>> {
        let address = format!("127.0.0.1:{port}").parse()?;
        Ok(At { address, prefix, folder: &root, can_write: true, only_writes: false, share: None })
    };
    let mut over_nfs = ours(&ports[2], "/")?;
    over_nfs.share = Some(Share { nfs: over_nfs.address, mount: over_nfs.address, path: "/default".to_owned() });
    let contestant = |name, key, (is_ours, is_nfs)| Contestant { name, key, is_ours, is_nfs, done: Default::default() };
    let mut contestants = vec![
        (contestant("svcfs, WebDAV", "svcfs_webdav", (true, false)), ours(&ports[0], "/")?),
        (contestant("svcfs, S3", "svcfs_s3", (true, false)), ours(&ports[1], "/default/")?),
        (contestant("svcfs, NFS", "svcfs_nfs", (true, true)), over_nfs),
    ];
    contestants.extend(rivals.iter().map(|rival| {
        let Rival { name, key, address, prefix, folder, can_write, only_writes, share, .. } = rival;
        let (address, can_write, only_writes) = (*address, *can_write, *only_writes);
        let at = At { address, prefix, folder, can_write, only_writes, share: share.clone() };
        (contestant(name, key, (false, share.is_some())), at)
    }));
    // Made on the disk, because each protocol has another way to make a folder, and before the
    // first question: rclone remembers for minutes what is in a folder.
    for (contestant, place) in &contestants {
        for round in 0..extent.plan.rounds {
            fs::create_dir(place.folder.join(format!("{}-{round}", contestant.key)))?;
        }
    }
    let mut bare = RoundSeries::default();
    for round in 0..extent.plan.rounds {
        for (at, deed) in Deed::ALL.into_iter().enumerate() {
            if deed == Deed::WriteLarge {
                bare.add_counted(amount.large, write_bare(run, (&large, round))?);
            }
            for (contestant, place) in &mut contestants {
                if place.only_writes && matches!(deed, Deed::ReadSmall | Deed::ReadLarge) {
                    continue;
                }
                run.report(&format!(
                    "{}: {}, round {} of {}",
                    contestant.name,
                    deed.name(),
                    round + 1,
                    extent.plan.rounds
                ));
                run.flush_disk()?;
                server.wait_until_idle(run)?;
                let name = format!("{}-{round}", contestant.key);
                place.go(run, deed, (amount, &large, &name), &mut contestant.done[at])?;
            }
        }
    }
    server.stop()?;
    Ok(Doors { contestants: contestants.into_iter().map(|(contestant, _)| contestant).collect(), bare, missing })
}

impl At<'_> {
    /// The same over NFS.
    fn go_mounted(
        &self,
        share: &Share,
        (run, deed): (&BenchRun, Deed),
        (amount, large, name): (Amount, &Path, &str),
        series: &mut RoundSeries,
    ) -> Result<()> {
        let file = format!("{name}.bin");
        match deed {
            Deed::WriteSmall => {
                let (begun, content) = (Instant::now(), "x".repeat(SMALL));
                crowd(
                    amount.files,
                    || Nfs::mount(share, name),
                    |client, at| client.put(&format!("{at}.md"), content.as_bytes()),
                )?;
                series.add_counted(amount.files, begun.elapsed());
            }
            Deed::ReadSmall => {
                let (begun, done, stop) = (Instant::now(), AtomicUsize::new(0), run.stop_token());
                crowd(
                    amount.reading.count,
                    || Nfs::mount(share, name),
                    |client, at| {
                        if begun.elapsed() > amount.reading.time {
                            return Ok(());
                        }
                        ensure!(!stop.is_requested(), "ended before everything was measured");
                        client.get(&format!("{}.md", at % amount.files), SMALL)?;
                        done.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    },
                )?;
                series.add_counted(done.into_inner(), begun.elapsed());
            }
            Deed::WriteLarge => {
                let content = fs::read(large)?;
                let begun = Instant::now();
                Nfs::mount(share, "")?.put(&file, &content)?;
                series.add_counted(amount.large, begun.elapsed());
            }
            Deed::ReadLarge => {
                let begun = Instant::now();
                let mut client = Nfs::mount(share, "")?;
                (0..READS).try_for_each(|_| client.get(&file, amount.large * MIB))?;
                series.add_counted(READS * amount.large, begun.elapsed());
            }
        }
        Ok(())
    }

    fn go(
        &self,
        run: &BenchRun,
        deed: Deed,
        (amount, large, name): (Amount, &Path, &str),
        series: &mut RoundSeries,
    ) -> Result<()> {
        if let Some(share) = &self.share {
            return self.go_mounted(share, (run, deed), (amount, large, name), series);
        }
        let url = format!("http://{}{}{name}.bin", self.address, self.prefix);
        match deed {
            Deed::WriteSmall => {
                let begun = Instant::now();
                let content = "x".repeat(SMALL);
                if self.can_write {
                    crowd(
                        amount.files,
                        || BenchClient::connect(self.address),
                        |client, at| {
                            client
                                .put(&format!("{}{name}/{at}.md", self.prefix), content.clone().into_bytes())
                                .map(drop)
                        },
                    )?;
                    series.add_counted(amount.files, begun.elapsed());
                } else {
                    (0..amount.files)
                        .try_for_each(|at| fs::write(self.folder.join(format!("{name}/{at}.md")), &content))?;
                }
            }
            Deed::ReadSmall => {
                let begun = Instant::now();
                let (done, stop) = (AtomicUsize::new(0), run.stop_token());
                crowd(
                    amount.reading.count,
                    || BenchClient::connect(self.address),
                    |client, at| {
                        if begun.elapsed() > amount.reading.time {
                            return Ok(());
                        }
                        ensure!(!stop.is_requested(), "ended before everything was measured");
                        let content = client.get(&format!("{}{name}/{}.md", self.prefix, at % amount.files))?;
                        ensure!(content.len() == SMALL, "{} bytes came back", content.len());
                        done.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    },
                )?;
                series.add_counted(done.into_inner(), begun.elapsed());
            }
            Deed::WriteLarge => {
                if !self.can_write {
                    fs::copy(large, self.folder.join(format!("{name}.bin")))?;
                    return Ok(());
                }
                let begun = Instant::now();
                machine::run(Command::new("curl").args(["-sS", "-f", "-o", "/dev/null", "-T"]).arg(large).arg(&url))?;
                series.add_counted(amount.large, begun.elapsed());
            }
            Deed::ReadLarge => {
                let begun = Instant::now();
                for _ in 0..READS {
                    let mut curl = Command::new("curl");
                    let told =
                        machine::run(curl.args(["-sS", "-f", "-o", "/dev/null", "-w", "%{size_download}", &url]))?;
                    ensure!(told.trim() == (amount.large * MIB).to_string(), "{told} bytes came back");
                }
                series.add_counted(READS * amount.large, begun.elapsed());
            }
        }
        Ok(())
    }
}

/// Writes a file to the disk itself, and flushes it; how long that takes.
fn write_bare(run: &BenchRun, (large, round): (&Path, usize)) -> Result<Duration> {
    let content = fs::read(large)?;
    run.flush_disk()?;
    let begun = Instant::now();
    let mut file = File::create(run.path(&format!("bare-{round}.bin")))?;
    content.chunks(MIB).try_for_each(|block| file.write_all(block))?;
    file.sync_all()?;
    Ok(begun.elapsed())
}

/// Many clients do something as often together, each over a connection of its own.
fn crowd<C>(
    count: usize,
    connect: impl Fn() -> Result<C> + Sync,
    work: impl Fn(&mut C, usize) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let one = || -> Result<()> {
        let mut client = connect()?;
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return Ok(());
            }
            work(&mut client, at)?;
        }
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(one)).collect();
        clients.into_iter().try_for_each(|client| client.join().map_err(|_| anyhow!("a client panicked"))?)
    })
}

/// Bytes that nothing makes smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        // Marsaglia's xorshift: good enough for no disk to see through it.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(length).collect()
}

/// How one of our doors does beside one of the others.
pub struct Judged {
    /// What is done, through which door, beside whom.
    pub what: String,
    /// Our rate by theirs.
    pub times: Option<f64>,
}

impl Doors {
    /// The servers that a user would run instead of one of our doors.
    fn rivals(&self, ours: &Contestant) -> impl Iterator<Item = &Contestant> {
        let is_nfs = ours.is_nfs;
        self.contestants.iter().filter(move |contestant| !contestant.is_ours && contestant.is_nfs == is_nfs)
    }

    /// Each of our doors beside each of the others that was measured with the same.
    pub fn judged(&self) -> Vec<Judged> {
        let mut judged = Vec::new();
        for (at, deed) in Deed::ALL.into_iter().enumerate() {
            let rate = |contestant: &Contestant| contestant.done.get(at).and_then(RoundSeries::rate);
            for ours in self.contestants.iter().filter(|contestant| contestant.is_ours) {
                for rival in self.rivals(ours).filter(|rival| rate(rival).is_some()) {
                    let deed = deed.name().split(':').next().unwrap_or_default();
                    let what = format!("{}, {deed} × {}", ours.name, rival.name);
                    judged.push(Judged { what, times: quotient(rate(ours), rate(rival)) });
                }
            }
        }
        judged
    }

    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let mut columns = vec![column("over the network", "deed")];
        columns.extend(self.contestants.iter().map(|contestant| column(contestant.name, contestant.key)));
        columns.push(column("WebDAV, of the fastest that takes writes, too", "webdav_share"));
        columns.push(column("S3, of the same", "s3_share"));
        columns.push(column("NFS, of the other over NFS", "nfs_share"));
        let mut table = MarkdownTable::new("doors", columns);
        for (at, deed) in Deed::ALL.into_iter().enumerate() {
            let rate = |contestant: &Contestant| contestant.done.get(at).and_then(RoundSeries::rate);
            let writes = |contestant: &&Contestant| contestant.done[0].rate().is_some();
            let rates = self.contestants.iter().map(|contestant| TableCell::Rate(rate(contestant)));
            let shares = self.contestants.iter().filter(|contestant| contestant.is_ours).map(|ours| {
                let fastest = self.rivals(ours).filter(writes).filter_map(rate).reduce(f64::max);
                factor(rate(ours), fastest)
            });
            table.add_row([text(deed.name())].into_iter().chain(rates).chain(shares));
        }
        table.notes.push(
            "What svcfs answered to a writer is on the disk, and a version where a version can have it (64 MiB); what the others \
             answered over HTTP is in memory, and over NFS on the disk once it was committed."
                .to_owned(),
        );
        if let Some(rate) = self.bare.rate() {
            table.notes.push(format!(
                "The large file was written to the disk itself, in blocks of 1 MiB, and flushed at {rate:.0} MiB/s in the same rounds. \
                 *WsgiDAV, flushed* brings a file to the disk before it answers, which it does not do by itself."
            ));
        }
        table.notes.extend(self.missing.iter().map(|reason| format!("Not all was measured: {reason}.")));
        table
    }
}
