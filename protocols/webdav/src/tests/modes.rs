//! Permission bits of files that other protocols made private, and that are still queued.

use std::os::unix::fs::PermissionsExt;

use svcfs_base::{Actor, Caller, PathComponent, Protocol};
use svcfs_vfs::{NodeId, WriteAt};

use super::Served;

impl Served {
    /// A file of mode 0600 in the root, as a program makes it on a mount; queued.
    fn private(&self, name: &str, text: &str) {
        let vfs = &self.server.primary().vfs;
        let ann = Caller::new(Protocol::Fuse).with_actor(Actor::new("ann"));
        let (node, _, handle) = vfs.create(&ann, NodeId::ROOT, &PathComponent::parse(name).unwrap(), 0o600).unwrap();
        vfs.write_node(&ann, handle, WriteAt::Offset(0), text.as_bytes()).unwrap();
        vfs.release(&ann, handle).unwrap();
        vfs.forget(node, 1);
    }

    fn mode_of(&self, name: &str) -> u32 {
        let file = self.folder.path().join("default").join(name);
        std::fs::metadata(file).unwrap().permissions().mode() & 0o777
    }
}

#[test]
fn a_queued_private_file_stays_private_when_it_is_put_and_moved() {
    let served = Served::new();
    served.private("a.md", "one\n");
    assert_eq!(served.send("PUT", "/a.md", &[], "two\n").status, 204);
    assert_eq!(served.mode_of("a.md"), 0o600);
    served.private("b.md", "one\n");
    assert_eq!(served.send("MOVE", "/b.md", &[("destination", "/c.md")], "").status, 201);
    assert_eq!(served.mode_of("c.md"), 0o600);
    // Over a file that everybody may read, with other bytes and with the same.
    for (name, text) in [("d.md", "others\n"), ("e.md", "same\n")] {
        assert_eq!(served.send("PUT", &format!("/{name}"), &[], text).status, 201);
        served.private("f.md", "same\n");
        assert_eq!(served.send("MOVE", "/f.md", &[("destination", &format!("/{name}"))], "").status, 204);
        assert_eq!(served.mode_of(name), 0o600, "{name}");
    }
}
