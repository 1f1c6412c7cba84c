//! Spaces brought to life: a tree, its index, and the task that keeps one up to date with the other.

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
use svcfs_vfs::{CommitPolicy, VersionStrategy, Vfs, VfsOptions};
pub use svcfs_vfs::{OnProgress, OpenProgress};
use svcfs_work::{Signal, Supervisor};

pub use collection::{RunningSpace, SpaceCollection, SpaceOpener, SpaceStatus, runtime_spaces};
pub use install_template::{InstalledTemplate, write_template};
pub use operations::AREA;

use crate::audit::AuditWriter;
use crate::content_quality::JanitorTask;
use crate::files::SpaceLinkResolver;
use crate::kernel::{OperationContext, Space};
use crate::lint::LintGate;
use crate::search::Indexer;
use crate::usage::UsageWriter;
use crate::views::{ViewGate, ViewRefresher};

/// What a space is opened with.
pub struct SpaceOptions {
    /// Name in URLs and headers.
    pub name: String,
    /// The knowledge root on the server's disk.
    pub root: PathBuf,
    /// Where the present moment comes from.
    pub clock: Arc<dyn Clock>,
    /// Whether edits made behind the server are looked for.
    pub is_watched: bool,
    /// Who hears how far the opening is.
    pub on_progress: Option<OnProgress>,
}

/// Opens a space: its tree (which replays and adopts what has to be), then its index. Nothing runs in the background yet; see
/// [`start`].
///
/// # Errors
/// Those of [`Vfs::open`]; `Unavailable` when the index cannot be made; `Invalid` for a `dataview.custom_fields` that is no expression.
pub fn open(opening: SpaceOptions, settings: &Settings) -> Result<Arc<Space>, Fault> {
    let SpaceOptions { name, root, clock, is_watched: watch, on_progress: progress } = opening;
    // Settings that no query could be answered under are refused here, not at the first query.
    crate::query::custom_fields(&settings.dataview)?;
    let paths = StatePaths::new(&root);
    let index_file = paths.index();
    if index_file.exists() && !paths.log().exists() {
        // The log will be made again from git, with positions of its own: those of the old one mean nothing any more. Said before
        // there is a new log, so that a crash in between changes nothing.
        Index::open(&index_file)?.ingest(&[], Seq(0))?;
    }
    let vfs = Vfs::open(VfsOptions {
        root,
        clock,
        gates: vec![Box::new(LintGate::new(settings.lint.clone())), Box::new(ViewGate)],
        strategy: strategy(&settings.versioning),
        scratch_patterns: settings.scratch.clone(),
        commit_policy: commits(&settings.versioning),
        watch,
        progress,
    })?;
    let index = Index::open(&index_file)?
        .with_typed_links(settings.links.link_fields())?
        .with_auto_indexes(settings.dataview.max_auto_indexes);
    // An index that is ahead of the feed is of another life of this root: the indexer reads the whole tree again.
    let known = index.cursor()?;
    let indexed = if known > vfs.feed().last_seq() { Seq(0) } else { known };
    let usage = UsageCounts::open(&paths.usage())?;
    let space = Arc::new(Space::new(name, vfs, (Arc::new(index), indexed), usage, settings.clone()));
    if settings.links.update_on_rename {
        space.vfs.set_link_resolver(SpaceLinkResolver::of(&space));
    }
    Ok(space)
}

/// When accepted changes become commits, by the settings.
const fn commits(versioning: &VersioningConfig) -> CommitPolicy {
    let VersioningConfig { async_commit, batch_window_ms, batch_max_size, .. } = versioning;
    if !*async_commit {
        return CommitPolicy::PerSet;
    }
    CommitPolicy::Coalesced { window: Duration::from_millis(*batch_window_ms), max_paths: *batch_max_size }
}

/// What settings call a strategy of versioning, as the tree knows it.
fn strategy(versioning: &VersioningConfig) -> VersionStrategy {
    use svcfs_config::VersioningStrategy as Named;
    match versioning.strategy {
        Named::Git => VersionStrategy::Git,
        Named::Cow => VersionStrategy::Snapshots { max_snapshots: versioning.max_snapshots() },
        Named::None => VersionStrategy::LogOnly,
    }
}

/// Starts the background work of a space: the indexer, woken by every change.
///
/// # Errors
/// `Internal` when the operating system has no thread left.
pub fn start_indexer(space: &Arc<Space>, supervisor: &Supervisor) -> Result<(), Fault> {
    space.set_tasks(supervisor.reports());
    let signal = changed(space);
    space.freshness.set_wake_signal(signal.clone());
    supervisor
        .start(Indexer::new(Arc::clone(space)), signal)
        .map_err(|error| Fault::new(Kind::Internal, "the indexer could not be started").with_source(error))
}

/// A signal that every change of a space raises.
fn changed(space: &Space) -> Signal {
    let changed = Signal::new();
    let wake = changed.clone();
    space.vfs.feed().on_event(move |_| {
        wake.raise();
        true
    });
    changed
}

/// Starts what a space needs while it is served, beside [`start`]: the janitor, the refresher of computed pages, and the
/// writer of what readers ask for.
///
/// # Errors
/// As [`start`].
pub fn start_service_tasks(
    space: &Arc<Space>,
    clock: Arc<dyn Clock>,
    settings: &Settings,
    supervisor: &Supervisor,
) -> Result<(), Fault> {
    let refresher = ViewRefresher::new(Arc::clone(space), Arc::clone(&clock), settings.dataview.clone());
    let begun = supervisor
        .start(JanitorTask::new(Arc::clone(space), Arc::clone(&clock), settings.janitor.clone()), Signal::new())
        .and_then(|()| supervisor.start(refresher, changed(space)))
        .and_then(|()| supervisor.start(UsageWriter::new(Arc::clone(space), clock), Signal::new()))
        .and_then(|()| AuditWriter::for_space(space).map_or(Ok(()), |(scribe, wake)| supervisor.start(scribe, wake)));
    begun.map_err(|error| Fault::new(Kind::Internal, "a background task could not be started").with_source(error))
}

/// First parts of paths below `/api/svc` that are endpoints, of this version or of the contract: a space of such a name could not be reached by
/// its path.
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
    "rename",
    "rename-dir",
    "resolve-links",
    "rules",
    "schemas",
    "search",
    "section",
    "share",
    "space",
    "stale",
    "suggestions",
    "sync",
    "template",
    "templates",
    "theme",
    "timeline",
    "toc",
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
/// `Invalid` for a name that no URL carries, `Exists` for an endpoint's.
pub fn check_name(name: &str) -> Result<(), Fault> {
    if let Some(told) = space_name_error(name) {
        return Err(Fault::invalid("name", format_args!("`{}` {told}", svcfs_base::escape_unprintable(name))));
    }
    if RESERVED.contains(&name) {
        let told = format!("`{name}` is an endpoint's name: the space could not be reached by its path");
        return Err(Fault::new(Kind::Exists, format!("`name`: {told}")));
    }
    Ok(())
}

/// Changes the settings of a space where they are written, as a version of the tree.
///
/// # Errors
/// `Conflict` when the file cannot take the change, or the settings are in another one, which is not the server's to write; those of the write
/// path.
fn change_settings(
    cx: &OperationContext<'_>,
    edit: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<(), Fault> {
    if let Some(file) = &cx.space.settings.config_file {
        let told = format!(
            "the settings are in `{}`, which this server was started with and does not write; change them there, and start it again",
            file.display()
        );
        return Err(Fault::new(Kind::Conflict, told));
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
