//! A server that cannot be reached for a while.

use super::*;

/// Shows: REM-7
#[test]
fn an_unreachable_server_fails_programs_by_timeout_and_recovers() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &[]);
    let url = server.url().to_owned();
    put(&url, "a.md", "# A\n");
    let mount = remote(&place, &url, "mnt", &[]);
    let mut open = File::open(place.path("mnt/a.md")).unwrap();
    // Killed, and back before anybody's patience is at its end: nobody notices.
    server.signal(Signal::KILL);
    drop(server);
    let (at, again) = (place.path("mnt/waited.md"), url.clone());
    let waiting = thread::spawn(move || save(at, "# Waited\n"));
    let server = served(&place, &url);
    waiting.join().unwrap().unwrap();
    assert_eq!(on_server(&again, "waited.md"), "# Waited\n");
    // Away for longer.
    let mut writing = File::create(place.path("mnt/lost.md")).unwrap();
    server.signal(Signal::KILL);
    drop(server);
    writing.write_all(b"# Not lost\n").unwrap();
    assert_eq!(errno(writing.sync_all()), Some(5));
    drop(writing);
    assert_eq!(place.read("mnt/.svc/rejected/lost.md"), "# Not lost\n");
    assert_eq!(std::fs::read_dir(place.path("mnt/.svc/rejected")).unwrap().count(), 1);
    let refused = std::fs::read(place.path("mnt/a.md")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(5));
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "# A\n", "what is open can be read");
    std::fs::metadata(place.path("mnt")).unwrap();
    let server = served(&place, &url);
    put(&url, "a.md", "# Meanwhile\n");
    eventually("it is taken up again", || {
        std::fs::read(place.path("mnt/a.md")).is_ok_and(|text| text == b"# Meanwhile\n")
    });
    save(place.path("mnt/lost.md"), "# Not lost\n").unwrap();
    assert!(!place.has("mnt/.svc/rejected/lost.md"));
    mount.stop();
    server.stop();
}
