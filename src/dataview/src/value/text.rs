//! Values as text.

use super::Value;
use crate::time::render_date;

/// How Dataview shows null.
const NULL_TEXT: &str = "-";

impl Value {
    /// The value as text, as `string()`, `join` and `+` give it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text, false, &|link| link.to_markdown());
        text
    }

    /// As [`Value::to_text`], with brackets around a list.
    pub(crate) fn to_item_text(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text, true, &|link| link.to_markdown());
        text
    }

    /// The value as it is shown: links by their display text (`display`).
    pub(crate) fn to_display(&self) -> String {
        let mut text = String::new();
        self.write_text(&mut text, false, &super::Link::display_text);
        text
    }

    fn write_text(&self, text: &mut String, is_nested: bool, link_text: &dyn Fn(&super::Link) -> String) {
        match self {
            Self::Null => text.push_str(NULL_TEXT),
            Self::Boolean(value) => text.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => text.push_str(&number_text(*number)),
            Self::Text(value) => text.push_str(value),
            Self::Date(date) => text.push_str(&render_date(date)),
            Self::Duration(duration) => text.push_str(&duration.to_text()),
            Self::Link(link) => text.push_str(&link_text(link)),
            Self::List(items) => {
                text.push_str(if is_nested { "[" } else { "" });
                for (index, item) in items.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { ", " });
                    item.write_text(text, true, link_text);
                }
                text.push_str(if is_nested { "]" } else { "" });
            }
            Self::Object(members) => {
                text.push_str("{ ");
                for (index, (key, value)) in members.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { ", " });
                    text.push_str(key);
                    text.push_str(": ");
                    value.write_text(text, true, link_text);
                }
                text.push_str(" }");
            }
            Self::Function(_) => text.push_str("<function>"),
            Self::Row(row) => row.id().write_text(text, is_nested, link_text),
            Self::File(page) => text.push_str(&link_text(&page.link())),
            Self::Item(page, index) => {
                text.push_str(page.items.get(*index).map_or("", |item| &item.text));
            }
        }
    }
}

/// A number as JavaScript writes it.
pub(crate) fn number_text(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else if number == 0.0 {
        "0".to_owned()
    } else if number.abs() >= 1e21 || number.abs() < 1e-6 {
        let text = format!("{number:e}");
        if text.contains("e-") { text } else { text.replace('e', "e+") }
    } else {
        format!("{number}")
    }
}
