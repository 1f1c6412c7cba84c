use super::*;

#[test]
fn a_path_is_normalised_once_on_entry() {
    for (given, kept) in
        [("/a/b.md", "a/b.md"), ("a//b", "a/b"), ("./a/./b/", "a/b"), ("/", ""), ("", ""), ("ä/日.md", "ä/日.md")]
    {
        assert_eq!(TreePath::parse(given).unwrap().as_str(), kept, "{given}");
    }
}

/// Shows: PATH-3
#[test]
fn climbing_out_is_refused_in_every_spelling() {
    for path in
        ["..", "../x", "a/../b", "/..", "%2e%2e/x", "a/%2E%2e", "..%2fetc", "%252e%252e%252fx", "a/..%5cb", "x%00y"]
    {
        let fault = TreePath::parse(path).unwrap_err();
        assert_eq!(fault.kind(), Kind::Invalid, "{path}");
        assert!(fault.message().starts_with("path denied: "), "{path}: {fault}");
    }
}

#[test]
fn percent_signs_and_dots_that_do_not_climb_are_ordinary() {
    for path in ["100%.md", "a%2fb.md", "...", "a..b", "50%zz", "%e4.md"] {
        assert_eq!(TreePath::parse(path).unwrap().as_str(), path);
    }
}

#[test]
fn control_characters_and_long_names_are_refused() {
    assert_eq!(TreePath::parse("a\0b").unwrap_err().kind(), Kind::Invalid);
    assert_eq!(TreePath::parse("a\tb").unwrap_err().kind(), Kind::Invalid);
    assert_eq!(TreePath::parse(&"x".repeat(256)).unwrap_err().kind(), Kind::NameTooLong);
    assert!(TreePath::parse(&"x".repeat(255)).is_ok());
    assert_eq!(TreePath::parse(&"x/".repeat(3000)).unwrap_err().kind(), Kind::NameTooLong);
}

#[test]
fn parents_names_and_moves_follow_the_components() {
    let path = TreePath::parse("a/b/c.tar.gz").unwrap();
    assert_eq!(path.parent().unwrap().as_str(), "a/b");
    assert_eq!((path.name(), path.stem(), path.extension().as_deref()), ("c.tar.gz", "c.tar", Some("gz")));
    assert_eq!(path.ancestors().map(|p| p.to_string()).collect::<Vec<_>>(), ["a/b", "a", ""]);
    let from = TreePath::parse("a").unwrap();
    assert_eq!(path.rebase(&from, &TreePath::parse("x/y").unwrap()).unwrap().as_str(), "x/y/b/c.tar.gz");
    assert_eq!(path.rebase(&from, &TreePath::root()).unwrap().as_str(), "b/c.tar.gz");
    assert!(TreePath::parse("ab/c").unwrap().rebase(&from, &TreePath::root()).is_none());
    assert!(TreePath::root().parent().is_none());
}

#[test]
fn a_refused_path_names_its_reason_when_it_comes_as_json() {
    let error = serde_json::from_str::<TreePath>("\"../x\"").unwrap_err();
    assert!(error.to_string().starts_with("path denied: `..`"), "{error}");
}

#[test]
fn a_page_named_by_dots_alone_is_no_hidden_name() {
    for (name, is_hidden) in [
        ("..md", false),
        ("...md", false),
        ("....MD", false),
        (".md", true),
        (".a.md", true),
        ("..a.md", true),
        ("...", true),
        (".svc", true),
        ("..txt", true),
        ("a.md", false),
        ("é", false),
        (".é", true),
    ] {
        assert_eq!(is_hidden_name(name), is_hidden, "{name}");
        assert_eq!(TreePath::parse(&format!("d/{name}")).unwrap().is_hidden(), is_hidden, "{name}");
    }
    assert!(TreePath::parse("d/..md").unwrap().is_page());
    assert!(TreePath::parse(".../a.md").unwrap().is_hidden());
}
