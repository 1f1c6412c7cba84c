//! The examples of `docs/working-together.md`.

use super::{block, commands, printed, type_commands};
use crate::harness::{Place, Running, svcfs};

/// Runs the commands of a block on a new server; each line of output of the page begins a line of
/// what they print, in this order.
#[track_caller]
fn run_as_documented(test: &str) {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    let server = Running::serve(&place.at("notes"), &[]);
    let address = server.url().trim_start_matches("http://").to_owned();
    let block = block("docs/working-together.md", test);
    // Answers have no line end of their own; `svcfs janitor` exits with 1 when it has findings.
    let typed = block
        .replace("\n$ ", "\n$ echo\n$ ")
        .replace("svcfs janitor --root notes", "svcfs janitor --root notes || true");
    let output = printed(&type_commands(&place, &typed, &[("127.0.0.1:3333", &address)]));
    let mut rest = output.as_str();
    for expected in commands(&block).iter().flat_map(|command| &command.output) {
        let (_, after) = rest.split_once(expected).unwrap_or_else(|| panic!("`{expected}` is not in\n{rest}"));
        rest = after;
    }
    server.stop();
}

#[test]
fn schemas_work_as_documented() {
    run_as_documented("schemas");
}

#[test]
fn append_only_pages_work_as_documented() {
    run_as_documented("append-only");
}
