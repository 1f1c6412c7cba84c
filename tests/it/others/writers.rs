//! Agents and programs that write while a person is at work.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::space::client::{Client, endpoint};
use crate::space::{TestSpace, me, wait};

/// Pages of each writer: few, so that they are overwritten often.
const PAGES: usize = 5;

/// One acknowledged write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub author: String,
    pub path: String,
    pub content: String,
}

/// How much time a writer takes between two writes.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    /// None.
    Steady,
    /// As much as somebody who thinks: git finds moments at which nobody writes.
    Thinking,
}

/// One writer, at work in a folder of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Http(usize),
    Mcp,
    Mount,
}

impl Writer {
    fn folder(self) -> String {
        match self {
            Self::Http(number) => format!("http{number}"),
            Self::Mcp => "mcp".to_owned(),
            Self::Mount => "mount".to_owned(),
        }
    }

    fn author(self) -> String {
        match self {
            Self::Http(_) | Self::Mcp => format!("agent:{}", self.folder()),
            Self::Mount => me(),
        }
    }

    fn text(self, serial: usize) -> Written {
        let (folder, page) = (self.folder(), serial % PAGES);
        let path = format!("{folder}/page {page}.md");
        let lines = "x\n".repeat(serial % 40);
        Written { author: self.author(), content: format!("# Page {page}\n\n{folder}word{serial}\n{lines}"), path }
    }

    fn write(self, (client, mountpoint): (&Client, &Path), written: &Written) -> Result<(), String> {
        let Written { author, path, content } = written;
        match self {
            Self::Http(_) => {
                let headers = [("X-Actor", author.as_str())];
                client.send("PUT", &endpoint("/file", &[("path", path)]), &headers, content.clone()).success()?;
                Ok(())
            }
            Self::Mcp => {
                client.tool("svc_write", json!({ "path": path, "content": content, "actor": author })).map(drop)
            }
            Self::Mount => loop {
                match saved(&mountpoint.join(path), content) {
                    // A checkout of a branch without it took the folder away in between.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    outcome => return outcome.map_err(|error| error.to_string()),
                }
            },
        }
    }
}

/// Writes a file and returns when it is safe.
fn saved(at: &PathBuf, content: &str) -> std::io::Result<()> {
    at.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut file = File::create(at)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

/// Ends the writers also when the person's work fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The writers, as the person sees them.
pub struct Agents<'a> {
    count: &'a AtomicUsize,
    /// One of them failed, and the test is about to.
    is_broken: &'a dyn Fn() -> bool,
}

impl Agents<'_> {
    /// Waits until they have written some more.
    pub fn go_on(&self) {
        let enough = self.count.load(Ordering::Relaxed) + 8;
        wait::until("the agents write", || (self.is_broken)() || self.count.load(Ordering::Relaxed) >= enough);
    }
}

/// Has everybody write while a person works; all that was acknowledged, in the order of each
/// writer.
pub fn while_agents_write(space: &TestSpace, pace: Pace, work: impl FnOnce(&Agents<'_>)) -> Vec<Written> {
    let mut writers = vec![Writer::Http(0), Writer::Http(1), Writer::Mcp];
    if crate::space::can_mount() {
        writers.push(Writer::Mount);
    }
    let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let ends = Ends(&is_over);
        let threads: Vec<_> = writers
            .iter()
            .map(|writer| {
                let (is_over, count) = (&is_over, &count);
                let (client, mountpoint) = (space.client(), space.mountpoint());
                scope.spawn(move || {
                    let mut all = Vec::new();
                    while !is_over.load(Ordering::SeqCst) {
                        let written = writer.text(all.len());
                        if let Err(said) = writer.write((&client, &mountpoint), &written) {
                            panic!("{writer:?}: {} was refused: {said}", written.path);
                        }
                        all.push(written);
                        count.fetch_add(1, Ordering::Relaxed);
                        match pace {
                            Pace::Steady => {}
                            Pace::Thinking => thread::park_timeout(Duration::from_millis(250)),
                        }
                    }
                    all
                })
            })
            .collect();
        let is_broken = || threads.iter().any(thread::ScopedJoinHandle::is_finished);
        let agents = Agents { count: &count, is_broken: &is_broken };
        agents.go_on();
        work(&agents);
        agents.go_on();
        drop(ends);
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}
