use serde_json::{Value, json};
use svcfs_base::{Caller, ETag, Precondition, Protocol};

use super::rules::{FormattedRules, RulesFormat, format_rules};
use crate::spaces::test_space::{TestSpace, status_and_error};

#[test]
fn a_theme_is_stored_verbatim_in_one_commit_per_change() {
    let space = TestSpace::new();
    assert_eq!(space.get("get_theme", json!({})), json!({}));
    let theme = json!({ "primary": "#8a2be2", "mode": "dark", "own": { "list": [1, null] } });
    assert_eq!(space.get("set_theme", json!({ "theme": theme })), theme);
    assert_eq!(space.get("get_theme", json!({})), theme);
    let versions = space.get("versions", json!({ "path": ".svc/theme.json" }));
    assert_eq!((&versions[0]["message"], &versions[0]["author"]), (&json!("theme: update"), &json!("svc")));
}

#[test]
fn what_is_no_theme_or_too_much_of_one_is_refused() {
    let space = TestSpace::new();
    for theme in [json!(null), json!([]), json!("dark"), json!(1)] {
        assert_eq!(space.refusal("set_theme", json!({ "theme": theme })).0, 400, "{theme}");
    }
    assert_eq!(space.refusal("set_theme", json!({})).0, 400);
    let (status, told) = space.refusal("set_theme", json!({ "theme": { "a": "x".repeat(64 << 10) } }));
    assert_eq!((status, told.as_str()), (413, "theme exceeds 64 KiB limit"));
    let broken = TestSpace::with("", &[(".svc/theme.json", "[1]")]);
    let (status, told) = broken.refusal("get_theme", json!({}));
    assert!(status == 400 && told.contains(".svc/theme.json") && told.contains("PUT /theme"), "{told}");
}

#[test]
fn a_theme_and_rules_that_are_not_what_the_caller_knows_stay() {
    let space = TestSpace::new();
    let caller =
        Caller { precondition: Precondition::OneOf(vec![ETag::from_content(b"other")]), ..Caller::new(Protocol::Http) };
    for (name, asked) in [("set_theme", json!({ "theme": {} })), ("set_rules", json!({ "content": "# Rules\n" }))] {
        assert_eq!(status_and_error(space.ask_as(&caller, name, asked)).0, 409, "{name}");
    }
    assert_eq!(space.get("get_theme", json!({})), json!({}));
}

#[test]
fn a_locked_theme_is_read_and_not_changed() {
    let space = TestSpace::with("[ui]\ntheme_locked = true\n", &[(".svc/theme.json", "{\"mode\":\"dark\"}")]);
    let (status, told) = space.refusal("set_theme", json!({ "theme": {} }));
    assert!(status == 403 && told.starts_with("theme editing is locked by admin"), "{told}");
    assert_eq!(space.get("get_theme", json!({})), json!({ "mode": "dark" }));
    assert_eq!(space.get("ui_config", json!({})), json!({ "themeLocked": true }));
    assert_eq!(TestSpace::new().get("ui_config", json!({})), json!({ "themeLocked": false }));
}

#[test]
fn rules_are_a_page_of_their_own_with_versions() {
    let space = TestSpace::new();
    assert_eq!(space.get("get_rules", json!({})), json!({ "content": "" }));
    let text = "# Rules\n\n-   Say why.   \n";
    let written = space.get("set_rules", json!({ "content": text }));
    assert_eq!((&written["status"], &written["path"]), (&json!("ok"), &json!(".svc/rules.md")));
    assert_eq!(space.get("get_rules", json!({})), json!({ "content": text }), "they stay as they were written");
    let versions = space.get("versions", json!({ "path": ".svc/rules.md" }));
    assert_eq!(versions[0]["message"], "rules: update");
    let (status, told) = space.refusal("set_rules", json!({ "content": "x".repeat((256 << 10) + 1) }));
    assert_eq!((status, told.as_str()), (413, "rules exceed 256 KiB limit"));
    assert_eq!(space.refusal("set_rules", json!({ "content": 1 })).0, 400);
    assert_eq!(space.refusal("get_rules", json!({ "format": "word" })).0, 400);
}

#[test]
fn rules_are_wrapped_as_each_program_reads_them() {
    let text = |format, rules| match format_rules(format, "team", rules) {
        FormattedRules::Text(text) => text,
        FormattedRules::Settings(settings) => panic!("{settings}"),
    };
    let cursor = text(RulesFormat::Cursor, "Say why.\n\n");
    assert!(
        cursor.starts_with("---\ndescription: ") && cursor.contains("\nglobs: \"**/*\"\nalwaysApply: true\n---\n"),
        "{cursor}"
    );
    assert!(cursor.contains("`svc_search`") && cursor.ends_with("## User rules\n\nSay why.\n"), "{cursor}");
    assert!(text(RulesFormat::Claude, "a").starts_with("## team Knowledge Base\n"));
    assert!(text(RulesFormat::Claude, " \n").ends_with("### Rules\n\n(no rules defined)\n"));
    assert!(text(RulesFormat::Agents, "a").ends_with("### Agent Rules\n\na\n"));
    let FormattedRules::Settings(settings) = format_rules(RulesFormat::Openclaw, "team", "a") else {
        panic!("settings are wanted")
    };
    let expected: Value = json!({ "svcfs": {
        "type": "mcp", "tools": ["write", "read", "search", "tree", "context"], "rules": "a",
    } });
    assert_eq!(settings, expected);
}
