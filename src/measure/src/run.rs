//! One run: which program, where on the disk, who hears of it, and how it ends early.

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

/// Between two looks at what nobody announces.
const LOOK: Duration = Duration::from_millis(5);
/// How long a server may take to come to rest: one that indexes a million pages takes minutes.
const RESTLESS: Duration = Duration::from_secs(600);

/// How the directory of every run begins, and the file in it that is locked for as long as its run lasts.
const PREFIX: &str = "svcfs-bench-";
const LOCK: &str = "running";

/// What every measurement is handed. Dropping it removes everything it made on the disk.
pub struct BenchRun {
    program: PathBuf,
    scratch: TempDir,
    _running: File,
    stop: StopToken,
    tell: Box<dyn Fn(&str)>,
    has_git: bool,
}

impl BenchRun {
    /// A run of `program` in a new directory below `dir`; `tell` hears what is going on, and `stop` ends it early. What runs left
    /// there that were killed is removed.
    ///
    /// # Errors
    /// When the directory cannot be made, or a left one not be removed.
    pub fn start(program: PathBuf, dir: &Path, stop: StopToken, tell: impl Fn(&str) + 'static) -> Result<Self> {
        // One at a time, so that no directory is looked at that is made and not locked yet.
        let turn = File::open(dir)?;
        turn.lock()?;
        sweep(dir)?;
        let scratch = tempfile::Builder::new().prefix(PREFIX).tempdir_in(dir);
        let scratch = scratch.with_context(|| format!("`{}` cannot be written", dir.display()))?;
        let running = File::create(scratch.path().join(LOCK))?;
        running.lock()?;
        let has_git = machine::is_installed("git");
        Ok(Self { program, scratch, _running: running, stop, tell: Box::new(tell), has_git })
    }

    /// Removes what the run made.
    ///
    /// # Errors
    /// When something cannot be removed, with what and where.
    pub fn finish(self) -> Result<()> {
        let place = self.scratch.path().to_owned();
        self.scratch.close().with_context(|| format!("`{}` is left behind and cannot be removed", place.display()))
    }

    /// The program that is measured.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The directory everything happens in.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Whether git is installed. Without it nothing stands beside svcfs, and nobody judges its history.
    pub const fn has_git(&self) -> bool {
        self.has_git
    }

    /// Says what is going on.
    pub fn report(&self, text: &str) {
        (self.tell)(text);
    }

    /// What others listen to who end with the run.
    pub const fn stop_token(&self) -> &StopToken {
        &self.stop
    }

    /// Long work looks here between its parts.
    ///
    /// # Errors
    /// When the run is to end.
    pub fn check_stop(&self) -> Result<()> {
        ensure!(!self.stop.is_requested(), "ended before everything was measured");
        Ok(())
    }

    /// Waits for what nobody announces, looking again and again.
    ///
    /// # Errors
    /// When it does not come within a limit, when a look fails, or when the run is to end.
    pub fn wait_until(&self, what: &str, limit: Duration, mut is_true: impl FnMut() -> Result<bool>) -> Result<()> {
        let began = Instant::now();
        while !is_true()? {
            ensure!(began.elapsed() < limit, "in vain, for {} s: {what}", limit.as_secs());
            self.stop.wait(LOOK);
            self.check_stop()?;
        }
        Ok(())
    }

    /// Waits until a process was not seen working for a while, at most ten minutes.
    ///
    /// # Errors
    /// When it is gone, or never rests.
    pub fn wait_until_idle(&self, process: u32, rest: Duration) -> Result<()> {
        let mut since = Instant::now();
        self.wait_until(&format!("process {process} comes to rest"), RESTLESS, || {
            if machine::is_busy(process)? {
                since = Instant::now();
            }
            Ok(since.elapsed() >= rest)
        })
    }

    /// Flushes everything written to the disk, so that what one kind of work left behind does not burden the next.
    ///
    /// # Errors
    /// When the disk refuses, or when the run is to end.
    pub fn flush_disk(&self) -> Result<()> {
        self.check_stop()?;
        Ok(rustix::fs::syncfs(std::fs::File::open(self.scratch())?)?)
    }

    /// Does one kind of work, one after the other; it is told how often it was done in this round.
    ///
    /// # Errors
    /// That of the work; when the run is to end.
    pub fn measure_round(&self, bound: RoundBound, mut work: impl FnMut(usize) -> Result<()>) -> Result<MeasuredRound> {
        let started = Instant::now();
        let mut latencies = Vec::new();
        while latencies.len() < bound.count && started.elapsed() < bound.time {
            self.check_stop()?;
            let begun = Instant::now();
            work(latencies.len())?;
            latencies.push(begun.elapsed());
        }
        Ok(MeasuredRound { latencies, elapsed: started.elapsed() })
    }
}

/// Removes what runs made whose process is gone.
fn sweep(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir)?
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()))
    {
        let left = entry.path();
        let is_over = File::open(left.join(LOCK)).is_ok_and(|running| running.try_lock().is_ok());
        if is_over {
            let told = || format!("`{}`, left by a benchmark that was killed, cannot be removed", left.display());
            std::fs::remove_dir_all(&left).with_context(told)?;
        }
    }
    Ok(())
}

/// Ends a run when SIGINT or SIGTERM asks for it, so that it stops its servers and removes what it made; further ones change
/// nothing, because whoever is impatient would be left with both.
///
/// # Errors
/// What the operating system refuses.
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
        for (name, file) in [("svcfs-bench-killed", LOCK), ("svcfs-bench-of-mine", "notes.md"), ("other", LOCK)] {
            std::fs::create_dir(place.path().join(name)).unwrap();
            std::fs::write(place.path().join(name).join(file), "").unwrap();
        }
        let (one, other) = (run(place.path()), run(place.path()));
        let left =
            || std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        assert!(one.scratch().exists() && other.scratch().exists(), "{:?}", left());
        assert_eq!(left().len(), 4, "{:?}", left());
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
