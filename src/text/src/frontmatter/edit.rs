//! Edits of single frontmatter keys that preserve everything else as written.

use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value};
use yaml_edit::Document;

use super::{FrontmatterBlock, MAX_YAML_BYTES, SplitPage, YamlError, is_blank, parse_yaml, split};

/// Maximum number of occurrences tried before the complete value is rewritten.
const MAX_OCCURRENCES: usize = 16;

/// Why a key of the frontmatter was not changed; the page is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrontmatterError {
    /// The page begins with `---`, but no later line closes the block.
    #[error("frontmatter is not closed by a second `---` line; close it before changing `{key}`")]
    Unterminated {
        /// The key to change.
        key: String,
    },
    /// The present frontmatter is invalid.
    #[error("frontmatter is invalid, correct it before changing `{key}`: {source}")]
    Invalid {
        /// The key to change.
        key: String,
        /// The YAML error.
        source: YamlError,
    },
    /// The block would be longer than the limit.
    #[error("frontmatter with `{key}` would have {bytes} bytes; the maximum is {MAX_YAML_BYTES}")]
    TooLong {
        /// The key to change.
        key: String,
        /// The length of the new block.
        bytes: usize,
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
    if page.before.get(key) == Some(value) {
        return Ok(text.to_owned());
    }
    let mut expected = page.before.clone();
    expected.insert(key.to_owned(), value.clone());
    if is_blank(page.yaml()) {
        return page.finish(key, &expected, candidates_after_comments(page.yaml(), key, value, page.newline()));
    }
    let candidates =
        [to_yaml_pair, to_json_pair].into_iter().filter_map(|write| assign(page.yaml(), key, &write(key, value)?));
    page.finish(key, &expected, candidates)
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
    let yaml = page.yaml();
    let occurrences = yaml.match_indices(old).take(MAX_OCCURRENCES);
    let candidates = occurrences.map(|(at, _)| [&yaml[..at], new, &yaml[at + old.len()..]].concat());
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
    let candidate = Document::from_str(page.yaml()).ok().and_then(|document| {
        document.remove(key)?;
        Some(document.to_string())
    });
    // removing the last key produces `{}` or nothing; the empty block remains in both cases
    let comments_only = expected.is_empty().then(|| comments_of(page.yaml()));
    page.finish(key, &expected, candidate.into_iter().chain(comments_only))
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
    let candidates =
        [to_yaml_pair, to_json_pair].into_iter().filter_map(|write| push(page.yaml(), KEY, &write(KEY, &entry)?));
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
        let before = match split.block {
            FrontmatterBlock::Absent => Map::new(),
            FrontmatterBlock::Present => parse_yaml(split.yaml.unwrap_or_default()).map_err(invalid)?,
            FrontmatterBlock::Oversized => {
                return Err(invalid(YamlError::Oversized { bytes: split.yaml.unwrap_or_default().len() }));
            }
            FrontmatterBlock::Unterminated => return Err(FrontmatterError::Unterminated { key: key.to_owned() }),
        };
        Ok(Self { text, split, before })
    }

    fn yaml(&self) -> &'a str {
        self.split.yaml.unwrap_or_default()
    }

    fn newline(&self) -> &'static str {
        match self.text.split_once('\n') {
            Some((line, _)) if line.ends_with('\r') => "\r\n",
            Some(_) | None => "\n",
        }
    }

    /// Returns the page with the first candidate for the new YAML that parses as `expected` and
    /// does not change the body.
    fn finish(
        &self,
        key: &str,
        expected: &Map<String, Value>,
        candidates: impl IntoIterator<Item = String>,
    ) -> Result<String, FrontmatterError> {
        let mut too_long = None;
        for yaml in candidates {
            let yaml = self.with_line_endings(yaml);
            if yaml.len() > MAX_YAML_BYTES {
                too_long = Some(FrontmatterError::TooLong { key: key.to_owned(), bytes: yaml.len() });
                continue;
            }
            let page = self.with_yaml(&yaml);
            let reparsed = split(&page);
            if reparsed.yaml == Some(&yaml)
                && reparsed.body == self.split.body
                && parse_yaml(&yaml).as_ref() == Ok(expected)
            {
                return Ok(page);
            }
        }
        Err(too_long.unwrap_or_else(|| FrontmatterError::Unsafe { key: key.to_owned() }))
    }

    /// Ends the last line, and uses `\r\n` if all lines of the page do.
    fn with_line_endings(&self, mut yaml: String) -> String {
        let newline = self.newline();
        if !yaml.is_empty() && !yaml.ends_with('\n') {
            yaml.push_str(newline);
        }
        let has_bare_newlines = self.yaml().split_inclusive('\n').any(|line| !line.ends_with("\r\n"));
        if newline == "\r\n" && !has_bare_newlines {
            return yaml.replace("\r\n", "\n").replace('\n', "\r\n");
        }
        yaml
    }

    fn with_yaml(&self, yaml: &str) -> String {
        match self.split.yaml {
            Some(old) => {
                let end = self.split.yaml_offset + old.len();
                [&self.text[..self.split.yaml_offset], yaml, &self.text[end..]].concat()
            }
            None => {
                let newline = self.newline();
                ["---", newline, yaml, "---", newline, self.text].concat()
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
