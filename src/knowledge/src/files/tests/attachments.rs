use serde_json::json;

use crate::spaces::test_space::TestSpace;

#[test]
fn attachments_resolve_by_name_and_their_renames_rewrite_links() {
    let space = TestSpace::with(
        "",
        &[
            ("notes/a.md", "![[boat.png|200]] [[plan.pdf]] ![b](boat.png) ![](files/boat.png)\n"),
            ("files/boat.png", "png"),
            ("files/plan.pdf", "pdf"),
            ("guide/a.md", "[b](b.html) [r](index.html) [f](../guide/)\n"),
            ("guide/b.md", "text\n"),
            ("guide/README.md", "text\n"),
        ],
    );
    space.settle();
    let broken = || space.get("janitor", json!({}))["broken_links"].clone();
    assert_eq!(broken(), 0);
    let resolved =
        space.get("resolve_links", json!({ "from": "notes/a.md", "links": ["![[boat.png]]", "[[no.png]]"] }));
    assert_eq!(resolved["resolved"]["![[boat.png]]"], json!({ "path": "files/boat.png", "title": "boat.png" }));
    assert_eq!(resolved["unresolved"], json!(["[[no.png]]"]));
    let backlinks = space.get("backlinks", json!({ "path": "files/boat.png" }));
    assert_eq!((&backlinks[0]["path"], backlinks.as_array().unwrap().len()), (&json!("notes/a.md"), 1));
    let renamed = space.get("rename", json!({ "from": "files/boat.png", "to": "img/ship.png" }));
    assert_eq!(renamed["updated_links"], 3);
    assert_eq!(space.text("notes/a.md"), "![[ship.png|200]] [[plan.pdf]] ![b](ship.png) ![](img/ship.png)\n");
    space.get("rename", json!({ "from": "guide/b.md", "to": "guide/c.md" }));
    assert_eq!(space.text("guide/a.md"), "[b](c.html) [r](index.html) [f](../guide/)\n");
    space.settle();
    assert_eq!(broken(), 0);
}

#[test]
fn ignored_and_hidden_files_are_no_attachments() {
    let space = TestSpace::with(
        "",
        &[
            (".gitignore", "build/\n*.log\n"),
            ("a.md", "[[x.bin]] [[y.log]] [[z.png]] [[w.png]]\n"),
            ("build/deep/x.bin", "1"),
            ("in/y.log", "1"),
            (".hidden/z.png", "1"),
            ("in/w.png", "1"),
        ],
    );
    space.settle();
    assert_eq!(space.get("janitor", json!({}))["broken_links"], 3);
}
