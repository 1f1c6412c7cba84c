//! Log, git, tree and index, each by itself and against each other.

use std::path::Path;

use anyhow::Context;
use svcfs_base::{CommitId, FileKind, Seq};
use svcfs_knowledge::search::{IndexState, compare_index};
use svcfs_store::{GitLock, Log, LogCheck, ReachableObjects, RepoInspection, StatePaths, TreeState};

use super::{CheckFinding, DoctorProgress, RootExamination, counted};
use crate::failure::CommandFailure;

pub(super) fn log(found: &mut RootExamination, watch: &dyn DoctorProgress) {
    watch.begin("reading the log");
    let (anew, another) = if found.keeps_git() {
        (
            "makes it anew from git, as the next start does",
            "moves it aside and makes another from git; what git has not got is in the tree",
        )
    } else {
        (
            "makes it anew from the files as they are, as the next start does; who changed what before is not known any more",
            "moves it aside and makes another from the files as they are; who changed what before is in the one moved aside",
        )
    };
    let finding = match Log::check(&StatePaths::new(&found.root)) {
        Err(error) => CheckFinding::problem("log", error.to_string()),
        Ok(None) => CheckFinding::warning("log", "`.svc/state/log.db` is not there").mended_by(anew),
        Ok(Some(log)) => {
            let finding = if !log.damage.is_empty() {
                CheckFinding::problem("log", format!("`.svc/state/log.db` is damaged: {}", log.damage.join("; ")))
                    .mended_by(another)
            } else if !log.missing_spool.is_empty() {
                let told = "contents of accepted changes are gone from `.svc/state/spool`: those versions are lost, unless \
                            the tree or git has them";
                CheckFinding::problem("log", told).at(&log.missing_spool)
            } else if log.pending_records > 0 && found.holder.is_none() {
                let told = format!("{} were accepted and not finished", counted(log.pending_records, "change"));
                CheckFinding::warning("log", told).mended_by("completes them, as the next start does")
            } else {
                CheckFinding::ok(
                    "log",
                    format!("`.svc/state/log.db` is whole, {}", counted(records(log.last_seq), "record")),
                )
            };
            found.log = Some(log);
            finding
        }
    };
    found.add([finding]);
}

fn records(last: Seq) -> usize {
    usize::try_from(last.0).unwrap_or(usize::MAX)
}

pub(super) fn history(found: &mut RootExamination, watch: &dyn DoctorProgress) {
    if !found.keeps_git() {
        let told = "none is needed: versions are not kept by git (`versioning.strategy`)";
        return found.add([CheckFinding::ok("repository", told)]);
    }
    watch.begin("reading git's objects");
    let repository = match RepoInspection::open(&found.root) {
        Ok(Some(repository)) => repository,
        Ok(None) => return found.add([absent(found)]),
        Err(error) => {
            return found.add([CheckFinding::problem("repository", format!("git cannot open `.git`: {error}"))]);
        }
    };
    let locks = locks(&repository.locks());
    let head = match repository.head() {
        Ok(head) => head,
        Err(error) => {
            let told = format!("`HEAD` or the branch it names cannot be read: {error}");
            let fix = "makes `HEAD` name its branch again, or the branch the newest commit that the log knows; what stood \
                       there is kept in `.git/damaged`";
            return found.add([CheckFinding::problem("repository", told).mended_by(fix), locks]);
        }
    };
    let is_lost = head.is_none() && found.log.as_ref().is_some_and(|log| log.checkpoint_commit.is_some());
    let told = match head {
        Some(head) => CheckFinding::ok("repository", format!("git opens `.git`; the newest commit is {head}")),
        None if is_lost => CheckFinding::problem(
            "repository",
            "the branch that `HEAD` names does not exist, and the log knows commits: put `.git` back from a backup, or run \
             `git switch` to the branch that has them",
        ),
        None => CheckFinding::ok("repository", "git opens `.git`; there is no commit yet"),
    };
    found.add([told, locks]);
    match repository.check_objects(|read| watch.reach(read, 0)) {
        Ok(objects) => objects_of(found, &repository, objects),
        Err(error) => found.add([CheckFinding::problem("objects", format!("git's objects cannot be read: {error}"))]),
    }
    if let Some(finding) = versions(found, &repository) {
        found.add([finding]);
    }
    let unknown = head.map_or_else(Vec::new, |head| unknown(found, &repository, head));
    found.add(unknown);
}

fn absent(found: &RootExamination) -> CheckFinding {
    let is_known = found.log.as_ref().is_some_and(|log| log.has_commits);
    if found.root.join(".git").exists() {
        CheckFinding::problem("repository", "`.git` is damaged: git does not take it for a repository").mended_by(
            "makes `HEAD` anew when that is what is missing; otherwise put `.git` back from a backup or a clone",
        )
    } else if is_known {
        let told = "`.git`, the history of the pages, is gone: put it back from a backup or a clone. If there is none, remove \
                    `.svc/state`, and a new history begins with the pages as they are";
        CheckFinding::problem("repository", told)
    } else {
        CheckFinding::warning("repository", "there is no `.git` yet").mended_by("makes one, as the next start does")
    }
}

fn locks(locks: &[GitLock]) -> CheckFinding {
    let stale: Vec<_> = locks.iter().filter(|lock| lock.is_stale()).collect();
    if !stale.is_empty() {
        let told = "locks of git whose process is gone; git refuses to work, and writes may be held up";
        return CheckFinding::problem("locks", told)
            .at(stale.iter().map(|lock| lock.path.display()))
            .mended_by("removes them");
    }
    let held = |lock: &GitLock| match &lock.holder {
        Some(holder) => format!("{} (perhaps of process {}, `{}`)", lock.path.display(), holder.pid, holder.name),
        None => format!("{} ({} s old; look again in a moment)", lock.path.display(), lock.age.as_secs()),
    };
    if locks.is_empty() {
        CheckFinding::ok("locks", "no lock of git is left over")
    } else {
        CheckFinding::warning("locks", "somebody's git is at work").at(locks.iter().map(held))
    }
}

fn objects_of(found: &mut RootExamination, repository: &RepoInspection, objects: ReachableObjects) {
    let ReachableObjects { read_count: read, bad } = objects;
    let torn = repository.torn_packs().unwrap_or_default();
    if !torn.is_empty() {
        let told = "packs of git that were cut short or changed; a backup or a clone has them whole";
        found.add([CheckFinding::problem("packs", told).at(torn.iter().map(|path| path.display()))]);
    }
    let unindexed = repository.packs_without_index().unwrap_or_default();
    if !unindexed.is_empty() {
        let told = "packs of git without their index, so that git finds nothing in them";
        let paths = unindexed.iter().map(|path| path.display());
        found.add([CheckFinding::problem("packs", told).at(paths).mended_by("makes the indexes anew")]);
    }
    found.add([if bad.is_empty() {
        CheckFinding::ok("objects", format!("all {read} objects of git that the newest commit leads to are whole"))
    } else {
        let told = format!("{} of git missing or damaged", counted(bad.len(), "object"));
        let place = bad.iter().map(|object| {
            let how = if object.is_missing { "missing" } else { "damaged" };
            format!("{} {} ({}): {how}", object.kind, object.id, object.path)
        });
        CheckFinding::problem("objects", told).at(place).mended_by(
            "writes those again that the tree still has, and those of unfinished changes; for the others copy `.git/objects` \
             from a backup or a clone",
        )
    }]);
    found.bad_objects = bad;
}

/// Whether git has every commit that the log names.
fn versions(found: &RootExamination, repository: &RepoInspection) -> Option<CheckFinding> {
    let log = found.log.as_ref().filter(|log| log.damage.is_empty())?;
    Some(match repository.missing_commits(&log.commits) {
        Err(error) => CheckFinding::problem("versions", format!("git's objects cannot be looked through: {error}")),
        Ok(missing) if missing.is_empty() => {
            CheckFinding::ok("versions", format!("git has {} that the log names", counted(log.commits.len(), "commit")))
        }
        Ok(missing) => {
            let told = format!(
                "{} that the log names are not in git any more: somebody rewrote the history and `git gc` took them, or they \
                 were lost; those versions cannot be shown",
                counted(missing.len(), "commit")
            );
            CheckFinding::warning("versions", told).at(missing)
        }
    })
}

/// Commits of git's that the log does not know. Not asked while changes wait for theirs, or somebody has the root.
fn unknown(found: &RootExamination, repository: &RepoInspection, head: CommitId) -> Vec<CheckFinding> {
    let is_at_rest = |log: &&LogCheck| log.damage.is_empty() && log.pending_records == 0 && found.holder.is_none();
    let Some(log) = found.log.as_ref().filter(is_at_rest) else { return Vec::new() };
    let known = log.commits.iter().copied().collect();
    // Where one on the way is missing, the objects say so.
    let Ok(unknown) = repository.unknown_commits(head, log.checkpoint_commit, &known) else { return Vec::new() };
    let mut findings = Vec::new();
    if !unknown.newer.is_empty() {
        let told = format!("the log does not know {} yet", counted(unknown.newer.len(), "newer commit"));
        let fix = "records them, as the next start does";
        findings.push(CheckFinding::warning("versions", told).at(unknown.newer).mended_by(fix));
    }
    if !unknown.older.is_empty() {
        let told = format!(
            "the log does not know {} of git's, so that `/versions` and `/changes` do not tell of them; if they are wanted, move \
             `.svc/state/log.db` away while no server runs: the next start makes it anew from git, without what the log alone \
             has (the order of the change feed, the doors, and versions that share a commit)",
            counted(unknown.older.len(), "older commit")
        );
        findings.push(CheckFinding::warning("versions", told).at(unknown.older));
    }
    findings
}

pub(super) fn tree(found: &mut RootExamination, watch: &dyn DoctorProgress) {
    let keeps_git = found.keeps_git();
    watch.begin(if keeps_git {
        "comparing the files with the newest commit"
    } else {
        "comparing the files with the log"
    });
    let reach = |done, total| watch.reach(done, total);
    let state = if keeps_git {
        match RepoInspection::open(&found.root) {
            Ok(Some(repository)) => repository.compare_tree(reach),
            Ok(None) => return found.add([CheckFinding::skipped("tree", "not compared: there is no repository")]),
            Err(error) => Err(error),
        }
    } else if found.log.is_none() {
        return found.add([CheckFinding::skipped("tree", "not compared: there is no log")]);
    } else {
        Log::compare_tree(&StatePaths::new(&found.root), reach)
    };
    match state {
        Ok(state) => {
            found.add([files(&state, if keeps_git { "the newest commit has" } else { "the log has" })]);
            if keeps_git {
                found.add([git_index(&state)]);
            }
            if !state.unreadable.is_empty() {
                let each = state.unreadable.iter().map(|(path, why)| format!("{path}: {why}"));
                found.add([CheckFinding::problem("tree", "files that cannot be read").at(each)]);
            }
            found.tree = Some(state);
        }
        Err(error) => found.add([CheckFinding::skipped("tree", format!("not compared: {error}"))]),
    }
}

/// What differs from what somebody `has`.
fn files(state: &TreeState, has: &str) -> CheckFinding {
    let differing = state.modified.len() + state.untracked.len();
    if differing == 0 {
        return CheckFinding::ok("tree", format!("{} as {has} them", counted(state.files.len(), "file")));
    }
    let gone_or_edited = state.modified.iter().map(|path| format!("{path} (edited or removed)"));
    let new = state.untracked.iter().map(|path| format!("{path} (new)"));
    CheckFinding::warning("tree", format!("{} not as {has} them", counted(differing, "file")))
        .at(gone_or_edited.chain(new))
        .mended_by("records them as edits made behind the server, as the next start does")
}

fn git_index(state: &TreeState) -> CheckFinding {
    let fix = "brings it up to date";
    if let Some(damage) = &state.index_error {
        return CheckFinding::problem("git-index", format!("`.git/index` cannot be read: {damage}")).mended_by(fix);
    }
    if let Some(unknown) = &state.index_unsupported {
        return CheckFinding::warning("git-index", unknown.clone());
    }
    if state.stale_index.is_empty() {
        return CheckFinding::ok("git-index", "`.git/index` is up to date");
    }
    let told = format!(
        "`.git/index` is behind for {}: `git status` shows changes that are none",
        counted(state.stale_index.len(), "file")
    );
    CheckFinding::warning("git-index", told).at(&state.stale_index).mended_by(fix)
}

pub(super) fn search_index(found: &mut RootExamination, watch: &dyn DoctorProgress) {
    const CHECK: &str = "search-index";
    let is_settled = found.log.as_ref().is_some_and(|log| log.damage.is_empty() && log.pending_records == 0);
    let state = match (&found.tree, &found.log) {
        (Some(tree), Some(log)) if is_settled && tree.modified.is_empty() && tree.untracked.is_empty() => {
            watch.begin("making the search index anew, to compare");
            compared(&found.root, (tree, log.last_seq), watch)
        }
        (Some(_) | None, Some(_) | None) => {
            let why = "not compared: what is recorded and the tree do not agree yet; the next start, or --fix, brings them together";
            return found.add([CheckFinding::skipped(CHECK, why)]);
        }
    };
    let fix = "makes it anew from the pages";
    let (is_wrong, finding) = match state {
        Err(failure) => {
            let told = failure.told(false);
            (false, CheckFinding::skipped(CHECK, format!("not compared: {}", told.trim_start_matches("svcfs: "))))
        }
        Ok(IndexState::Equal(pages)) => {
            (false, CheckFinding::ok(CHECK, format!("equal to one made anew, {}", counted(pages, "page"))))
        }
        Ok(IndexState::OtherSeq(cursor)) => {
            let told = format!("it has read the log up to {cursor}");
            (false, CheckFinding::warning(CHECK, told).mended_by("lets it read the rest, as the next start does"))
        }
        Ok(IndexState::Absent) => {
            (false, CheckFinding::warning(CHECK, "`.svc/state/index.db` is not there").mended_by(fix))
        }
        Ok(IndexState::Outdated) => {
            (false, CheckFinding::warning(CHECK, "`.svc/state/index.db` is of another version of svcfs").mended_by(fix))
        }
        Ok(IndexState::Damaged(what)) => {
            (true, CheckFinding::problem(CHECK, format!("`.svc/state/index.db` is damaged: {what}")).mended_by(fix))
        }
        Ok(IndexState::Different(pages)) => {
            let told = match pages.len() {
                0 => "search finds other words than the pages have".to_owned(),
                count => format!("it is wrong about {}", counted(count, "page")),
            };
            (true, CheckFinding::problem(CHECK, told).at(pages.iter().map(|page| &page.path)).mended_by(fix))
        }
    };
    found.is_index_wrong = is_wrong;
    found.add([finding]);
}

fn compared(
    root: &Path,
    (tree, last): (&TreeState, Seq),
    watch: &dyn DoctorProgress,
) -> Result<IndexState, CommandFailure> {
    let scratch = tempfile::tempdir().context("no place for temporary files")?;
    let pages = tree.files.iter().filter(|(_, kind)| *kind != FileKind::Symlink).map(|(path, _)| path.clone());
    let files = (&*StatePaths::new(root).index(), scratch.path());
    let state = compare_index(
        files,
        (pages.collect(), last),
        |path| TreeState::read_content(root, path),
        |done, total| watch.reach(done, total),
    );
    Ok(state.context("the search index")?)
}
