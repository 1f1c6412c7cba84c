//! Ordinary programs on the mount.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::mounted::{Mounted, has};

const PAGES: &str = "for n in 1 2 3; do mkdir -p ../src/d$n; echo \"# page $n\" > ../src/d$n/p$n.md; done; ln -s d1/p1.md ../src/l; chmod +x ../src/d2/p2.md";

#[test]
fn the_shell_reads_writes_and_appends() {
    let Some(space) = Mounted::new() else { return };
    let printed = space.shell("echo one > a.md; echo two >> a.md; cat a.md; ls; wc -c < a.md");
    assert_eq!(printed, "one\ntwo\na.md\n8\n");
    assert_eq!(space.authors("a.md", 2), ["root", "root"]);
}

#[test]
fn a_tree_copied_in_is_the_tree_that_was_copied() {
    let Some(space) = Mounted::new() else { return };
    // Older than a second: rsync takes what is made in the same second for the same, and sets no
    // times.
    let old = "find ../src -exec touch -h -d @1000000000 {} +";
    space.shell(&format!(
        "{PAGES}; {old}; cp -r ../src copy; diff -r ../src copy; cp -a ../src exact; diff -r ../src exact"
    ));
    assert_eq!(space.shell("readlink exact/l; stat -c %A exact/d2/p2.md"), "d1/p1.md\n-rwxr-xr-x\n");
    if has("rsync") {
        space.shell("rsync -a ../src/ synced/; diff -r ../src synced");
        assert_eq!(space.shell("rsync -ain ../src/ synced/"), "", "a second run finds nothing to do");
    }
}

/// Shows: MNT-6
#[test]
fn sed_in_place_is_one_version() {
    let Some(space) = Mounted::new() else { return };
    space.shell("echo hello > a.md");
    assert_eq!(space.authors("a.md", 1).len(), 1);
    assert_eq!(space.shell("sed -i s/hello/world/ a.md; cat a.md; ls"), "world\na.md\n");
    assert_eq!(space.authors("a.md", 2).len(), 2);
}

#[test]
fn a_save_of_vim_is_one_version() {
    let Some(space) = Mounted::new() else { return };
    if !has("vim") {
        return;
    }
    space.shell("echo hello > a.md");
    assert_eq!(space.authors("a.md", 1).len(), 1);
    for (old, new) in [("hello", "world"), ("world", "again")] {
        space.shell(&format!("vim -u NONE -es -c '%s/{old}/{new}/' -c wq a.md </dev/null"));
    }
    assert_eq!(space.shell("cat a.md; ls"), "again\na.md\n");
    assert_eq!(space.authors("a.md", 3).len(), 3);
}

#[test]
fn git_clones_into_the_mount_and_works_there() {
    let Some(space) = Mounted::new() else { return };
    let identity = "-c user.name=n -c user.email=e@e";
    space.shell(&format!("{PAGES}; cd ../src; git init -q; git add .; git {identity} commit -qm first"));
    space.shell("git clone -q ../src clone");
    let work = format!(
        "cd clone; echo more >> d1/p1.md; git {identity} commit -qam second; git gc -q; git fsck --strict; git status -s; git log --format=%s"
    );
    assert_eq!(space.shell(&work), "second\nfirst\n");
}

#[test]
fn another_user_works_under_its_own_name_and_permissions() {
    let Some(space) = Mounted::new() else { return };
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can act as another user");
        return;
    }
    fs::write(space.at("theirs.md"), "root's").unwrap();
    space.shell("mkdir shared; chmod 777 shared");
    let nobody = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-ec", command]).uid(65534).gid(65534).current_dir(space.at("")).output().unwrap()
    };
    let made =
        nobody("echo mine > shared/mine.md; mkdir shared/dir; ln -s mine.md shared/link; stat -c %u:%g shared/*");
    assert_eq!(String::from_utf8_lossy(&made.stdout), "65534:65534\n65534:65534\n65534:65534\n", "{made:?}");
    assert_eq!(space.authors("shared/mine.md", 1)[0], "nobody");
    let refused = nobody("echo x >> theirs.md");
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("Permission denied"));
    assert_eq!(fs::read_to_string(space.at("theirs.md")).unwrap(), "root's");
}
