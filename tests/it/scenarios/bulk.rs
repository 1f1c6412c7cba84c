//! Many files at once, through the doors that can.

use serde_json::{Value, json};
use svcfs_base::ETag;

use crate::space::client::endpoint;
use crate::space::{TestSpace, me};

/// The files of one bulk write.
fn files() -> Value {
    let file =
        |number: usize| json!({ "path": format!("d{}/p{number}.md", number % 7), "content": format!("# P{number}\n") });
    (0..100).map(file).collect()
}

#[test]
fn a_bulk_write_is_one_version_through_every_protocol() {
    let [http, mcp] = [TestSpace::new(), TestSpace::new()];
    let body = json!({ "files": files() }).to_string();
    http.client().send("POST", &endpoint("/bulk", &[]), &[("X-Actor", &me())], body).success().unwrap();
    mcp.client().tool("svc_bulk_write", json!({ "files": files(), "actor": me() })).unwrap();
    let story = http.story();
    assert_eq!((story.log.len(), story.log[0].files.len(), story.index.len()), (1, 100, 100));
    assert_eq!(mcp.story(), story);
}

#[test]
fn a_bulk_write_with_one_bad_file_changes_nothing() {
    let space = TestSpace::new();
    let client = space.client();
    let put = |path: &str, text: &str| client.send("PUT", &endpoint("/file", &[("path", path)]), &[], text.to_owned());
    put("a.md", "# A\n").success().unwrap();
    let before = space.story();
    let stale = ETag::from_content(b"something else").to_string();
    for (bad, status) in [
        (json!({ "path": "a.md", "content": "# Other\n", "if_match": stale }), 409),
        (json!({ "path": "none.md", "content": "# New\n", "if_match": stale }), 409),
        (json!({ "path": "b.md", "content": "---\nbroken: [\n---\n" }), 422),
        (json!({ "path": "../b.md", "content": "# B\n" }), 400),
        (json!({ "path": "d1/p1.md", "content": "# Twice\n" }), 400),
        (json!({ "path": "a.md/b.md", "content": "# Below a file\n" }), 409),
    ] {
        let mut all = files();
        all.as_array_mut().unwrap().push(bad.clone());
        let body = json!({ "files": all }).to_string();
        let reply = client.send("POST", &endpoint("/bulk", &[]), &[], body);
        assert_eq!(reply.status, status, "{bad}: {}", reply.text());
        assert!(client.tool("svc_bulk_write", json!({ "files": all })).is_err(), "{bad}");
        assert_eq!(space.story(), before, "{bad}");
    }
}
