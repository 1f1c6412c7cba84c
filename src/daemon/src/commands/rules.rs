//! `svcfs rules`

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use svcfs_base::ETag;

use crate::asking::RootTarget;
use crate::failure::{CommandFailure, ExitStatus};
use crate::root::cli_caller;
use crate::{manual, output};

const EXAMPLES: &str = "\
Examples:
  svcfs rules edit                        edit .svc/rules.md in $VISUAL or $EDITOR
  svcfs rules export                      print the instructions
  svcfs rules export --format claude      print them as a part of CLAUDE.md
  svcfs rules sync                        update the files of agent programs in this directory
  svcfs rules sync --format agents ../app   update or create AGENTS.md in another directory";

/// Manage agent instructions
///
/// The instructions are the markdown page `.svc/rules.md` of the knowledge base.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RulesArgs {
    #[command(subcommand)]
    what: RulesCommand,
}

#[derive(Debug, Subcommand)]
enum RulesCommand {
    Edit(EditArgs),
    Export(ExportArgs),
    Sync(SyncArgs),
}

/// Edit the instructions in `$VISUAL`, else `$EDITOR`, else vi
///
/// An unchanged text is not written. If another writer changed the page meanwhile, the new text is
/// saved to a file instead.
#[derive(Debug, Args)]
struct EditArgs {
    #[command(flatten)]
    target: RootTarget,
    /// Author of the version [default: the login name]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
}

/// Print the instructions, unchanged or in the format of a program
#[derive(Debug, Args)]
struct ExportArgs {
    #[command(flatten)]
    target: RootTarget,
    /// Format of this program
    #[arg(long, value_enum)]
    format: Option<AgentProgram>,
}

/// Write the instructions into the files of agent programs in a directory
///
/// Updates existing files; --format creates one. In CLAUDE.md and AGENTS.md only the text between
/// two markers is replaced.
#[derive(Debug, Args)]
struct SyncArgs {
    #[command(flatten)]
    target: RootTarget,
    /// Only for this program; its file is created if missing
    #[arg(long, value_enum)]
    format: Option<AgentProgram>,
    /// Directory of the agent programs' files
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AgentProgram {
    Cursor,
    Claude,
    Agents,
    Openclaw,
}

/// Markers around the instructions in a file with other text.
const START_MARKER: &str =
    "<!-- svcfs rules: written by `svcfs rules sync`, which replaces everything down to the next mark -->\n";
const END_MARKER: &str = "<!-- end of svcfs rules -->\n";

impl AgentProgram {
    const fn name(self) -> &'static str {
        match self {
            Self::Cursor => "cursor",
            Self::Claude => "claude",
            Self::Agents => "agents",
            Self::Openclaw => "openclaw",
        }
    }
    /// The file that the program reads in a directory; none if its instructions are in its
    /// settings.
    const fn file(self) -> Option<&'static str> {
        match self {
            Self::Cursor => Some(".cursor/rules/svcfs.mdc"),
            Self::Claude => Some("CLAUDE.md"),
            Self::Agents => Some("AGENTS.md"),
            Self::Openclaw => None,
        }
    }
    /// The content of the program's file with new instructions, given its present content.
    ///
    /// # Errors
    /// Which marker is missing.
    fn with(self, present: &str, rules: &str) -> Result<String, &'static str> {
        if self == Self::Cursor {
            return Ok(rules.to_owned());
        }
        let block = format!("{START_MARKER}{}\n{END_MARKER}", rules.trim_end());
        let (Some((before, rest)), true) = (present.split_once(START_MARKER), present.contains(END_MARKER)) else {
            if present.contains(START_MARKER) || present.contains(END_MARKER) {
                return Err("one of the two markers around the rules is missing");
            }
            let gap = if present.is_empty() { "" } else { "\n" };
            return Ok(format!("{}{gap}{block}", with_final_newline(present)));
        };
        let (_, after) = rest.split_once(END_MARKER).ok_or("the markers around the rules are in the wrong order")?;
        Ok(format!("{before}{block}{after}"))
    }
}

/// The text with a final newline.
fn with_final_newline(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

impl RulesArgs {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// `Refused` when another writer changed the rules, or the markers of a file are damaged;
    /// errors of the operation and of the disk.
    pub fn run(self) -> Result<(), CommandFailure> {
        match self.what {
            RulesCommand::Edit(EditArgs { target, actor }) => edit(&target, actor.as_deref()),
            RulesCommand::Export(ExportArgs { target, format }) => {
                output::say(&with_final_newline(&read(&target, format)?))
            }
            RulesCommand::Sync(SyncArgs { target, format, directory }) => sync(&target, format, &directory),
        }
    }
}

/// The instructions, unchanged or in the format of a program.
fn read(target: &RootTarget, format: Option<AgentProgram>) -> Result<String, CommandFailure> {
    let arguments = format.map(|format| ("format".to_owned(), json!(format.name())));
    let answer =
        target.clone().run_operation(manual::find("get_rules")?, Map::from_iter(arguments), cli_caller(None), None)?;
    Ok(match (&answer["content"], &answer["settings"]) {
        (Value::String(text), _) => text.clone(),
        (_, settings) => format!("{settings:#}\n"),
    })
}

#[expect(clippy::disallowed_methods, reason = "a file for an editor, in the system's own directory: no part of a tree")]
fn edit(target: &RootTarget, actor: Option<&str>) -> Result<(), CommandFailure> {
    let before = read(target, None)?;
    let file = std::env::temp_dir().join(format!("svcfs-rules-{}.md", std::process::id()));
    let context = || format!("cannot use `{}`", file.display());
    // The directory is shared: an existing file could be a symbolic link of another user.
    let created = File::options().write(true).create_new(true).mode(0o600).open(&file);
    created.and_then(|mut file| file.write_all(before.as_bytes())).with_context(context)?;
    let named = |name: &str| std::env::var(name).ok().filter(|program| !program.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    // As git does: the variable may contain arguments, which the shell splits.
    let status = Command::new("sh").args(["-c", &format!("{editor} \"$@\""), "svcfs"]).arg(&file).status();
    let status = status.with_context(|| format!("the editor `{editor}` cannot be started"))?;
    if !status.success() {
        let message =
            format!("the editor `{editor}` failed; the rules are unchanged, and your text is in `{}`", file.display());
        return Err(CommandFailure::saying(ExitStatus::Failed, message));
    }
    let after = fs::read_to_string(&file).with_context(context)?;
    if after != before {
        let content = Map::from_iter([("content".to_owned(), json!(after))]);
        // Missing rules have no ETag.
        let if_match = (!before.is_empty()).then(|| ETag::from_content(before.as_bytes()).to_string());
        let written = target.clone().run_operation(manual::find("set_rules")?, content, cli_caller(actor), if_match);
        if let Err(failure) = written {
            let reason = failure.message(false);
            let message = format!("{}; your text is in `{}`", reason.trim_start_matches("svcfs: "), file.display());
            return Err(CommandFailure::saying(failure.exit(), message));
        }
    }
    fs::remove_file(&file).with_context(context)?;
    output::say(if after == before { "nothing was changed\n" } else { "the rules were saved to .svc/rules.md\n" })
}

#[expect(
    clippy::disallowed_methods,
    reason = "files of other programs, in a directory of the caller's: no part of a tree"
)]
fn sync(target: &RootTarget, format: Option<AgentProgram>, directory: &Path) -> Result<(), CommandFailure> {
    let mut written = String::new();
    for program in AgentProgram::value_variants()
        .iter()
        .copied()
        .filter(|program| format.is_none_or(|selected| selected == *program))
    {
        let Some(file) = program.file().map(|file| directory.join(file)) else {
            if format.is_some() {
                let message = "OpenClaw keeps its rules in its own settings; print them with `svcfs rules export --format openclaw`";
                return Err(CommandFailure::saying(ExitStatus::Refused, message));
            }
            continue;
        };
        let cannot = || format!("cannot use `{}`", file.display());
        let present = match fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound && format.is_none() => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            there => there.with_context(cannot)?,
        };
        let text = program.with(&present, &read(target, Some(program))?).map_err(|reason| {
            let message = format!("`{}` was not changed: {reason}; repair the markers or remove both", file.display());
            CommandFailure::saying(ExitStatus::Refused, message)
        })?;
        if text != present {
            if let Some(parent) = file.parent() {
                fs::create_dir_all(parent).with_context(cannot)?;
            }
            fs::write(&file, text).with_context(cannot)?;
        }
        written.push_str(&format!("{}\n", file.display()));
    }
    if written.is_empty() {
        let files: Vec<&str> = AgentProgram::value_variants().iter().filter_map(|program| program.file()).collect();
        let message = format!("`{}` has none of {}; --format creates one", directory.display(), files.join(", "));
        return Err(CommandFailure::saying(ExitStatus::Refused, message));
    }
    output::say(&written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_replace_older_rules_and_nothing_else() {
        let first = AgentProgram::Claude.with("# Ours\n\nText", "## Rules\n\nOne.\n").unwrap();
        assert_eq!(first, format!("# Ours\n\nText\n\n{START_MARKER}## Rules\n\nOne.\n{END_MARKER}"));
        let second = AgentProgram::Claude.with(&format!("{first}\nMore.\n"), "Two.\n").unwrap();
        assert_eq!(second, format!("# Ours\n\nText\n\n{START_MARKER}Two.\n{END_MARKER}\nMore.\n"));
        assert_eq!(AgentProgram::Agents.with("", "One.").unwrap(), format!("{START_MARKER}One.\n{END_MARKER}"));
        assert_eq!(AgentProgram::Cursor.with("anything", "One.\n").unwrap(), "One.\n");
        for broken in [START_MARKER, END_MARKER, &format!("{END_MARKER}{START_MARKER}")] {
            assert!(AgentProgram::Agents.with(broken, "One.").is_err(), "{broken:?}");
        }
    }
}
