use std::collections::BTreeSet;

use clap::{CommandFactory, Parser};
use svcfs_knowledge::kernel::OperationInputs;

use super::*;
use crate::cli::{Cli, CliCommand};
use crate::manual;

fn parsed(line: &[&str]) -> Result<VerbCommand, clap::Error> {
    let cli = Cli::try_parse_from(["svcfs"].iter().chain(line))?;
    match cli.command {
        CliCommand::Verb(verb) => Ok(verb),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_verb_names_parameters_of_its_operation() {
    for verb in VERBS {
        let entry = manual::find(verb.operation).unwrap();
        let inputs = OperationInputs::from_entry(entry);
        let names = verb.options.iter().map(|option| option.parameter).chain(verb.fixed.iter().map(|(name, _)| *name));
        for name in names {
            assert!(inputs.get(name).is_some(), "{}: {name}", verb.name);
        }
        if !matches!(verb.action, Action::Steps(_)) {
            for positional in verb.positionals {
                assert!(inputs.get(positional.parameter).is_some(), "{}: {}", verb.name, positional.parameter);
            }
        }
        assert!(verb.examples.starts_with("Examples:\n  svcfs "), "{}", verb.name);
    }
}

#[test]
fn every_verb_has_a_consistent_command_line() {
    Cli::command().debug_assert();
    let names: BTreeSet<&str> = names().collect();
    let expected =
        "append backlinks blame diff links log ls read recall rename restore rm search trash tree undo write";
    let expected = expected.split(' ').collect::<BTreeSet<_>>();
    assert_eq!(names, expected);
}

/// What a user at a terminal cannot know: the words of REST and JSON.
#[test]
fn the_help_of_a_verb_speaks_of_the_command_line() {
    let mut program = Cli::command();
    for verb in VERBS {
        let help = program.find_subcommand_mut(verb.name).unwrap().render_long_help().to_string();
        let words: Vec<_> = help.split_whitespace().collect();
        let help = words.join(" ");
        for word in [
            "Content-Type",
            "for agents",
            "when absent",
            "lowered to",
            "`content`",
            "`to`",
            "`from`",
            "`path`",
            "did_you_mean",
            "The results then",
            "; default",
            "<TEXT> Only",
            "\"\\n\"",
        ] {
            assert!(!help.contains(word), "{}: {word}: {help}", verb.name);
        }
    }
}

#[test]
fn options_and_positionals_may_come_in_any_order() {
    for line in [
        &["search", "refresh", "token", "--limit", "5", "--json"][..],
        &["search", "-n5", "--in", "notes", "refresh", "token", "--root", "kb"],
        &["search", "--semantic", "how", "do", "tides", "work", "-n", "3"],
        &["recall", "tide", "window", "--budget", "500", "--in", "notes", "--legs", "fts,graph", "--json"],
        &["search", "tide", "--as-of", "2026-05-01"],
        &["recall", "tide", "--as-of", "v1"],
        &["append", "a.md", "- [ ] an item", "--actor", "ann", "--separator", ""],
        &["append", "a.md", "--actor", "ann", "- an item"],
        &["write", "a.md", "-"],
        &["ls", "-la", "-r", "kb"],
        &["rm", "-r", "a", "b", "--actor", "ann"],
        &["rm", "a.md", "--dry-run"],
        &["write", "a.md", "-", "--dry-run"],
        &["rename", "a.md", "b.md", "--dry-run"],
        &["log"],
        &["diff", "a.md", "1111", "2222"],
        &["undo", "--actor", "agent:x", "--since", "2h", "--path", "notes", "--dry-run"],
        &["undo", "--commits", "1111,2222", "-y"],
        &["restore", "a.md", "--version", "1111", "--actor", "ann"],
        &["restore", "--from", "/srv/kb.git", "--to", "kb", "--branch", "main", "--json"],
        &["trash", "-n5", "--in", "notes"],
    ] {
        assert!(parsed(line).is_ok(), "{line:?}: {}", parsed(line).unwrap_err());
    }
    for line in [&["search"][..], &["read"], &["rename", "a"], &["diff", "a", "b", "c", "d"], &["ls", "a", "b"]] {
        assert!(parsed(line).is_err(), "{line:?}");
    }
}
