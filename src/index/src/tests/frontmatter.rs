//! Frontmatter as the index sees it: broken, of other kinds, with tags in one text.

use serde_json::json;

use super::{Space, at};

#[test]
fn a_page_with_broken_frontmatter_is_indexed() {
    let space = Space::of(&[
        ("broken.md", "---\ntitle: Part 1: start\nowner: zebra\n---\n# Heading here\n\nwalrus [[target]]\n"),
        ("target.md", "# Target\n"),
    ]);
    assert_eq!(space.found("walrus"), ["broken.md"]);
    assert_eq!(space.found("headings:heading"), ["broken.md"]);
    assert_eq!(space.found("zebra"), ["broken.md"], "the text of the block is searched, too");
    assert_eq!(space.index.linking_pages(&at("target.md")).unwrap(), [at("broken.md")]);
    let page = space.index.page(&at("broken.md")).unwrap().unwrap();
    assert_eq!((page.title.as_str(), page.frontmatter.len()), ("Heading here", 0));
    let message = page.lint_error.unwrap();
    assert!(message.starts_with("frontmatter-yaml-invalid (line 2): "), "{message}");
}

#[test]
fn the_first_lint_error_follows_the_page() {
    let space =
        Space::of(&[("a.md", "```\nopen\n"), ("b.md", "fine\n"), ("c.md", "---\nx: [\n---\n| a |\n|---|---|\n")]);
    let errors = space.index.lint_errors().unwrap();
    assert_eq!(errors.keys().map(|path| path.as_str()).collect::<Vec<_>>(), ["a.md", "c.md"]);
    assert!(errors[&at("a.md")].starts_with("fence-unclosed (line 1): "), "{errors:?}");
    assert!(errors[&at("c.md")].starts_with("frontmatter-yaml-invalid (line 2): "), "{errors:?}");
    space.put(&[("a.md", "closed\n")]);
    space.remove("c.md");
    assert!(space.index.lint_errors().unwrap().is_empty());
}

#[test]
fn tags_in_one_text_are_the_same_tags_everywhere() {
    let pages: Vec<(String, String)> = ["a1, b1", "'#a1 #b1'", "a1 b1", "[a1, '#b1']", "['#a1 #b1']", "'#a1, #b1'"]
        .iter()
        .enumerate()
        .map(|(number, tags)| (format!("p{number}.md"), format!("---\ntags: {tags}\n---\ntext\n")))
        .collect();
    let pages: Vec<(&str, &str)> = pages.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let space = Space::of(&pages);
    let paths: Vec<&str> = pages.iter().map(|(path, _)| *path).collect();
    for q in ["tag:a1", "tag:b1", "tags:b1"] {
        let mut found = space.found(q);
        found.sort();
        assert_eq!(found, paths, "{q}");
    }
    assert_eq!(space.index.tags().unwrap(), ["a1", "b1"]);
    for (path, tags) in space.index.tags_by_page().unwrap() {
        assert_eq!(tags, ["a1", "b1"], "{path}");
    }
    space.put(&[("single.md", "---\ntags: solo\n---\n"), ("hash.md", "---\ntags: '#solo'\n---\n")]);
    assert_eq!(space.index.page(&at("single.md")).unwrap().unwrap().frontmatter["tags"], json!("solo"));
    assert_eq!(space.index.tags().unwrap(), ["a1", "b1", "solo"]);
}

#[test]
fn titles_come_from_level_1_headings_in_every_kind_of_page() {
    let space = Space::of(&[
        ("two.md", "## Second level\n"),
        ("mark.md", "\u{feff}---\ntitle: Marked\n---\n"),
        ("toml.md", "+++\ntitle = \"Tomlish\"\ntags = [\"x1\"]\ndraft = true\n+++\nbody\n"),
        ("rule.md", "---\n\nA sentence: here.\n\n# Ruled\n"),
        ("price.md", "---\ntitle: 1.10\nprice: 1.50\ncode: 007\n---\n"),
    ]);
    for (path, title) in
        [("two.md", "two"), ("mark.md", "Marked"), ("toml.md", "Tomlish"), ("rule.md", "Ruled"), ("price.md", "1.10")]
    {
        assert_eq!(space.index.page(&at(path)).unwrap().unwrap().title, title);
    }
    assert_eq!(space.found("tag:x1"), ["toml.md"]);
    assert_eq!(space.found("sentence"), ["rule.md"]);
    let price = space.index.page(&at("price.md")).unwrap().unwrap().frontmatter;
    assert_eq!(serde_json::to_value(price).unwrap(), json!({"title": "1.10", "price": 1.5, "code": "007"}));
}
