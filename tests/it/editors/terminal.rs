//! A terminal for programs that will not work without one.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::space::wait;

/// Runs a program on a terminal of its own and types `keys` once it has shown `sign`; it must end
/// by itself, with success.
#[track_caller]
pub fn typed(program: &mut Command, sign: &str, keys: &str) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let terminal =
        || -> Stdio { OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap().into() };
    let mut child =
        program.env("TERM", "xterm").stdin(terminal()).stdout(terminal()).stderr(terminal()).spawn().unwrap();
    let mut screen = File::from(controller);
    let mut shown = String::new();
    let mut room = [0; 4096];
    while !shown.contains(sign) {
        let length = screen.read(&mut room).unwrap();
        shown.push_str(&String::from_utf8_lossy(&room[..length]));
    }
    screen.write_all(keys.as_bytes()).unwrap();
    // A terminal that nobody reads fills up and stops the program.
    let reader =
        std::thread::Builder::new().spawn(move || while screen.read(&mut room).is_ok_and(|length| length > 0) {});
    let mut ended = None;
    let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait::until("the program on the terminal ends", || {
            ended = child.try_wait().unwrap();
            ended.is_some()
        })
    }));
    if waited.is_err() {
        child.kill().unwrap();
    }
    // It holds the terminal, and keeps the reader waiting, for as long as the command is there.
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    reader.unwrap().join().unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?} after {waited:?}; it showed {shown:?}");
}
