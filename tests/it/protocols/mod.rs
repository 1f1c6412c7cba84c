//! The doors, as one sees them from outside: the same few verbs, whatever is spoken behind them.

mod agent;
mod asking;
mod direct;
pub mod kernel;
mod nfs;
mod rest;
mod s3;
mod webdav;

use svcfs_config::VersioningStrategy;

use crate::space::{TestSpace, can_mount};

/// The other user; exists on every machine, and can go through every door.
pub const GUEST: &str = "nobody";

/// What a door answers; a refusal as its caller reads it.
pub type Answer<T> = Result<T, String>;

/// One way into a space. Whoever comes through it is the user who runs the tests, unless it says
/// guest.
pub trait Door: Send {
    /// Puts a whole content.
    fn write(&self, path: &str, content: &[u8]) -> Answer<()>;
    /// The same, by another user: [`GUEST`].
    fn write_as_guest(&self, path: &str, content: &[u8]) -> Answer<()>;
    /// Adds to the end.
    fn append(&self, path: &str, content: &[u8]) -> Answer<()>;
    /// Reads a whole content.
    fn read(&self, path: &str) -> Answer<Vec<u8>>;
    /// Gives a file another name.
    fn rename(&self, from: &str, to: &str) -> Answer<()>;
    /// Removes a file.
    fn remove(&self, path: &str) -> Answer<()>;
    /// Names in a directory, in order, without those that begin with a dot.
    fn list(&self, directory: &str) -> Answer<Vec<String>>;
    /// Makes a directory; through doors that know none this does nothing, since a write makes what
    /// it needs.
    fn make_directory(&self, path: &str) -> Answer<()>;
}

/// Which door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Direct,
    Http,
    Mcp,
    Fuse,
    WebDav,
    Nfs,
    S3,
}

/// The vfs itself comes first: the story it leaves is what every other door's is compared with.
pub const ALL: [Kind; 7] = [Kind::Direct, Kind::Http, Kind::Mcp, Kind::Fuse, Kind::WebDav, Kind::Nfs, Kind::S3];

impl Kind {
    /// A new space to go into by this door; none, with the reason printed, where that is not
    /// possible.
    pub fn space(self, strategy: VersioningStrategy) -> Option<TestSpace> {
        match self {
            Self::Direct | Self::Http | Self::Mcp | Self::WebDav | Self::Nfs | Self::S3 => {
                Some(TestSpace::keeping(strategy))
            }
            Self::Fuse => TestSpace::mounted_keeping(strategy),
        }
    }
    /// Whether a file gets another name here by being copied and removed: two changes, each with
    /// its commit.
    pub fn renames_in_two(self) -> bool {
        self == Self::S3
    }
    /// A new space to go into by this door whose commits are made later than its writers are
    /// answered.
    pub fn gathering_space(self) -> Option<TestSpace> {
        self.if_possible(TestSpace::gathering)
    }
    /// A new space with these settings to go into by this door.
    pub fn space_with(self, config: &str) -> Option<TestSpace> {
        self.if_possible(|is_mounted| TestSpace::with(config, is_mounted))
    }
    fn if_possible(self, space: impl FnOnce(bool) -> TestSpace) -> Option<TestSpace> {
        let is_mounted = self == Self::Fuse;
        (!is_mounted || can_mount()).then(|| space(is_mounted))
    }
    /// This door of a space, for somebody who asks about history after each change.
    pub fn asking(self, space: &TestSpace) -> Box<dyn Door> {
        Box::new(asking::Asking::new(self.of(space), space))
    }
    /// This door of a space.
    pub fn of(self, space: &TestSpace) -> Box<dyn Door> {
        match self {
            Self::Direct => Box::new(direct::Direct::new(space)),
            Self::Http => Box::new(rest::Rest::new(space)),
            Self::Mcp => Box::new(agent::Agent::new(space)),
            Self::Fuse => Box::new(kernel::Kernel::new(space)),
            Self::WebDav => Box::new(webdav::WebDav::new(space)),
            Self::Nfs => Box::new(nfs::Nfs::new(space)),
            Self::S3 => Box::new(s3::S3::new(space)),
        }
    }
}

#[test]
fn requests_are_counted_by_protocol_and_operation() {
    let space = TestSpace::new();
    for kind in [Kind::WebDav, Kind::S3, Kind::Nfs] {
        let protocol = kind.of(&space);
        protocol.write("a.md", b"# A\n").unwrap();
        assert_eq!(protocol.read("a.md").unwrap(), b"# A\n");
        protocol.read("none.md").unwrap_err();
    }
    let told = space.client().send("GET", "/metrics", &[], Vec::new()).success().unwrap().text();
    for (protocol, operation, outcome) in [
        ("webdav", "PUT", "ok"),
        ("webdav", "GET", "ok"),
        ("webdav", "GET", "404"),
        ("s3", "PutObject", "ok"),
        ("s3", "GetObject", "ok"),
        ("s3", "GetObject", "404"),
        ("nfs", "WRITE", "ok"),
        ("nfs", "LOOKUP", "ok"),
        ("nfs", "LOOKUP", "NFS3ERR_NOENT"),
    ] {
        let named = format!("protocol=\"{protocol}\",operation=\"{operation}\"");
        let samples = [
            format!("svc_operations_total{{{named},outcome=\"{outcome}\"}} "),
            format!("svc_operation_seconds_bucket{{le=\"+Inf\",{named}}} "),
        ];
        for sample in samples {
            assert!(told.lines().any(|line| line.starts_with(&sample)), "{sample} is not in {told}");
        }
    }
}
