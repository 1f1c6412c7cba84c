//! How a space looks, and what is asked of those who work in it: the theme and the rules (contract 4.16, 4.17).
//!
//! One rule: both are files like any other, `.svc/theme.json` and `.svc/rules.md`, with versions and authors; a person may edit them.

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

/// Where the theme lies.
const THEME: &str = ".svc/theme.json";
/// Where the rules lie.
const RULES: &str = ".svc/rules.md";
/// Longest theme, in bytes (gaps.md 4.16).
const MAX_THEME_BYTES: usize = 64 << 10;
/// Longest rules, in bytes (contract 8).
const MAX_RULES_BYTES: usize = 256 << 10;

/// The theme: whatever an interface keeps there; nothing when there is none.
///
/// # Errors
/// `Invalid` when somebody wrote something else into the file; those of reading it.
fn theme(cx: &OperationContext<'_>) -> Result<Map<String, Value>, Fault> {
    let Some(text) = text(cx, THEME)? else { return Ok(Map::new()) };
    serde_json::from_str(&text).map_err(|error| {
        let told = format!("`{THEME}` is no JSON object ({error}); `PUT /theme` writes it anew");
        Fault::new(Kind::Invalid, told)
    })
}

/// Writes the theme.
///
/// # Errors
/// `Forbidden` where the settings say so; `TooLarge`; those of writing.
fn set_theme(cx: &OperationContext<'_>, theme: &Map<String, Value>) -> Result<(), Fault> {
    if cx.settings().ui.theme_locked {
        let told = "theme editing is locked by admin (`ui.theme_locked` of the settings)";
        return Err(Fault::new(Kind::Forbidden, told));
    }
    let mut text = serde_json::to_string_pretty(theme).map_err(Fault::internal)?;
    text.push('\n');
    // What was sent counts, not how it is written down.
    if serde_json::to_string(theme).map_err(Fault::internal)?.len() > MAX_THEME_BYTES {
        return Err(Fault::new(Kind::TooLarge, format!("theme exceeds {} KiB limit", MAX_THEME_BYTES >> 10)));
    }
    write(cx, THEME, text, "theme: update").map(drop)
}

/// The rules as they were written; empty when there are none.
///
/// # Errors
/// Those of reading the file.
fn rules(cx: &OperationContext<'_>) -> Result<String, Fault> {
    Ok(text(cx, RULES)?.unwrap_or_default())
}

/// Writes the rules.
///
/// # Errors
/// `TooLarge`; those of writing.
fn set_rules(cx: &OperationContext<'_>, text: String) -> Result<ApplyResult, Fault> {
    if text.len() > MAX_RULES_BYTES {
        return Err(Fault::new(Kind::TooLarge, format!("rules exceed {} KiB limit", MAX_RULES_BYTES >> 10)));
    }
    write(cx, RULES, text, "rules: update")
}

fn text(cx: &OperationContext<'_>, place: &str) -> Result<Option<String>, Fault> {
    match files::read_file(cx, &TreePath::parse(place)?) {
        Ok(file) => Ok(Some(String::from_utf8_lossy(&file.content).into_owned())),
        Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// One commit; who gave no name is called as the server is (gaps.md 4.1).
fn write(cx: &OperationContext<'_>, place: &str, text: String, message: &str) -> Result<ApplyResult, Fault> {
    let actor = cx.caller.actor.clone().unwrap_or_else(|| Actor::new("svc"));
    let caller = Caller { actor: Some(actor), ..cx.caller.clone() };
    let change = Change::put(TreePath::parse(place)?, text).with_precondition(cx.caller.precondition.clone());
    let set = ChangeSet::from(change).with_message(message);
    cx.space.vfs.apply(&caller, set)
}
