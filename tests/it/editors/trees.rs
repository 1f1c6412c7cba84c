//! Programs that keep whole trees: archives, repositories, databases.

use super::Desk;

/// A folder beside the mount with pages, a program and a link. The program's name has an extension:
/// what rsync writes beside one without is known for its own in all but one of 180 times.
const FOLDER: &str = "mkdir -p ../aside/deep && printf '# One\\n' > ../aside/one.md && printf '# Deep\\n' > ../aside/deep/d.md \
    && printf '#!/bin/sh\\necho ran\\n' > ../aside/run.sh && chmod 755 ../aside/run.sh && ln -s one.md ../aside/link \
    && touch -d '2001-02-03 04:05:06.789' ../aside/one.md";
/// What `stat` must say alike of the folder and of its copy.
const LOOK: &str = "find . -type f -exec stat -c '%n %s %a %y' {} + | sort; readlink link; ./run.sh";

fn is_the_same_at(desk: &Desk, place: &str) {
    let look = |place: &str| desk.space.shell(&format!("cd {place} && {LOOK}"));
    assert_eq!(look(place), look("../aside"));
    assert_eq!(desk.space.shell(&format!("diff -r {place} ../aside")), "");
}

fn paths(versions: &[Vec<(String, String)>]) -> Vec<&str> {
    let mut paths: Vec<_> = versions.iter().flatten().map(|(_, path)| path.as_str()).collect();
    paths.sort_unstable();
    paths
}

/// Shows: MNT-7
#[test]
fn copied_archived_and_synced_trees_preserve_metadata() {
    let Some(desk) = Desk::with("rsync", &[]) else { return };
    desk.space.shell(FOLDER);
    for (place, command) in [
        ("copy", "cp -a ../aside copy"),
        ("tar", "tar -C ../aside --format=posix -cf ../a.tar . && mkdir tar && tar -C tar -xf ../a.tar"),
        ("sync", "rsync -a ../aside/ sync/"),
        ("inplace", "rsync -a --inplace ../aside/ inplace/"),
    ] {
        let versions = desk.versions_of(command);
        let mut expected: Vec<_> =
            ["deep/d.md", "link", "one.md", "run.sh"].map(|name| format!("{place}/{name}")).into();
        if place == "inplace" {
            // Made executable once it is there, which is a version of its own.
            expected.push("inplace/run.sh".to_owned());
        }
        assert_eq!(paths(&versions), expected, "{command}");
        is_the_same_at(&desk, place);
    }
    let versions = desk.versions_of("printf '# Two\\n' > ../aside/one.md && rsync -a --inplace ../aside/ inplace/");
    assert_eq!(paths(&versions), ["inplace/one.md"]);
    is_the_same_at(&desk, "inplace");
}

/// Shows: MNT-8
#[test]
fn a_checkout_in_the_mount_touches_only_what_differs() {
    let Some(desk) = Desk::with("git", &[]) else { return };
    let git = "git -C clone -c safe.directory='*' -c user.name=a -c user.email=a@b";
    desk.space.shell(&format!(
        "{FOLDER} && cp -a ../aside clone && {git} init -q -b one && {git} add . && {git} commit -qm one \
        && {git} switch -qc two && printf '# Changed\\n' > clone/one.md && rm clone/run.sh && printf '# New\\n' > clone/new.md \
        && {git} add -A && {git} commit -qm two"
    ));
    let versions = desk.versions_of(&format!("{git} switch -q one"));
    // git takes a file away before it writes it anew.
    assert_eq!(paths(&versions), ["clone/new.md", "clone/one.md", "clone/one.md", "clone/run.sh"]);
    assert_eq!(desk.space.shell(&format!("{git} status --porcelain && {git} fsck --strict 2>&1")), "");
    assert_eq!(desk.space.text("clone/one.md"), "# One\n");
    let versions = desk.versions_of(&format!("{git} switch -q two"));
    assert_eq!(paths(&versions), ["clone/new.md", "clone/one.md", "clone/one.md", "clone/run.sh"]);
    assert_eq!(desk.space.shell(&format!("{git} status --porcelain")), "");
}

/// Shows: MNT-8
#[test]
fn a_crate_built_in_the_tree_is_not_rebuilt_without_changes() {
    let Some(desk) = Desk::with("cc", &[]) else { return };
    // The compiler beside this cargo: rustup's stand-in for it would look for the toolchain in the
    // home of the desk, and load one.
    let cargo = std::path::Path::new(env!("CARGO"));
    let build = format!(
        "CARGO_HOME=../../aside RUSTC='{}' CARGO_TARGET_DIR=target '{}' build --offline 2>&1",
        cargo.with_file_name("rustc").display(),
        cargo.display(),
    );
    let versions = desk.versions_of(&format!(
        "mkdir -p crate/src && cd crate && printf '/target\\n' > .gitignore \
         && printf '[package]\\nname = \"small\"\\nedition = \"2024\"\\n' > Cargo.toml \
         && printf 'fn main() {{ println!(\"ran\"); }}\\n' > src/main.rs && {build}"
    ));
    // Ignored files are versioned too when they are written through a protocol; cargo creates its
    // folder under another name.
    let versions = paths(&versions).into_iter().filter(|path| !path.starts_with("crate/target")).collect::<Vec<_>>();
    assert_eq!(versions, ["crate/.gitignore", "crate/Cargo.lock", "crate/Cargo.toml", "crate/src/main.rs"]);
    assert_eq!(desk.space.shell("crate/target/debug/small"), "ran\n");
    let again = desk.space.shell(&format!("cd crate && {build}"));
    assert!(!again.contains("Compiling"), "{again}");
    desk.space.shell("sed -i s/ran/ran_again/ crate/src/main.rs");
    let again = desk.space.shell(&format!("cd crate && {build}"));
    assert!(again.contains("Compiling small"), "{again}");
    assert_eq!(desk.space.shell("crate/target/debug/small"), "ran_again\n");
}

/// Shows: MNT-8
#[test]
fn an_sqlite_database_in_the_tree_works_in_every_journal_mode() {
    let Some(desk) = Desk::with("sqlite3", &[]) else { return };
    for mode in ["delete", "truncate", "persist", "memory"] {
        let told = desk.space.shell(&format!(
            "sqlite3 {mode}.db 'pragma journal_mode={mode}; create table t(n);' \
             'insert into t with recursive c(n) as (select 1 union all select n + 1 from c where n < 5000) select n from c;' \
             'begin; delete from t; rollback; pragma integrity_check; select count(*), sum(n) from t;'"
        ));
        assert_eq!(told, format!("{mode}\nok\n5000|12502500\n"));
        // What the newest version holds is a database, too.
        desk.space.settle();
        let root = desk.space.root();
        let told = desk.space.shell(&format!("sqlite3 '{}/{mode}.db' 'select count(*) from t;'", root.display()));
        assert_eq!(told, "5000\n");
    }
}
