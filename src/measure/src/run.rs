//! One run: program, scratch directory, progress reports and early stop.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use svcfs_work::StopToken;
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::machine;
use crate::series::{MeasuredRound, RoundBound};

/// Interval of polling.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Indexing a million pages takes minutes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Prefix of the directory of a run, and its lock file, locked while the run lasts.
const DIR_PREFIX: &str = "svcfs-bench-";
const LOCK_FILE: &str = "running";

/// Context of all measurements. Dropping it removes its files.
pub struct BenchRun {
    program: PathBuf,
    scratch: TempDir,
    _running: File,
    stop: StopToken,
    report_progress: Box<dyn Fn(&str)>,
    has_git: bool,
}

impl BenchRun {
    /// Starts a run of `program` in a new directory below `dir`; `report_progress` receives texts,
    /// and `stop` ends it early. Removes directories of killed runs.
    ///
    /// # Errors
    /// When the directory cannot be created, or an old one not be removed.
    pub fn start(
        program: PathBuf,
        dir: &Path,
        stop: StopToken,
        report_progress: impl Fn(&str) + 'static,
    ) -> Result<Self> {
        // Serializes starts: another run must not remove a directory that is not locked yet.
        let dir_lock = File::open(dir)?;
        dir_lock.lock()?;
        sweep(dir)?;
        let scratch = tempfile::Builder::new().prefix(DIR_PREFIX).tempdir_in(dir);
        let scratch = scratch.with_context(|| format!("`{}` cannot be written", dir.display()))?;
        let running = File::create(scratch.path().join(LOCK_FILE))?;
        running.lock()?;
        let has_git = machine::is_installed("git");
        Ok(Self { program, scratch, _running: running, stop, report_progress: Box::new(report_progress), has_git })
    }

    /// Removes the files of the run.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn finish(self) -> Result<()> {
        let place = self.scratch.path().to_owned();
        self.scratch.close().with_context(|| format!("`{}` cannot be removed", place.display()))
    }

    /// The measured program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The scratch directory.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// A path in the scratch directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Whether git is installed. Without it there is no comparison, and the history is not
    /// verified.
    pub const fn has_git(&self) -> bool {
        self.has_git
    }

    /// Reports progress.
    pub fn report(&self, text: &str) {
        (self.report_progress)(text);
    }

    /// Signals the end of the run.
    pub const fn stop_token(&self) -> &StopToken {
        &self.stop
    }

    /// Long work calls this between its parts.
    ///
    /// # Errors
    /// When the run is stopped.
    pub fn check_stop(&self) -> Result<()> {
        ensure!(!self.stop.is_requested(), "ended before everything was measured");
        Ok(())
    }

    /// Polls a condition.
    ///
    /// # Errors
    /// On a timeout, when the check fails, or when the run is stopped.
    pub fn wait_until(&self, what: &str, limit: Duration, mut is_true: impl FnMut() -> Result<bool>) -> Result<()> {
        let started = Instant::now();
        while !is_true()? {
            ensure!(started.elapsed() < limit, "timeout after {} s: {what}", limit.as_secs());
            self.stop.wait(POLL_INTERVAL);
            self.check_stop()?;
        }
        Ok(())
    }

    /// Waits until a process has been idle for `rest`, at most ten minutes.
    ///
    /// # Errors
    /// When the process has ended or never becomes idle; when the run is stopped.
    pub fn wait_until_idle(&self, process: u32, rest: Duration) -> Result<()> {
        let mut since = Instant::now();
        self.wait_until(&format!("process {process} becomes idle"), IDLE_TIMEOUT, || {
            if machine::is_busy(process)? {
                since = Instant::now();
            }
            Ok(since.elapsed() >= rest)
        })
    }

    /// Flushes the filesystem, so that earlier writes do not slow down the next measurement.
    ///
    /// # Errors
    /// On an I/O error, or when the run is stopped.
    pub fn flush_disk(&self) -> Result<()> {
        self.check_stop()?;
        Ok(rustix::fs::syncfs(std::fs::File::open(self.scratch())?)?)
    }

    /// Repeats an operation sequentially; it receives the number of earlier calls in this round.
    ///
    /// # Errors
    /// Those of the operation; when the run is stopped.
    pub fn measure_round(&self, bound: RoundBound, mut work: impl FnMut(usize) -> Result<()>) -> Result<MeasuredRound> {
        let started = Instant::now();
        let mut latencies = Vec::new();
        while latencies.len() < bound.count && started.elapsed() < bound.time {
            self.check_stop()?;
            let operation_start = Instant::now();
            work(latencies.len())?;
            latencies.push(operation_start.elapsed());
        }
        Ok(MeasuredRound { latencies, elapsed: started.elapsed() })
    }
}

/// Removes directories of runs whose process has ended.
fn sweep(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir)?
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(DIR_PREFIX.as_bytes()))
    {
        let old_dir = entry.path();
        let is_over = File::open(old_dir.join(LOCK_FILE)).is_ok_and(|running| running.try_lock().is_ok());
        if is_over {
            let context = || format!("`{}`, left by a killed benchmark, cannot be removed", old_dir.display());
            std::fs::remove_dir_all(&old_dir).with_context(context)?;
        }
    }
    Ok(())
}

/// Stops a run on SIGINT or SIGTERM, so that it stops its servers and removes its files. Further
/// signals are ignored, because an abort would leave both behind.
///
/// # Errors
/// Those of the operating system.
pub fn stop_on_signal(stop: StopToken) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let wait = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        stop.request();
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::round_bound;

    fn run(below: &Path) -> BenchRun {
        BenchRun::start(PathBuf::from("svcfs"), below, StopToken::new(), |_| {}).unwrap()
    }

    #[test]
    fn work_ends_at_its_count() {
        let place = tempfile::tempdir().unwrap();
        let mut done = 0;
        let round = run(place.path()).measure_round(round_bound(3, 60), |at| {
            assert_eq!(at, done);
            done += 1;
            Ok(())
        });
        assert_eq!((round.unwrap().latencies.len(), done), (3, 3));
    }

    #[test]
    fn leftovers_of_killed_runs_are_removed_and_active_ones_are_not() {
        let place = tempfile::tempdir().unwrap();
        for (name, file) in
            [("svcfs-bench-killed", LOCK_FILE), ("svcfs-bench-of-mine", "notes.md"), ("other", LOCK_FILE)]
        {
            std::fs::create_dir(place.path().join(name)).unwrap();
            std::fs::write(place.path().join(name).join(file), "").unwrap();
        }
        let (one, other) = (run(place.path()), run(place.path()));
        let old_dir =
            || std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        assert!(one.scratch().exists() && other.scratch().exists(), "{:?}", old_dir());
        assert_eq!(old_dir().len(), 4, "{:?}", old_dir());
        assert!(!place.path().join("svcfs-bench-killed").exists());
    }

    #[test]
    fn a_run_that_is_to_end_does_no_more_work_and_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let run = run(place.path());
        std::fs::create_dir(run.path("root")).unwrap();
        let mut done = 0;
        let round = run.measure_round(round_bound(100, 60), |_| {
            done += 1;
            run.stop_token().request();
            Ok(())
        });
        assert_eq!((round.unwrap_err().to_string(), done), ("ended before everything was measured".to_owned(), 1));
        assert!(run.wait_until("never", Duration::from_secs(60), || Ok(false)).is_err());
        drop(run);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
