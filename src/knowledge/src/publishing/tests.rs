use serde_json::json;
use svcfs_base::Caller;

use super::{Audience, read_admitted, render_page, uses_asset};
use crate::spaces::test_space::{TestSpace, caller, path};

const PUBLIC: &str = "---\npublished: true\n---\n";

fn html(space: &TestSpace, caller: &Caller, page: &str, audience: Audience) -> String {
    let cx = space.cx(caller);
    let file = crate::files::read_file(&cx, &path(page)).unwrap();
    render_page(&cx, &path(page), (file.etag, &file.content), audience).html
}

fn space() -> TestSpace {
    let page = format!(
        "{PUBLIC}# Page\n[[open]] [[closed|label]] [[secret-name]] ![[open]]\n\n![[closed]]\n\n![[page]]\n\n![i](i.png)\n\n\
         ```dql\nLIST\n```\n"
    );
    let space = TestSpace::with(
        "",
        &[
            ("page.md", page.as_str()),
            ("open.md", &format!("{PUBLIC}open text")),
            ("closed.md", "---\ntitle: Hidden title\n---\nclosed text"),
            ("dir/secret-name.md", "x"),
            ("i.png", "png"),
            ("other.png", "png"),
            (
                "view.md",
                "---\npublished: true\nsvc-view: true\n---\na\n<!-- svc:auto -->\nclosed.md\n<!-- /svc-view -->\n",
            ),
        ],
    );
    space.settle();
    space
}

#[test]
fn a_reader_sees_only_what_its_route_serves() {
    let (space, caller) = (space(), caller());
    let all = html(&space, &caller, "page.md", Audience::Caller);
    assert!(all.contains("closed text") && all.contains("/page/dir/secret-name.md"), "{all}");
    let published = html(&space, &caller, "page.md", Audience::Published);
    assert!(published.contains("href=\"open.md\"") && published.contains("src=\"i.png\""), "{published}");
    for audience in [Audience::Published, Audience::Public, Audience::OnePage] {
        let html = html(&space, &caller, "page.md", audience);
        for hidden in ["closed text", "Hidden title", "dir/", "closed.md", "secret-name.md"] {
            assert!(!html.contains(hidden), "{audience:?} shows {hidden}: {html}");
        }
        assert!(html.contains("label"), "{html}");
        let view = super::tests::html(&space, &caller, "view.md", audience);
        assert!(!view.contains("closed"), "{view}");
    }
    let one = html(&space, &caller, "page.md", Audience::OnePage);
    assert!(!one.contains("<img") && !one.contains("<a ") && !one.contains("open text"), "{one}");
}

#[test]
fn only_assets_of_published_pages_are_used() {
    let (space, caller) = (space(), caller());
    let cx = space.cx(&caller);
    assert!(uses_asset(&cx, &path("i.png")).unwrap());
    assert!(!uses_asset(&cx, &path("other.png")).unwrap());
    assert!(read_admitted(&cx, &path("closed.md"), Audience::Published).is_err());
    assert!(read_admitted(&cx, &path(".svc/rules.md"), Audience::Published).is_err());
}

#[test]
fn pages_are_published_and_withdrawn_by_one_key() {
    let space = TestSpace::with("", &[("a b.md", "---\n# note\ntitle: 'A'\n---\nx\n"), ("b.md", "b\n")]);
    let first = space.get("publish", json!({ "path": "a b.md" }));
    assert_eq!((&first["published"], &first["public_url"]), (&json!(true), &json!("/p/a%20b.md")));
    assert!(space.text("a b.md").starts_with("---\n# note\ntitle: 'A'\npublished: true\n"), "{}", space.text("a b.md"));
    let again = space.get("publish", json!({ "path": "a b.md" }));
    assert_eq!(again["published_at"], first["published_at"]);
    let bulk = space.get("publish_bulk", json!({ "paths": ["b.md", "a b.md", "b.md"] }));
    assert_eq!((&bulk["published"], &bulk["changed"], &bulk["skipped"]), (&json!(2), &json!(1), &json!(1)));
    space.settle();
    assert_eq!(space.get("publish_list", json!({}))["count"], 2);
    assert_eq!(space.get("unpublish", json!({ "path": "b.md" })), json!({ "path": "b.md", "published": false }));
    assert_eq!(space.get("publish_status", json!({ "path": "b.md" }))["published"], false);
    assert_eq!(space.refusal("publish", json!({ "path": "none.md" })).0, 404);
    assert_eq!(space.refusal("publish", json!({ "path": ".svc/rules.md" })).0, 400);
}
