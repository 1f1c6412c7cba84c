//! The first time svcfs is used in a directory with files, on this machine: what it would commit,
//! and consent to it.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::path::Path;

use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use svcfs_base::{Fault, Kind, TreePath};
use svcfs_config::{Settings, VersioningStrategy};
use svcfs_store::StatePaths;
use svcfs_vfs::{AdoptionPlan, UncommittedFile, UncommittedKind};

use crate::failure::{CommandFailure, ExitStatus};
use crate::output;

/// Larger files are listed: git keeps every version of them.
const LARGE_BYTES: u64 = 10 << 20;
/// How many paths of a kind are listed.
const MAX_EXAMPLES: usize = 5;

/// Consent to commit what is not committed.
#[derive(Debug, Clone, Args)]
pub struct AdoptFlag {
    /// The first time, in a git repository with uncommitted changes: commit them; with `tracked`,
    /// only those of files that git tracks
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    adopt: Option<AdoptionMode>,
}

/// What is committed when a root is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AdoptionMode {
    /// Every file that git does not ignore
    All,
    /// Files that git tracks; the others stay untracked until they are written
    Tracked,
}

impl AdoptFlag {
    /// Prepares a directory for its first use as a root. With uncommitted changes it needs consent:
    /// by the flag, or with `may_ask` by a person at a terminal. Without consent nothing changes.
    ///
    /// # Errors
    /// `Refused` with the plan when there is no consent, and during a merge or rebase; `Usage` for
    /// `tracked` without git.
    pub fn prepare(&self, root: &Path, settings: &Settings, may_ask: bool) -> Result<(), CommandFailure> {
        if !is_first_time(root, settings) {
            if self.adopt.is_some() && root.join(".svc").is_dir() {
                output::complain(&format!("`{}` is set up already; --adopt has no effect", root.display()));
            }
            return Ok(());
        }
        let plan = AdoptionPlan::read(root, &settings.scratch)?;
        if !plan.has_repository() {
            if self.adopt == Some(AdoptionMode::Tracked) {
                let message =
                    format!("`{}` is no git repository, so nothing is tracked; omit --adopt=tracked", root.display());
                return Err(CommandFailure::saying(ExitStatus::Usage, message));
            }
            if plan.enclosing_work_tree().is_some() && !plan.files().is_empty() && self.adopt.is_none() {
                return Err(refusal(root, &plan));
            }
            if !plan.files().is_empty() {
                output::complain(&describe(root, &plan));
            }
            return Ok(());
        }
        if let Some(command) = plan.unfinished_command() {
            return Err(CommandFailure::saying(ExitStatus::Refused, unfinished_message(root, command)));
        }
        if plan.files().is_empty() {
            return Ok(());
        }
        let mode = match self.adopt {
            Some(mode) => mode,
            None if may_ask && io::stdin().is_terminal() && io::stderr().is_terminal() => ask(root, &plan)?,
            None => return Err(refusal(root, &plan)),
        };
        // The staged state first: it becomes a commit of its own, below the work tree.
        plan.commit_staged(root, &settings.scratch, svcfs_base::Timestamp::now())?;
        if mode == AdoptionMode::Tracked {
            plan.leave_untracked(root)?;
        }
        Ok(())
    }
}

/// Whether svcfs was never used in a directory, and would commit what is there. A clone of a shared
/// knowledge base has `.svc` from git, and no state.
fn is_first_time(root: &Path, settings: &Settings) -> bool {
    settings.versioning.strategy == VersioningStrategy::Git && root.is_dir() && !StatePaths::new(root).was_opened()
}

/// Refuses a root whose first use needs consent, for what cannot ask for it: a secondary space of a
/// running server, and every command but `init` and `serve`.
///
/// # Errors
/// `Conflict`, with what to do.
pub fn refuse_uncommitted(root: &Path, settings: &Settings) -> Result<(), Fault> {
    if !is_first_time(root, settings) {
        return Ok(());
    }
    let plan = AdoptionPlan::read(root, &settings.scratch)?;
    if let Some(command) = plan.unfinished_command() {
        return Err(Fault::new(Kind::Conflict, unfinished_message(root, command)));
    }
    if !plan.has_repository() || plan.files().is_empty() {
        return Ok(());
    }
    let text = root.display();
    let message = format!(
        "`{text}` has {} that git has not committed; commit them, or set it up with `svcfs init --root {text}`, which lists them",
        counted(plan.files().len())
    );
    Err(Fault::new(Kind::Conflict, message))
}

fn refusal(root: &Path, plan: &AdoptionPlan) -> CommandFailure {
    let advice = match plan.enclosing_work_tree() {
        Some(outer) => format!(
            "Set up `{0}` with `svcfs init --root {0}`, or give\n  \
             --adopt          to make a repository of its own and commit all files there",
            outer.display()
        ),
        None => "Commit or stash the changes yourself and repeat the command, or give\n  \
                 --adopt          to commit all of them\n  \
                 --adopt=tracked  to commit only those of tracked files; untracked files stay so until they are written"
            .to_owned(),
    };
    let message = format!("{}\n\nNothing was changed. {advice}", describe(root, plan));
    CommandFailure::saying(ExitStatus::Refused, message)
}

/// Why a root is not set up now, even with consent: conflict markers would become a version, and
/// `git rebase --abort` would remove what was committed on its detached HEAD from the work tree.
fn unfinished_message(root: &Path, command: &str) -> String {
    format!(
        "a `git {command}` is not finished in `{}`; nothing was changed; finish or abort it, and repeat the command",
        root.display()
    )
}

/// Asks the person at the terminal.
fn ask(root: &Path, plan: &AdoptionPlan) -> Result<AdoptionMode, CommandFailure> {
    output::complain(&describe(root, plan));
    let mut stderr = io::stderr().lock();
    // If the question cannot be shown, the answer is no.
    let shown = write!(stderr, "\nCommit all of them now? [yes/tracked/No] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = shown.and_then(|()| io::stdin().lock().read_line(&mut answer));
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" if read.is_ok() => Ok(AdoptionMode::All),
        "t" | "tracked" if read.is_ok() => Ok(AdoptionMode::Tracked),
        _ => Err(CommandFailure::saying(ExitStatus::Refused, "nothing was changed")),
    }
}

/// The plan as text.
fn describe(root: &Path, plan: &AdoptionPlan) -> String {
    let files = plan.files();
    let root = root.display();
    let mut text = match (plan.has_repository(), plan.branch()) {
        (true, Some(branch)) => format!(
            "`{root}` has changes that git has not committed. svcfs would commit them on the branch `{branch}`, as {}:",
            plan.author
        ),
        (true, None) => {
            format!(
                "`{root}` has changes that git has not committed. svcfs would commit them on the detached HEAD, as {}; \
                 `git switch -c NAME` before gives them a branch:",
                plan.author
            )
        }
        (false, _) => match plan.enclosing_work_tree() {
            Some(outer) => format!(
                "`{root}` is inside the git repository `{}`. svcfs makes it a repository of its own, without the \
                 history and the ignore rules of that one, and commits all its files:",
                outer.display()
            ),
            None => format!("`{root}` is no git repository; svcfs makes it one and commits all its files:"),
        },
    };
    let of_kind = |kind| select(files, move |file| file.kind == kind);
    let mut groups = vec![
        ("new", of_kind(UncommittedKind::New)),
        ("modified", of_kind(UncommittedKind::Modified)),
        ("deleted", of_kind(UncommittedKind::Deleted)),
        ("staged", select(files, |file| file.is_staged)),
        ("staged, then changed again", select(files, |file| file.is_staged_only)),
        ("larger than 10 MiB", select(files, |file| file.size > LARGE_BYTES)),
        ("likely secrets", select(files, |file| file.kind != UncommittedKind::Deleted && is_likely_secret(&file.path))),
    ];
    if !plan.has_repository() {
        groups.retain(|(name, _)| *name != "new");
    }
    groups.retain(|(_, files)| !files.is_empty());
    let width = groups.iter().map(|(name, _)| name.len()).fold("total".len(), usize::max);
    for (name, files) in &groups {
        let _ = write!(text, "\n  {name:width$}  {:>5}  {}", files.len(), examples(files));
    }
    let total: u64 = files.iter().map(|file| file.size).sum();
    let _ = write!(text, "\n  {:width$}  {:>5}  {}", "total", files.len(), ByteSize(total));
    if files.iter().any(|file| file.is_staged_only) {
        text.push_str("\nWhat is staged and was changed again becomes a commit of its own, below the other.");
    }
    if !plan.oversized.is_empty() {
        let oversized: Vec<_> = plan.oversized.iter().collect();
        let _ = write!(text, "\nWithout versions, because larger than 64 MiB: {}", examples(&oversized));
    }
    text.push_str(if plan.has_repository() {
        "\nIgnored files, submodules and stashes stay as they are."
    } else {
        "\nTo leave files out, stop, name them in `.gitignore`, remove `.git` and `.svc`, and repeat the command."
    });
    text
}

fn select(files: &[UncommittedFile], is_wanted: impl Fn(&UncommittedFile) -> bool) -> Vec<&UncommittedFile> {
    files.iter().filter(|file| is_wanted(file)).collect()
}

fn examples(files: &[&UncommittedFile]) -> String {
    let shown = files.iter().take(MAX_EXAMPLES).map(|file| match file.size {
        size if size > LARGE_BYTES => format!("{} ({})", output::one_line(file.path.as_str()), ByteSize(size)),
        _ => output::one_line(file.path.as_str()),
    });
    let more = if files.len() > MAX_EXAMPLES { ", …" } else { "" };
    format!("{}{more}", shown.collect::<Vec<_>>().join(", "))
}

fn counted(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// Whether the name of a file is one under which programs keep keys and passwords.
fn is_likely_secret(path: &TreePath) -> bool {
    let name = path.name().to_ascii_lowercase();
    let is_template = [".example", ".sample", ".template", ".dist", ".pub"].iter().any(|end| name.ends_with(end));
    let is_named = [
        ".netrc",
        ".pgpass",
        ".htpasswd",
        ".npmrc",
        ".pypirc",
        ".git-credentials",
        "secrets.json",
        "secrets.yml",
        "secrets.yaml",
        "secrets.toml",
    ]
    .contains(&name.as_str());
    let starts = [".env.", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "credentials"];
    let ends = [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".env", ".tfstate"];
    !is_template
        && (is_named
            || starts.iter().any(|start| name.starts_with(start))
            || ends.iter().any(|end| name.ends_with(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_by_their_names() {
        let is_secret = |path: &str| is_likely_secret(&TreePath::parse(path).unwrap());
        for path in [
            ".env",
            "app/.env.local",
            "prod.env",
            "id_rsa",
            "keys/ID_ED25519",
            "a.PEM",
            "tls.key",
            "credentials",
            "credentials.json",
            ".netrc",
            "vault.kdbx",
        ] {
            assert!(is_secret(path), "{path}");
        }
        for path in ["env.md", ".env.example", "id_rsa.pub", "keyboard.md", "credential-rotation.md", "a.keynote"] {
            assert!(!is_secret(path), "{path}");
        }
    }
}
