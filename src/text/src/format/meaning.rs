//! Comparison of the rendered content of two bodies.

use pulldown_cmark::{CowStr, Event, Tag, TagEnd};

use crate::structure::{one_line, parser};

/// Whether two bodies render the same, except white space in text and the numbers of lists.
pub(super) fn is_same(before: &str, after: &str) -> bool {
    rendered(before) == rendered(after)
}

/// Whether two bodies render the same, except the contents of table cells.
pub(super) fn is_same_outside_cells(before: &str, after: &str) -> bool {
    without_cells(rendered(before)) == without_cells(rendered(after))
}

fn without_cells(rendered: Vec<Event<'_>>) -> Vec<Event<'_>> {
    let mut in_cell = false;
    let outside = rendered.into_iter().filter(|event| {
        in_cell &= !matches!(event, Event::End(TagEnd::TableCell));
        let is_outside = !in_cell;
        in_cell |= matches!(event, Event::Start(Tag::TableCell));
        is_outside
    });
    outside.collect()
}

fn rendered(body: &str) -> Vec<Event<'_>> {
    let mut rendered = Vec::new();
    let mut text = String::new();
    let mut in_code = false;
    for (event, _) in parser(body) {
        match event {
            Event::Text(part) => text.push_str(&part),
            Event::SoftBreak => text.push(' '),
            event => {
                let content = std::mem::take(&mut text);
                let content = if in_code { content } else { one_line(&content) };
                if !content.is_empty() {
                    rendered.push(Event::Text(CowStr::from(content)));
                }
                in_code = matches!(event, Event::Start(Tag::CodeBlock(_)));
                rendered.push(match event {
                    Event::Start(Tag::List(Some(_))) => Event::Start(Tag::List(Some(1))),
                    Event::Code(code) => Event::Code(CowStr::from(one_line(&code))),
                    event => event,
                });
            }
        }
    }
    rendered
}
