//! `svcfs doctor`, and servers whose git is taken away or locked: damage is told by name, recovers
//! or is mended, and nothing acknowledged is lost.

mod loaded;
mod served;
mod stopped;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

use crate::crash::server::{Binary, Server};
use crate::disk::must_put;
use crate::space::client::Client;
use crate::space::{folder, git, tree};

/// A root with some pages and versions that was served and stopped.
struct Patient {
    folder: TempDir,
    binary: Binary,
}

/// Everything that must be as it was after something was mended.
#[derive(Debug, PartialEq, Eq)]
struct Whole {
    files: BTreeMap<String, String>,
    commits: String,
    versions: Vec<String>,
}

/// What `svcfs doctor` says.
struct Told {
    code: Option<i32>,
    answer: Value,
    complaint: String,
}

impl Patient {
    fn new() -> Self {
        Self::keeping("")
    }
    /// A root with some settings.
    fn keeping(config: &str) -> Self {
        let patient = Self { folder: folder(), binary: Binary::build() };
        fs::write(patient.at("seed.md"), "# Seed\n").unwrap();
        if !config.is_empty() {
            fs::create_dir(patient.at(".svc")).unwrap();
            fs::write(patient.at(".svc/config.toml"), config).unwrap();
        }
        let (server, client) = patient.serve();
        for text in ["# Kept\n\nwalrus\n", "# Kept\n\nwalrus and otter\n", "# Kept\n\notter\n"] {
            must_put(&client, "kept.md", text);
        }
        must_put(&client, "folder/other.md", "# Other\n\nSee [[kept]].\n");
        server.stop();
        patient
    }
    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }
    fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }
    fn aside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn serve(&self) -> (Server, Client) {
        let server = self.binary.serve(&self.root(), None);
        let client = Client::new(server.address());
        (server, client)
    }
    fn run(&self, arguments: &[&str]) -> std::process::Output {
        Command::new(self.binary.path()).args(arguments).arg("--root").arg(self.root()).output().unwrap()
    }
    fn doctor(&self, more: &[&str]) -> Told {
        let output = self.run(&[&["doctor", "--json"], more].concat());
        let complaint = String::from_utf8(output.stderr).unwrap();
        let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        Told { code: output.status.code(), answer, complaint }
    }
    /// Asked of git and of the log, without a server.
    fn whole(&self) -> Whole {
        let output = self.run(&["call", "versions", "path=kept.md", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let versions: Value = serde_json::from_slice(&output.stdout).unwrap();
        let versions = versions.as_array().or_else(|| versions["versions"].as_array()).unwrap();
        let hash =
            |version: &Value| version["hash"].as_str().or_else(|| version["commit"].as_str()).unwrap().to_owned();
        Whole {
            files: tree::files(&self.root()),
            commits: git::git(&self.root(), &["log", "--format=%H %an %s"]),
            versions: versions.iter().map(hash).collect(),
        }
    }
    /// A lock file of git that a process left long ago.
    fn leave_lock(&self, path: &str) -> PathBuf {
        let lock = self.at(path);
        let file = File::create(&lock).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(600)).unwrap();
        lock
    }
    /// Every object in a file of its own.
    fn unpack(&self) {
        for pack in self.packs() {
            let moved = self.aside("moved.pack");
            fs::rename(&pack, &moved).unwrap();
            fs::remove_file(pack.with_extension("idx")).unwrap();
            let mut unpack = Command::new("git");
            unpack.args(["-c", "safe.directory=*", "unpack-objects", "-q"]).current_dir(self.root());
            assert!(unpack.stdin(File::open(moved).unwrap()).status().unwrap().success());
        }
    }
    fn packs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.at(".git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "pack")).collect()
    }
}

impl Told {
    /// The finding of a check.
    #[track_caller]
    fn of(&self, check: &str) -> &Value {
        let findings = self.answer["findings"].as_array().unwrap_or_else(|| panic!("{}", self.complaint));
        let found = findings.iter().find(|finding| finding["check"] == check);
        found.unwrap_or_else(|| panic!("nothing is said of {check}: {}", self.answer))
    }
    /// Every check that did not end well.
    fn trouble(&self) -> Vec<&Value> {
        let findings = self.answer["findings"].as_array().unwrap_or_else(|| panic!("{}", self.complaint));
        findings.iter().filter(|finding| finding["level"] != "ok").collect()
    }
    #[track_caller]
    fn must_be_silent(&self, after: &str) {
        assert_eq!(self.trouble(), Vec::<&Value>::new(), "after {after}");
        assert_eq!(self.code, Some(0), "after {after}: {}", self.complaint);
    }
}

fn rename(from: &Path, to: &Path) {
    fs::rename(from, to).unwrap();
}
