//! Progress of opening a root: a bar on a terminal, log lines elsewhere, and the status of systemd.

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

/// Shorter work shows no progress, because a bar that flickers helps no user.
const SHOW_DELAY: Duration = Duration::from_millis(300);
/// How often the bar is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);
/// How often systemd is notified.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// How often the log gets a line.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

const COUNTED_TEMPLATE: &str = "{spinner} {prefix} [{wide_bar}] {msg}, {elapsed}";
const PLAIN_TEMPLATE: &str = "{spinner} {prefix}: {msg}, {elapsed}";

/// Shows the progress of opening a root from its own thread until it is dropped, so that stages
/// without messages still show the elapsed time.
#[derive(Debug)]
#[must_use = "nothing is shown once this is dropped"]
pub struct OpeningProgress {
    latest: Arc<Mutex<Option<OpenProgress>>>,
    /// Dropping it ends the thread; none when no thread could be started.
    display: Option<(Sender<()>, JoinHandle<()>)>,
}

impl OpeningProgress {
    /// Starts to show the progress for `root`; shows nothing if no thread can be started.
    pub fn opening(root: &Path) -> Self {
        let latest = Arc::new(Mutex::new(None));
        let (open, ended) = mpsc::channel();
        let name = root.file_name().unwrap_or(root.as_os_str()).display();
        let screen = ProgressScreen {
            latest: Arc::clone(&latest),
            what: format!("opening {name}"),
            is_terminal: std::io::stderr().is_terminal(),
            show_delay: SHOW_DELAY,
            log_interval: LOG_INTERVAL,
        };
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(move || screen.run(&ended));
        Self { latest, display: thread.ok().map(|thread| (open, thread)) }
    }

    /// Receives the progress.
    pub fn listener(&self) -> OnProgress {
        let latest = Arc::clone(&self.latest);
        Box::new(move |progress| *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress))
    }
}

impl Drop for OpeningProgress {
    fn drop(&mut self) {
        if let Some((open, thread)) = self.display.take() {
            drop(open);
            // A panic of the thread is logged and does not affect the opening.
            let _ = thread.join();
        }
    }
}

struct ProgressScreen {
    latest: Arc<Mutex<Option<OpenProgress>>>,
    what: String,
    /// Whether standard error is a terminal.
    is_terminal: bool,
    show_delay: Duration,
    log_interval: Duration,
}

impl ProgressScreen {
    fn run(&self, ended: &Receiver<()>) {
        if ended.recv_timeout(self.show_delay) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let bar = self.is_terminal.then(|| OpeningBar::new(&self.what));
        let (mut status_due, mut log_due) = (Instant::now() + STATUS_INTERVAL, Instant::now() + self.log_interval);
        while ended.recv_timeout(DRAW_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let latest = *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(progress) = latest else { continue };
            if let Some(bar) = &bar {
                bar.draw(progress);
            }
            if status_due <= Instant::now() {
                status_due = Instant::now() + STATUS_INTERVAL;
                notify(&[NotifyState::Status(&format!("opening the root: {}", describe(progress)))]);
            }
            if !self.is_terminal && log_due <= Instant::now() {
                log_due = Instant::now() + self.log_interval;
                log(progress);
            }
        }
    }
}

/// The bar on a terminal; removed when dropped.
struct OpeningBar(ProgressBar);

impl OpeningBar {
    fn new(what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_prefix(what.to_owned());
        *DRAWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
        Self(bar)
    }

    fn draw(&self, progress: OpenProgress) {
        let amount = amount(progress);
        let template = if amount.is_some() { COUNTED_TEMPLATE } else { PLAIN_TEMPLATE };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.0.set_style(style.progress_chars("=> "));
        self.0.set_message(describe(progress));
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

/// Completed and total steps, if known. An adopted file has two steps: read and recorded.
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

/// A stage with its counts, as text.
fn describe(progress: OpenProgress) -> String {
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
    let what = describe(progress);
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
