//! Tasks: the items of lists that begin with `[ ]` or `[x]`.

#[cfg(test)]
mod tests;

use pulldown_cmark::{Event, Tag, TagEnd};
use serde_json::{Map, Value};

use crate::computed_block::{self, ComputedAnswer};
use crate::frontmatter;
use crate::lines::LineStarts;
use crate::structure::parser;

/// Maximum length of the text of a task, in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// One task of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct PageTask {
    /// Its text, without markup and `[key:: value]`. A nested item is a separate task.
    pub text: String,
    /// Whether it is checked.
    pub is_completed: bool,
    /// Its first line.
    pub line: usize,
    /// Its `#tags`, without the `#`.
    pub tags: Vec<String>,
    /// Its `[key:: value]` pairs.
    pub details: Map<String, Value>,
}

/// The tasks of a page, in order. The result of a computed page contains tasks of other pages and
/// is excluded.
#[must_use]
pub fn parse_tasks(text: &str) -> Vec<PageTask> {
    let split = frontmatter::split(text);
    if !["[ ]", "[x]", "[X]"].iter().any(|mark| split.body.contains(mark)) {
        return Vec::new();
    }
    let lines = LineStarts::new(text);
    let computed = match computed_block::find_answer(split.body) {
        ComputedAnswer::Present(range) => range,
        ComputedAnswer::Absent | ComputedAnswer::Unterminated(_) => 0..0,
    };
    let mut tasks: Vec<PageTask> = Vec::new();
    // The tasks of the open items; none for an item that is not a task.
    let mut open: Vec<Option<usize>> = Vec::new();
    for (event, range) in parser(split.body) {
        let mut add = |text: &str| {
            if let Some(task) = open.last().copied().flatten().and_then(|index| tasks.get_mut(index)) {
                let capacity = MAX_TEXT_BYTES.saturating_sub(task.text.len());
                task.text.push_str(&text[..text.floor_char_boundary(capacity)]);
            }
        };
        match event {
            Event::Start(Tag::Item) => open.push(None),
            Event::End(TagEnd::Item) => {
                open.pop();
            }
            Event::TaskListMarker(is_completed) if !computed.contains(&range.start) => {
                if let Some(last) = open.last_mut() {
                    *last = Some(tasks.len());
                    let line = lines.index_of(range.start + split.body_offset) + 1;
                    tasks.push(PageTask {
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
    tasks.iter_mut().for_each(PageTask::extract_details);
    tasks
}

impl PageTask {
    /// Moves `[key:: value]` pairs from the text to `details`, and collects the tags.
    fn extract_details(&mut self) {
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

/// The first `[key:: value]`, with the text before and after it.
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
