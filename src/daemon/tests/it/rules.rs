//! Rules for those who work here: written by a person, handed to programs.

use crate::harness::{Place, program, refusal, svcfs};

/// Edits the rules with this program in the place of an editor; what is told, and whether it went
/// well.
fn edit(place: &Place, editor: &str) -> (bool, String) {
    let mut command = program();
    command.env_remove("VISUAL").env("EDITOR", editor).env("TMPDIR", place.at("tmp"));
    let output = command.args(["rules", "edit", "--root", &place.at("kb")]).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn left(place: &Place) -> usize {
    std::fs::read_dir(place.path("tmp")).unwrap().count()
}

#[test]
fn rules_are_edited_as_page_versions_and_passed_to_programs() {
    let place = Place::with_root();
    let root = place.at("kb");
    std::fs::create_dir(place.path("tmp")).unwrap();
    let (is_done, told) = edit(&place, "printf 'Be kind.\\n' >");
    assert!(is_done && told.contains("were saved"), "{told}");
    assert_eq!(place.git("kb", &["log", "-1", "--format=%an: %s", "--", ".svc/rules.md"]), "tester: rules: update");
    assert!(edit(&place, "true").1.contains("nothing was changed"));
    let (is_done, told) = edit(&place, "false");
    assert!(!is_done && told.contains("the rules are unchanged, and your text is in"), "{told}");
    assert_eq!(left(&place), 1, "what was not written is kept, and nothing else");

    let export = |format: &[&str]| {
        let output = svcfs(&[&["rules", "export", "--root", &root], format].concat())
            .assert()
            .success()
            .get_output()
            .stdout
            .clone();
        String::from_utf8(output).unwrap()
    };
    assert_eq!(export(&[]), "Be kind.\n");
    assert!(export(&["--format", "cursor"]).contains("alwaysApply: true"));
    assert!(export(&["--format", "openclaw"]).contains("\"mcp\""));

    let app = place.at("app");
    std::fs::create_dir(&app).unwrap();
    assert!(refusal(&["rules", "sync", "--root", &root, &app], 3).contains("--format"));
    place.write("app/CLAUDE.md", "# Ours\n");
    svcfs(&["rules", "sync", "--root", &root, &app]).assert().success();
    svcfs(&["rules", "sync", "--root", &root, "--format", "agents", &app]).assert().success();
    let ours = place.read("app/CLAUDE.md");
    assert!(ours.starts_with("# Ours\n") && ours.contains("Be kind."), "{ours}");
    assert!(place.read("app/AGENTS.md").contains("### Agent Rules") && !place.has("app/.cursor"));
    assert!(edit(&place, "printf 'Be brief.\\n' >").0);
    svcfs(&["rules", "sync", "--root", &root, &app]).assert().success();
    let ours = place.read("app/CLAUDE.md");
    assert!(ours.starts_with("# Ours\n") && ours.contains("Be brief.") && !ours.contains("Be kind."), "{ours}");
}
