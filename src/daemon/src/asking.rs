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
use crate::presence::{self, RootHolder, ServedRoot};
use crate::root::{OpenRoot, require_initialised, settings};
use crate::root_flag::RootFlag;
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
    #[command(flatten)]
    root: RootFlag,
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
        let Self { url, token_file, root, space } = self;
        let actor = caller.actor.as_ref().map(ToString::to_string);
        let call = |arguments, token| OperationCall { entry, arguments, actor, if_match, space: space.clone(), token };
        if let Some(url) = url {
            return client::ask(&url, call(arguments, credentials::load(token_file.as_deref())?));
        }
        let path = root.find()?;
        require_initialised(&path)?;
        let settings = settings(&path, None, CliOverrides::default())?;
        // A command may run several operations.
        let is_first = !tracing::dispatcher::has_been_set();
        let _logging = is_first.then(|| logging::start(&LogOutput::Stderr, LevelFilter::ERROR)).transpose()?;
        match find_target(&path, &settings)? {
            ServerTarget::Remote(url, default_space) => {
                let call = call(arguments, presence::key(&path));
                client::ask(&url, OperationCall { space: call.space.or(default_space), ..call })
            }
            ServerTarget::Local(root) => {
                let outcome = find_space(&root, space.as_deref()).and_then(|space| {
                    catch_up_index(&root)?;
                    Ok(run_locally(&root, &space, (entry, &caller), arguments)?)
                });
                root.close()?;
                outcome
            }
        }
    }
}

/// Where an operation runs.
enum ServerTarget {
    /// In this process.
    Local(Box<OpenRoot>),
    /// On the server at this URL, in this space.
    Remote(String, Option<String>),
}

/// Opens the root, or finds the server that serves it. Waits for another command and for a server
/// that is starting; refuses a root whose process does not answer over HTTP.
fn find_target(path: &Path, settings: &Settings) -> Result<ServerTarget, CommandFailure> {
    let started = Instant::now();
    loop {
        let fault = match OpenRoot::open(path, settings.clone(), false) {
            Ok(root) => return Ok(ServerTarget::Local(Box::new(root))),
            Err(fault) => fault,
        };
        match presence::holder(path, &fault) {
            None => return Err(fault.into()),
            Some(RootHolder { served: Some(ServedRoot { url: Some(url), space, .. }), .. }) => {
                return Ok(ServerTarget::Remote(url, space));
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
