//! The life of a page.

use super::played;
use crate::protocols::GUEST;
use crate::space::me;

#[test]
fn a_page_is_created_overwritten_and_deleted() {
    played("create_overwrite_delete", |protocol, _| {
        protocol.write("a.md", b"# One\n\nfirst words\n").unwrap();
        assert_eq!(protocol.read("a.md").unwrap(), b"# One\n\nfirst words\n");
        protocol.write("a.md", b"# One\n\nother words\n").unwrap();
        assert_eq!(protocol.read("a.md").unwrap(), b"# One\n\nother words\n");
        assert_eq!(protocol.list("").unwrap(), ["a.md"]);
        protocol.remove("a.md").unwrap();
        protocol.read("a.md").unwrap_err();
        assert!(protocol.list("").unwrap().is_empty());
        protocol.remove("a.md").unwrap_err();
    });
}

#[test]
fn a_page_that_was_deleted_comes_back() {
    played("delete_and_again", |protocol, _| {
        for text in ["# First life\n", "# Second life\n"] {
            protocol.write("cat.md", text.as_bytes()).unwrap();
            assert_eq!(protocol.read("cat.md").unwrap(), text.as_bytes());
            protocol.remove("cat.md").unwrap();
        }
        protocol.write("cat.md", b"# Third life\n").unwrap();
    });
}

#[test]
fn every_append_is_a_version() {
    played("append", |protocol, _| {
        protocol.write("log.md", b"# Log\n\n- none\n").unwrap();
        for line in ["- one\n", "- two\n", "- three\n"] {
            protocol.append("log.md", line.as_bytes()).unwrap();
        }
        assert_eq!(protocol.read("log.md").unwrap(), b"# Log\n\n- none\n- one\n- two\n- three\n");
    });
}

#[test]
fn an_empty_file_is_a_file() {
    played("empty_file", |protocol, _| {
        // A page is another matter: where pages are tidied, an empty one gets the line end every
        // text has.
        protocol.write("empty.txt", b"").unwrap();
        assert_eq!(protocol.read("empty.txt").unwrap(), b"");
        protocol.write("empty.txt", b"filled").unwrap();
        protocol.write("empty.txt", b"").unwrap();
        assert_eq!(protocol.read("empty.txt").unwrap(), b"");
        assert_eq!(protocol.list("").unwrap(), ["empty.txt"]);
    });
}

#[test]
fn a_page_of_a_mebibyte_is_one_version_and_fully_searchable() {
    let mut text = "# Large\n\n".to_owned();
    while text.len() < 1 << 20 {
        text.push_str("The quick brown fox jumps over the lazy dog.\n");
    }
    text.push_str("quetzalcoatl\n");
    played("one_mebibyte", |protocol, space| {
        protocol.write("large.md", text.as_bytes()).unwrap();
        assert!(protocol.read("large.md").unwrap() == text.as_bytes(), "what is read differs from what was written");
        assert_eq!(space.client().found("quetzalcoatl"), ["large.md"]);
    });
}

/// Shows: HTTP-4
#[test]
fn bytes_that_are_no_text_travel_unharmed() {
    let picture: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    played("bytes", |protocol, _| {
        protocol.write("pictures/all.png", &picture).unwrap();
        assert!(protocol.read("pictures/all.png").unwrap() == picture, "what is read differs from what was written");
    });
}

#[test]
fn the_same_content_again_is_no_version() {
    played("same_content", |protocol, space| {
        protocol.write("a.md", b"# Same\n").unwrap();
        space.settle();
        let before = space.log();
        for _ in 0..3 {
            protocol.write("a.md", b"# Same\n").unwrap();
        }
        space.settle();
        assert_eq!(space.log(), before);
    });
}

#[test]
fn two_writers_who_take_turns_are_both_named() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root can go through the mount as another user");
        return;
    }
    played("two_writers", |protocol, space| {
        for round in 0..3 {
            protocol.write("shared.md", format!("# Shared\n\nmine {round}\n").as_bytes()).unwrap();
            protocol.write_as_guest("shared.md", format!("# Shared\n\nyours {round}\n").as_bytes()).unwrap();
        }
        space.settle();
        let authors: Vec<String> = space.log().into_iter().map(|commit| commit.author).collect();
        assert_eq!(authors, [&me(), GUEST, &me(), GUEST, &me(), GUEST].map(ToString::to_string));
    });
}
