//! What an unknown command may have meant: a typing error, or a name that other programs use for
//! the same.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::Cli;
use crate::manual;

/// Typing errors with which a command is still recognised.
const MAX_TYPOS: usize = 2;

/// What people type, and the command for it.
const SYNONYMS: &[(&[&str], &str)] = &[
    (&["find", "grep", "rg", "ag", "lookup", "locate"], "search"),
    (&["ask", "brief", "context", "answer", "rag"], "recall"),
    (&["cat", "show", "get", "view", "open", "print", "less", "more", "type", "head", "tail", "bat"], "read"),
    (&["put", "save", "edit", "create", "new", "set", "touch", "tee", "store", "vi", "vim", "nano"], "write"),
    (&["add", "echo", "note"], "append"),
    (&["list", "dir", "ll", "files", "ls-files"], "ls"),
    (&["history", "versions", "changes", "timeline", "recent", "activity"], "log"),
    (&["annotate", "praise"], "blame"),
    (&["compare", "cmp", "changed"], "diff"),
    (&["mv", "move", "ren"], "rename"),
    (&["delete", "del", "remove", "unlink"], "rm"),
    (&["outlinks", "link"], "links"),
    (&["references", "refs", "inlinks", "backlink", "referrers"], "backlinks"),
    (&["info", "ps", "health", "state"], "status"),
    (&["start", "run", "server", "up", "daemon", "web", "http", "restart"], "serve"),
    (&["umount", "eject"], "unmount"),
    (&["fsck", "check", "verify", "repair", "fix"], "doctor"),
    (&["config", "configure", "settings", "validate"], "check-config"),
    (&["index", "rebuild"], "reindex"),
    (&["dql", "dataview", "table", "select", "sql", "tags"], "query"),
    (&["stats", "statistics", "metrics"], "analytics"),
    (&["clean", "orphans", "broken", "report"], "janitor"),
    (&["key", "keys", "tokens", "login", "auth", "user"], "token"),
    (&["agent", "stdio"], "mcp"),
    (&["benchmark", "perf"], "bench"),
    (&["completion"], "completions"),
    (&["manual"], "man"),
    (&["exec", "operation", "api"], "call"),
    (&["setup", "clone", "import"], "init"),
    (&["adopt"], "init --adopt"),
    // No command of its own, but a way.
    (&["mkdir"], "write DIR/PAGE.md"),
    (&["cp", "copy"], "read FROM | svcfs write TO"),
    (&["revert", "rollback"], "undo"),
    (&["checkout", "undelete", "recover"], "restore"),
    (&["bin", "removed", "deleted"], "trash"),
    (&["lint"], "call lint path=PATH"),
    (&["stop", "down", "quit", "kill"], "status` for the process, then `kill PID"),
    (&["version"], "--version"),
];

/// The message for an unknown command, if it is known what was meant.
pub fn of_error(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let advice = match of_name(given) {
        Some(meant) => format!("use `svcfs {meant}`"),
        None => format!("did you mean `svcfs {}`?", of_typo(given)?),
    };
    Some(format!("there is no command `{given}`; {advice}\n\n`svcfs --help` lists the commands."))
}

/// The command with the fewest typing errors: letters that are missing, wrong, surplus or swapped.
fn of_typo(given: &str) -> Option<String> {
    let (given, program) = (given.to_lowercase(), Cli::command());
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    let typos = commands.map(clap::Command::get_name).map(|name| (strsim::damerau_levenshtein(&given, name), name));
    let near = typos.filter(|(count, name)| *count <= MAX_TYPOS.min(name.len() / 2));
    near.min_by_key(|(count, _)| *count).map(|(_, name)| name.to_owned())
}

fn of_name(given: &str) -> Option<String> {
    let given = given.to_lowercase();
    let synonym = SYNONYMS.iter().find(|(names, _)| names.contains(&given.as_str()));
    if let Some((_, meant)) = synonym {
        return Some((*meant).to_owned());
    }
    // The name of an operation.
    let operation = given.replace('-', "_");
    manual::find(&operation).ok().map(|entry| format!("call {}", entry.name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    #[test]
    fn every_synonym_leads_to_a_command_and_is_none_itself() {
        let program = Cli::command();
        let commands: BTreeSet<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
        let mut seen = BTreeSet::new();
        for (names, meant) in SYNONYMS {
            let command = meant.split([' ', '`']).next().unwrap();
            assert!(commands.contains(command) || command.starts_with("--"), "{meant}");
            for name in *names {
                assert!(!commands.contains(name), "{name} is a command");
                assert!(seen.insert(*name), "{name} is there twice");
            }
        }
    }

    #[test]
    fn what_people_type_is_answered_with_the_command() {
        for (given, meant) in [
            ("find", "svcfs search"),
            ("grep", "svcfs search"),
            ("cat", "svcfs read"),
            ("history", "svcfs log"),
            ("mv", "svcfs rename"),
            ("Delete", "svcfs rm"),
            ("put", "svcfs write"),
            ("toc", "svcfs call toc"),
            ("graph-walk", "svcfs call graph_walk"),
        ] {
            let error = Cli::try_parse_from(["svcfs", given]).unwrap_err();
            let message = of_error(&error).unwrap();
            assert!(message.contains(&format!("use `{meant}`")), "{given}: {message}");
        }
        for (given, meant) in [
            ("serach", "svcfs search"),
            ("serch", "svcfs search"),
            ("Raed", "svcfs read"),
            ("ssrve", "svcfs serve"),
            ("backlink5", "svcfs backlinks"),
            ("tre", "svcfs tree"),
            ("lgo", "svcfs log"),
            ("statsu", "svcfs status"),
            ("sl", "svcfs ls"),
        ] {
            let message = of_error(&Cli::try_parse_from(["svcfs", given]).unwrap_err()).unwrap();
            assert!(message.contains(&format!("did you mean `{meant}`?")), "{given}: {message}");
        }
        for given in ["xyzzy", "q", "frobnicate"] {
            assert_eq!(of_error(&Cli::try_parse_from(["svcfs", given]).unwrap_err()), None, "{given}");
        }
    }
}
