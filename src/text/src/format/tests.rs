mod changes;
mod corpora;

use proptest::prelude::*;

use super::*;

#[track_caller]
fn becomes(before: &str, after: &str) {
    assert_eq!(format(before), after, "{before:?}");
    assert_eq!(format(after), after, "not settled: {after:?}");
}

#[track_caller]
fn stays(text: &str) {
    assert!(matches!(format(text), Cow::Borrowed(_)), "{text:?} became {:?}", format(text));
}

#[test]
fn a_page_that_is_right_is_borrowed() {
    stays(
        "---\ntitle:   x\n---\n\n# A\n\n- b\n- c  \n  d\n\n1. e\n2. f\n\n| g   |\n| --- |\n| h   |\n\n```\ni   \n\n\n\n\n```\n",
    );
    stays("\n");
    stays("---\na: 1\n---\n");
}

#[test]
fn line_endings_become_lf_everywhere() {
    becomes("a\r\nb\rc\n", "a\nb\nc\n");
    becomes("---\r\nt: 1\r\n---\r\n\r\n```\r\nx\r\n```\r\n", "---\nt: 1\n---\n\n```\nx\n```\n");
}

#[test]
fn an_open_code_fence_is_closed_in_its_container() {
    becomes("```rust\nfn x() {}", "```rust\nfn x() {}\n```\n");
    becomes("~~~~\n~~~\n", "~~~~\n~~~\n~~~~\n");
    becomes("> ```\n> x\n", "> ```\n> x\n> ```\n");
    becomes("- a\n\n  ```\n  x\n", "- a\n\n  ```\n  x\n  ```\n");
    becomes("1. ```\n   x", "1. ```\n   x\n   ```\n");
    becomes("```", "```\n```\n");
    stays("- ```\n  x\n\nafter\n");
}

#[test]
fn tables_get_separators_cells_and_straight_columns() {
    becomes("|a|bb|\n|1|2|\n", "| a   | bb  |\n| --- | --- |\n| 1   | 2   |\n");
    becomes(
        "left | mid | right | none\n:-|:-:|-:|-\n1|2|3|4||\n6\n",
        "| left | mid | right | none |\n| :--- | :-: | ----: | ---- |\n| 1    |  2  |     3 | 4    |\n| 6    |     |       |      |\n",
    );
    becomes("> |a|\n> |-|\n> |é|\n", "> | a   |\n> | --- |\n> | é   |\n");
    becomes("- |a|\n  |-|\n  |b|\n", "- | a   |\n  | --- |\n  | b   |\n");
    becomes("| a\\|b |\n|-|\n", "| a\\|b |\n| ---- |\n");
}

#[test]
fn pipes_in_code_and_wiki_links_are_escaped_rather_than_cut_off() {
    becomes(
        "| a | b |\n|---|---|\n| `x|y` | 1 |\n| [[p|q]] | ``r`|s`` |\n",
        "| a        | b         |\n| -------- | --------- |\n| `x\\|y`   | 1         |\n| [[p\\|q]] | ``r`\\|s`` |\n",
    );
}

#[test]
fn tables_that_are_none_stay_prose() {
    stays("a | b\nc | d\n");
    stays("| a poem\n| in lines\n");
    stays("```\n|a|b|\n|1|2|\n```\n");
    stays("    |a|b|\n    |1|2|\n");
}

#[test]
fn a_table_with_one_huge_cell_is_not_blown_up() {
    let rows = "| x | y |\n".repeat(2_000);
    let text = format!("| a | {} |\n|---|---|\n{rows}", "w".repeat(20_000));
    assert!(format(&text).len() < text.len() + 1024);
}

#[test]
fn bullets_become_dashes_unless_they_keep_lists_apart() {
    becomes("* a\n* b\n  + c\n", "- a\n- b\n  - c\n");
    becomes(" * a\n   * b\n", " - a\n   - b\n");
    stays("- a\n\n* b\n");
    stays("* a\n+ b\n");
    stays("* * *\n");
    becomes("* a\n\n<!-- -->\n\n* b\n", "- a\n\n<!-- -->\n\n- b\n");
    becomes("> * a\n", "> - a\n");
    becomes("* [ ] task\n* [x] done\n", "- [ ] task\n- [x] done\n");
}

#[test]
fn numbers_of_lists_stay_as_they_are_written() {
    for list in [
        "1914. The war\n",
        "1986. A great year.\n1987. Another one.\n",
        "3. c\n4. d\n",
        "0. zero\n1. one\n",
        "10. ten\n9. nine\n8. eight\n",
        "1. a\n1. b\n1. c\n",
        "3) a\n9) b\n",
        "007. James\n",
        "1. a\n   1. x\n   1. y\n1. b\n",
        "1. a\n2. b\n\nbetween\n\n3. c\n",
        "1. a\n\nbetween\n\n7. c\n",
        "> 5. a\n> 7. b\n",
    ] {
        stays(list);
    }
    becomes("3. a \n   * b\n", "3. a\n   - b\n");
}

#[test]
fn white_space_at_line_ends_goes_and_hard_breaks_keep_two() {
    becomes("a \nb\t\nc  \nd     \ne", "a\nb\nc  \nd  \ne\n");
    becomes("a\n   \nb\n", "a\n\nb\n");
    stays("```\na   \n   \n```\n");
    stays("    code   \n\nx\n");
    stays("<pre>\nx   \n</pre>\n");
}

#[test]
fn blank_lines_and_the_last_line() {
    becomes("a\n\n\n\n\nb\n\n\n", "a\n\n\nb\n");
    becomes("\n\n\n\na", "\n\na\n");
    becomes("", "\n");
    becomes("\n\n\n", "\n");
    becomes(" \t\n ", "\n");
    becomes("---\na: 1\n---", "---\na: 1\n---\n");
    becomes("---\na: 1\n---\n\n\n\n", "---\na: 1\n---\n");
    stays("---\na: 1\n---\n\n\nx\n");
}

/// Shows: LINT-2
#[test]
fn text_beyond_the_last_column_is_never_cut_off() {
    let page = "|a|b|\n|-|-|\n|1|2|typed|\n";
    stays(page);
    let issues = crate::lint::lint(page);
    assert_eq!(crate::lint::first_error(&issues).map(|issue| issue.line), Some(3));
}

#[test]
fn frontmatter_is_copied_verbatim() {
    let page = "---\nlist:   \n  * a\n\n\n\n\n  * b \n| x | y |\n---\n* c\n";
    assert_eq!(format(page), page.replace("* c", "- c"));
}

#[test]
fn formatted_pages_pass_the_rules_that_formatting_repairs() {
    for page in ["|a|b|\n|1|2|\n", "|a|b|\n|-|-|\n|1|\n|1|2||\n", "```mermaid\ngantt\n", "> ~~~\n> x"] {
        let issues = crate::lint::lint(&format(page));
        assert_eq!(crate::lint::first_error(&issues), None, "{page:?}");
    }
}

/// Lines that, put together at random, make lists, quotes, tables and fences of every kind.
fn lines() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "[*+-] [a-c]{1,3}",
        "[0-9]{1,2}[.)] [a-c]{1,3}",
        " {1,5}[*+-] x",
        " {1,5}[0-9]{1,2}\\. y",
        "> [*+-] q",
        "> ?[a-c]{0,3} {0,3}",
        "\\|( [a-c`]{0,2} \\|){1,3}",
        "\\|( :?-{1,3}:? \\|){1,3}",
        "[a-c]\\|[a-c]",
        "(```|~~~|````) ?[a-c]?",
        " {1,6}[a-c]{1,4} {0,4}",
        "[a-c ]{0,5}",
        "#{1,3} [a-c]{0,2}",
        "(---|===|\\* \\* \\*)",
        "<(div|pre|!--)>",
        "(-->|</pre>)",
        "\t[a-c*]{0,3}\t",
        "\\[\\[a\\|b\\]\\]",
        "`[a|`]{0,5}",
        "\\[a\\]: b.md",
        "\\\\",
        "(\\$\\$|%%|\\$a|b\\$|\\$\\$x\\$\\$)",
        "> \\[!note\\] [a-c]{0,2} {0,2}",
        "(: d|\\[\\^1\\]: f|x\\[\\^1\\])",
        "[*_]{1,2}a[*_]{1,2}",
        "",
    ];
    prop::collection::vec((line, prop_oneof![8 => Just("\n"), 1 => Just("\r\n"), 1 => Just("  \n")]), 0..14)
        .prop_map(|lines| lines.into_iter().map(|(line, end)| line + end).collect())
}

/// The body, with what a closed fence adds to its last line.
fn body_of(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let body = &text[split(&text).body_offset..];
    let is_unclosed = crate::blocks::BodyBlocks::of(body).fences.last().is_some_and(|fence| fence.is_unclosed(body));
    [body, if is_unclosed && !body.ends_with('\n') { "\n" } else { "" }].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn formatting_twice_is_formatting_once(text in lines()) {
        let once = format(&text).into_owned();
        prop_assert_eq!(format(&once), once.as_str(), "from {:?}", text);
    }

    #[test]
    fn formatting_keeps_what_a_reader_sees(text in lines()) {
        let (before, after) = (body_of(&text), body_of(&format(&text)));
        // a separator that was put in makes a table of a paragraph, and an escaped pipe a cell
        let count = |body: &str, what: &str| body.matches(what).count();
        let tables = |body: &str| crate::blocks::BodyBlocks::of(body).tables.len();
        if tables(&before) == tables(&after) && count(&before, "\\|") == count(&after, "\\|") {
            prop_assert_eq!(corpora::html_of(&before), corpora::html_of(&after), "{:?} became {:?}", before, after);
        }
    }

    #[test]
    fn arbitrary_text_keeps_its_frontmatter(text in "(---\n)?(\\PC|\n|\r){0,60}") {
        let formatted = format(&text);
        prop_assert!(formatted.ends_with('\n') && !formatted.contains('\r'));
        let unix = text.replace("\r\n", "\n").replace('\r', "\n");
        prop_assert_eq!(split(&formatted).yaml, split(&unix).yaml);
    }
}

#[test]
fn text_below_a_last_line_without_line_end_does_not_change_that_line() {
    for last in ["| a | b |\n|---|---|\n| 1 | `x|y` |", "text\n* star", "text \t\nblanks  ", "a\r\n* star"] {
        let line_end = if last.contains('\r') { "\r\n" } else { "\n" };
        for below in ["End", "- list"] {
            let written = [last, line_end, line_end, below, line_end].concat();
            assert_eq!(format_changes(last, &written), written, "{last:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_page_that_is_put_back_is_unchanged(text in lines()) {
        prop_assert!(matches!(format_changes(&text, &text), Cow::Borrowed(_)));
    }

    #[test]
    fn only_new_lines_are_formatted((above, text, below) in (lines(), lines(), lines())) {
        let stored = [&*above, &below].concat();
        let written = [&*above, &text, &below].concat();
        let formatted = format_changes(&stored, &written).into_owned();
        prop_assert_eq!(&format_changes(&stored, &formatted), &formatted, "not settled");
        let (mut rest, mut lost) = (formatted.lines(), Vec::new());
        for line in stored.lines().filter(|line| !line.trim().is_empty()) {
            if !rest.any(|other| other.trim_end() == line.trim_end()) {
                lost.push(line.to_owned());
            }
        }
        let is_converted = formatted.matches('\r').count() != written.matches('\r').count();
        prop_assert!(is_converted || lost.is_empty(), "{:?} over {:?} became {:?}, lost {:?}", written, stored, formatted, lost);
    }
}
