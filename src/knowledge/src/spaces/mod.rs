//! Opening of spaces: a tree, its index, and background tasks.

mod collection;
mod install_template;
mod operations;
#[cfg(test)]
pub(crate) mod test_space;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use svcfs_base::{Caller, Change, Clock, Fault, Kind, Protocol, Seq, TreePath};
use svcfs_config::edit::EditError;
use svcfs_config::{Settings, VersioningConfig, space_name_error, templates};
use svcfs_index::Index;
use svcfs_store::{StatePaths, UsageCounts};
use svcfs_text::links::LinkResolution;
use svcfs_vfs::{CommitPolicy, VersionStrategy, Vfs, VfsOptions, WriteGate};
pub use svcfs_vfs::{OnProgress, OpenProgress};
use svcfs_work::{Signal, Supervisor};

pub use collection::{RunningSpace, SpaceCollection, SpaceOpener, SpaceStatus, runtime_spaces};
pub use install_template::{InstalledTemplate, write_template};
pub use operations::AREA;

use crate::append_only::AppendOnlyGate;
use crate::audit::AuditWriter;
use crate::backup::BackupTask;
use crate::claims::{self, ClaimSweeper};
use crate::comments::CommentCleanup;
use crate::content_quality::JanitorTask;
use crate::drafts::DraftRetention;
use crate::files::SpaceLinkResolver;
use crate::kernel::{OperationContext, Space};
use crate::lint::LintGate;
use crate::publishing::{PublishFolderGate, ViewCountWriter, ViewCounts};
use crate::schemas::{SchemaGate, SchemaRegistry};
use crate::search::Indexer;
use crate::shares::{ShareRegistry, ShareWriter};
use crate::usage::UsageWriter;
use crate::vectors::{PageVectors, VectorIndexer};
use crate::views::{ViewGate, ViewRefresher};
use crate::webhooks::{WebhookDispatcher, Webhooks};
use crate::workflows::{DefinitionGate, TransitionGate};

/// Options to open a space.
pub struct SpaceOptions {
    /// Name in URLs and headers.
    pub name: String,
    /// Its root on the server's disk.
    pub root: PathBuf,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Whether out-of-band edits are watched for.
    pub is_watched: bool,
    /// Callback for the progress of opening.
    pub on_progress: Option<OnProgress>,
}

/// Opens a space: its tree (with recovery and adoption), then its index. No background task runs
/// yet; see [`start_indexer`].
///
/// # Errors
/// Those of [`Vfs::open`]; `Unavailable` if the index cannot be opened; `Invalid` for a bad
/// expression in `dataview.custom_fields`.
pub fn open(options: SpaceOptions, settings: &Settings) -> Result<Arc<Space>, Fault> {
    let SpaceOptions { name, root, clock, is_watched: watch, on_progress: progress } = options;
    // Fail on invalid settings now, not at the first query.
    crate::query::custom_fields(&settings.dataview)?;
    let paths = StatePaths::new(&root);
    let index_file = paths.index();
    if index_file.exists() && !paths.log().exists() {
        // The log will be rebuilt from git with new positions, so the cursor of the old index is
        // meaningless. Reset it before a new log exists: a crash in between changes nothing.
        Index::open(&index_file)?.ingest(&[], Seq(0))?;
    }
    let (schemas, append_only) = (Arc::<SchemaRegistry>::default(), AppendOnlyGate::default());
    let publish_gate = PublishFolderGate::default();
    let transition_gate = TransitionGate::new(settings.workflow.clone());
    let gates: Vec<Box<dyn WriteGate>> = vec![
        Box::new(append_only.clone()),
        Box::new(publish_gate.clone()),
        Box::new(transition_gate.clone()),
        Box::new(SchemaGate::new(Arc::clone(&schemas), settings.schema.enforce, settings.lint.clone())),
        Box::new(LintGate::new(settings.lint.clone())),
        Box::new(ViewGate),
        Box::new(DefinitionGate),
    ];
    let vfs = Vfs::open(VfsOptions {
        root,
        clock: Arc::clone(&clock),
        gates,
        strategy: strategy(&settings.versioning),
        scratch_patterns: settings.scratch.clone(),
        hidden_files: settings.hidden_files.clone(),
        commit_policy: commit_policy(&settings.versioning),
        watch,
        progress,
    })?;
    vfs.set_claim_policy(claims::policy(settings.claims));
    vfs.set_max_drafts(settings.drafts.enabled.then_some(settings.drafts.max_active));
    let index = Index::open(&index_file)?
        .with_typed_links(settings.links.link_fields())?
        .with_hidden_files(settings.hidden_files.clone())?
        .with_link_resolution(link_resolution(settings.links.resolution))
        .with_auto_indexes(settings.dataview.max_auto_indexes);
    // An index ahead of the feed belongs to another log: the indexer reads the full tree again.
    let cursor = index.cursor()?;
    let indexed = if cursor > vfs.feed().last_seq() { Seq(0) } else { cursor };
    let usage = UsageCounts::open(&paths.usage())?;
    let index = Arc::new(index);
    let shares = ShareRegistry::open(&paths, Arc::clone(&vfs))?;
    let views = ViewCounts::open(&paths, Arc::clone(&vfs))?;
    let space = Space::new(name, vfs, (index, indexed), (usage, shares, views), settings.clone()).with_schemas(schemas);
    let webhooks = settings.webhooks.enabled.then(|| {
        let last = space.vfs.last_seq();
        Webhooks::open(&paths, (&settings.webhooks, &settings.net), (clock, last)).map(Arc::new)
    });
    let vectors = settings.search.vector.as_ref().map(|vector| PageVectors::open(paths.vectors(), &space.name, vector));
    let space = space.with_webhooks(webhooks.transpose()?).with_vectors(vectors.transpose()?.map(Arc::new));
    let space = Arc::new(space);
    transition_gate.attach(&space);
    append_only.attach(&space);
    publish_gate.attach(&space);
    if settings.links.update_on_rename {
        space.vfs.set_link_resolver(SpaceLinkResolver::of(&space));
    }
    Ok(space)
}

const fn commit_policy(versioning: &VersioningConfig) -> CommitPolicy {
    let VersioningConfig { async_commit, batch_window_ms, batch_max_size, .. } = versioning;
    if !*async_commit {
        return CommitPolicy::PerSet;
    }
    CommitPolicy::Coalesced { window: Duration::from_millis(*batch_window_ms), max_paths: *batch_max_size }
}

const fn link_resolution(setting: svcfs_config::LinkResolution) -> LinkResolution {
    match setting {
        svcfs_config::LinkResolution::Nearest => LinkResolution::Nearest,
        svcfs_config::LinkResolution::Shortest => LinkResolution::Shortest,
    }
}

fn strategy(versioning: &VersioningConfig) -> VersionStrategy {
    use svcfs_config::VersioningStrategy as Setting;
    match versioning.strategy {
        Setting::Git => VersionStrategy::Git,
        Setting::Cow => VersionStrategy::Snapshots { max_snapshots: versioning.max_snapshots() },
        Setting::None => VersionStrategy::LogOnly,
    }
}

/// Starts the indexer of a space; every change wakes it.
///
/// # Errors
/// `Internal` if no thread can be started.
pub fn start_indexer(space: &Arc<Space>, supervisor: &Supervisor) -> Result<(), Fault> {
    space.set_tasks(supervisor.reports());
    let signal = change_signal(space);
    space.freshness.set_wake_signal(signal.clone());
    supervisor
        .start(Indexer::new(Arc::clone(space)), signal)
        .map_err(|error| Fault::new(Kind::Internal, "cannot start the indexer").with_source(error))
}

fn change_signal(space: &Space) -> Signal {
    let change_signal = Signal::new();
    let wake = change_signal.clone();
    space.vfs.feed().on_event(move |_| {
        wake.raise();
        true
    });
    change_signal
}

/// Starts the other tasks of a served space: janitor, refresh of computed pages, end of claims,
/// usage and audit writers.
///
/// # Errors
/// As [`start_indexer`].
pub fn start_service_tasks(
    space: &Arc<Space>,
    clock: Arc<dyn Clock>,
    settings: &Settings,
    supervisor: &Supervisor,
) -> Result<(), Fault> {
    let refresher = ViewRefresher::new(Arc::clone(space), Arc::clone(&clock), settings.dataview.clone());
    let started = supervisor
        .start(JanitorTask::new(Arc::clone(space), Arc::clone(&clock), settings.janitor.clone()), Signal::new())
        .and_then(|()| supervisor.start(refresher, change_signal(space)))
        .and_then(|()| supervisor.start(ClaimSweeper::new(Arc::clone(space)), Signal::new()))
        .and_then(|()| supervisor.start(UsageWriter::new(Arc::clone(space), Arc::clone(&clock)), Signal::new()))
        .and_then(|()| supervisor.start(ShareWriter::new(Arc::clone(space), Arc::clone(&clock)), Signal::new()))
        .and_then(|()| supervisor.start(ViewCountWriter::new(Arc::clone(space)), Signal::new()))
        .and_then(|()| supervisor.start(CommentCleanup::new(Arc::clone(space)), Signal::new()))
        .and_then(|()| supervisor.start(DraftRetention::new(Arc::clone(space), Arc::clone(&clock)), Signal::new()))
        .and_then(|()| start_webhooks(space, Arc::clone(&clock), supervisor))
        .and_then(|()| start_vector_indexer(space, supervisor))
        .and_then(|()| match settings.backup.is_enabled() {
            true => supervisor.start(BackupTask::new(Arc::clone(space), clock), space.backup.schedule()),
            false => Ok(()),
        })
        .and_then(|()| AuditWriter::for_space(space).map_or(Ok(()), |(writer, wake)| supervisor.start(writer, wake)));
    started.map_err(|error| Fault::new(Kind::Internal, "cannot start a background task").with_source(error))
}

/// Starts the task that embeds pages, if the search by meaning is enabled; every change wakes it.
///
/// # Errors
/// That of the operating system if no thread can be started.
pub fn start_vector_indexer(space: &Arc<Space>, supervisor: &Supervisor) -> std::io::Result<()> {
    match VectorIndexer::for_space(space) {
        Some(indexer) => supervisor.start(indexer, change_signal(space)),
        None => Ok(()),
    }
}

fn start_webhooks(space: &Arc<Space>, clock: Arc<dyn Clock>, supervisor: &Supervisor) -> std::io::Result<()> {
    let (Some(webhooks), Some(dispatcher)) = (&space.webhooks, WebhookDispatcher::for_space(space, clock)) else {
        return Ok(());
    };
    let (signal, wake) = (webhooks.signal(), webhooks.signal());
    space.vfs.feed().on_event(move |_| {
        wake.raise();
        true
    });
    supervisor.start(dispatcher, signal)
}

/// Path segments below `/api/svc` that are or may become endpoints: a space with such a name would
/// not be reachable.
const RESERVED: &[&str] = &[
    "analytics",
    "assets",
    "audit",
    "backlinks",
    "backup",
    "blame",
    "bulk",
    "canvas",
    "canvases",
    "changes",
    "claim",
    "claims",
    "clip",
    "comments",
    "context",
    "contradictions",
    "diff",
    "drafts",
    "eligible",
    "embeddings",
    "eval",
    "events",
    "export",
    "feed",
    "file",
    "graph",
    "health-check",
    "import",
    "ingest",
    "janitor",
    "lint",
    "memory",
    "meta",
    "peek",
    "public",
    "publish",
    "query",
    "readlink",
    "recall",
    "rename",
    "rename-dir",
    "render",
    "resolve-links",
    "restore",
    "revert",
    "rules",
    "schemas",
    "search",
    "section",
    "share",
    "space",
    "stale",
    "suggestions",
    "sync",
    "tasks",
    "template",
    "templates",
    "theme",
    "timeline",
    "toc",
    "trash",
    "tree",
    "ui-config",
    "unpublish",
    "velocity",
    "version",
    "versions",
    "view",
    "views",
    "webhooks",
    "workflow",
    "workflows",
];

/// Checks the name of a space.
///
/// # Errors
/// `Invalid` for a name that does not fit into URLs, `Exists` for the name of an endpoint.
pub fn check_name(name: &str) -> Result<(), Fault> {
    if let Some(message) = space_name_error(name) {
        return Err(Fault::invalid("name", format_args!("`{}` {message}", svcfs_base::escape_unprintable(name))));
    }
    if RESERVED.contains(&name) {
        let message = format!("`{name}` is the name of an endpoint; use another name");
        return Err(Fault::new(Kind::Exists, format!("`name`: {message}")));
    }
    Ok(())
}

/// Changes the settings file of a space, as a version in the tree.
///
/// # Errors
/// `Conflict` if the file cannot be edited, or the settings are outside the tree; write errors.
fn change_settings(
    cx: &OperationContext<'_>,
    edit: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<(), Fault> {
    if let Some(file) = &cx.space.settings.config_file {
        let message = format!(
            "the settings are in `{}`, which the server does not write; change them there and restart the server",
            file.display()
        );
        return Err(Fault::new(Kind::Conflict, message));
    }
    let path = TreePath::parse(templates::CONFIG.path)?;
    let vfs = &cx.space.vfs;
    let old = match vfs.read(Protocol::Internal, &path) {
        Ok(read) => String::from_utf8(read.content.to_vec()).map_err(Fault::internal)?,
        Err(fault) if fault.kind() == Kind::NotFound => String::new(),
        Err(fault) => return Err(fault),
    };
    let new = edit(&old).map_err(|error| Fault::new(Kind::Conflict, error.to_string()))?;
    let caller = Caller { protocol: Protocol::Internal, ..cx.caller.clone() };
    vfs.apply(&caller, Change::put(path, new)).map(drop)
}
