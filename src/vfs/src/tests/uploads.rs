//! Files that a protocol stages until they are complete.

use super::*;

/// Shows: VIS-7
#[test]
fn uploads_in_flight_are_hidden_and_their_orphans_are_listed() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    let names = |protocol: Protocol| -> Vec<String> {
        let caller = Caller::new(protocol);
        let (root, _) = space.vfs.lookup_path(&caller, &TreePath::root()).unwrap();
        let listed = space.vfs.entries(&caller, root).unwrap();
        listed.into_iter().map(|(name, ..)| name.as_str().to_owned()).filter(|name| name != ".svc").collect()
    };
    let protocols = [Protocol::Fuse, Protocol::Nfs, Protocol::WebDav, Protocol::S3];
    let caller = Caller::new(Protocol::WebDav);
    let (root, _) = space.vfs.lookup_path(&caller, &TreePath::root()).unwrap();
    let name = ".svc-upload-1234.part".to_owned();
    let begun = |name: &str| space.vfs.create(&caller, root, &PathComponent::parse(name).unwrap(), 0o644).unwrap().2;
    let (coming, other) = (begun(&name), begun("other.part"));
    space.vfs.write_node(&caller, coming, WriteAt::Offset(0), b"half").unwrap();
    for protocol in protocols {
        assert_eq!(names(protocol), ["a.md", "other.part"], "{protocol:?}");
    }
    space.vfs.release(&caller, other).unwrap();
    space.vfs.release(&caller, coming).unwrap();
    for protocol in protocols {
        assert_eq!(names(protocol), [&*name, "a.md", "other.part"], "{protocol:?}");
    }
}
