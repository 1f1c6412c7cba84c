//! Killed at each point: what a kill leaves is what the disk shows at that moment, so a copy is
//! taken, and opened.

use super::*;

/// What a kill at a point would have left.
pub(super) struct Image {
    pub(super) point: FailPoint,
    pub(super) directory: TempDir,
    /// How many deeds must be there, and how many may be.
    pub(super) deeds: std::ops::RangeInclusive<usize>,
}

/// Takes an image at each point, the first time that each stage of a life comes there.
pub(super) struct Recorder {
    root: std::path::PathBuf,
    seen: Mutex<BTreeSet<(FailPoint, usize)>>,
    images: Mutex<Vec<Image>>,
    /// Deeds that are safe, and deeds that were begun.
    pub(super) safe: AtomicUsize,
    pub(super) begun: AtomicUsize,
    /// A deed, or what comes after it.
    pub(super) stage: AtomicUsize,
    /// Nobody passes a point while an image is taken.
    taking: Mutex<()>,
}

impl Recorder {
    /// Watches a root whose first deeds are done.
    pub(super) fn watch(root: &Path, deeds: std::ops::RangeInclusive<usize>) -> Arc<Self> {
        let recorder = Arc::new(Self {
            root: root.to_owned(),
            seen: Mutex::default(),
            images: Mutex::default(),
            safe: AtomicUsize::new(*deeds.start()),
            begun: AtomicUsize::new(*deeds.end()),
            stage: AtomicUsize::new(0),
            taking: Mutex::default(),
        });
        for point in FailPoint::ALL {
            let recorder = Arc::clone(&recorder);
            FailPoints::new(root).set_callback(*point, move || recorder.come_by(*point));
        }
        recorder
    }

    fn come_by(&self, point: FailPoint) {
        let _taking = self.taking.lock();
        let safe = self.safe.load(Ordering::SeqCst);
        if self.seen.lock().insert((point, self.stage.load(Ordering::SeqCst))) {
            let directory = copied(&self.root);
            // Who was answered may have gone on meanwhile.
            let deeds = safe..=self.begun.load(Ordering::SeqCst);
            self.images.lock().push(Image { point, directory, deeds });
        }
    }

    pub(super) fn finish(&self) -> Vec<Image> {
        for point in FailPoint::ALL {
            FailPoints::new(&self.root).clear(*point);
        }
        std::mem::take(&mut self.images.lock())
    }
}

/// Images of a whole life, from the first opening to the end.
fn images_of_a_life(strategy: VersionStrategy) -> Vec<Image> {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::watch(directory.path(), 0..=0);
    let space = opened(directory, strategy);
    for deed in DEEDS {
        recorder.begun.fetch_add(1, Ordering::SeqCst);
        recorder.stage.fetch_add(1, Ordering::SeqCst);
        (deed.go)(&space).unwrap_or_else(|fault| panic!("{}: {fault:?}", deed.what));
        recorder.safe.fetch_add(1, Ordering::SeqCst);
    }
    space.vfs.close().unwrap();
    recorder.finish()
}

/// Images of the opening of an image.
pub(super) fn images_of_an_opening(image: &Image, strategy: VersionStrategy) -> Vec<Image> {
    let directory = copied(image.directory.path());
    let recorder = Recorder::watch(directory.path(), image.deeds.clone());
    let again = opened(directory, strategy);
    again.vfs.close().unwrap();
    recorder.finish()
}

/// Opens them all and looks; tells of everyone that is not whole.
pub(super) fn assert_all_whole(
    images: Vec<Image>,
    when: &str,
    assert_whole: impl Fn(TempDir, std::ops::RangeInclusive<usize>, &str) + Sync + std::panic::RefUnwindSafe,
) {
    let images = Mutex::new(images.into_iter());
    let broken = Mutex::new(Vec::new());
    let look = || {
        loop {
            let Some(Image { point, directory, deeds }) = images.lock().next() else { return };
            let deed = deeds.end().checked_sub(1).map_or("nothing is done yet", |begun| DEEDS[begun].what);
            let when = format!("{when} at `{}` ({}) as {deed}", point.name(), point.description());
            if let Err(panic) = std::panic::catch_unwind(|| assert_whole(directory, deeds, &when)) {
                let said = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "see above".to_owned());
                broken.lock().push(format!("{when}: {said}"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(look);
        }
    });
    let broken = broken.into_inner();
    assert!(broken.is_empty(), "not whole: {broken:#?}");
}

/// Shows: FAIL-7
#[test]
fn a_crash_at_any_point_loses_no_acked_write_or_atomicity() {
    let mut walked = BTreeSet::new();
    for strategy in STRATEGIES {
        let images = images_of_a_life(strategy);
        // From each point of the opening of a space that was killed once, too.
        let is_busy = |image: &&Image| image.point == FailPoint::LogFlushed && *image.deeds.end() == 7;
        let again = images_of_an_opening(images.iter().find(is_busy).unwrap(), strategy);
        walked.extend(images.iter().chain(&again).map(|image| image.point));
        let look = |directory, deeds, when: &str| {
            assert_whole((&opened(directory, strategy), strategy), deeds, when);
        };
        assert_all_whole(images, "killed", look);
        assert_all_whole(again, "killed while opened", look);
    }
    let missed: Vec<_> =
        FailPoint::ALL.iter().filter(|point| !walked.contains(point) && !is_of_others(point)).collect();
    assert!(missed.is_empty(), "no deed of the story comes by {missed:?}: add one that does");
}
