#![expect(clippy::disallowed_methods, reason = "a person edits the file")]

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::History;
use crate::history::tests::fixture;

/// Shows: EDIT-11
#[test]
fn an_existing_exclude_file_gets_the_svcfs_lines_once() {
    let fixture = fixture();
    let file = fixture.directory.path().join(".git/info/exclude");
    std::fs::write(&file, "mine").unwrap();
    for names in [vec!["*~".to_owned()], vec!["*~".to_owned(), "#*#".to_owned()]] {
        drop(History::open(fixture.directory.path(), &names).unwrap());
        drop(History::open(fixture.directory.path(), &names).unwrap());
    }
    std::fs::write(fixture.directory.path().join("#a#"), "").unwrap();
    std::fs::write(fixture.directory.path().join("b~"), "").unwrap();
    drop(History::open(fixture.directory.path(), &["*~", "#*#", "Thumbs.db"].map(str::to_owned)).unwrap());
    std::fs::write(fixture.directory.path().join("thumbs.DB"), "").unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("mine\n") && text.matches("/.svc/state/").count() == 1, "{text}");
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
}

/// Shows: EDIT-11
#[test]
fn an_exclude_file_is_replaced_atomically_only_when_different() {
    let fixture = fixture();
    let info = fixture.directory.path().join(".git/info");
    let file = info.join("exclude");
    let open = |name: &str| drop(History::open(fixture.directory.path(), &[name.to_owned()]).unwrap());
    // No UTF-8, and no newline at its end.
    std::fs::write(&file, b"# Geb\xe4ck\n*.tmp").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let mut before = std::fs::File::open(&file).unwrap();
    open("*~");
    let mut seen = Vec::new();
    before.read_to_end(&mut seen).unwrap();
    assert_eq!(seen, b"# Geb\xe4ck\n*.tmp", "whoever reads it meanwhile sees the old lines, whole");
    let text = std::fs::read(&file).unwrap();
    assert!(text.starts_with(b"# Geb\xe4ck\n*.tmp\n# svcfs: begin"), "{}", text.escape_ascii());
    let stat = std::fs::metadata(&file).unwrap();
    assert_eq!(stat.mode() & 0o777, 0o640);
    open("*~");
    assert_eq!(
        std::fs::metadata(&file).unwrap().ino(),
        stat.ino(),
        "it was as it should be, and is written all the same"
    );
    assert!(!info.join("exclude.new").exists());
}

#[test]
fn an_exclude_file_behind_a_link_stays_there() {
    let fixture = fixture();
    let file = fixture.directory.path().join(".git/info/exclude");
    let elsewhere = fixture.directory.path().join(".git/mine");
    std::fs::write(&elsewhere, "*.tmp\n").unwrap();
    std::fs::remove_file(&file).unwrap();
    symlink(&elsewhere, &file).unwrap();
    drop(History::open(fixture.directory.path(), &[]).unwrap());
    assert!(std::fs::symlink_metadata(&file).unwrap().is_symlink());
    let text = std::fs::read_to_string(&elsewhere).unwrap();
    assert!(text.starts_with("*.tmp\n# svcfs: begin"), "{text}");
}
