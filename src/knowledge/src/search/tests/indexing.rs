//! The indexer: what it reads, and that the index equals the tree.

use super::*;

#[test]
fn a_new_index_ingests_the_entire_tree() {
    let pages: Vec<(String, String)> =
        (0..250).map(|n| (format!("d{}/p{n}.md", n % 7), format!("# Page {n}\n\nword{n}\n"))).collect();
    let mut files: Vec<(&str, &str)> = pages.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.extend([
        (".hidden/x.md", "word7\n"),
        ("a.txt", "word7\n"),
        ("UPPER.MD", "word7\n"),
        ("~draft.md.swp", "word7\n"),
    ]);
    let space = TestSpace::with("", &files);
    space.settle();
    assert_eq!(space.space().index.page_count().unwrap(), 251);
    assert_eq!(paths(&space.get("search", json!({ "q": "word7" }))), ["UPPER.MD", "d0/p7.md"]);
}

#[test]
fn a_bulk_larger_than_a_batch_is_indexed_completely() {
    let space = TestSpace::new();
    let files: Vec<Value> =
        (0..230).map(|n| json!({ "path": format!("p{n}.md"), "content": format!("word{n}\n") })).collect();
    space.get("bulk_write", json!({ "files": files }));
    assert_eq!(paths(&space.get("search", json!({ "q": "word0 OR word229" }))).len(), 2);
    space.settle();
    assert_eq!(space.space().index.page_count().unwrap(), 230);
}

#[test]
fn an_edit_behind_the_server_is_found_and_never_refused() {
    let space = TestSpace::new();
    space.put("a.md", "old\n");
    space.edit_behind("a.md", "needle\n\n```mermaid\n```\n");
    assert_eq!(paths(&space.get("search", json!({ "q": "needle" }))), ["a.md"]);
    assert_eq!(space.get("search", json!({ "q": "old" })), json!([]));
    assert_eq!(space.newest("a.md").1, "fswatch");
    let issues = space.get("lint", json!({ "path": "a.md" }))["issues"].clone();
    assert!(issues.as_array().unwrap().iter().any(|issue| issue["severity"] == "error"), "{issues}");
}

#[test]
fn links_to_pages_are_not_pages() {
    let space = TestSpace::new();
    space.put("a.md", "needle\n");
    let caller = crate::spaces::test_space::caller();
    space.space().vfs.apply(&caller, svcfs_base::Change::symlink(path("b.md"), "a.md")).unwrap();
    assert_eq!(paths(&space.get("search", json!({ "q": "needle" }))), ["a.md"]);
    space.space().vfs.apply(&caller, svcfs_base::Change::symlink(path("a.md"), "b.md")).unwrap();
    assert_eq!(space.get("search", json!({ "q": "needle" })), json!([]));
}

fn run(space: &Arc<Space>) {
    let mut indexer = Indexer::new(Arc::clone(space));
    while indexer.step(&StopToken::new()).unwrap() == NextStep::Now {}
}

#[test]
fn an_idle_indexer_merges_segments_and_then_sleeps() {
    let space = TestSpace::new();
    let folder = tempfile::tempdir().unwrap();
    let beside = beside(&space, Index::open(&folder.path().join("index.db")).unwrap());
    for n in 0..5 {
        space.put(&format!("p{n}.md"), &format!("needle{n}\n"));
        run(&beside);
    }
    let mut indexer = Indexer::new(Arc::clone(&beside));
    let (mut rests, long) = (Vec::new(), Duration::from_secs(15));
    while !rests.contains(&NextStep::After(long)) {
        rests.push(indexer.step(&StopToken::new()).unwrap());
    }
    assert!(rests.len() > 2, "{rests:?}");
    assert_eq!(beside.index.merge_segments(|| false).unwrap(), MergeStep::Complete);
    assert_eq!(indexer.step(&StopToken::new()).unwrap(), NextStep::After(long));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "git writes behind the server")]
fn what_git_took_away_for_a_moment_and_put_back_is_found_again() {
    let space = TestSpace::new();
    let folder = tempfile::tempdir().unwrap();
    let beside = beside(&space, Index::open(&folder.path().join("index.db")).unwrap());
    space.put("b.md", "wolf\n");
    run(&beside);
    space.put("a.md", "fox\n");
    space.get("delete", json!({ "path": "b.md" }));
    let (a, b) = (space.root().join("a.md"), space.root().join("b.md"));
    std::fs::write(&b, "wolf\n").unwrap();
    std::fs::remove_file(&a).unwrap();
    let mut indexer = Indexer::new(Arc::clone(&beside));
    while indexer.step(&StopToken::new()).unwrap() == NextStep::Now {}
    let indexed = || beside.index.paths(&svcfs_base::TreePath::root()).unwrap();
    assert_eq!(indexed(), [path("b.md")]);
    std::fs::write(&a, "fox\n").unwrap();
    std::fs::remove_file(&b).unwrap();
    for _ in 0..10 {
        // As the task sleeps between two looks.
        let next = indexer.step(&StopToken::new()).unwrap();
        if indexed() == [path("a.md")] {
            return;
        }
        if let NextStep::After(wait) = next {
            StopToken::new().wait(wait.min(Duration::from_secs(2)));
        }
    }
    panic!("indexed are {:?}, and the next look is in {:?}", indexed(), beside.recheck_queue.wait());
}

#[test]
fn an_index_of_another_life_is_put_right() {
    let space = TestSpace::new();
    space.put("a.md", "needle\n");
    space.put("b.md", "thread\n");
    let folder = tempfile::tempdir().unwrap();
    let index = Index::open(&folder.path().join("index.db")).unwrap();
    let stranger = IndexEntry::Page {
        path: path("stranger.md"),
        etag: svcfs_base::ETag::from_content(b"x"),
        text: "x".to_owned(),
        modified: svcfs_base::Timestamp::UNIX_EPOCH,
    };
    index.ingest(&[stranger], Seq(9_999)).unwrap();
    let beside = beside(&space, index);
    run(&beside);
    assert_eq!(beside.index.paths(&path("")).unwrap(), [path("a.md"), path("b.md")]);
    assert_eq!(beside.index.cursor().unwrap(), space.space().vfs.last_seq());
    assert_eq!(beside.index_watermark.level(), space.space().vfs.last_seq().0);
}

#[test]
fn an_indexer_that_is_stopped_in_the_middle_starts_again() {
    let space = TestSpace::new();
    space.put("a.md", "needle\n");
    let folder = tempfile::tempdir().unwrap();
    let beside = beside(&space, Index::open(&folder.path().join("index.db")).unwrap());
    let stop = StopToken::new();
    stop.request();
    Indexer::new(Arc::clone(&beside)).step(&stop).unwrap();
    assert_eq!((beside.index.cursor().unwrap(), beside.index.page_count().unwrap()), (Seq(0), 0));
    run(&beside);
    assert_eq!(beside.index.page_count().unwrap(), 1);
}

#[test]
fn a_rebuild_equals_what_grew_and_repairs_what_did_not() {
    let space = TestSpace::new();
    for n in 0..20 {
        space.put(&format!("p{n}.md"), &format!("---\ntitle: P{n}\n---\n\n[[p{}]] word{n}\n", n + 1));
    }
    space.get("rename", json!({ "from": "p3.md", "to": "d/q.md" }));
    space.get("delete", json!({ "path": "p4.md" }));
    let mut told = Vec::new();
    let report = reindex(space.space(), |done, total| told.push((done, total))).unwrap();
    assert_eq!((report.before.digest, report.differences.len()), (report.after.digest, 0));
    assert_eq!((report.pages, told.last()), (19, Some(&(19, 19))));
    let index = &space.space().index;
    index.ingest(&[IndexEntry::Deleted(path("p7.md"))], index.cursor().unwrap()).unwrap();
    let report = reindex(space.space(), |_, _| ()).unwrap();
    assert_eq!(report.differences.iter().map(|difference| &difference.path).collect::<Vec<_>>(), [&path("p7.md")]);
    assert_eq!(paths(&space.get("search", json!({ "q": "word7" }))), ["p7.md"]);
}

#[test]
fn a_check_tells_what_differs_and_replaces_nothing() {
    let space = TestSpace::new();
    for n in 0..20 {
        space.put(&format!("p{n}.md"), &format!("[[p{}]] word{n}\n", n + 1));
    }
    let look = || check_index(space.space(), tempfile::tempdir().unwrap().path(), |_, _| ()).unwrap();
    let right = look();
    assert!(right.before == right.after && right.pages == 20 && right.differences.is_empty(), "{right:?}");
    let index = &space.space().index;
    index.ingest(&[IndexEntry::Deleted(path("p7.md"))], index.cursor().unwrap()).unwrap();
    for report in [look(), look()] {
        assert_eq!(report.differences.iter().map(|difference| &difference.path).collect::<Vec<_>>(), [&path("p7.md")]);
    }
    assert_eq!(space.get("search", json!({ "q": "word7" })), json!([]));
}
