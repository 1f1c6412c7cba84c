//! A tree to work on: a real one where it is at hand, else one made here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The archive that is used; small enough to be adopted in a second.
const ARCHIVE: &str = "foam-docs.tar.xz";
const MADE_PAGES: usize = 300;

/// The last line of every page at the beginning: what the first edit of a page replaces.
pub const START: &str = "zqstart";

/// Fills a root with pages that end in a line [`START`].
pub fn unpack(root: &Path) {
    fill(root);
    mark(root);
}

fn mark(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            mark(&path);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("{}\n\n{START}\n", text.trim_end())).unwrap();
        }
    }
}

fn fill(root: &Path) {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpora");
    let archive = std::env::var_os("SVCFS_CORPORA").map_or(beside, PathBuf::from).join(ARCHIVE);
    if !archive.is_file() {
        println!("{} is not there: {MADE_PAGES} pages are made instead", archive.display());
        return make(root);
    }
    let status = Command::new("tar").arg("-xJf").arg(&archive).arg("-C").arg(root).status().unwrap();
    assert!(status.success(), "tar could not unpack {}", archive.display());
}

fn make(root: &Path) {
    for number in 0..MADE_PAGES {
        let (folder, next) = (root.join(format!("topic {}", number % 12)), (number + 1) % MADE_PAGES);
        fs::create_dir_all(&folder).unwrap();
        let text = format!("---\ntitle: Page {number}\n---\n\n# Page {number}\n\nThe next one is [[page{next}]].\n");
        fs::write(folder.join(format!("page{number}.md")), text).unwrap();
    }
}
