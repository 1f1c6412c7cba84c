//! kill -9 while drafts are written and merged: nothing acknowledged is lost, and no merge is half.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::crash::server::Binary;
use crate::crash::setting;
use crate::space::client::Client;
use crate::space::{can_mount, folder, git};

const WRITERS: usize = 3;
const PAGES: usize = 8;
/// Lengths of load before a kill, one after the other.
const LOADS: [u64; 4] = [150, 400, 250, 600];

/// A draft of one writer: all its pages have one number, which grows from draft to draft.
#[derive(Default)]
struct Acknowledged {
    /// Pages of the open draft: path and content.
    written: HashMap<String, String>,
    open: Option<String>,
    /// The number of the last merge that was answered, and of the last that was sent.
    merged: usize,
    sent: usize,
}

#[test]
fn a_crash_during_drafts_loses_nothing_and_merges_nothing_by_half() {
    let binary = Binary::build();
    let folder = folder();
    let root = folder.path().join("root");
    let acknowledged: Vec<Mutex<Acknowledged>> = (0..WRITERS).map(|_| Mutex::default()).collect();
    let rounds = usize::try_from(setting("SVCFS_DRAFT_ROUNDS").unwrap_or(2)).unwrap();
    for round in 0..rounds {
        let mut server = binary.serve(&root, None);
        let client = Client::new(server.address());
        client.send("PUT", "/api/svc/file?path=index.md", &[], format!("{round}\n"));
        check(&client, &acknowledged);
        let is_killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (writer, acknowledged) in acknowledged.iter().enumerate() {
                let (address, is_killed) = (server.address(), &is_killed);
                scope.spawn(move || work(&Client::new(address), writer, acknowledged, is_killed));
            }
            std::thread::park_timeout(Duration::from_millis(LOADS[round % LOADS.len()]));
            is_killed.store(true, Ordering::SeqCst);
            server.kill();
        });
    }
    let server = binary.serve(&root, None);
    check(&Client::new(server.address()), &acknowledged);
    server.stop();
    let check = git::git(&root, &["fsck", "--strict", "--no-dangling"]);
    assert!(!check.contains("error") && !check.contains("missing"), "{check}");
}

/// Programs sync pages of a draft on the mount until the server is killed.
#[test]
fn synced_pages_of_a_draft_on_the_mount_survive_a_crash() {
    if !can_mount() {
        return;
    }
    let binary = Binary::build();
    let folder = folder();
    let (root, mountpoint) = (folder.path().join("root"), folder.path().join("mnt"));
    let mut server = binary.serve(&root, Some(&mountpoint));
    let client = Client::new(server.address());
    client.send("PUT", "/api/svc/file?path=index.md", &[], "index\n".to_owned());
    let opened = client.send("POST", "/api/svc/drafts", &[("Content-Type", "application/json")], "{}".to_owned());
    let id = opened.json()["id"].as_str().unwrap().to_owned();
    let draft = mountpoint.join(".svc/draft").join(&id);
    let synced: Vec<usize> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn({
                    let draft = &draft;
                    move || sync_pages(draft, writer)
                })
            })
            .collect();
        std::thread::park_timeout(Duration::from_millis(400));
        server.kill();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    drop(server);
    let server = binary.serve(&root, Some(&mountpoint));
    let client = Client::new(server.address());
    for (writer, count) in synced.into_iter().enumerate() {
        assert!(count > 0);
        for page in 0..count {
            let read = client.get(&format!("/api/svc/drafts/{id}/file?path=w{writer}/{page}.md"));
            assert_eq!((read.status, read.text()), (200, format!("{page}\n")), "w{writer}/{page}.md");
        }
    }
    assert_eq!(client.get("/api/svc/file?path=w0/0.md").status, 404, "the tree is unchanged");
    server.stop();
}

/// Creates and syncs pages; returns how many were acknowledged.
fn sync_pages(draft: &Path, writer: usize) -> usize {
    let directory = draft.join(format!("w{writer}"));
    let mut count = 0;
    let mut save = || -> std::io::Result<()> {
        std::fs::create_dir(&directory)?;
        loop {
            let mut file = std::fs::File::create(directory.join(format!("{count}.md")))?;
            writeln!(file, "{count}")?;
            file.sync_all()?;
            count += 1;
        }
    };
    let _killed = save();
    count
}

/// Writes all pages of a draft and merges it, again and again, until the server is killed.
fn work(client: &Client, writer: usize, acknowledged: &Mutex<Acknowledged>, is_killed: &AtomicBool) {
    let send = |method: &str, target: &str, body: &str| {
        let headers = [("X-Actor", "agent"), ("Content-Type", "application/json")];
        client.try_send(method, &format!("/api/svc{target}"), &headers, body.to_owned()).ok()
    };
    while !is_killed.load(Ordering::SeqCst) {
        let mut mine = acknowledged.lock().unwrap();
        let number = mine.sent.max(mine.merged) + 1;
        let id = match mine.open.clone() {
            Some(id) => id,
            None => {
                let Some(opened) = send("POST", "/drafts", "{}").filter(|opened| opened.status == 201) else { return };
                mine.written.clear();
                let id = opened.json()["id"].as_str().unwrap().to_owned();
                mine.open.insert(id).clone()
            }
        };
        for page in 0..PAGES {
            let (path, text) = (format!("w{writer}/{page}.md"), format!("# Page\n\n{number}\n"));
            let written = send("PUT", &format!("/drafts/{id}/file?path={path}"), &text);
            match written {
                Some(written) => assert_eq!(written.status, 200, "{}", written.text()),
                None => {
                    // Either content may be there.
                    mine.written.remove(&path);
                    return;
                }
            }
            mine.written.insert(path, text);
        }
        mine.sent = number;
        let Some(merged) = send("POST", &format!("/drafts/{id}/merge"), "{}") else { return };
        assert_eq!(merged.status, 200, "{}", merged.text());
        (mine.merged, mine.open) = (number, None);
    }
}

/// Compares what a server has with what was acknowledged.
fn check(client: &Client, acknowledged: &[Mutex<Acknowledged>]) {
    let drafts = client.get("/api/svc/drafts").json();
    let is_open = |id: &str| drafts.as_array().unwrap().iter().any(|draft: &Value| draft["id"] == id);
    for (writer, acknowledged) in acknowledged.iter().enumerate() {
        let mut mine = acknowledged.lock().unwrap();
        let pages: Vec<String> = (0..PAGES)
            .map(|page| client.get(&format!("/api/svc/file?path=w{writer}/{page}.md")))
            .map(|read| if read.status == 200 { read.text() } else { String::new() })
            .collect();
        assert!(pages.iter().all(|page| *page == pages[0]), "a merge by half: {pages:?}");
        let number = pages[0].lines().last().and_then(|line| line.parse::<usize>().ok()).unwrap_or(0);
        assert!(
            number == mine.merged || number == mine.sent,
            "writer {writer}: the tree has {number}, {} was answered, {} was sent",
            mine.merged,
            mine.sent
        );
        mine.merged = number;
        let Some(id) = mine.open.clone() else { continue };
        if !is_open(&id) {
            assert_eq!(number, mine.sent, "writer {writer}: draft {id} is lost");
            mine.open = None;
            continue;
        }
        for (path, text) in &mine.written {
            let read = client.get(&format!("/api/svc/drafts/{id}/file?path={path}"));
            assert_eq!((read.status, read.text()), (200, text.clone()), "{path} of draft {id}");
        }
    }
}
