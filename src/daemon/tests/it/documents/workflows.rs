//! The chapters about workflows, leases and tasks, as a reader types them.

use super::{block, commands, printed, type_commands};
use crate::harness::{Place, Running, can_mount, svcfs};

const PAGE: &str = "docs/working-together.md";

/// The lines that the page shows after its commands.
fn shown(test: &str) -> String {
    let lines = commands(&block(PAGE, test)).into_iter().flat_map(|command| command.output);
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_page_moves_through_a_workflow_as_documented() {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    std::fs::create_dir(place.path("mnt")).unwrap();
    let mount = place.at("mnt");
    let flags: &[&str] = if can_mount() { &["--mount", &mount] } else { &[] };
    let server = Running::serve(&place.at("notes"), flags);
    let address = server.url().trim_start_matches("http://").to_owned();
    let run = |test: &str| printed(&type_commands(&place, &block(PAGE, test), &[("127.0.0.1:3333", &address)]));
    assert_eq!(run("workflows"), shown("workflows"));
    if can_mount() {
        assert_eq!(run("board"), shown("board"));
        assert!(place.git("notes", &["show", "HEAD:posts/tides.md"]).contains("state: published\n"));
    }
    server.stop();
}

#[test]
fn pages_are_claimed_and_tasks_finished_as_documented() {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    let server = Running::serve(&place.at("notes"), &[]);
    let address = server.url().trim_start_matches("http://").to_owned();
    for test in ["leases", "tasks"] {
        let typed = printed(&type_commands(&place, &block(PAGE, test), &[("127.0.0.1:3333", &address)]));
        assert_eq!(typed, shown(test));
    }
    server.stop();
}
