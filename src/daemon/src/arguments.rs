//! `name=value` on the command line, as the JSON object an operation reads.

use serde_json::{Map, Value};
use svcfs_knowledge::kernel::OperationInputs;

use crate::failure::{CommandFailure, ExitStatus};

/// Adds `name=value` pairs to `given`, read as the operation's schema says.
///
/// # Errors
/// `Usage`, naming what is unknown, given twice or not of its type.
pub fn read(
    inputs: &OperationInputs,
    mut given: Map<String, Value>,
    pairs: &[String],
) -> Result<Map<String, Value>, CommandFailure> {
    for pair in pairs {
        let Some((name, text)) = pair.split_once('=') else {
            let told = format!("`{pair}` is no argument; write it like `name=value`");
            return Err(CommandFailure::saying(ExitStatus::Usage, told));
        };
        let added = inputs.find_parameter(name).and_then(|field| field.parse_into(&mut given, text));
        added.map_err(|fault| CommandFailure::new(ExitStatus::Usage, fault))?;
    }
    Ok(given)
}

#[cfg(test)]
mod tests;
