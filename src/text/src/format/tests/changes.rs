//! What a write formats of a page that is stored already, and constructs that always stay.

use std::borrow::Cow;

use super::super::{format, format_changes};
use super::corpora::html_of;

#[track_caller]
fn becomes(stored: &str, written: &str, expected: &str) {
    let formatted = format_changes(stored, written);
    assert_eq!(formatted, expected, "{written:?} over {stored:?}");
    assert_eq!(format_changes(stored, &formatted), formatted, "not settled");
    assert_eq!(format_changes(&formatted, &formatted), formatted, "put back");
}

#[test]
fn formulas_comments_and_html_stay() {
    for text in [
        "$$\na\n+ b\n* c\n$$\n",
        "$$\na \n\n\n\n\n* c\n$$\n",
        "$$\n|a|b|\n|1|2|\n$$\n",
        "text $$a\n* b$$ more\n",
        "- item\n\n  $$\n  + b\n  $$\n",
        "> $$\n> + b\n> $$\n",
        "so $a\n+ b$ it is\n",
        "\\[\n+ b\n\\]\n",
        "\\begin{align}\na\n+ b\n\\end{align}\n",
        "%%\n* hidden \n|a|b|\n|1|2|\n%%\n",
        "%% a\n\n* b\n\nc %%\n",
        "text <!-- a\n\n* b\n\n--> more\n",
        "<!--\n* a \n\n\n\n\n-->\n",
        "<div>\n* a \n</div>\n",
        "<details>\n<summary>x</summary>\n* a\n</details>\n",
        "$$\nnever closed\n\n* a \n",
    ] {
        assert!(matches!(format(text), Cow::Borrowed(_)), "{text:?} became {:?}", format(text));
    }
}

#[test]
fn text_beside_formulas_and_code_is_formatted() {
    for (text, formatted) in [
        ("$$\n+ b\n$$\n\ntext\n\n* c\n", "$$\n+ b\n$$\n\ntext\n\n- c\n"),
        ("* $$x + y$$ and $5\n* $6\n", "- $$x + y$$ and $5\n- $6\n"),
        ("`$$`\n\n* a\n", "`$$`\n\n- a\n"),
        ("```\n%%\n```\n\n* a\n", "```\n%%\n```\n\n- a\n"),
        ("%% note %%\n\n* a\n", "%% note %%\n\n- a\n"),
        ("> [!note] Title \n> * a\n", "> [!note] Title\n> - a\n"),
        ("Term\n: one \n\n* a\n", "Term\n: one\n\n- a\n"),
        ("x[^1]\n\n[^1]: note \n    * a\n", "x[^1]\n\n[^1]: note\n    - a\n"),
    ] {
        assert_eq!(format(text), formatted, "{text:?}");
        assert_eq!(html_of(text), html_of(formatted));
    }
}

/// `* - -` would become a rule: its bullet stays, the rest of the page is formatted.
#[test]
fn only_the_block_whose_rendering_would_change_stays() {
    let page = "* a\n\ntext \n\n* - -\n\ntext \n\n1. x\n   + y\n";
    assert_eq!(format(page), "- a\n\ntext\n\n* - -\n\ntext\n\n1. x\n   - y\n");
    assert_eq!(html_of(page), html_of(&format(page)));
}

#[test]
fn a_write_formats_the_lines_that_it_adds() {
    let stored = "# A\n\n* one \n* two\n\n|a|b|\n|-|-|\n|1|2|\n\n\n\n\nend";
    becomes(stored, stored, stored);
    for (added, formatted) in [
        ("text \n\n", "text\n\n"),
        ("+ x\n+ y \n\n", "- x\n- y\n\n"),
        ("|c|d|\n|3|4|\n\n", "| c   | d   |\n| --- | --- |\n| 3   | 4   |\n\n"),
        ("|c|d|\n|-|-|\n|[[p|q]]|4|\n\n", "| c        | d   |\n| -------- | --- |\n| [[p\\|q]] | 4   |\n\n"),
        ("a\n\n\n\n\nb\n\n", "a\n\n\nb\n\n"),
    ] {
        let [before, after] = ["# A\n\n", "* one \n* two\n\n|a|b|\n|-|-|\n|1|2|\n\n\n\n\nend"];
        let page = |added: &str| [before, added, "***\n\n", after].concat();
        becomes(stored, &page(added), &page(formatted));
    }
    becomes(stored, &[stored, "\n\n* x \n"].concat(), &[stored, "\n\n* x\n"].concat().replace("* x", "- x"));
    let above_blank_lines = |added: &str| stored.replace("\n\n\n\n\nend", &format!("\n\n{added}\n\n\n\n\nend"));
    becomes(stored, &above_blank_lines("new "), &above_blank_lines("new"));
    becomes("a\n\nb\n", "a\n\n\n\n\n\nb\n", "a\n\n\nb\n");
    becomes("a\n\n\n\nb\n", "a\n\n\n\n\nb\n", "a\n\n\n\n\nb\n");
    becomes(stored, &[stored, "\n\nlast "].concat(), &[stored, "\n\nlast\n"].concat());
}

#[test]
fn a_block_that_is_only_partly_new_retains_its_form() {
    becomes("* a\n* b\n", "* a\n* b\n* c\n", "* a\n* b\n* c\n");
    becomes("* a\n* b\n", "* a\n* b \n  + c\n", "* a\n* b\n  - c\n");
    becomes("|a|b|\n|-|-|\n|1|2|\n", "|a|b|\n|-|-|\n|1|2|\n|3|4|\n", "|a|b|\n|-|-|\n|1|2|\n|3|4|\n");
    becomes(
        "| a   | b   |\n| --- | --- |\n| 1   | 2   |\n",
        "| a   | b   |\n| --- | --- |\n| 1   | 2   |\n|3|4|\n",
        "| a   | b   |\n| --- | --- |\n| 1   | 2   |\n| 3   | 4   |\n",
    );
    becomes("|a|b|\n|-|-|\n|1|2|\n", "|a|b|\n|-|-|\n|1|2|\n|[[x|y]]|4|\n", "|a|b|\n|-|-|\n|1|2|\n| [[x\\|y]] | 4 |\n");
}

#[test]
fn line_endings_of_a_stored_page_stay() {
    becomes("a\r\nb \r\n", "a\r\nb \r\nc \r\n", "a\r\nb \r\nc\r\n");
    becomes("a\r\nb \r\n", "a\r\nb \r\n", "a\r\nb \r\n");
    becomes("a\r\nb\n", "a\r\nb\nc \n", "a\r\nb\nc \n");
    becomes("a\nb\n", "a\r\nb\r\nc \r\n", "a\nb\nc\n");
}
