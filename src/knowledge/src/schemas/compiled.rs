//! Compilation of a schema and of the schemas it refers to.

use std::error::Error;

use bytes::Bytes;
use jsonschema::{Draft, PatternOptions, Retrieve, Uri, Validator};
use serde_json::{Map, Value};
use svcfs_base::{ETag, Fault, Kind, TreePath};

use super::document::{Documents, check_expanded_size, referenced_schemas};
use super::violation::{MAX_VIOLATIONS, RawViolation, shorten};
use super::{MAX_SCHEMA_BYTES, schema_path};

/// Address of the folder for the validator; nothing is read from there.
const BASE_ADDRESS: &str = "svc:///schemas/";

/// Limit of nested values in a frontmatter that is checked: the validator follows them on the
/// stack.
const MAX_FRONTMATTER_DEPTH: usize = 32;

/// Limit of the schemas that one refers to, directly or not.
const MAX_DOCUMENTS: usize = 64;

/// Reads a file below `.svc/schemas/`; none if it does not exist.
pub type ReadSchema<'r> = &'r dyn Fn(&TreePath) -> Result<Option<(Bytes, ETag)>, Fault>;

/// A schema that pages can be checked with.
pub struct CompiledSchema {
    /// The name of its type.
    pub name: String,
    /// Why it cannot be used.
    validator: Result<Validator, Fault>,
    /// The files it was made from; none for one that did not exist.
    pub sources: Vec<(TreePath, Option<ETag>)>,
}

impl CompiledSchema {
    /// Compiles the schema of a type. An invalid one is a value, too.
    ///
    /// # Errors
    /// `NotFound` if there is none; those of reading.
    pub fn read(name: &str, read: ReadSchema<'_>) -> Result<Self, Fault> {
        let mut sources = Vec::new();
        let validator = match load(name, read, &mut sources) {
            Ok(documents) => compile(name, documents),
            Err(fault) if matches!(fault.kind(), Kind::Invalid | Kind::TooLarge) => Err(fault),
            Err(fault) => return Err(fault),
        };
        Ok(Self { name: name.to_owned(), validator, sources })
    }

    /// Whether the schema can be used.
    ///
    /// # Errors
    /// `Invalid`, `TooLarge`: why not.
    pub fn check(&self) -> Result<(), Fault> {
        self.validator.as_ref().map(drop).map_err(Fault::duplicate)
    }

    /// How a frontmatter violates the schema, in the order of the frontmatter.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn violations(&self, frontmatter: &Value) -> Result<Vec<RawViolation>, Fault> {
        let validator = self.validator.as_ref().map_err(Fault::duplicate)?;
        if is_deeper_than(frontmatter, MAX_FRONTMATTER_DEPTH) {
            let message = format!("is nested more than {MAX_FRONTMATTER_DEPTH} levels deep, too deep for a schema");
            return Ok(vec![RawViolation { pointer: String::new(), message }]);
        }
        if validator.is_valid(frontmatter) {
            return Ok(Vec::new());
        }
        let errors = validator.iter_errors(frontmatter).take(MAX_VIOLATIONS);
        Ok(errors.map(|error| RawViolation::of(&error)).collect())
    }
}

fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let is_deeper = |below: &Value| levels == 0 || is_deeper_than(below, levels - 1);
    match value {
        Value::Array(items) => items.iter().any(is_deeper),
        Value::Object(members) => members.values().any(is_deeper),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Reads a schema and those it refers to.
fn load(name: &str, read: ReadSchema<'_>, sources: &mut Vec<(TreePath, Option<ETag>)>) -> Result<Documents, Fault> {
    let mut documents = Documents::new();
    let mut missing: Vec<(String, Option<String>)> = vec![(name.to_owned(), None)];
    while let Some((next, referrer)) = missing.pop() {
        if documents.contains_key(&next) {
            continue;
        }
        let path = schema_path(&next)?;
        let found = read(&path)?;
        sources.push((path.clone(), found.as_ref().map(|(_, etag)| *etag)));
        let Some((content, _)) = found else {
            return Err(match referrer {
                None => Fault::not_found(format!("schema not found: {name}")),
                Some(referrer) => invalid(
                    &referrer,
                    format_args!("the reference `{next}.json` has no target: `{path}` does not exist"),
                ),
            });
        };
        let document = parse(&next, &content)?;
        let referenced = referenced_schemas(&document).map_err(|message| invalid(&next, message))?;
        missing.extend(referenced.into_iter().map(|referenced| (referenced, Some(next.clone()))));
        documents.insert(next, document);
        if documents.len() > MAX_DOCUMENTS {
            return Err(invalid(name, format_args!("it refers to more than {MAX_DOCUMENTS} other schemas")));
        }
    }
    Ok(documents)
}

/// The document in a file, without its own address: references are relative to the folder.
fn parse(name: &str, content: &[u8]) -> Result<Value, Fault> {
    if content.len() > MAX_SCHEMA_BYTES {
        let message = format!("schema `{name}` has {} bytes; the maximum is {MAX_SCHEMA_BYTES}", content.len());
        return Err(Fault::new(Kind::TooLarge, message));
    }
    let mut document: Value =
        serde_json::from_slice(content).map_err(|error| invalid(name, format_args!("it is not JSON: {error}")))?;
    match &mut document {
        Value::Object(members) => {
            // In draft-07 it may also be an anchor.
            if members.get("$id").and_then(Value::as_str).is_none_or(|id| !id.starts_with('#')) {
                members.shift_remove("$id");
            }
        }
        Value::Bool(_) => {}
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(invalid(name, "it must be a JSON object"));
        }
    }
    Ok(document)
}

fn compile(name: &str, mut documents: Documents) -> Result<Validator, Fault> {
    check_expanded_size(&documents, name).map_err(|message| invalid(name, message))?;
    let document = documents.remove(name).unwrap_or(Value::Object(Map::new()));
    let draft = draft(name, &document)?;
    for (other, document) in &documents {
        self::draft(other, document)?;
    }
    let options = jsonschema::options()
        .with_draft(draft)
        .should_validate_formats(true)
        // An engine without backtracking: a pattern takes linear time on any text.
        .with_pattern_options(PatternOptions::regex())
        .with_base_uri(format!("{BASE_ADDRESS}{name}.json"))
        .with_retriever(FolderRetriever(documents));
    options.build(&document).map_err(|error| {
        let (pointer, message) = (error.instance_path().to_string(), shorten(&error.to_string()));
        let at = if pointer.is_empty() { String::new() } else { format!("`{pointer}`: ") };
        invalid(name, format_args!("{at}{message}"))
    })
}

fn draft(name: &str, document: &Value) -> Result<Draft, Fault> {
    let Some(dialect) = document.get("$schema") else { return Ok(Draft::Draft202012) };
    let dialect = dialect.as_str().unwrap_or_default();
    let rest = dialect.strip_prefix("https://").or_else(|| dialect.strip_prefix("http://")).unwrap_or_default();
    match rest.trim_end_matches('#') {
        "json-schema.org/draft/2020-12/schema" => Ok(Draft::Draft202012),
        "json-schema.org/draft-07/schema" => Ok(Draft::Draft7),
        _ => {
            let displayed = svcfs_base::escape_unprintable(&dialect.chars().take(100).collect::<String>());
            let message = format!(
                "`$schema` is `{displayed}`; use `https://json-schema.org/draft/2020-12/schema` or \
                 `http://json-schema.org/draft-07/schema#`"
            );
            Err(invalid(name, message))
        }
    }
}

fn invalid(name: &str, why: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Invalid, format!("schema `{name}` is not usable: {why}"))
}

/// Gives the validator the documents that were read already, and nothing else.
struct FolderRetriever(Documents);

impl Retrieve for FolderRetriever {
    fn retrieve(&self, address: &Uri<String>) -> Result<Value, Box<dyn Error + Send + Sync>> {
        let name = address.as_str().strip_prefix(BASE_ADDRESS).and_then(|file| file.strip_suffix(".json"));
        let document = name.and_then(|name| self.0.get(name));
        document.cloned().ok_or_else(|| format!("`{address}` is not in `{}/`", super::SCHEMAS_FOLDER).into())
    }
}
