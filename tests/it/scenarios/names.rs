//! Names, and where they lie.

use super::played;

/// Names that mean something to a shell, a URL, a query, git, SQL or a search; all of them are
/// names.
const AWKWARD: [&str; 22] = [
    " leading space.md",
    "%41.md",
    "%zz.md",
    "*.md",
    "-dash.md",
    "100%.md",
    "[brackets].md",
    "amp&ersand=1.md",
    "back\\slash.md",
    "colon:semi;.md",
    "dots...md",
    "emoji 🦀.md",
    "hash#tag.md",
    "plus+sign.md",
    "question?.md",
    "quote's \"twice\".md",
    "space in name.md",
    "trailing space.md ",
    "tilde~1.md",
    "ünïcödé.md",
    "u\u{308}nfolded.md",
    "日本語.md",
];

#[test]
fn awkward_names_are_names() {
    played("awkward_names", |protocol, space| {
        for (number, name) in AWKWARD.iter().enumerate() {
            let path = format!("odd & ends/{name}");
            let text = format!("# Page {number}\n\nword{number}\n");
            protocol.write(&path, text.as_bytes()).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
            assert_eq!(protocol.read(&path).unwrap(), text.as_bytes(), "{name}");
        }
        let mut names = AWKWARD.to_vec();
        names.sort_unstable();
        assert_eq!(protocol.list("odd & ends").unwrap(), names);
        let client = space.client();
        for (number, name) in AWKWARD.iter().enumerate().filter(|(_, name)| name.ends_with(".md")) {
            client.until_found(&format!("word{number}"), &[&format!("odd & ends/{name}")]);
        }
        for name in &AWKWARD[..11] {
            protocol.remove(&format!("odd & ends/{name}")).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        }
        for name in &AWKWARD[11..] {
            protocol.rename(&format!("odd & ends/{name}"), &format!("kept/{name}")).unwrap();
        }
    });
}

#[test]
fn a_name_may_have_255_bytes_and_not_one_more() {
    let (longest, longer) = (format!("{}.md", "é".repeat(126)), format!("{}.md", "x".repeat(253)));
    assert_eq!((longest.len(), longer.len()), (255, 256));
    played("longest_name", |protocol, _| {
        protocol.write(&longest, b"# Long\n").unwrap();
        assert_eq!(protocol.read(&longest).unwrap(), b"# Long\n");
        protocol.write(&longer, b"# Longer\n").unwrap_err();
        protocol.rename(&longest, &longer).unwrap_err();
        assert_eq!(protocol.list("").unwrap(), [longest.as_str()]);
    });
}

#[test]
fn directories_lie_in_directories() {
    played("nested_directories", |protocol, _| {
        let deep = (0..40).map(|level| format!("level {level}")).collect::<Vec<_>>().join("/");
        protocol.make_directory(&deep).unwrap();
        protocol.write(&format!("{deep}/deep.md"), b"# Deep\n").unwrap();
        protocol.write("level 0/shallow.md", b"# Shallow\n").unwrap();
        assert_eq!(protocol.read(&format!("{deep}/deep.md")).unwrap(), b"# Deep\n");
        assert_eq!(protocol.list("level 0").unwrap(), ["level 1", "shallow.md"]);
        protocol.rename(&format!("{deep}/deep.md"), "level 0/level 1/lifted.md").unwrap();
        assert_eq!(protocol.list("level 0/level 1").unwrap(), ["level 2", "lifted.md"]);
        protocol.write("level 0", b"a file where a directory is\n").unwrap_err();
        protocol.write("level 0/shallow.md/below", b"a file below a file\n").unwrap_err();
        assert_eq!(protocol.read("level 0/shallow.md").unwrap(), b"# Shallow\n");
    });
}
