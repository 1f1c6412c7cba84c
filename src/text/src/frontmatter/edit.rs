//! One key of the frontmatter changed, everything else left as the author wrote it.

use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value};
use yaml_edit::Document;

use super::{FrontmatterBlock, MAX_YAML_BYTES, SplitPage, YamlError, is_blank, read_yaml, split};

/// So many places where a text stands are tried before the whole value is written anew.
const MOST_PLACES: usize = 16;

/// Why a key of the frontmatter could not be changed; the page is then as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrontmatterError {
    /// The page begins with `---` and no later line closes the block.
    #[error(
        "frontmatter is not closed: the first line is `---` and no later line is; close it before changing `{key}`"
    )]
    Unterminated {
        /// The key that was to be changed.
        key: String,
    },
    /// The frontmatter that is there cannot be read.
    #[error("frontmatter cannot be read, mend it before changing `{key}`: {source}")]
    Invalid {
        /// The key that was to be changed.
        key: String,
        /// What is wrong with it.
        source: YamlError,
    },
    /// The change would make the block longer than is read back.
    #[error("frontmatter would be {bytes} bytes long with `{key}`, {MAX_YAML_BYTES} are allowed")]
    TooLong {
        /// The key that was to be changed.
        key: String,
        /// The length it would have.
        bytes: usize,
    },
    /// The change cannot be made without changing something else, so it was not made.
    #[error("`{key}` cannot be changed without altering the rest of the frontmatter; edit the page by hand")]
    Unsafe {
        /// The key that was to be changed.
        key: String,
    },
}

/// One entry of the list `derived-from` (gaps.md 4.1, provenance injection).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DerivedFrom<'a> {
    /// What kind of thing the page was made from: `run`, `commit`, …
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// Which one.
    pub id: &'a str,
    /// When, RFC 3339 in UTC.
    pub date: &'a str,
    /// Who wrote it.
    pub actor: &'a str,
}

/// Set one key of the frontmatter; the block is created when the page has none.
///
/// # Errors
/// [`FrontmatterError`]: the block is not closed, not readable, would grow too long, or cannot be changed safely.
pub fn set(text: &str, key: &str, value: &Value) -> Result<String, FrontmatterError> {
    let page = EditablePage::open(text, key)?;
    if page.before.get(key) == Some(value) {
        return Ok(text.to_owned());
    }
    let mut wanted = page.before.clone();
    wanted.insert(key.to_owned(), value.clone());
    if is_blank(page.yaml()) {
        return page.close(key, &wanted, written_after(page.yaml(), key, value, page.newline()));
    }
    let attempts = [yaml_of, json_of].into_iter().filter_map(|write| assign(page.yaml(), key, &write(key, value)?));
    page.close(key, &wanted, attempts)
}

/// Put one text in the place of another in the value of a key, which is that text or a list that has it. Where it can be, nothing but the
/// text changes: quotes, the form of a list and comments stay.
///
/// # Errors
/// As [`set`].
pub fn replace_value(text: &str, key: &str, (old, new): (&str, &str)) -> Result<String, FrontmatterError> {
    let page = EditablePage::open(text, key)?;
    let Some(value) = page.before.get(key) else { return Ok(text.to_owned()) };
    let value = exchanged(value, (old, new));
    let mut wanted = page.before.clone();
    wanted.insert(key.to_owned(), value.clone());
    let yaml = page.yaml();
    let places = yaml.match_indices(old).take(MOST_PLACES);
    let in_place = places.map(|(at, _)| [&yaml[..at], new, &yaml[at + old.len()..]].concat());
    match page.close(key, &wanted, in_place) {
        // Written with escapes, or over several lines.
        Err(FrontmatterError::Unsafe { .. }) => set(text, key, &value),
        outcome => outcome,
    }
}

/// The value with the text in all places, however deep in lists: `[[a]]` without quotes is a list in a list.
fn exchanged(value: &Value, (old, new): (&str, &str)) -> Value {
    match value {
        Value::String(text) if text.trim() == old => new.into(),
        Value::Number(number) if number.to_string() == old => new.into(),
        Value::Array(items) => items.iter().map(|item| exchanged(item, (old, new))).collect(),
        other => other.clone(),
    }
}

/// Remove one key of the frontmatter; a page without the key comes back as it is.
///
/// # Errors
/// [`FrontmatterError`]: the block is not closed, not readable, or cannot be changed safely.
pub fn remove(text: &str, key: &str) -> Result<String, FrontmatterError> {
    let page = EditablePage::open(text, key)?;
    let mut wanted = page.before.clone();
    if wanted.shift_remove(key).is_none() {
        return Ok(text.to_owned());
    }
    let edited = Document::from_str(page.yaml()).ok().and_then(|document| {
        document.remove(key)?;
        Some(document.to_string())
    });
    // the last key leaves `{}` or nothing behind: either way the block stays, empty
    let emptied = wanted.is_empty().then(|| comments_of(page.yaml()));
    page.close(key, &wanted, edited.into_iter().chain(emptied))
}

/// Append one entry to the list `derived-from`, which is created when absent; a value that is no list becomes its first entry.
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
    let mut wanted = page.before.clone();
    wanted.insert(KEY.to_owned(), Value::Array(list.clone()));
    let pushed = [yaml_of, json_of].into_iter().filter_map(|write| push(page.yaml(), KEY, &write(KEY, &entry)?));
    match page.close(KEY, &wanted, pushed) {
        // a list that cannot be appended to in place is written anew
        Err(FrontmatterError::Unsafe { .. }) => set(text, KEY, &Value::Array(list)),
        outcome => outcome,
    }
}

/// A page whose frontmatter may be changed.
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
            FrontmatterBlock::Present => read_yaml(split.yaml.unwrap_or_default()).map_err(invalid)?,
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

    /// The line ending of the page, told by its first line.
    fn newline(&self) -> &'static str {
        match self.text.split_once('\n') {
            Some((line, _)) if line.ends_with('\r') => "\r\n",
            Some(_) | None => "\n",
        }
    }

    /// Take the first of the candidates for the new YAML that reads back as `wanted` and leaves the body where it is.
    fn close(
        &self,
        key: &str,
        wanted: &Map<String, Value>,
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
            let again = split(&page);
            if again.yaml == Some(&yaml) && again.body == self.split.body && read_yaml(&yaml).as_ref() == Ok(wanted) {
                return Ok(page);
            }
        }
        Err(too_long.unwrap_or_else(|| FrontmatterError::Unsafe { key: key.to_owned() }))
    }

    /// Close the last line, and put the page's own line endings where the editor wrote bare ones into a page without any.
    fn with_line_endings(&self, mut yaml: String) -> String {
        let newline = self.newline();
        if !yaml.is_empty() && !yaml.ends_with('\n') {
            yaml.push_str(newline);
        }
        let had_bare_ones = self.yaml().split_inclusive('\n').any(|line| !line.ends_with("\r\n"));
        if newline == "\r\n" && !had_bare_ones {
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
fn yaml_of(key: &str, value: &Value) -> Option<String> {
    let pair: Map<String, Value> = [(key.to_owned(), value.clone())].into_iter().collect();
    serde_saphyr::to_string(&pair).ok()
}

/// `key: value` with key and value as JSON, which YAML reads too: the plain way out when block YAML does not read back.
fn json_of(key: &str, value: &Value) -> Option<String> {
    Some(format!("{}: {value}\n", Value::from(key)))
}

/// The ways to write a key into a block that holds nothing but comments.
fn written_after(yaml: &str, key: &str, value: &Value, newline: &str) -> Vec<String> {
    let between = if yaml.is_empty() || yaml.ends_with('\n') { "" } else { newline };
    let write = |pair: String| [yaml, between, &pair].concat();
    yaml_of(key, value).into_iter().chain(json_of(key, value)).map(write).collect()
}

/// `yaml` with `key` set to the value that the one-key document `pair` holds.
fn assign(yaml: &str, key: &str, pair: &str) -> Option<String> {
    let document = Document::from_str(yaml).ok()?;
    let value = Document::from_str(pair).ok()?.get(key)?;
    document.set(key, value).then(|| document.to_string())
}

/// `yaml` with the value of the one-key document `pair` appended to the list at `key`.
fn push(yaml: &str, key: &str, pair: &str) -> Option<String> {
    let document = Document::from_str(yaml).ok()?;
    let value = Document::from_str(pair).ok()?.get(key)?;
    document.get_sequence(key)?.push(value);
    Some(document.to_string())
}

/// The comment lines of a block, all that is left of it when its last key goes.
fn comments_of(yaml: &str) -> String {
    yaml.split_inclusive('\n').filter(|line| line.trim_start().starts_with('#')).collect()
}
