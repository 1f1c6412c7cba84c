//! Held up at each point: everybody reads on, and sees the old or the new, whole.

use parking_lot::Condvar;
use svcfs_store::FailPointKind;

use super::*;

/// A place where whoever comes first stays until let go.
#[derive(Default)]
struct Gate {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn come_by(&self) {
        let mut state = self.state.lock();
        state.0 = true;
        self.changed.notify_all();
        while !state.1 {
            self.changed.wait(&mut state);
        }
    }
    fn wait_for_somebody(&self, what: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut state = self.state.lock();
        while !state.0 {
            assert!(
                !self.changed.wait_until(&mut state, deadline).timed_out(),
                "waited 20 s until somebody came to {what}"
            );
        }
    }
    fn let_go(&self) {
        self.state.lock().1 = true;
        self.changed.notify_all();
    }
}

#[test]
fn readers_go_on_while_a_write_is_held_up_at_any_point() {
    // What a writer comes by itself: checkpoints, and what else is done now and then, go on beside
    // it (`beside`).
    let others = ["open.", "close.", "checkpoint.", "adopt.", "merge."];
    let is_of_a_write = |point: &&FailPoint| {
        point.kind() != FailPointKind::Housekeeping && !others.iter().any(|step| point.name().starts_with(step))
    };
    let points = FailPoint::ALL.iter().filter(is_of_a_write);
    for (point, strategy) in points.flat_map(|point| STRATEGIES.map(|strategy| (point, strategy))) {
        let Some(number) = refused::deeds_by_point(strategy).get(point) else { continue };
        let space = new_space(strategy);
        for deed in &DEEDS[..*number] {
            (deed.go)(&space).unwrap();
        }
        let gate = Arc::new(Gate::default());
        let points = FailPoints::new(space.directory.path());
        let at_gate = Arc::clone(&gate);
        points.set_callback(*point, move || at_gate.come_by());
        std::thread::scope(|scope| {
            let (sender, done) = std::sync::mpsc::channel();
            let space = &space;
            scope.spawn(move || sender.send((DEEDS[*number].go)(space)).unwrap());
            gate.wait_for_somebody(point.name());
            let began = Instant::now();
            for entry in space.vfs.walk(Protocol::Fuse, &TreePath::root()).unwrap() {
                // Gone in this moment, or read whole.
                if let Ok(file) = space.vfs.read(Protocol::Fuse, &entry.path) {
                    assert_eq!(file.etag, ETag::from_content(&file.content), "`{}` at `{}`", entry.path, point.name());
                }
            }
            assert!(
                began.elapsed() < Duration::from_secs(5),
                "reading waited for a write held up at `{}`",
                point.name()
            );
            points.clear(*point);
            gate.let_go();
            done.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
        });
    }
}

#[test]
fn a_directory_replacing_a_file_in_removal_moves_completely() {
    let space = TestSpace::new();
    space.put("notes", "a file without an extension");
    let gate = Arc::new(Gate::default());
    let points = FailPoints::new(space.directory.path());
    let at_gate = Arc::clone(&gate);
    points.set_callback(FailPoint::TreeDone, move || at_gate.come_by());
    space.vfs.apply(&eve(), ChangeSet::from(Change::remove(at("notes"))).soon()).unwrap();
    gate.wait_for_somebody("the removal");
    // The file is gone from the tree, and its removal from history is pending: so is the page.
    space.vfs.apply(&eve(), ChangeSet::from(Change::put(at("notes/page.md"), "text")).soon()).unwrap();
    std::thread::scope(|scope| {
        let (sender, begun) = std::sync::mpsc::channel();
        let vfs = &space.vfs;
        let rename = scope.spawn(move || {
            sender.send(()).unwrap();
            vfs.apply(&eve(), Change::rename(at("notes"), at("moved")))
        });
        begun.recv().unwrap();
        points.clear(FailPoint::TreeDone);
        gate.let_go();
        rename.join().unwrap().unwrap();
    });
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "moved/page.md\n");
    assert_eq!(space.text("moved/page.md"), "text");
}
