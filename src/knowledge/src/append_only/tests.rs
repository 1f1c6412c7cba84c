use serde_json::json;
use svcfs_base::{
    Caller, Change, Client, ETag, Fault, Kind, PathComponent, Permissions, Precondition, Protocol, Scope,
};
use svcfs_vfs::NodeId;

use super::external_rewrite;
use crate::lint::stored_issues;
use crate::spaces::test_space::{TestSpace, path};

const LOG: &str = "---\ntitle: Log\nappend_only: true\n---\n\n# Log\n\n- one\n";
const UNLOCKED: &str = "---\ntitle: Log\n---\n\n# New\n";

fn apply(space: &TestSpace, caller: &Caller, change: Change) -> Result<(), Fault> {
    space.space().vfs.apply(caller, change).map(drop)
}

fn name(text: &str) -> PathComponent {
    PathComponent::parse(text).unwrap()
}

fn rename(from: &str, to: &str) -> Change {
    Change::Move { from: path(from), to: path(to), precondition: Precondition::Any }
}

#[test]
fn an_append_only_page_only_grows_through_every_protocol() {
    let space = TestSpace::with("", &[("logs/log.md", LOG), ("other.md", "# Other\n"), ("free/a.md", "# A\n")]);
    space.settle();
    let refused = |caller: &Caller, change: Change| {
        let fault = apply(&space, caller, change).unwrap_err();
        assert_eq!((fault.kind(), fault.kind().http(), fault.kind().errno()), (Kind::NotAllowed, 409, 22));
        assert!(fault.message().starts_with("`logs/log.md` is append-only: "), "{}", fault.message());
    };
    for protocol in Protocol::ALL.iter().copied().filter(|protocol| *protocol != Protocol::Direct) {
        let caller = &Caller::new(protocol);
        let put = |text: &str| Change::put(path("logs/log.md"), text.to_owned());
        for text in [
            "",
            "# New\n",
            UNLOCKED,
            &LOG.replace("one", "two"),
            &LOG.replace("- one\n", ""),
            &LOG.replace("Log\n", "Logs\n"),
        ] {
            refused(caller, put(text));
        }
        refused(caller, Change::remove(path("logs/log.md")));
        refused(caller, rename("logs/log.md", "logs/new.md"));
        refused(caller, rename("logs/log.md", "logs/log.md~"));
        refused(caller, rename("other.md", "logs/log.md"));
        refused(caller, rename("logs", "old"));
        let text = space.text("logs/log.md");
        apply(&space, caller, put(&format!("{text}- through {}\n", protocol.name()))).unwrap();
        apply(&space, caller, rename("free", "moved")).unwrap();
        apply(&space, caller, rename("moved", "free")).unwrap();
    }
    assert_eq!(space.text("logs/log.md").lines().count(), LOG.lines().count() + Protocol::ALL.len() - 1);
    space.get("append", json!({ "path": "logs/log.md", "content": "- appended\n" }));
    let link = json!({ "path": "logs/log.md", "content": "other.md", "symlink": true });
    assert_eq!(space.refusal("write", link).0, 409);
}

#[test]
fn only_privileged_callers_remove_the_key() {
    let with_key = |scope: Scope| Caller {
        permissions: Permissions { scope, folder: None },
        client: Client { key: Some(1), connection: None },
        ..Caller::new(Protocol::Http)
    };
    let root = Caller { may_unlock: true, ..Caller::new(Protocol::Fuse) };
    for (caller, may) in [
        (with_key(Scope::Admin), true),
        (with_key(Scope::Write), false),
        (Caller::new(Protocol::Fuse), false),
        (root, true),
    ] {
        let space = TestSpace::with("", &[("log.md", LOG)]);
        let put = |text: &str| apply(&space, &caller, Change::put(path("log.md"), text.to_owned()));
        assert!(put(&LOG.replace("one", "two")).is_err(), "the key stays: only additions");
        assert_eq!(put(UNLOCKED).is_ok(), may, "{caller:?}");
        assert_eq!(apply(&space, &caller, Change::remove(path("log.md"))).is_ok(), may, "{caller:?}");
    }
    for (config, status) in [("", None), ("[auth]\ntype = \"apikey\"\napi_key = \"0123456789abcdef\"\n", Some(409))] {
        let space = TestSpace::with(config, &[("log.md", LOG)]);
        let forced = |text: &str| space.ask("write", json!({ "path": "log.md", "content": text, "force": true }));
        assert_eq!(forced(&LOG.replace("one", "two")).unwrap_err().kind(), Kind::NotAllowed);
        assert_eq!(forced(UNLOCKED).err().map(|fault| fault.kind().http()), status, "{config}");
    }
}

#[test]
fn an_external_edit_is_stored_and_reported() {
    let space = TestSpace::with("", &[("log.md", LOG)]);
    space.edit_behind("log.md", &format!("{LOG}- two\n"));
    assert_eq!(external_rewrite(space.space(), &path("log.md")).unwrap(), None);
    let old = ETag::from_content(space.text("log.md").as_bytes());
    let new = LOG.replace("one", "changed");
    space.edit_behind("log.md", &new);
    assert_eq!(space.text("log.md"), new);
    let issue = external_rewrite(space.space(), &path("log.md")).unwrap().unwrap();
    assert!(issue.line == 8 && issue.message.contains("line 8 was changed"), "{issue:?}");
    let event = stored_issues(space.space(), &path("log.md"), ETag::from_content(new.as_bytes()), Some(old)).unwrap();
    assert_eq!(event.last().unwrap().rule.name(), "append-only-violation");
    let report = space.get("lint", json!({ "path": "log.md" }));
    assert_eq!(report["issues"][0]["rule"], "append-only-violation", "{report}");
    // Also after later additions.
    space.get("append", json!({ "path": "log.md", "content": "- three\n" }));
    assert!(external_rewrite(space.space(), &path("log.md")).unwrap().is_some());
}

#[test]
fn a_directory_is_checked_with_pages_that_are_not_indexed_yet() {
    let space = TestSpace::new();
    for protocol in [Protocol::Fuse, Protocol::Nfs, Protocol::WebDav, Protocol::Http] {
        let caller = &Caller::new(protocol);
        for number in 0..10 {
            let directory = format!("{}{number}", protocol.name());
            let put =
                |text: &str| apply(&space, caller, Change::put(path(&format!("{directory}/log.md")), text.to_owned()));
            put(LOG).unwrap();
            let refused = apply(&space, caller, rename(&directory, "moved")).unwrap_err();
            assert_eq!(refused.kind(), Kind::NotAllowed, "{directory}: {refused}");
            // As a mount does it.
            let (from, to) = (name(&directory), name("moved"));
            let refused = space.space().vfs.rename_node(caller, (NodeId::ROOT, &from), (NodeId::ROOT, &to), true);
            assert_eq!(refused.unwrap_err().kind(), Kind::NotAllowed, "{directory}");
        }
    }
    // Free again before the index knows it.
    let root = Caller { may_unlock: true, ..Caller::new(Protocol::Fuse) };
    apply(&space, &root, Change::put(path("fuse0/log.md"), UNLOCKED.to_owned())).unwrap();
    apply(&space, &root, rename("fuse0", "moved")).unwrap();
}
