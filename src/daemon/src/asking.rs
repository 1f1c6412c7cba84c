//! Runs an operation on a server, or in this process if no server serves the root.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Map, Value};
use svcfs_base::{Caller, Fault};
use svcfs_config::{CliOverrides, LogOutput, Settings};
use svcfs_knowledge::audit::{RequestHead, TrackedRequest};
use svcfs_knowledge::kernel::{OperationContext, OperationEntry, Space};
use tracing::level_filters::LevelFilter;

use crate::client::{self, OperationCall};
use crate::failure::{CommandFailure, ExitStatus};
use crate::logging::LogGuard;
use crate::presence::{self, RootHolder, ServedRoot};
use crate::root::{OpenRoot, require_initialised, settings};
use crate::{credentials, logging, output, progress};

/// How long the index may take to catch up before an operation runs.
const INDEX_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a command waits while another command has the root, and how often it checks.
const ROOT_TIMEOUT: Duration = Duration::from_secs(30);
const ROOT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Selects a knowledge base.
#[derive(Debug, Clone, Args)]
pub struct RootTarget {
    /// Use the server at this URL
    #[arg(long, value_name = "URL", conflicts_with = "root")]
    url: Option<String>,
    /// File with the key in its first line (mode 0600) [default: $SVC_API_KEY]
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// Directory of the knowledge base
    #[arg(short, long, value_name = "DIR", default_value = "./knowledge")]
    root: PathBuf,
    /// Space of the server [default: its first space]
    #[arg(long, value_name = "NAME")]
    space: Option<String>,
}

impl RootTarget {
    /// Runs an operation and returns its exact output: over HTTP if a server serves the root, else
    /// in this process.
    ///
    /// # Errors
    /// The refusal of the operation; no server answers and the root cannot be opened.
    pub fn run_operation(
        self,
        entry: &'static OperationEntry,
        arguments: Map<String, Value>,
        caller: Caller,
        if_match: Option<String>,
    ) -> Result<Value, CommandFailure> {
        let target = self.open()?;
        let outcome = target.run(entry, arguments, (&caller, if_match));
        target.close()?;
        outcome
    }

    /// Opens the root, or finds the server that serves it, for one or more operations.
    ///
    /// # Errors
    /// No server answers and the root cannot be opened.
    pub fn open(self) -> Result<OpenTarget, CommandFailure> {
        if let Self { url: Some(url), token_file, root: _, space } = self {
            let token = credentials::load(token_file.as_deref())?;
            return Ok(OpenTarget { target: ServerTarget::Remote { url, space, token }, _logging: None });
        }
        let (path, space) = (self.root(), self.space);
        require_initialised(&path)?;
        let settings = settings(&path, None, CliOverrides::default())?;
        // A command may open several targets.
        let is_first = !tracing::dispatcher::has_been_set();
        let logging = is_first.then(|| logging::start(&LogOutput::Stderr, LevelFilter::ERROR)).transpose()?;
        Ok(OpenTarget { target: find_target(&path, &settings, space)?, _logging: logging })
    }

    /// Directory of the knowledge base. A mount stands for the root that it shows.
    pub fn root(&self) -> PathBuf {
        svcfs_mount::mounted_root(&self.root).unwrap_or_else(|| self.root.clone())
    }

    /// The space that was asked for.
    pub fn space(&self) -> Option<&str> {
        self.space.as_deref()
    }

    /// Whether a server elsewhere is used.
    pub const fn is_remote(&self) -> bool {
        self.url.is_some()
    }
}

/// A server, or a root opened in this process.
pub struct OpenTarget {
    target: ServerTarget,
    _logging: Option<LogGuard>,
}

impl OpenTarget {
    /// Runs an operation and returns its exact output. `if_match` is the precondition of the caller
    /// as text.
    ///
    /// # Errors
    /// The refusal of the operation; the server does not answer.
    pub fn run(
        &self,
        entry: &'static OperationEntry,
        arguments: Map<String, Value>,
        (caller, if_match): (&Caller, Option<String>),
    ) -> Result<Value, CommandFailure> {
        match &self.target {
            ServerTarget::Remote { url, space, token } => {
                let actor = caller.actor.as_ref().map(ToString::to_string);
                let (space, token) = (space.clone(), token.clone());
                client::ask(url, OperationCall { entry, arguments, actor, if_match, space, token })
            }
            ServerTarget::Local { root, space } => {
                let space = find_space(root, space.as_deref())?;
                catch_up_index(root)?;
                Ok(run_locally(root, &space, (entry, caller), arguments)?)
            }
        }
    }

    /// Closes the root if it was opened in this process.
    ///
    /// # Errors
    /// Those of closing the log; accepted changes are in the log then.
    pub fn close(self) -> Result<(), CommandFailure> {
        match self.target {
            ServerTarget::Local { root, .. } => Ok(root.close()?),
            ServerTarget::Remote { .. } => Ok(()),
        }
    }
}

/// Where an operation runs.
enum ServerTarget {
    /// In this process.
    Local { root: Box<OpenRoot>, space: Option<String> },
    /// On a server.
    Remote { url: String, space: Option<String>, token: Option<String> },
}

/// Opens the root, or finds the server that serves it. Waits for another command and for a server
/// that is starting; refuses a root whose process does not answer over HTTP.
fn find_target(path: &Path, settings: &Settings, space: Option<String>) -> Result<ServerTarget, CommandFailure> {
    let started = Instant::now();
    loop {
        let fault = match OpenRoot::open(path, settings.clone(), false) {
            Ok(root) => return Ok(ServerTarget::Local { root: Box::new(root), space }),
            Err(fault) => fault,
        };
        match presence::holder(path, &fault) {
            None => return Err(fault.into()),
            Some(RootHolder { served: Some(ServedRoot { url: Some(url), space: served_space, .. }), .. }) => {
                let token = presence::key(path);
                return Ok(ServerTarget::Remote { url, space: space.or(served_space), token });
            }
            Some(RootHolder { served: None, .. }) if started.elapsed() < ROOT_TIMEOUT => {
                // File locks of other processes have no wait with a timeout.
                std::thread::park_timeout(ROOT_POLL_INTERVAL);
            }
            Some(RootHolder { pid, served: Some(_) | None }) => {
                let path = path.display();
                let message =
                    format!("root `{path}` is used by process {pid}, which does not answer over HTTP; stop it first");
                return Err(CommandFailure::new(ExitStatus::Refused, anyhow::Error::new(fault).context(message)));
            }
        }
    }
}

/// Runs an operation in this process and records it in the audit log.
fn run_locally(
    root: &OpenRoot,
    space: &Arc<Space>,
    (entry, caller): (&'static OperationEntry, &Caller),
    arguments: Map<String, Value>,
) -> Result<Value, Fault> {
    let (method, path, query) = ("call".to_owned(), entry.name.to_owned(), String::new());
    let head = RequestHead { protocol: caller.protocol, method, path, query, peer: None, id: None };
    let request = TrackedRequest::start(root.server(), head);
    let notes = request.notes();
    notes.set_space(space);
    notes.set_operation(entry.name);
    notes.set_actor(caller.actor());
    notes.set_arguments(&arguments);
    let cx = OperationContext::new(root.server(), space, caller);
    let outcome = (entry.call)(arguments.into(), &cx);
    cx.response_meta().lines().for_each(|line| output::complain(&line));
    request.finish(outcome.as_ref().map_or_else(|fault| fault.kind().http(), |_| 200));
    outcome
}

/// A space of this process by name.
fn find_space(root: &OpenRoot, name: Option<&str>) -> Result<Arc<Space>, CommandFailure> {
    Ok(name.map_or_else(|| Ok(Arc::clone(root.space())), |name| root.server().spaces().find(name))?)
}

/// Waits until the index is up to date. Renames need it too: they rewrite the links in the index.
fn catch_up_index(root: &OpenRoot) -> Result<(), CommandFailure> {
    let spinner = progress::spinner("updating the search index");
    let caught_up = root.index_to_cursor(INDEX_TIMEOUT, || spinner.tick());
    spinner.finish_and_clear();
    Ok(caught_up?)
}
