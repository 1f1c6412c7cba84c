//! Reloads `[auth]` of the settings while the server runs; other settings need a restart.
//!
//! Invariant: invalid settings change nothing. A typo in the file neither disables authentication
//! nor locks out all callers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use sd_notify::NotifyState;
use svcfs_config::{AuthSettings, CliOverrides, edit, templates};
use svcfs_knowledge::kernel::ServerState;
use tokio_util::sync::CancellationToken;

use crate::root::settings;
use crate::stop;

/// Reloads the settings.
pub struct SettingsReloader {
    server: Arc<ServerState>,
    root: PathBuf,
    /// Settings file that replaces the root's own.
    config: Option<PathBuf>,
    overrides: CliOverrides,
    end: CancellationToken,
    /// Serialises reloads: settings that were read first must not be applied last.
    reload_lock: Mutex<()>,
}

impl SettingsReloader {
    /// For a server with these settings and flags.
    pub fn new(
        server: Arc<ServerState>,
        (root, config): (PathBuf, Option<PathBuf>),
        overrides: CliOverrides,
        end: CancellationToken,
    ) -> Self {
        Self { server, root, config, overrides, end, reload_lock: Mutex::default() }
    }

    /// Reads and applies `[auth]`. Blocks while the keys of an identity provider are fetched.
    ///
    /// # Errors
    /// Why the previous settings stay active; also logged.
    pub fn reload(&self) -> Result<(), String> {
        let _guard = self.reload_lock.lock();
        stop::notify(&[NotifyState::Reloading, NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Reloading)]);
        let outcome = self.apply();
        match &outcome {
            Ok(()) if self.server.access().is_open() => {
                tracing::warn!("credentials reloaded: authentication is off");
            }
            Ok(()) => tracing::info!("credentials reloaded"),
            Err(reason) => tracing::error!("reload failed; previous settings stay active: {reason}"),
        }
        if !self.end.is_cancelled() {
            stop::notify(&[NotifyState::Ready]);
        }
        outcome
    }

    fn apply(&self) -> Result<(), String> {
        let read = settings(&self.root, self.config.as_deref(), self.overrides.clone());
        let read = read.map_err(|failure| failure.message(false).trim_start_matches("svcfs: ").to_owned())?;
        let access = self.server.access();
        if read.auth == AuthSettings::None && !access.is_open() && !self.has_auth_type() {
            return Err(format!(
                "the settings have no authentication any more, perhaps because the file is missing or incomplete; to disable \
                 authentication, write `type = \"none\"` below `[auth]` in `{}`",
                self.file().display()
            ));
        }
        access.reload(read.auth).map_err(|fault| fault.to_string())
    }

    fn file(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| self.root.join(templates::CONFIG.path))
    }

    /// Whether the type of authentication is set explicitly.
    fn has_auth_type(&self) -> bool {
        let text = std::fs::read_to_string(Path::new(&self.file())).unwrap_or_default();
        self.overrides.auth.is_some() || edit::has_auth_type(&text)
    }

    /// Whether keys are required, and which of these are valid.
    pub fn valid_keys(&self, mut ids: Vec<String>) -> (bool, Vec<String>) {
        let access = self.server.access();
        let requires_key = !access.is_open();
        ids.retain(|id| requires_key && access.identify_by_key_id(id).is_ok());
        (requires_key, ids)
    }
}
