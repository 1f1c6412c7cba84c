//! Folders that are moved and copied in place of what stands there: in one commit, and nothing is
//! lost unless it is done.

use svcfs_base::{Caller, Fault, PathComponent, Precondition};
use svcfs_vfs::WriteAt;

use super::*;
use crate::folders::rename_resource;
use crate::replace::with_backup;
use crate::resolved::ResolvedResource;

/// A page that lint refuses.
const BROKEN: &str = "---\na: [\n---\n";

impl Served {
    /// Everything below a folder of the first space, by its path there, but empty folders.
    pub(super) fn below(&self, folder: &str) -> Vec<(String, String)> {
        let root = self.folder.path().join("default");
        let mut found = Vec::new();
        let mut folders = vec![root.join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
        found.sort();
        found
    }

    pub(super) fn tree(&self, folders: &[&str], pages: &[(&str, &str)]) {
        for folder in folders {
            assert_eq!(self.send("MKCOL", folder, &[], "").status, 201, "{folder}");
        }
        for (page, text) in pages {
            self.put(page, text);
        }
    }
}

fn told(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// Shows: DAV-3
#[test]
fn a_folder_takes_the_place_of_another_in_one_commit() {
    let served = Served::new();
    served.tree(
        &["/from", "/from/in", "/from/empty", "/to", "/to/in", "/to/old"],
        &[
            ("/from/both.md", "# New\n"),
            ("/from/in/new.md", "# In\n"),
            ("/to/both.md", "# Old\n"),
            ("/to/in/gone.md", "# Gone\n"),
            ("/to/old/gone.md", "# Gone\n"),
        ],
    );
    let set = "<propertyupdate xmlns='DAV:'><set><prop><mark xmlns='urn:x'>seven</mark></prop></set></propertyupdate>";
    for marked in ["/from/in", "/from/both.md"] {
        assert_eq!(served.send("PROPPATCH", marked, &[], set).status, 207);
    }
    let mut seen = 0;
    served.commits(&mut seen);
    let moved = served.send("MOVE", "/from", &[("destination", "/to")], "");
    assert_eq!(moved.status, 204, "{}", moved.text());
    assert_eq!(served.commits(&mut seen), ["webdav: webdav: rename dir from → to"]);
    assert_eq!(served.below("to"), told(&[("to/both.md", "# New\n"), ("to/in/new.md", "# In\n")]));
    let root = served.folder.path().join("default");
    let is_there = |name: &str| root.join(name).exists();
    assert_eq!(["from", "to/old", "to/empty"].map(is_there), [false, false, true]);
    for marked in ["/to/in", "/to/both.md"] {
        let told = served.send("PROPFIND", marked, &[("depth", "0")], "").text();
        assert!(told.contains("seven"), "{marked}: {told}");
    }
}

/// Shows: DAV-3
#[test]
fn a_refused_move_leaves_its_target_unchanged() {
    let served = Served::new();
    served.tree(&["/draft.tmp", "/to", "/to/in"], &[("/to/a.md", "# A\n"), ("/to/in/b.md", "# B\n")]);
    // Scratch files are not looked at; under their new names they are pages.
    served.put("/draft.tmp/a.md", BROKEN);
    let mut seen = 0;
    served.commits(&mut seen);
    let refused = served.send("MOVE", "/draft.tmp", &[("destination", "/to")], "");
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert_eq!(served.below("to"), told(&[("to/a.md", "# A\n"), ("to/in/b.md", "# B\n")]));
    assert_eq!(served.below("draft.tmp"), told(&[("draft.tmp/a.md", BROKEN)]));
    assert_eq!(served.commits(&mut seen), [""; 0]);
}

/// Shows: DAV-3
#[test]
#[expect(clippy::disallowed_methods, reason = "as a program makes it that knows nothing of us")]
fn a_refused_copy_leaves_its_target_unchanged() {
    let served = Served::new();
    served.tree(&["/from", "/to", "/to/page.md"], &[("/to/a.md", "# A\n"), ("/to/page.md/b.md", "# B\n")]);
    let stands = served.below("to");
    std::fs::write(served.folder.path().join("default/from/page.md"), BROKEN).unwrap();
    served.server.primary().vfs.adopt(&[TreePath::parse("from/page.md").unwrap()]).unwrap();
    // Something of its kind, a file where a folder comes, a folder where a file comes.
    for (from, to) in [("/from", "/to"), ("/from", "/to/a.md"), ("/from/page.md", "/to/page.md")] {
        let refused = served.send("COPY", from, &[("destination", to)], "");
        assert_eq!(refused.status, 422, "{from} {to}: {}", refused.text());
        assert_eq!(served.below("to"), stands, "{from} {to}");
    }
    assert_eq!(served.send("COPY", "/to/a.md", &[("destination", "/to/page.md")], "").status, 204);
    assert_eq!(served.below("to"), told(&[("to/a.md", "# A\n"), ("to/page.md", "# A\n")]));
}

#[test]
fn folders_and_files_replace_each_other_with_their_contents() {
    for method in ["COPY", "MOVE"] {
        let served = Served::new();
        let fill = |name: &str| {
            served.tree(&[&format!("/{name}"), &format!("/{name}/x")], &[(&format!("/{name}/x/a.md"), "# A\n")]);
        };
        fill("one");
        served.put("/two", "two\n");
        let reply = served.send(method, "/one", &[("destination", "/two")], "");
        assert_eq!(reply.status, 204, "{method}: {}", reply.text());
        assert_eq!(served.below("two"), told(&[("two/x/a.md", "# A\n")]));
        served.put("/three", "three\n");
        let reply = served.send(method, "/three", &[("destination", "/two")], "");
        assert_eq!(reply.status, 204, "{method}: {}", reply.text());
        assert_eq!(served.text("two").as_deref(), Some("three\n"));
        // A file where a folder is, and the other way round, in folders.
        fill("four");
        served.tree(&["/five", "/five/y"], &[("/five/x", "x\n"), ("/five/y/gone.md", "# G\n")]);
        let reply = served.send(method, "/four", &[("destination", "/five")], "");
        assert_eq!(reply.status, 204, "{method}: {}", reply.text());
        assert_eq!(served.below("five"), told(&[("five/x/a.md", "# A\n")]));
        let names = std::fs::read_dir(served.folder.path().join("default")).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(names.iter().all(|name| !name.contains("replaced")), "{method}: {names:?}");
    }
}

/// What stands at `to` and beside it after a replacing that does something and fails then.
fn failed(served: &Served, work: impl FnOnce(&Served)) -> (Vec<(String, String)>, String) {
    let asked = served.asked("MOVE", "/from");
    let there = ResolvedResource::at_no_follow(&asked, &TreePath::parse("to").unwrap()).unwrap();
    let work = || {
        work(served);
        Err(Fault::unavailable("the disk takes its time"))
    };
    let fault = with_backup(&asked, &there, work, || {}).unwrap_err();
    (served.below("to"), fault.message().to_owned())
}

/// Shows: DAV-3
#[test]
fn a_file_created_at_a_replaced_path_survives_a_failed_replace() {
    let before = |served: &Served| {
        served.tree(&["/from", "/to"], &[("/from/a.md", "# A\n"), ("/to/b.md", "# B\n")]);
    };
    let nothing = Served::new();
    before(&nothing);
    let (stands, told) = failed(&nothing, |_| {});
    assert_eq!((stands, told.as_str()), (told_of("to/b.md", "# B\n"), "the disk takes its time"));
    // Moved, and nobody knows whether it is safe.
    let moved = Served::new();
    before(&moved);
    let (stands, told) = failed(&moved, |served| {
        let asked = served.asked("MOVE", "/from");
        let source = ResolvedResource::at_no_follow(&asked, &TreePath::parse("from").unwrap()).unwrap();
        rename_resource(&asked, &source, &TreePath::parse("to").unwrap(), Precondition::Absent).unwrap();
    });
    assert_eq!(stands, told_of("to/a.md", "# A\n"));
    // Of another client, who was told that it is there.
    let taken = Served::new();
    before(&taken);
    let (stands, also_told) = failed(&taken, |served| {
        served.tree(&["/to"], &[("/to/theirs.md", "# T\n")]);
    });
    assert_eq!(stands, told_of("to/theirs.md", "# T\n"));
    for (served, told) in [(&moved, told), (&taken, also_told)] {
        let place = told.split('`').nth(1).unwrap();
        assert!(told.starts_with("the disk takes its time; the replaced resource is at `.svc-replaced-"), "{told}");
        assert_eq!(served.below(place), told_of(&format!("{place}/b.md"), "# B\n"));
    }
}

fn told_of(path: &str, text: &str) -> Vec<(String, String)> {
    told(&[(path, text)])
}

/// Shows: DAV-3
#[test]
#[expect(clippy::disallowed_methods, reason = "as a program makes it that knows nothing of us")]
fn a_copy_refused_half_way_is_rolled_back() {
    let served = Served::new();
    served.tree(&["/from"], &[("/to", "two\n")]);
    let from = served.folder.path().join("default/from");
    for name in ["a.bin", "b.bin"] {
        std::fs::File::create(from.join(name)).unwrap().set_len(MAX_FILE_BYTES as u64 / 2 + 1).unwrap();
    }
    std::fs::write(from.join("page.md"), BROKEN).unwrap();
    let names = ["a.bin", "b.bin", "page.md"].map(|name| TreePath::parse(&format!("from/{name}")).unwrap());
    served.server.primary().vfs.adopt(&names).unwrap();
    let mut seen = 0;
    served.commits(&mut seen);
    assert_eq!(served.send("COPY", "/from", &[("destination", "/to")], "").status, 422);
    assert_eq!(served.text("to").as_deref(), Some("two\n"));
    assert!(!served.commits(&mut seen).is_empty(), "nothing had come");
}

#[test]
fn files_being_written_in_a_mount_move_and_go_with_their_folder() {
    let served = Served::new();
    served.tree(&["/from", "/to"], &[("/from/a.md", "# A\n"), ("/to/b.md", "# B\n")]);
    let vfs = &served.server.primary().vfs;
    let mount = Caller::new(Protocol::Fuse);
    let begun = |folder: &str| {
        let (node, _) = vfs.lookup_path(&mount, &TreePath::parse(folder).unwrap()).unwrap();
        let (_, _, handle) = vfs.create(&mount, node, &PathComponent::parse("new.md").unwrap(), 0o644).unwrap();
        vfs.write_node(&mount, handle, WriteAt::Offset(0), b"# New\n").unwrap();
        handle
    };
    let coming = begun("from");
    let moved = served.send("MOVE", "/from", &[("destination", "/to")], "");
    assert_eq!(moved.status, 204, "{}", moved.text());
    vfs.release(&mount, coming).unwrap();
    assert_eq!(served.below("to"), told(&[("to/a.md", "# A\n"), ("to/new.md", "# New\n")]));
    served.send("DELETE", "/to/new.md", &[], "");
    let gone = begun("to");
    assert_eq!(served.send("DELETE", "/to", &[], "").status, 204);
    let _nothing_to_save = vfs.release(&mount, gone);
    assert!(!served.folder.path().join("default/to").exists());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "as a program makes it that knows nothing of us")]
fn a_folder_key_copies_and_moves_folders_with_large_files() {
    let keys = "[auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"full\"\n\
                [[auth.api_keys]]\nkey = \"docs\"\nscope = \"write\"\nprefix = \"docs\"\n";
    let served = Served::with(keys);
    let ask = |method: &str, path: &str, key: &str, to: &str| {
        let headers = [("authorization", key), ("destination", to)];
        let headers = if to.is_empty() { &headers[..1] } else { &headers[..] };
        served.send(method, path, headers, "").status
    };
    for folder in ["/docs", "/docs/from", "/docs/to"] {
        assert_eq!(ask("MKCOL", folder, "Bearer full", ""), 201);
    }
    let root = served.folder.path().join("default/docs");
    let large = std::fs::File::create(root.join("from/film.bin")).unwrap();
    large.set_len(MAX_FILE_BYTES as u64 + 1).unwrap();
    std::fs::write(root.join("to/old.bin"), "old").unwrap();
    let docs = "Bearer docs";
    // Onto the folder of the key nothing can be copied that the key sees: it lies in that.
    assert_eq!(ask("COPY", "/docs/from", docs, "/docs"), 403);
    assert_eq!(ask("COPY", "/docs/from", docs, "/docs/to"), 204);
    assert_eq!(ask("MOVE", "/docs/from", docs, "/docs/to"), 204);
    let there: Vec<_> = std::fs::read_dir(root.join("to")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((there, root.join("from").exists()), (vec!["film.bin".into()], false));
}
