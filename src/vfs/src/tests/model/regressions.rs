//! What random days of work have found.

use super::*;

#[test]
fn a_file_replacing_a_directory_is_alone_in_the_git_index() {
    run(&[
        Step::EditBehind { path: 18, text: 0 },
        Step::Write { path: 18, text: 0, is_soon: false },
        Step::Reopen,
        Step::RenameDirectory { which: 0, to: 6 },
        Step::Write { path: 3, text: 0, is_soon: false },
        Step::RenameDirectory { which: 0, to: 5 },
        Step::EditBehind { path: 3, text: 0 },
        Step::CommitBehind { path: 24, text: 0 },
    ]);
}

#[test]
fn a_window_that_came_to_nothing_stays_closed_after_a_crash() {
    // A directory that is to be removed closes it.
    run_in(
        TestSpace::gathering(NEVER, 2),
        &[
            Step::Many { writes: vec![(18, 0)], removed: 0, renamed: (0, 12) },
            Step::Rename { which: 0, to: 10, is_soon: false },
            Step::Remove { which: 0, is_soon: false },
            Step::RemoveDirectory { which: 0 },
            Step::Write { path: 3, text: 0, is_soon: false },
        ],
    );
}

#[test]
fn a_scratch_file_below_a_file_in_removal_is_installed_after_it() {
    let space = TestSpace::new();
    space.put("d", "text\n");
    space.vfs.apply(&fuse(), Change::put(at("e/c~"), "scratch\n")).unwrap();
    let stop = super::stop::Stop::at(&FailPoints::new(space.directory.path()), FailPoint::LogWrite);
    space.vfs.apply(&fuse(), ChangeSet::from(Change::remove(at("d"))).soon()).unwrap();
    stop.wait();
    std::thread::scope(|scope| {
        let both = ChangeSet::new(vec![Change::remove(at("e/c~")), Change::put(at("d/c~"), "scratch\n")]);
        let writer = scope.spawn(|| space.vfs.apply(&fuse(), both));
        space.wait_until("the first is done", |space| !space.directory.path().join("e/c~").exists());
        FailPoints::new(space.directory.path()).clear(FailPoint::LogWrite);
        stop.go_on();
        writer.join().unwrap().unwrap();
    });
    assert_eq!(space.text("d/c~"), "scratch\n");
}
