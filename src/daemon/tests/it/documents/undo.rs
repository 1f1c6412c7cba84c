//! Undo and restore, as docs/working-together.md shows them.

use super::{block, commands, printed, type_commands};
use crate::harness::{Place, Running, svcfs};

/// Runs a block in a served root, and checks that what is printed has the documented lines.
pub(super) fn check(place: &Place, page: &str, test: &str) {
    let typed = block(page, test);
    let output = printed(&type_commands(place, &format!("$ cd notes\n{typed}"), &[]));
    for line in commands(&typed).iter().flat_map(|command| &command.output) {
        for part in line.split('…').map(str::trim) {
            assert!(output.contains(part), "`{part}` is missing in:\n{output}");
        }
    }
}

#[test]
fn undo_and_restore_work_as_documented() {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    let server = Running::serve(&place.at("notes"), &[]);
    check(&place, "docs/working-together.md", "undo");
    assert_eq!(place.read("notes/tides.md"), "# Tides\n\nHigh at noon.\n\nLow at seven.\n");
    check(&place, "docs/working-together.md", "restore");
    assert_eq!(place.read("notes/tides.md"), "# Tides\n\nHigh at noon.\n\nLow at six.\n");
    server.stop();
}
