use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// What was written to the log.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Page {
    fn write(&mut self, log_interval: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(log_interval);
        Ok(log_interval.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Page {
    type Writer = Self;
    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

/// Shows `progress` until the log has what `is_enough` asks for, or the screen ends by itself.
fn shown(show_delay: Duration, progress: OpenProgress, is_enough: impl Fn(&str) -> bool) -> String {
    let page = Page::default();
    let log = tracing_subscriber::fmt().with_writer(page.clone()).with_ansi(false).finish();
    let latest = Arc::new(Mutex::new(Some(progress)));
    let screen = ProgressScreen {
        latest,
        what: "opening kb".to_owned(),
        is_terminal: false,
        show_delay,
        log_interval: Duration::ZERO,
    };
    let (open, ended) = mpsc::channel();
    let run = move || tracing::subscriber::with_default(log, || screen.run(&ended));
    let thread = std::thread::Builder::new().spawn(run).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_enough(&page.text()) {
        assert!(Instant::now() < deadline, "the log has only `{}`", page.text());
        std::thread::yield_now();
    }
    drop(open);
    thread.join().unwrap();
    page.text()
}

#[test]
fn a_long_adoption_is_logged_repeatedly_without_a_terminal() {
    let progress = OpenProgress::Adopting { scanned_files: 23_000, recorded_files: 20_000, total: 38_405 };
    let log = shown(Duration::ZERO, progress, |log| log.lines().count() >= 2);
    for log_interval in log.lines() {
        assert!(
            log_interval.contains("INFO")
                && log_interval.contains("opening the root: 23000 of 38405 files read, 20000 recorded")
        );
        assert!(log_interval.contains("looked_at=23000 recorded=20000 total=38405"), "{log_interval}");
    }
}

#[test]
fn a_short_operation_prints_no_progress() {
    assert_eq!(shown(Duration::from_secs(3600), OpenProgress::Comparing, |_| true), "");
}

#[test]
fn nothing_is_shown_before_the_opening_has_said_anything() {
    let watched = OpeningProgress::opening(Path::new("kb"));
    assert_eq!(*watched.latest.lock().unwrap(), None);
    watched.listener()(OpenProgress::Comparing);
    assert_eq!(*watched.latest.lock().unwrap(), Some(OpenProgress::Comparing));
}

#[test]
fn a_progress_bar_is_full_only_when_all_is_read_and_recorded() {
    let adopting = |looked_at, recorded| {
        amount(OpenProgress::Adopting { scanned_files: looked_at, recorded_files: recorded, total: 10 })
    };
    assert_eq!([adopting(0, 0), adopting(10, 0), adopting(10, 10)], [Some((0, 20)), Some((10, 20)), Some((20, 20))]);
    assert_eq!(amount(OpenProgress::Replaying { records: 3, total: 3 }), Some((3, 3)));
    assert_eq!(amount(OpenProgress::Restoring { files: 1, total: 2 }), Some((1, 2)));
    assert_eq!([OpenProgress::Comparing, OpenProgress::ReadingHistory].map(amount), [None, None]);
}

#[test]
fn both_templates_can_be_read() {
    for template in [COUNTED_TEMPLATE, PLAIN_TEMPLATE] {
        assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
    }
}
