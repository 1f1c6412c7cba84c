//! Inputs from JSON, with refusals that name the field.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Path;
use svcfs_base::{Fault, Kind, TreePath};

/// What serde calls a type, and what a caller does.
const PLAIN: [(&str, &str); 10] = [
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

/// How a refusal of a path begins, which contract clients look for (gaps.md 2.1).
const PATH_DENIED: &str = "path denied: ";

/// Reads an operation's inputs.
///
/// # Errors
/// `Invalid`: `<field> is required` when one is missing (contract 7), else the field and what is wrong with it.
pub(super) fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let (path, said) = (error.path(), error.inner().to_string());
        if let Some(field) = quoted(&said, "missing field `") {
            return Fault::new(Kind::Invalid, format!("{} is required", below(path, field)));
        }
        if let Some(field) = quoted(&said, "unknown field `") {
            let known = said
                .split_once(", expected ")
                .map_or(String::new(), |(_, known)| format!("; known: {}", known.trim_start_matches("one of ")));
            return Fault::invalid(&below(path, field), format_args!("there is no such field{known}"));
        }
        let is_inside = path.iter().count() > 1;
        if path.iter().next().is_none() || (said.starts_with(PATH_DENIED) && !is_inside) {
            return Fault::new(Kind::Invalid, said);
        }
        Fault::invalid(&path.to_string(), plain(said))
    })
}

/// The inputs under the names the operation itself uses; one may come under one of its other names.
///
/// # Errors
/// `Invalid` for one that comes under both.
pub(super) fn under_own_names(mut arguments: Value, aliases: &[(&str, &str)]) -> Result<Value, Fault> {
    let Some(members) = arguments.as_object_mut() else {
        return Ok(arguments);
    };
    for (other, own) in aliases {
        if let Some(value) = members.remove(*other)
            && members.insert((*own).to_owned(), value).is_some()
        {
            return Err(Fault::invalid(other, format_args!("is the same as `{own}`; give one of them")));
        }
    }
    Ok(arguments)
}

/// Refuses the root as the path of a page or file: it is what an empty input names.
///
/// # Errors
/// `Invalid`: `<field> is required`.
pub(crate) fn given(field: &str, path: &TreePath) -> Result<(), Fault> {
    match path.is_root() {
        true => Err(Fault::new(Kind::Invalid, format!("{field} is required"))),
        false => Ok(()),
    }
}

/// A refusal of serde's without the names of Rust's types.
fn plain(said: String) -> String {
    match PLAIN.iter().find_map(|(technical, plain)| Some((said.strip_suffix(technical)?, plain))) {
        Some((lead, plain)) => format!("{lead}{plain}"),
        None => said,
    }
}

/// The name that serde quotes after `lead`.
fn quoted<'a>(said: &'a str, lead: &str) -> Option<&'a str> {
    said.strip_prefix(lead)?.split('`').next()
}

/// The full name of `field` inside `path`. For an unknown field serde's path ends in the field already.
fn below(path: &Path, field: &str) -> String {
    let above = path.to_string();
    if path.iter().next().is_none() || above == field {
        field.to_owned()
    } else if above.ends_with(&format!(".{field}")) {
        above
    } else {
        format!("{above}.{field}")
    }
}
