//! No file of this binary is forgotten: one that no `mod` line mentions would look like a test and
//! never run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Compares the files of a folder with the `mod` lines of the file that speaks for it, and goes
/// down into its folders.
fn compare(folder: &Path, speaker: &str, forgotten: &mut Vec<String>) {
    let text = fs::read_to_string(folder.join(speaker)).unwrap_or_default();
    let listed: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let is_folder = entry.file_type().unwrap().is_dir();
        let module = if is_folder { Some(name.as_str()) } else { name.strip_suffix(".rs") };
        let Some(module) = module.filter(|module| !matches!(*module, "snapshots" | "corpora") && name != speaker)
        else {
            continue;
        };
        if !listed.contains(module) {
            forgotten.push(entry.path().display().to_string());
        }
        if is_folder {
            compare(&entry.path(), "mod.rs", forgotten);
        }
    }
}

#[test]
fn no_file_is_forgotten() {
    let mut forgotten = Vec::new();
    compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join("it"), "main.rs", &mut forgotten);
    assert!(forgotten.is_empty(), "no `mod` line mentions {forgotten:?}");
}
