//! The implicit fields of list items and tasks.

use std::sync::Arc;

use crate::page::{ListItem, Page};
use crate::value::{Link, LinkTarget, Value};

pub(super) const FIELDS: [&str; 20] = [
    "status",
    "checked",
    "completed",
    "fullyCompleted",
    "text",
    "line",
    "lineCount",
    "path",
    "section",
    "tags",
    "outlinks",
    "link",
    "children",
    "subtasks",
    "task",
    "annotated",
    "parent",
    "blockId",
    "position",
    "real",
];

/// `None` for names that are no implicit field.
pub(super) fn implicit_field(page: &Arc<Page>, index: usize, name: &str) -> Option<Value> {
    let item = page.items.get(index)?;
    let number = |number: usize| Value::Number(number as f64);
    let children = |is_task: bool| {
        let is_child = |child: &usize| page.items[*child].parent == Some(index);
        let children = (index + 1..page.items.len()).take_while(|child| page.items[*child].parent >= Some(index));
        let children = children.filter(is_child).filter(|child| !is_task || page.items[*child].status.is_some());
        Value::list(children.map(|child| Value::Item(Arc::clone(page), child)).collect())
    };
    Some(match name {
        "status" => item.status.map_or(Value::Null, |status| Value::text(status.to_string())),
        "checked" => Value::Boolean(item.status.is_some_and(|status| status != ' ')),
        "completed" => Value::Boolean(is_completed(item)),
        "fullyCompleted" | "fullycompleted" => Value::Boolean(is_fully_completed(page, index)),
        "text" => Value::text(item.text.as_str()),
        "line" => number(item.line),
        "lineCount" => number(item.line_count),
        "path" => Value::text(page.path.as_str()),
        "section" => Value::link(section(page, item)),
        "tags" => {
            Value::list(item.tags.iter().map(|tag| Value::text(format!("#{}", tag.trim_start_matches('#')))).collect())
        }
        "outlinks" => Value::list(item.links.iter().cloned().map(Value::link).collect()),
        "link" => Value::link(link(page, item)),
        "header" => Value::link(section(page, item)),
        "children" => children(false),
        "subtasks" => children(true),
        "task" => Value::Boolean(item.status.is_some()),
        "real" => Value::Boolean(item.status.is_some()),
        "annotated" => Value::Boolean(!item.fields.is_empty()),
        "parent" => item.parent.map_or(Value::Null, |parent| number(page.items[parent].line)),
        "blockId" => item.block_id.as_deref().map_or(Value::Null, Value::text),
        "position" => {
            let line = |line: usize| Value::Object(Arc::new(vec![("line".to_owned(), number(line))]));
            let end = item.line + item.line_count.saturating_sub(1);
            Value::Object(Arc::new(vec![("start".to_owned(), line(item.line)), ("end".to_owned(), line(end))]))
        }
        _ => return None,
    })
}

pub(super) fn is_completed(item: &ListItem) -> bool {
    matches!(item.status, Some('x' | 'X'))
}

/// Whether the item and all items below it are completed; items that are no tasks do not count.
fn is_fully_completed(page: &Page, index: usize) -> bool {
    let below = (index + 1..page.items.len()).take_while(|child| page.items[*child].parent >= Some(index));
    std::iter::once(index).chain(below).all(|item| {
        let item = &page.items[item];
        item.status.is_none() || is_completed(item)
    })
}

fn section(page: &Page, item: &ListItem) -> Link {
    let target = item.section.clone().map_or(LinkTarget::File, LinkTarget::Header);
    Link { target, ..page.link() }
}

fn link(page: &Page, item: &ListItem) -> Link {
    match &item.block_id {
        Some(id) => Link { target: LinkTarget::Block(id.clone()), ..page.link() },
        None => section(page, item),
    }
}
