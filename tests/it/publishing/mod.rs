//! Published, public and shared pages over HTTP, as their readers get them.

use serde_json::{Value, json};

use crate::space::TestSpace;
use crate::space::client::{Client, Reply};

const API: &str = "/api/svc";
const BROWSER: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");

fn put(client: &Client, path: &str, content: &str) {
    let reply = client.send("PUT", &format!("{API}/file?path={path}"), &[], content.to_owned());
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
}

fn post(client: &Client, target: &str, body: &Value) -> Reply {
    client.send("POST", &format!("{API}{target}"), &[("Content-Type", "application/json")], body.to_string())
}

fn header<'r>(reply: &'r Reply, name: &str) -> &'r str {
    reply.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// A page links to a published and another page, and uses one of two files.
fn site(config: &str) -> (TestSpace, Client) {
    let space = TestSpace::with(config, false);
    let client = space.client();
    put(&client, "closed.md", "---\ntitle: Hidden title\nrank: 3\n---\nclosed text\n");
    put(&client, "b/open.md", "---\nrank: 2\n---\n# Open\n\nopen text\n");
    put(&client, "used.png", "png");
    put(&client, "unused.png", "png");
    let text = "---\nrank: 1\n---\n# Page\n\n[[open]] [[closed|label]] [[closed]] ![i](../used.png)\n\n![[open]]\n\n![[closed]]\n\n\
                ![x](https://images.example/x.png)\n\n```dql\nTABLE rank WHERE rank > 0 SORT rank\n```\n\n```rust\nfn main() {}\n```\n";
    put(&client, "a/page.md", text);
    let bulk = post(&client, "/publish/bulk", &json!({ "paths": ["a/page.md", "b/open.md", "a/page.md"] })).json();
    assert_eq!((&bulk["published"], &bulk["changed"]), (&json!(2), &json!(2)), "{bulk}");
    (space, client)
}

#[test]
fn a_published_page_shows_published_pages_and_files_only() {
    let (_space, client) = site("");
    let page = client.get("/p/a/page.md");
    assert_eq!((page.status, header(&page, "content-type")), (200, "text/html; charset=utf-8"));
    let policy = header(&page, "content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'self'; img-src 'self' https: http:;"), "{policy}");
    let html = page.text();
    for part in [
        "<a href=\"../b/open.md\">",
        "open text",
        "src=\"../used.png\"",
        "https://images.example/x.png",
        "<td><a href=\"../b/open.md\">b/open.md</a></td>",
        "href=\"../@style.css\"",
        "href=\"../feed.xml\"",
        "application/ld+json",
        "<span class=\"hl-keyword\">fn</span>",
        "label",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    for hidden in ["closed text", "Hidden title", "closed.md", "<td>3</td>"] {
        assert!(!html.contains(hidden), "{hidden}: {html}");
    }
    let status = |target: &str| client.get(target).status;
    assert_eq!(
        [status("/p/used.png"), status("/p/unused.png"), status("/p/closed.md"), status("/p/none.md")],
        [200, 404, 404, 404]
    );
    assert_eq!([status("/p/.svc/rules.md"), status("/p/@nowhere/a/page.md"), status("/p/@style.css")], [404, 404, 200]);
    let withdrawn = post(&client, "/unpublish", &json!({ "path": "b/open.md" }));
    assert_eq!(withdrawn.status, 200);
    assert_eq!(status("/p/b/open.md"), 404);
    let html = client.get("/p/a/page.md").text();
    assert!(!html.contains("open text") && !html.contains("b/open.md"), "{html}");
    put(&client, "a/page.md", "---\npublished: true\n---\nno picture any more\n");
    assert_eq!(status("/p/used.png"), 404);
}

#[test]
fn caches_get_tags_and_heads() {
    let (_space, client) = site("");
    let page = client.get("/p/a/page.md");
    let etag = header(&page, "etag").to_owned();
    assert!(header(&page, "cache-control").starts_with("public, max-age="), "{:?}", page.headers);
    for _ in 0..2 {
        let same = client.send("GET", "/p/a/page.md", &[("If-None-Match", &etag)], "");
        assert_eq!((same.status, same.body.len(), header(&same, "etag")), (304, 0, &*etag));
    }
    let head = client.send("HEAD", "/p/a/page.md", &[], "");
    assert_eq!((head.status, head.body.len(), header(&head, "etag")), (200, 0, &*etag));
    assert_eq!(header(&head, "content-length"), page.body.len().to_string());
    put(&client, "b/open.md", "---\npublished: true\n---\nother text\n");
    let changed = client.send("GET", "/p/a/page.md", &[("If-None-Match", &etag)], "");
    assert_eq!(changed.status, 200, "the tag covers what is embedded");
    assert!(changed.text().contains("other text"));
}

#[test]
fn files_of_published_pages_and_shares_are_read_in_parts() {
    let (_space, client) = site("");
    let media = client.send("PUT", &format!("{API}/file?path=clip.mp4"), &[], "0123456789");
    assert_eq!(media.status, 200, "{}", media.text());
    put(&client, "film.md", "---\npublished: true\n---\n![[clip.mp4]]\n");
    let link = post(&client, "/share", &json!({ "path": "clip.mp4" })).json();
    let link = link["url"].as_str().unwrap().to_owned();
    for address in ["/p/clip.mp4", &link] {
        let all = client.get(address);
        assert_eq!((all.status, header(&all, "content-type")), (200, "video/mp4"), "{address}");
        assert_eq!(header(&all, "accept-ranges"), "bytes", "{address}");
        for (range, status, content_range, body) in [
            ("bytes=2-4", 206, "bytes 2-4/10", "234"),
            ("bytes=-3", 206, "bytes 7-9/10", "789"),
            ("bytes=8-", 206, "bytes 8-9/10", "89"),
            ("bytes=10-", 416, "bytes */10", ""),
            ("bytes=0-1,3-4", 200, "", "0123456789"),
        ] {
            let part = client.send("GET", address, &[("Range", range)], "");
            assert_eq!((part.status, header(&part, "content-range")), (status, content_range), "{address} {range}");
            assert!(status == 416 || part.text() == body, "{address} {range}: {}", part.text());
        }
    }
    let etag = header(&client.get("/p/clip.mp4"), "etag").to_owned();
    let ranged = |etag: &str| client.send("GET", "/p/clip.mp4", &[("Range", "bytes=0-1"), ("If-Range", etag)], "");
    assert_eq!([ranged(&etag).status, ranged("\"other\"").status], [206, 200]);
    assert_eq!(client.send("GET", "/p/clip.mp4", &[("If-None-Match", &etag)], "").status, 304);
    let shared = client.get(&link);
    assert_eq!((header(&shared, "cache-control"), header(&shared, "etag")), ("private, no-store", ""));
    let shares = client.get(&format!("{API}/share?path=clip.mp4")).json();
    assert_eq!(shares[0]["viewCount"], 3, "later parts are no views: {shares}");
}

#[test]
fn browsers_get_a_page_about_a_failure() {
    let (_space, client) = site("");
    for (address, style) in [("/p/none.md", "\"./@style.css\""), ("/p/a/b/none.md", "\"../../@style.css\"")] {
        let page = client.send("GET", address, &[BROWSER], "");
        assert_eq!((page.status, header(&page, "content-type")), (404, "text/html; charset=utf-8"), "{address}");
        assert!(header(&page, "content-security-policy").starts_with("default-src 'none'; style-src 'self'"));
        assert_eq!((header(&page, "cache-control"), header(&page, "vary")), ("no-store", "Accept"));
        assert!(page.text().contains(style) && page.text().contains("<h1>Not Found</h1>"), "{}", page.text());
    }
    let json = client.get("/p/none.md");
    assert_eq!((json.status, header(&json, "content-type")), (404, "application/json"));
    assert_eq!(json.json()["error"], "file not found: none.md");
    assert_eq!(header(&client.send("GET", "/api/svc/none", &[BROWSER], ""), "content-type"), "application/json");
}

#[test]
fn the_index_the_feed_and_the_site_maps_list_published_pages() {
    let (_space, client) = site("server.public_url = \"https://notes.example/kb\"\n");
    let index = client.get("/p/").text();
    assert!(
        index.contains("<a href=\"a/page.md\">Page</a>") && index.contains("<a href=\"b/open.md\">Open</a>"),
        "{index}"
    );
    assert!(!index.contains("closed.md") && !index.contains("Hidden"), "{index}");
    assert_eq!((client.get("/p").status, header(&client.get("/p"), "location")), (301, "p/"));
    assert_eq!([client.get("/p/?page=2").status, client.get("/p/?page=x").status], [404, 400]);
    for (address, status) in [("/p/a/page.md?page=x", 200), ("/p/a/page.md/", 404), ("/p//a/page.md", 404)] {
        assert_eq!(client.get(address).status, status, "{address}");
    }
    let feed = client.get("/p/feed.xml");
    assert!(header(&feed, "content-type").starts_with("application/atom+xml"));
    assert!(
        feed.text().contains("https://notes.example/kb/p/b/open.md") && !feed.text().contains("closed.md"),
        "{}",
        feed.text()
    );
    let map = client.get("/p/sitemap.xml").text();
    assert!(map.contains("<loc>https://notes.example/kb/p/a/page.md</loc>"), "{map}");
    assert!(client.get("/sitemap.xml").text().contains("<loc>https://notes.example/kb/p/sitemap.xml</loc>"));
    assert!(client.get("/robots.txt").text().contains("Sitemap: https://notes.example/kb/sitemap.xml"));
    let page = client.get("/p/a/page.md").text();
    assert!(page.contains("rel=\"canonical\" href=\"https://notes.example/kb/p/a/page.md\""), "{page}");
    assert!(page.contains("<a href=\"../b/open.md\">"), "links are relative: {page}");
}

#[test]
fn public_pages_are_those_with_public_visibility() {
    let (_space, client) = site("");
    put(&client, "x/y/pub.md", "---\nvisibility: public\n---\npublic text\n");
    let file = client.get(&format!("{API}/public/file?path=x/y/pub.md"));
    assert_eq!((file.status, header(&file, "content-type")), (200, "text/markdown; charset=utf-8"));
    assert!(file.text().contains("public text"));
    let status = |target: &str| client.get(&format!("{API}{target}")).status;
    assert_eq!(
        [status("/public/file?path=a/page.md"), status("/public/file?path=none.md"), status("/public/file")],
        [404, 404, 400]
    );
    let tree = client.get(&format!("{API}/public/tree")).json();
    assert_eq!(tree[0]["path"], "x", "{tree}");
    assert_eq!(tree[0]["children"][0]["children"][0]["path"], "x/y/pub.md", "{tree}");
    assert_eq!(tree.as_array().unwrap().len(), 1);
    assert_eq!(client.get(&format!("{API}/public/tree?path=x/y")).json()[0]["name"], "pub.md");
    assert_eq!(
        [status("/public/tree?path=a"), status("/public/none"), client.get("/p/x/y/pub.md").status],
        [404, 404, 404]
    );
}

#[test]
fn one_bad_page_does_not_block_the_others() {
    let space = TestSpace::new();
    let client = space.client();
    put(&client, "good.md", "good\n");
    let paths = json!({ "paths": ["none.md", "good.md", "picture.png"] });
    let bulk = post(&client, "/publish/bulk", &paths).json();
    assert_eq!((&bulk["published"], &bulk["changed"], &bulk["skipped"]), (&json!(1), &json!(1), &json!(0)), "{bulk}");
    assert_eq!(bulk["results"][0]["path"], "good.md");
    let errors: Vec<&str> =
        bulk["errors"].as_array().unwrap().iter().map(|error| error["path"].as_str().unwrap()).collect();
    assert_eq!(errors, ["none.md", "picture.png"], "{bulk}");
    assert_eq!(post(&client, "/publish/bulk", &json!({ "paths": ["good.md", ""] })).status, 400);
    assert_eq!(post(&client, "/publish", &json!({ "path": "none.md" })).status, 404);
    let back = post(&client, "/unpublish/bulk", &paths).json();
    assert_eq!((&back["changed"], &back["published"]), (&json!(1), &json!(0)), "{back}");
}

#[test]
fn views_are_counted_only_where_it_is_set() {
    let (_space, client) = site("");
    client.get("/p/a/page.md");
    let status = |client: &Client| client.get(&format!("{API}/publish/status?path=a/page.md")).json();
    assert_eq!(status(&client)["view_count"], Value::Null);
    let (_space, client) = site("publish.count_views = true\n");
    assert_eq!(status(&client)["view_count"], 0);
    for _ in 0..3 {
        client.get("/p/a/page.md");
    }
    client.send("HEAD", "/p/a/page.md", &[], "");
    client.get("/p/");
    assert_eq!(status(&client)["view_count"], 3);
    assert_eq!(post(&client, "/rename", &json!({ "from": "a/page.md", "to": "a/new.md" })).status, 200);
    let listed = client.get(&format!("{API}/publish/list")).json();
    let views: Vec<(&Value, &Value)> =
        listed["pages"].as_array().unwrap().iter().map(|page| (&page["path"], &page["view_count"])).collect();
    assert!(
        views.contains(&(&json!("a/new.md"), &json!(3))) && views.contains(&(&json!("b/open.md"), &json!(0))),
        "{listed}"
    );
}

#[test]
fn external_images_can_be_forbidden() {
    let (_space, client) = site("render.external_images = false\n");
    let page = client.get("/p/a/page.md");
    assert!(!page.text().contains("images.example"), "{}", page.text());
    assert!(header(&page, "content-security-policy").contains("img-src 'self';"));
    let share = post(&client, "/share", &json!({ "path": "a/page.md" })).json();
    let shared = client.send("GET", share["url"].as_str().unwrap(), &[BROWSER], "");
    assert!(!shared.text().contains("images.example") && !header(&shared, "content-security-policy").contains("http"));
}

#[test]
fn text_and_older_versions_are_rendered() {
    let space = TestSpace::new();
    let client = space.client();
    put(&client, "d/a.md", "# Old\n\n[[b]]\n");
    put(&client, "d/b.md", "b\n");
    let first = client.get(&format!("{API}/versions?path=d/a.md")).json()[0]["hash"].as_str().unwrap().to_owned();
    put(&client, "d/a.md", "# New\n");
    let new = client.get(&format!("{API}/render?path=d/a.md")).json();
    let old = client.get(&format!("{API}/render?path=d/a.md&at={first}")).json();
    assert_eq!(
        (&new["title"], &old["title"], &old["links"]),
        (&json!("New"), &json!("Old"), &json!(["d/b.md"])),
        "{old}"
    );
    assert_eq!(client.get(&format!("{API}/render?path=d/a.md&at=ffffffff")).status, 404);
    let text =
        json!({ "path": "d/none.md", "content": "---\nkey: 1\n---\n# Draft\n\n## Part\n\n[[b]] [x](b.md) <script>\n" });
    let draft = post(&client, "/render", &text);
    assert_eq!(draft.status, 200, "{}", draft.text());
    let draft = draft.json();
    assert_eq!(
        (&draft["title"], &draft["frontmatter"]["key"], &draft["links"]),
        (&json!("Draft"), &json!(1), &json!(["d/b.md"]))
    );
    assert_eq!(draft["toc"].as_array().unwrap().len(), 2);
    assert!(!draft["html"].as_str().unwrap().contains("<script"));
    assert_eq!(client.get(&format!("{API}/file?path=d/none.md")).status, 404, "nothing is stored");
    assert_eq!(post(&client, "/render", &json!({ "path": "a.png", "content": "" })).status, 400);
}

/// The inputs of the renderer's own test, through every way to a reader.
#[test]
fn hostile_pages_are_harmless_wherever_they_are_read() {
    let space = TestSpace::with("lint.reject_errors = false\n", false);
    let client = space.client();
    let inputs: Value = serde_json::from_str(include_str!("../../../src/render/tests/hostile.json")).unwrap();
    let texts = |name: &str| {
        inputs[name].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // All fragments of one context on one page.
    for (number, context) in texts("contexts").iter().enumerate() {
        let parts: Vec<String> = texts("fragments").iter().map(|fragment| context.replace('@', fragment)).collect();
        let parts = parts.join("\n\n").replace("---\n", "");
        let path = format!("{number}.md");
        put(&client, &path, &format!("---\npublished: true\ntitle: '<script>alert(1)</script>'\n---\n{parts}\n"));
        let comment = post(
            &client,
            &format!("/comments?path={path}"),
            &json!({ "line": 1, "body": parts.chars().take(2_000).collect::<String>() }),
        );
        assert!(comment.status < 300, "{}", comment.text());
        assert!(header(&comment, "content-type").starts_with("application/json"));
        let share = post(&client, "/share", &json!({ "path": path })).json();
        let rendered = client.get(&format!("{API}/render?path={path}"));
        for html in [
            client.get(&format!("/p/{path}")).text(),
            client.send("GET", share["url"].as_str().unwrap(), &[BROWSER], "").text(),
            rendered.json()["html"].as_str().unwrap().to_owned(),
        ] {
            check_harmless(&html, &path);
        }
        assert!(header(&rendered, "content-type").starts_with("application/json"));
    }
}

/// Checks the elements and attributes that a browser reads.
fn check_harmless(html: &str, path: &str) {
    for node in scraper::Html::parse_document(html).tree.nodes() {
        let Some(element) = node.value().as_element() else { continue };
        let is_data = element.attr("type") == Some("application/ld+json");
        let forbidden = ["script", "iframe", "object", "embed", "svg", "style", "form", "base", "template", "noscript"];
        assert!(is_data || !forbidden.contains(&element.name()), "{} in {path}: {html}", element.name());
        for (name, value) in element.attrs() {
            let is_script = value.trim_start().to_ascii_lowercase().starts_with("javascript:");
            assert!(!name.starts_with("on") && name != "style" && !is_script, "{name}={value} in {path}: {html}");
        }
    }
}
