//! A tree as it lies on the disk.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use svcfs_base::ETag;

/// Every file and link below a folder with its git blob hash, without git's and svcfs's own state.
pub fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    add(folder, "", &mut found);
    found
}

fn add(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if path == ".git" || path == ".svc/state" || path == ".versions" {
            continue;
        }
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            add(&entry.path(), &format!("{path}/"), found);
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap();
            found.insert(path, ETag::from_content(target.as_os_str().as_bytes()).to_string());
        } else {
            found.insert(path, ETag::from_content(&fs::read(entry.path()).unwrap()).to_string());
        }
    }
}
