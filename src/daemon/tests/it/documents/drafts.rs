//! The example of drafts in docs/working-together.md.

use super::{block, commands, printed, type_commands};
use crate::harness::{Place, Running, can_mount, svcfs};

#[test]
fn a_part_of_a_draft_is_merged_as_documented() {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    std::fs::create_dir(place.path("mnt")).unwrap();
    let mount = place.at("mnt");
    let flags: &[&str] = if can_mount() { &["--mount", &mount] } else { &[] };
    let server = Running::serve(&place.at("notes"), flags);
    let address = server.url().trim_start_matches("http://").to_owned();
    let typed = block("docs/working-together.md", "drafts");
    let output = printed(&type_commands(&place, &typed, &[("127.0.0.1:3333", &address)]));
    for command in commands(&typed) {
        for line in command.output.iter().filter(|line| !line.contains('…')) {
            // The answers of `curl` end without a line break.
            assert!(
                output.lines().any(|printed| printed.ends_with(line.as_str())),
                "`{line}` of {} is not in {output}",
                command.text
            );
        }
    }
    let log = place.git("notes", &["log", "-1", "--format=%an %(trailers:key=Merged-by,valueonly)"]);
    assert_eq!(log.trim(), "agent Ann <svc@internal>");
    if can_mount() {
        let typed = block("docs/working-together.md", "draft-mount");
        let expected: Vec<String> = commands(&typed).into_iter().flat_map(|command| command.output).collect();
        let output = printed(&type_commands(&place, &typed, &[("127.0.0.1:3333", &address)]));
        assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    }
    server.stop();
}

#[test]
fn a_key_of_scope_propose_writes_in_a_draft_as_documented() {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    let server = Running::serve(&place.at("notes"), &[]);
    let address = server.url().trim_start_matches("http://").to_owned();
    let typed = block("docs/working-together.md", "propose");
    let output = printed(&type_commands(&place, &typed, &[("127.0.0.1:3333", &address)]));
    for line in commands(&typed).iter().flat_map(|command| &command.output) {
        assert!(output.lines().any(|printed| printed.ends_with(line.as_str())), "`{line}` is not in {output}");
    }
    let log = place.git("notes", &["log", "-1", "--format=%an %(trailers:key=Merged-by,valueonly)"]);
    assert_eq!(log.trim(), "agent Ann <svc@internal>");
    server.stop();
}
