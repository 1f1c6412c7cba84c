//! Bytes that a writer does not change stay, through REST and through the mount.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::pages::generate;
use crate::space::client::{Client, endpoint};
use crate::space::{TestSpace, can_mount, folder, git};

const PAGES: u64 = 2_000;
const WRITERS: usize = 4;

/// `notes/07/1207.md`: small folders, as people have them.
fn path_of(number: u64) -> String {
    format!("notes/{:02}/{number:04}.md", number % 40)
}

/// Where the pages can be seen.
struct Views {
    http: SocketAddr,
    root: PathBuf,
    mountpoint: PathBuf,
}

impl Views {
    fn of(space: &TestSpace) -> Self {
        Self { http: space.http(), root: space.root(), mountpoint: space.mountpoint() }
    }

    /// Calls a function for each page, from several threads.
    fn for_each_page(&self, visit: impl Fn(&Client, u64) + Sync) {
        std::thread::scope(|scope| {
            for writer in 0..WRITERS as u64 {
                let visit = &visit;
                scope.spawn(move || {
                    let client = Client::new(self.http);
                    (writer..PAGES).step_by(WRITERS).for_each(|number| visit(&client, number));
                });
            }
        });
    }

    fn check(&self, client: &Client, number: u64, expected: &[u8]) {
        let path = path_of(number);
        let views = [
            ("the disk", fs::read(self.root.join(&path)).unwrap()),
            ("the mount", fs::read(self.mountpoint.join(&path)).unwrap()),
            ("REST", read_over_rest(client, &path)),
        ];
        for (view, bytes) in views {
            assert!(
                bytes == expected,
                "{path} on {view}:\n{:?}\nexpected\n{:?}",
                String::from_utf8_lossy(&bytes),
                String::from_utf8_lossy(expected)
            );
        }
    }
}

fn read_over_rest(client: &Client, path: &str) -> Vec<u8> {
    client.get(&endpoint("/file", &[("path", path)])).success().unwrap().body.to_vec()
}

fn write_over_rest(client: &Client, path: &str, content: Vec<u8>) {
    client.send("PUT", &endpoint("/file", &[("path", path)]), &[], content).success().unwrap();
}

/// The page with another paragraph at its end. Lines end as they do in the page.
fn with_last_paragraph(mut page: Vec<u8>, text: &str) -> Vec<u8> {
    let line_end = if page.contains(&b'\r') { "\r\n" } else { "\n" };
    while !page.ends_with(line_end.repeat(2).as_bytes()) {
        page.extend_from_slice(line_end.as_bytes());
    }
    page.extend_from_slice(text.as_bytes());
    page.extend_from_slice(line_end.as_bytes());
    page
}

#[test]
fn two_thousand_pages_lose_no_byte_through_rest_and_mount() {
    if !can_mount() {
        return;
    }
    let folder = folder();
    for number in 0..PAGES {
        let path = folder.path().join("root").join(path_of(number));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, generate(number)).unwrap();
    }
    let space = TestSpace::watched(folder);
    space.settle();
    let adopted = git::log(&space.root()).len();
    let views = Views::of(&space);
    let edited = |number| with_last_paragraph(generate(number), &format!("Word{number} at the end"));

    views.for_each_page(|client, number| {
        views.check(client, number, &generate(number));
        write_over_rest(client, &path_of(number), generate(number));
        fs::write(views.mountpoint.join(path_of(number)), generate(number)).unwrap();
    });
    space.settle();
    assert_eq!(git::log(&space.root()).len(), adopted, "equal bytes became a version");

    views.for_each_page(|client, number| {
        let page = edited(number);
        if number % 2 == 0 {
            write_over_rest(client, &path_of(number), page);
        } else {
            fs::write(views.mountpoint.join(path_of(number)), page).unwrap();
        }
    });
    // A write through the mount is on the disk once it is committed.
    space.settle();
    views.for_each_page(|client, number| views.check(client, number, &edited(number)));
}
