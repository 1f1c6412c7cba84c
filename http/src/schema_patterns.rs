//! Patterns for texts in the OpenAPI document, so that clients generated from it send valid
//! requests.
//!
//! They are not part of the types, because outputs and optional inputs allow more paths, such as
//! the root or an empty text, and agents do not need them in every tool.

use serde_json::Value;

/// The format of paths in schemas.
pub(crate) const PATH: &str = "tree-path";

/// Headers with ETags, for writes.
pub(crate) const IF_MATCH: &str = r#"^(\*|(W/)?"?[0-9a-f]{40}"?( *, *(W/)?"?[0-9a-f]{40}"?)*)$"#;

/// No component is `..` or contains NUL, nor does so after repeated percent-decoding
/// (`svcfs_base::TreePath`).
const NO_PARENT_COMPONENT: &str =
    r"(?!(.*([/\\]|%(25)*(2[fF]|5[cC])))?(\.|%(25)*2[eE]){2}([/\\]|%(25)*(2[fF]|5[cC])|$))(?!.*%(25)*00)";

/// The characters of a path.
const PATH_CHARS: &str = r"[^\u0000-\u001f\u007f-\u009f]*";

/// The beginning of a path other than the root: empty components and `.` are ignored.
const NOT_ROOT: &str = r"(\.?/)*([^/.\u0000-\u001f\u007f-\u009f]|\.[^/\u0000-\u001f\u007f-\u009f])";

/// Standard base64 (RFC 4648 4), padded, with zeros in the unused bits.
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

/// Adds patterns of paths and limits of numbers to the schema of an input. A path that is required
/// or must not be empty is not the root.
pub(crate) fn add_constraints(schema: &mut Value, is_required: bool) {
    let Some(object) = schema.as_object_mut() else { return };
    if object.get("format").is_some_and(|format| format == PATH) {
        let is_not_root = is_required || object.contains_key("minLength");
        let prefix = if is_not_root { NOT_ROOT } else { "" };
        let pattern = format!("^{NO_PARENT_COMPONENT}{prefix}{PATH_CHARS}$");
        object.insert("pattern".to_owned(), pattern.into());
    }
    if object.get("contentEncoding").is_some_and(|encoding| encoding == "base64") {
        object.insert("pattern".to_owned(), BASE64.into());
    }
    let is_integer =
        |kind: &Value| kind == "integer" || kind.as_array().is_some_and(|kinds| kinds.contains(&"integer".into()));
    if object.get("type").is_some_and(is_integer) {
        let maximum = max_of(object.get("format").and_then(Value::as_str));
        object.entry("maximum").or_insert_with(|| maximum.into());
    }
    let required = object.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: Vec<String> = required.filter_map(Value::as_str).map(str::to_owned).collect();
    let properties = object.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
    for (name, property) in properties {
        add_constraints(property, required.contains(name));
    }
    object.get_mut("items").into_iter().for_each(|items| add_constraints(items, is_required));
    for choices in ["anyOf", "oneOf"] {
        let choices = object.get_mut(choices).and_then(Value::as_array_mut).into_iter().flatten();
        choices.for_each(|choice| add_constraints(choice, is_required));
    }
}

/// The maximum of an integer format: texts are parsed as `i64`.
fn max_of(format: Option<&str>) -> u64 {
    match format {
        Some("uint8") => u8::MAX.into(),
        Some("uint16") => u16::MAX.into(),
        Some("uint32") => u32::MAX.into(),
        Some(_) | None => i64::MAX.unsigned_abs(),
    }
}
