//! List items and the emoji fields of the Tasks plugin.

use std::ops::Range;

use super::{ItemStructure, ListItem, fields};
use crate::lines::LineStarts;
use crate::literal_spans::RangeCursor;
use crate::structure::BodyStructure;

/// How the value after an emoji is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EmojiValue {
    Date,
    /// The words up to the next emoji field, field or tag.
    Words,
    /// The emoji alone has this value.
    Fixed(&'static str),
}

const EMOJI_FIELDS: [(char, &str, EmojiValue); 18] = [
    ('📅', "due", EmojiValue::Date),
    ('📆', "due", EmojiValue::Date),
    ('🗓', "due", EmojiValue::Date),
    ('✅', "completion", EmojiValue::Date),
    ('⏳', "scheduled", EmojiValue::Date),
    ('⌛', "scheduled", EmojiValue::Date),
    ('🛫', "start", EmojiValue::Date),
    ('➕', "created", EmojiValue::Date),
    ('❌', "cancelled", EmojiValue::Date),
    ('🔁', "recurrence", EmojiValue::Words),
    ('🆔', "id", EmojiValue::Words),
    ('⛔', "dependsOn", EmojiValue::Words),
    ('🏁', "onCompletion", EmojiValue::Words),
    ('🔺', "priority", EmojiValue::Fixed("highest")),
    ('⏫', "priority", EmojiValue::Fixed("high")),
    ('🔼', "priority", EmojiValue::Fixed("medium")),
    ('🔽', "priority", EmojiValue::Fixed("low")),
    ('⏬', "priority", EmojiValue::Fixed("lowest")),
];

/// The items of a page without those that start in a hidden range.
pub(super) fn list_items(
    (text, lines): (&str, &LineStarts<'_>),
    structure: &BodyStructure<'_>,
    hidden: &[Range<usize>],
) -> Vec<ListItem> {
    let mut cursor = RangeCursor::new(hidden);
    let mut items: Vec<ListItem> = Vec::with_capacity(structure.items.len());
    // The index of each item of the structure among the visible ones.
    let mut indexes: Vec<Option<usize>> = Vec::with_capacity(structure.items.len());
    let mut section = 0;
    for item in &structure.items {
        if cursor.covered_until(item.content.start.saturating_sub(1).max(item.range.start)).is_some() {
            indexes.push(None);
            continue;
        }
        while structure.headings.get(section).is_some_and(|heading| heading.range.start <= item.range.start) {
            section += 1;
        }
        let index = items.len();
        let parent = item.parent.and_then(|parent| indexes[parent]);
        if let Some(parent) = parent {
            items[parent].children.push(index);
        }
        items.push(list_item((text, lines), item, (parent, section.checked_sub(1))));
        indexes.push(Some(index));
    }
    items
}

fn list_item(
    (text, lines): (&str, &LineStarts<'_>),
    item: &ItemStructure,
    (parent, section): (Option<usize>, Option<usize>),
) -> ListItem {
    let source = text.get(item.content.clone()).unwrap_or_default();
    let indent = text.get(item.range.clone()).map_or(0, |item| item.len() - item.trim_start().len());
    let block_id = source.trim_end().rsplit_once(" ^").map(|(_, id)| id).filter(|id| fields::is_block_id(id));
    let mut list_item = ListItem {
        status: item.status,
        line: lines.index_of(item.range.start + indent) + 1,
        content: item.content.clone(),
        parent,
        section,
        block_id: block_id.map(str::to_owned),
        ..ListItem::default()
    };
    if let Some(status) = item.status {
        list_item.read_task(&item.plain_text, status);
    }
    list_item
}

impl ListItem {
    fn read_task(&mut self, plain_text: &str, status: char) {
        let mut text = plain_text.trim_start();
        // pulldown-cmark reads only `[ ]` and `[x]` as boxes
        if let Some(rest) = text.strip_prefix('[').and_then(|rest| rest.strip_prefix(status))
            && let Some(rest) = rest.strip_prefix('\u{FE0F}').unwrap_or(rest).strip_prefix(']')
        {
            text = rest;
        }
        let text = match &self.block_id {
            Some(id) => text.trim_end().strip_suffix(&format!("^{id}")).unwrap_or(text),
            None => text,
        };
        let text = if text.contains("::") { fields::remove_bracketed(text) } else { text.to_owned() };
        let text = if text.is_ascii() { text } else { self.take_emoji_fields(&text) };
        self.text = crate::structure::one_line(&text);
    }

    /// Moves the emoji fields out of a text.
    fn take_emoji_fields(&mut self, text: &str) -> String {
        let field_at = |character: char| EMOJI_FIELDS.iter().find(|(emoji, ..)| *emoji == character);
        let mut plain = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let after = &rest[character.len_utf8()..];
            let Some((_, name, form)) = field_at(character) else {
                plain.push(character);
                rest = after;
                continue;
            };
            let value_text = after.trim_start_matches('\u{FE0F}').trim_start();
            let length = match form {
                EmojiValue::Fixed(_) => Some(0),
                EmojiValue::Date => value_text.get(..10).filter(|day| is_day(day)).map(str::len),
                EmojiValue::Words => {
                    let end = value_text.find(|next| field_at(next).is_some() || next == '#');
                    Some(end.unwrap_or(value_text.len())).filter(|end| *end > 0)
                }
            };
            match length {
                Some(length) => {
                    let value = if let EmojiValue::Fixed(value) = form { value } else { value_text[..length].trim() };
                    if !self.emoji_fields.iter().any(|(known, _)| known == name) {
                        self.emoji_fields.push((name, value.to_owned()));
                    }
                    plain.push(' ');
                    rest = &value_text[length..];
                }
                None => {
                    plain.push(character);
                    rest = after;
                }
            }
        }
        plain
    }
}

fn is_day(text: &str) -> bool {
    text.parse::<jiff::civil::Date>().is_ok()
}
