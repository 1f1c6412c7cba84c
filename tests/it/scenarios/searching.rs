//! Search finds what another client wrote a moment later, and never what is gone.

use super::played;

/// Shows: IDX-1
#[test]
fn search_finds_what_another_client_wrote() {
    played("search", |protocol, space| {
        let client = space.client();
        for round in 0..20 {
            let (now, before) = (format!("nowword{round}"), format!("nowword{}", round - 1));
            protocol.write("a.md", format!("# Page\n\n{now}\n").as_bytes()).unwrap();
            client.until_found(&now, &["a.md"]);
            assert!(client.found(&before).is_empty(), "round {round}: a removed word is still found");
        }
        protocol.rename("a.md", "b.md").unwrap();
        client.until_found("nowword19", &["b.md"]);
        protocol.remove("b.md").unwrap();
        client.until_found("nowword19", &[]);
    });
}

#[test]
fn search_knows_who_links_to_whom() {
    played("links", |protocol, space| {
        protocol.write("target.md", b"# Target\n").unwrap();
        protocol.write("source.md", b"# Source\n\nSee [[target]].\n").unwrap();
        let client = space.client();
        let backlinks = || client.get("/api/svc/backlinks?path=target.md").json();
        assert_eq!(backlinks()[0]["path"], "source.md");
        protocol.write("source.md", b"# Source\n\nSee nothing.\n").unwrap();
        assert_eq!(backlinks().as_array().map(Vec::len), Some(0));
    });
}
