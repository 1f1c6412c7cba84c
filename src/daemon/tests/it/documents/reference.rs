//! Every command line with `svcfs` in the documentation is one that the program accepts.

use super::{blocks, commands, page, shell, workspace};
use crate::harness::Place;

/// Prefixes that run the program as another user or with a variable.
const PREFIXES: [&str; 3] = ["sudo ", "runuser -u svcfs -- ", "SVC_ACTOR="];

/// The command without redirections, pipes, comments and what follows it.
fn first_command(text: &str) -> &str {
    let mut quote = None;
    let mut last = ' ';
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '|' | '&' | ';' | '<' | '>') => return &text[..at],
            (None, '#') if last == ' ' => return &text[..at],
            (None, _) => {}
        }
        last = character;
    }
    text
}

/// The lines of a page that start the program.
fn program_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (language, block) in blocks(text) {
        if !matches!(language, "" | "console") || !block.starts_with(['$', '#']) {
            continue;
        }
        for command in commands(&block) {
            let typed = PREFIXES.iter().find_map(|prefix| command.text.strip_prefix(prefix)).unwrap_or(&command.text);
            if typed.starts_with("svcfs ") {
                lines.push(first_command(typed).trim().replace("\\\n", " "));
            }
        }
    }
    lines
}

#[test]
fn every_documented_command_line_is_accepted_by_the_program() {
    let mut pages = vec!["README.md".to_owned()];
    for entry in std::fs::read_dir(workspace().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    let place = Place::new();
    let (mut count, mut refused) = (0, Vec::new());
    for name in pages {
        for line in program_lines(&page(&name)) {
            count += 1;
            // `--help` ends the run; what is before it must be valid. The user of the example does
            // not exist here.
            let typed = format!("{} --help", line.replace("--actor bot=", "--actor root="));
            let output = shell(&place, &typed).output().unwrap();
            if !output.status.success() {
                refused.push(format!("{name}: {line}: {}", String::from_utf8_lossy(&output.stderr)));
            }
        }
    }
    assert!(refused.is_empty() && count > 30, "{count} lines\n{}", refused.join("\n"));
}

#[test]
fn a_command_ends_before_a_pipe_and_a_comment_outside_quotes() {
    for (text, expected) in [
        ("svcfs call # all", "svcfs call "),
        ("svcfs query 'a | b' | head", "svcfs query 'a | b' "),
        ("svcfs query 'FROM #tag' --json", "svcfs query 'FROM #tag' --json"),
        ("svcfs serve --port 3399 &", "svcfs serve --port 3399 "),
    ] {
        assert_eq!(first_command(text), expected);
    }
}
