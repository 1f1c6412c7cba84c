//! What a reader sees of a body, to compare before with after.

use pulldown_cmark::{CowStr, Event, Tag, TagEnd};

use crate::structure::{one_line, parser};

/// Do two bodies render the same? White space in text does not count, nor do the numbers of lists.
pub(super) fn is_same(before: &str, after: &str) -> bool {
    seen(before) == seen(after)
}

/// Do two bodies render the same but for what stands in the cells of tables?
pub(super) fn is_same_outside_cells(before: &str, after: &str) -> bool {
    without_cells(seen(before)) == without_cells(seen(after))
}

fn without_cells(seen: Vec<Event<'_>>) -> Vec<Event<'_>> {
    let mut in_cell = false;
    let outside = seen.into_iter().filter(|event| {
        in_cell &= !matches!(event, Event::End(TagEnd::TableCell));
        let is_outside = !in_cell;
        in_cell |= matches!(event, Event::Start(Tag::TableCell));
        is_outside
    });
    outside.collect()
}

fn seen(body: &str) -> Vec<Event<'_>> {
    let mut seen = Vec::new();
    let mut text = String::new();
    let mut in_code = false;
    for (event, _) in parser(body) {
        match event {
            Event::Text(more) => text.push_str(&more),
            Event::SoftBreak => text.push(' '),
            other => {
                let written = std::mem::take(&mut text);
                let written = if in_code { written } else { one_line(&written) };
                if !written.is_empty() {
                    seen.push(Event::Text(CowStr::from(written)));
                }
                in_code = matches!(other, Event::Start(Tag::CodeBlock(_)));
                seen.push(match other {
                    Event::Start(Tag::List(Some(_))) => Event::Start(Tag::List(Some(1))),
                    Event::Code(code) => Event::Code(CowStr::from(one_line(&code))),
                    other => other,
                });
            }
        }
    }
    seen
}
