//! The fields of a page as words of the full-text index, so that `status:verified` and `path:docs/`
//! are ordinary word queries.
//!
//! Each word of a value gets the field as prefix (`owner:platform owner:team`). A tag and a path
//! are also indexed as a unit (`tags:area/work`, and for a path every parent folder). The field
//! alone (`owner:`) says that the page has it.

use std::collections::HashMap;

use serde_json::{Map, Value};
use svcfs_text::fold::{fold_name, fold_word};
use unicode_normalization::char::is_combining_mark;

use crate::words::{Dictionary, TextWords};

/// Word limit per page: of a page with a data set in its frontmatter only the first values are
/// indexed.
const MAX_WORDS: usize = 4_000;

const MAX_DEPTH: usize = 8;

pub(crate) const PATH: &str = "path";

/// The fields whose values are also indexed as a unit.
pub(crate) const EXACT_FIELDS: [&str; 3] = [PATH, "tags", "tag"];

pub(crate) fn token(field: &str, word: &str) -> String {
    format!("{field}:{word}")
}

/// Normalizes a field name: folded, `-` for a space. `None` for a name with characters that no
/// field name has.
pub(crate) fn normalize_name(field: &str) -> Option<String> {
    let name: String = fold_name(field.trim()).replace(' ', "-");
    let is_name = |character: char| {
        character.is_alphanumeric() || matches!(character, '-' | '_' | '.') || is_combining_mark(character)
    };
    (!name.is_empty() && name.len() <= 64 && name.chars().all(is_name)).then_some(name)
}

/// Normalizes a value that is indexed as a unit.
pub(crate) fn normalize_value(value: &str) -> String {
    let mut normalized = String::with_capacity(value.len());
    for character in fold_word(value.trim().trim_matches('/')).chars() {
        match character {
            '-' | '_' | '.' | ':' | '/' => normalized.push(character),
            _ if character.is_whitespace() || character.is_ascii_punctuation() || character.is_control() => {
                normalized.push('-')
            }
            _ => normalized.push(character),
        }
    }
    normalized
}

pub(crate) fn tokens(
    path: &str,
    frontmatter: &Map<String, Value>,
    tags: &[String],
    dictionary: &mut Dictionary,
) -> Vec<String> {
    let mut tokens = FieldTokens { all: Vec::new(), dictionary };
    tokens.path(path);
    // Names come before values, so that the limit never drops one: field indexes rely on them
    // (`fields::presence_query`).
    tokens.all.extend(frontmatter.keys().filter_map(|field| normalize_name(field)).map(|field| token(&field, "")));
    let limit = MAX_WORDS.max(tokens.all.len());
    for tag in tags {
        for field in ["tag", "tags"] {
            tokens.all.push(token(field, &normalize_value(tag)));
            tokens.text(field, tag);
        }
    }
    if !tags.is_empty() {
        tokens.all.extend(["tag:".to_owned(), "tags:".to_owned()]);
    }
    for (field, value) in frontmatter {
        if let Some(name) = normalize_name(field).filter(|name| !EXACT_FIELDS.contains(&name.as_str())) {
            tokens.value(&name, value, 0);
        }
    }
    tokens.all.truncate(limit);
    tokens.all
}

/// Density levels of a subject: one in so many words of the text, the densest first.
const DENSITY_LEVELS: [usize; 2] = [20, 60];

/// Fewer uses are chance.
const MIN_USES: usize = 4;

const MAX_SUBJECTS: usize = 16;

/// The token for a subject with its level in [`DENSITY_LEVELS`]. No field and no word starts with
/// `/`.
pub(crate) fn subject_token(density: usize, word: &str) -> String {
    format!("/{density}{word}")
}

pub(crate) const DENSITIES: usize = DENSITY_LEVELS.len();

/// The subjects of a page: the words its text uses most often. They select candidates among 100,000
/// pages with a word, also old pages and pages with another title.
pub(crate) fn subjects(text: &TextWords) -> Vec<String> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for word in text.terms() {
        *uses.entry(word).or_default() += 1;
    }
    let word_count = text.stream.len();
    let density = |uses: usize| DENSITY_LEVELS.iter().position(|level| uses * level >= word_count);
    let frequent = uses.into_iter().filter(|(_, uses)| *uses >= MIN_USES);
    let mut frequent: Vec<_> = frequent.filter_map(|(word, uses)| Some((uses, word, density(uses)?))).collect();
    frequent.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    frequent.into_iter().take(MAX_SUBJECTS).map(|(_, word, density)| subject_token(density, word)).collect()
}

struct FieldTokens<'d> {
    all: Vec<String>,
    dictionary: &'d mut Dictionary,
}

impl FieldTokens<'_> {
    fn path(&mut self, path: &str) {
        self.all.push(token(PATH, ""));
        let name = path.rsplit_once('.').map_or(path, |(name, _)| name);
        let folders = path.match_indices('/').map(|(at, _)| &path[..at]);
        for prefix in folders.chain([name, path]) {
            self.all.push(token(PATH, &normalize_value(prefix)));
        }
        self.text(PATH, name);
    }

    fn value(&mut self, field: &str, value: &Value, depth: usize) {
        if self.all.len() >= MAX_WORDS || depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    if let Some(key) = normalize_name(key) {
                        self.value(&format!("{field}.{key}"), value, depth + 1);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.value(field, item, depth + 1)),
            Value::Null => {}
            Value::String(text) => self.text(field, text),
            Value::Bool(_) | Value::Number(_) => self.text(field, &value.to_string()),
        }
        if depth > 0 {
            self.all.push(token(field, ""));
        }
    }

    fn text(&mut self, field: &str, text: &str) {
        let words = TextWords::of(&text[..text.floor_char_boundary(4_096)], self.dictionary);
        self.all.extend(words.terms().chain(words.extra_terms()).map(|word| token(field, word)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_is_found_by_its_words_and_a_path_by_every_folder() {
        let Value::Object(map) = json!({ "Status": "Verified", "owner": { "team": ["Core X"] }, "n": 3, "e": null })
        else {
            unreachable!()
        };
        let tokens = tokens("docs/API/a-b.md", &map, &["Area/Work".to_owned()], &mut Dictionary::default());
        for token in [
            "status:verifi",
            "status:",
            "owner.team:core",
            "owner.team:x",
            "n:3",
            "e:",
            "path:docs",
            "path:docs/api",
            "path:docs/api/a-b",
            "path:docs/api/a-b.md",
            "path:ab",
            "tags:area/work",
            "tag:work",
        ] {
            assert!(tokens.iter().any(|known| known == token), "{token} is not among {tokens:?}");
        }
    }

    #[test]
    fn a_complete_value_is_folded_without_tokenizer_separators() {
        assert_eq!(normalize_value("/Docs/Über uns/"), "docs/uber-uns");
        assert_eq!(normalize_name("source-of-truth").as_deref(), Some("source-of-truth"));
        assert_eq!((normalize_name("a\"b"), normalize_name("")), (None, None));
    }
}
