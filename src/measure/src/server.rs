//! The real `svcfs serve`, as a child process.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::http::BenchClient;
use crate::machine::{self, ProcessMemory};
use crate::run::BenchRun;

/// How long adopting a tree may take.
const START: Duration = Duration::from_secs(600);
/// How long stopping may take.
const STOP: Duration = Duration::from_secs(60);
/// Between two looks whether it did.
const LOOK: Duration = Duration::from_millis(5);

/// Where a server is started.
#[derive(Debug, Clone, Copy)]
pub struct ServerPlace<'a> {
    /// The root it serves.
    pub root: &'a Path,
    /// Where it mounts, if it does.
    pub mountpoint: Option<&'a Path>,
    /// Takes its log.
    pub log: &'a Path,
    /// How long it must have done nothing to count as being at rest.
    pub idle_time: Duration,
}

/// A server that is ready.
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    rest: Duration,
    /// When its process was started.
    pub started_at: Instant,
    /// How long it took until `/readyz` said yes.
    pub ready_after: Duration,
}

impl ServerProcess {
    /// Starts a server on a port that is free, and waits until it is ready.
    ///
    /// # Errors
    /// When it ends instead or is not ready in time, with the end of its log; when the run is to end.
    pub fn start(run: &BenchRun, place: ServerPlace<'_>) -> Result<Self> {
        Self::start_with_args(run, place, &[])
    }

    /// The same, with more arguments.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with_args(run: &BenchRun, place: ServerPlace<'_>, more: &[&str]) -> Result<Self> {
        run.check_stop()?;
        let ServerPlace { root, mountpoint, log, idle_time: rest } = place;
        let mut command = Command::new(run.program());
        // A signal from the terminal is for this process, which then ends the server in good order.
        command.process_group(0);
        // Nor does it outlive this process, however that ends: its input closes then.
        command
            .args(["serve", "--until-stdin-closes", "--host", "127.0.0.1", "--port", "0", "--root"])
            .arg(root)
            .args(more);
        if let Some(mountpoint) = mountpoint {
            command.arg("--mount").arg(mountpoint);
        }
        let speaks_to_svcfs = |name: &OsString| name == "RUST_LOG" || name.to_string_lossy().starts_with("SVC_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| speaks_to_svcfs(name)) {
            command.env_remove(name);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(log)?);
        let started = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot start `{}`", run.program().display()))?;
        let said = child.stdout.take().context("the server has no output")?;
        let address = "127.0.0.1:0".parse()?;
        // From here on a failure ends the process, too.
        let mut server = Self { child, address, log: log.to_owned(), rest, started_at: started, ready_after: START };
        server.address = address_told(run, said).with_context(|| server.end_of_log())?;
        BenchClient::connect(server.address)?.get("/readyz").with_context(|| server.end_of_log())?;
        server.ready_after = started.elapsed();
        Ok(server)
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its memory now.
    ///
    /// # Errors
    /// When it is gone.
    pub fn memory(&self) -> Result<ProcessMemory> {
        machine::memory(self.pid())
    }

    /// Waits until it has nothing left to do: nothing for as long as the place says.
    ///
    /// # Errors
    /// When it is gone, or when the run is to end.
    pub fn wait_until_idle(&self, run: &BenchRun) -> Result<()> {
        run.wait_until_idle(self.pid(), self.rest)
    }

    /// Takes its process away in the middle of everything.
    ///
    /// # Errors
    /// When the system does not.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        Ok(self.child.wait().map(drop)?)
    }

    /// Ends it as a service manager does; how long that took.
    ///
    /// # Errors
    /// When it does not end well.
    pub fn stop(mut self) -> Result<Duration> {
        self.end()
    }

    fn end(&mut self) -> Result<Duration> {
        let asked = Instant::now();
        if let Some(process) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(process, Signal::TERM)?;
        }
        loop {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() { Ok(asked.elapsed()) } else { bail!("{status}: {}", self.end_of_log()) };
            }
            if asked.elapsed() > STOP {
                self.child.kill()?;
                self.child.wait()?;
                bail!("the server did not stop within {} s: {}", STOP.as_secs(), self.end_of_log());
            }
            // Not for the run's end: a server is stopped then, too.
            std::thread::park_timeout(LOOK);
        }
    }

    fn end_of_log(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("the server's log ends with: {}", lines[lines.len().saturating_sub(8)..].join("\n"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Ended already, in a run that went well.
        if matches!(self.child.try_wait(), Ok(None)) {
            // The failure that brought us here is told.
            let _ = self.end();
        }
    }
}

/// The address that a server says on its standard output once it answers.
fn address_told(run: &BenchRun, said: impl std::io::Read + Send + 'static) -> Result<SocketAddr> {
    let (sender, receiver) = mpsc::channel();
    // Reads to the end, so that the server never writes into a pipe that nobody holds.
    let read = move || {
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once("http://").filter(|_| line.trim_start().starts_with("http ")) {
                // Nobody waits any more when it took too long.
                let _ = sender.send(address.to_owned());
            }
        }
    };
    std::thread::Builder::new().name("server-output".to_owned()).spawn(read)?;
    let mut told = None;
    run.wait_until("the server says where it listens", START, || match receiver.try_recv() {
        Ok(address) => {
            told = Some(address);
            Ok(true)
        }
        Err(TryRecvError::Empty) => Ok(false),
        Err(TryRecvError::Disconnected) => bail!("the server ended before it listened"),
    })?;
    let address: String = told.context("the server did not say where it listens")?;
    address.parse().with_context(|| format!("the server says it listens on `{address}`"))
}

#[cfg(test)]
mod tests {
    use svcfs_work::StopToken;

    use super::*;

    #[test]
    fn the_address_is_read_from_what_the_server_says() {
        let said =
            "svcfs serves /x/http://y\n  http    http://127.0.0.1:4711\n  docs    http://127.0.0.1:4711/api/docs\n";
        let place = tempfile::tempdir().unwrap();
        let run = BenchRun::start(PathBuf::from("svcfs"), place.path(), StopToken::new(), |_| {}).unwrap();
        assert_eq!(address_told(&run, said.as_bytes()).unwrap(), "127.0.0.1:4711".parse().unwrap());
        let error = address_told(&run, "svcfs: no\n".as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "the server ended before it listened");
    }
}
