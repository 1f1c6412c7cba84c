//! Extended attributes that svcfs gives its files.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
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

#[test]
fn a_page_says_its_etag_version_and_author_and_how_many_pages_link_to_it() {
    let Some(space) = Mounted::new() else { return };
    fs::create_dir(space.at("notes")).unwrap();
    fs::write(space.at("notes/tides.md"), "the tide").unwrap();
    // Asked at once, it waits for the version.
    assert_eq!(value(&space, "notes/tides.md", "etag"), Ok(ETag::of(b"the tide").to_string()));
    let newest = space.vfs.versions(&TreePath::parse("notes/tides.md").unwrap()).unwrap();
    assert_eq!(value(&space, "notes/tides.md", "version"), Ok(newest[0].hash.to_string()));
    assert_eq!(value(&space, "notes/tides.md", "actor"), Ok("root".to_owned()));
    assert_eq!(value(&space, "notes/tides.md", "backlinks"), Ok("1".to_owned()));
    assert_eq!(names(&space, "notes/tides.md"), ["user.svc.etag", "user.svc.version", "user.svc.actor"]);
    fs::write(space.at("notes/tides.md"), "the moon").unwrap();
    assert_eq!(value(&space, "notes/tides.md", "etag"), Ok(ETag::of(b"the moon").to_string()));
    // What is no page, or no version, has none.
    fs::write(space.at("scratch.tmp"), "x").unwrap();
    for path in ["notes", "scratch.tmp", ".svc/VIEWS.txt", ".svc/at"] {
        assert_eq!(names(&space, path), [""; 0], "{path}");
        for name in ["etag", "version", "actor", "lint", "backlinks", "message", "other"] {
            assert_eq!(value(&space, path, name), Err(Errno::NODATA), "{path} {name}");
        }
    }
}

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

#[test]
fn what_copies_attributes_is_not_stopped_by_ours() {
    let Some(space) = Mounted::new() else { return };
    space.put("a/one.md", "one");
    space.put("a/two.md", "two");
    for name in ["etag", "version", "actor", "lint", "backlinks"] {
        set(&space, "a/one.md", name, b"made up").unwrap();
        removexattr(space.at("a/one.md"), format!("user.svc.{name}")).unwrap();
    }
    assert_eq!(value(&space, "a/one.md", "etag"), Ok(ETag::of(b"one").to_string()));
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
