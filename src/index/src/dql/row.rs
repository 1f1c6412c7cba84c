//! One page in a query: the requested members of its frontmatter and inline fields, and its
//! implicit fields.

use std::fmt;

use jiff::Timestamp;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value as Json;

use super::lexemes::ValueStep;
use crate::IndexError;
use crate::value::Value;

/// A field that comes from the index and not from the frontmatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImplicitField {
    BacklinkCount,
    Extension,
    Folder,
    HasFrontmatter,
    HeadingCount,
    LinkCount,
    Name,
    Path,
    Size,
    Updated,
    WordCount,
}

impl ImplicitField {
    pub(crate) const ALL: [(&'static str, Self); 11] = [
        ("_backlink_count", Self::BacklinkCount),
        ("_ext", Self::Extension),
        ("_folder", Self::Folder),
        ("_has_frontmatter", Self::HasFrontmatter),
        ("_heading_count", Self::HeadingCount),
        ("_link_count", Self::LinkCount),
        ("_name", Self::Name),
        ("_path", Self::Path),
        ("_size", Self::Size),
        ("_updated", Self::Updated),
        ("_word_count", Self::WordCount),
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, fact)| *fact)
    }

    /// Whether `dataview.computed_fields` controls it.
    pub(crate) const fn is_computed(self) -> bool {
        match self {
            Self::BacklinkCount
            | Self::HasFrontmatter
            | Self::HeadingCount
            | Self::LinkCount
            | Self::Size
            | Self::WordCount => true,
            Self::Extension | Self::Folder | Self::Name | Self::Path | Self::Updated => false,
        }
    }

    /// Its column in `facts`; `None` for fields that come from the path or from links.
    pub(crate) const fn column(self) -> Option<&'static str> {
        match self {
            Self::HasFrontmatter => Some("facts.has_frontmatter"),
            Self::HeadingCount => Some("facts.heading_count"),
            Self::LinkCount => Some("facts.link_count"),
            Self::Size => Some("facts.size"),
            Self::Updated => Some("facts.modified"),
            Self::WordCount => Some("facts.word_count"),
            Self::BacklinkCount | Self::Extension | Self::Folder | Self::Name | Self::Path => None,
        }
    }

    pub(crate) fn of_column(self, number: i64) -> Value {
        match self {
            Self::HasFrontmatter => Value::Boolean(number != 0),
            Self::Updated => Timestamp::from_microsecond(number).map_or(Value::Null, Value::Instant),
            Self::HeadingCount
            | Self::LinkCount
            | Self::Size
            | Self::WordCount
            | Self::BacklinkCount
            | Self::Extension
            | Self::Folder
            | Self::Name
            | Self::Path => Value::Integer(number),
        }
    }

    /// The value, if it comes from the path.
    pub(crate) fn of_path(self, path: &str) -> Option<Value> {
        let (folder, name) = path.rfind('/').map_or(("", path), |slash| path.split_at(slash + 1));
        let text = match self {
            Self::Extension => name.find('.').map_or("", |dot| &name[dot..]),
            Self::Folder => folder,
            Self::Name => name,
            Self::Path => path,
            Self::BacklinkCount
            | Self::HasFrontmatter
            | Self::HeadingCount
            | Self::LinkCount
            | Self::Size
            | Self::Updated
            | Self::WordCount => return None,
        };
        Some(Value::Text(text.to_owned()))
    }
}

/// A page, or a part of one: a list item, a task.
#[derive(Debug, Clone)]
pub(crate) struct QueryRow {
    pub(crate) id: i64,
    pub(crate) path: String,
    /// Members of the frontmatter, each with its index in the requested keys.
    pub(crate) members: Vec<(usize, Json)>,
    pub(crate) facts: Vec<(ImplicitField, Value)>,
    /// Values that override the frontmatter: items of FLATTEN, the parts of a task.
    pub(crate) overrides: Vec<(Vec<ValueStep>, Value)>,
}

impl QueryRow {
    pub(crate) const fn empty() -> Self {
        Self { id: 0, path: String::new(), members: Vec::new(), facts: Vec::new(), overrides: Vec::new() }
    }
}

/// Reads only the members with these keys.
pub(crate) fn members(frontmatter: &str, keys: &[String], path: &str) -> Result<Vec<(usize, Json)>, IndexError> {
    // A text search is faster than parsing; it may have false positives.
    let may_have = |key: &String| {
        key.contains(|c: char| c.is_control() || matches!(c, '"' | '\\')) || frontmatter.contains(key.as_str())
    };
    if !keys.iter().any(may_have) {
        return Ok(Vec::new());
    }
    let mut reader = serde_json::Deserializer::from_str(frontmatter);
    reader
        .deserialize_map(MemberVisitor(keys))
        .map_err(|error| IndexError::Damaged(format!("frontmatter of `{path}`: {error}")))
}

struct MemberVisitor<'k>(&'k [String]);

impl<'de> Visitor<'de> for MemberVisitor<'_> {
    type Value = Vec<(usize, Json)>;
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("frontmatter")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut matched = Vec::new();
        while let Some(index) = map.next_key_seed(KeyPlace(self.0))? {
            match index {
                Some(index) => matched.push((index, map.next_value()?)),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(matched)
    }
}

/// Finds the index of a key in the list without copying the key.
struct KeyPlace<'k>(&'k [String]);

impl<'de> DeserializeSeed<'de> for KeyPlace<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyPlace<'_> {
    type Value = Option<usize>;
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }
    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|known| known == key))
    }
}

/// The tags in the value of the field `tags`.
pub(crate) fn tags_of(tags: &Json) -> Vec<String> {
    let tag = |tag: &Json| match tag {
        Json::String(text) => Some(text.strip_prefix('#').unwrap_or(text).to_owned()),
        Json::Number(number) => Some(number.to_string()),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    };
    match tags {
        Json::Array(tags) => tags.iter().filter_map(tag).collect(),
        single => tag(single).into_iter().collect(),
    }
}

/// Follows a path into a value; `[*]` collects all values into a list.
pub(crate) fn walk(json: &Json, steps: &[ValueStep]) -> Value {
    match steps.split_first() {
        None => Value::of(json),
        Some((ValueStep::Key(key), rest)) => json.get(key).map_or(Value::Null, |inner| walk(inner, rest)),
        Some((ValueStep::Index(index), rest)) => json.get(index).map_or(Value::Null, |inner| walk(inner, rest)),
        Some((ValueStep::Any, rest)) => {
            let items = json.as_array().map_or(std::slice::from_ref(json), Vec::as_slice);
            let matched = items.iter().map(|item| walk(item, rest));
            let is_list = |step: &ValueStep| *step == ValueStep::Any;
            Value::List(if rest.iter().any(is_list) {
                matched.flat_map(|inner| if let Value::List(items) = inner { items } else { vec![inner] }).collect()
            } else {
                matched.filter(|value| !value.is_null()).collect()
            })
        }
    }
}
