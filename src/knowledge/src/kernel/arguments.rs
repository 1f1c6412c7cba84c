//! Inputs from JSON, with refusals that name the field.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Path;
use svcfs_base::{Fault, Kind};

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
            return Fault::invalid(&below(path, field), "there is no such field");
        }
        if path.iter().next().is_none() {
            return Fault::new(Kind::Invalid, said);
        }
        Fault::invalid(&path.to_string(), said)
    })
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
