//! The YAML block at the top of a page: split, parse and edit.
//!
//! Invariant: everything else stays as written. An edit uses a lossless syntax tree; the result is
//! parsed and compared with the expected data, and rejected on a difference. The body never
//! changes.

mod edit;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub use edit::{DerivedFrom, FrontmatterError, append_provenance, remove, replace_value, set};

/// A longer frontmatter block is treated as empty.
pub const MAX_YAML_BYTES: usize = 64 * 1024;

/// State of the frontmatter block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontmatterBlock {
    /// No frontmatter: the first line is not `---`.
    Absent,
    /// A block between two `---` lines.
    Present,
    /// A block longer than [`MAX_YAML_BYTES`]; treated as empty.
    Oversized,
    /// The first line is `---` but no later line is. The complete page is the body, and edits are
    /// rejected.
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
    /// Byte offset of `yaml` in the page.
    pub yaml_offset: usize,
    /// The page after the closing `---` line; the complete page without a closed block.
    pub body: &'a str,
    /// Byte offset of `body` in the page.
    pub body_offset: usize,
    /// Line number (from 1) of the first line of `body` in the page.
    pub first_body_line: usize,
}

/// The parsed data of a frontmatter block, keys in file order.
#[derive(Debug, Clone, Default)]
pub struct Frontmatter {
    /// Keys and values. Dates are texts, as written.
    pub map: Map<String, Value>,
    /// Why `map` is empty although a block is present.
    pub error: Option<YamlError>,
}

/// Why a frontmatter block could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// Invalid YAML, or beyond the limits for depth, size and aliases.
    #[error("{message} at line {line}, column {column}")]
    Malformed {
        /// The message of the parser, without position.
        message: String,
        /// Line in the page, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// Valid YAML, but not a mapping.
    #[error("frontmatter must be a mapping of keys to values, found {actual}")]
    NotAMapping {
        /// The actual type: `a list`, `text`, …
        actual: &'static str,
    },
    /// The block is longer than [`MAX_YAML_BYTES`].
    #[error("frontmatter has {bytes} bytes; the maximum is {MAX_YAML_BYTES}")]
    Oversized {
        /// Its length.
        bytes: usize,
    },
}

/// Splits a page into frontmatter and body.
///
/// Frontmatter begins only if the first line is exactly `---` (`\r` may follow) and ends at the
/// next such line.
#[must_use]
pub fn split(text: &str) -> SplitPage<'_> {
    let without_block =
        |block| SplitPage { block, yaml: None, yaml_offset: 0, body: text, body_offset: 0, first_body_line: 1 };
    let mut lines = text.split_inclusive('\n');
    let yaml_offset = match lines.next() {
        Some(line) if is_fence(line) => line.len(),
        Some(_) | None => return without_block(FrontmatterBlock::Absent),
    };
    let mut offset = yaml_offset;
    for (index, line) in lines.enumerate() {
        if is_fence(line) {
            let body_offset = offset + line.len();
            let yaml = &text[yaml_offset..offset];
            let block =
                if yaml.len() > MAX_YAML_BYTES { FrontmatterBlock::Oversized } else { FrontmatterBlock::Present };
            return SplitPage {
                block,
                yaml: Some(yaml),
                yaml_offset,
                body: &text[body_offset..],
                body_offset,
                first_body_line: index + 3,
            };
        }
        offset += line.len();
    }
    without_block(FrontmatterBlock::Unterminated)
}

fn is_fence(line: &str) -> bool {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line) == "---"
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
    let yaml = match (split.block, split.yaml) {
        (FrontmatterBlock::Present, Some(yaml)) => yaml,
        (FrontmatterBlock::Oversized, Some(yaml)) => {
            return Frontmatter { map: Map::new(), error: Some(YamlError::Oversized { bytes: yaml.len() }) };
        }
        (FrontmatterBlock::Absent | FrontmatterBlock::Unterminated, _)
        | (FrontmatterBlock::Present | FrontmatterBlock::Oversized, None) => {
            return Frontmatter::default();
        }
    };
    match parse_yaml(yaml) {
        Ok(map) => Frontmatter { map, error: None },
        Err(error) => Frontmatter { map: Map::new(), error: Some(error) },
    }
}

/// Parses the YAML between the two `---` lines.
fn parse_yaml(yaml: &str) -> Result<Map<String, Value>, YamlError> {
    if is_blank(yaml) {
        return Ok(Map::new());
    }
    let options = serde_saphyr::options! {
        // `no`, `on` and `y` are texts, as in YAML 1.2
        strict_booleans: true,
        with_snippet: false,
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::AsString,
    };
    match serde_saphyr::from_str_with_options::<Value>(yaml, options) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(Value::Array(_)) => Err(YamlError::NotAMapping { actual: "a list" }),
        Ok(Value::String(_)) => Err(YamlError::NotAMapping { actual: "text" }),
        Ok(Value::Number(_)) => Err(YamlError::NotAMapping { actual: "a number" }),
        Ok(Value::Bool(_)) => Err(YamlError::NotAMapping { actual: "a boolean" }),
        Err(error) => Err(malformed_error(&error)),
    }
}

/// Whether there are only blank lines and comments.
fn is_blank(yaml: &str) -> bool {
    yaml.lines().all(|line| {
        let line = line.trim_matches([' ', '\t', '\r']);
        line.is_empty() || line.starts_with('#')
    })
}

fn malformed_error(error: &serde_saphyr::Error) -> YamlError {
    let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default();
    // the parser appends its own position, which counts from the line after the opening `---`
    let message = message.rsplit_once(" at line ").map_or(message, |(before, _)| before).to_owned();
    let line = usize::try_from(line).unwrap_or(1).saturating_add(1);
    YamlError::Malformed { message, line, column: usize::try_from(column).unwrap_or(1) }
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

fn scalar_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}
