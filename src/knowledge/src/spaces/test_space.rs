//! A space in a temporary directory, for the tests of all areas.
#![expect(clippy::disallowed_methods, reason = "tests put files in the root before the space is opened")]

use std::borrow::Borrow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use svcfs_base::{Actor, Caller, ETag, Fault, FrozenClock, Precondition, Protocol, Provenance, TreePath};
use svcfs_config::{CliOverrides, Config, Settings};
use svcfs_work::Supervisor;
use tempfile::TempDir;

use super::{RunningSpace, SpaceCollection, SpaceOptions, open, start_indexer, start_service_tasks};
use crate::CATALOGUE;
use crate::access::AccessControl;
use crate::kernel::{JsonText, OperationContext, ServerState, Space};

/// 2026-01-01T00:00:00Z
const START: i64 = 1_767_225_600;

/// A space with its indexer, and a clock that advances one second at each reading.
pub(crate) struct TestSpace {
    server: ServerState,
    supervisor: Supervisor,
    /// The tasks of a served space.
    service_tasks: Supervisor,
    /// Removed with the last space that uses it.
    root: Arc<TempDir>,
    /// Directory for spaces created at run time.
    parent: Arc<TempDir>,
}

/// Parses a valid path.
pub(crate) fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

/// A caller over HTTP.
pub(crate) fn caller() -> Caller {
    Caller::new(Protocol::Http)
}

impl TestSpace {
    /// An empty space with default settings.
    pub(crate) fn new() -> Self {
        Self::with("", &[])
    }

    /// A space whose root has these files before it is opened, with this `config.toml`.
    pub(crate) fn with(config: &str, files: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = root.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        Self::at(Arc::new(root), config)
    }

    /// A space whose root has external commits before it is opened: pages with their timestamps.
    pub(crate) fn adopted(commits: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str], time: &str| {
            let mut command = Command::new("git");
            command.arg("-C").arg(root.path()).args(["-c", "user.name=Ann", "-c", "user.email=ann@x"]).args(arguments);
            let output = command.env("GIT_AUTHOR_DATE", time).env("GIT_COMMITTER_DATE", time).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        git(&["init", "-q"], "");
        for (time, name) in commits {
            std::fs::write(root.path().join(name), format!("{time}\n")).unwrap();
            git(&["add", name], "");
            git(&["commit", "-qm", &format!("by hand: {name}")], time);
        }
        Self::at(Arc::new(root), "")
    }

    /// Reopens the root after its log was deleted, so that it is rebuilt from git. `before` changes
    /// the root first.
    pub(crate) fn without_its_log(self, before: impl FnOnce(&Path)) -> Self {
        let root = Arc::clone(&self.root);
        drop(self);
        before(root.path());
        let state = root.path().join(".svc/state");
        for name in ["log.db", "log.db-wal", "log.db-shm", "log.journal-0", "log.journal-1"] {
            match std::fs::remove_file(state.join(name)) {
                Err(error) if name == "log.db" => panic!("{error}"),
                Ok(()) | Err(_) => {}
            }
        }
        Self::at(root, "")
    }

    /// A server restarted on the same directories.
    pub(crate) fn again(self) -> Self {
        self.again_after(|_| ())
    }

    /// The same; `before` changes the root first.
    pub(crate) fn again_after(self, before: impl FnOnce(&Path)) -> Self {
        self.again_with("", before)
    }

    /// The same with this `config.toml`.
    pub(crate) fn again_with(self, config: &str, before: impl FnOnce(&Path)) -> Self {
        let (root, parent) = (Arc::clone(&self.root), Arc::clone(&self.parent));
        drop(self);
        before(root.path());
        Self::beside(root, parent, config)
    }

    fn at(root: Arc<TempDir>, config: &str) -> Self {
        Self::beside(root, Arc::new(tempfile::tempdir().unwrap()), config)
    }

    fn beside(root: Arc<TempDir>, parent: Arc<TempDir>, config: &str) -> Self {
        let settings = Settings::resolve(Config::parse(config, &|_| None), CliOverrides::default()).unwrap();
        let clock = Arc::new(FrozenClock::starting_at(START));
        let (name, root_path) = ("default".to_owned(), root.path().to_owned());
        let options =
            SpaceOptions { name, root: root_path, clock: clock.clone(), is_watched: false, on_progress: None };
        let space = open(options, &settings).unwrap();
        let (supervisor, service_tasks) = (Supervisor::new(), Supervisor::new());
        start_indexer(&space, &supervisor).unwrap();
        start_service_tasks(&space, clock.clone(), &settings, &service_tasks).unwrap();
        let opener = Box::new(move |name: &str, root: &Path| {
            let clock = Arc::new(FrozenClock::starting_at(START));
            let (name, root) = (name.to_owned(), root.to_owned());
            let file = root.join(svcfs_config::templates::CONFIG.path);
            let config = Config::read(&file, &|_| None).unwrap_or_default();
            let settings = Settings::resolve(config, CliOverrides::default()).unwrap();
            let space = open(SpaceOptions { name, root, clock, is_watched: false, on_progress: None }, &settings)?;
            let supervisor = Supervisor::new();
            start_indexer(&space, &supervisor)?;
            Ok(RunningSpace { space, supervisor, resource_guard: None })
        });
        let spaces = SpaceCollection::single(space).with_opener(opener, vec![parent.path().to_owned()]);
        let access = AccessControl::new(spaces.first().settings.auth.clone(), None);
        Self { server: ServerState::new(spaces, clock, access), supervisor, service_tasks, root, parent }
    }

    pub(crate) const fn server(&self) -> &ServerState {
        &self.server
    }

    pub(crate) fn space(&self) -> &Space {
        self.server.primary()
    }

    /// The context of a call.
    pub(crate) fn cx<'a>(&'a self, caller: &'a Caller) -> OperationContext<'a> {
        OperationContext::new(&self.server, self.space(), caller)
    }

    /// The context of a call to another space.
    pub(crate) fn cx_of<'a>(&'a self, space: &'a Space, caller: &'a Caller) -> OperationContext<'a> {
        OperationContext::new(&self.server, space, caller)
    }

    /// All spaces.
    pub(crate) fn spaces(&self) -> &SpaceCollection {
        self.server.spaces()
    }

    /// Directory for spaces created at run time.
    pub(crate) fn parent(&self) -> &Path {
        self.parent.path()
    }

    /// The root on disk.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Changes a file out-of-band and triggers a scan.
    pub(crate) fn edit_behind(&self, name: &str, text: &str) {
        std::fs::write(self.root().join(name), text).unwrap();
        self.space().vfs.rescan().unwrap();
    }

    /// Waits until everything accepted is indexed.
    pub(crate) fn settle(&self) {
        let accepted = self.space().vfs.last_seq();
        assert!(self.space().wait_for_index(accepted, Duration::from_secs(20)), "the indexer does not follow");
    }

    /// Stops the indexer, so that the index falls behind.
    pub(crate) fn stop_indexing(&self) {
        assert!(self.supervisor.stop(Duration::from_secs(10)).is_empty());
    }

    /// Stops the refresher of computed pages.
    pub(crate) fn stop_refreshing(&self) {
        assert!(self.service_tasks.stop(Duration::from_secs(10)).is_empty());
    }

    /// Runs an operation by name. JSON written in pieces must be the same.
    pub(crate) fn ask_as(&self, caller: &Caller, name: &str, arguments: Value) -> Result<Value, Fault> {
        let entry = CATALOGUE.iter().flat_map(|area| area.operations).find(|entry| entry.name == name);
        let entry = entry.unwrap_or_else(|| panic!("no operation is named `{name}`"));
        let answer = (entry.call)(arguments.clone(), &self.cx(caller));
        if matches!(name, "tree" | "graph") {
            let text = (entry.call_json)(arguments, &self.cx(caller)).and_then(JsonText::collect);
            let text = text.map(|text| String::from_utf8(text).unwrap());
            assert_eq!(
                text.map_err(status_and_message),
                answer.as_ref().map(Value::to_string).map_err(status_and_message)
            );
        }
        answer
    }

    /// Runs an operation by name, over HTTP.
    pub(crate) fn ask(&self, name: &str, arguments: Value) -> Result<Value, Fault> {
        self.ask_as(&caller(), name, arguments)
    }

    /// The output of an operation that must succeed.
    #[track_caller]
    pub(crate) fn get(&self, name: &str, arguments: Value) -> Value {
        self.ask(name, arguments).unwrap_or_else(|fault| panic!("`{name}` failed: {fault:?}"))
    }

    /// The answer of an operation as agents read it.
    #[track_caller]
    pub(crate) fn text_answer(&self, name: &str, arguments: Value) -> String {
        let entry = CATALOGUE.iter().flat_map(|area| area.operations).find(|entry| entry.name == name).unwrap();
        (entry.call_for_agent)(arguments, &self.cx(&Caller::new(Protocol::Mcp))).unwrap().text.unwrap()
    }

    /// Writes a page, which must succeed; returns its entity tag.
    #[track_caller]
    pub(crate) fn put(&self, path: &str, content: &str) -> ETag {
        let written = self.get("write", json!({ "path": path, "content": content }));
        ETag::from_hex(written["etag"].as_str().unwrap()).unwrap()
    }

    /// The text of an existing page.
    #[track_caller]
    pub(crate) fn text(&self, path: &str) -> String {
        self.get("read", json!({ "path": path }))["content"].as_str().unwrap().to_owned()
    }

    /// HTTP status and message of an error.
    #[track_caller]
    pub(crate) fn refusal(&self, name: &str, arguments: Value) -> (u16, String) {
        status_and_error(self.ask(name, arguments))
    }

    /// Author and subject of the newest commit of a path.
    #[track_caller]
    pub(crate) fn newest(&self, path: &str) -> (String, String, String) {
        let versions = self.get("versions", json!({ "path": path }));
        let field = |name: &str| versions[0][name].as_str().unwrap_or_default().to_owned();
        (field("hash"), field("author"), field("message"))
    }
}

fn status_and_message(fault: impl Borrow<Fault>) -> (u16, String) {
    (fault.borrow().kind().http(), fault.borrow().message().to_owned())
}

/// Status and message of an error.
#[track_caller]
pub(crate) fn status_and_error(outcome: Result<Value, Fault>) -> (u16, String) {
    match outcome {
        Ok(answer) => panic!("should have been refused, answered {answer}"),
        Err(fault) => (fault.kind().http(), fault.message().to_owned()),
    }
}

/// A caller over HTTP with a precondition.
pub(crate) fn expecting(expect: Precondition) -> Caller {
    Caller { precondition: expect, ..caller() }
}

/// A caller over HTTP with a name and a provenance.
pub(crate) fn from_run(name: &str, origin: &str) -> Caller {
    Caller { provenance: Provenance::parse(origin), ..caller().with_actor(Actor::new(name)) }
}

impl Drop for TestSpace {
    fn drop(&mut self) {
        let mut lingering = self.service_tasks.stop(Duration::from_secs(10));
        lingering.extend(self.supervisor.stop(Duration::from_secs(10)));
        let others = self.spaces().close_secondary();
        let closed = self.space().vfs.close().and(others);
        if !std::thread::panicking() {
            assert!(lingering.is_empty(), "still running: {lingering:?}");
            assert!(closed.is_ok(), "{closed:?}");
        }
    }
}
