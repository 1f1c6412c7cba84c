//! `.svc/draft/<id>/…`: a draft as programs see and write it.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use svcfs_base::{Actor, Caller, Change, DraftId, Kind, Protocol, TreePath};
use svcfs_mount::MountOptions;

use crate::mounted::{Mounted, has, options};

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn open(space: &Mounted) -> DraftId {
    space.put("a.md", "one\n");
    space.put("d/b.md", "two\n");
    space.vfs.open_draft(Actor::new("ann"), 10).unwrap().id
}

fn text(space: &Mounted, id: DraftId, page: &str) -> Result<String, Kind> {
    let file = space.vfs.draft(id).unwrap().read(Protocol::Http, &path(page)).map_err(|fault| fault.kind())?;
    Ok(String::from_utf8(file.content.to_vec()).unwrap())
}

fn errno(outcome: std::io::Result<impl Sized>) -> i32 {
    outcome.err().and_then(|error| error.raw_os_error()).unwrap_or_default()
}

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EINVAL: i32 = 22;
const ESTALE: i32 = 116;

/// A command in the draft, and what `find . -name '[!.]*'` and `cat` show afterwards.
#[test]
fn shell_commands_work_in_a_draft() {
    let Some(space) = Mounted::new() else { return };
    let id = open(&space);
    let steps = [
        ("cat a.md", "one\n"),
        ("echo new > n.md; cat n.md", "new\n"),
        ("echo more >> a.md; cat a.md", "one\nmore\n"),
        ("sed -i s/one/1/ a.md; cat a.md", "1\nmore\n"),
        ("cp a.md c.md; cp -p a.md e.md; cat c.md e.md", "1\nmore\n1\nmore\n"),
        ("mv c.md d/c.md; cat d/c.md; ls", "1\nmore\na.md\nd\ne.md\nn.md\n"),
        ("mv -f e.md n.md; cat n.md; ls", "1\nmore\na.md\nd\nn.md\n"),
        ("truncate -s 2 n.md; cat n.md", "1\n"),
        ("truncate -s 0 n.md; stat -c %s n.md", "0\n"),
        ("touch t.md; mkdir -p e/f; ls", "a.md\nd\ne\nn.md\nt.md\n"),
        ("mv d e/f/d; ls; find e | sort", "a.md\ne\nn.md\nt.md\ne\ne/f\ne/f/d\ne/f/d/b.md\ne/f/d/c.md\n"),
        ("rm e/f/d/*; ls e/f", "d\n"),
        ("rmdir e/f/d e/f; ls e", ""),
        ("rm -r e t.md; ls", "a.md\nn.md\n"),
        ("mkdir tree; cp -r a.md n.md tree/; rm -rf tree; ls", "a.md\nn.md\n"),
        ("exec 3<> a.md; echo X >&3; rm a.md; cat <&3; ls", "more\nn.md\n"),
        ("dd if=/dev/zero of=z.bin bs=64k count=20 2> z.log; stat -c %s z.bin; rm z.bin z.log", "1310720\n"),
        ("(echo one; sleep 0.05; echo two) > s.md; cat s.md", "one\ntwo\n"),
        ("ln -s n.md l.md 2> /dev/null || echo refused", "refused\n"),
        ("chmod 600 n.md; chmod +x n.md 2> /dev/null || echo refused", "refused\n"),
    ];
    for (command, expected) in steps {
        assert_eq!(space.shell(&format!("cd .svc/draft/{id}; {command}")), expected, "{command}");
    }
    assert_eq!((text(&space, id, "a.md"), text(&space, id, "d/b.md")), (Err(Kind::NotFound), Err(Kind::NotFound)));
    assert_eq!(text(&space, id, "s.md").unwrap(), "one\ntwo\n");
    // The tree is unchanged.
    assert_eq!(space.shell("cat a.md d/b.md; ls"), "one\ntwo\na.md\nd\n");
    let view = space.vfs.draft(id).unwrap();
    let author = view.pages().into_iter().find(|(page, _)| *page == path("s.md")).unwrap().1.author;
    assert_eq!(author.as_str(), "root");
}

#[test]
fn editors_save_in_a_draft() {
    let Some(space) = Mounted::new() else { return };
    let id = open(&space);
    let patterns = [
        ("backup rename", "echo x > 4913; rm 4913; mv a.md a.md~; echo saved > a.md; rm a.md~"),
        ("temporary file", "echo saved > .a.md.tmp; mv .a.md.tmp a.md"),
        ("backup copy", "cp -p a.md a.md~; echo saved > a.md; rm a.md~"),
        ("sync", "echo saved > a.md; sync a.md"),
        ("append", "printf sav > a.md; echo ed >> a.md"),
    ];
    for (name, command) in patterns {
        space.vfs.draft(id).unwrap().apply(&Caller::new(Protocol::Http), Change::put(path("a.md"), "old\n")).unwrap();
        space.shell(&format!("cd .svc/draft/{id}; {command}"));
        assert_eq!(text(&space, id, "a.md").unwrap(), "saved\n", "{name}");
        assert_eq!(space.shell(&format!("ls -A .svc/draft/{id} | grep -v '^.svc$\\|^.git'")), "a.md\nd\n", "{name}");
    }
    for (program, command) in [
        ("vim", "vim -u NONE -es -c '%s/.*/vim/' -c wq a.md < /dev/null"),
        ("ed", "printf '1c\\ned\\n.\\nw\\nq\\n' | ed -s a.md"),
        ("perl", "perl -pi -e 's/.*/perl/' a.md"),
    ] {
        if has(program) {
            space.shell(&format!("cd .svc/draft/{id}; {command}"));
            assert_eq!(text(&space, id, "a.md").unwrap(), format!("{program}\n"));
        }
    }
    assert_eq!(space.shell("cat a.md"), "one\n");
}

#[test]
fn refused_operations_have_their_error_numbers_and_change_nothing() {
    let Some(space) = Mounted::new() else { return };
    let id = open(&space);
    let root = space.at(".svc/draft").join(id.to_string());
    assert_eq!(fs::metadata(space.at(".svc/draft/00000000")).unwrap_err().raw_os_error(), Some(ENOENT));
    assert_eq!(errno(fs::metadata(space.at(".svc/draft/name"))), ENOENT);
    assert_eq!(errno(fs::create_dir(space.at(".svc/draft/name"))), EPERM);
    assert_eq!(errno(fs::write(space.at(".svc/draft/name.md"), "x")), EPERM);
    assert_eq!(errno(fs::remove_dir(&root)), EPERM);
    assert_eq!(errno(fs::rename(&root, space.at(".svc/draft/other"))), EPERM);
    assert_eq!(space.shell("ls .svc/draft"), format!("{id}\n"));
    // Rejected by a gate, when the file is closed.
    let refused = space.shell(&format!(
        "cd .svc/draft/{id}; echo FORBIDDEN > a.md || true; python3 -c '
import os
print(os.getxattr(\"a.md\", \"user.svc.lint\").decode(), os.listxattr(\"a.md\"))
fd = os.open(\"a.md\", os.O_WRONLY | os.O_TRUNC)
os.write(fd, b\"FORBIDDEN\")
try: os.fsync(fd)
except OSError as error: print(error.errno)
try: os.close(fd)
except OSError as error: print(error.errno)
'; cat a.md"
    ));
    assert_eq!(refused, format!("line 1: FORBIDDEN is not allowed ['user.svc.lint']\n{EINVAL}\n{EINVAL}\none\n"));
    assert_eq!(space.shell(&format!("cat .svc/rejected/.svc/draft/{id}/a.md")), "FORBIDDEN");
    space.shell(&format!("cd .svc/draft/{id}; echo fine > a.md; ! getfattr -n user.svc.claim a.md 2> /dev/null"));
    assert_eq!(errno(fs::metadata(space.at(&format!(".svc/rejected/.svc/draft/{id}/a.md")))), ENOENT);
    // `mv` out of the draft copies.
    assert_eq!(errno(fs::rename(root.join("a.md"), space.at("out.md"))), 18);
    assert_eq!(errno(fs::rename(space.at("d/b.md"), root.join("in.md"))), 18);
    space.shell(&format!("mv .svc/draft/{id}/a.md out.md; cat out.md"));
    assert_eq!((text(&space, id, "a.md"), space.shell("cat out.md a.md")), (Err(Kind::NotFound), "fine\none\n".into()));
}

#[test]
fn changes_through_other_protocols_are_seen_immediately() {
    let Some(space) = Mounted::new() else { return };
    let id = open(&space);
    let root = space.at(".svc/draft").join(id.to_string());
    let view = space.vfs.draft(id).unwrap();
    for n in 0..20 {
        let content = format!("{n}\n").repeat(n % 3 + 1);
        view.apply(&Caller::new(Protocol::Http), Change::put(path("a.md"), content.clone())).unwrap();
        assert_eq!(fs::read_to_string(root.join("a.md")).unwrap(), content);
        let name = format!("{n}.md");
        assert_eq!(errno(fs::metadata(root.join(&name))), ENOENT);
        view.apply(&Caller::new(Protocol::Http), Change::put(path(&name), "x")).unwrap();
        assert_eq!(fs::metadata(root.join(&name)).unwrap().len(), 1);
    }
    space.put("later.md", "from the tree\n");
    assert_eq!(fs::read_to_string(root.join("later.md")).unwrap(), "from the tree\n");
    // A save that is based on an older page does not overwrite it.
    let mut file = fs::OpenOptions::new().read(true).write(true).open(root.join("a.md")).unwrap();
    file.write_all(b"mine").unwrap();
    view.apply(&Caller::new(Protocol::Http), Change::put(path("a.md"), "theirs\n")).unwrap();
    assert_ne!(errno(file.sync_all()), 0);
    drop(file);
    assert_eq!(text(&space, id, "a.md").unwrap(), "theirs\n");
}

#[test]
fn open_files_of_a_closed_draft_are_stale_and_never_reach_the_tree() {
    let Some(space) = Mounted::new() else { return };
    let id = open(&space);
    let root = space.at(".svc/draft").join(id.to_string());
    let mut file = fs::OpenOptions::new().read(true).write(true).open(root.join("a.md")).unwrap();
    let mut new = fs::File::create(root.join("new.md")).unwrap();
    file.write_all(b"late").unwrap();
    new.write_all(b"late").unwrap();
    space.vfs.discard_draft(id).unwrap();
    assert_eq!((errno(file.sync_all()), errno(new.sync_all())), (ESTALE, ESTALE));
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut read = String::new();
    let _ended = file.read_to_string(&mut read);
    assert_eq!(errno(fs::read_dir(&root)), ENOENT);
    assert_eq!(errno(fs::write(root.join("other.md"), "x")), ENOENT);
    drop((file, new));
    assert_eq!(space.shell("cat a.md; ls; ls .svc/draft"), "one\na.md\nd\n");
}

#[test]
fn a_draft_is_mounted_as_a_tree() {
    let Some(space) = Mounted::new() else { return };
    let id = open(&space);
    let (mount, at) = space.another(&MountOptions { draft: Some(id), ..options() });
    let run = |command: &str| {
        let output = std::process::Command::new("sh").args(["-ec", command]).current_dir(&at).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(
        run("cat a.md; echo mine > a.md; mkdir e; mv d e/; echo x > n.md; rm n.md; ls; cat a.md"),
        "one\na.md\ne\nmine\n"
    );
    assert_eq!(run("stat -c %F . ; ls e/d"), "directory\nb.md\n");
    assert!(fs::metadata(Path::new(&at)).unwrap().permissions().mode() & 0o700 == 0o700);
    let mut open_file = fs::File::create(at.join("open.md")).unwrap();
    open_file.write_all(b"still open\n").unwrap();
    let _used = mount.stop(Duration::from_millis(100));
    drop(open_file);
    assert_eq!(text(&space, id, "open.md").unwrap(), "still open\n");
    assert_eq!(space.shell("cat a.md; ls"), "one\na.md\nd\n");
    assert_eq!(space.shell(&format!("cat .svc/draft/{id}/a.md")), "mine\n");
}

#[test]
fn disabled_drafts_are_not_shown() {
    let Some(space) = Mounted::new() else { return };
    let id = open(&space);
    space.vfs.set_max_drafts(None);
    for name in [".svc/draft".to_owned(), format!(".svc/draft/{id}/a.md")] {
        assert_eq!(errno(fs::metadata(space.at(&name))), ENOENT, "{name}");
    }
}
