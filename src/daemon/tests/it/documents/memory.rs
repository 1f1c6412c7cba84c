//! Remembering and forgetting, as docs/memory.md shows them.

use super::undo::check;
use crate::harness::{Place, Running, svcfs};

#[test]
fn memories_work_as_documented() {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    let server = Running::serve(&place.at("notes"), &[]);
    for test in ["memory", "forget"] {
        check(&place, "docs/memory.md", test);
    }
    server.stop();
}
