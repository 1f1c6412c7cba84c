//! Checks of a schema document before it is compiled: its references, and its size when they are
//! followed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::{SCHEMAS_FOLDER, is_type_name};

const REFERENCE_KEYS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords whose values are data and no schemas.
const DATA_KEYS: [&str; 5] = ["const", "enum", "default", "example", "examples"];

/// Keywords whose values are schemas by name.
const NAMED_KEYS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// Limit of the parts of a schema, with every reference replaced by its target: a page is compared
/// with each of them.
const MAX_PARTS: usize = 20_000;

/// Limit of references that lead to each other, and of schemas within each other: the validator
/// follows both on the stack.
const MAX_REFERENCE_DEPTH: usize = 32;
const MAX_NESTING: usize = 128;

/// Documents of one compilation by the name of their type.
pub type Documents = BTreeMap<String, Value>;

/// The target of a reference.
#[derive(Debug, PartialEq, Eq)]
struct Reference<'d> {
    /// The name of another schema; none for the document itself.
    name: Option<&'d str>,
    /// The part after `#`.
    fragment: &'d str,
}

impl<'d> Reference<'d> {
    fn parse(text: &'d str) -> Result<Self, String> {
        let (file, fragment) = text.split_once('#').unwrap_or((text, ""));
        if file.is_empty() {
            return Ok(Self { name: None, fragment });
        }
        let name = file.strip_prefix("./").unwrap_or(file).strip_suffix(".json").filter(|name| is_type_name(name));
        if name.is_none() {
            let displayed: String = svcfs_base::escape_unprintable(&text.chars().take(200).collect::<String>());
            return Err(format!(
                "the reference `{displayed}` leaves `{SCHEMAS_FOLDER}/`; use `#/…` for a part of this schema, or \
                 `<type>.json` for another one"
            ));
        }
        Ok(Self { name, fragment })
    }
}

/// The other schemas that a document refers to.
///
/// # Errors
/// The first reference that leaves the folder.
pub fn referenced_schemas(document: &Value) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    let mut open = vec![document];
    while let Some(schema) = open.pop() {
        for reference in references(schema) {
            names.extend(Reference::parse(reference)?.name.map(str::to_owned));
        }
        open.extend(subschemas(schema));
    }
    Ok(names)
}

fn references(schema: &Value) -> impl Iterator<Item = &str> {
    REFERENCE_KEYS.into_iter().filter_map(|key| schema.get(key)?.as_str())
}

/// The values below a schema that can be schemas.
fn subschemas(schema: &Value) -> Vec<&Value> {
    match schema {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => {
            let mut found = Vec::new();
            for (key, value) in members {
                match value {
                    Value::Object(named) if NAMED_KEYS.contains(&key.as_str()) => found.extend(named.values()),
                    Value::Object(_) | Value::Array(_) if !DATA_KEYS.contains(&key.as_str()) => found.push(value),
                    _ => {}
                }
            }
            found
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// Checks that the schema does not grow beyond the limits when its references are followed.
///
/// # Errors
/// The limit that it exceeds.
pub fn check_expanded_size(documents: &Documents, root: &str) -> Result<(), String> {
    let Some(document) = documents.get(root) else { return Ok(()) };
    let mut expansion = Expansion { documents, sizes: HashMap::new(), open: HashSet::new() };
    expansion.size(document, document).map(drop)
}

/// The size of a part of a schema with all references followed.
#[derive(Debug, Clone, Copy)]
struct ExpandedSize {
    parts: usize,
    /// References that lead to each other.
    references: usize,
    /// Levels of nesting.
    nesting: usize,
}

impl ExpandedSize {
    const ONE: Self = Self { parts: 1, references: 0, nesting: 1 };

    /// Adds a part below this one.
    fn add(&mut self, below: Self, is_reference: bool) -> Result<(), String> {
        self.parts = self.parts.saturating_add(below.parts);
        self.references = self.references.max(below.references + usize::from(is_reference));
        self.nesting = self.nesting.max(below.nesting + 1);
        if self.parts > MAX_PARTS {
            return Err(format!("with all references followed, it has more than {MAX_PARTS} parts"));
        }
        if self.references > MAX_REFERENCE_DEPTH {
            return Err(format!("more than {MAX_REFERENCE_DEPTH} references lead to each other"));
        }
        if self.nesting > MAX_NESTING {
            return Err(too_nested());
        }
        Ok(())
    }
}

fn too_nested() -> String {
    format!("with all references followed, it is nested more than {MAX_NESTING} levels deep")
}

struct Expansion<'d> {
    documents: &'d Documents,
    /// Sizes of values by address.
    sizes: HashMap<*const Value, ExpandedSize>,
    /// Values whose size is being computed: a recursive schema refers to one of them.
    open: HashSet<*const Value>,
}

impl<'d> Expansion<'d> {
    fn size(&mut self, document: &'d Value, value: &'d Value) -> Result<ExpandedSize, String> {
        let address: *const Value = value;
        if let Some(size) = self.sizes.get(&address) {
            return Ok(*size);
        }
        if !self.open.insert(address) {
            return Ok(ExpandedSize::ONE);
        }
        if self.open.len() > MAX_NESTING {
            return Err(too_nested());
        }
        let mut size = ExpandedSize::ONE;
        for below in subschemas(value) {
            size.add(self.size(document, below)?, false)?;
        }
        for reference in references(value) {
            let Reference { name, fragment } = Reference::parse(reference)?;
            let Some(document) = name.map_or(Some(document), |name| self.documents.get(name)) else { continue };
            let Some(target) = find(document, fragment) else { continue };
            size.add(self.size(document, target)?, true)?;
        }
        self.open.remove(&address);
        self.sizes.insert(address, size);
        Ok(size)
    }
}

/// The part of a document with a fragment: a JSON pointer or an anchor.
fn find<'d>(document: &'d Value, fragment: &str) -> Option<&'d Value> {
    let fragment = percent_decode_str(fragment).decode_utf8().ok()?;
    if fragment.is_empty() || fragment.starts_with('/') {
        return document.pointer(&fragment);
    }
    let mut open = vec![document];
    while let Some(schema) = open.pop() {
        let has = |key: &str, text: &str| schema.get(key).and_then(Value::as_str) == Some(text);
        if has("$anchor", &fragment) || has("$dynamicAnchor", &fragment) || has("$id", &format!("#{fragment}")) {
            return Some(schema);
        }
        open.extend(subschemas(schema));
    }
    None
}
