//! Checks of the house that no compiler makes, and the files that are written from code.
//!
//! One rule: a finding reads like help. It names the place, what is wrong and what to do; the tables that decide are
//! `layers::ROOMS`, `words::REFUSED` and `generate::OUTPUTS`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to a person")]

mod finding;
mod generate;
mod layers;
mod metadata;
mod modules;
mod promises;
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
Keep the house in order

Usage: cargo run -p xtask -- <command>

Commands:
  check             Layers, file lengths, file names, refused words, forgotten files,
                    pages of the init templates, promises without a test
  generate          Write the files that are made from code
  generate --check  Compare them instead, and say which are out of date

Exit codes: 0 all is well; 1 there are findings; 2 the command was not understood or could not be run";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    let outcome = match arguments.as_slice() {
        ["check"] => check(&root),
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

/// The root of the workspace; this crate stands two folders below it.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).components().collect::<PathBuf>().join("../..")
}

/// Everything `check` looks at.
fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let root = root.canonicalize().context("the workspace root")?;
    let packages = Package::all(&root)?;
    let files = SourceFile::all(&root)?;
    let mut findings = layers::check(&packages);
    findings.extend(sources::check(&files));
    findings.extend(words::check(&files));
    findings.extend(modules::check(&files, &packages));
    findings.extend(templates::check());
    findings.extend(promises::check(&root, &files)?);
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
