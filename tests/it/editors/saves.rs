//! Editors, and what writes like one.

use std::process::Command;

use super::Desk;
use super::terminal::typed;

const PAGE: (&str, &str) = ("notes/page.md", "# Page\n\none\n");

/// vim without the settings of who runs the tests.
fn vim(settings: &str, change: &str) -> String {
    format!("vim -u NONE -i NONE -N -es -c 'set {settings}' -c '{change}' -c 'wq' notes/page.md")
}

#[test]
fn a_save_with_vim_is_one_version() {
    let Some(desk) = Desk::with("vim", &[PAGE]) else { return };
    desk.saves(&vim("noswapfile", "%s/one/two/"), "notes/page.md");
    assert_eq!(desk.space.text("notes/page.md"), "# Page\n\ntwo\n");
    desk.saves(&vim("swapfile directory=.", "%s/two/three/"), "notes/page.md");
    assert_eq!(desk.space.text("notes/page.md"), "# Page\n\nthree\n");
}

#[test]
fn a_save_with_vim_that_keeps_a_backup_is_one_version() {
    let Some(desk) = Desk::with("vim", &[PAGE]) else { return };
    for (round, copy) in ["no", "yes", "auto"].iter().enumerate() {
        let settings = format!("backup writebackup backupskip= backupdir=. swapfile directory=. backupcopy={copy}");
        desk.saves(&vim(&settings, &format!("normal Goround {round}")), "notes/page.md");
        assert!(desk.space.text("notes/page.md").ends_with(&format!("round {round}\n")), "backupcopy={copy}");
        assert_eq!(desk.space.shell("ls -A notes"), "page.md\npage.md~\n", "backupcopy={copy}");
    }
    assert!(!desk.space.story().log.iter().any(|commit| commit.files.iter().any(|(what, _)| what == "D")));
}

#[test]
fn several_saves_in_one_vim_are_several_versions() {
    let Some(desk) = Desk::with("vim", &[PAGE]) else { return };
    let command = "vim -u NONE -i NONE -N -es -c 'set backup writebackup backupskip= backupdir=.' \
        -c 'normal Goa' -c 'w' -c 'normal Gob' -c 'w' -c 'normal Goc' -c 'wq' notes/page.md";
    let versions = desk.versions_of(command);
    assert_eq!(versions.len(), 3, "{versions:?}");
    assert_eq!(desk.space.text("notes/page.md"), "# Page\n\none\na\nb\nc\n");
}

#[test]
fn a_page_that_vim_makes_is_one_version() {
    let Some(desk) = Desk::with("vim", &[PAGE]) else { return };
    desk.saves("vim -u NONE -i NONE -N -es -c 'normal i# New' -c 'wq' new.md", "new.md");
    assert_eq!(desk.space.text("new.md"), "# New\n");
}

#[test]
fn a_save_with_nano_is_one_version() {
    let Some(desk) = Desk::with("nano", &[PAGE]) else { return };
    let versions = desk.versions_while(|| {
        let mut nano = Command::new("nano");
        nano.args(["--ignorercfiles", "notes/page.md"]).current_dir(desk.space.mountpoint());
        // Once it shows the page: a line at the top, write out (^O) under the offered name, leave
        // (^X).
        typed(&mut nano, "one", "typed in nano\r\u{f}\r\u{18}");
    });
    assert_eq!(versions, [[("M".to_owned(), "notes/page.md".to_owned())]]);
    assert!(desk.space.text("notes/page.md").contains("typed in nano"));
}

/// Shows: MNT-6
#[test]
fn a_save_with_emacs_is_one_version() {
    let Some(desk) = Desk::with("emacs", &[PAGE, ("notes/link.md", "see [page](page.md)\n")]) else { return };
    for (round, copying) in ["nil", "t"].iter().enumerate() {
        let edit = format!(
            "(progn (setq backup-by-copying {copying} backup-enable-predicate (lambda (_) t)) (find-file \"notes/page.md\") \
             (goto-char (point-max)) (insert \"round {round}\\n\") (save-buffer))"
        );
        desk.saves(&format!("emacs -Q --batch --eval '{edit}' 2>/dev/null"), "notes/page.md");
        assert!(desk.space.text("notes/page.md").ends_with(&format!("round {round}\n")), "backup-by-copying {copying}");
    }
    assert_eq!(desk.space.text("notes/link.md"), "see [page](page.md)\n", "a backup is no rename");
    assert_eq!(desk.space.shell("ls -A notes"), "link.md\npage.md\npage.md~\n");
}

/// Shows: MNT-6
#[test]
fn saves_by_vs_code_and_obsidian_are_one_version_each() {
    let Some(desk) = Desk::with("python3", &[PAGE]) else { return };
    let save = |calls: &str, text: &str| {
        let program = format!("import os; p = \"notes/page.md\"; text = b\"{text}\\n\"; {calls}");
        desk.saves(&format!("python3 -c '{program}'"), "notes/page.md");
        assert_eq!(desk.space.text("notes/page.md"), format!("{text}\n"));
    };
    // Visual Studio Code: the file is emptied, written and flushed in place.
    save("f = os.open(p, os.O_WRONLY | os.O_TRUNC); os.write(f, text); os.fdatasync(f); os.close(f)", "code");
    // The same, emptied by a call of its own.
    save(
        "f = os.open(p, os.O_RDWR); os.ftruncate(f, 0); os.pwrite(f, text, 0); os.fsync(f); os.close(f)",
        "code again",
    );
    // Obsidian: written in place, and given its time.
    save("f = open(p, \"wb\"); f.write(text); f.close(); os.utime(p, (1e9, 1e9))", "obsidian");
    assert_eq!(desk.space.shell("stat -c %Y notes/page.md"), "1000000000\n");
    // A file beside it that is flushed and renamed over it.
    save(
        "t = p + \".tmp\"; f = os.open(t, os.O_WRONLY | os.O_CREAT | os.O_EXCL); os.write(f, text); os.fsync(f); \
         os.close(f); os.rename(t, p)",
        "renamed over",
    );
    assert_eq!(desk.space.shell("ls -A notes"), "page.md\n");
}

/// Shows: MNT-6
#[test]
fn saves_by_jetbrains_kate_and_libreoffice_are_one_version_each() {
    let Some(desk) = Desk::with("python3", &[PAGE]) else { return };
    let save = |calls: &str, text: &str| {
        let begin = "import os\np = \"notes/page.md\"\ndef put(name, text):\n  f = open(name, \"w\"); f.write(text); f.flush(); \
                     os.fsync(f.fileno()); f.close()\n";
        desk.saves(&format!("python3 -c '{begin}text = \"{text}\\n\"\n{calls}'"), "notes/page.md");
        assert_eq!(desk.space.text("notes/page.md"), format!("{text}\n"));
    };
    save(
        "put(p + \"___jb_tmp___\", text); os.rename(p, p + \"___jb_old___\"); os.rename(p + \"___jb_tmp___\", p); \
         os.remove(p + \"___jb_old___\")",
        "jetbrains",
    );
    save(
        "put(\"notes/.page.md.kate-swp\", text); put(p + \".JiRqYb\", text); os.rename(p + \".JiRqYb\", p); \
         os.remove(\"notes/.page.md.kate-swp\")",
        "kate",
    );
    save("put(\"notes/.~lock.page.md#\", \"me\"); put(p, text); os.remove(\"notes/.~lock.page.md#\")", "libreoffice");
    assert_eq!(desk.space.shell("ls -A notes"), "page.md\n");
}

/// Shows: MNT-6
#[test]
fn sed_in_place_is_one_version() {
    let Some(desk) = Desk::with("sed", &[PAGE]) else { return };
    desk.saves("sed -i s/one/two/ notes/page.md", "notes/page.md");
    assert_eq!(desk.space.text("notes/page.md"), "# Page\n\ntwo\n");
    desk.saves("sed -i~ s/two/three/ notes/page.md", "notes/page.md");
    assert_eq!(desk.space.text("notes/page.md"), "# Page\n\nthree\n");
    assert_eq!(desk.versions_of("sed -i s/absent/present/ notes/page.md"), [] as [Vec<_>; 0], "nothing changed");
}

/// Shows: MNT-6
#[test]
fn perl_in_place_is_one_version() {
    let Some(desk) = Desk::with("perl", &[PAGE]) else { return };
    desk.saves("perl -pi -e s/one/two/ notes/page.md", "notes/page.md");
    assert_eq!(desk.space.text("notes/page.md"), "# Page\n\ntwo\n");
    assert_eq!(desk.space.shell("ls -A notes"), "page.md\n");
}

/// Shows: MNT-6
#[test]
fn a_patched_page_is_one_version() {
    let Some(desk) = Desk::with("patch", &[PAGE]) else { return };
    desk.saves("printf -- '--- a\\n+++ b\\n@@ -3 +3 @@\\n-one\\n+two\\n' | patch -s notes/page.md", "notes/page.md");
    assert_eq!(desk.space.text("notes/page.md"), "# Page\n\ntwo\n");
    assert_eq!(desk.space.shell("ls -A notes"), "page.md\n");
}

#[test]
fn the_shells_redirections_are_one_version_each() {
    let Some(desk) = Desk::with("sh", &[PAGE]) else { return };
    desk.saves("echo two >> notes/page.md", "notes/page.md");
    desk.saves("echo '# Fresh' > notes/fresh.md", "notes/fresh.md");
    desk.saves("printf '# Whole\\n\\nnew\\n' > notes/page.md", "notes/page.md");
    desk.saves("echo tee | tee -a notes/page.md > /dev/null", "notes/page.md");
    assert_eq!(desk.space.text("notes/page.md"), "# Whole\n\nnew\ntee\n");
}
