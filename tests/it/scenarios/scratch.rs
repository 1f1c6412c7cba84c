//! Scratch files (gaps.md D8): stored and readable, and nothing else.

use super::played;

const SCRATCH: [&str; 7] = ["a.md~", ".a.md.swp", "4913", "notes/x.tmp", ".#lock.md", "notes/~$doc.md", "video.part"];

#[test]
fn scratch_files_leave_no_trace() {
    played("scratch_files", |door, space| {
        door.write("a.md", b"# Page\n").unwrap();
        for name in SCRATCH {
            door.write(name, b"scratchword\n").unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
            assert_eq!(door.read(name).unwrap(), b"scratchword\n", "{name}");
        }
        assert!(space.client().found("scratchword").is_empty());
        door.rename("notes/x.tmp", "notes/y.tmp").unwrap();
        for name in ["a.md~", "notes/y.tmp"] {
            door.remove(name).unwrap();
        }
    });
}

#[test]
fn a_scratch_file_renamed_to_a_page_is_a_write_of_that_page() {
    played("scratch_becomes_page", |door, space| {
        door.write("a.md.tmp", b"# Made aside\n\nasideword\n").unwrap();
        assert!(space.client().found("asideword").is_empty());
        door.rename("a.md.tmp", "a.md").unwrap();
        assert_eq!(door.read("a.md").unwrap(), b"# Made aside\n\nasideword\n");
        assert_eq!(space.client().found("asideword"), ["a.md"]);
    });
}
