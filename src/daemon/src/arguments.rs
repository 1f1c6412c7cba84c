//! `name=value` arguments as the JSON object of an operation's inputs.

use serde_json::{Map, Value};
use svcfs_knowledge::kernel::OperationInputs;

use crate::failure::{CommandFailure, ExitStatus};

/// Adds `name=value` pairs to `given`, parsed according to the operation's schema.
///
/// # Errors
/// `Usage`, naming an argument that is unknown, repeated or of the wrong type.
pub fn read(
    inputs: &OperationInputs,
    mut given: Map<String, Value>,
    pairs: &[String],
) -> Result<Map<String, Value>, CommandFailure> {
    for pair in pairs {
        let Some((name, text)) = pair.split_once('=') else {
            let message = format!("unexpected argument `{pair}`; use name=value");
            return Err(CommandFailure::saying(ExitStatus::Usage, message));
        };
        let added = inputs.find_parameter(name).and_then(|field| field.parse_into(&mut given, text));
        added.map_err(|fault| CommandFailure::new(ExitStatus::Usage, fault))?;
    }
    Ok(given)
}

#[cfg(test)]
mod tests;
