//! Disks that refuse: full, turned read-only, without permission. A refusal is told as what it is,
//! changes nothing, and ends when its cause ends; what was acknowledged is there.

mod failing;
mod filling;
mod housekeeping;
pub mod image;
mod refusing;
mod standing;
mod starting;
pub mod writers;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::crash::server::{Binary, Server};
use crate::space::client::{Client, Reply, endpoint};
use crate::space::{can_mount, leftovers, wait};
use image::Image;

/// Starts a server on an image; mounted where something can be.
fn serve(binary: &Binary, image: &Image) -> (Server, Client) {
    let mountpoint = can_mount().then(|| image.mountpoint());
    let server = binary.serve(&image.root(), mountpoint.as_deref());
    let client = Client::new(server.address());
    (server, client)
}

/// Writes a page over HTTP.
#[track_caller]
pub fn put(client: &Client, path: &str, text: &str) -> Reply {
    client.send("PUT", &endpoint("/file", &[("path", path)]), &[], text.to_owned())
}

/// Writes a page over HTTP; it must be taken.
#[track_caller]
pub fn must_put(client: &Client, path: &str, text: &str) {
    let reply = put(client, path, text);
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
}

/// What a page holds, asked over HTTP; none when it is not there.
#[track_caller]
pub fn page(client: &Client, path: &str) -> Option<String> {
    let reply = client.get(&endpoint("/file", &[("path", path)]));
    match reply.status {
        200 => Some(reply.text()),
        404 => None,
        status => panic!("reading {path}: {status} {}", reply.text()),
    }
}

/// Writes and closes, as most programs do, and hears what each call has to say.
fn save(at: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(at)?;
    let written = file.write_all(text.as_bytes());
    // Closed with care even after a failure: that, too, is a call that may save.
    let closed = nix::unistd::close(file).map_err(io::Error::from);
    written.and(closed)
}

/// The same, and asks for it to be safe.
pub fn save_safely(at: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(at)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Why the server cannot take writes, as it tells who watches over it; none when it can.
#[track_caller]
pub fn trouble(client: &Client) -> Option<String> {
    let reply = client.get("/readyz");
    match reply.status {
        200 => None,
        503 => Some(reply.json()["error"].as_str().unwrap().to_owned()),
        status => panic!("/readyz: {status} {}", reply.text()),
    }
}

/// How many bytes the log holds until the next checkpoint.
pub fn unsettled(client: &Client) -> Option<u64> {
    client.get("/readyz").json()["spaces"][0]["queue"]["unsettled_bytes"].as_u64()
}

#[track_caller]
pub fn wait_until_ready(client: &Client) {
    wait::until("the server is ready again by itself", || trouble(client).is_none());
}

/// Ends the server in order and looks at everything it leaves.
fn stop_and_audit(server: Server, binary: &Binary, image: &Image) {
    image.wait_for_checkpoint();
    server.stop();
    leftovers::check_root(&image.root(), &image.aside("clone"));
    binary.check_index(&image.root());
}
