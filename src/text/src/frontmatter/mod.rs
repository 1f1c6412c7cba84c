//! The frontmatter of a page, YAML or TOML: split, parse and edit.
//!
//! Invariant: everything else stays as written. An edit uses a lossless syntax tree; the result is
//! parsed and compared with the expected data, and rejected on a difference. The body never
//! changes.

mod block;
mod edit;
mod messages;
mod scalars;
#[cfg(test)]
mod tests;
mod toml;
mod value_lines;
mod yaml;

use serde_json::{Map, Value};

pub(crate) use block::BYTE_ORDER_MARK;
pub use block::split;
pub use edit::{DerivedFrom, FrontmatterError, append_provenance, remove, replace_value, set};
pub use value_lines::ValueLines;

/// A longer frontmatter block is treated as empty.
pub const MAX_FRONTMATTER_BYTES: usize = 64 * 1024;

/// State of the frontmatter block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontmatterBlock {
    /// No frontmatter.
    Absent,
    /// A block between two `---` or `+++` lines.
    Present,
    /// A block longer than [`MAX_FRONTMATTER_BYTES`]; treated as empty.
    Oversized,
    /// The first line begins a block that no later line ends. The complete page is the body, and
    /// edits are rejected.
    Unterminated,
}

/// A page split into frontmatter and body; both borrow from the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitPage<'a> {
    /// State of the frontmatter block.
    pub block: FrontmatterBlock,
    /// The text between the two `---` lines, with its last line ending; none without a closed
    /// block.
    pub yaml: Option<&'a str>,
    /// The same between two `+++` lines.
    pub toml: Option<&'a str>,
    /// Byte offset in the page of the text between the two lines.
    pub content_offset: usize,
    /// The page after the line that ends the block; the complete page without a closed block, but
    /// not its byte order mark.
    pub body: &'a str,
    /// Byte offset of `body` in the page.
    pub body_offset: usize,
    /// Line number (from 1) of the first line of `body` in the page.
    pub first_body_line: usize,
}

impl<'a> SplitPage<'a> {
    /// The text of a closed block, YAML or TOML.
    #[must_use]
    pub fn content(&self) -> Option<&'a str> {
        self.yaml.or(self.toml)
    }
}

/// The parsed data of a frontmatter block, keys in file order.
#[derive(Debug, Clone, Default)]
pub struct Frontmatter {
    /// Keys and values. Dates are texts, as written.
    pub map: Map<String, Value>,
    /// Why `map` is empty although a block is present.
    pub error: Option<ParseError>,
}

/// Why a frontmatter block could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Invalid YAML or TOML, or beyond the limits for depth and aliases.
    #[error("{message} at line {line}, column {column}")]
    Malformed {
        /// What is wrong, without position.
        message: String,
        /// Line in the page, from 1.
        line: usize,
        /// Column, from 1, in characters.
        column: usize,
    },
    /// Valid YAML, but not a mapping.
    #[error("frontmatter must consist of lines `key: value`, found {actual}")]
    NotAMapping {
        /// The actual type: `a list`, `text`, …
        actual: &'static str,
    },
    /// The first line begins a block that no later line ends.
    #[error("frontmatter is not closed; add a line `---` after it")]
    Unterminated,
    /// The block is longer than [`MAX_FRONTMATTER_BYTES`].
    #[error("frontmatter has {bytes} bytes; the maximum is {MAX_FRONTMATTER_BYTES}")]
    Oversized {
        /// Its length.
        bytes: usize,
    },
}

impl ParseError {
    /// The message without position.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::Malformed { message, .. } => message.clone(),
            Self::NotAMapping { .. } | Self::Unterminated | Self::Oversized { .. } => self.to_string(),
        }
    }

    /// Line and column in the page, from 1.
    #[must_use]
    pub fn position(&self) -> (usize, usize) {
        match self {
            Self::Malformed { line, column, .. } => (*line, *column),
            Self::NotAMapping { .. } => (2, 1),
            Self::Unterminated | Self::Oversized { .. } => (1, 1),
        }
    }
}

/// Parses the frontmatter of a page; empty when there is none, when it is invalid, or when it is
/// too long.
#[must_use]
pub fn parse(text: &str) -> Frontmatter {
    parse_split(&split(text))
}

/// Parses the frontmatter of a split page.
#[must_use]
pub fn parse_split(split: &SplitPage<'_>) -> Frontmatter {
    match parse_content(split) {
        Ok(map) => Frontmatter { map, error: None },
        Err(error) => Frontmatter { map: Map::new(), error: Some(error) },
    }
}

fn parse_content(split: &SplitPage<'_>) -> Result<Map<String, Value>, ParseError> {
    match split.block {
        FrontmatterBlock::Absent => Ok(Map::new()),
        FrontmatterBlock::Unterminated => Err(ParseError::Unterminated),
        FrontmatterBlock::Oversized => Err(ParseError::Oversized { bytes: split.content().map_or(0, str::len) }),
        FrontmatterBlock::Present => match (split.yaml, split.toml) {
            (Some(yaml), _) if !is_blank(yaml) => yaml::parse(yaml),
            (None, Some(toml)) => toml::parse(toml),
            (Some(_) | None, _) => Ok(Map::new()),
        },
    }
}

/// The keys of a closed block and the lines in it (from 1) where they begin, in order; none if a
/// key has no line of its own.
pub(crate) fn key_lines(split: &SplitPage<'_>) -> Option<Vec<(String, usize)>> {
    match (split.yaml, split.toml) {
        (Some(yaml), _) => yaml::key_lines(yaml),
        (None, Some(toml)) => toml::key_lines(toml),
        (None, None) => Some(Vec::new()),
    }
}

/// Whether there are only blank lines and comments.
fn is_blank(content: &str) -> bool {
    content.lines().all(|line| {
        let line = line.trim_matches([' ', '\t', '\r']);
        line.is_empty() || line.starts_with('#')
    })
}

impl Frontmatter {
    /// The value of a key as one line of text; numbers and booleans as in JSON.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<String> {
        self.map.get(key).and_then(scalar_text)
    }

    /// The texts of a key whose value is a list or one text.
    #[must_use]
    pub fn texts(&self, key: &str) -> Vec<String> {
        match self.map.get(key) {
            Some(Value::Array(items)) => items.iter().filter_map(scalar_text).collect(),
            Some(value) => scalar_text(value).into_iter().collect(),
            None => Vec::new(),
        }
    }
}

/// A scalar as one line of text; none for an empty one and for collections.
pub(crate) fn scalar_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}
