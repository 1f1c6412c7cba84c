//! Links that follow a page which is renamed through a filesystem door, where the settings want
//! that (gaps.md D7).

use crate::protocols::Kind;
use crate::space::TestSpace;

/// Doors that files are renamed by.
const DOORS: [Kind; 3] = [Kind::Fuse, Kind::WebDav, Kind::Nfs];

/// How commits are made.
const COMMITS: [&str; 2] = ["", "[versioning]\nasync_commit = true\n"];

fn each_space(links: &str, scenario: impl Fn(&dyn crate::protocols::Door, &TestSpace)) {
    for kind in DOORS {
        for commits in COMMITS {
            let Some(space) = kind.space_with(&format!("{links}\n{commits}")) else { continue };
            println!("through {kind:?} with `{commits}`");
            scenario(&*kind.of(&space), &space);
        }
    }
}

/// Shows: HTTP-6
#[test]
fn links_follow_a_filesystem_rename_in_the_same_commit() {
    each_space("[links]\nupdate_on_rename = true\n", |protocol, space| {
        protocol.write("guides/tides.md", b"# Tides\n\nSee [the moon](./moon.md).\n").unwrap();
        protocol.write("guides/moon.md", b"# Moon\n").unwrap();
        protocol
            .write("index.md", b"# Index\n\n[[tides]] and [[guides/tides.md|again]], [here](guides/tides.md).\n")
            .unwrap();
        // So that what is remembered of it must be forgotten.
        protocol.read("index.md").unwrap();
        protocol.rename("guides/tides.md", "sea.md").unwrap();
        assert_eq!(protocol.read("index.md").unwrap(), b"# Index\n\n[[sea]] and [[sea.md|again]], [here](sea.md).\n");
        assert_eq!(protocol.read("sea.md").unwrap(), b"# Tides\n\nSee [the moon](./guides/moon.md).\n");
        space.settle();
        let log = space.log();
        let renames: Vec<_> = log.iter().filter(|commit| commit.subject.contains("rename")).collect();
        assert_eq!(renames.len(), 1, "{log:?}");
        let subject = &renames[0].subject;
        assert!(subject.ends_with("rename guides/tides.md → sea.md (updated 4 links)"), "{subject}");
        let backlinks = space.client().get("/api/svc/backlinks?path=sea.md").json();
        assert_eq!(backlinks.as_array().unwrap().len(), 1);
        // A backup of an editor's takes nothing along.
        protocol.rename("sea.md", "sea.md~").unwrap();
        assert_eq!(protocol.read("index.md").unwrap(), b"# Index\n\n[[sea]] and [[sea.md|again]], [here](sea.md).\n");
        protocol.rename("sea.md~", "sea.md").unwrap();
    });
}

#[test]
fn a_recent_write_survives_link_updates_by_a_rename() {
    each_space("[links]\nupdate_on_rename = true\n", |protocol, space| {
        protocol.write("a.md", b"# A\n").unwrap();
        for number in 0..5 {
            let (from, to) =
                (if number == 0 { "a.md".to_owned() } else { format!("a{number}.md") }, format!("a{}.md", number + 1));
            let stem = from.trim_end_matches(".md").to_owned();
            protocol.write("index.md", format!("line {number} [[{stem}]]\n").as_bytes()).unwrap();
            protocol.append("index.md", b"more\n").unwrap();
            protocol.rename(&from, &to).unwrap();
            let expected = format!("line {number} [[{}]]\nmore\n", to.trim_end_matches(".md"));
            assert_eq!(String::from_utf8(protocol.read("index.md").unwrap()).unwrap(), expected);
        }
        assert!(!space.root().join(".svc/rejected/index.md").exists());
    });
}

#[test]
fn links_follow_a_filesystem_rename_only_when_configured() {
    each_space("", |protocol, _| {
        protocol.write("a.md", b"# A\n").unwrap();
        protocol.write("index.md", b"[[a]]\n").unwrap();
        protocol.rename("a.md", "b.md").unwrap();
        assert_eq!(protocol.read("index.md").unwrap(), b"[[a]]\n");
    });
}
