//! Answers in their stored form, and answers that are made from the log.

use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svcfs_base::{DraftId, Fault, Kind, TreePath};
use svcfs_store::RequestSet;

use crate::kernel::{OperationAnswer, OperationEntry, ResponseMeta};

/// Number of paths that a message lists.
const MAX_LISTED_PATHS: usize = 20;

/// An answer that can be stored and given again.
pub trait RepeatableAnswer: Sized {
    /// Converts it.
    fn into_parts(self) -> OperationAnswer;
    /// Converts it back.
    fn from_parts(parts: OperationAnswer) -> Self;
}

impl RepeatableAnswer for OperationAnswer {
    fn into_parts(self) -> OperationAnswer {
        self
    }
    fn from_parts(parts: OperationAnswer) -> Self {
        parts
    }
}

impl RepeatableAnswer for Value {
    fn into_parts(self) -> OperationAnswer {
        OperationAnswer { output: self, text: None }
    }
    fn from_parts(parts: OperationAnswer) -> Self {
        parts.output
    }
}

#[derive(Serialize, Deserialize)]
struct StoredForm {
    #[serde(flatten)]
    answer: OperationAnswer,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    total: Option<usize>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_truncated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    draft: Option<u32>,
}

/// The answer, and its stored form.
pub(super) fn serialize<T: RepeatableAnswer>(
    output: T,
    meta: &ResponseMeta,
) -> Result<(OperationAnswer, String), Fault> {
    let form = StoredForm {
        answer: output.into_parts(),
        notes: meta.notes.clone(),
        total: meta.total,
        is_truncated: meta.is_truncated,
        draft: meta.draft.map(|draft| draft.0),
    };
    let text = serde_json::to_string(&form).map_err(Fault::internal)?;
    Ok((form.answer, text))
}

/// The answer of a stored form.
pub(super) fn parse<T: RepeatableAnswer>(text: &str) -> Result<(T, ResponseMeta), Fault> {
    let StoredForm { answer, notes, total, is_truncated, draft } =
        serde_json::from_str(text).map_err(Fault::internal)?;
    let meta = ResponseMeta { notes, total, is_truncated, draft: draft.map(DraftId), is_replayed: true, as_of: None };
    Ok((T::from_parts(answer), meta))
}

/// An answer to a request whose own answer was lost, from what it changed: if the operation answers
/// with no more than path, ETag and version. Errors: `Conflict` for other operations, with the same
/// facts.
pub(super) fn recover<T: RepeatableAnswer>(
    entry: &OperationEntry,
    arguments: &Value,
    sets: &[RequestSet],
) -> Result<(T, ResponseMeta), Fault> {
    let changes: Vec<_> = sets.iter().flat_map(|set| &set.changes).collect();
    let version = sets.iter().rev().find_map(|set| set.commit).map(|commit| commit.to_string());
    let requested = arguments.get("path").and_then(|path| TreePath::parse(path.as_str()?).ok());
    let change = match &*changes {
        [only] => Some(*only),
        _ => changes.iter().rev().find(|(path, _)| Some(path) == requested.as_ref()).copied(),
    };
    let mut output = Map::new();
    if let Some((path, etag)) = change {
        output.insert("path".to_owned(), path.as_str().into());
        output.extend(etag.map(|etag| ("etag".to_owned(), etag.to_string().into())));
        if etag.is_none() {
            output.insert("deleted".to_owned(), path.as_str().into());
        }
    }
    output.extend(version.as_ref().map(|version| ("version".to_owned(), version.as_str().into())));
    if required_fields(entry).iter().all(|name| output.contains_key(name)) {
        let note = "the server was stopped before this answer was stored; it was made from the log";
        let meta = ResponseMeta { notes: vec![note.to_owned()], is_replayed: true, ..ResponseMeta::default() };
        return Ok((T::from_parts(OperationAnswer { output: output.into(), text: None }), meta));
    }
    let paths: Vec<&str> = changes.iter().map(|(path, _)| path.as_str()).take(MAX_LISTED_PATHS).collect();
    let shown = version.as_ref().map_or_else(String::new, |version| format!(" as version {version}"));
    let message = format!(
        "this request was done{shown}, but the server was stopped before its answer was stored; it is not done again. \
         It changed {} files, such as those in `paths`: read them for their present state",
        changes.len()
    );
    let fault = Fault::new(Kind::Conflict, message).with_detail("replayed", true).with_detail("paths", json!(paths));
    Err(match version {
        Some(version) => fault.with_detail("version", version),
        None => fault,
    })
}

/// The fields that an output of the operation always has.
fn required_fields(entry: &OperationEntry) -> Vec<String> {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let schema = (entry.output)(&mut generator).to_value();
    let definitions = generator.take_definitions(true);
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next());
    let object = name.and_then(|name| definitions.get(name)).unwrap_or(&schema);
    if object.get("type").is_none_or(|kind| kind != "object") {
        // Nothing is known about it: no made-up answer fits.
        return vec!["$".to_owned()];
    }
    let required = object.get("required").and_then(Value::as_array).into_iter().flatten();
    required.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}
