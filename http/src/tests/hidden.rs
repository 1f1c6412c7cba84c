//! Hidden files and files that git ignores: for remote mounts only.

use std::time::Duration;

use serde_json::json;
use svcfs_base::{Caller, Change, Protocol, TreePath};
use svcfs_config::SpaceVisibility;
use svcfs_knowledge::CATALOGUE;

use super::agents;
use super::connections::Listening;
use super::server::TestServer;

/// Marks a request of a remote mount.
const MOUNT: (&str, &str) = ("X-Svc-Mount", "1");

/// Writes a file as a mount does.
fn save(server: &TestServer, file: &str, text: &str) {
    let change = Change::put(TreePath::parse(file).unwrap(), text.to_owned());
    server.space().vfs.apply(&Caller::new(Protocol::Fuse), change).unwrap();
}

#[tokio::test]
async fn hidden_files_are_served_to_remote_mounts_alone() {
    let server = TestServer::new();
    for (file, text) in [(".env", "KEY=1\n"), (".gitignore", "build/\n"), ("build/a.md", "x\n"), ("a.md", "# A\n")] {
        save(&server, file, text);
    }
    for file in [".env", ".absent", "build/a.md"] {
        for line in ["/api/svc/file?path=", "/raw/", "/api/svc/versions?path=", "/api/svc/peek?path="] {
            let error = server.get(&format!("{line}{file}")).await.error(404);
            assert!(error.starts_with(&format!("file not found: {file}")), "{line}{file}: {error}");
        }
    }
    for (file, reason) in [(".env", "`files.serve_hidden`"), ("build/b.md", "`build/` in `.gitignore`")] {
        let error = server.ask(&format!("PUT /api/svc/file?path={file}"), &[], "x").await.error(400);
        assert!(error.contains(reason), "{error}");
        let bulk = json!({ "files": [{ "path": "b.md", "content": "b" }, { "path": file, "content": "x" }] });
        let json_type = ("Content-Type", "application/json");
        let error = server.ask("POST /api/svc/bulk", &[json_type], bulk.to_string()).await.error(400);
        assert!(error.contains(reason), "{error}");
    }
    let names = async |headers: &[(&str, &str)]| {
        let tree = server.ask("GET /api/svc/tree?depth=1&details=true", headers, "").await.json();
        let names = tree.as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap().to_owned());
        names.filter(|name| name != ".svc").collect::<Vec<_>>()
    };
    assert_eq!(names(&[]).await, ["a.md"]);
    assert_eq!(names(&[MOUNT]).await, [".env", ".gitignore", "a.md", "build"]);
    assert_eq!(server.ask("GET /api/svc/file?path=.env", &[MOUNT], "").await.text(), "KEY=1\n");
    assert_eq!(server.ask("PUT /api/svc/file?path=.obsidian/app.json", &[MOUNT], "{}").await.status, 200);
    assert_eq!(server.ask("PUT /api/svc/file?path=build/b.md", &[MOUNT], "x").await.status, 200);
    let browser = ("Sec-Fetch-Site", "same-origin");
    server.ask("GET /api/svc/file?path=.env", &[MOUNT, browser], "").await.error(404);
    // The server's own files are for no one.
    server.ask("GET /api/svc/file?path=.svc/config.toml", &[MOUNT], "").await.error(404);
    server.ask("GET /api/svc/file?path=.git/HEAD", &[MOUNT], "").await.error(404);
}

#[tokio::test]
async fn a_caller_without_a_key_is_no_remote_mount() {
    let server = TestServer::of(CATALOGUE, "[auth]\ntype = \"apikey\"\napi_key = \"key\"\n");
    save(&server, ".env", "KEY=1\n");
    save(&server, "a.md", "# A\n");
    server.space().set_visibility(SpaceVisibility::Public);
    assert_eq!(server.ask("GET /api/svc/file?path=a.md", &[MOUNT], "").await.status, 200);
    server.ask("GET /api/svc/file?path=.env", &[MOUNT], "").await.error(404);
    let key = ("Authorization", "Bearer key");
    assert_eq!(server.ask("GET /api/svc/file?path=.env", &[MOUNT, key], "").await.status, 200);
    server.ask("GET /api/svc/file?path=.env", &[key], "").await.error(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_get_no_hidden_files_and_suggestions_for_others() {
    let server = TestServer::new();
    save(&server, ".env.md", "# KEY\n");
    save(&server, "notes/Meeting.md", "# M\n");
    assert!(server.space().wait_for_index(server.space().vfs.last_seq(), Duration::from_secs(20)));
    let protocol = Listening::on(server).await;
    for uri in ["svc://file/.env.md", "svc://tree/.obsidian"] {
        let answer = agents::ask(&protocol, "resources/read", json!({ "uri": uri })).await;
        assert!(answer.get("error").is_some() && !answer.to_string().contains("KEY"), "{answer}");
    }
    let tree = agents::ask(&protocol, "resources/read", json!({ "uri": "svc://tree/" })).await;
    assert!(!tree.to_string().contains(".env"), "{tree}");
    for (path, part) in [
        (".env.md", "file not found: .env.md"),
        ("notes/meeting.md", "did you mean `notes/Meeting.md`?"),
        ("/etc/passwd", "paths are relative to the knowledge base"),
    ] {
        let answer = agents::call(&protocol, "svc_read", json!({ "path": path })).await;
        assert!(answer["result"]["isError"] == true && answer.to_string().contains(part), "{answer}");
        assert!(!answer.to_string().contains("KEY"), "{answer}");
    }
}
