//! Edits of parts of a text: exact replacements and sections.
//!
//! Invariant: each edit has one place in the text, or none of the edits is made. They are made in
//! order, each in the text that the earlier ones made.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;
use svcfs_base::{Fault, Kind, MAX_PAGE_BYTES, TreePath};
use svcfs_text::fold::fold_name;
use svcfs_text::headings::{Heading, headings, slug};
use svcfs_text::sections::{SectionSelector, section};

/// Places of a text that are counted: more are as good as many.
const MAX_COUNTED: usize = 1_000;

/// Bytes that are compared to count them.
const MAX_COMPARED_BYTES: usize = 64 << 20;

/// Places that an error names.
const MAX_NAMED: usize = 5;

/// Characters of a line in an error.
const MAX_LINE_CHARS: usize = 80;

/// One edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextEdit {
    /// Replaces a text that occurs once.
    Replace {
        /// The text.
        old: String,
        /// What replaces it.
        new: String,
    },
    /// Changes the text of a section.
    Section {
        /// Its heading.
        heading: String,
        /// What happens to its text.
        mode: SectionEdit,
        /// The new text.
        text: String,
    },
}

/// How a section is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum SectionEdit {
    /// Replace everything below its heading, subsections included.
    #[default]
    Replace,
    /// Add the text at its end, after its subsections.
    Append,
    /// Add the text directly below its heading.
    Prepend,
}

/// The text after all edits.
///
/// # Errors
/// `Invalid`, naming the edit and what to send instead; `TooLarge` for the result.
pub fn apply(path: &TreePath, text: &str, edits: &[TextEdit]) -> Result<String, Fault> {
    let mut text = Cow::Borrowed(text);
    for (index, edit) in edits.iter().enumerate() {
        let edited = match edit {
            TextEdit::Replace { old, new } => replace((path, index), &text, old, new)?,
            TextEdit::Section { heading, mode, text: addition } => {
                edit_section((path, index), &text, (heading, *mode), addition)?
            }
        };
        if edited.len() > MAX_PAGE_BYTES {
            return Err(Fault::too_large("the edited file", MAX_PAGE_BYTES));
        }
        text = Cow::Owned(edited);
    }
    Ok(text.into_owned())
}

/// A text with the line endings of the page: agents see and send `\n`.
fn with_endings_of<'t>(page: &str, text: &'t str) -> Cow<'t, str> {
    if page.contains("\r\n") && text.contains('\n') && !text.contains('\r') {
        Cow::Owned(text.replace('\n', "\r\n"))
    } else {
        Cow::Borrowed(text)
    }
}

fn replace(place: (&TreePath, usize), text: &str, old: &str, new: &str) -> Result<String, Fault> {
    // A page may have lines with either ending.
    let is_there = old.contains('\n') && !old.contains('\r') && text.contains(old);
    let (old, new) = match is_there {
        true => (Cow::Borrowed(old), Cow::Borrowed(new)),
        false => (with_endings_of(text, old), with_endings_of(text, new)),
    };
    let found = occurrences(text, &old);
    match found[..] {
        [at] => Ok([&text[..at], &*new, &text[at + old.len()..]].concat()),
        [] => Err(not_found(place, text, &old)),
        _ => Err(ambiguous(place, text, (&found, max_counted(&old)))),
    }
}

/// Places that are counted of a text: fewer of a long one.
fn max_counted(wanted: &str) -> usize {
    (MAX_COMPARED_BYTES / wanted.len().max(1)).clamp(2, MAX_COUNTED)
}

/// The offsets of a text, overlapping ones included: the first [`max_counted`].
fn occurrences(text: &str, wanted: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut start = 0;
    while found.len() < max_counted(wanted)
        && let Some(at) = text.get(start..).and_then(|rest| rest.find(wanted))
    {
        found.push(start + at);
        start += at + wanted.chars().next().map_or(1, char::len_utf8);
    }
    found
}

fn not_found((path, index): (&TreePath, usize), text: &str, old: &str) -> Fault {
    let first = old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let similar = text.lines().enumerate().find(|(_, line)| !first.is_empty() && line.trim() == first);
    let advice = match similar {
        Some((at, line)) => {
            format!("line {} begins alike, `{}`: compare white space and the lines after it", at + 1, excerpt(line))
        }
        None => "read the page, and copy the text exactly as it is there".to_owned(),
    };
    Fault::invalid(&format!("edits[{index}].old"), format_args!("does not occur in `{path}`; {advice}"))
        .with_detail("path", path.as_str())
        .with_detail("count", 0)
}

fn ambiguous((path, index): (&TreePath, usize), text: &str, (found, max): (&[usize], usize)) -> Fault {
    let named: Vec<String> = found.iter().take(MAX_NAMED).map(|at| place_of(text, *at)).collect();
    let count = format!("{} times{}", found.len(), if found.len() == max { " or more" } else { "" });
    let more = if found.len() > MAX_NAMED { ", …" } else { "" };
    let message = format_args!(
        "occurs {count} in `{path}`: {}{more}; send more of the text around the place you mean",
        named.join(", ")
    );
    Fault::invalid(&format!("edits[{index}].old"), message)
        .with_detail("path", path.as_str())
        .with_detail("count", found.len())
}

/// The line of an offset, with its number.
fn place_of(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let number = text[..start].matches('\n').count() + 1;
    let line = text[start..].lines().next().unwrap_or_default();
    format!("line {number} `{}`", excerpt(line))
}

fn excerpt(line: &str) -> String {
    svcfs_base::excerpt_of(line.trim(), MAX_LINE_CHARS)
}

fn edit_section(
    place: (&TreePath, usize),
    text: &str,
    (query, mode): (&str, SectionEdit),
    addition: &str,
) -> Result<String, Fault> {
    let all = headings(text);
    let index = find_heading(place, &all, query)?;
    let found = section(text, SectionSelector::Index(index));
    let found = found.ok_or_else(|| unknown_heading(place, &all, query))?;
    let heading = &all[index];
    if heading.is_nested {
        let message = "is a heading inside a quote or a list item; use `old` and `new`";
        return Err(Fault::invalid(&format!("edits[{}].heading", place.1), message));
    }
    // A lone `\r` separates headings, but not lines.
    let next = all[index + 1..].iter().find(|next| next.level <= heading.level && !next.is_nested);
    let end = line_end_offset(text, found.line_end);
    let end = next.map_or(end, |next| end.min(next.range.start));
    let (head, rest) = (&text[..heading.range.end], &text[end..]);
    let old = &text[heading.range.end.min(end)..end];
    let addition = with_endings_of(text, without_heading(addition, heading));
    let (addition, old) = (addition.trim_matches(['\n', '\r']), old.trim_matches(['\n', '\r']));
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let body = match mode {
        SectionEdit::Replace => addition.to_owned(),
        SectionEdit::Append => join(old, addition, newline),
        SectionEdit::Prepend => join(addition, old, newline),
    };
    let mut edited = head.trim_end_matches(['\n', '\r']).to_owned();
    edited.push_str(newline);
    for part in [&*body, rest].into_iter().filter(|part| !part.trim().is_empty()) {
        edited.push_str(newline);
        edited.push_str(part.trim_start_matches(['\n', '\r']));
        if !part.ends_with('\n') {
            edited.push_str(newline);
        }
    }
    Ok(edited)
}

/// The offset behind a line, which is counted from 1.
fn line_end_offset(text: &str, line: usize) -> usize {
    text.match_indices('\n').nth(line.saturating_sub(1)).map_or(text.len(), |(at, _)| at + 1)
}

/// The text without its first line if that repeats the heading.
fn without_heading<'t>(text: &'t str, heading: &Heading) -> &'t str {
    match headings(text).first() {
        Some(first)
            if text[..first.range.start].trim().is_empty()
                && first.level == heading.level
                && first.text == heading.text =>
        {
            &text[first.range.end..]
        }
        Some(_) | None => text,
    }
}

/// Two texts as paragraphs, or as parts of one list or table.
fn join(first: &str, second: &str, newline: &str) -> String {
    if first.trim().is_empty() || second.trim().is_empty() {
        return [first, second].concat();
    }
    let (last, next) = (first.lines().last().unwrap_or_default(), second.lines().next().unwrap_or_default());
    let is_one_block =
        block_marker(last).is_some() && block_marker(last) == block_marker(next) && !begins_with_table(second);
    let separator = if is_one_block { newline.to_owned() } else { newline.repeat(2) };
    [first, &separator, second].concat()
}

/// Whether a text begins with the head of a table: a row before it would be the head instead.
fn begins_with_table(text: &str) -> bool {
    let is_delimiter = |line: &str| line.contains('-') && line.trim().bytes().all(|byte| b"|-: ".contains(&byte));
    text.trim_start().starts_with('|') && text.lines().nth(1).is_some_and(is_delimiter)
}

/// What makes a line an item of a list or a row of a table.
fn block_marker(line: &str) -> Option<char> {
    let line = line.trim_start();
    let marker = line.chars().next()?;
    match marker {
        '-' | '*' | '+' if line[1..].starts_with(' ') => Some(marker),
        '|' => Some(marker),
        '0'..='9' => {
            let rest = line.trim_start_matches(|character: char| character.is_ascii_digit());
            rest.chars().next().filter(|end| matches!(end, '.' | ')') && rest[1..].starts_with(' '))
        }
        _ => None,
    }
}

/// The one heading that a caller means: by its text, its anchor (`#setup-1`), or `Parent > Child`.
fn find_heading(place: (&TreePath, usize), all: &[Heading], query: &str) -> Result<usize, Fault> {
    let query = query.trim();
    // With the marks of a heading, as agents copy it from the page.
    let query = match query.trim_start_matches('#') {
        title if title.starts_with(' ') => title.trim(),
        _ => query,
    };
    let name = fold_name(query);
    let same: Vec<usize> = (0..all.len()).filter(|index| fold_name(&all[*index].text) == name).collect();
    match same[..] {
        [index] => return Ok(index),
        [] => {}
        _ => return Err(several_headings(place, all, &same)),
    }
    let anchor = fold_name(query.trim_start_matches('#'));
    if let Some(index) = all.iter().position(|heading| !anchor.is_empty() && fold_name(&heading.slug) == anchor) {
        return Ok(index);
    }
    // A part of a heading is not enough to change a page.
    let below = headings_below(all, query);
    match below[..] {
        [index] => Ok(index),
        [] => Err(unknown_heading(place, all, query)),
        _ => Err(several_headings(place, all, &below)),
    }
}

fn several_headings(place: (&TreePath, usize), all: &[Heading], found: &[usize]) -> Fault {
    let named =
        found.iter().take(MAX_NAMED).map(|index| format!("`#{}` (line {})", all[*index].slug, all[*index].line));
    let named: Vec<String> = named.collect();
    let message = format_args!("{} sections have this heading; name one of {}", found.len(), named.join(", "));
    Fault::invalid(&format!("edits[{}].heading", place.1), message).with_detail("count", found.len())
}

/// The headings that `Parent > Child` names. Of a parent, a part of its text is enough if none has
/// the whole.
fn headings_below(all: &[Heading], query: &str) -> Vec<usize> {
    let names = query.split('>').map(|name| fold_name(name.trim().trim_start_matches('#').trim()));
    let names: Vec<Cow<'_, str>> = names.collect();
    let Some((child, parents)) = names.split_last().filter(|(_, parents)| !parents.is_empty()) else {
        return Vec::new();
    };
    let find = |is_named: fn(&str, &str) -> bool| -> Vec<usize> {
        let is_child =
            |index: &usize| fold_name(&all[*index].text) == *child && is_below(all, *index, parents, is_named);
        (0..all.len()).filter(is_child).collect()
    };
    let found = find(|text, name| text == name);
    if found.is_empty() { find(|text, name| !name.is_empty() && text.contains(name)) } else { found }
}

/// Whether a heading is in the sections of these parents, each in that of the one before it.
fn is_below(all: &[Heading], index: usize, parents: &[Cow<'_, str>], is_named: fn(&str, &str) -> bool) -> bool {
    let (mut level, mut missing) = (all[index].level, parents);
    for heading in all[..index].iter().rev().filter(|heading| !heading.is_nested) {
        let Some((nearest, outer)) = missing.split_last() else { return true };
        if heading.level < level {
            level = heading.level;
            if is_named(&fold_name(&heading.text), nearest) {
                missing = outer;
            }
        }
    }
    missing.is_empty()
}

fn unknown_heading((path, index): (&TreePath, usize), all: &[Heading], query: &str) -> Fault {
    let anchor = slug(query);
    let similarity = |heading: &&Heading| strsim::jaro_winkler(&heading.slug, &anchor);
    let nearest = all.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    let advice = match nearest {
        Some(heading) => format!("the most similar heading is `{}`", excerpt(&heading.text)),
        None => "it has no headings; use `old` and `new`".to_owned(),
    };
    let message = format!("edits[{index}].heading: `{path}` has no heading `{}`; {advice}", excerpt(query));
    Fault::new(Kind::Invalid, message).with_detail("path", path.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str, edit: TextEdit) -> Result<String, String> {
        let path = TreePath::parse("a.md").unwrap();
        apply(&path, text, &[edit]).map_err(|fault| fault.message().to_owned())
    }

    fn replaced(text: &str, old: &str, new: &str) -> Result<String, String> {
        edited(text, TextEdit::Replace { old: old.to_owned(), new: new.to_owned() })
    }

    #[test]
    fn a_text_that_occurs_once_is_replaced() {
        for (text, old, new, expected) in [
            ("a b c\n", "b", "x", "a x c\n"),
            ("a\nb\n", "a\nb", "c", "c\n"),
            ("a\r\nb\r\n", "a\nb", "c\nd", "c\r\nd\r\n"),
            ("a\nb\nc\r\n", "a\nb", "x\ny", "x\ny\nc\r\n"),
            ("日本語\n", "本", "", "日語\n"),
            ("", "", "x", "x"),
        ] {
            assert_eq!(replaced(text, old, new).unwrap(), expected, "{text:?}");
        }
        for (text, old, message) in [
            (
                "a\n",
                "b",
                "`edits[0].old`: does not occur in `a.md`; read the page, and copy the text exactly as it is there",
            ),
            ("x\n  foo\n", "foo \nbar", "line 2 begins alike, `foo`: compare white space"),
            ("b 1\nc\nb 2\n", "b", "occurs 2 times in `a.md`: line 1 `b 1`, line 3 `b 2`; send more"),
            ("aaa", "aa", "occurs 2 times"),
            (&"b\n".repeat(7), "b", "line 5 `b`, …;"),
            (&"b".repeat(5_000), "b", "occurs 1000 times or more"),
        ] {
            let refused = replaced(text, old, "").unwrap_err();
            assert!(refused.contains(message), "{text:?}: {refused}");
        }
    }

    #[test]
    fn sections_are_replaced_and_added_to() {
        use SectionEdit::{Append, Prepend, Replace};
        let page = "# A\n\nintro\n\n## Log\n\n- one\n\n### Sub\n\nsub\n\n## Next\n\nend\n";
        let section = |text: &str, heading: &str, mode, addition: &str| {
            let (heading, text_of_edit) = (heading.to_owned(), addition.to_owned());
            edited(text, TextEdit::Section { heading, mode, text: text_of_edit })
        };
        for (heading, mode, addition, expected) in [
            ("Log", Replace, "new\n", "# A\n\nintro\n\n## Log\n\nnew\n\n## Next\n\nend\n"),
            ("## log", Replace, "## Log\n\nnew", "# A\n\nintro\n\n## Log\n\nnew\n\n## Next\n\nend\n"),
            ("#log", Replace, "", "# A\n\nintro\n\n## Log\n\n## Next\n\nend\n"),
            (
                "A > Sub",
                Append,
                "more",
                "# A\n\nintro\n\n## Log\n\n- one\n\n### Sub\n\nsub\n\nmore\n\n## Next\n\nend\n",
            ),
            ("Log", Prepend, "- zero", "# A\n\nintro\n\n## Log\n\n- zero\n- one\n\n### Sub\n\nsub\n\n## Next\n\nend\n"),
            ("Next", Append, "last", "# A\n\nintro\n\n## Log\n\n- one\n\n### Sub\n\nsub\n\n## Next\n\nend\n\nlast\n"),
        ] {
            assert_eq!(section(page, heading, mode, addition).unwrap(), expected, "{heading} {mode:?}");
        }
        for (text, mode, addition, expected) in [
            ("# A", Append, "x", "# A\n\nx\n"),
            ("# A\n- 1\n", Append, "- 2", "# A\n\n- 1\n- 2\n"),
            ("# A\n\n1. x\n", Append, "2. y\n", "# A\n\n1. x\n2. y\n"),
            ("# A\n\n| a |\n| - |\n", Append, "| b |", "# A\n\n| a |\n| - |\n| b |\n"),
            ("# A\n\n| a |\n| - |\n", Append, "| b |\n| - |", "# A\n\n| a |\n| - |\n\n| b |\n| - |\n"),
            ("# A\n\n| a |\n| - |\n", Prepend, "| b |", "# A\n\n| b |\n\n| a |\n| - |\n"),
            ("# A\rx\r# B\ry\r", Replace, "z", "# A\n\nz\n\n# B\ry\r\n"),
            ("# A\r\n\r\nx\r\n", Append, "y\nz", "# A\r\n\r\nx\r\n\r\ny\r\nz\r\n"),
            ("A\n===\n\nx\n", Replace, "y", "A\n===\n\ny\n"),
            ("# A\n\n```\n# A\n```\n", Append, "y", "# A\n\n```\n# A\n```\n\ny\n"),
        ] {
            assert_eq!(section(text, "A", mode, addition).unwrap(), expected, "{text:?}");
        }
        for (text, heading, message) in [
            (page, "Lo", "`a.md` has no heading `Lo`; the most similar heading is `Log`"),
            ("text\n", "Log", "it has no headings; use `old` and `new`"),
            ("# B\n\n# B\n", "B", "2 sections have this heading; name one of `#b` (line 1), `#b-1` (line 3)"),
            (
                "# W\n\n## X\n\n# W\n\n## X\n",
                "W > X",
                "2 sections have this heading; name one of `#x` (line 3), `#x-1`",
            ),
            ("# W\n\n## Y\n\n# V\n\n## X\n", "W > X", "has no heading `W > X`"),
            ("> # Quoted\n", "Quoted", "inside a quote"),
        ] {
            let refused = section(text, heading, Append, "x").unwrap_err();
            assert!(refused.contains(message), "{heading}: {refused}");
        }
        assert_eq!(section("# B\n\n# B\n", "#b-1", Append, "x").unwrap(), "# B\n\n# B\n\nx\n");
        assert_eq!(section("# Caf\u{e9}\n", "Cafe\u{301}", Append, "x").unwrap(), "# Caf\u{e9}\n\nx\n");
        let nested = "# Work items\n\n## X\n\n# Home\n\n## X\n";
        let expected = "# Work items\n\n## X\n\ny\n\n# Home\n\n## X\n";
        assert_eq!(section(nested, "Work > X", Append, "y").unwrap(), expected);
    }

    #[test]
    fn all_edits_are_made_or_none() {
        let path = TreePath::parse("a.md").unwrap();
        let replace = |old: &str, new: &str| TextEdit::Replace { old: old.to_owned(), new: new.to_owned() };
        assert_eq!(apply(&path, "a b", &[replace("a", "b c"), replace("b c", "d")]).unwrap(), "d b");
        let refused = apply(&path, "a b", &[replace("a", "x"), replace("a", "y")]).unwrap_err();
        assert!(refused.message().starts_with("`edits[1].old`"), "{refused:?}");
    }
}
