//! Asking an operation of whoever has a knowledge base: a server, or this process for the time of one question.

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
use crate::root::{OpenRoot, must_be_initialised, settings};
use crate::{credentials, logging, output, progress};

/// How long an index that was left behind may take to catch up before a question is answered.
const INDEX_PATIENCE: Duration = Duration::from_secs(600);

/// How long a call waits for its turn while other calls have the root, and how often it looks.
const TURN_PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// Which knowledge base is asked.
#[derive(Debug, Clone, Args)]
pub struct RootTarget {
    /// Ask the server at this address
    #[arg(long, value_name = "URL", conflicts_with = "root")]
    url: Option<String>,
    /// Ask it with the key in the first line of this file, which nobody but you may read [default: $SVC_API_KEY]
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// Directory of the knowledge base
    #[arg(short, long, value_name = "DIR", default_value = "./knowledge")]
    root: PathBuf,
    /// Which space of the server; its first one when absent
    #[arg(long, value_name = "NAME")]
    space: Option<String>,
}

impl RootTarget {
    /// The exact answer of an operation. A server that has the root is asked over HTTP; else the root is opened for this question.
    ///
    /// # Errors
    /// The operation's own refusal; that nobody can be asked.
    pub fn ask(
        self,
        entry: &'static OperationEntry,
        arguments: Map<String, Value>,
        caller: Caller,
        if_match: Option<String>,
    ) -> Result<Value, CommandFailure> {
        let Self { url, token_file, root: path, space } = self;
        let actor = caller.actor.as_ref().map(ToString::to_string);
        let question =
            |arguments, token| OperationCall { entry, arguments, actor, if_match, space: space.clone(), token };
        if let Some(url) = url {
            return client::ask(&url, question(arguments, credentials::given(token_file.as_deref())?));
        }
        must_be_initialised(&path)?;
        let settings = settings(&path, None, CliOverrides::default())?;
        // A command may ask more than once.
        let is_first = !tracing::dispatcher::has_been_set();
        let _logging = is_first.then(|| logging::start(&LogOutput::Stderr, LevelFilter::ERROR)).transpose()?;
        match reach(&path, &settings)? {
            ServerTarget::There(url, found) => {
                let question = question(arguments, presence::key(&path));
                client::ask(&url, OperationCall { space: question.space.or(found), ..question })
            }
            ServerTarget::Here(root) => {
                let outcome = chosen(&root, space.as_deref()).and_then(|space| {
                    up_to_date(&root)?;
                    Ok(told(&root, &space, (entry, &caller), arguments)?)
                });
                root.close()?;
                outcome
            }
        }
    }
}

/// Where a root answers.
enum ServerTarget {
    /// In this process.
    Here(Box<OpenRoot>),
    /// At this address, as this space.
    There(String, Option<String>),
}

/// Opens a root, or finds the server that has it. A holder that can be asked neither now nor later is refused; another call,
/// or a server that is just starting, is waited for.
fn reach(path: &Path, settings: &Settings) -> Result<ServerTarget, CommandFailure> {
    let started = Instant::now();
    loop {
        let fault = match OpenRoot::open(path, settings.clone(), false) {
            Ok(root) => return Ok(ServerTarget::Here(Box::new(root))),
            Err(fault) => fault,
        };
        match presence::holder(path, &fault) {
            None => return Err(fault.into()),
            Some(RootHolder { served: Some(ServedRoot { url: Some(url), space, .. }), .. }) => {
                return Ok(ServerTarget::There(url, space));
            }
            Some(RootHolder { served: None, .. }) if started.elapsed() < TURN_PATIENCE => {
                // Between two processes there is nothing to wait on that also has a deadline.
                std::thread::park_timeout(LOOK);
            }
            Some(RootHolder { pid, served: Some(_) | None }) => {
                let path = path.display();
                let told =
                    format!("root `{path}` is used by process {pid}, which does not answer over HTTP; stop it first");
                return Err(CommandFailure::new(ExitStatus::Refused, anyhow::Error::new(fault).context(told)));
            }
        }
    }
}

/// Asks an operation here, and keeps that it was asked.
fn told(
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

/// The space of a name in this process.
fn chosen(root: &OpenRoot, name: Option<&str>) -> Result<Arc<Space>, CommandFailure> {
    Ok(name.map_or_else(|| Ok(Arc::clone(root.space())), |name| root.server().spaces().find(name))?)
}

/// Lets the index catch up. Not for searching only: a rename rewrites the links that the index knows.
fn up_to_date(root: &OpenRoot) -> Result<(), CommandFailure> {
    let watched = progress::spinner("bringing the index up to date");
    let caught_up = root.index_to_cursor(INDEX_PATIENCE, || watched.tick());
    watched.finish_and_clear();
    Ok(caught_up?)
}
