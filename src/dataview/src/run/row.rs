//! Rows that commands filter, sort and group.

use std::sync::Arc;

use crate::page::Page;
use crate::value::Value;

/// A page, a task or a group, with the values that commands added.
#[derive(Debug, Clone)]
pub struct Row {
    pub(crate) source: RowSource,
    /// Values of FLATTEN and GROUP BY by name; a later one replaces an earlier one.
    pub(crate) added: Vec<(Arc<str>, Value)>,
}

#[derive(Debug, Clone)]
pub(crate) enum RowSource {
    Page(Arc<Page>),
    /// A list item, by its index in the page.
    Item(Arc<Page>, usize),
    /// A group; holds its key.
    Group(Value),
    /// No row: for expressions such as that of LIMIT.
    Empty,
}

impl Row {
    pub(crate) const fn new(source: RowSource) -> Self {
        Self { source, added: Vec::new() }
    }

    /// What the first column shows: a link to the page, or the key of the group.
    pub(crate) fn id(&self) -> Value {
        match &self.source {
            RowSource::Page(page) | RowSource::Item(page, _) => Value::link(page.link()),
            RowSource::Group(key) => key.clone(),
            RowSource::Empty => Value::Null,
        }
    }

    pub(crate) fn page(&self) -> Option<&Arc<Page>> {
        match &self.source {
            RowSource::Page(page) | RowSource::Item(page, _) => Some(page),
            RowSource::Group(_) | RowSource::Empty => None,
        }
    }

    pub(crate) fn added(&self, name: &str) -> Option<&Value> {
        self.added.iter().rev().find(|(key, _)| &**key == name).map(|(_, value)| value)
    }

    pub(crate) fn with(&self, name: &Arc<str>, value: Value) -> Self {
        let mut row = self.clone();
        row.added.push((Arc::clone(name), value));
        row
    }
}
