//! The implicit fields of pages (`file.name`).

use std::sync::Arc;

use jiff::Timestamp;

use super::evaluate::Evaluator;
use crate::error::Evaluation;
use crate::field_value::raw_object;
use crate::page::Page;
use crate::time::{day_of_name, strip_time};
use crate::value::{Link, Value};

impl Evaluator<'_> {
    pub(crate) fn file_field(&self, page: &Arc<Page>, name: &str) -> Evaluation<Value> {
        let time = |time: Timestamp| time.to_zoned(self.zone().clone());
        let day = |at: Timestamp| strip_time(&time(at)).map_or(Value::Null, Value::date);
        let texts = |texts: Vec<String>| Value::list(texts.into_iter().map(Value::text).collect());
        Ok(match name {
            "name" => Value::text(page.name()),
            "path" => Value::text(page.path.as_str()),
            "folder" => Value::text(page.folder()),
            "ext" => Value::text(page.extension()),
            "link" => Value::link(page.link()),
            "size" => Value::Number(page.size as f64),
            "ctime" => Value::date(time(page.created)),
            "cday" => day(page.created),
            "mtime" => Value::date(time(page.modified)),
            "mday" => day(page.modified),
            "day" => self.day(page),
            "tags" => texts(page.tag_list(true)),
            "etags" => texts(page.tag_list(false)),
            "aliases" => texts(page.aliases.clone()),
            "inlinks" => {
                Value::list(self.vault.inlinks(&page.path)?.into_iter().map(Link::to_page).map(Value::link).collect())
            }
            "outlinks" => Value::list(page.links.iter().cloned().map(Value::link).collect()),
            "lists" => Value::list((0..page.items.len()).map(|index| Value::Item(Arc::clone(page), index)).collect()),
            "tasks" => {
                let tasks = (0..page.items.len()).filter(|index| page.items[*index].status.is_some());
                Value::list(tasks.map(|index| Value::Item(Arc::clone(page), index)).collect())
            }
            "frontmatter" => raw_object(&page.frontmatter),
            "starred" => Value::Boolean(page.is_starred),
            _ => Value::Null,
        })
    }

    /// The date in the name of a page, else its field `date`.
    fn day(&self, page: &Page) -> Value {
        if let Some(day) = day_of_name(page.name(), self.zone()) {
            return Value::date(day);
        }
        match page.typed_fields(self.zone()).get("date") {
            Some(Value::Date(date)) => Value::Date(date.clone()),
            Some(Value::Link(link)) => day_of_name(link.name(), self.zone()).map_or(Value::Null, Value::date),
            _ => Value::Null,
        }
    }

    /// The date that a link stands for: in its name, in its display text, else `file.day` of its
    /// page.
    pub(crate) fn day_of_link(&self, link: &Link) -> Evaluation<Value> {
        let display = link.display.as_deref().unwrap_or_default();
        let written = [link.name(), display].into_iter().find_map(|text| day_of_name(text, self.zone()));
        match written {
            Some(day) => Ok(Value::date(day)),
            None => Ok(self.linked_page(link)?.map_or(Value::Null, |page| self.day(&page))),
        }
    }
}
