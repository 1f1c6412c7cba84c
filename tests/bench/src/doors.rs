//! Files over WebDAV and S3, beside the servers that a user would run instead.
//!
//! One rule: the same requests of the same clients, one server after the other in each round. Of a rival that is not installed only that is told.

mod rivals;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use svcfs_measure::http::Client;
use svcfs_measure::machine;
use svcfs_measure::run::Run;
use svcfs_measure::series::{Bound, Series};
use svcfs_measure::server::{Place, Server};
use svcfs_measure::table::{Cell, Table, column, text, times};

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

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub struct Amount {
    /// Small files.
    pub files: usize,
    /// How long they are read in a round.
    pub reading: Bound,
    /// MiB of the large file: more than a version can have, so that it goes the way of such files.
    pub large: usize,
}

/// All that is measured of it.
pub struct Doors {
    contestants: Vec<Contestant>,
    /// Which rivals were not there.
    missing: Vec<String>,
}

/// A server, and how it did.
struct Contestant {
    name: &'static str,
    key: &'static str,
    is_ours: bool,
    /// In the order of [`Deed::ALL`].
    done: [Series; 4],
}

/// Where a server answers, what its paths begin with, and the folder they are in.
struct At<'a> {
    address: std::net::SocketAddr,
    prefix: &'a str,
    folder: &'a Path,
    can_write: bool,
}

/// Measures everything, in turn.
///
/// # Errors
/// When something is refused, or when the run is to end.
pub fn measure(run: &Run, extent: &Extent) -> Result<Doors> {
    let amount = extent.doors;
    let (root, log, large) = (run.at("root"), run.at("doors.log"), run.at("large.bin"));
    fs::create_dir(&root)?;
    fs::write(&large, noise(amount.large * MIB))?;
    let ports = [free_port()?, free_port()?].map(|port| port.to_string());
    let doors = ["--webdav", "--webdav-port", &ports[0], "--s3", "--s3-port", &ports[1]];
    let place = Place { root: &root, mountpoint: None, log: &log, rest: extent.plan.rest };
    let server = Server::start_with(run, place, &doors)?;
    let (rivals, missing) = Rival::start_all(run)?;
    let ours = |port: &str, prefix: &'static str| -> Result<At<'_>> {
        Ok(At { address: format!("127.0.0.1:{port}").parse()?, prefix, folder: &root, can_write: true })
    };
    let contestant = |name, key, is_ours| Contestant { name, key, is_ours, done: Default::default() };
    let mut contestants = vec![
        (contestant("svcfs, WebDAV", "svcfs_webdav", true), ours(&ports[0], "/")?),
        (contestant("svcfs, S3", "svcfs_s3", true), ours(&ports[1], "/default/")?),
    ];
    contestants.extend(rivals.iter().map(|rival| {
        let Rival { name, key, address, prefix, folder, can_write, .. } = rival;
        (contestant(name, key, false), At { address: *address, prefix, folder, can_write: *can_write })
    }));
    // Made on the disk, because each protocol has another way to make a folder, and before the first question: rclone remembers for
    // minutes what is in a folder.
    for (contestant, place) in &contestants {
        for round in 0..extent.plan.rounds {
            fs::create_dir(place.folder.join(format!("{}-{round}", contestant.key)))?;
        }
    }
    for round in 0..extent.plan.rounds {
        for (at, deed) in Deed::ALL.into_iter().enumerate() {
            for (contestant, place) in &mut contestants {
                run.tell(&format!(
                    "{}: {}, round {} of {}",
                    contestant.name,
                    deed.name(),
                    round + 1,
                    extent.plan.rounds
                ));
                run.flush_disk()?;
                server.until_quiet(run)?;
                let name = format!("{}-{round}", contestant.key);
                place.go(run, deed, (amount, &large, &name), &mut contestant.done[at])?;
            }
        }
    }
    server.stop()?;
    Ok(Doors { contestants: contestants.into_iter().map(|(contestant, _)| contestant).collect(), missing })
}

impl At<'_> {
    fn go(
        &self,
        run: &Run,
        deed: Deed,
        (amount, large, name): (Amount, &Path, &str),
        series: &mut Series,
    ) -> Result<()> {
        let url = format!("http://{}{}{name}.bin", self.address, self.prefix);
        match deed {
            Deed::WriteSmall => {
                let begun = Instant::now();
                let content = "x".repeat(SMALL);
                if self.can_write {
                    self.crowd(amount.files, |client, at| {
                        client.put(&format!("{}{name}/{at}.md", self.prefix), content.clone().into_bytes()).map(drop)
                    })?;
                    series.add_counted(amount.files, begun.elapsed());
                } else {
                    (0..amount.files)
                        .try_for_each(|at| fs::write(self.folder.join(format!("{name}/{at}.md")), &content))?;
                }
            }
            Deed::ReadSmall => {
                let begun = Instant::now();
                let (done, stop) = (AtomicUsize::new(0), run.stop());
                self.crowd(amount.reading.count, |client, at| {
                    if begun.elapsed() > amount.reading.time {
                        return Ok(());
                    }
                    ensure!(!stop.is_requested(), "ended before everything was measured");
                    let content = client.get(&format!("{}{name}/{}.md", self.prefix, at % amount.files))?;
                    ensure!(content.len() == SMALL, "{} bytes came back", content.len());
                    done.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })?;
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

    /// Many clients do something as often together, each over a connection of its own.
    fn crowd(&self, count: usize, work: impl Fn(&mut Client, usize) -> Result<()> + Sync) -> Result<()> {
        let next = AtomicUsize::new(0);
        let one = || -> Result<()> {
            let mut client = Client::connect(self.address)?;
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

impl Doors {
    /// The table.
    pub fn table(&self) -> Table {
        let mut columns = vec![column("over HTTP", "deed")];
        columns.extend(self.contestants.iter().map(|contestant| column(contestant.name, contestant.key)));
        columns.push(column("WebDAV, of the fastest that takes writes, too", "webdav_share"));
        columns.push(column("S3, of the same", "s3_share"));
        let mut table = Table::new("doors", columns);
        for (at, deed) in Deed::ALL.into_iter().enumerate() {
            let rate = |contestant: &Contestant| contestant.done.get(at).and_then(Series::rate);
            let writes = |contestant: &&Contestant| !contestant.is_ours && contestant.done[0].rate().is_some();
            let fastest = self.contestants.iter().filter(writes).filter_map(rate).reduce(f64::max);
            let ours: Vec<_> = self.contestants.iter().filter(|contestant| contestant.is_ours).map(rate).collect();
            let rates = self.contestants.iter().map(|contestant| Cell::Rate(rate(contestant)));
            let shares = ours.into_iter().map(|rate| times(rate, fastest));
            table.row([text(deed.name())].into_iter().chain(rates).chain(shares));
        }
        table.notes.push(
            "What svcfs answered to a writer is on the disk, and a version where a version can have it (64 MiB); what the others \
             answered is in memory."
                .to_owned(),
        );
        table.notes.extend(self.missing.iter().map(|reason| format!("Not all was measured: {reason}.")));
        table
    }
}
