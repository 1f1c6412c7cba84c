use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Path;
use svcfs_base::{Fault, Kind, TreePath};

/// Error texts of serde with Rust type names, and their replacements.
const TYPE_NAMES: [(&str, &str); 10] = [
    ("expected a nonzero usize", "expected a whole number, 1 or more"),
    ("expected u8", "expected a whole number, 0 or more"),
    ("expected u32", "expected a whole number, 0 or more"),
    ("expected u64", "expected a whole number, 0 or more"),
    ("expected usize", "expected a whole number, 0 or more"),
    ("expected i64", "expected a whole number"),
    ("expected f64", "expected a number"),
    ("expected a boolean", "expected true or false"),
    ("expected a sequence", "expected a list"),
    ("expected a map", "expected an object"),
];

/// The documented prefix of path errors.
const PATH_DENIED: &str = "path denied: ";

/// Deserializes the arguments of an operation. Null is as good as absent.
///
/// # Errors
/// `Invalid`: `<field> is required` for a missing field, else the field and the reason.
pub(super) fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, Fault> {
    let has_null = arguments.as_object().is_some_and(|members| members.values().any(Value::is_null));
    // Only some arguments have null as a value: then it must stay.
    let fallback = has_null.then(|| arguments.clone());
    deserialize(arguments).or_else(|fault| match fallback {
        Some(Value::Object(mut members)) => {
            members.retain(|_, value| !value.is_null());
            deserialize(members.into())
        }
        _ => Err(fault),
    })
}

fn deserialize<T: DeserializeOwned>(arguments: Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let (path, message) = (error.path(), error.inner().to_string());
        if let Some(field) = quoted_name(&message, "missing field `") {
            return Fault::new(Kind::Invalid, format!("{} is required", field_path(path, field)));
        }
        if let Some(field) = quoted_name(&message, "unknown field `") {
            let known = message
                .split_once(", expected ")
                .map_or(String::new(), |(_, known)| format!("; valid fields: {}", known.trim_start_matches("one of ")));
            return Fault::invalid(&field_path(path, field), format_args!("unknown field{known}"));
        }
        let is_inside = path.iter().count() > 1;
        if path.iter().next().is_none() || (message.starts_with(PATH_DENIED) && !is_inside) {
            return Fault::new(Kind::Invalid, message);
        }
        Fault::invalid(&path.to_string(), without_type_names(message))
    })
}

/// Replaces aliases of arguments by the names of the operation.
///
/// # Errors
/// `Invalid` if both are given.
pub(super) fn resolve_aliases(mut arguments: Value, aliases: &[(&str, &str)]) -> Result<Value, Fault> {
    let Some(members) = arguments.as_object_mut() else {
        return Ok(arguments);
    };
    for (alias, name) in aliases {
        if let Some(value) = members.remove(*alias)
            && members.insert((*name).to_owned(), value).is_some()
        {
            return Err(Fault::invalid(alias, format_args!("is an alias of `{name}`; use only one of them")));
        }
    }
    Ok(arguments)
}

/// Refuses the root as the path of a page or file: an empty argument parses as the root.
///
/// # Errors
/// `Invalid`: `<field> is required`.
pub(crate) fn require_path(field: &str, path: &TreePath) -> Result<(), Fault> {
    match path.is_root() {
        true => Err(Fault::new(Kind::Invalid, format!("{field} is required"))),
        false => Ok(()),
    }
}

/// Refuses a share that is not 0 to 1.
///
/// # Errors
/// `Invalid`.
pub(crate) fn require_share(field: &str, share: Option<f64>) -> Result<(), Fault> {
    match share.filter(|share| !(0.0..=1.0).contains(share)) {
        Some(share) => Err(Fault::invalid(field, format_args!("{share} is out of range; use 0 to 1"))),
        None => Ok(()),
    }
}

fn without_type_names(message: String) -> String {
    match TYPE_NAMES
        .iter()
        .find_map(|(technical, without_type_names)| Some((message.strip_suffix(technical)?, without_type_names)))
    {
        Some((prefix, without_type_names)) => format!("{prefix}{without_type_names}"),
        None => message,
    }
}

/// The name in backquotes after `prefix`.
fn quoted_name<'a>(message: &'a str, prefix: &str) -> Option<&'a str> {
    message.strip_prefix(prefix)?.split('`').next()
}

/// The full name of `field` in `path`. For an unknown field serde's path already ends with it.
fn field_path(path: &Path, field: &str) -> String {
    let parent = path.to_string();
    if path.iter().next().is_none() || parent == field {
        field.to_owned()
    } else if parent.ends_with(&format!(".{field}")) {
        parent
    } else {
        format!("{parent}.{field}")
    }
}

/// The default of an argument that is set unless a caller switches it off.
pub(crate) const fn default_true() -> bool {
    true
}
