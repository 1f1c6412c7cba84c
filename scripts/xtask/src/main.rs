//! Checks of the workspace that the compiler does not make, and files that are generated from code.
//!
//! Invariant: a finding reads like help. It names the place, what is wrong and what to do. The
//! tables that decide are `layers::LAYERS`, `words::REFUSED`, `language::TERMS` and
//! `generate::OUTPUTS`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to a person")]

mod figures;
mod finding;
mod generate;
mod guarantees;
mod language;
mod layers;
mod metadata;
mod modules;
mod sources;
mod templates;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use finding::Finding;
use metadata::Package;
use sources::SourceFile;

const USAGE: &str = "\
Check the structure of the workspace and generate files

Usage: cargo run -p xtask -- <command>

Commands:
  check             Check layers, file lengths, file names, refused words, language,
                    unused files, init templates and guarantees without a test
  figures [COMMIT]  Print the language figures, lines and types; with COMMIT, its lines and types too
  generate          Write the files that are generated from code
  generate --check  Compare them instead and list those that are out of date

Exit codes: 0 no findings; 1 findings; 2 the command is unknown or failed";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    let outcome = match arguments.as_slice() {
        ["check"] => check(&root),
        ["figures"] => figures::print(&root, None),
        ["figures", commit] => figures::print(&root, Some(commit)),
        ["generate"] => generate::write(&root),
        ["generate", "--check"] => generate::compare(&root),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(mut findings) => report(&mut findings),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The root of the workspace, two folders above this crate.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).components().collect::<PathBuf>().join("../..")
}

/// All checks.
fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let root = root.canonicalize().context("the workspace root")?;
    let packages = Package::all(&root)?;
    let files = SourceFile::all(&root)?;
    let mut findings = layers::check(&packages);
    findings.extend(sources::check(&files));
    findings.extend(words::check(&files));
    findings.extend(modules::check(&files, &packages));
    findings.extend(templates::check());
    findings.extend(language::check(&files));
    findings.extend(guarantees::check(&root, &files)?);
    Ok(findings)
}

fn report(findings: &mut [Finding]) -> ExitCode {
    findings.sort();
    for finding in findings.iter() {
        println!("{finding}");
    }
    match findings.len() {
        0 => ExitCode::SUCCESS,
        1 => {
            println!("\none finding");
            ExitCode::FAILURE
        }
        several => {
            println!("\n{several} findings");
            ExitCode::FAILURE
        }
    }
}
