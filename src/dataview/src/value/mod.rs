//! The values of expressions.

mod collation;
mod compare;
mod json;
mod link;
mod text;

use std::sync::Arc;

use jiff::Zoned;

use crate::page::Page;
use crate::run::Row;
use crate::run::evaluate::Closure;
use crate::time::Duration;

pub(crate) use compare::compare;
pub use link::{Link, LinkTarget};
pub(crate) use text::number_text;

/// A value. Lists and objects are shared, because lambdas and groups copy them often.
#[derive(Debug, Clone)]
pub enum Value {
    /// No value.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A number; as in Dataview, there are no integers.
    Number(f64),
    /// Text.
    Text(Arc<str>),
    /// A date with time and zone.
    Date(Box<Zoned>),
    /// A duration.
    Duration(Box<Duration>),
    /// A link to a page, or to a part of one.
    Link(Arc<Link>),
    /// A list.
    List(Arc<[Value]>),
    /// An object, in the order of its keys.
    Object(Arc<Object>),
    /// A lambda.
    Function(Arc<Closure>),
    /// A row, such as an item of `rows`.
    Row(Arc<Row>),
    /// The implicit fields of a page (`file`).
    File(Arc<Page>),
    /// A list item of a page, by its index in [`Page::items`].
    Item(Arc<Page>, usize),
}

/// Keys and values of an object, in order.
pub type Object = Vec<(String, Value)>;

impl Value {
    /// A link to the page of a row or of `file`.
    #[must_use]
    pub fn page_link(&self) -> Option<Link> {
        match self {
            Self::Row(row) => row.page().map(|page| page.link()),
            Self::File(page) => Some(page.link()),
            _ => None,
        }
    }

    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(items.into())
    }

    pub(crate) fn link(link: Link) -> Self {
        Self::Link(Arc::new(link))
    }

    pub(crate) fn date(date: Zoned) -> Self {
        Self::Date(Box::new(date))
    }

    pub(crate) fn duration(duration: Duration) -> Self {
        Self::Duration(Box::new(duration))
    }

    pub(crate) const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether WHERE accepts the value: everything but null, false, 0 and what is empty.
    pub(crate) fn is_truthy(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Boolean(value) => *value,
            Self::Number(number) => *number != 0.0 && !number.is_nan(),
            Self::Text(text) => !text.is_empty(),
            Self::Date(date) => date.timestamp().as_millisecond() != 0,
            Self::Duration(duration) => duration.total_milliseconds() != 0.0,
            Self::Link(link) => !link.path.is_empty(),
            Self::List(items) => !items.is_empty(),
            Self::Object(members) => !members.is_empty(),
            Self::Function(_) | Self::Row(_) | Self::File(_) | Self::Item(..) => true,
        }
    }

    /// Its name in `typeof`; values of different types are ordered by this name.
    pub(crate) const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Date(_) => "date",
            Self::Duration(_) => "duration",
            Self::Link(_) => "link",
            Self::List(_) => "array",
            Self::Function(_) => "function",
            Self::Object(_) | Self::Row(_) | Self::File(_) | Self::Item(..) => "object",
        }
    }

    /// Whether lists and objects are nested deeper than so many levels. Such values would exhaust
    /// the stack when they are compared, printed or dropped.
    pub(crate) fn is_deeper(&self, levels: usize) -> bool {
        let is_deeper = |value: &Self| levels == 0 || value.is_deeper(levels - 1);
        match self {
            Self::List(items) => items.iter().any(is_deeper),
            Self::Object(members) => members.iter().any(|(_, value)| is_deeper(value)),
            _ => false,
        }
    }

    pub(crate) fn as_number(&self) -> Option<f64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }
}
