//! Checks of log, git, tree and index, each alone and against each other.

use std::path::Path;

use anyhow::Context;
use svcfs_base::{CommitId, FileKind, Seq, TreePath};
use svcfs_config::EmbedderProvider;
use svcfs_knowledge::search::{IndexState, compare_index};
use svcfs_store::{GitLock, Log, LogCheck, ReachableObjects, RepoInspection, StatePaths, TreeState};
use svcfs_vectors::EmbeddedModel;

use super::{CheckFinding, DoctorProgress, RootExamination, counted};
use crate::failure::CommandFailure;

pub(super) fn log(examination: &mut RootExamination, watch: &dyn DoctorProgress) {
    watch.start("reading the log");
    let (rebuild, replace) = if examination.uses_git() {
        (
            "rebuilds it from git, as the next start does",
            "renames it and rebuilds it from git; content that git lacks is in the tree",
        )
    } else {
        (
            "rebuilds it from the present files, as the next start does; the earlier history is lost",
            "renames it and rebuilds it from the present files; the earlier history is in the renamed file",
        )
    };
    let finding = match Log::check(&StatePaths::new(&examination.root)) {
        Err(error) => CheckFinding::problem("log", error.to_string()),
        Ok(None) => CheckFinding::warning("log", "`.svc/state/log.db` does not exist").repaired_by(rebuild),
        Ok(Some(log)) => {
            let finding = if !log.damage.is_empty() {
                CheckFinding::problem("log", format!("`.svc/state/log.db` is damaged: {}", log.damage.join("; ")))
                    .repaired_by(replace)
            } else if !log.missing_spool.is_empty() {
                let message = "contents of accepted changes are missing in `.svc/state/spool`: those versions are lost, unless \
                               the tree or git has them";
                CheckFinding::problem("log", message).at(&log.missing_spool)
            } else if log.pending_records > 0 && examination.holder.is_none() {
                let message = format!("{} accepted and not complete", counted(log.pending_records, "change"));
                CheckFinding::warning("log", message).repaired_by("completes them, as the next start does")
            } else {
                CheckFinding::ok(
                    "log",
                    format!("`.svc/state/log.db` is intact, {}", counted(records(log.last_seq), "record")),
                )
            };
            examination.log = Some(log);
            finding
        }
    };
    examination.add([finding]);
}

fn records(last: Seq) -> usize {
    usize::try_from(last.0).unwrap_or(usize::MAX)
}

pub(super) fn history(examination: &mut RootExamination, watch: &dyn DoctorProgress) {
    if !examination.uses_git() {
        let message = "not needed: git is not the version store (`versioning.strategy`)";
        return examination.add([CheckFinding::ok("repository", message)]);
    }
    watch.start("reading git's objects");
    let repository = match RepoInspection::open(&examination.root) {
        Ok(Some(repository)) => repository,
        Ok(None) => return examination.add([absent(examination)]),
        Err(error) => {
            return examination.add([CheckFinding::problem("repository", format!("git cannot open `.git`: {error}"))]);
        }
    };
    let locks = locks(&repository.locks());
    let head = match repository.head() {
        Ok(head) => head,
        Err(error) => {
            let message = format!("`HEAD` or its branch cannot be read: {error}");
            let fix = "points `HEAD` to its branch again, or the branch to the newest commit in the log; the old content is \
                       moved to `.git/damaged`";
            return examination.add([CheckFinding::problem("repository", message).repaired_by(fix), locks]);
        }
    };
    let is_lost = head.is_none() && examination.log.as_ref().is_some_and(|log| log.checkpoint_commit.is_some());
    let finding = match head {
        Some(head) => CheckFinding::ok("repository", format!("git opens `.git`; the newest commit is {head}")),
        None if is_lost => CheckFinding::problem(
            "repository",
            "the branch of `HEAD` does not exist, but the log knows commits: restore `.git` from a backup, or run `git switch` \
             to the branch that has them",
        ),
        None => CheckFinding::ok("repository", "git opens `.git`; there is no commit yet"),
    };
    examination.add([finding, locks]);
    match repository.check_objects(|read| watch.advance(read, 0)) {
        Ok(objects) => objects_of(examination, &repository, objects),
        Err(error) => {
            examination.add([CheckFinding::problem("objects", format!("git's objects cannot be read: {error}"))])
        }
    }
    if let Some(finding) = versions(examination, &repository) {
        examination.add([finding]);
    }
    let unknown = head.map_or_else(Vec::new, |head| unknown(examination, &repository, head));
    examination.add(unknown);
}

fn absent(examination: &RootExamination) -> CheckFinding {
    let is_known = examination.log.as_ref().is_some_and(|log| log.has_commits);
    if examination.root.join(".git").exists() {
        CheckFinding::problem("repository", "`.git` is damaged: git does not recognise it as a repository")
            .repaired_by("recreates `HEAD` if it is missing; otherwise restore `.git` from a backup or a clone")
    } else if is_known {
        let message = "`.git`, the history of the pages, is missing: restore it from a backup or a clone. Without one, remove \
                       `.svc/state`; a new history starts with the present pages";
        CheckFinding::problem("repository", message)
    } else {
        CheckFinding::warning("repository", "there is no `.git` yet").repaired_by("creates it, as the next start does")
    }
}

fn locks(locks: &[GitLock]) -> CheckFinding {
    let stale: Vec<_> = locks.iter().filter(|lock| lock.is_stale()).collect();
    if !stale.is_empty() {
        let message = "stale locks of git; git commands fail, and writes may be delayed";
        return CheckFinding::problem("locks", message)
            .at(stale.iter().map(|lock| lock.path.display()))
            .repaired_by("removes them");
    }
    let description = |lock: &GitLock| match &lock.holder {
        Some(holder) => format!("{} (possibly of process {}, `{}`)", lock.path.display(), holder.pid, holder.name),
        None => format!("{} ({} s old; check again later)", lock.path.display(), lock.age.as_secs()),
    };
    if locks.is_empty() {
        CheckFinding::ok("locks", "no stale git locks")
    } else {
        CheckFinding::warning("locks", "another git process is running").at(locks.iter().map(description))
    }
}

fn objects_of(examination: &mut RootExamination, repository: &RepoInspection, objects: ReachableObjects) {
    let ReachableObjects { read_count: read, bad } = objects;
    let torn = repository.torn_packs().unwrap_or_default();
    if !torn.is_empty() {
        let message = "git packs are truncated or changed; restore them from a backup or a clone";
        examination.add([CheckFinding::problem("packs", message).at(torn.iter().map(|path| path.display()))]);
    }
    let unindexed = repository.packs_without_index().unwrap_or_default();
    if !unindexed.is_empty() {
        let message = "git packs without an index, so that git cannot read them";
        let paths = unindexed.iter().map(|path| path.display());
        examination.add([CheckFinding::problem("packs", message).at(paths).repaired_by("rebuilds the indexes")]);
    }
    examination.add([if bad.is_empty() {
        CheckFinding::ok("objects", format!("all {read} git objects that the newest commit reaches are intact"))
    } else {
        let message = format!("{} missing or damaged", counted(bad.len(), "git object"));
        let objects = bad.iter().map(|object| {
            let state = if object.is_missing { "missing" } else { "damaged" };
            format!("{} {} ({}): {state}", object.kind, object.id, object.path)
        });
        CheckFinding::problem("objects", message).at(objects).repaired_by(
            "restores those whose content is in the tree or in pending changes; for the others copy `.git/objects` from a \
             backup or a clone",
        )
    }]);
    examination.bad_objects = bad;
}

/// Whether git has every commit that the log names.
fn versions(examination: &RootExamination, repository: &RepoInspection) -> Option<CheckFinding> {
    let log = examination.log.as_ref().filter(|log| log.damage.is_empty())?;
    Some(match repository.missing_commits(&log.commits) {
        Err(error) => CheckFinding::problem("versions", format!("git's objects cannot be read: {error}")),
        Ok(missing) if missing.is_empty() => {
            CheckFinding::ok("versions", format!("git has {} that the log names", counted(log.commits.len(), "commit")))
        }
        Ok(missing) => {
            let message = format!(
                "{} that the log names are not in git any more: the history was rewritten and `git gc` removed them, or they \
                 were lost; those versions cannot be shown",
                counted(missing.len(), "commit")
            );
            CheckFinding::warning("versions", message).at(missing)
        }
    })
}

/// Commits in git that the log does not know. Not checked while changes are pending, or a process
/// uses the root.
fn unknown(examination: &RootExamination, repository: &RepoInspection, head: CommitId) -> Vec<CheckFinding> {
    let is_idle = |log: &&LogCheck| log.damage.is_empty() && log.pending_records == 0 && examination.holder.is_none();
    let Some(log) = examination.log.as_ref().filter(is_idle) else { return Vec::new() };
    let known = log.commits.iter().copied().collect();
    // The check of the objects reports a missing commit.
    let Ok(unknown) = repository.unknown_commits(head, log.checkpoint_commit, &known) else { return Vec::new() };
    let mut findings = Vec::new();
    if !unknown.newer.is_empty() {
        let message = format!("the log does not know {} yet", counted(unknown.newer.len(), "newer commit"));
        let fix = "records them, as the next start does";
        findings.push(CheckFinding::warning("versions", message).at(unknown.newer).repaired_by(fix));
    }
    if !unknown.older.is_empty() {
        let message = format!(
            "the log does not know {} in git, so that `/versions` and `/changes` do not list them; to include them, move \
             `.svc/state/log.db` away while no server runs: the next start rebuilds it from git, without data that only the \
             log has (the order of the change feed, the protocols, and versions that share a commit)",
            counted(unknown.older.len(), "older commit")
        );
        findings.push(CheckFinding::warning("versions", message).at(unknown.older));
    }
    findings
}

pub(super) fn tree(examination: &mut RootExamination, watch: &dyn DoctorProgress) {
    let uses_git = examination.uses_git();
    watch.start(if uses_git {
        "comparing the files with the newest commit"
    } else {
        "comparing the files with the log"
    });
    let progress = |done, total| watch.advance(done, total);
    let state = if uses_git {
        match RepoInspection::open(&examination.root) {
            Ok(Some(repository)) => repository.compare_tree(progress),
            Ok(None) => {
                return examination.add([CheckFinding::skipped("tree", "not compared: there is no repository")]);
            }
            Err(error) => Err(error),
        }
    } else if examination.log.is_none() {
        return examination.add([CheckFinding::skipped("tree", "not compared: there is no log")]);
    } else {
        Log::compare_tree(&StatePaths::new(&examination.root), progress)
    };
    match state {
        Ok(state) => {
            examination.add([files(&state, if uses_git { "the newest commit has" } else { "the log has" })]);
            if uses_git {
                examination.add([git_index(&state)]);
            }
            if !state.unreadable.is_empty() {
                let details = state.unreadable.iter().map(|(path, reason)| format!("{path}: {reason}"));
                examination.add([CheckFinding::problem("tree", "files that cannot be read").at(details)]);
            }
            examination.tree = Some(state);
        }
        Err(error) => examination.add([CheckFinding::skipped("tree", format!("not compared: {error}"))]),
    }
}

/// Files that differ from the log or the newest commit, as `has` says.
fn files(state: &TreeState, has: &str) -> CheckFinding {
    let differing = state.modified.len() + state.untracked.len();
    if differing == 0 {
        return CheckFinding::ok("tree", format!("{} as {has} them", counted(state.files.len(), "file")));
    }
    let changed = state.modified.iter().map(|path| format!("{path} (edited or removed)"));
    let new = state.untracked.iter().map(|path| format!("{path} (new)"));
    CheckFinding::warning("tree", format!("{} not as {has} them", counted(differing, "file")))
        .at(changed.chain(new))
        .repaired_by("records them as external edits, as the next start does")
}

fn git_index(state: &TreeState) -> CheckFinding {
    let fix = "updates it";
    if let Some(damage) = &state.index_error {
        return CheckFinding::problem("git-index", format!("`.git/index` cannot be read: {damage}")).repaired_by(fix);
    }
    if let Some(unknown) = &state.index_unsupported {
        return CheckFinding::warning("git-index", unknown.clone());
    }
    if state.stale_index.is_empty() {
        return CheckFinding::ok("git-index", "`.git/index` is up to date");
    }
    let message = format!(
        "`.git/index` is outdated for {}: `git status` shows false changes",
        counted(state.stale_index.len(), "file")
    );
    CheckFinding::warning("git-index", message).at(&state.stale_index).repaired_by(fix)
}

pub(super) fn search_index(examination: &mut RootExamination, watch: &dyn DoctorProgress) {
    const CHECK: &str = "search-index";
    let is_complete = examination.log.as_ref().is_some_and(|log| log.damage.is_empty() && log.pending_records == 0);
    let state = match (&examination.tree, &examination.log) {
        (Some(tree), Some(log)) if is_complete && tree.modified.is_empty() && tree.untracked.is_empty() => {
            watch.start("building a search index to compare");
            compare_with_new(&examination.root, (tree, log.last_seq), watch)
        }
        (Some(_) | None, Some(_) | None) => {
            let reason = "not compared: the log and the tree differ; the next start, or --fix, records the differences";
            return examination.add([CheckFinding::skipped(CHECK, reason)]);
        }
    };
    let fix = "rebuilds it from the pages";
    let (is_wrong, finding) = match state {
        Err(failure) => {
            let message = failure.message(false);
            (false, CheckFinding::skipped(CHECK, format!("not compared: {}", message.trim_start_matches("svcfs: "))))
        }
        Ok(IndexState::Equal(pages)) => {
            (false, CheckFinding::ok(CHECK, format!("equal to a new one, {}", counted(pages, "page"))))
        }
        Ok(IndexState::OtherSeq(cursor)) => {
            let message = format!("it contains the changes up to {cursor}");
            (false, CheckFinding::warning(CHECK, message).repaired_by("indexes the rest, as the next start does"))
        }
        Ok(IndexState::Absent) => {
            (false, CheckFinding::warning(CHECK, "`.svc/state/index.db` does not exist").repaired_by(fix))
        }
        Ok(IndexState::Outdated) => (
            false,
            CheckFinding::warning(CHECK, "`.svc/state/index.db` was written by another version of svcfs")
                .repaired_by(fix),
        ),
        Ok(IndexState::Damaged(damage)) => {
            (true, CheckFinding::problem(CHECK, format!("`.svc/state/index.db` is damaged: {damage}")).repaired_by(fix))
        }
        Ok(IndexState::Different(pages)) => {
            let message = match pages.len() {
                0 => "its word lists differ from the pages".to_owned(),
                count => format!("it differs for {}", counted(count, "page")),
            };
            (true, CheckFinding::problem(CHECK, message).at(pages.iter().map(|page| &page.path)).repaired_by(fix))
        }
    };
    examination.is_index_wrong = is_wrong;
    examination.add([finding]);
}

/// Pages of which words are counted, and bytes of each.
const SAMPLED_PAGES: usize = 200;
const SAMPLED_BYTES: usize = 20_000;

/// Share of unknown words above which the embedded model is of little use. It knows few words of
/// other languages than English, and splits them into parts with little meaning.
const MAX_UNKNOWN_SHARE: f64 = 0.3;

/// Warns if the embedded model does not know the language of the pages.
pub(super) fn meaning(examination: &mut RootExamination) {
    let vector = examination.settings.as_ref().and_then(|settings| settings.search.vector.as_ref());
    let is_embedded = vector
        .is_some_and(|vector| vector.embedder.provider == EmbedderProvider::Static && vector.embedder.url.is_empty());
    let (true, Some(tree)) = (is_embedded, &examination.tree) else { return };
    let is_page = |path: &&TreePath| path.is_page() && !path.is_hidden();
    let pages: Vec<&TreePath> = tree.files.iter().map(|(path, _)| path).filter(is_page).collect();
    let (mut known, mut all) = (0, 0);
    for path in pages.iter().step_by(pages.len().div_ceil(SAMPLED_PAGES).max(1)) {
        let Ok(content) = std::fs::read(examination.root.join(path.as_str())) else { continue };
        let text = String::from_utf8_lossy(&content[..content.len().min(SAMPLED_BYTES)]);
        let counts = EmbeddedModel::known_words(&text);
        known += counts.0;
        all += counts.1;
    }
    let unknown = all.saturating_sub(known) as f64 / (all as f64).max(1.0);
    if unknown > MAX_UNKNOWN_SHARE {
        let message = format!(
            "the embedder `static` does not know {:.0} % of the words: it is made for English; set \
             `search.vector.embedder` to a model of your language",
            unknown * 100.0
        );
        examination.add([CheckFinding::warning("search-by-meaning", message)]);
    }
}

fn compare_with_new(
    root: &Path,
    (tree, last): (&TreeState, Seq),
    watch: &dyn DoctorProgress,
) -> Result<IndexState, CommandFailure> {
    let scratch = tempfile::tempdir().context("cannot create a temporary directory")?;
    let pages = tree.files.iter().filter(|(_, kind)| *kind != FileKind::Symlink).map(|(path, _)| path.clone());
    let files = (&*StatePaths::new(root).index(), scratch.path());
    let state = compare_index(
        files,
        (pages.collect(), last),
        |path| TreeState::read_content(root, path),
        |done, total| watch.advance(done, total),
    );
    Ok(state.context("the search index")?)
}
