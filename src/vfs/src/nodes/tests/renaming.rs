//! Links that follow a page, given by somebody who knows them: `index.md` links to whatever is
//! renamed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use svcfs_base::{ETag, Fault, TreePath};

use super::*;
use crate::{Lease, LinkResolver, RelinkedPage};

/// Somebody who knows the links as a function does.
struct Known<F>(F);

impl<F: Fn(&TreePath, &TreePath) -> Result<Vec<RelinkedPage>, Fault> + Send + Sync + 'static> LinkResolver
    for Known<F>
{
    fn catch_up(&self) -> Result<(), Fault> {
        Ok(())
    }
    fn relink_pages(&self, _: &Caller, (from, to): (&TreePath, &TreePath)) -> Result<Vec<RelinkedPage>, Fault> {
        self.0(from, to)
    }
}

fn renamed(space: &TestSpace, from: &str, to: &str) -> Result<(), Fault> {
    space.vfs.rename_node(&ann(), (NodeId::ROOT, &name(from)), (NodeId::ROOT, &name(to)), true)
}

/// What follows a rename: of each of these pages that is there, the text with the new name in the
/// place of the old one.
fn following(
    space: &TestSpace,
    pages: &'static [&'static str],
) -> impl Fn(&TreePath, &TreePath) -> Vec<RelinkedPage> + use<> {
    let vfs = Arc::downgrade(&space.vfs);
    move |from, to| {
        let vfs = vfs.upgrade().unwrap();
        let relinked = |page: &&str| {
            let file = vfs.read(Protocol::Internal, &at(page)).ok()?;
            let text = String::from_utf8(file.content.to_vec()).unwrap();
            let links = text.matches(from.as_str()).count();
            let path = if at(page) == *from { to.clone() } else { at(page) };
            let after = text.replace(from.as_str(), to.as_str());
            (links > 0).then_some(RelinkedPage { path, old_etag: file.etag, new_text: after, link_count: links })
        };
        pages.iter().filter_map(relinked).collect()
    }
}

fn space_with_links(pages: &'static [&'static str]) -> TestSpace {
    let space = TestSpace::new();
    let following = following(&space, pages);
    space.vfs.set_link_resolver(Known(move |from: &TreePath, to: &TreePath| Ok(following(from, to))));
    space
}

#[test]
fn links_follow_a_page_rename_in_the_commit_of_the_rename() {
    let space = space_with_links(&["index.md", "a.md"]);
    space.put("a.md", "I am a.md\n");
    space.put("index.md", "a.md and a.md\n");
    renamed(&space, "a.md", "b.md").unwrap();
    assert_eq!((space.text("index.md"), space.text("b.md")), ("b.md and b.md\n".to_owned(), "I am b.md\n".to_owned()));
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.log()[0], "ann|ann: rename a.md → b.md (updated 3 links)");
    assert_eq!(space.log().len(), 3);
}

/// Shows: HTTP-6
#[test]
fn links_follow_only_renames_between_visible_pages() {
    let space = TestSpace::new();
    space.vfs.set_link_resolver(Known(|from: &TreePath, to: &TreePath| panic!("asked for {from} → {to}")));
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

/// Shows: HTTP-7
#[test]
fn a_page_rejected_by_lint_with_new_links_retains_the_old_ones() {
    let space = space_with_links(&["bad.md", "good.md"]);
    space.put("a.md", "page\n");
    space.put("good.md", "a.md\n");
    #[expect(clippy::disallowed_methods, reason = "an edit behind the server")]
    std::fs::write(space.directory.path().join("bad.md"), "refuse this, a.md\n").unwrap();
    space.vfs.rescan().unwrap();
    renamed(&space, "a.md", "b.md").unwrap();
    assert_eq!(space.text("good.md"), "b.md\n");
    assert_eq!((space.text("bad.md"), space.text("b.md")), ("refuse this, a.md\n".to_owned(), "page\n".to_owned()));
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.log()[0], "ann|ann: rename a.md → b.md (updated 1 links)");
}

/// A space in which somebody else writes the linking page so often between the look at it and the
/// rename.
fn space_with_writers(times: usize) -> TestSpace {
    let space = TestSpace::new();
    let following = following(&space, &["index.md"]);
    let writer = Arc::downgrade(&space.vfs);
    let asked = AtomicUsize::new(0);
    space.vfs.set_link_resolver(Known(move |from: &TreePath, to: &TreePath| {
        let relinked = following(from, to);
        if asked.fetch_add(1, Ordering::Relaxed) < times {
            let writer = writer.upgrade().unwrap();
            let before = writer.read(Protocol::Internal, &at("index.md")).unwrap().content;
            let longer = Bytes::from([&before, &b"more\n"[..]].concat());
            writer.apply(&eve(), Change::put(at("index.md"), longer)).unwrap();
        }
        Ok(relinked)
    }));
    space.put("a.md", "page\n");
    space.put("index.md", "a.md\n");
    space
}

#[test]
fn a_rename_is_recomputed_after_a_linking_page_changes() {
    let space = space_with_writers(3);
    renamed(&space, "a.md", "b.md").unwrap();
    assert_eq!(space.text("index.md"), "b.md\nmore\nmore\nmore\n");
}

#[test]
fn a_rename_gives_up_on_links_of_constantly_written_pages() {
    let space = space_with_writers(usize::MAX);
    renamed(&space, "a.md", "b.md").unwrap();
    assert_eq!(space.text("b.md"), "page\n");
    assert!(space.text("index.md").starts_with("a.md\nmore\n"), "nothing of it is lost");
}

#[test]
fn a_page_preserves_mode_and_owner_when_its_own_links_change() {
    let space = space_with_links(&["a.md"]);
    space.put("a.md", "I am a.md\n");
    space.put("b.md", "replaced\n");
    let (node, _) = space.vfs.lookup(&ann(), NodeId::ROOT, &name("a.md")).unwrap();
    let own = rustix::process::geteuid().as_raw();
    let uid = if own == 0 { 1234 } else { own };
    let set = SetAttributes { mode: Some(0o600), uid: Some(uid), ..SetAttributes::default() };
    space.vfs.set_attributes(&ann(), node, set).unwrap();
    renamed(&space, "a.md", "b.md").unwrap();
    assert_eq!(space.text("b.md"), "I am b.md\n");
    space.vfs.wait_applied().unwrap();
    let there = space.vfs.stat(Protocol::Fuse, &at("b.md")).unwrap();
    assert_eq!((there.mode & 0o7777, there.uid), (0o600, uid));
}

/// Shows: HTTP-7
#[test]
fn a_page_being_written_retains_its_links_and_loses_no_data() {
    let space = space_with_links(&["index.md"]);
    space.put("a.md", "page\n");
    space.put("index.md", "a.md\n");
    let (_, handle) = open(&space, "index.md", WRITING);
    space.vfs.write_node(&ann(), handle, WriteAt::End, b"more\n").unwrap();
    renamed(&space, "a.md", "b.md").unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!((space.text("b.md"), space.text("index.md")), ("page\n".to_owned(), "a.md\nmore\n".to_owned()));
}

/// Shows: HTTP-7
#[test]
fn a_locked_page_retains_its_links_for_renames_by_any_protocol() {
    let space = space_with_links(&["index.md"]);
    space.put("a.md", "page\n");
    space.put("index.md", "a.md\n");
    let lease = Lease {
        path: at("index.md"),
        protocol: Protocol::WebDav,
        token: "token".to_owned(),
        holder: "eve".to_owned(),
        note: String::new(),
        is_deep: false,
        is_shared: false,
        expires_at: std::time::SystemTime::now() + std::time::Duration::from_secs(60),
    };
    space.vfs.acquire_lease(lease).unwrap().unwrap();
    let dav = Caller::new(Protocol::WebDav).with_actor(svcfs_base::Actor::new("bob"));
    space.vfs.rename_node(&dav, (NodeId::ROOT, &name("a.md")), (NodeId::ROOT, &name("b.md")), true).unwrap();
    renamed(&space, "b.md", "c.md").unwrap();
    assert_eq!((space.text("c.md"), space.text("index.md")), ("page\n".to_owned(), "a.md\n".to_owned()));
}

/// Shows: HTTP-6
#[test]
fn a_rename_is_blocked_while_backlinks_are_unknown() {
    let space = TestSpace::new();
    space.vfs.set_link_resolver(Known(|_: &TreePath, _: &TreePath| Err(Fault::unavailable("the index is behind"))));
    space.put("a.md", "page\n");
    assert_eq!(renamed(&space, "a.md", "b.md").unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(space.text("a.md"), "page\n");
    assert_eq!(space.vfs.stat(Protocol::Http, &at("b.md")).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn unsaved_data_of_a_page_is_saved_before_its_links_change() {
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
fn the_commit_of_a_rename_with_links_has_the_announced_message() {
    let space = space_with_links(&["index.md"]);
    space.put("a.md", "page\n");
    let index = space.put("index.md", "a.md\n");
    space.vfs.set_save_message(&ann(), &at("b.md"), Some("Call it what it is")).unwrap();
    renamed(&space, "a.md", "b.md").unwrap();
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.log()[0], "ann|Call it what it is");
    assert_eq!(space.vfs.save_message(&ann(), &at("b.md")), None);
    assert_ne!(index.files[0].etag, Some(ETag::from_content(space.text("index.md").as_bytes())));
}

#[test]
fn a_rejected_durable_rename_does_not_happen_later() {
    let space = TestSpace::new();
    space.put("a.md", "page\n");
    let points = svcfs_store::FailPoints::new(space.directory.path());
    let rename = |durability| {
        let (from, to) = (name("a.md"), name("b.md"));
        space.vfs.rename_node_expecting(
            &ann(),
            (NodeId::ROOT, &from),
            (NodeId::ROOT, &to),
            (Precondition::Any, durability),
        )
    };
    points.inject_error(svcfs_store::FailPoint::LogWrite, 28);
    assert_eq!(rename(Durability::Now).unwrap_err().kind(), Kind::NoSpace);
    points.clear(svcfs_store::FailPoint::LogWrite);
    space.put("c.md", "another\n");
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.text("a.md"), "page\n");
    assert!(space.vfs.stat(Protocol::Fuse, &at("b.md")).is_err());
    rename(Durability::Now).unwrap();
    assert_eq!(space.text("b.md"), "page\n");
}
