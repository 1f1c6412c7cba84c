//! Editors that save while somebody types, page after page, as the system calls they make.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use svcfs_base::TreePath;

use crate::space::TestSpace;

const PAGES: usize = 200;
/// What is on the page at each save: nothing of it is a page that lint would take, until the last.
const TYPED: [&str; 4] = [
    "---\ntitle: {{title}}\n",
    "---\ntitle: {{title}}\n---\n\n```rust\nfn ma",
    "---\ntitle: [Page\n---\n\n| a | b |\n|---|---|\n| 1 |\n",
    "---\ntitle: Page\n---\n\n```rust\nfn main() {}\n```\n",
];

/// A save of a text at a path.
type Save = fn(&Path, &str) -> io::Result<()>;

/// The save patterns of editors.
const EDITORS: [(&str, Save); 7] = [
    ("obsidian", in_place),
    ("obsidian with times", in_place_with_times),
    ("code", emptied_and_flushed),
    ("code atomic", |page, text| renamed_over(page, ".vsctmp", text)),
    ("jetbrains", jetbrains),
    ("vim backupcopy=no", vim_backup),
    ("vim backupcopy=yes", vim_copy),
];

/// Closes and reports what the close says.
fn close(file: File) -> io::Result<()> {
    nix::unistd::close(file).map_err(io::Error::from)
}

fn beside(page: &Path, suffix: &str) -> PathBuf {
    let mut name = page.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Obsidian: `fs.writeFile`.
fn in_place(page: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o666).open(page)?;
    file.write_all(text.as_bytes())?;
    close(file)
}

/// The same with the times that Obsidian keeps of synchronized pages.
fn in_place_with_times(page: &Path, text: &str) -> io::Result<()> {
    in_place(page, text)?;
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 + text.len() as u64);
    File::open(page)?.set_times(fs::FileTimes::new().set_modified(time).set_accessed(time))
}

/// Visual Studio Code: emptied, written, flushed.
fn emptied_and_flushed(page: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(page)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    close(file)
}

/// A file beside it, flushed and renamed over it.
fn renamed_over(page: &Path, suffix: &str, text: &str) -> io::Result<()> {
    let beside = beside(page, suffix);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    close(file)?;
    fs::rename(beside, page)
}

/// JetBrains, "safe write".
fn jetbrains(page: &Path, text: &str) -> io::Result<()> {
    let (new, old) = (beside(page, "___jb_tmp___"), beside(page, "___jb_old___"));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    close(file)?;
    if page.exists() {
        fs::rename(page, &old)?;
        fs::rename(&new, page)?;
        fs::remove_file(old)
    } else {
        fs::rename(new, page)
    }
}

/// vim: the page becomes the backup, and a new file is written.
fn vim_backup(page: &Path, text: &str) -> io::Result<()> {
    let backup = beside(page, "~");
    let has_page = page.exists();
    if has_page {
        fs::rename(page, &backup)?;
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(page)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    close(file)?;
    if has_page { fs::remove_file(backup) } else { Ok(()) }
}

/// vim: the backup is a copy, and the page is written in place.
fn vim_copy(page: &Path, text: &str) -> io::Result<()> {
    let backup = beside(page, "~");
    let has_page = page.exists();
    if has_page {
        fs::copy(page, &backup)?;
    }
    emptied_and_flushed(page, text)?;
    if has_page { fs::remove_file(backup) } else { Ok(()) }
}

/// What each version of a page holds, oldest first.
fn versions(space: &TestSpace, page: &str) -> Vec<String> {
    let vfs = &space.space().vfs;
    let stored = vfs.stored_versions(&TreePath::parse(page).unwrap()).unwrap();
    let text = |version: svcfs_vfs::StoredVersion| vfs.stored_content(&version.content).unwrap();
    stored.into_iter().map(|version| String::from_utf8(text(version).to_vec()).unwrap()).collect()
}

/// Shows: MNT-6
#[test]
fn half_typed_pages_autosave_as_one_version_each_without_errors() {
    let Some(space) = TestSpace::as_shipped() else { return };
    let page = |number: usize| {
        let (editor, save) = EDITORS[number % EDITORS.len()];
        (format!("{}/page {number}.md", editor.replace(['=', ' '], "-")), editor, save)
    };
    for number in 0..EDITORS.len() {
        fs::create_dir_all(space.mountpoint().join(page(number).0).parent().unwrap()).unwrap();
    }
    // Page after page, as somebody types in one and another, and every editor is at work.
    for (round, typed) in TYPED.iter().enumerate() {
        for number in 0..PAGES {
            let (path, editor, save) = page(number);
            let text = format!("{typed}<!-- {number} -->\n");
            save(&space.mountpoint().join(&path), &text)
                .unwrap_or_else(|error| panic!("{editor}, save {round} of {path}: {error}"));
            assert_eq!(fs::read_to_string(space.mountpoint().join(&path)).unwrap(), text, "{editor}");
        }
    }
    space.settle();
    for number in 0..PAGES {
        let (path, editor, _) = page(number);
        let typed: Vec<_> = TYPED.iter().map(|typed| format!("{typed}<!-- {number} -->\n")).collect();
        assert_eq!(versions(&space, &path), typed, "{editor}: {path}");
    }
    assert!(!space.mountpoint().join(".svc/rejected").exists(), "nothing was refused");
    let listed = fs::read_dir(space.mountpoint().join("jetbrains")).unwrap().count();
    assert_eq!(
        listed,
        PAGES.div_ceil(EDITORS.len()) - usize::from(PAGES % EDITORS.len() <= 4),
        "no file is left beside"
    );
    let deleted = space.story().log.iter().any(|commit| commit.files.iter().any(|(what, _)| what == "D"));
    assert!(!deleted, "no page was ever away");
}
