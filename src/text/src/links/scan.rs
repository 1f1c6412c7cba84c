//! Scans a page for links.

use std::ops::Range;

use super::{Link, LinkKind, context, uri};
use crate::lines::LineStarts;
use crate::structure::{LinkDefinition, WrittenLink};

/// A link without its line number.
pub(super) struct ScannedLink {
    pub(super) full_range: Range<usize>,
    pub(super) range: Range<usize>,
    kind: LinkKind,
    target: String,
    heading: Option<String>,
    label: Option<String>,
}

impl ScannedLink {
    pub(super) fn into_link(self, lines: &LineStarts<'_>) -> Link {
        let index = lines.index_of(self.range.start);
        Link {
            kind: self.kind,
            target: self.target,
            heading: self.heading,
            label: self.label,
            line: index + 1,
            context: context(lines, index, &self.range),
            target_range: self.range,
            full_range: self.full_range,
        }
    }
}

/// Every `[[…]]` after `from`: its full range and the range between the brackets.
///
/// The content has no `]` and no line ending; in `[[a [[b]]` only `[[b]]` counts; `\[[` is text.
pub(super) fn brackets(text: &str, from: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut at = from;
    std::iter::from_fn(move || {
        loop {
            let open = at + text.get(at..)?.find("[[")?;
            at = open + 2;
            if is_escaped(bytes, open) {
                at = open + 1;
                continue;
            }
            let mut inside = open + 2;
            while let Some(byte) = bytes.get(inside) {
                match byte {
                    b'\n' | b'\r' | b']' => break,
                    b'[' if bytes.get(inside - 1) == Some(&b'[') => break,
                    _ => inside += 1,
                }
            }
            at = match bytes.get(inside) {
                Some(b']') if bytes.get(inside + 1) == Some(&b']') => {
                    at = inside + 2;
                    return Some((open..at, open + 2..inside));
                }
                // the inner pair of `[[a [[b]]`, or of `[[[b]]`
                Some(b'[') => inside - 1,
                Some(_) | None => inside,
            };
        }
    })
}

/// Whether an odd number of backslashes precedes the byte at `at`.
fn is_escaped(bytes: &[u8], at: usize) -> bool {
    bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Splits the content of a wiki link at its first `|`, which is `\|` in a table.
pub(super) fn label_of(inner: &str) -> (&str, Option<&str>) {
    match inner.split_once('|') {
        Some((target, label)) => {
            let label = label.trim();
            (target.strip_suffix('\\').unwrap_or(target).trim(), (!label.is_empty()).then_some(label))
        }
        None => (inner.trim(), None),
    }
}

/// Operators between the operands of a shell test; `\[[ a == b ]]` has white space around them.
const TEST_OPERATORS: [&str; 15] = [
    " == ", " != ", " =~ ", " = ", " && ", " || ", " < ", " > ", " -eq ", " -ne ", " -lt ", " -le ", " -gt ", " -ge ",
    " -nt ",
];

/// Whether the content of double brackets is a test in a shell script (`[[ -f x ]]`), which has
/// white space after the brackets.
fn is_shell_test(inner: &str) -> bool {
    inner.starts_with([' ', '\t'])
        && (inner.trim_start().starts_with(['-', '!', '$', '"', '\'', '`'])
            || TEST_OPERATORS.iter().any(|operator| inner.contains(operator)))
}

/// The wiki links of a body that do not overlap the opaque ranges, which are in order.
pub(super) fn wiki_links(text: &str, body_offset: usize, opaque: &[Range<usize>]) -> Vec<ScannedLink> {
    let mut links = Vec::new();
    let mut next_opaque = 0;
    let mut opaque_end = 0;
    for (range, inner) in brackets(text, body_offset) {
        // the maximum end of the opaque ranges that start before this link ends
        while let Some(next) = opaque.get(next_opaque).filter(|next| next.start < range.end) {
            opaque_end = opaque_end.max(next.end);
            next_opaque += 1;
        }
        if opaque_end > range.start || is_shell_test(&text[inner.clone()]) {
            continue;
        }
        let (source, label) = label_of(&text[inner.clone()]);
        let (target, heading) = source.split_once('#').map_or((source, None), |(path, part)| (path, Some(part)));
        let target = target.trim();
        if target.is_empty() {
            continue;
        }
        let leading = text[inner.clone()].len() - text[inner.clone()].trim_start().len();
        let start = inner.start + leading;
        let embed = range.start > body_offset && text.as_bytes()[range.start - 1] == b'!';
        links.push(ScannedLink {
            full_range: range,
            range: start..start + target.len(),
            kind: if embed { LinkKind::Embed } else { LinkKind::Wiki },
            target: target.to_owned(),
            heading: some_text(heading),
            label: some_text(label),
        });
    }
    links
}

fn some_text(text: Option<&str>) -> Option<String> {
    text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A markdown link, if it leads to a file.
pub(super) fn written_link(text: &str, link: &WrittenLink<'_>) -> Option<ScannedLink> {
    let tail = text.get(link.text_end..link.range.end)?;
    let open = link.text_end + tail.find("](")? + 2;
    let range = destination(text, open..link.range.end)?;
    let split_destination = split_destination(text, link.kind, range, &link.destination)?;
    let start = link.range.start + usize::from(link.kind == LinkKind::Image);
    Some(ScannedLink { full_range: start..link.range.end, label: some_text(Some(&link.label)), ..split_destination })
}

/// A reference definition, if it leads to a file.
pub(super) fn definition(text: &str, definition: &LinkDefinition) -> Option<ScannedLink> {
    let source = text.get(definition.range.clone())?;
    let bytes = source.as_bytes();
    let close = source.match_indices("]:").map(|(at, _)| at).find(|at| !is_escaped(bytes, *at))?;
    let range = destination(text, definition.range.start + close + 2..definition.range.end)?;
    let split_destination = split_destination(text, LinkKind::Definition, range, &definition.destination)?;
    Some(ScannedLink {
        full_range: definition.range.clone(),
        label: some_text(source.get(1..close)),
        ..split_destination
    })
}

/// Splits a destination into path and heading; none if it leads out of the tree or into the page
/// itself.
fn split_destination(text: &str, kind: LinkKind, range: Range<usize>, destination: &str) -> Option<ScannedLink> {
    let (path, fragment) = uri::path_and_fragment(destination)?;
    let source = &text[range.clone()];
    let end = uri::path_end(source);
    Some(ScannedLink {
        full_range: range.clone(),
        range: range.start..range.start + end,
        kind,
        target: path,
        heading: fragment,
        label: None,
    })
}

/// Range of the first destination in `within`, without white space and angle brackets.
fn destination(text: &str, within: Range<usize>) -> Option<Range<usize>> {
    let source = text.get(within.clone())?;
    let start = source.len() - source.trim_start().len();
    let bytes = source.as_bytes();
    let angled = bytes.get(start) == Some(&b'<');
    let start = if angled { start + 1 } else { start };
    let mut depth = 0_usize;
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'>' | b'\n' if angled => break,
            b'(' if !angled => depth += 1,
            b')' if !angled && depth == 0 => break,
            b')' if !angled => depth -= 1,
            byte if !angled && (byte.is_ascii_whitespace() || byte.is_ascii_control()) => break,
            _ => {}
        }
        at += 1;
    }
    let end = at.min(bytes.len());
    (end > start && source.is_char_boundary(end)).then_some(within.start + start..within.start + end)
}
