//! A tree to work on: a copy of the vault in `tests/corpora`.

use std::fs;
use std::path::Path;

/// The last line of every page at the beginning: what the first edit of a page replaces.
pub const START: &str = "zqstart";

/// Pages that programs trip over: one with a byte order mark, one with CRLF, one whose name is in
/// NFD.
pub const SPECIAL: [&str; 3] = [
    "notes/From a Windows laptop.md",
    "notes/Typed on the loan laptop.md",
    "notes/Kra\u{308}uter fu\u{308}r Bienen.md",
];

/// Copies the vault into a root; each page ends in a line [`START`].
pub fn copy(root: &Path) {
    copy_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora/vault"), root);
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&path).unwrap();
            let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
            fs::write(&target, format!("{}{end}{end}{START}{end}", text.trim_end())).unwrap();
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
