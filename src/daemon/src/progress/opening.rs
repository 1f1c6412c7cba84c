//! How far the opening of a root is: a bar on a terminal, lines in the log elsewhere, and the status that systemd shows.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sd_notify::NotifyState;
use svcfs_knowledge::spaces::{OnProgress, OpenProgress};

use super::DRAWN;
use crate::stop::notify;

/// What is over by then is shown to nobody: a bar that flickers tells nothing.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often the bar is drawn.
const DRAW: Duration = Duration::from_millis(100);
/// How often systemd is told.
const STATUS: Duration = Duration::from_secs(1);
/// How often the log gets a line.
const LINE: Duration = Duration::from_secs(5);

const COUNTED: &str = "{spinner} {prefix} [{wide_bar}] {msg}, {elapsed}";
const UNCOUNTED: &str = "{spinner} {prefix}: {msg}, {elapsed}";

/// Shows how far an opening is, from a thread of its own, until it is dropped: also stages that say nothing for minutes are
/// seen to go on.
#[derive(Debug)]
#[must_use = "nothing is shown once this is dropped"]
pub struct OpeningProgress {
    newest: Arc<Mutex<Option<OpenProgress>>>,
    /// Ends the thread when it is dropped; none when there is no thread.
    shown: Option<(Sender<()>, JoinHandle<()>)>,
}

impl OpeningProgress {
    /// Starts to show how far the opening of `root` is. Where the system has no thread left, nothing is shown.
    pub fn opening(root: &Path) -> Self {
        let newest = Arc::new(Mutex::new(None));
        let (open, ended) = mpsc::channel();
        let name = root.file_name().unwrap_or(root.as_os_str()).display();
        let screen = ProgressScreen {
            newest: Arc::clone(&newest),
            what: format!("opening {name}"),
            is_terminal: std::io::stderr().is_terminal(),
            patience: PATIENCE,
            line: LINE,
        };
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(move || screen.show(&ended));
        Self { newest, shown: thread.ok().map(|thread| (open, thread)) }
    }

    /// What the opening tells its progress to.
    pub fn listener(&self) -> OnProgress {
        let newest = Arc::clone(&self.newest);
        Box::new(move |progress| *newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress))
    }
}

impl Drop for OpeningProgress {
    fn drop(&mut self) {
        if let Some((open, thread)) = self.shown.take() {
            drop(open);
            // Should it have panicked, the log says so; the opening is not concerned.
            let _ = thread.join();
        }
    }
}

struct ProgressScreen {
    newest: Arc<Mutex<Option<OpenProgress>>>,
    what: String,
    /// Whether standard error is one.
    is_terminal: bool,
    patience: Duration,
    line: Duration,
}

impl ProgressScreen {
    fn show(&self, ended: &Receiver<()>) {
        if ended.recv_timeout(self.patience) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let bar = self.is_terminal.then(|| OpeningBar::new(&self.what));
        let (mut status_due, mut line_due) = (Instant::now() + STATUS, Instant::now() + self.line);
        while ended.recv_timeout(DRAW) == Err(RecvTimeoutError::Timeout) {
            let newest = *self.newest.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(progress) = newest else { continue };
            if let Some(bar) = &bar {
                bar.draw(progress);
            }
            if status_due <= Instant::now() {
                status_due = Instant::now() + STATUS;
                notify(&[NotifyState::Status(&format!("opening the root: {}", told(progress)))]);
            }
            if !self.is_terminal && line_due <= Instant::now() {
                line_due = Instant::now() + self.line;
                log(progress);
            }
        }
    }
}

/// The bar on a terminal; taken away when dropped.
struct OpeningBar(ProgressBar);

impl OpeningBar {
    fn new(what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_prefix(what.to_owned());
        *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
        Self(bar)
    }

    fn draw(&self, progress: OpenProgress) {
        let amount = amount(progress);
        let template = if amount.is_some() { COUNTED } else { UNCOUNTED };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.0.set_style(style.progress_chars("=> "));
        self.0.set_message(told(progress));
        if let Some((done, all)) = amount {
            self.0.set_length(all as u64);
            self.0.set_position(done as u64);
        }
        self.0.tick();
    }
}

impl Drop for OpeningBar {
    fn drop(&mut self) {
        *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.0.finish_and_clear();
    }
}

/// Steps done and steps in all, where that is known. A file that is adopted is two steps: it is read, then it is recorded.
const fn amount(progress: OpenProgress) -> Option<(usize, usize)> {
    match progress {
        OpenProgress::Replaying { records, total } => Some((records, total)),
        OpenProgress::Restoring { files, total } => Some((files, total)),
        OpenProgress::ReadingHistory | OpenProgress::Comparing => None,
        OpenProgress::Adopting { scanned_files: looked_at, recorded_files: recorded, total } => {
            Some((looked_at + recorded, 2 * total))
        }
    }
}

/// A stage and its counts, as a person reads them.
fn told(progress: OpenProgress) -> String {
    match progress {
        OpenProgress::Replaying { records, total } => format!("{records} of {total} unfinished changes replayed"),
        OpenProgress::Restoring { files, total } => format!("{files} of {total} files of unfinished changes checked"),
        OpenProgress::ReadingHistory => "reading the history that is there".to_owned(),
        OpenProgress::Comparing => "comparing the tree with history".to_owned(),
        OpenProgress::Adopting { scanned_files: looked_at, recorded_files: recorded, total } => {
            format!("{looked_at} of {total} files read, {recorded} recorded")
        }
    }
}

fn log(progress: OpenProgress) {
    let what = told(progress);
    match progress {
        OpenProgress::Replaying { records: done, total } | OpenProgress::Restoring { files: done, total } => {
            tracing::info!(done, total, "opening the root: {what}");
        }
        OpenProgress::ReadingHistory | OpenProgress::Comparing => tracing::info!("opening the root: {what}"),
        OpenProgress::Adopting { scanned_files: looked_at, recorded_files: recorded, total } => {
            tracing::info!(looked_at, recorded, total, "opening the root: {what}");
        }
    }
}

#[cfg(test)]
mod tests;
