//! `[auth]` of the settings, taken up again while the server runs, and nothing else of them (contract 5).
//!
//! What cannot be understood leaves everything as it was: a slip in the file neither opens the door nor locks everybody out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use sd_notify::NotifyState;
use svcfs_config::{AuthSettings, CliOverrides, edit, templates};
use svcfs_knowledge::kernel::ServerState;
use tokio_util::sync::CancellationToken;

use crate::root::settings;
use crate::stop;

/// Reads the settings again.
pub struct SettingsReloader {
    server: Arc<ServerState>,
    root: PathBuf,
    /// What is read instead of the root's own file.
    config: Option<PathBuf>,
    overrides: CliOverrides,
    end: CancellationToken,
    /// One at a time: what was read first must not be taken up last.
    turn: Mutex<()>,
}

impl SettingsReloader {
    /// For a server that was started with these.
    pub fn new(
        server: Arc<ServerState>,
        (root, config): (PathBuf, Option<PathBuf>),
        overrides: CliOverrides,
        end: CancellationToken,
    ) -> Self {
        Self { server, root, config, overrides, end, turn: Mutex::default() }
    }

    /// Takes up `[auth]` as it stands in the file now. Blocks while an identity provider is asked for its keys.
    ///
    /// # Errors
    /// Why what held before holds on; the log has it, too.
    pub fn now(&self) -> Result<(), String> {
        let _turn = self.turn.lock();
        stop::notify(&[NotifyState::Reloading, NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Reloading)]);
        let taken_up = self.take_up();
        match &taken_up {
            Ok(()) if self.server.access().is_open() => {
                tracing::warn!("the settings were read again: callers need no credentials now");
            }
            Ok(()) => tracing::info!("the settings were read again: other credentials hold from now on"),
            Err(told) => tracing::error!("the settings are not taken up, those before hold on: {told}"),
        }
        if !self.end.is_cancelled() {
            stop::notify(&[NotifyState::Ready]);
        }
        taken_up
    }

    fn take_up(&self) -> Result<(), String> {
        let read = settings(&self.root, self.config.as_deref(), self.overrides.clone());
        let read = read.map_err(|failure| failure.told(false).trim_start_matches("svcfs: ").to_owned())?;
        let access = self.server.access();
        if read.auth == AuthSettings::None && !access.is_open() && !self.says_so() {
            return Err(format!(
                "nothing says any more who may come in, and a file that is gone or half written opens no door; write `type = \"none\"` below \
                 `[auth]` in `{}` to let everybody in",
                self.file().display()
            ));
        }
        access.reload(read.auth).map_err(|fault| fault.to_string())
    }

    fn file(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| self.root.join(templates::CONFIG.path))
    }

    /// Whether somebody wrote down how callers prove who they are.
    fn says_so(&self) -> bool {
        let text = std::fs::read_to_string(Path::new(&self.file())).unwrap_or_default();
        self.overrides.auth.is_some() || edit::has_auth_type(&text)
    }

    /// Whether keys are asked for, and which of these are good.
    pub fn good_of(&self, mut ids: Vec<String>) -> (bool, Vec<String>) {
        let access = self.server.access();
        let asks = !access.is_open();
        ids.retain(|id| asks && access.identify_by_key_id(id).is_ok());
        (asks, ids)
    }
}
