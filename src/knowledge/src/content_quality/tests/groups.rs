//! Groups of findings, links to generated pages, lint errors.

use serde_json::{Value, json};
use svcfs_base::{Caller, Change, Protocol};

use super::messages;
use crate::spaces::test_space::{TestSpace, path};

fn group<'a>(found: &'a Value, message: &str) -> &'a Value {
    let groups = found["groups"].as_array().unwrap();
    groups.iter().find(|group| group["message"] == message).unwrap_or_else(|| panic!("{message}: {found:#}"))
}

fn page(title: &str, text: &str) -> String {
    format!("---\ntitle: {title}\n---\n[[index]] {text}\n")
}

#[test]
fn findings_of_the_same_reason_are_one_group() {
    let pages: Vec<(String, String)> =
        (0..7).map(|number| (format!("{number}.md"), page(&number.to_string(), "[[gone]] [[index]]"))).collect();
    let mut pages: Vec<(&str, &str)> = pages.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    pages.push(("index.md", "[[0]] [[1]] [[2]] [[3]] [[4]] [[5]] [[6]] [[nowhere]]\n"));
    let found = TestSpace::with("", &pages).get("janitor", json!({ "limit": 1 }));
    let expected = json!({
        "kind": "broken_link", "severity": "error", "message": "links to `gone`, which does not exist", "count": 7,
        "examples": ["0.md", "1.md", "2.md", "3.md", "4.md"],
    });
    assert_eq!(found["groups"][0], expected, "the largest of the most severe comes first");
    assert_eq!(group(&found, "links to `nowhere`, which does not exist")["count"], 1);
    assert_eq!(group(&found, "has no valid frontmatter")["examples"], json!(["index.md"]));
    assert_eq!((&found["broken_links"], found["issues"].as_array().unwrap().len()), (&json!(8), 1));
}

#[test]
fn many_reasons_of_one_kind_are_listed_up_to_a_limit() {
    let links: String = (0..50).map(|number| format!("[[gone {number}]] ")).collect();
    let found = TestSpace::with("", &[("index.md", &page("Home", &links))]).get("janitor", json!({}));
    let groups = found["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 21, "{found:#}");
    assert_eq!(groups[20]["count"], 30);
    assert_eq!(groups.iter().map(|group| group["count"].as_u64().unwrap()).sum::<u64>(), 50);
}

/// mdBook makes `x.html` of `x.md`, and `index.html` of `README.md`.
#[test]
fn links_to_generated_html_are_not_broken_when_the_page_exists() {
    let text =
        "[a](book.html) [b](book.html#part) [c](d/index.html) [d](real.html) [e](api/std.html) [f](gone.html) [[gone]]";
    let space = TestSpace::with(
        "",
        &[
            ("index.md", &page("Home", text)),
            ("book.md", &page("Book", "[[README]]")),
            ("d/README.md", &page("Part", "[[book]]")),
            ("real.html", "<p>"),
        ],
    );
    let found = space.get("janitor", json!({}));
    assert_eq!(found["broken_links"], 3, "{found:#}");
    assert_eq!(
        messages(&found, "index.md"),
        [
            "broken_link: links to `gone`, which does not exist",
            "broken_link: links to `api/std.html`, which does not exist",
            "broken_link: links to `gone.html`, which does not exist",
        ],
        "others come first"
    );
    let html = group(&found, "links to `.html` pages that no page of the tree is the source of");
    assert_eq!((&html["count"], &html["severity"]), (&json!(2), &json!("warning")));
    let checked = space.get("health_check", json!({ "path": "index.md" }));
    assert_eq!(checked["issues"].as_array().unwrap().len(), 3, "{checked}");
    space.put("gone.md", &page("Back", ""));
    assert_eq!(space.get("janitor", json!({}))["broken_links"], 1);
}

#[test]
fn lint_errors_of_stored_pages_are_findings() {
    let space = TestSpace::with("", &[("index.md", &page("Home", "[[bad]]"))]);
    let write = |text: &str| {
        let change = Change::put(path("bad.md"), text.to_owned());
        space.space().vfs.apply(&Caller::new(Protocol::WebDav), change).unwrap();
    };
    let table = page("Bad", "\n\n| a |\n|---|\n| 1 | 2 |\n\n| a |\n|---|\n| 1 | 2 |");
    write(&table);
    let found = space.get("janitor", json!({}));
    assert_eq!((&found["lint_errors"], &found["healthy"]), (&json!(1), &json!(1)), "{found:#}");
    let lint = json!({
        "kind": "lint_error", "severity": "error", "message": "table-column-mismatch", "count": 1, "examples": ["bad.md"],
    });
    assert_eq!(found["groups"], json!([lint]));
    assert_eq!(
        messages(&found, "bad.md")[0],
        "lint_error: table-column-mismatch (line 8): row has 2 columns, header has 1"
    );
    let checked = space.get("health_check", json!({ "path": "bad.md" }));
    assert_eq!(checked["issues"][0]["type"], "lint_error");
    write(&page("Bad", "repaired"));
    assert_eq!(space.get("janitor", json!({}))["lint_errors"], 0);
    let config = "[lint.rules]\ntable-column-mismatch = \"off\"\n";
    let space = TestSpace::with(config, &[("index.md", "text\n")]);
    space.put("bad.md", &table);
    assert_eq!(space.get("janitor", json!({}))["lint_errors"], 0);
}
