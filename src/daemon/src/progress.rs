//! Progress of long work on a terminal.
//!
//! Invariant: standard error is shared with the log. The bar is hidden while a log line is written
//! ([`stderr`]), and appears only for work that takes long enough.

mod opening;

pub use opening::OpeningProgress;

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The bar on the terminal; one at a time.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Progress of work of unknown length, with the elapsed time.
///
/// Nothing is drawn unless standard error is a terminal.
pub fn spinner(what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())).with_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Style for work whose length becomes known later.
pub fn counting() -> ProgressStyle {
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len}, {eta} left");
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

/// Progress of `total` pages.
///
/// Nothing is drawn unless standard error is a terminal.
pub fn pages(what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} pages, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
        .with_message(what.to_owned())
}

/// Standard error for log lines; the bar is hidden while a line is written.
pub fn stderr() -> impl Write {
    BesideTheBar
}

struct BesideTheBar;

impl Write for BesideTheBar {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match drawn {
            Some(bar) => bar.suspend(|| io::stderr().write(line)),
            None => io::stderr().write(line),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
