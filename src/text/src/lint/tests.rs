use super::*;

/// Every rule is on.
fn checked(text: &str) -> Vec<LintIssue> {
    let severities = RuleSeverities::default();
    lint_with(text, &RuleSeverities::new(|rule| severities.of(rule).or(Some(Severity::Warning))))
}

fn found(text: &str) -> Vec<(&'static str, usize, usize)> {
    checked(text).into_iter().map(|issue| (issue.rule.name(), issue.line, issue.column)).collect()
}

/// The issues of a body under a complete frontmatter of three lines.
fn in_body(body: &str) -> Vec<(&'static str, usize, usize)> {
    found(&format!("---\ntitle: T\n---\n{body}"))
}

#[test]
fn a_good_page_has_no_issues() {
    let body = "# A\n\n## B\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\n```mermaid\nflowchart LR\n```\n\n![x](y.png)\n";
    assert_eq!(in_body(body), []);
}

#[test]
fn unreadable_frontmatter_is_an_error_at_its_real_position() {
    assert_eq!(found("---\ntitle: [\n---\n"), [("frontmatter-yaml-invalid", 2, 8)]);
    assert_eq!(found("---\ntitle:x\n---\n"), [("frontmatter-yaml-invalid", 2, 1)]);
    assert_eq!(found("---\na: 1\na: 2\n---\n"), [("frontmatter-yaml-invalid", 3, 1)]);
    assert_eq!(found("---\ntitle: x\n\ntext\n"), [("frontmatter-yaml-invalid", 1, 1)]);
    assert_eq!(found("\u{feff}+++\ntitle = x\n+++\n"), [("frontmatter-yaml-invalid", 2, 9)]);
}

#[test]
fn a_page_without_title_is_a_warning() {
    for page in ["", "# Heading\n", "---\n---\n", "---\ntitle:\n---\n", "---\ntitle: ' '\n---\n", "---\nx\n"] {
        assert_eq!(found(page), [("frontmatter-missing-required", 1, 1)], "{page:?}");
    }
    assert_eq!(found("---\ntitle: 2026\n---\n"), []);
}

#[test]
fn dates_must_be_iso() {
    for good in [
        "2026-01-31",
        "2026-01-31T09:30:00Z",
        "2026-01-31T09:30:00+02:00",
        "2026-01-31 09:30",
        "\"2026-01-31\"",
        "",
        "~",
    ] {
        assert_eq!(found(&format!("---\ntitle: T\nupdated: {good}\n---\n")), [], "{good}");
    }
    for bad in ["31.01.2026", "2026-13-01", "2026-02-30", "yesterday", "2026", "[2026-01-31]", "true"] {
        let page = format!("---\ntitle: T\nx: 1\nlast-reviewed: {bad}\n---\n");
        assert_eq!(found(&page), [("frontmatter-date-invalid", 4, 1)], "{bad}");
    }
}

#[test]
fn rows_must_have_as_many_columns_as_the_header() {
    let body = "| a | b |\n|---|---|\n| 1 |\n| 1 | 2 |\n| 1 | 2 | 3 |\n| `x|y` | 2 |\n| 1\\|1 | 2 |\nno pipe\n";
    let lines: Vec<usize> = in_body(body).iter().map(|issue| issue.1).collect();
    assert_eq!(lines, [6, 8, 9, 11]);
    assert!(in_body(body).iter().all(|issue| issue.0 == "table-column-mismatch"));
    assert_eq!(in_body("> - | a | b |\n>   |---|---|\n>   | 1 |\n"), [("table-column-mismatch", 6, 5)]);
    assert_eq!(in_body("| a | b |\n|---|\n| 1 | 2 |\n"), [("table-column-mismatch", 5, 1)]);
}

#[test]
fn rows_without_separator_are_an_error_only_beyond_doubt() {
    assert_eq!(in_body("text\n\n| a | b |\n| 1 | 2 |\n"), [("table-no-separator", 6, 1)]);
    assert_eq!(in_body("> | a | b |\n> | 1 | 2 |\n"), [("table-no-separator", 4, 3)]);
    for prose in [
        "a | b\nc | d\n",
        "| one line |\n",
        "|x|\n|y|\n",
        "true || false\nx || y\n",
        "| a | b |\n",
        "| a | b |\nand then words\n",
        "`| a | b |`\n",
        "```\n| a | b |\n| 1 | 2 |\n```\n",
        "    | a | b |\n    | 1 | 2 |\n",
        "words\n| a | b |\n| 1 | 2 |\n",
        "| a poem\n| in lines\n",
        "a | b\n---\n",
        "a | b\n--|--\n1 | 2\n",
        "|a|\n|-|\n|1|\n",
        "P(A | B)\nP(B | A)\n",
        "| a | b |\n| - | - |\n",
    ] {
        assert_eq!(in_body(prose), [], "{prose:?}");
    }
}

#[test]
fn a_fence_must_be_closed_somewhere() {
    assert_eq!(in_body("text\n\n```rust\nfn x() {}\n"), [("fence-unclosed", 6, 1)]);
    assert_eq!(in_body("````\n```\n"), [("fence-unclosed", 4, 1)]);
    assert_eq!(in_body("~~~\n```\n"), [("fence-unclosed", 4, 1)]);
    assert_eq!(in_body("```"), [("fence-unclosed", 4, 1)]);
    assert_eq!(in_body("> ```\n> x\n"), [("fence-unclosed", 4, 3)]);
    for closed in [
        "```\n```\n",
        "```\n````\n",
        "> ```\n> x\n> ```\n",
        "> ```\n> x\n\nafter\n",
        "- ```\n  x\n  ```",
        "```\nx\n```  \n\n",
        "`` ` ``\n",
    ] {
        assert_eq!(in_body(closed), [], "{closed:?}");
    }
}

#[test]
fn mermaid_blocks_begin_with_a_kind_of_diagram() {
    for good in [
        "graph TD",
        "flowchart-elk LR",
        "sequenceDiagram\nA->>B: x",
        "stateDiagram-v2",
        "xychart-beta",
        "gitGraph:",
        "pie title X",
        "%% note\n\ngantt",
        "%%{init: {'theme': 'dark'}}%%\nmindmap",
        "%%{init: {\n'a': 1\n}}%%\njourney",
        "---\ntitle: x\n---\nerDiagram",
        "C4Context",
        "requirementDiagram",
    ] {
        assert_eq!(in_body(&format!("```mermaid\n{good}\n```\n")), [], "{good}");
    }
    for bad in ["", "  \n", "%% only a comment", "digraph G {}", "A --> B", "--> x"] {
        assert_eq!(in_body(&format!("~~~Mermaid\n{bad}\n~~~\n")), [("fence-mermaid-invalid", 4, 1)], "{bad}");
    }
    assert_eq!(in_body("```text\nnothing\n```\n"), []);
}

#[test]
fn headings_share_no_anchor_and_skip_no_level() {
    assert_eq!(in_body("# A b\n\n## A-b\n\n## C\n"), [("heading-duplicate-slug", 6, 1)]);
    assert_eq!(in_body("# 漢字\n\n## 日本\n"), []);
    assert_eq!(
        in_body("# A\n\n### B\n\n###### C\n\n## D\n"),
        [("heading-skip-level", 6, 1), ("heading-skip-level", 8, 1)]
    );
    assert_eq!(in_body("### First may be any\n"), []);
}

#[test]
fn an_image_needs_a_target() {
    assert_eq!(in_body("é ![alt]() and ![](<>)\n"), [("link-image-broken", 4, 3), ("link-image-broken", 4, 16)]);
    assert_eq!(in_body("`![]()` [x]() ![a](b.png)\n"), []);
}

#[test]
fn issues_are_ordered_and_explain_the_repair() {
    let issues = checked("| a | b |\n| 1 | 2 |\n\n```\n");
    let rules: Vec<_> = issues.iter().map(|issue| issue.rule).collect();
    assert_eq!(rules, [LintRule::FrontmatterMissingRequired, LintRule::TableNoSeparator, LintRule::FenceUnclosed]);
    let error = first_error(&issues).unwrap();
    assert_eq!(
        reject_message(error),
        "table-no-separator (line 1): table header is not followed by a separator; add a line like `| --- | --- |` under it"
    );
    assert_eq!(first_error(&lint("# only warnings\n")), None);
}

#[test]
fn lines_are_right_with_crlf_too() {
    assert_eq!(found("---\r\ntitle: T\r\n---\r\n\r\n```\r\nx\r\n"), [("fence-unclosed", 5, 1)]);
    assert_eq!(
        found("---\r\ntitle: T\r\n---\r\n| a | b |\r\n|---|---|\r\n| 1 |\r\n"),
        [("table-column-mismatch", 6, 1)]
    );
}

#[test]
fn the_wire_shape_uses_the_names_of_the_contract() {
    let issue = &lint("```\n")[0];
    assert_eq!(
        serde_json::to_string(issue).unwrap(),
        r#"{"rule":"fence-unclosed","line":1,"column":1,"message":"code fence is never closed; add a line ` ``` ` after the code","severity":"error"}"#
    );
    for rule in [LintRule::FrontmatterYamlInvalid, LintRule::LinkImageBroken, LintRule::HeadingSkipLevel] {
        assert_eq!(serde_json::to_value(rule).unwrap(), rule.name());
    }
}

#[test]
fn rules_that_are_off_report_nothing_and_others_have_their_severity() {
    assert_eq!(lint("# no title\n"), [], "a title is not required by default");
    let severities = RuleSeverities::new(|rule| match rule {
        LintRule::FenceUnclosed => None,
        LintRule::HeadingSkipLevel => Some(Severity::Error),
        _ => Some(Severity::Info),
    });
    let issues = lint_with("# A\n\n### B\n\n```\n", &severities);
    let found: Vec<_> = issues.iter().map(|issue| (issue.rule, issue.severity)).collect();
    assert_eq!(
        found,
        [(LintRule::FrontmatterMissingRequired, Severity::Info), (LintRule::HeadingSkipLevel, Severity::Error)]
    );
    for (index, rule) in LintRule::ALL.into_iter().enumerate() {
        assert_eq!(rule as usize, index, "the severities are indexed by it");
    }
}

#[test]
fn only_errors_that_the_stored_text_lacks_are_introduced() {
    let table = |row: &str| format!("| a | b |\n|---|---|\n{row}\n");
    let bad = table("| 1 | 2 | 3 |");
    let two = format!("{bad}\ntext\n\n{bad}");
    for (stored, text, line) in [
        ("", &*bad, Some(3)),
        ("text\n", &*bad, Some(3)),
        (&*bad, &*bad, None),
        (&*bad, &*format!("more\n\n{bad}\nand more\n"), None),
        (&*bad, &*table("| 1 | two | 3 |"), None),
        (&*bad, &*two, Some(9)),
        (&*two, &*bad, None),
        (&*two, &*format!("{two}\n```mermaid\n```\n"), Some(11)),
        (&*format!("{bad}\nA\n\nB\n"), &*format!("{}\nA\n\n{bad}", table("| 1 | 2 |")), Some(9)),
        (&*table("| 1 | 2 |"), "| a | b | c |\n|---|---|---|\n| 1 | 2 |\n", Some(3)),
        ("---\na: [\n---\n", "---\na: [\nb: {\n---\nmore\n", None),
        ("---\na: 1\n---\n", "---\na: [\n---\n", Some(2)),
        ("```\nx\n", "text\n\n```\nx\ny\n", None),
        ("```mermaid\n```\n", "text\n\n```mermaid\nwhat\n```\n", None),
    ] {
        let severities = RuleSeverities::default();
        let issues = lint(text);
        let introduced = introduced_error(stored, text, &issues, &severities).map(|issue| issue.line);
        assert_eq!(introduced, line, "{text:?} over {stored:?}");
    }
}
