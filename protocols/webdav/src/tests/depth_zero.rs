//! Copies of folders without what is in them (`Depth: 0`).

use svcfs_store::{FailPoint, FailPoints};

use super::*;

/// What a full disk says.
const NO_SPACE: i32 = 28;

impl Served {
    fn copy_shallow(&self, from: &str, to: &str) -> Reply {
        self.send("COPY", from, &[("destination", to), ("depth", "0")], "")
    }

    /// While the disk refuses something.
    fn refused(&self, point: FailPoint, ask: impl FnOnce() -> Reply) -> Reply {
        let points = FailPoints::new(self.server.primary().vfs.root());
        points.inject_error(point, NO_SPACE);
        let reply = ask();
        points.clear(point);
        reply
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.folder.path().join("default")).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.starts_with(".git") && name != ".svc");
        names.sort();
        names
    }
}

/// Shows: DAV-3
#[test]
fn a_refused_depth_zero_copy_leaves_its_target_unchanged() {
    let served = Served::new();
    served
        .tree(&["/from", "/to", "/to/in"], &[("/from/a.md", "# A\n"), ("/file.md", "# F\n"), ("/to/in/b.md", "# B\n")]);
    let refused = served.refused(FailPoint::TreeParents, || served.copy_shallow("/from", "/file.md"));
    assert_eq!(refused.status, 507, "{}", refused.text());
    assert_eq!(served.text("file.md").as_deref(), Some("# F\n"));
    let refused = served.refused(FailPoint::LogWrite, || served.copy_shallow("/from", "/to"));
    assert_eq!(refused.status, 507, "{}", refused.text());
    assert_eq!(served.text("to/in/b.md").as_deref(), Some("# B\n"));
    assert_eq!(served.names(), ["file.md", "from", "to"]);
}

#[test]
fn a_depth_zero_copy_is_an_empty_folder_with_properties() {
    let served = Served::new();
    served.tree(
        &["/from", "/to", "/to/in"],
        &[("/from/a.md", "# A\n"), ("/file.md", "# F\n"), ("/to/in/b.md", "# B\n"), ("/to/c.md", "# C\n")],
    );
    let set = |mark: &str| {
        format!(
            "<propertyupdate xmlns='DAV:'><set><prop><{mark} xmlns='urn:x'>x</{mark}></prop></set></propertyupdate>"
        )
    };
    assert_eq!(served.send("PROPPATCH", "/from", &[], set("mark")).status, 207);
    assert_eq!(served.send("PROPPATCH", "/to", &[], set("other")).status, 207);
    let root = served.folder.path().join("default");
    for (to, status) in [("/fresh", 201), ("/file.md", 204), ("/to", 204)] {
        let copied = served.copy_shallow("/from", to);
        assert_eq!(copied.status, status, "{to}: {}", copied.text());
        assert_eq!(std::fs::read_dir(root.join(&to[1..])).unwrap().count(), 0, "{to}");
        let told = served.send("PROPFIND", to, &[("depth", "0")], "").text();
        assert!(told.contains("mark") && !told.contains("other"), "{to}: {told}");
    }
    assert_eq!(served.names(), ["file.md", "fresh", "from", "to"]);
    assert_eq!(served.text("from/a.md").as_deref(), Some("# A\n"));
    // Not in place of what it lies in.
    assert_eq!(served.send("MKCOL", "/from/deep", &[], "").status, 201);
    assert_eq!(served.copy_shallow("/from/deep", "/from").status, 403);
    assert_eq!(served.text("from/a.md").as_deref(), Some("# A\n"));
    // In itself there is room for it.
    assert_eq!(served.copy_shallow("/from", "/from/deep/copy").status, 201);
}
