//! Links that follow a page, given by somebody who knows them: `index.md` links to whatever is renamed.

use bytes::Bytes;
use svcfs_base::{ETag, Fault, TreePath};

use super::*;
use crate::Relinked;

fn renamed(space: &TestSpace, from: &str, to: &str) -> Result<(), Fault> {
    space.vfs.rename_node(&ann(), (NodeId::ROOT, &name(from)), (NodeId::ROOT, &name(to)), true)
}

/// What follows a rename: of each of these pages that is there, the text with the new name in the place of the old one.
fn following(
    space: &TestSpace,
    pages: &'static [&'static str],
) -> impl Fn(&TreePath, &TreePath) -> Vec<Relinked> + use<> {
    let vfs = std::sync::Arc::downgrade(&space.vfs);
    move |from, to| {
        let vfs = vfs.upgrade().unwrap();
        let relinked = |page: &&str| {
            let file = vfs.read(Door::Internal, &at(page)).ok()?;
            let text = String::from_utf8(file.content.to_vec()).unwrap();
            let links = text.matches(from.as_str()).count();
            let path = if at(page) == *from { to.clone() } else { at(page) };
            let after = text.replace(from.as_str(), to.as_str());
            (links > 0).then_some(Relinked { path, before: (file.content, file.etag), after, links })
        };
        pages.iter().filter_map(relinked).collect()
    }
}

fn space_with_links(pages: &'static [&'static str]) -> TestSpace {
    let space = TestSpace::new();
    let following = following(&space, pages);
    space.vfs.follow_links(Box::new(move |_, (from, to)| Ok(following(from, to))));
    space
}

#[test]
fn links_follow_a_page_to_its_new_name_in_the_commit_of_the_rename() {
    let space = space_with_links(&["index.md", "a.md"]);
    space.put("a.md", "I am a.md\n");
    space.put("index.md", "a.md and a.md\n");
    renamed(&space, "a.md", "b.md").unwrap();
    assert_eq!((space.text("index.md"), space.text("b.md")), ("b.md and b.md\n".to_owned(), "I am b.md\n".to_owned()));
    space.vfs.settled().unwrap();
    assert_eq!(space.log()[0], "ann|ann: rename a.md → b.md (updated 3 links)");
    assert_eq!(space.log().len(), 3);
}

#[test]
fn only_the_rename_of_a_page_to_a_page_that_readers_see_takes_links_along() {
    let space = TestSpace::new();
    space.vfs.follow_links(Box::new(|_, (from, to)| panic!("asked for {from} → {to}")));
    for path in ["a.md", "d/c.md", "x.txt", ".hidden.md", ".svc/rules.md"] {
        space.put(path, "text\n");
    }
    for (from, to) in [
        ("a.md", "a.md~"),
        ("a.md~", "a.md"),
        ("a.md", "a.txt"),
        ("a.txt", "a.md"),
        ("a.md", ".a.md"),
        (".a.md", "a.md"),
        ("x.txt", "y.txt"),
        ("d", "e"),
        ("e", "folder.md"),
        ("folder.md", "other.md"),
    ] {
        renamed(&space, from, to).unwrap_or_else(|fault| panic!("{from} → {to}: {fault}"));
    }
    let link = space.vfs.make_link(&ann(), NodeId::ROOT, &name("link.md"), "a.md").unwrap().0;
    renamed(&space, "link.md", "other link.md").unwrap();
    assert_eq!(space.vfs.link_target(&ann(), link).unwrap(), "a.md");
}

#[test]
fn a_page_that_would_be_refused_with_the_new_links_keeps_the_old_ones_and_the_rename_is_made() {
    let space = space_with_links(&["bad.md", "good.md"]);
    space.put("a.md", "page\n");
    space.put("good.md", "a.md\n");
    #[expect(clippy::disallowed_methods, reason = "an edit behind the server")]
    std::fs::write(space.directory.path().join("bad.md"), "refuse this, a.md\n").unwrap();
    space.vfs.rescan().unwrap();
    renamed(&space, "a.md", "b.md").unwrap();
    assert_eq!(space.text("good.md"), "b.md\n");
    assert_eq!((space.text("bad.md"), space.text("b.md")), ("refuse this, a.md\n".to_owned(), "page\n".to_owned()));
    space.vfs.settled().unwrap();
    assert_eq!(space.log()[0], "ann|ann: rename a.md → b.md (updated 1 links)");
}

#[test]
fn a_rename_is_worked_out_anew_when_a_linking_page_is_written_meanwhile() {
    let space = TestSpace::new();
    let following = following(&space, &["index.md"]);
    let writer = std::sync::Arc::downgrade(&space.vfs);
    let asked = std::sync::atomic::AtomicUsize::new(0);
    space.vfs.follow_links(Box::new(move |_, (from, to)| {
        let relinked = following(from, to);
        if asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 3 {
            let before = &relinked[0].before.0;
            let longer = Bytes::from([before, &b"more\n"[..]].concat());
            writer.upgrade().unwrap().apply(&eve(), Change::put(at("index.md"), longer)).unwrap();
        }
        Ok(relinked)
    }));
    space.put("a.md", "page\n");
    space.put("index.md", "a.md\n");
    renamed(&space, "a.md", "b.md").unwrap();
    assert_eq!(space.text("index.md"), "b.md\nmore\nmore\nmore\n");
}

#[test]
fn nothing_is_renamed_while_nobody_knows_what_links_there() {
    let space = TestSpace::new();
    space.vfs.follow_links(Box::new(|_, _| Err(Fault::unavailable("the index is behind"))));
    space.put("a.md", "page\n");
    assert_eq!(renamed(&space, "a.md", "b.md").unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(space.text("a.md"), "page\n");
    assert_eq!(space.vfs.stat(Door::Http, &at("b.md")).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn what_is_not_saved_of_a_page_is_saved_before_its_own_links_follow() {
    let space = space_with_links(&["a.md"]);
    space.put("a.md", "old\n");
    let (node, handle) = open(&space, "a.md", EMPTYING);
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"I am a.md\n").unwrap();
    renamed(&space, "a.md", "b.md").unwrap();
    assert_eq!(space.text("b.md"), "I am b.md\n");
    assert_eq!(space.vfs.read_node(node, 0, 100).unwrap(), "I am b.md\n");
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"We").unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("b.md"), "Weam b.md\n", "who has it open goes on in what it is now");
}

#[test]
fn the_commit_of_a_rename_with_links_says_what_its_author_announced() {
    let space = space_with_links(&["index.md"]);
    space.put("a.md", "page\n");
    let index = space.put("index.md", "a.md\n");
    space.vfs.announce_save(&ann(), &at("b.md"), Some("Call it what it is")).unwrap();
    renamed(&space, "a.md", "b.md").unwrap();
    space.vfs.settled().unwrap();
    assert_eq!(space.log()[0], "ann|Call it what it is");
    assert_eq!(space.vfs.announced_save(&ann(), &at("b.md")), None);
    assert_ne!(index.files[0].etag, Some(ETag::of(space.text("index.md").as_bytes())));
}
