use std::fs;

use svcfs_base::Seq;

use super::*;
use crate::tests::Space;

#[test]
fn an_index_is_described_and_not_changed_by_inspection() {
    let space = Space::of(&[("a.md", "# Alpha\n\nfox\n"), ("b.md", "# Beta\n\n[[a]]\n")]);
    let open = space.index.fingerprint().unwrap();
    match Index::inspect(&space.file).unwrap() {
        IndexInspection::Intact(cursor, found) => assert_eq!((cursor, *found), (Seq(1), open)),
        other => panic!("{other:?}"),
    }
    let absent = space.file.with_file_name("absent.db");
    assert!(matches!(Index::inspect(&absent).unwrap(), IndexInspection::Absent));
    assert!(!absent.exists(), "looking for it does not make it");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the damage is done on purpose")]
fn damage_and_other_index_versions_are_reported_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("index.db");
    fs::write(&file, "rubbish that is no database").unwrap();
    assert!(matches!(Index::inspect(&file).unwrap(), IndexInspection::Damaged(_)));
    assert_eq!(fs::read(&file).unwrap(), b"rubbish that is no database");
    fs::remove_file(&file).unwrap();
    drop(Index::open(&file).unwrap());
    let version = Connection::open(&file).unwrap();
    version.pragma_update(None, "user_version", schema::SCHEMA + 1).unwrap();
    drop(version);
    assert!(matches!(Index::inspect(&file).unwrap(), IndexInspection::Outdated));
}
