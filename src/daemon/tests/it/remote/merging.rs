//! Saves of a remote mount that meet saves of others.

use super::*;

/// How programs save a page as a whole: by writing it anew, by truncating it, by renaming a new
/// file over it, and by renaming the page to a backup first.
fn save_as_programs_do(how: &str, page: &PathBuf, text: &str) -> std::io::Result<()> {
    let beside = page.with_extension("md~");
    match how {
        "truncate" => {
            let mut file = File::options().write(true).open(page)?;
            file.set_len(0)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        }
        "rename" => save(beside.clone(), text).and_then(|()| std::fs::rename(&beside, page)),
        "backup" => {
            std::fs::rename(page, &beside)?;
            let outcome = save(page.clone(), text);
            std::fs::remove_file(&beside)?;
            outcome
        }
        _ => save(page.clone(), text),
    }
}

/// Shows: REM-2
#[test]
fn saves_of_different_lines_are_merged() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &[]);
    let mount = remote(&place, server.url(), "mnt", &[]);
    let text = |status: &str, first: &str, last: &str| {
        format!("---\nstatus: {status}\ntags: [a]\n---\n\n{first}\n\nmiddle\n\n{last}\n")
    };
    for how in ["write", "truncate", "rename", "backup"] {
        let (name, page) = (format!("{how}.md"), place.path(&format!("mnt/{how}.md")));
        put(server.url(), &name, &text("draft", "first", "last"));
        eventually("the page is there", || place.has(&format!("mnt/{name}")));
        assert_eq!(std::fs::read_to_string(&page).unwrap(), text("draft", "first", "last"));
        put(server.url(), &name, &text("draft", "FIRST", "last"));
        save_as_programs_do(how, &page, &text("final", "first", "mine")).unwrap();
        assert_eq!(on_server(server.url(), &name), text("final", "FIRST", "mine"), "{how}");
        // The program still has the text that it sent.
        save_as_programs_do(how, &page, &text("final", "first", "mine, too")).unwrap();
        let merged = text("final", "FIRST", "mine, too");
        assert_eq!(on_server(server.url(), &name), merged, "{how}");
        put(server.url(), &name, &text("final", "FIRST", "yours"));
        let refused = save_as_programs_do(how, &page, &text("final", "first", "mine again"));
        assert_eq!(errno(refused), Some(16), "{how}");
        assert_eq!(on_server(server.url(), &name), text("final", "FIRST", "yours"), "{how}");
        assert_eq!(place.read(&format!("mnt/.svc/rejected/{name}")), text("final", "first", "mine again"));
    }
    // A program that goes on writing does not know where.
    put(server.url(), "open.md", &text("draft", "first", "last"));
    eventually("the page is there", || place.has("mnt/open.md"));
    let mut open = File::options().append(true).open(place.path("mnt/open.md")).unwrap();
    let mut at = File::options().read(true).write(true).open(place.path("mnt/open.md")).unwrap();
    put(server.url(), "open.md", &text("draft", "FIRST", "last"));
    open.write_all(b"more\n").unwrap();
    open.sync_all().unwrap();
    assert_eq!(on_server(server.url(), "open.md"), text("draft", "FIRST", "last") + "more\n");
    assert_eq!(errno(at.write_all(b"x")), Some(16));
    open.write_all(b"and more\n").unwrap();
    open.sync_all().unwrap();
    assert_eq!(on_server(server.url(), "open.md"), text("draft", "FIRST", "last") + "more\nand more\n");
    drop((open, at));
    mount.stop();
}
