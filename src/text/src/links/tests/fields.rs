use proptest::prelude::*;

use super::retarget::OneMove;
use crate::frontmatter;
use crate::links::*;

fn keys() -> Vec<String> {
    ["contradicts", "see"].map(str::to_owned).to_vec()
}

fn of(text: &str) -> Vec<(String, String)> {
    let found = field_links(&frontmatter::parse(text).map, &keys());
    found.into_iter().map(|link| (link.target, link.context)).collect()
}

#[test]
fn what_fields_name_are_links_and_nothing_else_in_them_is() {
    let text = "---\nsee: [a, \"[[d/c#h|the third]]\", 7, true, {name: x}, '']\ncontradicts: the other\nrelated: b\n---\n[[body]]";
    let link = |target: &str, context: &str| (target.to_owned(), context.to_owned());
    let expected = [
        link("the other", "contradicts: the other"),
        link("a", "see: a"),
        link("d/c", "see: [[d/c#h|the third]]"),
        link("7", "see: 7"),
    ];
    assert_eq!(of(text), expected);
    let long = "x".repeat(1_000);
    assert_eq!(of(&format!("---\nsee: {long}\n---\n"))[0].1.len(), 240);
}

#[test]
fn field_links_follow_a_move_and_no_other_byte_changes() {
    let change = OneMove::new("p.md", "a/old.md", "a/new name.md", &["p.md", "other.md"]);
    let retargeted = |text: &str| retarget_fields(text, &keys(), PageMove::in_place("p.md"), &change);
    for (before, after, count) in [
        ("see: old  # why", "see: new name  # why", 1),
        ("see: 'old'", "see: 'new name'", 1),
        ("title: old\nsee: \"[[a/old#h|old]]\"", "title: old\nsee: \"[[a/new name#h|old]]\"", 1),
        ("see: [other, OLD.md, other]", "see: [other, new name.md, other]", 1),
        (
            "contradicts: old\nsee:\n  - other # o\n  - a/old",
            "contradicts: new name\nsee:\n  - other # o\n  - a/new name",
            2,
        ),
        ("see: [[old]]", "see: [[new name]]", 1),
        ("see: \"[the old one](a/old.md#h)\"", "see: \"[the old one](a/new%20name.md#h)\"", 1),
    ] {
        let page = |yaml: &str| format!("---\n{yaml}\n---\n\nsee: [[old]]\n");
        assert_eq!(retargeted(&page(before)), Some((page(after), count)), "{before}");
    }
    for same in ["see: other", "see: The Title", "related: old", "see: {name: old}", "see: [old"] {
        assert_eq!(retargeted(&format!("---\n{same}\n---\n")), None, "{same}");
    }
    assert_eq!(retargeted("see: old\n"), None, "no frontmatter");
}

proptest! {
    #[test]
    fn whatever_a_field_holds_the_rest_of_the_page_stays(yaml in "(see|title): .{0,30}(\nsee: (old|a/old|\\[old, x\\]))?") {
        let change = OneMove::new("p.md", "a/old.md", "a/new.md", &["p.md"]);
        let text = format!("---\n{yaml}\n---\nbody old\n");
        if let Some((new, count)) = retarget_fields(&text, &keys(), PageMove::in_place("p.md"), &change) {
            prop_assert!(count > 0);
            let (before, after) = (frontmatter::parse(&text).map, frontmatter::parse(&new).map);
            prop_assert_eq!(before.get("title"), after.get("title"));
            prop_assert!(new.ends_with("---\nbody old\n"));
        }
    }
}
