//! Prints how large the code is and how plain its language is.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::finding::Finding;
use crate::language;
use crate::sources::SourceFile;

/// Prints the figures of the working tree and, with a commit, the sizes of that commit beside them.
///
/// # Errors
/// When a file cannot be read, or the commit cannot be unpacked.
pub fn print(root: &Path, commit: Option<&str>) -> anyhow::Result<Vec<Finding>> {
    let files = SourceFile::all(root)?;
    for figure in language::figures(&files) {
        println!("{figure}");
    }
    print_sizes("working tree", &files);
    if let Some(commit) = commit {
        print_sizes(commit, &files_of_commit(root, commit)?);
    }
    Ok(Vec::new())
}

fn print_sizes(name: &str, files: &[SourceFile]) {
    let types = language::count_types(files, "src/vfs/") + language::count_types(files, "src/store/");
    println!("{name}: {} non-test lines of Rust, {types} types in vfs and store", language::code_lines(files));
}

/// The Rust files of a commit, through `git archive`.
fn files_of_commit(root: &Path, commit: &str) -> anyhow::Result<Vec<SourceFile>> {
    let folder = tempfile::tempdir().context("creating a temporary folder")?;
    let mut archive = Command::new("git")
        .args(["archive", "--format=tar", commit])
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .context("starting `git archive`")?;
    let output = archive.stdout.take().context("reading from `git archive`")?;
    let status = Command::new("tar").arg("-x").current_dir(folder.path()).stdin(output).status();
    let is_archived = archive.wait().context("waiting for `git archive`")?.success();
    if !is_archived || !status.context("starting `tar`")?.success() {
        bail!("`git archive {commit}` failed; name a commit of this repository");
    }
    SourceFile::all(folder.path())
}
