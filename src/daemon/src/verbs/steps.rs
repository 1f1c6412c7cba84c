//! Verbs that run more than one operation.

use serde_json::{Map, Value, json};

use super::run::VerbRun;
use super::views;
use crate::failure::{CommandFailure, ExitStatus};
use crate::output;

/// The refusal to rename a page that does not exist.
const MISSING_SOURCE: &str = "source file not found";

/// `log`: the versions of a page, else the changes of a directory.
///
/// # Errors
/// The refusals of the operations.
pub fn log(run: &VerbRun<'_>) -> Result<(), CommandFailure> {
    let path = run.text("path").unwrap_or_default();
    // Versions have no author to select by.
    if path.is_empty() || run.text("actor").is_some() {
        return log_changes(run, path);
    }
    let follow = run.arguments().get("follow").and_then(Value::as_bool).unwrap_or(true);
    let versions = run.call("versions", to_map(json!({ "path": path, "follow": follow })))?;
    let Some(list) = versions.as_array().filter(|list| !list.is_empty()) else { return log_changes(run, path) };
    let number = |name: &str| run.arguments().get(name).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let (offset, limit) = (number("offset").unwrap_or(0), number("limit").unwrap_or(usize::MAX));
    let selected: Vec<Value> = list.iter().skip(offset).take(limit).cloned().collect();
    run.print(&selected.into(), views::history::versions)
}

fn log_changes(run: &VerbRun<'_>, path: &str) -> Result<(), CommandFailure> {
    let mut arguments = run.arguments().clone();
    arguments.remove("path");
    if !path.is_empty() {
        arguments.insert("path_prefix".to_owned(), path.into());
    }
    run.print(&run.call("timeline", arguments)?, views::history::changes)
}

/// `search`: by words, or with `--semantic` by meaning, too.
///
/// # Errors
/// `Usage` for an option that only the search by words has; the refusals of the operations.
pub fn search(run: &VerbRun<'_>) -> Result<(), CommandFailure> {
    let mut arguments = run.arguments().clone();
    if !run.has_flag("semantic") {
        return run.print(&run.call("search", arguments)?, views::search::results);
    }
    for (parameter, option) in [
        ("modified_after", "modified-after"),
        ("boost", "boost"),
        ("suggest_threshold", "suggest-threshold"),
        ("as_of", "as-of"),
    ] {
        if arguments.contains_key(parameter) {
            let message = format!("--{option} has no effect with --semantic; leave one of them out");
            return Err(CommandFailure::saying(ExitStatus::Usage, message));
        }
    }
    if let Some(query) = arguments.remove("q") {
        arguments.insert("query".to_owned(), query);
    }
    run.print(&run.call("search_semantic", arguments)?, views::search::results)
}

/// `backlinks`: says if the page does not exist. Pages may link to one that is still to be written.
///
/// # Errors
/// The refusals of the operations.
pub fn backlinks(run: &VerbRun<'_>) -> Result<(), CommandFailure> {
    let answer = run.call("backlinks", run.arguments().clone())?;
    run.print(&answer, views::links::backlinks)?;
    let path = run.text("path").unwrap_or_default();
    let read = |path: &str| run.call("read", to_map(json!({ "path": path, "metadata_only": true })));
    if answer.as_array().is_some_and(Vec::is_empty)
        && let Err(failure) = read(path)
        && failure.exit() == ExitStatus::Refused
    {
        output::complain(failure.message(false).trim_start_matches("svcfs: "));
    }
    Ok(())
}

/// `diff`: between two versions; those that are not given are the newest ones.
///
/// # Errors
/// `Refused` when the page has no versions; the refusals of the operations.
pub fn diff(run: &VerbRun<'_>) -> Result<(), CommandFailure> {
    let mut arguments = run.arguments().clone();
    if !arguments.contains_key("to") {
        let path = run.text("path").unwrap_or_default();
        let versions = run.call("versions", to_map(json!({ "path": path })))?;
        let hash = |index: usize| versions[index]["hash"].as_str();
        let Some(newest) = hash(0) else {
            let path = run.shown(path);
            let message = format!("`{path}` has no versions to compare; `svcfs log {path}` lists changes");
            return Err(CommandFailure::saying(ExitStatus::Refused, message));
        };
        if !arguments.contains_key("from") {
            let Some(previous) = hash(1) else {
                return run.print(&json!({ "path": path, "diff": "" }), views::history::single_version);
            };
            arguments.insert("from".to_owned(), previous.into());
        }
        arguments.insert("to".to_owned(), newest.into());
    }
    run.print(&run.call("diff", arguments)?, views::history::diff)
}

/// `rename`: of a page or a directory, into a directory if the destination is one.
///
/// # Errors
/// The refusals of the operations.
pub fn rename(run: &VerbRun<'_>) -> Result<(), CommandFailure> {
    let mut arguments = run.arguments().clone();
    let (from, to) = (run.text("from").unwrap_or_default(), run.text("to").unwrap_or_default());
    let into_directory = format!("{to}/{}", from.rsplit('/').next().unwrap_or_default());
    let into_directory = into_directory.trim_start_matches('/');
    let is_into = to.is_empty() || run.typed("to").is_some_and(|text| text.ends_with('/'));
    if is_into {
        arguments.insert("to".to_owned(), into_directory.into());
    }
    let refusal = match run.call("rename", arguments.clone()) {
        Ok(answer) => return run.print(&answer, views::changes::renamed),
        Err(failure) if failure.exit() == ExitStatus::Refused => failure,
        Err(failure) => return Err(failure),
    };
    // Only now it matters what is there.
    let is_from_directory = is_directory(run, from);
    if !is_from_directory && refusal.message(false).contains(MISSING_SOURCE) {
        // That refusal does not name the page, and this one suggests others.
        let read = run.call("read", to_map(json!({ "path": from })));
        return Err(read.err().unwrap_or(refusal));
    }
    if !is_into && is_directory(run, to) {
        arguments.insert("to".to_owned(), into_directory.into());
    } else if !is_from_directory {
        return Err(refusal);
    }
    if !is_from_directory {
        return run.print(&run.call("rename", arguments)?, views::changes::renamed);
    }
    if let Some(option) = ["update_links", "replacing"].into_iter().find(|name| arguments.contains_key(*name)) {
        let option = option.replace('_', "-");
        let message = format!("--{option} is for pages; `{from}` is a directory");
        return Err(CommandFailure::saying(ExitStatus::Usage, message));
    }
    run.print(&run.call("rename_dir", arguments)?, views::changes::renamed)
}

/// `rm`: with `--recursive` also directories with content.
///
/// # Errors
/// The refusals of the operations.
pub fn remove(run: &VerbRun<'_>) -> Result<(), CommandFailure> {
    run.each_path(|run, arguments| {
        let path = arguments.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
        if path.is_empty() {
            let message = "the top of the knowledge base cannot be removed; name pages or directories in it";
            return Err(CommandFailure::saying(ExitStatus::Usage, message));
        }
        let refusal = match run.call("delete", arguments) {
            Ok(answer) => return run.print(&answer, views::changes::removed),
            Err(failure) if failure.exit() == ExitStatus::Refused => failure,
            Err(failure) => return Err(failure),
        };
        if !is_directory(run, &path) {
            return Err(refusal);
        }
        if !run.has_flag("recursive") {
            let path = run.shown(&path);
            let message =
                format!("directory `{path}` is not empty; remove it with everything in it with `svcfs rm -r {path}`");
            return Err(CommandFailure::saying(ExitStatus::Refused, message));
        }
        remove_directory(run, &path)
    })
}

fn remove_directory(run: &VerbRun<'_>, path: &str) -> Result<(), CommandFailure> {
    let dry_run = run.arguments().get("dry_run");
    let tree = run.call("tree", to_map(json!({ "path": path, "details": true })))?;
    let mut entries = Vec::new();
    collect_entries(&tree, &mut entries);
    for entry in entries {
        let mut arguments = to_map(json!({ "path": entry }));
        arguments.extend(dry_run.map(|dry_run| ("dry_run".to_owned(), dry_run.clone())));
        match run.call("delete", arguments) {
            Ok(answer) => run.print(&answer, views::changes::removed)?,
            // The tree is listed to a limited depth.
            Err(failure) if failure.exit() == ExitStatus::Refused && is_directory(run, &entry) => {
                remove_directory(run, &entry)?;
            }
            Err(failure) => return Err(failure),
        }
    }
    if dry_run.is_some_and(|dry_run| *dry_run == true) {
        return Ok(());
    }
    match run.call("delete", to_map(json!({ "path": path }))) {
        Ok(answer) => run.print(&answer, views::changes::removed),
        // A directory may disappear with its last file.
        Err(_) if !is_directory(run, path) => Ok(()),
        Err(failure) if failure.exit() == ExitStatus::Refused => {
            let advice = "hidden and ignored files are not removed; remove them in the folder itself";
            Err(failure.preceded_by(&format!("{advice}, then `svcfs rm -r {}` again", run.shown(path))))
        }
        Err(failure) => Err(failure),
    }
}

/// `undo`: at a terminal shows what will be undone and asks before it does.
///
/// # Errors
/// The refusals of the operation; `Refused` if the answer is no.
pub fn undo(run: &VerbRun<'_>) -> Result<(), CommandFailure> {
    let mut arguments = run.arguments().clone();
    let asks = !arguments.contains_key("dry_run") && !run.has_flag("yes") && !run.has_flag("json") && output::can_ask();
    if asks {
        let mut dry_run = arguments.clone();
        dry_run.insert("dry_run".to_owned(), true.into());
        let shown = run.call("revert", dry_run)?;
        run.print(&shown, views::undo::undone)?;
        if shown["undone"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        if !output::confirm("\nUndo this now? [yes/No] ") {
            return Err(CommandFailure::saying(ExitStatus::Refused, "nothing was changed"));
        }
        // What was shown, and nothing else.
        arguments.insert("etag".to_owned(), shown["etag"].clone());
    }
    run.print(&run.call("revert", arguments)?, views::undo::undone)
}

/// The paths of a tree, those in a directory before it.
fn collect_entries(nodes: &Value, paths: &mut Vec<String>) {
    for node in nodes.as_array().into_iter().flatten() {
        collect_entries(&node["children"], paths);
        paths.extend(node["path"].as_str().map(str::to_owned));
    }
}

/// Whether there is a directory at a path.
pub fn is_directory(run: &VerbRun<'_>, path: &str) -> bool {
    path.is_empty() || run.call("tree", to_map(json!({ "path": path, "depth": 1 }))).is_ok()
}

fn to_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}
