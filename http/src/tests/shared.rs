//! Pages behind links.

use serde_json::{Value, json};

use super::server::{Answer, TestServer};

const BROWSER: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");

async fn share(server: &TestServer, arguments: Value) -> (String, String) {
    let answer = server.ask("POST /api/svc/share", &[("X-Actor", "ann")], arguments.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = |name: &str| answer.json()[name].as_str().unwrap().to_owned();
    (text("url"), text("id"))
}

fn assert_private(answer: &Answer) {
    assert_eq!(answer.header("cache-control"), "private, no-store");
    assert_eq!(answer.header("x-robots-tag"), "noindex, nofollow");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_get_one_page_as_html_and_programs_its_bytes() {
    let server = TestServer::new();
    server.put("secret.md", "# Secret\n\nhidden text\n").await;
    let page = "# Plan\n\nSee [[secret]], [it](secret.md), ![[secret]], ![i](a.png)\n\n<script>alert(1)</script>\n\
                \n```dql\nLIST\n```\n";
    server.put("plan.md", page).await;
    assert_eq!(server.ask("PUT /api/svc/file?path=a.png", &[], "png").await.status, 200);
    let (url, _) = share(&server, json!({ "path": "plan.md" })).await;
    let html = server.ask(&format!("GET {url}"), &[BROWSER], "").await;
    assert_eq!((html.status, html.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_private(&html);
    let policy = html.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'self';"), "{policy}");
    let text = html.text();
    assert!(text.contains(">Plan</h1>") && text.contains("noindex"), "{text}");
    for secret in ["hidden text", "secret.md\"", "<script", "a.png\"", "/raw/", "/page/"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    for accept in [&[][..], &[("Accept", "text/markdown")], &[("Accept", "*/*")]] {
        let raw = server.ask(&format!("GET {url}"), accept, "").await;
        assert_eq!((raw.status, raw.header("content-type")), (200, "text/markdown; charset=utf-8"));
        assert!(raw.text().contains("[[secret]]"), "{}", raw.text());
        assert_private(&raw);
    }
    let listed = server.get("/api/svc/share?path=plan.md").await.json();
    assert_eq!(listed[0]["viewCount"], 4);
    let other = url.replace("/public/", "/other/public/");
    assert_eq!(server.get(&other).await.status, 200, "the token alone names the page");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_show_nothing_look_alike() {
    let server = TestServer::of(svcfs_knowledge::CATALOGUE, "");
    server.put("a.md", "a\n").await;
    server.put("b.md", "b\n").await;
    let (revoked, id) = share(&server, json!({ "path": "a.md" })).await;
    let (removed, _) = share(&server, json!({ "path": "b.md" })).await;
    let (expired, _) = share(&server, json!({ "path": "a.md", "expiresIn": "1ns" })).await;
    assert_eq!(server.ask(&format!("DELETE /api/svc/share/{id}"), &[], "").await.json(), json!({ "revoked": id }));
    assert_eq!(server.ask("DELETE /api/svc/file?path=b.md", &[], "").await.status, 200);
    let unknown = "/api/svc/public/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for url in [&*revoked, &*removed, &*expired, unknown, "/api/svc/public/x", "/api/svc/public/%00"] {
        let answer = server.get(url).await;
        assert_eq!(answer.error(404), "link not found or expired");
        assert_private(&answer);
        for url in [url.to_owned(), url.replace("/public/", "/other/public/")] {
            let page = server.ask(&format!("GET {url}"), &[BROWSER], "").await;
            assert_eq!((page.status, page.header("content-type")), (404, "text/html; charset=utf-8"), "{url}");
            assert_private(&page);
            assert_eq!(page.header("vary"), "Accept");
            let policy = page.header("content-security-policy");
            assert!(policy.starts_with("default-src 'none'; style-src 'self';"), "{policy}");
            let way_up = if url.contains("/other/") { "../../../../" } else { "../../../" };
            let (text, stylesheet) = (page.text(), format!("href=\"{way_up}p/@style.css\""));
            assert!(
                text.contains("This link does not exist or is no longer valid.") && text.contains(&stylesheet),
                "{text}"
            );
            assert!(!text.contains("<a "), "it names other pages: {text}");
        }
    }
    let secret = server.ask("GET /api/svc/public/file", &[BROWSER], "").await;
    assert_eq!(secret.header("content-type"), "application/json", "{}", secret.text());
}

#[tokio::test]
async fn a_space_without_published_pages_answers_as_a_missing_one() {
    let server = TestServer::new();
    server.put("public.md", "---\npublished: true\n---\n# Public\n").await;
    let other = [("X-Svc-Space", "other")];
    for path in ["a.md", "d/b.md", "i.png"] {
        assert_eq!(server.ask(&format!("PUT /api/svc/file?path={path}"), &other, "# Secret\n").await.status, 200);
    }
    let addresses = ["", "?page=1", "?page=2", "?page=x", "?x=1", "a.md", "a", "d/b.md", "d/", "i.png", "feed.xml"];
    for address in addresses.into_iter().chain(["@style.css", "none.md", ".svc/config.toml", "%00", "../p/public.md"]) {
        for headers in [&[][..], &[BROWSER]] {
            let ask = async |space: &str| {
                let answer = server.ask(&format!("GET /p/@{space}/{address}"), headers, "").await;
                let mut headers = answer.headers.clone();
                headers.remove("x-request-id");
                (answer.status, headers, answer.text().replace(space, "SPACE"))
            };
            let (there, missing) = (ask("other").await, ask("nope").await);
            assert_eq!(there, missing, "{address}");
            let is_path = !address.contains("..") && !address.contains("%00");
            assert_eq!(there.0, if is_path { 404 } else { 400 }, "{address}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_accepted_in_three_places() {
    let server = TestServer::new();
    server.put("a.md", "a\n").await;
    let (url, _) = share(&server, json!({ "path": "a.md", "password": "p:w é" })).await;
    for (query, header, status) in [
        ("", ("Accept", "*/*"), 401),
        ("?password=", ("Accept", "*/*"), 401),
        ("?password=wrong", ("Accept", "*/*"), 401),
        ("?password=p%3Aw%20%C3%A9", ("Accept", "*/*"), 200),
        ("", ("Authorization", "Basic YW5uOnA6dyDDqQ=="), 200),
        ("", ("Authorization", "Basic YW5uOndyb25n"), 401),
        ("", ("Authorization", "Basic !"), 401),
        ("", ("Authorization", "Bearer abc"), 401),
        ("", ("X-Share-Password", "wrong"), 401),
    ] {
        let answer = server.ask(&format!("GET {url}{query}"), &[header, BROWSER], "").await;
        assert_eq!(answer.status, status, "{query} {header:?}");
        assert_private(&answer);
        if status == 401 {
            assert_eq!(answer.error(401), "password required");
            assert!(answer.header("www-authenticate").starts_with("Basic realm=\"svcfs-share\""));
        }
    }
    let (plain, _) = share(&server, json!({ "path": "a.md", "password": "plain" })).await;
    assert_eq!(server.ask(&format!("GET {plain}"), &[("X-Share-Password", "plain")], "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_work_without_the_keys_of_the_server_and_no_other_route_does() {
    let config = "[auth]\ntype = \"apikey\"\napi_key = \"k-0123456789abcdef0123456789abcdef\"\n";
    let server = TestServer::of(svcfs_knowledge::CATALOGUE, config);
    let key = ("Authorization", "Bearer k-0123456789abcdef0123456789abcdef");
    let write = server.ask("PUT /api/svc/file?path=a.md", &[key], "a\n").await;
    assert_eq!(write.status, 200, "{}", write.text());
    let body = json!({ "path": "a.md" }).to_string();
    let link = server.ask("POST /api/svc/share", &[key], body.clone()).await.json();
    let url = link["url"].as_str().unwrap();
    assert_eq!(server.get(url).await.status, 200);
    assert_eq!(server.ask(&format!("GET {url}"), &[("Authorization", "Bearer wrong")], "").await.status, 200);
    for line in ["POST /api/svc/share", "GET /api/svc/share?path=a.md", "DELETE /api/svc/share/x"] {
        assert_eq!(server.ask(line, &[], body.clone()).await.status, 401, "{line}");
    }
}
