//! Remembering and forgetting, as docs/memory.md shows them.

use super::{block, commands, printed, type_commands};
use crate::harness::{Place, Running, svcfs};

#[test]
fn memories_work_as_documented() {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    let server = Running::serve(&place.at("notes"), &[]);
    for test in ["memory", "forget"] {
        let typed = block("docs/memory.md", test);
        let output = printed(&type_commands(&place, &format!("$ cd notes\n{typed}"), &[]));
        for line in commands(&typed).iter().flat_map(|command| &command.output) {
            for part in line.split('…').map(str::trim) {
                assert!(output.contains(part), "`{part}` is missing in:\n{output}");
            }
        }
    }
    server.stop();
}
