//! Extended attributes: those that svcfs gives its files, and those that programs give theirs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;
use svcfs_base::{ETag, TreePath};

use crate::mounted::{Mounted, has, wait_for};

fn value(space: &Mounted, path: &str, name: &str) -> Result<String, Errno> {
    let mut room = [0; 8192];
    let length = getxattr(space.at(path), format!("user.svc.{name}"), &mut room)?;
    Ok(String::from_utf8(room[..length].to_vec()).unwrap())
}

fn set(space: &Mounted, path: &str, name: &str, value: &[u8]) -> Result<(), Errno> {
    setxattr(space.at(path), format!("user.svc.{name}"), value, XattrFlags::empty())
}

fn names(space: &Mounted, path: &str) -> Vec<String> {
    let mut room = [0; 8192];
    let length = listxattr(space.at(path), &mut room).unwrap();
    let text = String::from_utf8(room[..length].to_vec()).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// Shows: XATTR-1
#[test]
fn a_page_exposes_etag_version_author_and_backlinks_as_xattrs() {
    let Some(space) = Mounted::new() else { return };
    fs::create_dir(space.at("notes")).unwrap();
    fs::write(space.at("notes/tides.md"), "the tide").unwrap();
    // Asked at once, it waits for the version.
    assert_eq!(value(&space, "notes/tides.md", "etag"), Ok(ETag::from_content(b"the tide").to_string()));
    let newest = space.vfs.versions(&TreePath::parse("notes/tides.md").unwrap()).unwrap();
    assert_eq!(value(&space, "notes/tides.md", "version"), Ok(newest[0].hash.to_string()));
    assert_eq!(value(&space, "notes/tides.md", "actor"), Ok("root".to_owned()));
    assert_eq!(value(&space, "notes/tides.md", "backlinks"), Ok("1".to_owned()));
    assert_eq!(names(&space, "notes/tides.md"), ["user.svc.etag", "user.svc.version", "user.svc.actor"]);
    fs::write(space.at("notes/tides.md"), "the moon").unwrap();
    assert_eq!(value(&space, "notes/tides.md", "etag"), Ok(ETag::from_content(b"the moon").to_string()));
    // What is no page, or no version, has none.
    fs::write(space.at("scratch.tmp"), "x").unwrap();
    for path in ["notes", "scratch.tmp", ".svc/VIEWS.txt", ".svc/at"] {
        assert_eq!(names(&space, path), [""; 0], "{path}");
        for name in ["etag", "version", "actor", "lint", "backlinks", "message", "other"] {
            assert_eq!(value(&space, path, name), Err(Errno::NODATA), "{path} {name}");
        }
    }
}

/// Shows: XATTR-4
#[test]
fn a_message_set_on_a_page_is_that_of_the_next_save() {
    let Some(space) = Mounted::new() else { return };
    space.put("a.md", "one");
    set(&space, "a.md", "message", b"the tide turned").unwrap();
    assert_eq!(value(&space, "a.md", "message"), Ok("the tide turned".to_owned()));
    assert!(!names(&space, "a.md").contains(&"user.svc.message".to_owned()), "no copy takes it along");
    fs::write(space.at("a.md"), "two").unwrap();
    let versions = || space.vfs.versions(&TreePath::parse("a.md").unwrap()).unwrap();
    wait_for(|| versions().len() == 2);
    assert_eq!(versions()[0].message, "the tide turned");
    assert_eq!(value(&space, "a.md", "message"), Err(Errno::NODATA));
    // sed writes a new file and renames it over the page.
    set(&space, "a.md", "message", b"by sed").unwrap();
    space.shell("sed -i s/two/three/ a.md");
    wait_for(|| versions().len() == 3);
    assert_eq!(versions()[0].message, "by sed");
    set(&space, "a.md", "message", b"taken back").unwrap();
    removexattr(space.at("a.md"), "user.svc.message").unwrap();
    assert_eq!(value(&space, "a.md", "message"), Err(Errno::NODATA));
    for hostile in [&b""[..], b"\xff\xfe", b"a\0b", &[b'x'; 4097]] {
        let refused = set(&space, "a.md", "message", hostile);
        assert!(matches!(refused, Err(Errno::INVAL | Errno::FBIG)), "{refused:?}");
    }
    assert_eq!(set(&space, ".svc/VIEWS.txt", "message", b"x"), Err(Errno::ROFS));
}

/// Shows: XATTR-1
#[test]
fn tools_that_copy_xattrs_are_not_blocked_by_svcfs_xattrs() {
    let Some(space) = Mounted::new() else { return };
    space.put("a/one.md", "one");
    space.put("a/two.md", "two");
    for name in ["etag", "version", "actor", "lint", "backlinks"] {
        set(&space, "a/one.md", name, b"made up").unwrap();
        removexattr(space.at("a/one.md"), format!("user.svc.{name}")).unwrap();
    }
    assert_eq!(value(&space, "a/one.md", "etag"), Ok(ETag::from_content(b"one").to_string()));
    assert_eq!(set(&space, "a/one.md", "invented", b"x"), Err(Errno::OPNOTSUPP));
    assert_eq!(space.shell("cp -a a b 2>&1; cp -a a ../aside 2>&1; cp -a ../aside back 2>&1"), "");
    space.shell(
        "cp --preserve=all a/one.md three.md; mv ../aside/one.md moved.md; cat three.md moved.md | grep -q oneone",
    );
    if has("rsync") {
        assert_eq!(
            space.shell("rsync -aX a/ synced/ 2>&1; rsync -aX back/ synced/ 2>&1; rsync -aX ../aside/ synced/ 2>&1"),
            ""
        );
    }
    assert_eq!(
        space.shell(
            "tar -cf ../a.tar --xattrs a 2>&1; mkdir un; tar -xf ../a.tar --xattrs --xattrs-include='user.*' -C un 2>&1"
        ),
        ""
    );
    assert_eq!(space.shell("diff -r a un/a; diff -r a b; diff -r a back"), "");
    assert_eq!(space.authors("b/two.md", 1).len(), 1, "a copied attribute is no version");
    let identity = "git -c user.name=n -c user.email=e@e";
    assert_eq!(
        space.shell(&format!(
            "git init -q repo; cp -a a repo/; cd repo; git add .; {identity} commit -qm m; git status --short"
        )),
        ""
    );
    assert_eq!(fs::metadata(space.at("b/one.md")).unwrap().size(), 3);
}

/// What a program gave a file: `user.note`.
fn note(path: impl AsRef<Path>) -> Result<String, Errno> {
    let mut room = [0; 8192];
    let length = getxattr(path.as_ref(), "user.note", &mut room)?;
    Ok(String::from_utf8(room[..length].to_vec()).unwrap())
}

fn give(path: impl AsRef<Path>, text: &str, flags: XattrFlags) -> Result<(), Errno> {
    setxattr(path.as_ref(), "user.note", text.as_bytes(), flags)
}

fn there(text: &str) -> Result<String, Errno> {
    Ok(text.to_owned())
}

/// Shows: XATTR-2
#[test]
fn user_xattrs_survive_saves_and_renames_without_a_version() {
    let Some(space) = Mounted::new() else { return };
    space.put("a.md", "one");
    give(space.at("a.md"), "first", XattrFlags::empty()).unwrap();
    assert_eq!(note(space.at("a.md")), there("first"));
    assert!(names(&space, "a.md").contains(&"user.note".to_owned()));
    assert_eq!(space.authors("a.md", 1).len(), 1);
    // Written over here, and through another door.
    fs::write(space.at("a.md"), "two").unwrap();
    assert_eq!(note(space.at("a.md")), there("first"));
    space.put("a.md", "three");
    assert_eq!(note(space.at("a.md")), there("first"));
    fs::rename(space.at("a.md"), space.at("b.md")).unwrap();
    assert_eq!(note(space.at("b.md")), there("first"));
    assert_eq!(space.shell("cp -a b.md copy.md 2>&1; cp -a b.md ../aside.md 2>&1; cp -a ../aside.md back.md 2>&1"), "");
    assert_eq!((note(space.at("copy.md")), note(space.at("back.md"))), (there("first"), there("first")));
    // As on any disk, what takes a name brings its own along.
    fs::write(space.at("new.md"), "four").unwrap();
    give(space.at("new.md"), "second", XattrFlags::empty()).unwrap();
    fs::rename(space.at("new.md"), space.at("b.md")).unwrap();
    assert_eq!(note(space.at("b.md")), there("second"));
    fs::write(space.at("bare.md"), "five").unwrap();
    let directory = fs::File::open(space.at("")).unwrap();
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(&directory, "bare.md", &directory, "b.md", exchange).unwrap();
    assert_eq!((note(space.at("bare.md")), note(space.at("b.md"))), (there("second"), Err(Errno::NODATA)));
    fs::rename(space.at("b.md"), space.at("bare.md")).unwrap();
    assert_eq!(note(space.at("bare.md")), Err(Errno::NODATA));
    // A folder has them as well, and so has what is inside.
    fs::create_dir(space.at("folder")).unwrap();
    give(space.at("folder"), "of a folder", XattrFlags::empty()).unwrap();
    fs::rename(space.at("copy.md"), space.at("folder/copy.md")).unwrap();
    fs::rename(space.at("folder"), space.at("moved")).unwrap();
    assert_eq!((note(space.at("moved")), note(space.at("moved/copy.md"))), (there("of a folder"), there("first")));
}

/// Shows: XATTR-2
#[test]
fn xattrs_work_before_the_first_save_and_after_unlink() {
    let Some(space) = Mounted::new() else { return };
    let mut file = fs::File::create(space.at("a.md")).unwrap();
    let flags = XattrFlags::empty();
    fsetxattr(&file, "user.note", b"early", flags).unwrap();
    assert_eq!(note(space.at("a.md")), there("early"));
    file.write_all(b"text").unwrap();
    drop(file);
    assert_eq!(space.authors("a.md", 1).len(), 1, "one save, one version");
    assert_eq!(note(space.at("a.md")), there("early"));
    let file = fs::File::create(space.at("gone.tmp")).unwrap();
    fs::remove_file(space.at("gone.tmp")).unwrap();
    fsetxattr(&file, "user.note", b"late", flags).unwrap();
    assert_eq!(fgetxattr(&file, "user.note", &mut [0; 16]), Ok(4));
}

/// Shows: XATTR-3
#[test]
fn xattr_flags_and_names_follow_the_system_calls() {
    let Some(space) = Mounted::new() else { return };
    space.put("a.md", "text");
    let page = space.at("a.md");
    assert_eq!(give(&page, "x", XattrFlags::REPLACE), Err(Errno::NODATA));
    assert_eq!(give(&page, "x", XattrFlags::CREATE), Ok(()));
    assert_eq!(give(&page, "y", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(give(&page, "z", XattrFlags::REPLACE), Ok(()));
    assert_eq!(note(&page), there("z"));
    give(&page, "longer than that", XattrFlags::REPLACE).unwrap();
    assert_eq!(getxattr(&page, "user.note", &mut [0_u8; 3]), Err(Errno::RANGE));
    removexattr(&page, "user.note").unwrap();
    assert_eq!(removexattr(&page, "user.note"), Err(Errno::NODATA));
    assert_eq!(note(&page), Err(Errno::NODATA));
    for name in ["trusted.x", "security.x"] {
        assert_eq!(setxattr(&page, name, b"x", XattrFlags::empty()), Err(Errno::OPNOTSUPP), "{name}");
    }
    let too_much = setxattr(&page, "user.large", &vec![b'x'; 60_000], XattrFlags::empty());
    assert!(matches!(too_much, Ok(()) | Err(Errno::NOSPC | Errno::TOOBIG)), "{too_much:?}");
    assert_eq!(fs::read(&page).unwrap(), b"text");
}

/// Shows: XATTR-1
#[test]
fn a_link_lists_no_unreadable_xattrs() {
    let Some(space) = Mounted::new() else { return };
    space.shell("mkdir from; echo '# Page' > from/page.md; ln -s page.md from/link.md");
    assert!(value(&space, "from/link.md", "etag").is_ok(), "it is known by now, and read through the link");
    let listed = rustix::fs::llistxattr(space.at("from/link.md"), &mut [0_u8; 1024]);
    assert_eq!(listed, Ok(0));
    if has("rsync") {
        space.shell("rsync -aX from/ ../copy/; rsync -aX from/ ../copy/; rsync -aX from/ to/; rsync -aX from/ to/");
        assert_eq!(fs::read_link(space.at("../copy/link.md")).unwrap(), Path::new("page.md"));
    }
}
