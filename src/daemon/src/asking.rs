//! Runs an operation in the process that has the root, or in this process if none has it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Map, Value};
use svcfs_base::Caller;
use svcfs_config::{CliOverrides, LogOutput, Settings};
use svcfs_knowledge::kernel::{OperationEntry, Space};
use svcfs_knowledge::vectors::VectorIndexer;
use tracing::level_filters::LevelFilter;

use crate::adoption::refuse_uncommitted;
use crate::client::{self, OperationCall};
use crate::control::{self, OperationRequest, OperationResponse};
use crate::failure::{CommandFailure, ExitStatus};
use crate::logging::LogGuard;
use crate::presence::{self, RootHolder, ServedRoot};
use crate::root::{self, OpenRoot, require_initialised, settings};
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
    /// Runs an operation and returns its exact output: in the process that has the root, over HTTP
    /// or its control socket, else in this process.
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
        let mut target = self.open()?;
        let outcome = target.run(entry, &arguments, (&caller, if_match.as_deref()));
        target.close()?;
        outcome
    }

    /// Checks the root or reads the token, for one or more operations.
    ///
    /// # Errors
    /// `Refused` for a directory that is no root; the settings or the token cannot be read.
    pub fn open(self) -> Result<OpenTarget, CommandFailure> {
        if let Self { url: Some(url), token_file, root: _, space } = self {
            let token = credentials::load(token_file.as_deref())?;
            return Ok(OpenTarget { place: TargetPlace::Server { url, token }, space, _logging: None });
        }
        let (path, space) = (self.root()?, self.space);
        require_initialised(&path)?;
        let settings = Box::new(settings(
            &path,
            None,
            CliOverrides { backup: root::backup_overrides(), ..CliOverrides::default() },
        )?);
        // A command may open several targets.
        let is_first = !tracing::dispatcher::has_been_set();
        let logging = is_first.then(|| logging::start(&LogOutput::Stderr, LevelFilter::ERROR)).transpose()?;
        Ok(OpenTarget { place: TargetPlace::Root { path, settings, opened: None }, space, _logging: logging })
    }

    /// Directory of the knowledge base. A mount stands for the root that it shows.
    ///
    /// # Errors
    /// Those of [`RootFlag::find`].
    pub fn root(&self) -> Result<PathBuf, CommandFailure> {
        let root = self.root.clone().find()?;
        Ok(svcfs_mount::mounted_root(&root).unwrap_or(root))
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

/// A server, or a root that this process opens unless another has it.
pub struct OpenTarget {
    place: TargetPlace,
    space: Option<String>,
    _logging: Option<LogGuard>,
}

enum TargetPlace {
    Server { url: String, token: Option<String> },
    Root { path: PathBuf, settings: Box<Settings>, opened: Option<Box<OpenRoot>> },
}

impl OpenTarget {
    /// Runs an operation and returns its exact output. `if_match` is the precondition of the caller
    /// as text.
    ///
    /// # Errors
    /// The refusal of the operation; the server does not answer, or the root cannot be opened.
    pub fn run(
        &mut self,
        entry: &'static OperationEntry,
        arguments: &Map<String, Value>,
        (caller, if_match): (&Caller, Option<&str>),
    ) -> Result<Value, CommandFailure> {
        let Self { place, space, _logging } = self;
        let call = |token: Option<String>| OperationCall {
            entry,
            arguments: arguments.clone(),
            actor: caller.actor.as_ref().map(ToString::to_string),
            if_match: if_match.map(str::to_owned),
            space: space.clone(),
            token,
        };
        let (path, settings, opened) = match place {
            TargetPlace::Server { url, token } => return client::ask(url, call(token.clone())),
            TargetPlace::Root { path, settings, opened } => (path, settings, opened),
        };
        let started = Instant::now();
        loop {
            if let Some(root) = opened {
                let space = find_space(root, space.as_deref())?;
                catch_up_index(root)?;
                if USES_VECTORS.contains(&entry.name) {
                    embed_pages(&space);
                }
                let (output, notes) = root::run_operation((root.server(), &space), (entry, caller), arguments.clone())?;
                return Ok(printed(OperationResponse { output, notes }));
            }
            let outcome = match find_target(path, settings, started)? {
                ServerTarget::Local(root) => {
                    *opened = Some(root);
                    continue;
                }
                ServerTarget::Remote(url, default_space) => {
                    let call = call(presence::key(path));
                    client::ask(&url, OperationCall { space: call.space.or(default_space), ..call }).map(Some)
                }
                ServerTarget::Process => {
                    let OperationCall { arguments, actor, if_match, space, .. } = call(None);
                    let operation = entry.name.to_owned();
                    let request = OperationRequest { operation, arguments, actor, if_match, space };
                    control::run_operation(path, &request).map(|response| response.map(printed))
                }
            };
            match outcome {
                // The process has just ended, or handed the root over.
                Ok(None) => {}
                Err(failure) if client::is_unreachable(&failure) && started.elapsed() < ROOT_TIMEOUT => {}
                outcome => return outcome.map(Option::unwrap_or_default),
            }
            std::thread::park_timeout(ROOT_POLL_INTERVAL);
        }
    }

    /// Closes the root if it was opened in this process.
    ///
    /// # Errors
    /// Those of closing the log; accepted changes are in the log then.
    pub fn close(self) -> Result<(), CommandFailure> {
        match self.place {
            TargetPlace::Root { opened: Some(root), .. } => Ok(root.close()?),
            TargetPlace::Root { .. } | TargetPlace::Server { .. } => Ok(()),
        }
    }
}

/// Where an operation runs.
enum ServerTarget {
    /// In this process.
    Local(Box<OpenRoot>),
    /// On the server at this URL, in this space.
    Remote(String, Option<String>),
    /// In the process that has the root and answers on its control socket only.
    Process,
}

/// Opens the root, or finds the process that has it. Waits for another command and for a process
/// that is starting or stopping.
fn find_target(path: &Path, settings: &Settings, started: Instant) -> Result<ServerTarget, CommandFailure> {
    refuse_uncommitted(path, settings)?;
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
            Some(_) if control::is_served(path) => return Ok(ServerTarget::Process),
            Some(RootHolder { .. }) if started.elapsed() < ROOT_TIMEOUT => {
                // File locks of other processes have no wait with a timeout.
                std::thread::park_timeout(ROOT_POLL_INTERVAL);
            }
            Some(RootHolder { pid, .. }) => {
                let path = path.display();
                let message = format!("root `{path}` is used by process {pid}, which does not answer; stop it first");
                return Err(CommandFailure::new(ExitStatus::Refused, anyhow::Error::new(fault).context(message)));
            }
        }
    }
}

/// The output, after its notes are printed.
fn printed(OperationResponse { output, notes }: OperationResponse) -> Value {
    notes.iter().for_each(|line| output::complain(line));
    output
}

/// A space of this process by name.
fn find_space(root: &OpenRoot, name: Option<&str>) -> Result<Arc<Space>, CommandFailure> {
    Ok(name.map_or_else(|| Ok(Arc::clone(root.space())), |name| root.server().spaces().find(name))?)
}

/// Operations that need vectors. `search` uses those that are there: it must stay quick.
const USES_VECTORS: [&str; 5] = ["search_semantic", "recall", "eval", "suggestions", "embeddings"];

/// Embeds the pages that have no vectors yet, if search by meaning is enabled: without a server no
/// task does it.
fn embed_pages(space: &Arc<Space>) {
    let Some(indexer) = VectorIndexer::for_space(space) else { return };
    let spinner = progress::spinner("embedding pages");
    indexer.run_once(|| spinner.tick());
    spinner.finish_and_clear();
}

/// Waits until the index is up to date. Renames need it too: they rewrite the links in the index.
fn catch_up_index(root: &OpenRoot) -> Result<(), CommandFailure> {
    let spinner = progress::spinner("updating the search index");
    let caught_up = root.index_to_cursor(INDEX_TIMEOUT, || spinner.tick());
    spinner.finish_and_clear();
    Ok(caught_up?)
}
