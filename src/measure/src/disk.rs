//! The bare filesystem without history and without durability.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::machine;
use crate::pages::RoundWork;
use crate::run::BenchRun;
use crate::series::{MeasuredRound, RoundBound};

/// Whether a file is flushed before it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseMode {
    /// As most programs do: the system flushes later.
    NoFsync,
    /// As editors and databases do.
    Fsync,
}

/// Replaces pages by a temporary file and a rename, without a flush.
pub fn replace(run: &BenchRun, root: &Path, work: RoundWork) -> Result<MeasuredRound> {
    let RoundWork { pages, bound, first_write: first } = work;
    run.measure_round(bound, |at| {
        let (path, text) = pages.rewrite(first + at);
        let path = root.join(path);
        let temporary = path.with_extension("new");
        std::fs::write(&temporary, text)?;
        Ok(std::fs::rename(temporary, path)?)
    })
}

/// Creates new pages in any folder, which may be a mount.
pub fn create(run: &BenchRun, root: &Path, work: RoundWork, close: CloseMode) -> Result<MeasuredRound> {
    let RoundWork { pages, bound, first_write: first } = work;
    run.measure_round(bound, |at| {
        let number = first + at;
        let path = root.join(pages.new_path(number));
        let mut file = File::create(&path).with_context(|| format!("cannot create `{}`", path.display()))?;
        file.write_all(pages.text(number, number + 1).as_bytes())?;
        match close {
            CloseMode::NoFsync => {}
            CloseMode::Fsync => file.sync_all()?,
        }
        Ok(())
    })
}

/// Appends texts to one file and flushes after each: the minimum cost of a durable write.
pub fn append(run: &BenchRun, bound: RoundBound, text: impl Fn(usize) -> String) -> Result<MeasuredRound> {
    let mut file = OpenOptions::new().create(true).append(true).open(run.path("appended"))?;
    run.measure_round(bound, |at| {
        file.write_all(text(at).as_bytes())?;
        Ok(file.sync_data()?)
    })
}

/// Runs `cp -r`; returns its duration.
///
/// # Errors
/// When `cp` fails.
pub fn copy(from: &Path, to: &Path) -> Result<Duration> {
    let started = Instant::now();
    machine::run(Command::new("cp").arg("-r").arg(from).arg(to))?;
    Ok(started.elapsed())
}
