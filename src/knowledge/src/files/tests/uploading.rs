use serde_json::{Value, json};

use crate::spaces::test_space::TestSpace;

fn upload(space: &TestSpace, name: &str, bytes: &str) -> Value {
    space.get("upload_asset", json!({ "name": name, "file": bytes }))
}

#[test]
fn a_picture_is_taken_in_with_what_shows_it() {
    let space = TestSpace::new();
    let taken = upload(&space, "my photos/Sea side.png", "bytes");
    assert_eq!(
        (&taken["path"], &taken["markdown"], &taken["contentType"], &taken["size"]),
        (
            &json!("assets/Sea side.png"),
            &json!("![Sea side](/raw/assets/Sea%20side.png)"),
            &json!("image/png"),
            &json!(5)
        )
    );
    assert_eq!(space.text("assets/Sea side.png"), "bytes");
    let paper = space.get("upload_asset", json!({ "name": "a.pdf", "file": { "base64": "/9j/" }, "path": "papers" }));
    assert_eq!((&paper["path"], &paper["markdown"]), (&json!("papers/a.pdf"), &json!("[a](/raw/papers/a.pdf)")));
    assert_eq!(space.newest("papers/a.pdf").1, "anonymous");
}

#[test]
fn what_pages_show_already_is_never_covered() {
    let space = TestSpace::new();
    assert_eq!(upload(&space, "a.png", "one")["path"], "assets/a.png");
    let first = space.newest("assets/a.png");
    assert_eq!(upload(&space, "a.png", "one")["path"], "assets/a.png", "the same once more");
    assert_eq!(space.newest("assets/a.png"), first, "and no version of it");
    assert_eq!(upload(&space, "a.png", "two")["path"], "assets/a-2.png");
    assert_eq!(upload(&space, "a.png", "two")["path"], "assets/a-2.png");
    assert_eq!(upload(&space, "a.png", "three")["path"], "assets/a-3.png");
    assert_eq!(space.text("assets/a.png"), "one");
}

#[test]
fn unwanted_uploads_are_refused_with_the_reason() {
    let space = TestSpace::with("[assets]\nmax_file_size = \"10B\"\nallowed_types = [\"image/PNG\"]\n", &[]);
    let refused = |name: &str, bytes: &str| space.refusal("upload_asset", json!({ "name": name, "file": bytes }));
    assert_eq!(refused("a.png", "elevenbytes").0, 413);
    assert_eq!(upload(&space, "a.png", "ten bytes!")["size"], 10);
    let (status, why) = refused("a.gif", "x");
    assert_eq!(status, 415);
    assert!(why.contains("image/gif") && why.contains("`assets.allowed_types`"), "{why}");
    for name in ["", "/", "..", ".hidden.png", "a/", "a\\.png", " ", "a\0.png", &format!("{}.png", "x".repeat(300))] {
        let (status, why) = refused(name, "x");
        assert_eq!(status, 400, "{name:?}: {why}");
    }
    for path in ["../out", ".git", ".svc/state", "a\0b"] {
        let outcome = space.refusal("upload_asset", json!({ "name": "a.png", "file": "x", "path": path }));
        assert_eq!(outcome.0, 400, "{path:?}: {}", outcome.1);
    }
    assert_eq!(space.refusal("upload_asset", json!({ "name": "b.png" })).0, 400);
    assert_eq!(space.refusal("upload_asset", json!({ "name": "b.png", "file": { "base64": "?" } })).0, 400);
}
