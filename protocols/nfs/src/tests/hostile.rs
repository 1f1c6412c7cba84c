//! Names that mean something to a path and nothing to a directory.

use nfs3_types::nfs3::createhow3;
use nfs3_types::nfs3::sattr3;

use super::Served;

#[test]
fn names_that_lead_out_of_the_tree_lead_nowhere() {
    let served = Served::new();
    let outside = served.folder.path().join("outside.md");
    std::os::unix::fs::symlink("nowhere", &outside).unwrap();
    served.put("a.md", "# A\n");
    let root = served.root();
    let names: Vec<String> = serde_json::from_str(include_str!("../../../../tests/it/corpora/paths.json")).unwrap();
    for name in names {
        let is_path = name.contains(['/', '\0']) || name == ".." || name.eq_ignore_ascii_case(".git");
        if !is_path {
            continue;
        }
        let created = served.create_as(&root, &name, createhow3::UNCHECKED(sattr3::default()));
        assert!(created.is_err(), "{name:?} was made");
        assert!(served.mkdir(&root, &name).is_err(), "{name:?} was made a directory");
        assert!(served.rename((&root, "a.md"), (&root, &name)).is_err(), "something was renamed to {name:?}");
        assert!(served.rename((&root, &name), (&root, "b.md")).is_err(), "{name:?} was renamed");
        assert!(served.remove(&root, &name).is_err() && served.rmdir(&root, &name).is_err(), "{name:?} was removed");
        match served.lookup(&root, &name) {
            // Above the root there is nothing but the root.
            Ok(found) => assert_eq!((name.as_str(), found), ("..", root.clone())),
            Err(_) => assert_ne!(name, ".."),
        }
    }
    assert_eq!(served.text("a.md").as_deref(), Some("# A\n"));
    let mut beside: Vec<_> =
        std::fs::read_dir(served.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    beside.sort();
    assert_eq!(beside, ["outside.md", "root"]);
}
