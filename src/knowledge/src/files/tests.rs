use serde_json::json;
use svcfs_base::{Caller, Change, ETag, Precondition, Protocol};

use super::TextOrBytes;
use crate::kernel::OperationEntry;
use crate::spaces::test_space::{TestSpace, expecting, from_run, path, status_and_error};

mod appending;
mod attachments;
mod bulk;
mod dry_run;
mod editing;
mod linking;
mod merging;
mod renaming;
mod renaming_directories;
mod uploading;

/// Shows: HTTP-4
#[test]
fn content_travels_as_text_or_as_base64() {
    for bytes in [&b""[..], b"text \xc3\xa4", b"\xff\xfe\x00", b"{\"base64\": 1}"] {
        let content = TextOrBytes(bytes::Bytes::copy_from_slice(bytes));
        let json = serde_json::to_value(&content).unwrap();
        assert_eq!(json.is_string(), std::str::from_utf8(bytes).is_ok());
        assert_eq!(serde_json::from_value::<TextOrBytes>(json).unwrap(), content);
    }
    for wrong in
        [json!({}), json!({"base64": "?"}), json!({"base64": "AA==", "x": "y"}), json!({"text": "a"}), json!(1)]
    {
        assert!(serde_json::from_value::<TextOrBytes>(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn an_agent_is_shown_three_levels_unless_it_asks_for_more() {
    let space = TestSpace::with("", &[("a/b/c/d.md", "# d\n")]);
    let agent = Caller::new(Protocol::Mcp);
    let told = |arguments| {
        let entry = OperationEntry::new::<super::operations::ListTree>();
        (entry.call_for_agent)(arguments, &space.cx(&agent)).unwrap().text.unwrap()
    };
    assert_eq!(told(json!({})), "a/\n  b/\n    c/\n");
    assert_eq!(told(json!({ "depth": 4 })), "a/\n  b/\n    c/\n      d.md (4 bytes)\n");
    assert_eq!(told(json!({ "path": "a/b", "depth": 2 })), "c/\n  d.md (4 bytes)\n");
    assert!(space.get("tree", json!({})).to_string().contains("d.md"), "everybody else is shown all of them");
}

#[test]
fn permalinks_are_returned_where_a_public_address_is_set() {
    let space = TestSpace::with("[server]\npublic_url = \"https://notes.example\"\n", &[("a b/ä.md", "x\n")]);
    let permalink = "https://notes.example/page/a%20b/%C3%A4.md";
    assert_eq!(space.get("read", json!({ "path": "a b/ä.md" }))["permalink"], permalink);
    let tree = space.get("tree", json!({}));
    assert_eq!((tree[0].get("permalink"), &tree[0]["children"][0]["permalink"]), (None, &json!(permalink)));
    let space = TestSpace::with("", &[("a.md", "x\n")]);
    assert_eq!(space.get("read", json!({ "path": "a.md" })).get("permalink"), None);
}

#[test]
fn an_etag_is_no_condition_for_a_directory() {
    let space = TestSpace::new();
    space.put("d/a.md", "a\n");
    space.get("delete", json!({ "path": "d/a.md" }));
    let stale = expecting(Precondition::OneOf(vec![ETag::from_content(b"x")]));
    let (status, message) = status_and_error(space.ask_as(&stale, "delete", json!({ "path": "d" })));
    assert_eq!((status, message.as_str()), (400, "`If-Match`: `d` is a directory, which has no ETag"));
    assert!(space.ask_as(&expecting(Precondition::Present), "delete", json!({ "path": "d" })).is_ok());
}

#[test]
fn the_tree_has_the_shape_of_the_contract() {
    let space =
        TestSpace::with("", &[("a/b/c.md", "# c\n"), ("a/x.txt", "12345"), (".hidden/h.md", "h\n"), ("z.md", "# z\n")]);
    assert_eq!(
        space.get("tree", json!({})),
        json!([
            { "path": "a", "name": "a", "isDir": true, "size": 0, "children": [
                { "path": "a/b", "name": "b", "isDir": true, "size": 0, "children": [
                    { "path": "a/b/c.md", "name": "c.md", "isDir": false, "size": 4, "children": null },
                ] },
                { "path": "a/x.txt", "name": "x.txt", "isDir": false, "size": 5, "children": null },
            ] },
            { "path": "z.md", "name": "z.md", "isDir": false, "size": 4, "children": null },
        ])
    );
    assert_eq!(
        space.get("tree", json!({ "path": "/a/", "depth": 1 })),
        json!([
            { "path": "a/b", "name": "b", "isDir": true, "size": 0, "children": [] },
            { "path": "a/x.txt", "name": "x.txt", "isDir": false, "size": 5, "children": null },
        ])
    );
    assert_eq!(space.refusal("tree", json!({ "path": "nowhere" })), (404, "path not found: nowhere".to_owned()));
    let told = "`z.md` is a file, not a directory";
    assert_eq!(space.refusal("tree", json!({ "path": "z.md" })), (404, told.to_owned()));
}

#[test]
fn the_tree_with_details_shows_what_a_file_system_shows() {
    let space = TestSpace::with("", &[("a/b.md", "# b\n"), (".hidden/h.md", "h\n"), ("z.md", "# z\n")]);
    space.get("write", json!({ "path": "l.md", "content": "z.md", "symlink": true }));
    for (protocol, hidden) in [(Protocol::Remote, Some(".hidden")), (Protocol::Http, None)] {
        let caller = svcfs_base::Caller::new(protocol);
        let tree = space.ask_as(&caller, "tree", json!({ "depth": 1, "details": true })).unwrap();
        let shown = tree.as_array().unwrap().iter().filter(|node| node["name"] != ".svc");
        let shown: Vec<_> =
            shown.map(|node| [&node["name"], &node["type"]].map(|text| text.as_str().unwrap())).collect();
        let expected = hidden.map(|name| [name, "directory"]).into_iter();
        let expected = expected.chain([["a", "directory"], ["l.md", "symlink"], ["z.md", "file"]]);
        assert_eq!(shown, expected.collect::<Vec<_>>(), "{protocol:?}");
    }
    // Of a file, the file alone.
    let of_file = space.get("tree", json!({ "path": "a/b.md", "details": true }));
    assert_eq!(of_file[0]["path"], "a/b.md");
    assert!(of_file[0]["modified"].as_str().unwrap().ends_with('Z'), "{of_file}");
    assert_eq!(space.get("tree", json!({ "path": "l.md", "details": true }))[0]["type"], "symlink");
    assert_eq!(space.refusal("tree", json!({ "path": "nowhere", "details": true })).0, 404);
}

#[test]
fn a_page_is_read_with_its_etag() {
    let space = TestSpace::new();
    let etag = space.put("a.md", "---\ntitle: A\n---\n\n# A\n");
    assert_eq!(etag, ETag::from_content(b"---\ntitle: A\n---\n\n# A\n"));
    let page = space.get("read", json!({ "path": "//a.md" }));
    assert_eq!((&page["path"], &page["etag"], &page["size"]), (&json!("a.md"), &json!(etag), &json!(22)));
    assert_eq!(page["content"], "---\ntitle: A\n---\n\n# A\n");
    let metadata = space.get("read", json!({ "path": "a.md", "metadata_only": true }));
    assert_eq!((&metadata["frontmatter"], metadata.get("content")), (&json!({ "title": "A" }), None));
    let unchanged = space.get("read", json!({ "path": "a.md", "if_not_etag": etag }));
    assert_eq!((&unchanged["not_modified"], unchanged.get("content")), (&json!(true), None));
}

#[test]
fn what_cannot_be_read_is_said_in_the_contract_s_words() {
    let space = TestSpace::with("", &[("dir/a.md", "# a\n")]);
    for (argument, status, message) in [
        (json!({}), 400, "path is required"),
        (json!({ "path": "" }), 400, "path is required"),
        (json!({ "path": "b.md" }), 404, "file not found: b.md"),
        (json!({ "path": "dir" }), 404, "file not found: dir"),
        (json!({ "path": ".git/HEAD" }), 404, "file not found: .git/HEAD"),
        (json!({ "path": ".svc/config.toml" }), 404, "file not found: .svc/config.toml"),
        (json!({ "path": "dir/%2e%2e/x" }), 400, "path denied: `..` in `%2e%2e`"),
    ] {
        assert_eq!(space.refusal("read", argument), (status, message.to_owned()));
    }
}

#[test]
fn bytes_that_are_not_text_survive_writing_and_reading() {
    let space = TestSpace::new();
    let picture = json!({ "base64": "iVBORw0KGgr/AA==" });
    space.get("write", json!({ "path": "p/x.png", "content": picture }));
    assert_eq!(space.get("read", json!({ "path": "p/x.png" }))["content"], picture);
    let (status, message) = space.refusal("write", json!({ "path": "x.md", "content": picture }));
    assert_eq!((status, message.as_str()), (400, "`content`: a page must be UTF-8 text; byte 1 is not"));
}

#[test]
fn links_are_resolved_to_public_addresses() {
    let config = "[server]\npublic_url = \"https://notes.example.org/\"\n";
    let space = TestSpace::with(config, &[("guides/Sign in.md", "# Sign in\n")]);
    let text = "[[Sign in]], ![[sign in#Tokens & co|tokens]], [[nowhere]], `[[Sign in]]`\n";
    space.put("a.md", text);
    let resolved = space.get("read", json!({ "path": "a.md", "resolve_links": true }));
    let page = "https://notes.example.org/page/guides/Sign%20in.md";
    assert_eq!(
        resolved["content"].as_str().unwrap(),
        format!("[Sign in]({page}), ![tokens]({page}#tokens--co), [[nowhere]], `[[Sign in]]`\n")
    );
    assert_eq!(space.text("a.md"), text);
}

#[test]
fn pages_are_formatted_and_other_files_are_not_changed() {
    let space = TestSpace::new();
    let etag = space.put("a.md", "* one\r\n* two   \n\n\n\n\nend");
    assert_eq!(space.text("a.md"), "- one\n- two  \n\n\nend\n");
    assert_eq!(etag, ETag::from_content(space.text("a.md").as_bytes()));
    space.put("a.txt", "* one  \r\n");
    assert_eq!(space.text("a.txt"), "* one  \r\n");
    space.get("write", json!({ "path": "b.md", "content": "* one", "exact": true }));
    assert_eq!(space.text("b.md"), "* one", "as it was asked for");
    let plain = TestSpace::with("[lint]\nauto_format = false\n", &[]);
    plain.put("a.md", "* one");
    assert_eq!(plain.text("a.md"), "* one");
}

/// Shows: VIS-5
#[test]
fn what_is_appended_stays_as_it_is() {
    let space = TestSpace::new();
    space.put("log.md", "- one\n");
    space.get("append", json!({ "path": "log.md", "content": "* two\n" }));
    assert_eq!(space.text("log.md"), "- one\n\n* two\n");
}

#[test]
fn a_page_with_a_lint_error_is_refused_and_nothing_written() {
    let space = TestSpace::new();
    let broken = json!({ "path": "a.md", "content": "---\ntitle: [\n---\n# a\n" });
    let fault = space.ask("write", broken.clone()).unwrap_err();
    assert_eq!(fault.kind().http(), 422);
    assert!(fault.message().starts_with("frontmatter-yaml-invalid (line "), "{fault}");
    assert_eq!(fault.detail()["issues"][0]["severity"], "error");
    assert_eq!(space.refusal("read", json!({ "path": "a.md" })).0, 404);
    let lenient = TestSpace::with("[lint]\nreject_errors = false\n", &[]);
    lenient.get("write", broken);
}

#[test]
fn a_write_formats_only_what_it_adds_to_the_stored_page() {
    let space = TestSpace::new();
    let stored = "# A\n\n* one \n\n1914. The war\n\n$$\n+ b\n$$";
    let put = Change::put(path("a.md"), stored);
    space.space().vfs.apply(&Caller::new(Protocol::WebDav), put).unwrap();
    let before = space.space().vfs.last_seq();
    for name in ["write", "bulk_write"] {
        let content = json!({ "path": "a.md", "content": stored });
        let arguments = if name == "bulk_write" { json!({ "files": [content] }) } else { content };
        space.get(name, arguments);
        assert_eq!((space.text("a.md").as_str(), space.space().vfs.last_seq()), (stored, before), "{name}");
    }
    space.get("write", json!({ "path": "a.md", "content": format!("{stored}\n\nnew \n\n+ c \n") }));
    assert_eq!(space.text("a.md"), format!("{stored}\n\nnew\n\n- c\n"));
}

#[test]
fn an_error_of_the_stored_page_does_not_refuse_a_write() {
    let space = TestSpace::new();
    let broken = "# A\n\n| a |\n|---|\n| 1 | 2 |\n";
    space.space().vfs.apply(&Caller::new(Protocol::Fuse), Change::put(path("a.md"), broken)).unwrap();
    space.get("write", json!({ "path": "a.md", "content": format!("{broken}\nmore\n") }));
    space.get("append", json!({ "path": "a.md", "content": "end\n" }));
    space.get("rename", json!({ "from": "a.md", "to": "b.md" }));
    let refused = space.ask("append", json!({ "path": "b.md", "content": "| b |\n|---|\n| 1 | 2 |\n" })).unwrap_err();
    assert!(refused.message().starts_with("table-column-mismatch (line 13): "), "{refused}");
}

#[test]
fn a_condition_that_does_not_hold_writes_nothing() {
    let space = TestSpace::new();
    let first = space.put("a.md", "one\n");
    let second = space.put("a.md", "two\n");
    let write = |expect: Precondition, path: &str| {
        space.ask_as(&expecting(expect), "write", json!({ "path": path, "content": "three\n" }))
    };
    let (status, message) = status_and_error(write(Precondition::OneOf(vec![first]), "a.md"));
    assert_eq!(status, 409);
    assert!(message.starts_with("conflict: file was modified since your last read"), "{message}");
    assert_eq!(status_and_error(write(Precondition::OneOf(vec![first]), "new.md")).0, 409);
    assert_eq!(status_and_error(write(Precondition::Present, "new.md")).0, 409);
    assert_eq!(status_and_error(write(Precondition::Absent, "a.md")).0, 412);
    assert_eq!(space.text("a.md"), "two\n");
    assert_eq!(space.refusal("read", json!({ "path": "new.md" })).0, 404);
    write(Precondition::OneOf(vec![second]), "a.md").unwrap();
    write(Precondition::Absent, "new.md").unwrap();
}

#[test]
fn a_page_over_32_mib_is_refused() {
    let space = TestSpace::new();
    let content = "x".repeat((32 << 20) + 1);
    let refusal = space.refusal("write", json!({ "path": "a.md", "content": content }));
    assert_eq!(refusal, (413, "file exceeds 32 MB limit".to_owned()));
}

#[test]
fn the_origin_is_noted_in_the_frontmatter() {
    let space = TestSpace::new();
    let run = from_run("agent", "run:249");
    let write = |path: &str, content: &str| space.ask_as(&run, "write", json!({ "path": path, "content": content }));
    write("a.md", "---\n# kept\nderived-from: paper\ntitle: A\n---\nbody\n").unwrap();
    let noted = space.get("read", json!({ "path": "a.md", "metadata_only": true }))["frontmatter"].clone();
    let list = noted["derived-from"].as_array().unwrap();
    assert_eq!((list.len(), &list[0]), (2, &json!("paper")));
    assert_eq!((&list[1]["type"], &list[1]["id"], &list[1]["actor"]), (&json!("run"), &json!("249"), &json!("agent")));
    assert!(list[1]["date"].as_str().unwrap().starts_with("2026-01-01T00:"));
    assert!(space.text("a.md").contains("# kept") && space.text("a.md").ends_with("---\nbody\n"));
    for broken in ["---\ntitle: A\nbody\n", "---\ntitle: [\n---\nbody\n"] {
        let (status, message) = status_and_error(write("b.md", broken));
        assert_eq!(status, 400);
        assert!(message.starts_with("provenance: "), "{message}");
    }
    write("data.csv", "a,b\n").unwrap();
    assert_eq!(space.text("data.csv"), "a,b\n");
}

#[test]
fn a_removed_file_is_absent_and_its_empty_directory_can_follow() {
    let space = TestSpace::new();
    let etag = space.put("d/a.md", "a\n");
    assert_eq!(space.refusal("delete", json!({ "path": "d/b.md" })), (404, "file not found: d/b.md".to_owned()));
    assert_eq!(space.refusal("delete", json!({ "path": "d" })).0, 409);
    let stale = expecting(Precondition::OneOf(vec![ETag::from_content(b"other")]));
    assert_eq!(status_and_error(space.ask_as(&stale, "delete", json!({ "path": "d/a.md" }))).0, 409);
    assert_eq!(status_and_error(space.ask_as(&stale, "delete", json!({ "path": "d/b.md" }))).0, 409);
    let right = expecting(Precondition::OneOf(vec![etag]));
    let deleted = space.ask_as(&right, "delete", json!({ "path": "/d/a.md" })).unwrap();
    assert_eq!(deleted, json!({ "deleted": "d/a.md" }));
    assert_eq!(space.refusal("read", json!({ "path": "d/a.md" })).0, 404);
    assert_eq!(space.newest("d/a.md").2, "delete: d/a.md");
    space.get("delete", json!({ "path": "d" }));
    assert_eq!(space.get("tree", json!({})), json!([]));
}

#[test]
fn a_link_s_target_is_read_and_not_followed() {
    let space = TestSpace::new();
    space.put("a.md", "a\n");
    let link = svcfs_base::Change::symlink(path("l.md"), "a.md");
    space.space().vfs.apply(&crate::spaces::test_space::caller(), link).unwrap();
    assert_eq!(space.get("readlink", json!({ "path": "l.md" })), json!({ "path": "l.md", "target": "a.md" }));
    assert_eq!(space.refusal("readlink", json!({ "path": "a.md" })).0, 400);
    assert_eq!(space.refusal("readlink", json!({ "path": "b.md" })), (404, "file not found: b.md".to_owned()));
    let tree = space.get("tree", json!({}));
    assert_eq!((&tree[1]["name"], &tree[1]["isDir"], &tree[1]["size"]), (&json!("l.md"), &json!(false), &json!(4)));
}

#[test]
fn a_link_is_no_way_into_what_is_hidden() {
    let space = TestSpace::with("", &[(".svc/config.toml", "# secret\n"), ("a.md", "a\n")]);
    let vfs = &space.space().vfs;
    let owner = svcfs_base::Caller::new(svcfs_base::Protocol::Internal);
    for (link, target) in [("file.md", ".svc/config.toml"), ("out.md", "/etc/passwd"), ("up.md", "../x")] {
        vfs.apply(&owner, svcfs_base::Change::symlink(path(link), target)).unwrap();
        for operation in ["read", "toc", "peek"] {
            let outcome = space.ask(operation, json!({ "path": link }));
            assert!(outcome.is_err(), "`{operation}` of `{link}` answered {outcome:?}");
        }
    }
}

#[test]
fn a_link_is_renamed_and_not_appended_to() {
    let space = TestSpace::new();
    space.put("a.md", "a\n");
    let link = svcfs_base::Change::symlink(path("l.md"), "a.md");
    space.space().vfs.apply(&crate::spaces::test_space::caller(), link).unwrap();
    let (status, message) = space.refusal("append", json!({ "path": "l.md", "content": "x" }));
    assert_eq!((status, message.as_str()), (400, "`l.md` is a symbolic link to `a.md`; append to its target"));
    space.get("rename", json!({ "from": "l.md", "to": "m.md" }));
    assert_eq!(space.get("readlink", json!({ "path": "m.md" }))["target"], "a.md");
    assert_eq!(space.text("a.md"), "a\n");
}

#[test]
fn a_linked_directory_is_no_way_into_what_is_hidden() {
    let space = TestSpace::with("", &[(".svc/config.toml", "# secret\n"), ("a.md", "a\n")]);
    let owner = svcfs_base::Caller::new(svcfs_base::Protocol::Internal);
    for (link, target) in [("dir", ".svc"), ("git", ".git")] {
        space.space().vfs.apply(&owner, svcfs_base::Change::symlink(path(link), target)).unwrap();
    }
    for hidden in ["dir/config.toml", "dir/state/log.db", "git/HEAD"] {
        for operation in ["read", "toc", "peek"] {
            let outcome = space.ask(operation, json!({ "path": hidden }));
            assert!(outcome.is_err(), "`{operation}` of `{hidden}` answered {outcome:?}");
        }
    }
    for hidden in ["dir/config.toml", "git/config", "git/hooks/post-commit"] {
        assert!(space.ask("write", json!({ "path": hidden, "content": "x" })).is_err(), "{hidden}");
        assert!(space.ask("append", json!({ "path": hidden, "content": "x" })).is_err(), "{hidden}");
    }
    assert!(space.ask("tree", json!({ "path": "git" })).is_err());
    assert!(space.ask("rename", json!({ "from": "git/HEAD", "to": "b.md" })).is_err());
}
