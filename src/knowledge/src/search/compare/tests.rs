use svcfs_base::Protocol;
use svcfs_index::IndexDivergence;

use super::*;
use crate::spaces::test_space::{TestSpace, path};

const INDEX: &str = ".svc/state/index.db";

/// The index of a space beside its pages, as somebody outside sees them.
fn looked_at(space: &TestSpace) -> IndexState {
    let vfs = &space.space().vfs;
    let scratch = tempfile::tempdir().unwrap();
    let files = vfs.walk(Protocol::Internal, &TreePath::root()).unwrap().into_iter().map(|file| file.path);
    let read = |path: &TreePath| vfs.read(Protocol::Internal, path).ok().map(|file| file.content.to_vec());
    let mut last = (0, 0);
    let progress = |done, total| last = (done, total);
    compare_index((&space.root().join(INDEX), scratch.path()), (files.collect(), vfs.last_seq()), read, progress)
        .unwrap()
}

#[test]
fn an_index_is_held_against_one_made_from_the_same_pages() {
    let space = TestSpace::new();
    space.put("a.md", "# Alpha\n\nfox\n");
    space.put("b.md", "# Beta\n\n[[a]]\n");
    space.settle();
    assert!(matches!(looked_at(&space), IndexState::Equal(2)));
    let (index, last) = (&space.space().index, space.space().vfs.last_seq());
    index.ingest(&[IndexEntry::Deleted(path("a.md")), entry(&path("b.md"), b"# Other\n")], last).unwrap();
    match looked_at(&space) {
        IndexState::Different(found) => {
            let told: Vec<_> = found.iter().map(|found| (found.path.as_str(), found.divergence)).collect();
            assert_eq!(told, [("a.md", IndexDivergence::Added), ("b.md", IndexDivergence::Changed)]);
        }
        other => panic!("{other:?}"),
    }
    index.ingest(&[], last.next()).unwrap();
    assert!(matches!(looked_at(&space), IndexState::OtherSeq(at) if at == last.next()));
}

#[test]
fn an_index_with_field_indexes_equals_a_new_one() {
    let space = TestSpace::new();
    space.put("a.md", "---\nstatus: open\n---\n");
    space.settle();
    space.put("b.md", "---\nrank: 2\nstatus: [open, done]\n---\n");
    space.settle();
    let fingerprint = space.space().index.fingerprint().unwrap();
    assert_eq!(fingerprint.hot_fields.len(), 2, "{:?}", fingerprint.hot_fields);
    assert!(matches!(looked_at(&space), IndexState::Equal(2)));
}
