//! Scratch files (gaps.md D8): stored and readable, and nothing else.

use super::played;

/// Not hidden: REST and MCP have no hidden files.
const SCRATCH: [&str; 7] = ["a.md~", "a.md.swp", "4913", "notes/x.tmp", "lock.swx", "notes/~$doc.md", "video.part"];

#[test]
fn scratch_files_leave_no_trace() {
    played("scratch_files", |protocol, space| {
        protocol.write("a.md", b"# Page\n").unwrap();
        for name in SCRATCH {
            protocol.write(name, b"scratchword\n").unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
            assert_eq!(protocol.read(name).unwrap(), b"scratchword\n", "{name}");
        }
        assert!(space.client().found("scratchword").is_empty());
        protocol.rename("notes/x.tmp", "notes/y.tmp").unwrap();
        for name in ["a.md~", "notes/y.tmp"] {
            protocol.remove(name).unwrap();
        }
    });
}

#[test]
fn a_scratch_file_renamed_to_a_page_is_a_write_of_that_page() {
    played("scratch_becomes_page", |protocol, space| {
        protocol.write("a.md.tmp", b"# Made aside\n\nasideword\n").unwrap();
        assert!(space.client().found("asideword").is_empty());
        protocol.rename("a.md.tmp", "a.md").unwrap();
        assert_eq!(protocol.read("a.md").unwrap(), b"# Made aside\n\nasideword\n");
        assert_eq!(space.client().found("asideword"), ["a.md"]);
    });
}
