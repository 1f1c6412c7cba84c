//! Tasks: the items of lists that begin with `[ ]` or `[x]`.

#[cfg(test)]
mod tests;

use pulldown_cmark::{Event, Tag, TagEnd};
use serde_json::{Map, Value};

use crate::computed_block::{self, ComputedAnswer};
use crate::frontmatter;
use crate::lines::LineStarts;
use crate::structure::parser;

/// Longest text of a task, in bytes; what is longer is cut.
const MAX_TEXT: usize = 4096;

/// One task of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct PageTask {
    /// Its words, without markup, `[key:: value]` taken out. An item inside it is a task of its own.
    pub text: String,
    /// Whether it is ticked.
    pub is_completed: bool,
    /// The line it begins in.
    pub line: usize,
    /// Its `#tags`, without the `#`.
    pub tags: Vec<String>,
    /// Its `[key:: value]` pairs.
    pub details: Map<String, Value>,
}

/// The tasks of a page, in order. What a computed page answers are tasks of others, and none of its own.
#[must_use]
pub fn parse_tasks(text: &str) -> Vec<PageTask> {
    let split = frontmatter::split(text);
    // Most pages have none, and are not parsed a second time.
    if !["[ ]", "[x]", "[X]"].iter().any(|mark| split.body.contains(mark)) {
        return Vec::new();
    }
    let lines = LineStarts::of(text);
    let answered = match computed_block::find_answer(split.body) {
        ComputedAnswer::Present(range) => range,
        ComputedAnswer::Absent | ComputedAnswer::Unterminated(_) => 0..0,
    };
    let mut found: Vec<PageTask> = Vec::new();
    // The tasks whose items are open: none for an item that is no task.
    let mut open: Vec<Option<usize>> = Vec::new();
    for (event, range) in parser(split.body) {
        let mut add = |text: &str| {
            if let Some(task) = open.last().copied().flatten().and_then(|index| found.get_mut(index)) {
                let room = MAX_TEXT.saturating_sub(task.text.len());
                task.text.push_str(&text[..text.floor_char_boundary(room)]);
            }
        };
        match event {
            Event::Start(Tag::Item) => open.push(None),
            Event::End(TagEnd::Item) => {
                open.pop();
            }
            Event::TaskListMarker(is_completed) if !answered.contains(&range.start) => {
                if let Some(last) = open.last_mut() {
                    *last = Some(found.len());
                    let line = lines.index_of(range.start + split.body_offset) + 1;
                    found.push(PageTask {
                        text: String::new(),
                        is_completed,
                        line,
                        tags: Vec::new(),
                        details: Map::new(),
                    });
                }
            }
            Event::Text(text) | Event::Code(text) => add(&text),
            Event::SoftBreak | Event::HardBreak | Event::End(TagEnd::Paragraph) => add(" "),
            _ => {}
        }
    }
    found.iter_mut().for_each(PageTask::take_details);
    found
}

impl PageTask {
    /// Takes `[key:: value]` out of the text, and reads the tags in what is left.
    fn take_details(&mut self) {
        let mut rest = std::mem::take(&mut self.text);
        while let Some((before, pair, after)) = first_pair(&rest) {
            let (key, value) = pair;
            self.details.insert(key.to_owned(), Value::String(value.to_owned()));
            rest = format!("{before} {after}");
        }
        self.text = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        let tag = |word: &str| {
            let tag = word.strip_prefix('#')?.trim_end_matches([',', '.', ';', ':', '!', '?', ')']);
            tag.starts_with(|c: char| c.is_alphanumeric() || c == '_').then(|| tag.to_owned())
        };
        self.tags = self.text.split(' ').filter_map(tag).collect();
    }
}

/// The first `[key:: value]`, and what stands around it.
fn first_pair(text: &str) -> Option<(&str, (&str, &str), &str)> {
    let mut from = 0;
    while let Some(sign) = text.get(from..)?.find("::").map(|at| at + from) {
        from = sign + 2;
        let (Some(open), Some(close)) = (text[..sign].rfind('['), text[from..].find(']').map(|at| at + from)) else {
            continue;
        };
        let key = text[open + 1..sign].trim();
        if !key.is_empty() && !key.contains([']', ' ']) {
            return Some((&text[..open], (key, text[from..close].trim()), &text[close + 1..]));
        }
    }
    None
}
