//! What lint refuses.

use std::fs::{self, File};
use std::process::Command;

use super::played;
use crate::protocols::GUEST;
use crate::protocols::kernel::save;
use crate::space::TestSpace;

const GOOD: &[u8] = b"# Good\n\ngoodword\n";
/// Pages with a lint error that tidying cannot repair.
const BAD: [&str; 2] = ["---\ntitle: [never closed\n---\n\nbadword\n", "# Bad\n\n```mermaid\nbadword\n```\n"];

#[test]
fn a_refused_write_leaves_everything_as_it_was() {
    played("lint_refusal", |protocol, space| {
        protocol.write("a.md", GOOD).unwrap();
        for bad in BAD {
            protocol.write("a.md", bad.as_bytes()).unwrap_err();
            protocol.write("new/b.md", bad.as_bytes()).unwrap_err();
            assert_eq!(space.text("a.md").as_bytes(), GOOD, "the last good version stays");
            assert!(space.client().found("badword").is_empty());
        }
        assert_eq!(space.client().found("goodword"), ["a.md"]);
        protocol.write("a.md", b"# Good\n\nbetterword\n").unwrap();
        assert_eq!(protocol.read("a.md").unwrap(), b"# Good\n\nbetterword\n");
    });
}

#[test]
fn a_save_rejected_through_the_mount_is_preserved_and_explained() {
    let Some(space) = TestSpace::mounted() else { return };
    let page = space.mountpoint().join("d/a.md");
    fs::create_dir(space.mountpoint().join("d")).unwrap();
    save(File::create(&page).unwrap(), GOOD).unwrap();
    let refusal = save(File::create(&page).unwrap(), BAD[0].as_bytes()).unwrap_err();
    assert!(refusal.starts_with("EINVAL"), "{refusal}");
    assert_eq!(space.text("d/a.md").as_bytes(), GOOD, "the last good version stays");
    assert_eq!(fs::read(space.mountpoint().join(".svc/rejected/d/a.md")).unwrap(), BAD[0].as_bytes());
    let mut room = [0; 1024];
    let length = rustix::fs::getxattr(&page, "user.svc.lint", &mut room).unwrap();
    let reason = String::from_utf8_lossy(&room[..length]);
    assert!(reason.contains("frontmatter"), "{reason}");
    assert_eq!(space.story().log.len(), 1);
    save(File::create(&page).unwrap(), b"# Better\n").unwrap();
    space.settle();
    assert!(!space.mountpoint().join(".svc/rejected/d/a.md").exists(), "kept until the next accepted write");
    let story = space.story();
    assert_eq!((story.log.len(), story.tree.len()), (2, 1), "{}", story.told());
    assert_ne!(story.log[1].author, GUEST);
}

/// Shows: LINT-7
#[test]
fn a_page_written_by_several_programs_of_a_shell_is_complete() {
    let Some(space) = TestSpace::mounted() else { return };
    let page = space.mountpoint().join("report.md");
    save(File::create(&page).unwrap(), b"---\ntitle: Yesterday\n---\n\nA page that is longer than what comes.\n")
        .unwrap();
    // What is there when the first program ends is a page that lint refuses; the whole is none.
    let programs = "( echo '# Report'; /bin/echo '```'; test -e .svc/rejected/report.md || exit 3; uname -s; echo '```' ) > report.md";
    let status = Command::new("sh").args(["-c", programs]).current_dir(space.mountpoint()).status().unwrap();
    assert!(status.success());
    space.settle();
    assert_eq!(space.text("report.md"), "# Report\n```\nLinux\n```\n");
    assert!(!space.root().join(".svc/rejected/report.md").exists(), "accepted");
}
