//! Programs that move files about.

use std::collections::BTreeSet;

use super::Desk;

/// Makes a folder of pages beside the mount; the path of it.
const MAKE_FOLDER: &str = "mkdir -p ../aside/deep && for n in 1 2 3; do printf '# Page %s\\n' $n > ../aside/p$n.md; done \
    && printf '# Deep\\n' > ../aside/deep/d.md";

/// Of versions that touch one file each: the files.
fn each_once(versions: &[Vec<(String, String)>]) -> BTreeSet<&str> {
    let files: Vec<&str> = versions.iter().flatten().map(|(_, path)| path.as_str()).collect();
    assert!(versions.iter().all(|files| files.len() == 1), "{versions:?}");
    let distinct: BTreeSet<&str> = files.iter().copied().collect();
    assert_eq!(distinct.len(), files.len(), "a file has several versions: {versions:?}");
    distinct
}

#[test]
fn a_copied_folder_is_one_version_for_each_file() {
    let Some(desk) = Desk::with("cp", &[]) else { return };
    let versions = desk.versions_of(&format!("{MAKE_FOLDER} && cp -r ../aside copy"));
    assert_eq!(each_once(&versions), BTreeSet::from(["copy/deep/d.md", "copy/p1.md", "copy/p2.md", "copy/p3.md"]));
    assert_eq!(desk.versions_of("cp -r ../aside/. copy"), [] as [Vec<_>; 0], "the same again");
    desk.saves("cp -p copy/p1.md copy/p2.md", "copy/p2.md");
    assert_eq!(desk.space.text("copy/p2.md"), "# Page 1\n");
}

#[test]
fn rsync_makes_one_version_for_each_file_that_differs() {
    let Some(desk) = Desk::with("rsync", &[]) else { return };
    let versions = desk.versions_of(&format!("{MAKE_FOLDER} && rsync -a ../aside/ copy/"));
    assert_eq!(each_once(&versions), BTreeSet::from(["copy/deep/d.md", "copy/p1.md", "copy/p2.md", "copy/p3.md"]));
    assert_eq!(desk.versions_of("rsync -a ../aside/ copy/"), [] as [Vec<_>; 0], "the same again");
    assert_eq!(desk.space.shell("rsync -ain ../aside/ copy/"), "", "rsync finds times and sizes as it left them");
    desk.saves("echo more >> ../aside/p2.md && rsync -a ../aside/ copy/", "copy/p2.md");
    let versions = desk.versions_of("rm ../aside/p3.md && rsync -a --delete ../aside/ copy/");
    assert_eq!(versions, [[("D".to_owned(), "copy/p3.md".to_owned())]]);
}

#[test]
fn a_cloned_repository_works_and_its_git_dir_is_not_versioned() {
    let Some(desk) = Desk::with("git", &[]) else { return };
    let origin = "git init -q ../origin && cp -r ../aside/. ../origin && cd ../origin && git add . \
        && git -c user.name=a -c user.email=a@b commit -qm one && cd - > /dev/null";
    let versions = desk.versions_of(&format!("{MAKE_FOLDER} && {origin} && git clone -q ../origin clone"));
    assert_eq!(each_once(&versions), BTreeSet::from(["clone/deep/d.md", "clone/p1.md", "clone/p2.md", "clone/p3.md"]));
    let git = "git -c safe.directory='*' -C clone";
    assert_eq!(desk.space.shell(&format!("{git} status --porcelain && {git} fsck --strict 2>&1")), "");
    desk.saves("echo more >> clone/p1.md", "clone/p1.md");
    assert_eq!(desk.space.shell(&format!("{git} status --porcelain")), " M clone/p1.md\n".replace("clone/", ""));
}

#[test]
fn a_moved_page_is_one_version_and_a_moved_folder_is_one() {
    let Some(desk) =
        Desk::with("mv", &[("a.md", "# A\n"), ("b.md", "# B\n"), ("d/c.md", "# C\n"), ("d/e.md", "# E\n")])
    else {
        return;
    };
    let change = |what: &str, path: &str| (what.to_owned(), path.to_owned());
    assert_eq!(desk.versions_of("mv a.md z.md"), [[change("D", "a.md"), change("A", "z.md")]]);
    assert_eq!(desk.versions_of("mv z.md b.md"), [[change("M", "b.md"), change("D", "z.md")]]);
    let moved = desk.versions_of("mv d moved");
    let expected = [change("D", "d/c.md"), change("D", "d/e.md"), change("A", "moved/c.md"), change("A", "moved/e.md")];
    assert_eq!(moved, [expected]);
    assert_eq!(desk.space.client().found("C"), ["moved/c.md"]);
}

#[test]
fn touch_makes_a_page_and_no_version_of_one_that_is_there() {
    let Some(desk) = Desk::with("touch", &[("a.md", "# A\n")]) else { return };
    assert_eq!(desk.versions_of("touch a.md"), [] as [Vec<_>; 0]);
    desk.saves("touch new.md", "new.md");
    assert_eq!(desk.space.text("new.md"), "");
}

#[test]
fn removed_files_and_folders_are_one_version_for_each_file() {
    let Some(desk) = Desk::with("rm", &[("a.md", "# A\n"), ("d/c.md", "# C\n"), ("d/e.md", "# E\n")]) else { return };
    desk.saves("rm a.md", "a.md");
    let versions = desk.versions_of("rm -r d");
    assert_eq!(each_once(&versions), BTreeSet::from(["d/c.md", "d/e.md"]));
    assert_eq!(desk.space.shell("ls"), "");
}
