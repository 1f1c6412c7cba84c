use imara_diff::{Algorithm, Diff, InternedInput};

use super::{ChangedLines, MergedPage, merge_page};

fn diff(old: &str, new: &str) -> Vec<ChangedLines> {
    let input = InternedInput::new(old, new);
    let diff = Diff::compute(Algorithm::Myers, &input);
    let range = |range: std::ops::Range<u32>| range.start as usize..range.end as usize;
    diff.hunks().map(|hunk| (range(hunk.before), range(hunk.after))).collect()
}

/// The merged text, and per conflict `key or - : first line - last line`.
fn merge(base: &str, ours: &str, theirs: &str) -> (String, Vec<String>) {
    let MergedPage { text, conflicts, .. } = merge_page((base, ours, theirs), diff);
    let name = |key: &Option<String>| key.clone().unwrap_or_else(|| "-".to_owned());
    (text, conflicts.iter().map(|found| format!("{}:{}-{}", name(&found.key), found.start, found.end)).collect())
}

/// Merges rows of base, ours, theirs, result; and with both sides exchanged, if nothing conflicts.
fn check(rows: &[(&str, &str, &str, &str, &[&str])]) {
    for (base, ours, theirs, expected, conflicts) in rows {
        let (text, found) = merge(base, ours, theirs);
        assert_eq!(text, *expected, "{base:?} {ours:?} {theirs:?}");
        assert_eq!(found, *conflicts, "{base:?} {ours:?} {theirs:?}");
        if conflicts.is_empty() {
            assert_eq!(merge(base, theirs, ours), (text, found), "exchanged: {base:?} {ours:?} {theirs:?}");
        }
    }
}

#[test]
fn bodies_are_merged_by_lines() {
    check(&[
        ("", "", "", "", &[]),
        ("a\n", "a\n", "a\n", "a\n", &[]),
        ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n", &[]),
        ("a\nb\nc\n", "a\nb\nc\nd\n", "0\na\nb\nc\n", "0\na\nb\nc\nd\n", &[]),
        ("a\nb\nc\n", "b\nc\n", "a\nb\n", "b\n", &[]),
        // the same change on both sides
        ("a\nb\n", "a\nx\n", "a\nx\n", "a\nx\n", &[]),
        // lines that touch
        ("a\nb\nc\n", "A\nb\nc\n", "a\nB\nc\n", "A\nb\nc\n", &["-:1-2"]),
        ("a\nb\n", "a\nx\n", "a\ny\n", "a\nx\n", &["-:2-2"]),
        // both add at the end
        ("a\n", "a\nx\n", "a\ny\n", "a\nx\n", &["-:2-2"]),
        // removed here, changed there
        ("a\nb\nc\n", "a\nc\n", "a\nB\nc\n", "a\nc\n", &["-:2-1"]),
        ("", "x\n", "y\n", "x\n", &["-:1-1"]),
        ("a\n", "", "b\n", "", &["-:1-0"]),
        // no line end at the end
        ("a\nb\nc", "A\nb\nc", "a\nb\nC", "A\nb\nC", &[]),
        ("a\nb\nc", "a\nb\nc\n", "A\nb\nc", "A\nb\nc\n", &[]),
        ("a\nb", "a\nb\n", "a\nB", "a\nb\n", &["-:2-2"]),
    ]);
}

#[test]
fn line_ends_and_byte_order_marks_are_of_the_page() {
    check(&[
        ("a\nb\nc\n", "A\r\nb\r\nc\r\n", "a\nb\nC\n", "A\r\nb\r\nC\r\n", &[]),
        ("a\r\nb\r\nc\r\n", "A\nb\nc\n", "a\r\nb\r\nC\r\n", "A\nb\nC\n", &[]),
        ("a\r\nb\r\nc\r\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n", &[]),
        ("a\r\nb\r\nc\r\n", "A\r\nb\r\nc\r\n", "a\r\nb\r\nC\r\n", "A\r\nb\r\nC\r\n", &[]),
        ("a\nb\nc\n", "A\r\nb\r\nc\r\n", "B\nb\nc\n", "A\r\nb\r\nc\r\n", &["-:1-1"]),
        // both kinds in one text: lines are compared as they are
        ("a\r\nb\nc\n", "A\nb\nc\n", "a\r\nb\nC\n", "A\nb\nC\n", &[]),
        ("a\nb\nc\n", "\u{feff}A\nb\nc\n", "a\nb\nC\n", "\u{feff}A\nb\nC\n", &[]),
        ("\u{feff}a\nb\nc\n", "\u{feff}A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n", &[]),
        (
            "\u{feff}---\na: 1\nb: 2\n---\nx\n",
            "\u{feff}---\r\na: 2\r\nb: 2\r\n---\r\nx\r\n",
            "\u{feff}---\na: 1\nb: 3\n---\nx\n",
            "\u{feff}---\r\na: 2\r\nb: 3\r\n---\r\nx\r\n",
            &[],
        ),
    ]);
}

#[test]
fn frontmatter_is_merged_by_keys() {
    check(&[
        // neighbouring lines
        (
            "---\na: 1\nb: 2\n---\nx\n",
            "---\na: 9\nb: 2\n---\nx\n",
            "---\na: 1\nb: 8\n---\nx\n",
            "---\na: 9\nb: 8\n---\nx\n",
            &[],
        ),
        // and the body
        ("---\na: 1\n---\nx\n", "---\na: 9\n---\nx\n", "---\na: 1\n---\ny\n", "---\na: 9\n---\ny\n", &[]),
        // one key, two values
        (
            "---\na: 1\nb: 2\n---\nx\ny\nz\n",
            "---\na: 1\nb: 3\n---\nX\ny\nz\n",
            "---\na: 1\nb: 4\n---\nx\ny\nZ\n",
            "---\na: 1\nb: 3\n---\nX\ny\nZ\n",
            &["b:3-3"],
        ),
        // removed here, unchanged or changed there
        ("---\na: 1\nb: 2\n---\n", "---\nb: 2\n---\n", "---\na: 1\nb: 3\n---\n", "---\nb: 3\n---\n", &[]),
        ("---\na: 1\nb: 2\n---\n", "---\nb: 2\n---\n", "---\na: 2\nb: 2\n---\n", "---\nb: 2\n---\n", &["a:3-2"]),
        ("---\na: 1\nb: 2\n---\n", "---\na: 2\nb: 2\n---\n", "---\nb: 2\n---\n", "---\na: 2\nb: 2\n---\n", &["a:2-2"]),
        // lists are values
        (
            "---\ntags: [a]\n---\n",
            "---\ntags: [a, b]\n---\n",
            "---\ntags: [a, c]\n---\n",
            "---\ntags: [a, b]\n---\n",
            &["tags:2-2"],
        ),
        // comments and quotes of both sides
        (
            "---\n# one\na: '1' # x\nb: \"2\"\nc: 3\n---\n",
            "---\n# one\na: '1' # x\nb: '3' # y\nc: 3\n---\n",
            "---\n# uno\na: '1' # x\nb: \"2\"\nc: 4\n---\n",
            "---\n# uno\na: '1' # x\nb: '3' # y\nc: 4\n---\n",
            &[],
        ),
        // block scalars
        (
            "---\na: |\n  x\n  # no comment\nb: 1\n---\n",
            "---\na: |\n  y\n  # no comment\nb: 1\n---\n",
            "---\na: |\n  x\n  # no comment\nb: 2\n---\n",
            "---\na: |\n  y\n  # no comment\nb: 2\n---\n",
            &[],
        ),
    ]);
}

#[test]
fn keys_keep_their_places() {
    check(&[
        // new ones after the key that they follow
        (
            "---\na: 1\nb: 2\n---\n",
            "---\na: 1\nx: 0\nb: 2\n---\n",
            "---\na: 1\nb: 2\ny: 0\n---\n",
            "---\na: 1\nx: 0\nb: 2\ny: 0\n---\n",
            &[],
        ),
        ("---\na: 1\n---\n", "---\nx: 0\na: 1\n---\n", "---\na: 2\n---\n", "---\nx: 0\na: 2\n---\n", &[]),
        // sorted by one side
        ("---\nb: 1\na: 1\n---\n", "---\na: 1\nb: 1\n---\n", "---\nb: 2\na: 1\n---\n", "---\na: 1\nb: 2\n---\n", &[]),
    ]);
    // what only one side writes first
    for (base, ours, theirs, expected) in [
        (
            "---\ntags:\n- a\n---\n",
            "---\ntags:\n- a\n- b\n---\n",
            "---\ntags: [a, b]\n---\n",
            "---\ntags:\n- a\n- b\n---\n",
        ),
        ("---\na: 1\n---\n", "---\na: 1\nx: 0\n---\n", "---\na: 1\ny: 0\n---\n", "---\na: 1\ny: 0\nx: 0\n---\n"),
        ("x\n", "---\na: 1\n---\nx\n", "---\nb: 2\n---\nx\n", "---\nb: 2\na: 1\n---\nx\n"),
        ("---\na: 1\nb: 2\n---\n", "---\na: x\nb: 2\n---\n", "---\na: \"x\"\nb: 3\n---\n", "---\na: x\nb: 3\n---\n"),
    ] {
        assert_eq!(merge(base, ours, theirs), (expected.to_owned(), Vec::new()), "{base:?} {ours:?} {theirs:?}");
    }
}

#[test]
fn blocks_appear_and_disappear() {
    check(&[
        ("x\ny\nz\n", "---\na: 1\n---\nx\ny\nz\n", "x\ny\nZ\n", "---\na: 1\n---\nx\ny\nZ\n", &[]),
        ("x\n", "---\na: 1\n---\nx\n", "---\na: 1\n---\nx\n", "---\na: 1\n---\nx\n", &[]),
        ("---\na: 1\n---\nx\n", "x\n", "---\na: 1\n---\ny\n", "y\n", &[]),
        ("---\na: 1\n---\nx\n", "x\n", "---\na: 2\n---\nx\n", "x\n", &["a:1-0"]),
        ("", "---\na: 1\n---", "x\n", "---\na: 1\n---\nx\n", &[]),
    ]);
}

#[test]
fn blocks_without_lines_of_keys_are_edited() {
    check(&[
        (
            "---\n{a: 1, b: 2}\n---\n",
            "---\n{a: 1, b: 3}\n---\n",
            "---\n{a: 1, b: 2}\n---\nx\n",
            "---\n{a: 1, b: 3}\n---\nx\n",
            &[],
        ),
        (
            "---\n{a: 1, b: 2}\n---\n",
            "---\n{a: 1, b: 3}\n---\n",
            "---\n{a: 4, b: 2}\n---\n",
            "---\n{a: 4, b: 3}\n---\n",
            &[],
        ),
        (
            "---\nx: &x 1\ny: *x\n---\n",
            "---\nx: &x 2\ny: *x\n---\n",
            "---\nx: &x 1\ny: *x\nz: 1\n---\n",
            "---\nx: &x 2\ny: *x\nz: 1\n---\n",
            &[],
        ),
    ]);
    let (_, found) = merge("---\n{a: 1}\n---\n", "---\n{a: 2}\n---\n", "---\n{a: 3}\n---\n");
    assert_eq!(found, ["a:2-2"]);
}

#[test]
fn toml_is_merged_by_keys() {
    check(&[
        (
            "+++\na = 1\nb = 2\n+++\n",
            "+++\na = 9\nb = 2\n+++\n",
            "+++\na = 1\nb = 8 # x\n+++\n",
            "+++\na = 9\nb = 8 # x\n+++\n",
            &[],
        ),
        (
            "+++\nd = 2024-01-01\nb = 2\n[t]\nx = 1\n+++\n",
            "+++\nd = 2024-01-02\nb = 2\n[t]\nx = 1\n+++\n",
            "+++\nd = 2024-01-01\nb = 2\nc = 3\n[t]\nx = 2\n+++\n",
            "+++\nd = 2024-01-02\nb = 2\nc = 3\n[t]\nx = 2\n+++\n",
            &[],
        ),
        ("+++\na = 1\n+++\n", "+++\na = 2\n+++\n", "+++\na = 3\n+++\n", "+++\na = 2\n+++\n", &["a:2-2"]),
    ]);
}

#[test]
fn broken_frontmatter_is_merged_by_lines() {
    check(&[
        (
            "---\na: [\nb: 1\nc: 2\n---\nx\n",
            "---\na: [\nb: 2\nc: 2\n---\nx\n",
            "---\na: [\nb: 1\nc: 2\n---\ny\n",
            "---\na: [\nb: 2\nc: 2\n---\ny\n",
            &[],
        ),
        (
            "---\na: 1\nb: 1\n---\n",
            "---\na: [\nb: 1\n---\n",
            "---\na: 1\nb: 2\n---\n",
            "---\na: [\nb: 1\n---\n",
            &["-:2-3"],
        ),
        ("---\na: 1\nno end\n", "---\na: 2\nno end\n", "---\na: 1\nno end\nx\n", "---\na: 2\nno end\nx\n", &[]),
        // YAML here, TOML there
        ("---\na: 1\n---\nx\n", "+++\na = 1\n+++\nx\n", "---\na: 1\n---\ny\n", "+++\na = 1\n+++\nx\n", &["-:1-4"]),
    ]);
}

#[test]
fn changes_made_alike_are_reported() {
    let has_same_changes = |base, ours, theirs| merge_page((base, ours, theirs), diff).has_same_changes;
    assert!(has_same_changes("1\n", "2\n", "2\n"));
    assert!(has_same_changes("a\nb\nc\nd\n", "a\nc\nD\n", "a\nc\nd\n"));
    assert!(has_same_changes("---\nn: 1\n---\nx\n", "---\nn: 2\n---\nx\n", "---\nn: 2\n---\ny\n"));
    assert!(!has_same_changes("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n"));
    assert!(!has_same_changes("---\nn: 1\nm: 1\n---\n", "---\nn: 2\nm: 1\n---\n", "---\nn: 1\nm: 2\n---\n"));
}

#[test]
fn a_conflict_has_the_three_texts() {
    let page = |value, line| format!("---\nstatus: {value}\n---\n\nfirst\n{line}\n");
    let merged = merge_page((&page("a", "x"), &page("b", "y"), &page("c", "z")), diff);
    let found: Vec<_> = merged.conflicts.iter().map(|it| [&*it.base, &*it.ours, &*it.theirs]).collect();
    assert_eq!(found, [["status: a\n", "status: b\n", "status: c\n"], ["x\n", "y\n", "z\n"]]);
    assert_eq!(merged.conflicts[1].start, 6);
    assert_eq!(merged.text, page("b", "y"));
}
