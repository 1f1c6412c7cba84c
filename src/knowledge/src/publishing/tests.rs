use serde_json::json;
use svcfs_base::{Caller, Permissions, Scope};

use super::{
    Audience, PublishedResource, QueryUse, SpaceState, published_resource, read_admitted, render_page, uses_asset,
};
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
fn pages_with_queries_are_made_in_two_steps() {
    let (space, caller) = (space(), caller());
    let cx = space.cx(&caller);
    let find = |address: &str, query_use| published_resource(&cx, (address, 1), query_use).unwrap();
    assert!(matches!(find("page.md", QueryUse::Skip), PublishedResource::NeedsQueries));
    let since = SpaceState::of(space.space());
    assert!(space.space().publishing.document(since, "page.md").is_none(), "what was left out is not stored");
    let PublishedResource::Document(page) = find("page.md", QueryUse::Run) else { panic!() };
    assert!(String::from_utf8_lossy(&page.body).contains("<li>"), "{page:?}");
    assert!(space.space().publishing.document(since, "page.md").is_some());
    assert!(matches!(find("open.md", QueryUse::Skip), PublishedResource::Document(_)));
    assert!(matches!(find("i.png", QueryUse::Skip), PublishedResource::File(_)));
    space.put("other.md", "new");
    assert!(space.space().publishing.document(SpaceState::of(space.space()), "page.md").is_none());
    assert!(space.space().publishing.document(since, "page.md").is_some(), "for those who waited since then");
}

#[test]
fn the_queries_of_a_page_have_one_timeout() {
    let queries = "```dql\nLIST\n```\n\n".repeat(40);
    let space = TestSpace::with("dataview.query_timeout = \"1ms\"\n", &[("page.md", &format!("{PUBLIC}{queries}"))]);
    space.settle();
    let html = html(&space, &caller(), "page.md", Audience::Published);
    assert!(html.contains("took longer than `dataview.query_timeout` together"), "{html}");
}

#[test]
fn a_page_is_rendered_once_for_callers_with_the_same_permissions() {
    let space =
        TestSpace::with("", &[("a.md", "# A\n[[b]] ![[b]]\n"), ("b.md", "b1\n"), ("q.md", "```dql\nLIST\n```\n")]);
    space.settle();
    let cached = || space.space().publishing.caller_pages.lock().get(&(path("a.md"), etag(&space, "a.md"), None));
    let render = |page: &str| space.get("render", json!({ "path": page }));
    let first = render("a.md");
    assert!(cached().is_some());
    assert_eq!(render("a.md"), first);
    space.put("b.md", "b2\n");
    space.settle();
    assert!(render("a.md")["html"].as_str().unwrap().contains("b2"), "what is embedded is newer");
    render("q.md");
    let query = (path("q.md"), etag(&space, "q.md"), None);
    assert!(space.space().publishing.caller_pages.lock().get(&query).is_none(), "a result depends on the time");
}

fn etag(space: &TestSpace, page: &str) -> svcfs_base::ETag {
    svcfs_base::ETag::from_content(space.text(page).as_bytes())
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

#[test]
fn queries_and_computed_pages_show_what_the_audience_may_see() {
    let view =
        "svc-view: true\nsvc-query: LIST FROM \"d/\"\n---\n<!-- svc:auto -->\nstored: d/none.md\n<!-- /svc-view -->\n";
    let query = "```dql\nTABLE _backlink_count FROM \"d/\" SORT _path\n```\n\n```dataview\nLIST length(file.inlinks) FROM \"d\"\n```\n";
    let both = "published: true\nvisibility: public\n";
    let space = TestSpace::with(
        "",
        &[
            ("d/none.md", "[[p]] [[v]] none"),
            ("d/p.md", "---\npublished: true\n---\n[[v]]"),
            ("d/v.md", "---\nvisibility: public\n---\n[[p]]"),
            ("query.md", &format!("---\n{both}---\n{query}")),
            ("view.md", &format!("---\n{both}{view}")),
        ],
    );
    space.settle();
    let caller = caller();
    for (audience, shown, hidden) in [
        (Audience::Caller, &["d/none.md", "d/p.md", "d/v.md"][..], &[][..]),
        (Audience::Published, &["d/p.md"][..], &["none", "d/v.md"][..]),
        (Audience::Public, &["d/v.md"][..], &["none", "d/p.md"][..]),
        (Audience::OnePage, &[][..], &["none", "d/p.md", "d/v.md"][..]),
    ] {
        for page in ["query.md", "view.md"] {
            let html = html(&space, &caller, page, audience);
            // The stored result of the view may be older than the pages.
            let is_stored = audience == Audience::Caller && page == "view.md";
            assert!(is_stored || shown.iter().all(|path| html.contains(path)), "{page} for {audience:?}: {html}");
            assert!(hidden.iter().all(|path| !html.contains(path)), "{page} for {audience:?}: {html}");
        }
    }
    let published = html(&space, &caller, "query.md", Audience::Published);
    assert!(published.contains("<td>0</td>"), "links from hidden pages are not counted: {published}");
}

#[test]
fn a_folder_key_sees_its_folder_only() {
    let page = "# Page\n\n[[inside]] [[outside]] [x](../outside.md) ![i](../o.png)\n\n![[outside]]\n\n![[inside#Part]]\n\n\
                ```dql\nLIST SORT _path\n```\n\n```dataview\nTABLE file.inlinks\n```\n";
    let space = TestSpace::with(
        "",
        &[
            ("d/page.md", page),
            ("d/inside.md", "# Inside\n\n## Part\n\nseen text\n"),
            ("outside.md", "---\ntitle: Secret title\n---\n# Hidden heading\n\nhidden text\n"),
            ("o.png", "png"),
        ],
    );
    space.settle();
    let permissions = Permissions { folder: Some(path("d")), ..Permissions::READ_ONLY };
    let reader = Caller { permissions, ..caller() };
    let answer = space.ask_as(&reader, "render", json!({ "path": "d/page.md" })).unwrap();
    let html = answer["html"].as_str().unwrap();
    assert!(html.contains("seen text") && html.contains("d/inside.md"), "{html}");
    for hidden in ["Secret title", "Hidden heading", "hidden text", "outside.md", "o.png"] {
        assert!(!answer.to_string().contains(hidden), "{hidden}: {html}");
    }
    assert_eq!(answer["links"], json!(["d/inside.md", "d/page.md"]), "{answer}");
    assert_eq!(answer["toc"].as_array().unwrap().len(), 1);
    let text = json!({ "path": "d/new.md", "content": "![[outside]] [[outside]]\n\n```dql\nLIST\n```\n" });
    let preview = space.ask_as(&reader, "render_text", text).unwrap().to_string();
    assert!(!preview.contains("hidden text") && !preview.contains("outside.md"), "{preview}");
}

#[test]
fn a_folder_key_publishes_no_file_from_outside() {
    let space = TestSpace::with("", &[("d/in.png", "png"), ("o.png", "png"), ("d/draft.md", "![i](../o.png)\n")]);
    space.settle();
    let permissions = Permissions { scope: Scope::Write, folder: Some(path("d")) };
    let key = Caller { permissions, ..caller() };
    for (link, status) in [
        ("![i](../o.png)", 403),
        ("![[o.png]]", 403),
        ("[x](/o.png)", 403),
        ("![i](in.png)", 200),
        ("[x](https://example.org/o.png)", 200),
        ("![i](missing.png)", 200),
    ] {
        let content = format!("---\npublished: true\n---\n{link}\n");
        let outcome = space.ask_as(&key, "write", json!({ "path": "d/page.md", "content": content }));
        let found = outcome.map_or_else(|fault| fault.kind().http(), |_| 200);
        assert_eq!(found, status, "{link}");
    }
    let refused = space.ask_as(&key, "publish", json!({ "path": "d/draft.md" })).unwrap_err();
    assert!(refused.message().contains("it uses `o.png`"), "{refused:?}");
    space.get("publish", json!({ "path": "d/draft.md" }));
}

#[test]
fn lists_follow_the_pages() {
    let space = TestSpace::with("", &[("a.md", "a"), ("b.md", PUBLIC)]);
    space.settle();
    let listed = || {
        let caller = caller();
        let pages = super::listed_pages(&space.cx(&caller)).unwrap();
        pages.published().iter().map(|(path, _)| path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listed(), ["b.md"]);
    space.put("a.md", &format!("{PUBLIC}a"));
    assert_eq!(listed(), ["a.md", "b.md"]);
    space.put("b.md", "---\npublished: false\n---\n");
    assert_eq!(listed(), ["a.md"]);
    space.get("delete", json!({ "path": "a.md" }));
    assert_eq!(listed(), [""; 0]);
}
