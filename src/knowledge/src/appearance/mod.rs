//! The theme of a space, and the rules for agents that work in it.
//!
//! Invariant: both are ordinary versioned files, `.svc/theme.json` and `.svc/rules.md`, which users
//! may edit.

mod operations;
mod rules;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use svcfs_base::{Actor, ApplyResult, Caller, Change, ChangeSet, Fault, Kind, TreePath};

use crate::files;
use crate::kernel::OperationContext;
pub use operations::AREA;
pub use rules::{RulesFormat, format_rules};

const THEME_PATH: &str = ".svc/theme.json";
const RULES_PATH: &str = ".svc/rules.md";
const MAX_THEME_BYTES: usize = 64 << 10;
const MAX_RULES_BYTES: usize = 256 << 10;

/// The theme, a JSON object of the user interface; empty if there is none.
///
/// # Errors
/// `Invalid` if the file is not a JSON object; those of reading it.
fn theme(cx: &OperationContext<'_>) -> Result<Map<String, Value>, Fault> {
    let Some(json) = read_text(cx, THEME_PATH)? else { return Ok(Map::new()) };
    serde_json::from_str(&json).map_err(|error| {
        let message = format!("`{THEME_PATH}` is not a JSON object ({error}); replace it with `PUT /theme`");
        Fault::new(Kind::Invalid, message)
    })
}

/// Writes the theme.
///
/// # Errors
/// `Forbidden` if the theme is locked; `TooLarge`; those of writing.
fn set_theme(cx: &OperationContext<'_>, theme: &Map<String, Value>) -> Result<(), Fault> {
    if cx.settings().ui.theme_locked {
        let message = "theme editing is locked by admin (`ui.theme_locked` of the settings)";
        return Err(Fault::new(Kind::Forbidden, message));
    }
    let mut json = serde_json::to_string_pretty(theme).map_err(Fault::internal)?;
    json.push('\n');
    // The limit applies to the compact form, not to the indented one that is stored.
    if serde_json::to_string(theme).map_err(Fault::internal)?.len() > MAX_THEME_BYTES {
        return Err(Fault::new(Kind::TooLarge, format!("theme exceeds {} KiB limit", MAX_THEME_BYTES >> 10)));
    }
    write(cx, THEME_PATH, json, "theme: update").map(drop)
}

fn rules(cx: &OperationContext<'_>) -> Result<String, Fault> {
    Ok(read_text(cx, RULES_PATH)?.unwrap_or_default())
}

/// Writes the rules.
///
/// # Errors
/// `TooLarge`; those of writing.
fn set_rules(cx: &OperationContext<'_>, rules: String) -> Result<ApplyResult, Fault> {
    if rules.len() > MAX_RULES_BYTES {
        return Err(Fault::new(Kind::TooLarge, format!("rules exceed {} KiB limit", MAX_RULES_BYTES >> 10)));
    }
    write(cx, RULES_PATH, rules, "rules: update")
}

fn read_text(cx: &OperationContext<'_>, path: &str) -> Result<Option<String>, Fault> {
    match files::read_file(cx, &TreePath::parse(path)?) {
        Ok(file) => Ok(Some(String::from_utf8_lossy(&file.content).into_owned())),
        Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Writes one file as one commit. A caller without a name is recorded as `svc`.
fn write(cx: &OperationContext<'_>, path: &str, content: String, message: &str) -> Result<ApplyResult, Fault> {
    let actor = cx.caller.actor.clone().unwrap_or_else(|| Actor::new("svc"));
    let caller = Caller { actor: Some(actor), ..cx.caller.clone() };
    let change = Change::put(TreePath::parse(path)?, content).with_precondition(cx.caller.precondition.clone());
    let set = ChangeSet::from(change).with_message(message);
    cx.space.vfs.apply(&caller, set)
}
