use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use svcfs_config::{BackupSettings, CliOverrides, Config, Settings};
use tempfile::TempDir;

use crate::{BackupError, BackupOutcome, EmptyRemote, RunContext, drill, is_up_to_date, restore, run};

const CONTEXT: RunContext<'static> = RunContext { is_stopped: &|| false, deadline: None, on_phase: &|_| {} };
/// A git command of another test may have the lock for a moment, between its fork and its exec.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A root with a few commits, and where its backups go.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(place.path("kb/.svc/state")).unwrap();
        fs::create_dir_all(place.path("bundles")).unwrap();
        place.git("kb", &["init", "-q", "-b", "main"]);
        place.write("kb/.gitignore", ".svc/state/\n");
        place.commit("kb", "a.md", "# A\n");
        place.git("kb", &["branch", "draft/11"]);
        place.git("kb", &["tag", "v1"]);
        place.git(".", &["init", "-q", "--bare", "-b", "main", "remote.git"]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn at(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    #[track_caller]
    fn git(&self, directory: &str, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"];
        let output =
            Command::new("git").current_dir(self.path(directory)).args(identity).args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, directory: &str, name: &str, text: &str) {
        self.write(&format!("{directory}/{name}"), text);
        self.git(directory, &["add", "."]);
        self.git(directory, &["commit", "-q", "-m", name]);
    }

    /// Somebody else pushes to the remote.
    fn push_as_other(&self, name: &str, text: &str) {
        if !self.path("other").exists() {
            self.git(".", &["clone", "-q", "remote.git", "other"]);
        }
        self.git("other", &["pull", "-q", "--rebase"]);
        self.commit("other", name, text);
        self.git("other", &["push", "-q"]);
    }

    /// Somebody else pushes what is in the index.
    fn push_as_other_now(&self, message: &str) {
        self.git("other", &["commit", "-q", "-m", message]);
        self.git("other", &["push", "-q"]);
    }

    fn settings(&self, remote: &str, more: &str) -> BackupSettings {
        let text = format!("[backup]\nremote = \"{}\"\n{more}", self.at(remote));
        Settings::resolve(Config::parse(&text, &|_| None), CliOverrides::default()).unwrap().backup
    }

    fn run(&self, settings: &BackupSettings) -> Result<BackupOutcome, BackupError> {
        run(&self.path("kb"), (settings, EmptyRemote::Refuse), (CONTEXT, LOCK_TIMEOUT)).map(|(outcome, _)| outcome)
    }

    fn accept_empty(&self, settings: &BackupSettings) {
        run(&self.path("kb"), (settings, EmptyRemote::Accept), (CONTEXT, LOCK_TIMEOUT)).unwrap();
    }

    #[track_caller]
    fn drill(&self, settings: &BackupSettings) {
        let report = drill(&self.path("kb"), settings, CONTEXT).unwrap();
        assert!(report.equal && report.files > 0, "{report:?}");
    }

    /// The names below a directory, but those of git.
    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn add_draft(place: &Place) {
    let (drafts, _) = svcfs_store::DraftFile::open(&place.path("kb/.svc/state/drafts.db")).unwrap();
    let draft = svcfs_base::Draft {
        id: svcfs_base::DraftId(0x11),
        actor: svcfs_base::Actor::new("ann"),
        created_at: svcfs_base::Timestamp::from_second(1_800_000_000).unwrap(),
        base_commit: None,
        base_seq: svcfs_base::Seq(1),
    };
    drafts.create(&draft).unwrap();
}

#[test]
fn a_git_remote_gets_all_refs_and_is_checked() {
    let place = Place::new();
    add_draft(&place);
    let settings = place.settings("remote.git", "");
    assert!(place.run(&settings).unwrap().sent_refs >= 4);
    let head = place.git("kb", &["rev-parse", "HEAD"]);
    for name in ["main", "draft/11", "v1"] {
        assert_eq!(place.git("remote.git", &["rev-parse", &format!("{name}^{{commit}}")]), head);
    }
    assert_eq!(place.run(&settings).unwrap().sent_refs, 0);
    place.commit("kb", "b.md", "# B\n");
    assert_eq!(place.run(&settings).unwrap().sent_refs, 1);
    // A draft that is rewritten or merged here.
    place.git("kb", &["branch", "-f", "draft/11", "HEAD"]);
    place.git("kb", &["branch", "draft/22"]);
    place.run(&settings).unwrap();
    place.git("kb", &["branch", "-f", "draft/11", "HEAD~1"]);
    place.git("kb", &["branch", "-D", "draft/22"]);
    place.run(&settings).unwrap();
    let branches = place.git("remote.git", &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    assert_eq!(branches, "draft/11\nmain");
    place.drill(&settings);
    let report = restore(&place.at("remote.git"), &place.path("new"), (None, CONTEXT)).unwrap();
    assert_eq!((report.branch.as_str(), report.commits, report.files), ("main", 3, 3));
    assert_eq!(report.state, ["drafts.db"]);
    assert_eq!(svcfs_store::DraftFile::open(&place.path("new/.svc/state/drafts.db")).unwrap().1.len(), 1);
    assert_eq!(place.git("new", &["status", "--porcelain"]), "");
    let refused = restore(&place.at("remote.git"), &place.path("new"), (None, CONTEXT)).unwrap_err();
    assert!(refused.to_string().contains("is not empty"));
    fs::create_dir(place.path("empty")).unwrap();
    std::os::unix::fs::symlink(place.path("empty"), place.path("link")).unwrap();
    let refused = restore(&place.at("remote.git"), &place.path("link"), (None, CONTEXT)).unwrap_err();
    assert!(refused.to_string().contains("is a link"), "{refused}");
    restore(&place.at("remote.git"), &place.path("empty"), (None, CONTEXT)).unwrap();
    assert!(place.names(".").iter().all(|name| !name.starts_with(".svcfs")), "{:?}", place.names("."));
}

#[test]
fn commits_of_others_are_merged_or_refused_and_never_overwritten() {
    let place = Place::new();
    let settings = place.settings("remote.git", "");
    place.run(&settings).unwrap();
    place.push_as_other("theirs.md", "# Theirs\n");
    place.commit("kb", "ours.md", "# Ours\n");
    let refusing = place.settings("remote.git", "rebase_before_push = false");
    let before = place.git("remote.git", &["rev-parse", "main"]);
    let refused = place.run(&refusing).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("has 1 commits that are not here"), "{refused}");
    assert_eq!(place.git("remote.git", &["rev-parse", "main"]), before);
    assert_eq!(place.run(&settings).unwrap().merged_commits, 1);
    assert_eq!(fs::read_to_string(place.path("kb/theirs.md")).unwrap(), "# Theirs\n");
    assert_eq!(place.git("kb", &["rev-parse", "HEAD"]), place.git("remote.git", &["rev-parse", "main"]));
    // Nothing of ours is new: the branch only moves forward.
    place.push_as_other("more.md", "# More\n");
    assert_eq!(place.run(&settings).unwrap().merged_commits, 1);
    assert!(place.path("kb/more.md").exists());
    place.drill(&settings);

    fs::create_dir_all(place.path("other/.svc/state")).unwrap();
    place.write("other/.svc/state/shares.db", "planted");
    place.git("other", &["add", "--force", ".svc/state"]);
    place.push_as_other_now("planted");
    let refused = place.run(&settings).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("`.svc/state`"), "{refused}");
    assert!(!place.path("kb/.svc/state/shares.db").exists());
    place.git("other", &["rm", "-q", "-r", ".svc/state"]);
    place.push_as_other_now("removed");
    assert_eq!(place.run(&settings).unwrap().merged_commits, 2);

    place.push_as_other("a.md", "# Theirs\n");
    place.commit("kb", "a.md", "# Ours\n");
    let [here, there] = ["kb", "remote.git"].map(|name| place.git(name, &["rev-parse", "main"]));
    let conflict = place.run(&settings).unwrap_err().to_string();
    assert!(conflict.contains("both changed `a.md`"), "{conflict}");
    assert_eq!([here, there], ["kb", "remote.git"].map(|name| place.git(name, &["rev-parse", "main"])));
    assert_eq!(place.git("kb", &["status", "--porcelain"]), "");
    assert!(!place.names("kb/.svc/state/backup").iter().any(|name| name.starts_with("merge-")));
    let record = crate::BackupRecord::load(&place.path("kb"), settings.remote());
    assert!(record.last_error.unwrap().contains("a.md") && record.last_verified < record.last_attempt);
}

#[test]
fn a_rewritten_remote_and_one_of_another_knowledge_base_are_left_alone() {
    let place = Place::new();
    let settings = place.settings("remote.git", "");
    place.run(&settings).unwrap();
    place.git(".", &["clone", "-q", "remote.git", "other"]);
    place.git("other", &["commit", "-q", "--amend", "-m", "rewritten"]);
    place.git("other", &["push", "-q", "--force"]);
    let rewritten = place.git("remote.git", &["rev-parse", "main"]);
    let refused = place.run(&settings).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("was rewritten"), "{refused}");
    assert_eq!(place.git("remote.git", &["rev-parse", "main"]), rewritten);
    let unrelated = Place::new();
    unrelated.git("kb", &["checkout", "-q", "--orphan", "fresh"]);
    unrelated.commit("kb", "a.md", "unrelated\n");
    unrelated.git("kb", &["branch", "-M", "fresh", "main"]);
    let text = format!("[backup]\nremote = \"{}\"", place.at("remote.git"));
    let settings = Settings::resolve(Config::parse(&text, &|_| None), CliOverrides::default()).unwrap().backup;
    let refused = unrelated.run(&settings).unwrap_err();
    assert!(refused.to_string().contains("another knowledge base"), "{refused}");
    assert_eq!(place.git("remote.git", &["rev-parse", "main"]), rewritten);
}

#[test]
fn bundles_are_incremental_checked_and_restored() {
    let place = Place::new();
    let settings = place.settings("bundles", "");
    let (shares, _) = svcfs_store::ShareFile::open(&place.path("kb/.svc/state/shares.db")).unwrap();
    shares.write(&[]).unwrap();
    assert_eq!(place.run(&settings).unwrap().sent_refs, 1);
    assert_eq!(place.run(&settings).unwrap().sent_refs, 0);
    place.commit("kb", "b.md", "# B\n");
    add_draft(&place);
    place.run(&settings).unwrap();
    // Only a ref moves: no new object.
    place.git("kb", &["branch", "-f", "draft/11", "HEAD"]);
    place.run(&settings).unwrap();
    let bundles =
        |place: &Place| place.names("bundles").into_iter().filter(|name| name.ends_with(".bundle")).collect::<Vec<_>>();
    assert_eq!(bundles(&place), ["000001.bundle", "000002.bundle"]);
    place.drill(&settings);
    let report = restore(&place.at("bundles"), &place.path("new"), (None, CONTEXT)).unwrap();
    assert_eq!((report.branch.as_str(), report.files), ("main", 3));
    assert_eq!(report.state, ["drafts.db", "shares.db"]);
    assert_eq!(
        place.git("new", &["rev-parse", "draft/11", "main"]),
        place.git("kb", &["rev-parse", "draft/11", "main"])
    );

    // A lost bundle: the next backup is a full one. A damaged one is found by a drill.
    fs::remove_file(place.path("bundles/000002.bundle")).unwrap();
    let lost = restore(&place.at("bundles"), &place.path("lost"), (None, CONTEXT)).unwrap_err();
    assert!(lost.to_string().contains("000002.bundle") && !place.path("lost").exists(), "{lost}");
    place.run(&settings).unwrap();
    place.drill(&settings);
    let newest = bundles(&place).pop().unwrap();
    let mut bytes = fs::read(place.path(&format!("bundles/{newest}"))).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(place.path(&format!("bundles/{newest}")), bytes).unwrap();
    let damaged = drill(&place.path("kb"), &settings, CONTEXT).unwrap_err();
    assert!(damaged.to_string().contains("is damaged"), "{damaged}");
    let other = Place::new();
    other.commit("kb", "z.md", "z\n");
    let text = format!("[backup]\nremote = \"{}\"", other.at("bundles"));
    let settings = Settings::resolve(Config::parse(&text, &|_| None), CliOverrides::default()).unwrap().backup;
    other.run(&settings).unwrap();
    let refused = place.run(&settings).unwrap_err();
    assert!(refused.to_string().contains("another knowledge base"), "{refused}");
}

#[test]
fn an_interrupted_backup_is_none() {
    let place = Place::new();
    let settings = place.settings("bundles", "");
    let stopped = RunContext { is_stopped: &|| true, ..CONTEXT };
    let ended = run(&place.path("kb"), (&settings, EmptyRemote::Refuse), (stopped, Duration::ZERO)).unwrap_err();
    assert!(ended.to_string().contains("interrupted"), "{ended}");
    // What a killed process leaves.
    place.write("bundles/.new-xyz.bundle", "half");
    place.write("bundles/000001.bundle", "half");
    assert!(restore(&place.at("bundles"), &place.path("new"), (None, CONTEXT)).is_err());
    place.run(&settings).unwrap();
    place.drill(&settings);
}

#[test]
fn two_processes_do_not_back_up_at_once() {
    let place = Place::new();
    let settings = place.settings("bundles", "");
    let lock = crate::record::BackupLock::acquire(&place.path("kb"), Duration::ZERO, CONTEXT).unwrap();
    let refused = run(&place.path("kb"), (&settings, EmptyRemote::Refuse), (CONTEXT, Duration::ZERO)).unwrap_err();
    assert!(refused.to_string().contains("another process"), "{refused}");
    drop(lock);
    place.run(&settings).unwrap();
}

#[test]
fn a_backup_cannot_reach_outside_the_root_that_it_becomes() {
    let place = Place::new();
    fs::create_dir_all(place.path("victim/backup")).unwrap();
    place.git(".", &["init", "-q", "-b", "main", "hostile"]);
    fs::create_dir(place.path("hostile/.svc")).unwrap();
    std::os::unix::fs::symlink(place.path("victim"), place.path("hostile/.svc/state")).unwrap();
    place.commit("hostile", "a.md", "# A\n");
    let refused = restore(&place.at("hostile"), &place.path("new"), (None, CONTEXT)).unwrap_err();
    assert!(refused.to_string().contains("`.svc/state` of the backup is a link"), "{refused}");
    assert_eq!(place.names("victim"), ["backup"]);
    assert!(!place.path("new").exists());
}

#[test]
fn a_backup_that_is_none_is_refused() {
    let place = Place::new();
    for remote in ["kb", "kb/.git", "kb/.svc"] {
        let refused = place.run(&place.settings(remote, "")).unwrap_err();
        assert!(refused.is_refusal() && refused.to_string().contains("in the knowledge base itself"), "{refused}");
    }
    let settings = place.settings("remote.git", "");
    place.run(&settings).unwrap();
    place.git("kb", &["symbolic-ref", "HEAD", "refs/heads/gone"]);
    let refused = place.run(&settings).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("has no commit"), "{refused}");
    place.git("kb", &["symbolic-ref", "HEAD", "refs/heads/main"]);
    place.commit("kb", "b.md", "# B\n");
    place.git(".", &["clone", "-q", "--depth", "1", &format!("file://{}", place.at("kb")), "shallow"]);
    let run =
        run(&place.path("shallow"), (&place.settings("bundles", ""), EmptyRemote::Refuse), (CONTEXT, Duration::ZERO));
    assert!(run.unwrap_err().to_string().contains("is shallow"));
}

#[test]
fn a_drill_finds_what_the_remote_lost() {
    let place = Place::new();
    let settings = place.settings("remote.git", "");
    place.git("kb", &["branch", "notes"]);
    place.commit("kb", "b.md", "# B\n");
    place.run(&settings).unwrap();
    place.git("remote.git", &["update-ref", "-d", "refs/heads/notes"]);
    place.git("remote.git", &["update-ref", "refs/heads/main", "main~1"]);
    let report = drill(&place.path("kb"), &settings, CONTEXT).unwrap();
    assert_eq!((report.equal, report.differences.len()), (false, 2), "{report:?}");
}

#[test]
fn lost_records_bundles_and_manifests_do_not_stop_backups() {
    let place = Place::new();
    add_draft(&place);
    let settings = place.settings("remote.git", "");
    place.run(&settings).unwrap();
    // A backup that ended between the push and its record.
    let tree = place.git("kb", &["rev-parse", "HEAD^{tree}"]);
    let other = place.git("kb", &["commit-tree", "-m", "state", &tree]);
    place.git("kb", &["push", "-q", "--force", "../remote.git", &format!("{other}:refs/svcfs/state")]);
    place.run(&settings).unwrap();
    place.drill(&settings);

    let settings = place.settings("bundles", "");
    for name in ["c.md", "d.md", "e.md"] {
        place.commit("kb", name, name);
        place.run(&settings).unwrap();
    }
    fs::remove_file(place.path("bundles/000002.bundle")).unwrap();
    place.run(&settings).unwrap();
    place.drill(&settings);
    fs::remove_file(place.path("bundles/manifest.json")).unwrap();
    let first = fs::read(place.path("bundles/000001.bundle")).unwrap();
    let refused = place.run(&settings).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("--accept-empty"), "{refused}");
    place.accept_empty(&settings);
    assert_eq!(fs::read(place.path("bundles/000001.bundle")).unwrap(), first);
    place.drill(&settings);
}

#[test]
fn hostile_manifests_are_refused() {
    let place = Place::new();
    let settings = place.settings("bundles", "");
    place.run(&settings).unwrap();
    let good = fs::read_to_string(place.path("bundles/manifest.json")).unwrap();
    for (from, to) in [
        ("\"000001.bundle\"", "\"../000001.bundle\""),
        ("\"000001.bundle\"", "\"-x\""),
        ("\"refs/heads/main\": ", "\"refs/heads/../x\": "),
        ("\"version\": 1", "\"version\": 2"),
        ("{", "["),
        ("\"refs/tags/v1\": \"", "\"refs/tags/v1\": \"--"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        place.write("bundles/manifest.json", &bad);
        assert!(restore(&place.at("bundles"), &place.path("new"), (None, CONTEXT)).is_err(), "{to}");
        assert!(!Path::new(&place.at("new")).exists());
    }
}

#[test]
fn an_unmounted_disk_gets_no_new_backup() {
    let place = Place::new();
    let settings = place.settings("bundles", "");
    place.run(&settings).unwrap();
    // The mount point without its disk.
    fs::rename(place.path("bundles"), place.path("disk")).unwrap();
    fs::create_dir(place.path("bundles")).unwrap();
    for _ in 0..2 {
        let refused = place.run(&settings).unwrap_err();
        assert!(refused.is_refusal() && refused.to_string().contains("mount its disk"), "{refused}");
        assert_eq!(place.names("bundles"), [] as [&str; 0]);
        assert!(crate::BackupRecord::load(&place.path("kb"), settings.remote()).refused);
    }
    fs::remove_dir(place.path("bundles")).unwrap();
    fs::rename(place.path("disk"), place.path("bundles")).unwrap();
    place.run(&settings).unwrap();
    assert!(!crate::BackupRecord::load(&place.path("kb"), settings.remote()).refused);
}

#[test]
fn a_git_remote_that_lost_everything_gets_no_new_backup() {
    let place = Place::new();
    add_draft(&place);
    let settings = place.settings("remote.git", "");
    place.run(&settings).unwrap();
    // The mount point with a repository for another disk.
    fs::rename(place.path("remote.git"), place.path("disk")).unwrap();
    place.git(".", &["init", "-q", "--bare", "-b", "main", "remote.git"]);
    for _ in 0..2 {
        let refused = place.run(&settings).unwrap_err();
        assert!(refused.is_refusal() && refused.to_string().contains("--accept-empty"), "{refused}");
        assert_eq!(place.git("remote.git", &["for-each-ref"]), "");
    }
    place.accept_empty(&settings);
    let refs = |directory: &str| place.git(directory, &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs("remote.git"), refs("disk"), "branches of drafts, too");
    assert_eq!(place.run(&settings).unwrap().sent_refs, 0);
    // A branch that was removed there, beside others, is pushed again.
    place.git("remote.git", &["branch", "-D", "main", "draft/11"]);
    assert_eq!(place.run(&settings).unwrap().note, None);
    assert_eq!(refs("remote.git"), refs("disk"));
}

#[test]
fn the_first_commit_of_a_root_reaches_an_empty_remote() {
    for remote in ["bundles", "remote.git"] {
        let place = Place::new();
        place.git("kb", &["checkout", "-q", "--orphan", "fresh"]);
        let settings = place.settings(remote, "");
        assert_eq!(place.run(&settings).unwrap().head, None, "{remote}");
        place.commit("kb", "b.md", "# B\n");
        assert!(place.run(&settings).unwrap().sent_refs > 0, "{remote}");
    }
}

#[test]
fn an_interrupt_ends_the_backup_before_the_next_object() {
    let place = Place::new();
    let settings = place.settings("bundles", "");
    let (shares, _) = svcfs_store::ShareFile::open(&place.path("kb/.svc/state/shares.db")).unwrap();
    shares.write(&[]).unwrap();
    let phases = std::cell::RefCell::new(Vec::new());
    let on_phase = |phase: &str| phases.borrow_mut().push(phase.to_owned());
    let is_stopped = || phases.borrow().iter().any(|phase| phase == "sending");
    let context = RunContext { is_stopped: &is_stopped, on_phase: &on_phase, ..CONTEXT };
    let ended = run(&place.path("kb"), (&settings, EmptyRemote::Refuse), (context, LOCK_TIMEOUT)).unwrap_err();
    assert!(ended.to_string().contains("interrupted"), "{ended}");
    assert_eq!(phases.borrow().last().unwrap(), "sending");
    assert_eq!(place.names("bundles"), ["000001.bundle"]);
    place.run(&settings).unwrap();
    place.drill(&settings);
}

#[test]
fn a_branch_that_moved_elsewhere_does_not_stop_the_others() {
    let place = Place::new();
    let settings = place.settings("remote.git", "");
    place.git("kb", &["branch", "side"]);
    place.run(&settings).unwrap();
    let id = place.git("kb", &["commit-tree", "-m", "elsewhere", "HEAD^{tree}", "-p", "HEAD"]);
    place.git("kb", &["push", "-q", "../remote.git", &format!("{id}:refs/heads/side")]);
    place.commit("kb", "b.md", "# B\n");
    place.git("kb", &["branch", "-f", "side"]);
    place.git("kb", &["branch", "third"]);
    let outcome = place.run(&settings).unwrap();
    assert_eq!(place.git("remote.git", &["rev-parse", "side"]), id, "nothing is overwritten");
    let head = place.git("kb", &["rev-parse", "HEAD"]);
    assert_eq!(place.git("remote.git", &["rev-parse", "main", "third"]), format!("{head}\n{head}"));
    let note = outcome.note.unwrap();
    assert!(note.contains("`refs/heads/side` is not in the backup") && note.contains("rename or remove"), "{note}");
}

#[test]
fn drafts_and_webhooks_are_part_of_the_backup() {
    let place = Place::new();
    let (hooks, _) = svcfs_store::HookFile::open(&place.path("kb/.svc/state/webhooks.db")).unwrap();
    let time = svcfs_base::Timestamp::from_second(1_800_000_000).unwrap();
    let position = svcfs_store::HookPosition { seq: svcfs_base::Seq(7), part: 1 };
    let hook = svcfs_store::StoredHook {
        id: "h".to_owned(),
        url: "https://h.test/".to_owned(),
        path_glob: "**".to_owned(),
        events: Vec::new(),
        secret: "whsec_x".to_owned(),
        is_static: false,
        created_at: time,
        position,
        failing_since: None,
        disabled: None,
    };
    hooks.write(&[svcfs_store::HookWrite::Put(hook)]).unwrap();
    for remote in ["bundles", "remote.git"] {
        let settings = place.settings(remote, "");
        let is_current = || is_up_to_date(&place.path("kb"), &settings, CONTEXT);
        assert!(!is_current(), "{remote}: there is no backup");
        std::thread::park_timeout(Duration::from_millis(50));
        place.run(&settings).unwrap();
        assert!(is_current(), "{remote}");
        assert_eq!(place.run(&settings).unwrap().sent_refs, 0, "{remote}");
        place.git("kb", &["branch", "-f", &format!("draft/{}", remote.len())]);
        assert!(!is_current(), "{remote}: a draft has a new branch");
        place.run(&settings).unwrap();
        assert!(is_current(), "{remote}");
    }
    let mut stored = fs::read_dir(place.path("bundles")).unwrap().map(Result::unwrap);
    let copy = stored.find(|entry| entry.file_name().to_string_lossy().ends_with("webhooks.db")).unwrap();
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600, "it has secrets");
    add_draft(&place);
    let settings = place.settings("remote.git", "");
    assert!(!is_up_to_date(&place.path("kb"), &settings, CONTEXT), "a draft was opened");
    let report = restore(&place.at("bundles"), &place.path("new"), (None, CONTEXT)).unwrap();
    assert_eq!(report.state, ["webhooks.db"]);
    let (_, stored) = svcfs_store::HookFile::open(&place.path("new/.svc/state/webhooks.db")).unwrap();
    assert_eq!((stored.hooks[0].secret.as_str(), stored.hooks[0].position.part), ("whsec_x", 0));
    assert!(stored.hooks[0].position.seq > svcfs_base::Seq(1 << 60), "the feed of another root is read from its end");
}

#[test]
fn a_restore_that_cannot_begin_creates_nothing() {
    let place = Place::new();
    let failed = restore(&place.at("bundles"), &place.path("x/y/new"), (None, CONTEXT)).unwrap_err();
    assert!(failed.to_string().contains("has no backup"), "{failed}");
    let url = "ssh://git:s3cret@[::1]:9/x.git";
    let failed = restore(url, &place.path("x/y/new"), (None, CONTEXT)).unwrap_err();
    assert!(!failed.to_string().contains("s3cret"), "{failed}");
    assert!(!place.path("x").exists());
}
