//! The example of docs/canvas.md.

use super::{block, commands, printed, type_commands};
use crate::harness::{Place, Running, svcfs};

#[test]
fn canvases_work_as_documented() {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    let server = Running::serve(&place.at("notes"), &[]);
    let address = server.url().trim_start_matches("http://").to_owned();
    let typed = block("docs/canvas.md", "canvas");
    let output = printed(&type_commands(&place, &typed, &[("127.0.0.1:3333", &address)]));
    for command in commands(&typed) {
        for line in &command.output {
            // Hashes differ.
            let known: Vec<&str> = line.split('…').collect();
            let is_printed = output.lines().any(|printed| known.iter().all(|part| printed.contains(part)));
            assert!(is_printed, "`{line}` of {} is not in {output}", command.text);
        }
    }
    server.stop();
}
