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
use crate::root::whoever;
use crate::{manual, output};

const EXAMPLES: &str = "\
Examples:
  svcfs rules edit                        in $VISUAL or $EDITOR, as a version of .svc/rules.md
  svcfs rules export                      the rules as they were written
  svcfs rules export --format claude      as a part of CLAUDE.md
  svcfs rules sync                        into the files of the programs that work in this directory
  svcfs rules sync --format agents ../app   into AGENTS.md of another one, made if need be";

/// Edit the rules for those who work here, and hand them to the programs that read them
///
/// Rules are markdown, kept in `.svc/rules.md` of the knowledge base and handed to agents.
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

/// Edit the rules in `$VISUAL`, else `$EDITOR`, else vi
///
/// Nothing is written when nothing was changed, and nothing over what somebody else wrote meanwhile: the text is kept in a file then.
#[derive(Debug, Args)]
struct EditArgs {
    #[command(flatten)]
    whom: RootTarget,
    /// Author of the version [default: the login name]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
}

/// Print the rules, as they were written or as a program reads them
#[derive(Debug, Args)]
struct ExportArgs {
    #[command(flatten)]
    whom: RootTarget,
    /// For which program
    #[arg(long, value_enum)]
    format: Option<AgentProgram>,
}

/// Write the rules into the files of programs that work in a directory
///
/// Files that are there are kept up to date; with --format one is made. What stands in CLAUDE.md and AGENTS.md beside the rules is left as it
/// is: the rules stand between two marks.
#[derive(Debug, Args)]
struct SyncArgs {
    #[command(flatten)]
    whom: RootTarget,
    /// For this program, whether its file is there or not
    #[arg(long, value_enum)]
    format: Option<AgentProgram>,
    /// Where the programs work
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

/// What the rules stand between in a file that has more.
const BEGIN: &str =
    "<!-- svcfs rules: written by `svcfs rules sync`, which replaces everything down to the next mark -->\n";
const END: &str = "<!-- end of svcfs rules -->\n";

impl AgentProgram {
    const fn name(self) -> &'static str {
        match self {
            Self::Cursor => "cursor",
            Self::Claude => "claude",
            Self::Agents => "agents",
            Self::Openclaw => "openclaw",
        }
    }
    /// The file it reads in a directory; none where rules are a part of its settings.
    const fn file(self) -> Option<&'static str> {
        match self {
            Self::Cursor => Some(".cursor/rules/svcfs.mdc"),
            Self::Claude => Some("CLAUDE.md"),
            Self::Agents => Some("AGENTS.md"),
            Self::Openclaw => None,
        }
    }
    /// Its file with these rules, given what stands in it.
    ///
    /// # Errors
    /// The mark that is missing.
    fn with(self, there: &str, rules: &str) -> Result<String, &'static str> {
        if self == Self::Cursor {
            return Ok(rules.to_owned());
        }
        let block = format!("{BEGIN}{}\n{END}", rules.trim_end());
        let (Some((before, rest)), true) = (there.split_once(BEGIN), there.contains(END)) else {
            if there.contains(BEGIN) || there.contains(END) {
                return Err("one of the two marks around the rules is missing");
            }
            let gap = if there.is_empty() { "" } else { "\n" };
            return Ok(format!("{}{gap}{block}", ended(there)));
        };
        let (_, behind) = rest.split_once(END).ok_or("the marks around the rules are in the wrong order")?;
        Ok(format!("{before}{block}{behind}"))
    }
}

/// A text whose last line ends.
fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

impl RulesArgs {
    /// Does what is asked.
    ///
    /// # Errors
    /// `Refused` when somebody else wrote meanwhile, and for a file whose marks are broken; those of asking and of the disk.
    pub fn run(self) -> Result<(), CommandFailure> {
        match self.what {
            RulesCommand::Edit(EditArgs { whom, actor }) => edit(&whom, actor.as_deref()),
            RulesCommand::Export(ExportArgs { whom, format }) => output::say(&ended(&read(&whom, format)?)),
            RulesCommand::Sync(SyncArgs { whom, format, directory }) => sync(&whom, format, &directory),
        }
    }
}

/// The rules, as they were written or as a program reads them.
fn read(whom: &RootTarget, format: Option<AgentProgram>) -> Result<String, CommandFailure> {
    let arguments = format.map(|format| ("format".to_owned(), json!(format.name())));
    let answer = whom.clone().ask(manual::find("get_rules")?, Map::from_iter(arguments), whoever(None), None)?;
    Ok(match (&answer["content"], &answer["settings"]) {
        (Value::String(text), _) => text.clone(),
        (_, settings) => format!("{settings:#}\n"),
    })
}

#[expect(clippy::disallowed_methods, reason = "a file for an editor, in the system's own directory: no part of a tree")]
fn edit(whom: &RootTarget, actor: Option<&str>) -> Result<(), CommandFailure> {
    let before = read(whom, None)?;
    let file = std::env::temp_dir().join(format!("svcfs-rules-{}.md", std::process::id()));
    let told = || format!("cannot use `{}`", file.display());
    // Made here or not at all: others may write into that directory, and what lies there may lead elsewhere.
    let made = File::options().write(true).create_new(true).mode(0o600).open(&file);
    made.and_then(|mut made| made.write_all(before.as_bytes())).with_context(told)?;
    let named = |name: &str| std::env::var(name).ok().filter(|program| !program.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    // As git does: the variable may hold arguments, which a shell takes apart.
    let ended = Command::new("sh").args(["-c", &format!("{editor} \"$@\""), "svcfs"]).arg(&file).status();
    let ended = ended.with_context(|| format!("the editor `{editor}` cannot be started"))?;
    if !ended.success() {
        let told =
            format!("the editor `{editor}` failed; nothing was changed, and your text is in `{}`", file.display());
        return Err(CommandFailure::saying(ExitStatus::Failed, told));
    }
    let after = fs::read_to_string(&file).with_context(told)?;
    if after != before {
        let content = Map::from_iter([("content".to_owned(), json!(after))]);
        // What was not there has no ETag to have changed.
        let if_match = (!before.is_empty()).then(|| ETag::from_content(before.as_bytes()).to_string());
        let written = whom.clone().ask(manual::find("set_rules")?, content, whoever(actor), if_match);
        if let Err(failure) = written {
            let why = failure.told(false);
            let told = format!("{}; your text is in `{}`", why.trim_start_matches("svcfs: "), file.display());
            return Err(CommandFailure::saying(failure.exit(), told));
        }
    }
    fs::remove_file(&file).with_context(told)?;
    output::say(if after == before { "nothing was changed\n" } else { "the rules are written to .svc/rules.md\n" })
}

#[expect(
    clippy::disallowed_methods,
    reason = "files of other programs, in a directory of the caller's: no part of a tree"
)]
fn sync(whom: &RootTarget, format: Option<AgentProgram>, directory: &Path) -> Result<(), CommandFailure> {
    let mut told = String::new();
    for program in
        AgentProgram::value_variants().iter().copied().filter(|program| format.is_none_or(|one| one == *program))
    {
        let Some(file) = program.file().map(|file| directory.join(file)) else {
            if format.is_some() {
                let told = "OpenClaw has its rules among its settings, where only it writes; `svcfs rules export --format openclaw` prints them";
                return Err(CommandFailure::saying(ExitStatus::Refused, told));
            }
            continue;
        };
        let cannot = || format!("cannot use `{}`", file.display());
        let there = match fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound && format.is_none() => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            there => there.with_context(cannot)?,
        };
        let text = program.with(&there, &read(whom, Some(program))?).map_err(|why| {
            let told = format!("`{}` is left as it is: {why}; mend it, or remove both", file.display());
            CommandFailure::saying(ExitStatus::Refused, told)
        })?;
        if text != there {
            if let Some(parent) = file.parent() {
                fs::create_dir_all(parent).with_context(cannot)?;
            }
            fs::write(&file, text).with_context(cannot)?;
        }
        told.push_str(&format!("{}\n", file.display()));
    }
    if told.is_empty() {
        let files: Vec<&str> = AgentProgram::value_variants().iter().filter_map(|program| program.file()).collect();
        let told = format!("`{}` has none of {}; --format makes one", directory.display(), files.join(", "));
        return Err(CommandFailure::saying(ExitStatus::Refused, told));
    }
    output::say(&told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_take_the_place_of_older_ones_and_of_nothing_else() {
        let first = AgentProgram::Claude.with("# Ours\n\nText", "## Rules\n\nOne.\n").unwrap();
        assert_eq!(first, format!("# Ours\n\nText\n\n{BEGIN}## Rules\n\nOne.\n{END}"));
        let second = AgentProgram::Claude.with(&format!("{first}\nMore.\n"), "Two.\n").unwrap();
        assert_eq!(second, format!("# Ours\n\nText\n\n{BEGIN}Two.\n{END}\nMore.\n"));
        assert_eq!(AgentProgram::Agents.with("", "One.").unwrap(), format!("{BEGIN}One.\n{END}"));
        assert_eq!(AgentProgram::Cursor.with("anything", "One.\n").unwrap(), "One.\n");
        for broken in [BEGIN, END, &format!("{END}{BEGIN}")] {
            assert!(AgentProgram::Agents.with(broken, "One.").is_err(), "{broken:?}");
        }
    }
}
