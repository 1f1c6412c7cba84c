//! Progress of long work, when somebody watches.
//!
//! One rule: standard error is shared with the log. What is drawn there steps aside for each line ([`stderr`]), and shows
//! itself only for work that takes long enough to be read.

mod opening;

pub use opening::OpeningProgress;

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is drawn at this moment; one at a time.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Work whose length is not known; shows what is going on and for how long.
///
/// Nothing is drawn unless standard error is a terminal.
pub fn spinner(what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())).with_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// How work that turns out to have an end is drawn from then on.
pub fn counting() -> ProgressStyle {
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len}, {eta} left");
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

/// Work of `total` pages.
///
/// Nothing is drawn unless standard error is a terminal.
pub fn pages(what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} pages, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
        .with_message(what.to_owned())
}

/// Standard error for lines of the log: what is drawn is taken away for each of them and drawn again below.
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
