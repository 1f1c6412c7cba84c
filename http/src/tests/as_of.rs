//! Answers from earlier trees.

use svcfs_base::TreePath;

use super::server::TestServer;

#[tokio::test]
async fn every_answer_names_the_earlier_commit() {
    let server = TestServer::new();
    server.put("a.md", "# A\n\nThe harbour.\n").await;
    let newest = server.space().vfs.newest_version(&TreePath::parse("a.md").unwrap()).unwrap().unwrap();
    let commit = newest.version.hash.to_string();
    server.put("a.md", "# A\n\nNothing.\n").await;
    for (route, has_note) in [
        ("file?path=a.md", false),
        ("section?path=a.md&index=0", true),
        ("tree?", true),
        ("blame?path=a.md", true),
        ("diff?path=a.md", true),
        ("search?q=harbour", false),
    ] {
        let answer = server.get(&format!("/api/svc/{route}&as_of={commit}")).await;
        assert_eq!((answer.status, answer.header("x-as-of")), (200, &*commit), "{route}: {}", answer.text());
        let notes: Vec<_> = answer.headers.get_all("x-svc-note").iter().collect();
        let is_noted = notes.iter().any(|note| *note == format!("as of commit {commit}").as_str());
        assert_eq!(is_noted, has_note, "{route}: {notes:?}");
    }
    assert!(server.get("/api/svc/tree").await.headers.get("x-as-of").is_none());
}
