//! Edits of single frontmatter keys that preserve everything else as written.

use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value};
use yaml_edit::Document;

use super::block::BYTE_ORDER_MARK;
use super::scalars::{NumberForm, resolve};
use super::{MAX_FRONTMATTER_BYTES, ParseError, SplitPage, is_blank, parse_content, split, toml};

/// Maximum number of occurrences tried before the complete value is rewritten.
const MAX_OCCURRENCES: usize = 16;

/// Why a key of the frontmatter was not changed; the page is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrontmatterError {
    /// The present frontmatter is invalid, or not closed.
    #[error("frontmatter is invalid, correct it before changing `{key}`: {source}")]
    Invalid {
        /// The key to change.
        key: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The block would be longer than the limit.
    #[error("frontmatter with `{key}` would have {bytes} bytes; the maximum is {MAX_FRONTMATTER_BYTES}")]
    TooLong {
        /// The key to change.
        key: String,
        /// The length of the new block.
        bytes: usize,
    },
    /// TOML has no null.
    #[error("`{key}` cannot be null in TOML frontmatter (`+++`); remove the key instead")]
    NullInToml {
        /// The key to change.
        key: String,
    },
    /// The change would alter other parts of the frontmatter.
    #[error("`{key}` cannot be changed without altering the rest of the frontmatter; edit the page by hand")]
    Unsafe {
        /// The key to change.
        key: String,
    },
}

/// One entry of the list `derived-from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DerivedFrom<'a> {
    /// Type of origin: `run`, `commit`, …
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// Id of the origin.
    pub id: &'a str,
    /// Time, RFC 3339 in UTC.
    pub date: &'a str,
    /// Author of the change.
    pub actor: &'a str,
}

/// Sets one key of the frontmatter; creates the block when the page has none.
///
/// # Errors
/// [`FrontmatterError`]: the block is not closed, invalid, too long, or cannot be changed safely.
pub fn set(text: &str, key: &str, value: &Value) -> Result<String, FrontmatterError> {
    let page = EditablePage::open(text, key)?;
    let value = &as_read_back(value);
    if page.before.get(key) == Some(value) {
        return Ok(text.to_owned());
    }
    let mut expected = page.before.clone();
    expected.insert(key.to_owned(), value.clone());
    if page.split.toml.is_some() {
        if contains_null(value) {
            return Err(FrontmatterError::NullInToml { key: key.to_owned() });
        }
        return page.finish(key, &expected, toml::assign(page.content(), key, value));
    }
    if is_blank(page.content()) {
        return page.finish(key, &expected, candidates_after_comments(page.content(), key, value, page.newline()));
    }
    let candidates =
        [to_yaml_pair, to_json_pair].into_iter().filter_map(|write| assign(page.content(), key, &write(key, value)?));
    page.finish(key, &expected, candidates)
}

/// The value with each number that would be read as text (module `scalars`) as that text.
fn as_read_back(value: &Value) -> Value {
    match value {
        Value::Number(number) => resolve(&number.to_string(), NumberForm::Any),
        Value::Array(items) => items.iter().map(as_read_back).collect(),
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| (key.clone(), as_read_back(value))).collect::<Map<_, _>>().into()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

fn contains_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(contains_null),
        Value::Object(entries) => entries.values().any(contains_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Replaces one text by another in the value of a key, which is that text or a list that contains
/// it. If possible only the text changes: quotes, list style and comments remain.
///
/// # Errors
/// As [`set`].
pub fn replace_value(text: &str, key: &str, (old, new): (&str, &str)) -> Result<String, FrontmatterError> {
    let page = EditablePage::open(text, key)?;
    let Some(value) = page.before.get(key) else { return Ok(text.to_owned()) };
    let value = replace_in(value, (old, new));
    let mut expected = page.before.clone();
    expected.insert(key.to_owned(), value.clone());
    let content = page.content();
    let occurrences = content.match_indices(old).take(MAX_OCCURRENCES);
    let candidates = occurrences.map(|(at, _)| [&content[..at], new, &content[at + old.len()..]].concat());
    match page.finish(key, &expected, candidates) {
        // Written with escapes, or over several lines.
        Err(FrontmatterError::Unsafe { .. }) => set(text, key, &value),
        outcome => outcome,
    }
}

/// The value with all occurrences replaced, also in nested lists: unquoted `[[a]]` is a list in a
/// list.
fn replace_in(value: &Value, (old, new): (&str, &str)) -> Value {
    match value {
        Value::String(text) if text.trim() == old => new.into(),
        Value::Number(number) if number.to_string() == old => new.into(),
        Value::Array(items) => items.iter().map(|item| replace_in(item, (old, new))).collect(),
        other => other.clone(),
    }
}

/// Removes one key of the frontmatter; a page without the key is unchanged.
///
/// # Errors
/// [`FrontmatterError`]: the block is not closed, invalid, or cannot be changed safely.
pub fn remove(text: &str, key: &str) -> Result<String, FrontmatterError> {
    let page = EditablePage::open(text, key)?;
    let mut expected = page.before.clone();
    if expected.shift_remove(key).is_none() {
        return Ok(text.to_owned());
    }
    if page.split.toml.is_some() {
        return page.finish(key, &expected, toml::remove(page.content(), key));
    }
    let candidate = Document::from_str(page.content()).ok().and_then(|document| {
        document.remove(key)?;
        Some(document.to_string())
    });
    // removing the last key produces `{}` or nothing; the empty block remains in both cases, and
    // comments alone would be headings
    let empty = expected.is_empty().then(|| {
        let comments = comments_of(page.content());
        if comments.is_empty() { comments } else { comments + "{}" }
    });
    page.finish(key, &expected, candidate.into_iter().chain(empty))
}

/// Appends one entry to the list `derived-from`; creates the list when absent. A value that is not
/// a list becomes its first entry.
///
/// # Errors
/// As [`set`].
pub fn append_provenance(text: &str, entry: &DerivedFrom<'_>) -> Result<String, FrontmatterError> {
    const KEY: &str = "derived-from";
    let entry: Value = [("type", entry.kind), ("id", entry.id), ("date", entry.date), ("actor", entry.actor)]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect::<Map<_, _>>()
        .into();
    let page = EditablePage::open(text, KEY)?;
    let mut list = match page.before.get(KEY) {
        Some(Value::Array(list)) => list.clone(),
        Some(Value::Null) | None => Vec::new(),
        Some(single) => vec![single.clone()],
    };
    list.push(entry.clone());
    let mut expected = page.before.clone();
    expected.insert(KEY.to_owned(), Value::Array(list.clone()));
    if page.split.toml.is_some() {
        return set(text, KEY, &Value::Array(list));
    }
    let candidates =
        [to_yaml_pair, to_json_pair].into_iter().filter_map(|write| push(page.content(), KEY, &write(KEY, &entry)?));
    match page.finish(KEY, &expected, candidates) {
        // a list that cannot be extended in place is rewritten
        Err(FrontmatterError::Unsafe { .. }) => set(text, KEY, &Value::Array(list)),
        outcome => outcome,
    }
}

/// A page with valid frontmatter.
struct EditablePage<'a> {
    text: &'a str,
    split: SplitPage<'a>,
    before: Map<String, Value>,
}

impl<'a> EditablePage<'a> {
    fn open(text: &'a str, key: &str) -> Result<Self, FrontmatterError> {
        let split = split(text);
        let invalid = |source| FrontmatterError::Invalid { key: key.to_owned(), source };
        let before = parse_content(&split).map_err(invalid)?;
        Ok(Self { text, split, before })
    }

    fn content(&self) -> &'a str {
        self.split.content().unwrap_or_default()
    }

    fn newline(&self) -> &'static str {
        match self.text.split_once('\n') {
            Some((line, _)) if line.ends_with('\r') => "\r\n",
            Some(_) | None => "\n",
        }
    }

    /// Returns the page with the first candidate for the new block that parses as `expected` and
    /// does not change the body.
    fn finish(
        &self,
        key: &str,
        expected: &Map<String, Value>,
        candidates: impl IntoIterator<Item = String>,
    ) -> Result<String, FrontmatterError> {
        let mut too_long = None;
        for content in candidates {
            let content = self.with_line_endings(content);
            if content.len() > MAX_FRONTMATTER_BYTES {
                too_long = Some(FrontmatterError::TooLong { key: key.to_owned(), bytes: content.len() });
                continue;
            }
            let page = self.with_content(&content);
            let new = split(&page);
            let is_unchanged = new.content() == Some(&content) && new.body == self.split.body;
            if is_unchanged && parse_content(&new).as_ref() == Ok(expected) {
                return Ok(page);
            }
        }
        Err(too_long.unwrap_or_else(|| FrontmatterError::Unsafe { key: key.to_owned() }))
    }

    /// Ends the last line, and uses `\r\n` if all lines of the page do.
    fn with_line_endings(&self, mut content: String) -> String {
        let newline = self.newline();
        if !content.is_empty() && !content.ends_with('\n') {
            content.push_str(newline);
        }
        let has_bare_newlines = self.content().split_inclusive('\n').any(|line| !line.ends_with("\r\n"));
        if newline == "\r\n" && !has_bare_newlines {
            return content.replace("\r\n", "\n").replace('\n', "\r\n");
        }
        content
    }

    fn with_content(&self, content: &str) -> String {
        match self.split.content() {
            Some(old) => {
                let (start, end) = (self.split.content_offset, self.split.content_offset + old.len());
                [&self.text[..start], content, &self.text[end..]].concat()
            }
            None => {
                let (newline, body) = (self.newline(), self.split.body);
                let mark = if self.text.starts_with(BYTE_ORDER_MARK) { "\u{feff}" } else { "" };
                [mark, "---", newline, content, "---", newline, body].concat()
            }
        }
    }
}

/// `{key: value}` as block YAML.
fn to_yaml_pair(key: &str, value: &Value) -> Option<String> {
    let pair: Map<String, Value> = [(key.to_owned(), value.clone())].into_iter().collect();
    serde_saphyr::to_string(&pair).ok()
}

/// `key: value` with key and value as JSON, which is valid YAML: the fallback if block YAML does
/// not parse back.
fn to_json_pair(key: &str, value: &Value) -> Option<String> {
    Some(format!("{}: {value}\n", Value::from(key)))
}

/// Candidates for a block that has only comments.
fn candidates_after_comments(yaml: &str, key: &str, value: &Value, newline: &str) -> Vec<String> {
    let separator = if yaml.is_empty() || yaml.ends_with('\n') { "" } else { newline };
    let write = |pair: String| [yaml, separator, &pair].concat();
    to_yaml_pair(key, value).into_iter().chain(to_json_pair(key, value)).map(write).collect()
}

/// `yaml` with `key` set to the value in the one-key document `pair`.
fn assign(yaml: &str, key: &str, pair: &str) -> Option<String> {
    let document = Document::from_str(yaml).ok()?;
    let value = Document::from_str(pair).ok()?.get(key)?;
    document.set(key, value).then(|| document.to_string())
}

/// `yaml` with the value in the one-key document `pair` appended to the list at `key`.
fn push(yaml: &str, key: &str, pair: &str) -> Option<String> {
    let document = Document::from_str(yaml).ok()?;
    let value = Document::from_str(pair).ok()?.get(key)?;
    document.get_sequence(key)?.push(value);
    Some(document.to_string())
}

fn comments_of(yaml: &str) -> String {
    yaml.split_inclusive('\n').filter(|line| line.trim_start().starts_with('#')).collect()
}
