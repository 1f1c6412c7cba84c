//! Search sees a write as soon as its writer was answered, and never what is gone.

use super::played;

#[test]
fn search_follows_every_acknowledgement() {
    played("search", |door, space| {
        let client = space.client();
        for round in 0..20 {
            let (now, before) = (format!("nowword{round}"), format!("nowword{}", round - 1));
            door.write("a.md", format!("# Page\n\n{now}\n").as_bytes()).unwrap();
            assert_eq!(client.found(&now), ["a.md"], "round {round}");
            assert!(client.found(&before).is_empty(), "round {round}: a removed word is still found");
        }
        door.rename("a.md", "b.md").unwrap();
        assert_eq!(client.found("nowword19"), ["b.md"]);
        door.remove("b.md").unwrap();
        assert!(client.found("nowword19").is_empty());
    });
}

#[test]
fn search_knows_who_links_to_whom() {
    played("links", |door, space| {
        door.write("target.md", b"# Target\n").unwrap();
        door.write("source.md", b"# Source\n\nSee [[target]].\n").unwrap();
        let client = space.client();
        let backlinks = || client.get("/api/svc/backlinks?path=target.md").json();
        assert_eq!(backlinks()[0]["path"], "source.md");
        door.write("source.md", b"# Source\n\nSee nothing.\n").unwrap();
        assert_eq!(backlinks().as_array().map(Vec::len), Some(0));
    });
}
