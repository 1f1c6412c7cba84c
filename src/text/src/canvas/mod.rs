//! Canvases: JSON Canvas documents (jsoncanvas.org 1.0), as Obsidian stores them.
//!
//! Invariant: a document is a text with byte ranges. An edit replaces the ranges of what it
//! changes; every other byte stays, with unknown fields, number forms and indentation.

mod edit;
mod links;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

pub use edit::{CanvasEditor, EditCounts, ListKind};
pub use links::{links, retarget};

/// The text of a new canvas, in the form that Obsidian writes.
pub const EMPTY_CANVAS: &str = "{\n\t\"nodes\":[],\n\t\"edges\":[]\n}";

/// Whether a path is one of a canvas: Obsidian's files end in `.canvas`, others in `.canvas.json`.
#[must_use]
pub fn is_canvas_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    [".canvas", ".canvas.json"].iter().any(|suffix| name.strip_suffix(suffix).is_some_and(|stem| !stem.is_empty()))
}

/// Why a text is not a canvas; the message names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CanvasError(String);

/// A parsed canvas.
#[derive(Debug)]
pub struct Canvas<'a> {
    text: &'a str,
    members: Members<'a>,
    nodes: ElementList<'a>,
    edges: ElementList<'a>,
}

/// A node or an edge of a parsed canvas.
#[derive(Debug, Clone)]
pub struct Element<'a> {
    raw: &'a str,
    range: Range<usize>,
    members: Members<'a>,
}

/// An array of the document with its elements.
#[derive(Debug, Default)]
struct ElementList<'a> {
    /// Range of the array with its brackets; none if the document has no such member.
    range: Option<Range<usize>>,
    elements: Vec<Element<'a>>,
}

/// The members of an object in the order of the text.
#[derive(Debug, Default, Clone)]
struct Members<'a>(Vec<Member<'a>>);

#[derive(Debug, Clone)]
struct Member<'a> {
    name: String,
    /// The value as written.
    raw: &'a str,
    range: Range<usize>,
}

impl<'a> Canvas<'a> {
    /// Parses a canvas. A missing array is empty, and so is an empty text: Obsidian creates such
    /// files.
    ///
    /// # Errors
    /// [`CanvasError`] for a text that is not JSON, or not an object with arrays of objects.
    pub fn parse(text: &'a str) -> Result<Self, CanvasError> {
        let members = match text.trim_start_matches('\u{feff}').trim() {
            "" => Members::default(),
            trimmed => Members::parse(text, trimmed).map_err(|error| CanvasError(format!("not a canvas: {error}")))?,
        };
        let nodes = ElementList::parse(text, &members, "nodes")?;
        let edges = ElementList::parse(text, &members, "edges")?;
        Ok(Self { text, members, nodes, edges })
    }

    /// The nodes in the order of the text.
    #[must_use]
    pub fn nodes(&self) -> &[Element<'a>] {
        &self.nodes.elements
    }

    /// The edges in the order of the text.
    #[must_use]
    pub fn edges(&self) -> &[Element<'a>] {
        &self.edges.elements
    }

    /// Checks what a canvas needs so that programs can show it: both arrays, unique ids, numbers as
    /// positions, and edges with two ends. Ends without a node are allowed.
    ///
    /// # Errors
    /// [`CanvasError`], which names the element and the field.
    pub fn check(&self) -> Result<(), CanvasError> {
        for (name, list) in [("nodes", &self.nodes), ("edges", &self.edges)] {
            if list.range.is_none() {
                return Err(CanvasError(format!("`{name}` is missing; it must be an array, which may be empty")));
            }
            let mut ids = std::collections::HashSet::new();
            for (index, element) in list.elements.iter().enumerate() {
                let in_element = |error: CanvasError| CanvasError(format!("{name}[{index}]: {error}"));
                let value = element.to_value().map_err(in_element)?;
                check_element(name == "nodes", &value).map_err(in_element)?;
                if let Some(id) = element.id().filter(|id| !ids.insert(id.clone())) {
                    return Err(in_element(CanvasError(format!("the id `{id}` is used twice"))));
                }
            }
        }
        Ok(())
    }
}

/// Checks the types of the known fields of a node or an edge.
///
/// # Errors
/// [`CanvasError`], which names the field.
pub(crate) fn check_element(is_node: bool, element: &Value) -> Result<(), CanvasError> {
    let Value::Object(members) = element else { return Err(CanvasError("must be an object".to_owned())) };
    let (required, texts, numbers): (&[&str], &[&str], &[&str]) = if is_node {
        (&["id"], &["type", "text", "file", "url", "subpath", "color", "label"], &["x", "y", "width", "height"])
    } else {
        (&["id", "fromNode", "toNode"], &["fromSide", "toSide", "color", "label"], &[])
    };
    for name in required {
        if members.get(*name).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(CanvasError(format!("`{name}` is required and must be a text")));
        }
    }
    if let Some(name) =
        texts.iter().find(|name| members.get(**name).is_some_and(|value| !value.is_string() && !value.is_null()))
    {
        return Err(CanvasError(format!("`{name}` must be a text")));
    }
    if let Some(name) = numbers.iter().find(|name| members.get(**name).is_some_and(|value| !value.is_number())) {
        return Err(CanvasError(format!("`{name}` must be a number")));
    }
    if is_node && members.get("data").is_some_and(|data| !data.is_object()) {
        return Err(CanvasError("`data` must be an object".to_owned()));
    }
    Ok(())
}

impl Element<'_> {
    /// The id, if it is a text.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        self.text_of("id")
    }

    /// A member that is a text.
    #[must_use]
    pub fn text_of(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.members.get(name)?.raw).ok()
    }

    /// A member that is a finite number.
    #[must_use]
    pub fn number_of(&self, name: &str) -> Option<f64> {
        serde_json::from_str::<f64>(self.members.get(name)?.raw).ok().filter(|number| number.is_finite())
    }

    /// The element as a JSON value.
    ///
    /// # Errors
    /// [`CanvasError`] for values that are nested more than 128 levels deep.
    pub fn to_value(&self) -> Result<Value, CanvasError> {
        serde_json::from_str(self.raw).map_err(|error| CanvasError(without_position(&error)))
    }

    /// The path of the file that a node shows: `file`, or `data.path`.
    #[must_use]
    pub fn file(&self) -> Option<String> {
        self.text_of("file").or_else(|| {
            let data = self.members.get("data")?;
            Members::parse(data.raw, data.raw).ok()?.text_of("path")
        })
    }
}

impl<'a> ElementList<'a> {
    fn parse(text: &str, members: &Members<'a>, name: &str) -> Result<Self, CanvasError> {
        let Some(member) = members.get(name) else { return Ok(Self::default()) };
        let raw: Vec<&'a RawValue> = serde_json::from_str(member.raw)
            .map_err(|error| CanvasError(format!("`{name}` must be an array: {}", without_position(&error))))?;
        let mut elements = Vec::with_capacity(raw.len());
        for (index, element) in raw.into_iter().enumerate() {
            let raw = element.get();
            let members = Members::parse(text, raw)
                .map_err(|error| CanvasError(format!("{name}[{index}] must be an object: {error}")))?;
            elements.push(Element { raw, range: range_in(text, raw), members });
        }
        Ok(Self { range: Some(member.range.clone()), elements })
    }
}

impl<'a> Members<'a> {
    /// The members of the object `raw`, which is a part of `text`.
    fn parse(text: &str, raw: &'a str) -> Result<Self, String> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Vec<(String, &'de RawValue)>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = object.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        let mut parser = serde_json::Deserializer::from_str(raw);
        let members = parser.deserialize_map(ObjectVisitor).map_err(|error| error.to_string())?;
        parser.end().map_err(|error| error.to_string())?;
        let member = |(name, value): (String, &'a RawValue)| {
            let raw = value.get();
            Member { name, raw, range: range_in(text, raw) }
        };
        Ok(Self(members.into_iter().map(member).collect()))
    }

    /// The member of this name; of equal names the last one counts, as in JavaScript.
    fn get(&self, name: &str) -> Option<&Member<'a>> {
        self.0.iter().rev().find(|member| member.name == name)
    }

    fn text_of(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?.raw).ok()
    }
}

/// The range of `part`, which is a slice of `text`.
fn range_in(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    start..start + part.len()
}

/// The message of a parse error without the position, which is relative to a part of the document.
fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or(message.clone(), |(message, _)| message.to_owned())
}
