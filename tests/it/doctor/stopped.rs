//! Roots that nobody serves, damaged in every way that is known.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::process::Command;

use svcfs_base::ETag;

use super::{Patient, Told, rename};
use crate::disk::{must_put, page};
use crate::space::{can_mount, git, leftovers};

/// A damage, the check that finds it, and how it is told.
type Damage = (&'static str, fn(&Patient), &'static str, &'static str);

/// Damages that leave every page and version as it was once they are mended.
const DAMAGES: &[Damage] = &[
    ("a stale index.lock", |patient| drop(patient.leave_lock(".git/index.lock")), "locks", "problem"),
    ("a stale lock on the branch", |patient| drop(patient.leave_lock(".git/refs/heads/main.lock")), "locks", "problem"),
    ("a stale lock on HEAD", |patient| drop(patient.leave_lock(".git/HEAD.lock")), "locks", "problem"),
    ("HEAD without sense", |patient| fs::write(patient.at(".git/HEAD"), "\0\0\0\0").unwrap(), "repository", "problem"),
    ("no HEAD", |patient| fs::remove_file(patient.at(".git/HEAD")).unwrap(), "repository", "problem"),
    (
        "a branch without sense",
        |patient| fs::write(patient.at(".git/refs/heads/main"), "?").unwrap(),
        "repository",
        "problem",
    ),
    (
        "a branch that names a lost commit",
        |patient| fs::write(patient.at(".git/refs/heads/main"), format!("{}\n", "12".repeat(20))).unwrap(),
        "objects",
        "problem",
    ),
    (
        "a pack without its index",
        |patient| {
            let mut pack = Command::new("git");
            pack.args(["-c", "safe.directory=*", "repack", "-adq"]).current_dir(patient.root());
            assert!(pack.status().unwrap().success());
            patient.packs().iter().for_each(|pack| fs::remove_file(pack.with_extension("idx")).unwrap());
        },
        "packs",
        "problem",
    ),
    ("a lost object", lose_an_object, "objects", "problem"),
    (
        "a damaged index.db",
        |patient| fs::write(patient.at(".svc/state/index.db"), "rubbish").unwrap(),
        "search-index",
        "problem",
    ),
    ("no index.db", |patient| fs::remove_file(patient.at(".svc/state/index.db")).unwrap(), "search-index", "warning"),
    ("a damaged log.db", |patient| fs::write(patient.at(".svc/state/log.db"), "rubbish").unwrap(), "log", "problem"),
    ("no log.db", |patient| fs::remove_file(patient.at(".svc/state/log.db")).unwrap(), "log", "warning"),
    ("a damaged .git/index", |patient| fs::write(patient.at(".git/index"), "rubbish").unwrap(), "git-index", "problem"),
    ("no .git/index", |patient| fs::remove_file(patient.at(".git/index")).unwrap(), "git-index", "warning"),
    ("unfinished files", leave_unfinished_files, "leftovers", "warning"),
    ("no state", |patient| fs::remove_dir_all(patient.at(".svc/state")).unwrap(), "log", "warning"),
];

/// The page's present content, which the tree has too.
fn lose_an_object(patient: &Patient) {
    patient.unpack();
    let name = ETag::from_content(b"# Kept\n\notter\n").to_string();
    fs::remove_file(patient.at(".git/objects").join(&name[..2]).join(&name[2..])).unwrap();
}

fn leave_unfinished_files(patient: &Patient) {
    for path in [".git/objects/pack/.svcfs_7", ".svc/state/tmp/3", ".svc/state/spool/900-0"] {
        File::create(patient.at(path)).unwrap().write_all(b"half of").unwrap();
    }
}

/// Shows: FAIL-6
#[test]
fn every_damage_is_named_and_repaired_without_losing_versions() {
    let patient = Patient::new();
    patient.doctor(&[]).must_be_silent("nothing");
    let before = patient.whole();
    assert_eq!(before.versions.len(), 3);
    for (what, damage, check, level) in DAMAGES {
        damage(&patient);
        let told = patient.doctor(&[]);
        let finding = told.of(check);
        assert_eq!(finding["level"], *level, "{what}: {finding}");
        assert!(finding["fix"].is_string(), "{what}: {finding}");
        assert_eq!(told.code, Some(i32::from(*level == "problem")), "{what}: {}", told.complaint);
        assert!(*level != "problem" || told.complaint.contains("--fix"), "{what}: {}", told.complaint);
        let mended = patient.doctor(&["--fix"]);
        mended.must_be_silent(what);
        assert!(!mended.answer["repaired"].is_null(), "{what}");
        assert_eq!(patient.whole(), before, "{what}");
        patient.doctor(&[]).must_be_silent(what);
    }
    let (server, client) = patient.serve();
    must_put(&client, "after.md", "# After\n");
    assert_eq!(client.found("otter"), ["kept.md"]);
    server.stop();
    leftovers::check_root(&patient.root(), &patient.aside("clone"));
    patient.doctor(&[]).must_be_silent("all of it");
}

/// Shows: FAIL-6
#[test]
fn looking_changes_nothing() {
    let patient = Patient::new();
    fs::write(patient.at("kept.md"), "# Kept\n\nedited\n").unwrap();
    fs::write(patient.at("new.md"), "# New\n").unwrap();
    let head = git::head(&patient.root());
    let told = patient.doctor(&[]);
    assert_eq!(told.of("tree")["paths"], serde_json::json!(["kept.md (edited or removed)", "new.md (new)"]));
    assert_eq!(told.code, Some(0), "an edit is no damage");
    assert_eq!(git::head(&patient.root()), head);
    assert_eq!(fs::read_to_string(patient.at("kept.md")).unwrap(), "# Kept\n\nedited\n");
}

/// Shows: FAIL-6
#[test]
fn without_git_the_doctor_compares_the_tree_with_the_log() {
    for strategy in ["cow", "none"] {
        let patient = Patient::keeping(&format!("versioning.strategy = \"{strategy}\"\n"));
        // A repository of somebody else's.
        git::git(&patient.root(), &["init", "-q"]);
        patient.doctor(&[]).must_be_silent(strategy);
        let modified = patient.at("kept.md").metadata().unwrap().modified().unwrap();
        fs::write(patient.at("kept.md"), "# Kept\n\nadder\n").unwrap();
        File::options().write(true).open(patient.at("kept.md")).unwrap().set_modified(modified).unwrap();
        fs::remove_file(patient.at("folder/other.md")).unwrap();
        let told = patient.doctor(&[]);
        let paths = ["folder/other.md (edited or removed)", "kept.md (edited or removed)"];
        assert_eq!(told.of("tree")["paths"], serde_json::json!(paths), "{strategy}");
        let mended = patient.doctor(&["--fix"]);
        mended.must_be_silent(strategy);
        assert!(mended.answer["repaired"].to_string().contains("differed from the log"), "{}", mended.answer);
        patient.doctor(&[]).must_be_silent(strategy);
        fs::write(patient.at(".svc/state/log.db"), "rubbish").unwrap();
        let told = patient.doctor(&[]);
        assert!(!told.of("log")["fix"].as_str().unwrap().contains("git"), "{}", told.of("log"));
        let mended = patient.doctor(&["--fix"]);
        mended.must_be_silent(strategy);
        assert!(mended.answer["repaired"].to_string().contains("from the present files"), "{}", mended.answer);
        let (server, client) = patient.serve();
        assert_eq!(page(&client, "kept.md").as_deref(), Some("# Kept\n\nadder\n"));
        server.stop();
    }
}

#[test]
fn an_edit_that_size_and_time_hide_is_found_and_recorded() {
    let patient = Patient::new();
    let file = patient.at("kept.md");
    let modified = file.metadata().unwrap().modified().unwrap();
    fs::write(&file, "# Kept\n\nadder\n").unwrap();
    File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    assert_eq!(patient.doctor(&[]).of("tree")["level"], "warning");
    patient.doctor(&["--fix"]).must_be_silent("a hidden edit");
    let text = |commit: &str| git::git(&patient.root(), &["show", &format!("{commit}:kept.md")]);
    assert_eq!((text("HEAD~1"), text("HEAD")), ("# Kept\n\notter\n".to_owned(), "# Kept\n\nadder\n".to_owned()));
}

/// Shows: FAIL-4
#[test]
fn a_missing_history_is_reported_and_never_replaced() {
    let patient = Patient::new();
    let before = patient.whole();
    rename(&patient.at(".git"), &patient.aside("git"));
    let told = patient.doctor(&["--fix"]);
    assert_eq!(told.code, Some(1));
    let message = told.of("repository")["message"].as_str().unwrap();
    assert!(message.contains("restore it from a backup or a clone"), "{message}");
    let output = patient.run(&["serve", "--port", "0"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is missing: restore it"), "{said}");
    assert!(!patient.at(".git").exists(), "another history stands in the way of the lost one");
    rename(&patient.aside("git"), &patient.at(".git"));
    patient.doctor(&[]).must_be_silent("the history was put back");
    assert_eq!(patient.whole(), before);
}

#[test]
fn a_truncated_pack_is_reported_with_advice_and_can_be_restored() {
    let patient = Patient::new();
    let before = patient.whole();
    let pack = patient.packs().into_iter().min().unwrap();
    fs::copy(&pack, patient.aside("whole.pack")).unwrap();
    let cut = pack.metadata().unwrap().len() / 2;
    File::options().write(true).open(&pack).unwrap().set_len(cut).unwrap();
    for more in [&[][..], &["--fix"]] {
        let told = patient.doctor(more);
        assert_eq!((told.code, &told.of("packs")["level"]), (Some(1), &"problem".into()), "{}", told.answer);
        assert_eq!(told.of("packs")["paths"][0], pack.to_str().unwrap());
    }
    fs::remove_file(&pack).unwrap();
    fs::copy(patient.aside("whole.pack"), &pack).unwrap();
    patient.doctor(&["--fix"]).must_be_silent("the pack was put back");
    assert_eq!(patient.whole().versions, before.versions);
}

/// What is said of versions beside that git has those of the log.
fn said_of_unknown(told: &Told) -> Vec<(&str, bool)> {
    let findings = told.trouble().into_iter().inspect(|finding| assert_eq!(finding["check"], "versions", "{finding}"));
    findings.map(|finding| (finding["message"].as_str().unwrap(), finding["fix"].is_string())).collect()
}

#[test]
fn commits_unknown_to_the_log_are_reported_and_newer_recorded() {
    let patient = Patient::new();
    let ann = ["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "--allow-empty", "-m"];
    git::git(&patient.root(), &[&ann[..], &["by hand"]].concat());
    git::git(&patient.root(), &[&ann[..], &["and again"]].concat());
    let told = patient.doctor(&[]);
    assert_eq!(said_of_unknown(&told), [("the log does not know 2 newer commits yet", true)]);
    patient.doctor(&["--fix"]).must_be_silent("commits by hand");
}

#[test]
fn commits_fetched_below_the_log_are_reported_with_advice() {
    let patient = Patient::new();
    let (origin, clone) = (patient.aside("origin"), patient.root());
    rename(&clone, &origin);
    let from = format!("file://{}", origin.display());
    git::git(&origin, &["clone", "-q", "--depth", "1", &from, clone.to_str().unwrap()]);
    patient.serve().0.stop();
    patient.doctor(&[]).must_be_silent("a clone without its past");
    git::git(&clone, &["fetch", "-q", "--unshallow"]);
    let told = patient.doctor(&["--fix"]);
    let [(said, is_mended)] = said_of_unknown(&told)[..] else { panic!("{}", told.answer) };
    assert!(said.starts_with("the log does not know 4 older commits in git") && !is_mended, "{said}");
    fs::remove_file(patient.at(".svc/state/log.db")).unwrap();
    patient.serve().0.stop();
    patient.doctor(&[]).must_be_silent("another log");
    assert_eq!(patient.whole().versions.len(), 3);
}

#[test]
fn settings_that_are_wrong_are_a_persons_to_correct() {
    let patient = Patient::new();
    let config = patient.at(".svc/config.toml");
    let good = fs::read(&config).ok();
    fs::create_dir_all(patient.at(".svc")).unwrap();
    fs::write(&config, "[server]\nprot = 1\n").unwrap();
    let told = patient.doctor(&["--fix"]);
    assert_eq!(told.code, Some(1));
    assert!(told.of("settings")["message"].as_str().unwrap().contains("did you mean `server.port`"), "{}", told.answer);
    match good {
        Some(good) => fs::write(&config, good).unwrap(),
        None => fs::remove_file(&config).unwrap(),
    }
    patient.doctor(&["--fix"]).must_be_silent("the settings were corrected");
}

#[test]
fn files_of_the_root_user_are_given_back_to_whose_the_root_is() {
    let Some(nobody) = nix::unistd::User::from_name("nobody").unwrap().filter(|_| nix::unistd::geteuid().is_root())
    else {
        println!("skipped: only root can give files away");
        return;
    };
    let patient = Patient::new();
    assert!(Command::new("chown").args(["-R", "nobody"]).arg(patient.root()).status().unwrap().success());
    chown(patient.at(".git/HEAD"), Some(0), None).unwrap();
    chown(patient.at(".svc/state/log.db"), Some(0), None).unwrap();
    let told = patient.doctor(&[]);
    assert_eq!(told.of("owner")["paths"].as_array().unwrap().len(), 2, "{}", told.answer);
    patient.doctor(&["--fix"]).must_be_silent("files of the superuser");
    assert_eq!(patient.at(".git/HEAD").metadata().unwrap().uid(), nobody.uid.as_raw());
}

#[test]
fn leftovers_of_a_killed_server_are_completed_and_unmounted() {
    let patient = Patient::new();
    let mountpoint = patient.aside("mnt");
    let mut server = patient.binary.serve(&patient.root(), can_mount().then_some(&*mountpoint));
    must_put(&crate::space::client::Client::new(server.address()), "late.md", "# Late\n");
    server.kill();
    let told = patient.doctor(&[]);
    assert_eq!(told.of("log")["level"], "warning", "{}", told.answer);
    if can_mount() {
        assert_eq!(told.of("mount")["paths"][0], mountpoint.to_str().unwrap(), "{}", told.answer);
    }
    patient.doctor(&["--fix"]).must_be_silent("a killed server");
    assert!(fs::read_dir(&mountpoint).unwrap().next().is_none(), "the mount is taken away");
    let (server, client) = patient.serve();
    assert_eq!(page(&client, "late.md").as_deref(), Some("# Late\n"));
    server.stop();
}

#[test]
fn what_is_said_to_people_is_one_line_a_check_with_advice_below() {
    let patient = Patient::new();
    let lock = patient.leave_lock(".git/index.lock");
    let output = patient.run(&["doctor"]);
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("PROBLEM   locks ")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(lines[at + 1].trim(), format!("- {}", lock.display()));
    assert_eq!(lines[at + 2].trim(), "--fix removes them");
    assert_eq!(lines.iter().filter(|line| line.starts_with("ok ")).count(), lines.len() - 3, "{said}");
    assert!(!said.contains('\u{1b}'), "no terminal is attached: {said:?}");
}
