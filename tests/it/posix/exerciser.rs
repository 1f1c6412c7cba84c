//! `fsx`: random operations on one file, each read compared with what was written.

use super::{Grounds, run_well, tool};

const SETTINGS: &str = include_str!("fsx.toml");
/// Operations on each file, unless `SVCFS_FSX_OPERATIONS` says how many.
const OPERATIONS: u64 = 2000;

fn exercise(file: &str) {
    let Some(program) = tool("fsx") else { return };
    let Some(grounds) = Grounds::new() else { return };
    let settings = grounds.aside("fsx.toml", SETTINGS);
    let operations = crate::crash::setting("SVCFS_FSX_OPERATIONS").unwrap_or(OPERATIONS).to_string();
    // What is left of a failure: the file as it should be, and the last operations.
    let artefacts = grounds.space.aside().to_str().unwrap().to_owned();
    for directory in [grounds.disk(), grounds.mount()] {
        let arguments = ["-f", settings.to_str().unwrap(), "-N", &operations, "-S", "1", "-P", &artefacts, file];
        run_well(&program, &arguments, &directory);
    }
}

/// Shows: MNT-9
#[test]
fn random_operations_on_an_asset_read_what_was_written() {
    exercise("asset.bin");
}

/// Shows: MNT-9
#[test]
fn random_operations_on_a_page_read_what_was_written() {
    exercise("page.md");
}
