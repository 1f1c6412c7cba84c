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

/// Adopting a large tree takes minutes.
const START_TIMEOUT: Duration = Duration::from_secs(600);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Options of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerPlace<'a> {
    /// The root it serves.
    pub root: &'a Path,
    /// Mountpoint, if any.
    pub mountpoint: Option<&'a Path>,
    /// Log file.
    pub log: &'a Path,
    /// Time without activity after which the server is idle.
    pub idle_time: Duration,
}

/// A ready server.
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    idle_time: Duration,
    /// Start of its process.
    pub started_at: Instant,
    /// Time until `/readyz` succeeded.
    pub ready_after: Duration,
}

impl ServerProcess {
    /// Starts a server on a free port, and waits until it is ready.
    ///
    /// # Errors
    /// When it ends or is not ready in time, with the end of its log; when the run is stopped.
    pub fn start(run: &BenchRun, place: ServerPlace<'_>) -> Result<Self> {
        Self::start_with_args(run, place, &[])
    }

    /// Starts a server with additional arguments.
    ///
    /// # Errors
    /// As [`ServerProcess::start`].
    pub fn start_with_args(run: &BenchRun, place: ServerPlace<'_>, extra_args: &[&str]) -> Result<Self> {
        run.check_stop()?;
        let ServerPlace { root, mountpoint, log, idle_time } = place;
        std::fs::create_dir_all(root)?;
        let mut command = Command::new(run.program());
        // A signal from the terminal reaches this process only, which then stops the server.
        command.process_group(0);
        // If this process dies, the standard input of the server closes and it stops.
        command
            .args(["serve", "--until-stdin-closes", "--host", "127.0.0.1", "--port", "0", "--root"])
            .arg(root)
            .args(extra_args);
        if let Some(mountpoint) = mountpoint {
            command.arg("--mount").arg(mountpoint);
        }
        let is_svcfs_variable = |name: &OsString| name == "RUST_LOG" || name.to_string_lossy().starts_with("SVC_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_svcfs_variable(name)) {
            command.env_remove(name);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(log)?);
        let started = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot start `{}`", run.program().display()))?;
        let output = child.stdout.take().context("the server has no output")?;
        let address = "127.0.0.1:0".parse()?;
        // From here on, errors stop the process.
        let mut server =
            Self { child, address, log: log.to_owned(), idle_time, started_at: started, ready_after: START_TIMEOUT };
        server.address = read_address(run, output).with_context(|| server.end_of_log())?;
        BenchClient::connect(server.address)?.get("/readyz").with_context(|| server.end_of_log())?;
        server.ready_after = started.elapsed();
        Ok(server)
    }

    /// Its address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its present memory.
    pub fn memory(&self) -> Result<ProcessMemory> {
        machine::memory(self.pid())
    }

    /// Waits until it has been idle for `idle_time`.
    ///
    /// # Errors
    /// When the process has ended, or when the run is stopped.
    pub fn wait_until_idle(&self, run: &BenchRun) -> Result<()> {
        run.wait_until_idle(self.pid(), self.idle_time)
    }

    /// Kills its process.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        Ok(self.child.wait().map(drop)?)
    }

    /// Stops it as a service manager does; returns the duration.
    ///
    /// # Errors
    /// When it exits with an error or too late.
    pub fn stop(mut self) -> Result<Duration> {
        self.stop_process()
    }

    fn stop_process(&mut self) -> Result<Duration> {
        let requested = Instant::now();
        if let Some(process) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(process, Signal::TERM)?;
        }
        loop {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() {
                    Ok(requested.elapsed())
                } else {
                    bail!("{status}: {}", self.end_of_log())
                };
            }
            if requested.elapsed() > STOP_TIMEOUT {
                self.child.kill()?;
                self.child.wait()?;
                bail!("the server did not stop within {} s: {}", STOP_TIMEOUT.as_secs(), self.end_of_log());
            }
            // Not interrupted by the end of the run: the server must be stopped then, too.
            std::thread::park_timeout(POLL_INTERVAL);
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
        if matches!(self.child.try_wait(), Ok(None)) {
            // The original error is reported.
            let _ = self.stop_process();
        }
    }
}

/// The address that a server prints once it answers.
fn read_address(run: &BenchRun, output: impl std::io::Read + Send + 'static) -> Result<SocketAddr> {
    let (sender, receiver) = mpsc::channel();
    // Reads to the end, so that the server never gets EPIPE.
    let read = move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once("http://").filter(|_| line.trim_start().starts_with("http ")) {
                // Nobody waits any more when it took too long.
                let _ = sender.send(address.to_owned());
            }
        }
    };
    std::thread::Builder::new().name("server-output".to_owned()).spawn(read)?;
    let mut reported = None;
    run.wait_until("the server prints its address", START_TIMEOUT, || match receiver.try_recv() {
        Ok(address) => {
            reported = Some(address);
            Ok(true)
        }
        Err(TryRecvError::Empty) => Ok(false),
        Err(TryRecvError::Disconnected) => bail!("the server ended before it listened"),
    })?;
    let address: String = reported.context("the server did not print its address")?;
    address.parse().with_context(|| format!("the server printed an invalid address: `{address}`"))
}

#[cfg(test)]
mod tests {
    use svcfs_work::StopToken;

    use super::*;

    #[test]
    fn the_address_is_read_from_what_the_server_says() {
        let output =
            "svcfs serves /x/http://y\n  http    http://127.0.0.1:4711\n  docs    http://127.0.0.1:4711/api/docs\n";
        let place = tempfile::tempdir().unwrap();
        let run = BenchRun::start(PathBuf::from("svcfs"), place.path(), StopToken::new(), |_| {}).unwrap();
        assert_eq!(read_address(&run, output.as_bytes()).unwrap(), "127.0.0.1:4711".parse().unwrap());
        let error = read_address(&run, "svcfs: no\n".as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "the server ended before it listened");
    }
}
