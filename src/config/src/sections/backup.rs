//! `[backup]`

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::auth::SecretText;
use super::parse_time;

/// With a shorter interval, the remote would be asked all the time.
const MIN_INTERVAL: Duration = Duration::from_secs(30);

/// Beginnings of a remote with a protocol that is supported. git has more, of which `ext::` runs
/// any command.
const SCHEMES: [&str; 6] = ["https://", "http://", "ssh://", "git://", "file://", "s3://"];

/// Copies of the history elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BackupConfig {
    /// Where backups go: the URL of a git remote, such as `git@example.org:notes.git`; the absolute
    /// path of a git repository; the absolute path of a directory, for git bundles; or
    /// `s3://BUCKET/PREFIX`, for git bundles too. Empty: no backups. A password belongs into the
    /// environment: `https://backup:${TOKEN}@example.org/notes.git`. Needs `versioning.strategy =
    /// "git"`. The variable `SVC_BACKUP_REMOTE` overrides it for the first space.
    #[schemars(with = "String")]
    pub remote: SecretText,
    /// Branch of the git remote. Empty: the name of the current branch.
    pub branch: String,
    /// Time between two backups, such as `5m` or `1h 30m`; at least `30s`. The variable
    /// `SVC_BACKUP_INTERVAL` overrides it for the first space.
    pub interval: String,
    /// Merge commits that others pushed to the branch of the git remote before a push; when off,
    /// such a push is refused. Nothing is overwritten in either case. The variable
    /// `SVC_BACKUP_REBASE_BEFORE_PUSH` overrides it for the first space.
    pub rebase_before_push: bool,
}

impl Default for BackupConfig {
    fn default() -> Self {
        Self {
            remote: SecretText::default(),
            branch: String::new(),
            interval: "5m".to_owned(),
            rebase_before_push: true,
        }
    }
}

/// Validated settings of backups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSettings {
    /// Where backups go. It may contain a password.
    remote: SecretText,
    /// Branch of the git remote; none for the name of the current branch.
    pub branch: Option<String>,
    /// Time between two backups.
    pub interval: Duration,
    /// Whether commits of others are merged before a push.
    pub rebase_before_push: bool,
}

impl BackupSettings {
    /// Where backups go. It may contain a password: neither log nor return it.
    #[must_use]
    pub fn remote(&self) -> &str {
        &self.remote.0
    }

    /// The same settings with another remote.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn with_remote(self, remote: &str) -> Result<Self, &'static str> {
        check_remote(remote)?;
        Ok(Self { remote: SecretText(remote.to_owned()), ..self })
    }

    /// Whether there are backups.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        !self.remote.0.is_empty()
    }

    /// The same settings with another branch.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn with_branch(self, branch: &str) -> Result<Self, &'static str> {
        check_branch(branch)?;
        Ok(Self { branch: Some(branch.to_owned()), ..self })
    }
}

/// Variables that override `[backup]` of the first space; an empty one counts as not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupOverrides {
    /// `SVC_BACKUP_REMOTE`
    pub(crate) remote: Option<SecretText>,
    /// `SVC_BACKUP_INTERVAL`
    pub(crate) interval: Option<String>,
    /// `SVC_BACKUP_REBASE_BEFORE_PUSH`
    pub(crate) rebase_before_push: Option<String>,
}

impl BackupOverrides {
    /// The variables of an environment.
    #[must_use]
    pub fn from_environment(environment: crate::Environment<'_>) -> Self {
        let read = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        Self {
            remote: read("SVC_BACKUP_REMOTE").map(SecretText),
            interval: read("SVC_BACKUP_INTERVAL"),
            rebase_before_push: read("SVC_BACKUP_REBASE_BEFORE_PUSH"),
        }
    }
}

impl BackupConfig {
    /// The settings, or the key or variable that is invalid and why.
    pub(crate) fn resolve(
        self,
        overrides: BackupOverrides,
        has_git: bool,
    ) -> Result<BackupSettings, (&'static str, &'static str)> {
        let (key, remote) = overrides.remote.map_or(("backup.remote", self.remote), |it| ("SVC_BACKUP_REMOTE", it));
        let remote = SecretText(remote.0.trim().to_owned());
        if !remote.0.is_empty() {
            check_remote(&remote.0).map_err(|error| (key, error))?;
            if !has_git {
                let message = "has no effect without `versioning.strategy = \"git\"`; remove it, or set that";
                return Err((key, message));
            }
        }
        let branch = Some(self.branch.trim().to_owned()).filter(|branch| !branch.is_empty());
        branch.as_deref().map_or(Ok(()), check_branch).map_err(|error| ("backup.branch", error))?;
        let (key, text) =
            overrides.interval.map_or(("backup.interval", self.interval), |text| ("SVC_BACKUP_INTERVAL", text));
        let interval = parse_interval(&text).map_err(|error| (key, error))?;
        let rebase_before_push = match overrides.rebase_before_push.as_deref().map(str::trim) {
            None => self.rebase_before_push,
            Some("true" | "1") => true,
            Some("false" | "0") => false,
            Some(_) => return Err(("SVC_BACKUP_REBASE_BEFORE_PUSH", "must be `true` or `false`")),
        };
        Ok(BackupSettings { remote, branch, interval, rebase_before_push })
    }
}

fn parse_interval(text: &str) -> Result<Duration, &'static str> {
    const MESSAGE: &str = "must be a time such as `5m` or `1h 30m`, at least `30s`";
    parse_time(text).filter(|interval| *interval >= MIN_INTERVAL).ok_or(MESSAGE)
}

/// Accepts URLs of the supported protocols, absolute paths and `user@host:path`.
fn check_remote(remote: &str) -> Result<(), &'static str> {
    if remote.chars().any(char::is_control) {
        return Err("contains a control character");
    }
    if has_open_password(remote) {
        return Err("has a user name or a password with `/`; write it as `%2F`");
    }
    // `host:path` of ssh; `name::address` selects a helper program of git.
    let is_ssh_address = || {
        let (host, path) = remote.split_once(':').unwrap_or_default();
        let is_host = !host.is_empty() && !host.starts_with('-') && !host.contains(['/', ' ']);
        is_host && !path.is_empty() && !path.starts_with([':', '-']) && !path.starts_with("//")
    };
    let has_scheme = SCHEMES.iter().any(|scheme| remote.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
    if has_scheme || remote.starts_with('/') || is_ssh_address() {
        return Ok(());
    }
    Err("must be a git URL (`https://`, `ssh://`, `git@host:path`), the absolute path of a git repository or of a \
         directory for bundles, or `s3://BUCKET/PREFIX`")
}

/// Whether a `/` in a user name or a password ends what looks like the host: the rest would be
/// taken for a path, and be shown and logged.
fn has_open_password(remote: &str) -> bool {
    let rest = ["https://", "http://"].iter().find_map(|scheme| remote.strip_prefix(scheme));
    let Some((host, path)) = rest.and_then(|rest| rest.split_once('/')) else { return false };
    let has_port = |(_, port): (&str, &str)| port.bytes().all(|byte| byte.is_ascii_digit());
    path.contains('@') && !host.contains(['@', '[']) && !host.split_once(':').is_none_or(has_port)
}

/// The rules of `git check-ref-format --branch`.
fn check_branch(branch: &str) -> Result<(), &'static str> {
    let is_bad = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    let has_bad_part = branch
        .split('/')
        .any(|part| part.is_empty() || part.starts_with(['.', '-']) || part.ends_with('.') || part.ends_with(".lock"));
    if branch == "@" || has_bad_part || branch.contains(is_bad) || branch.contains("..") || branch.contains("@{") {
        return Err("is no name of a git branch; use a name such as `main`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(config: BackupConfig) -> Result<BackupSettings, (&'static str, &'static str)> {
        config.resolve(BackupOverrides::default(), true)
    }

    #[test]
    fn remotes_of_every_kind() {
        let remote =
            |remote: &str| resolve(BackupConfig { remote: SecretText(remote.to_owned()), ..Default::default() });
        for text in [
            "",
            "git@example.org:notes.git",
            "host:path",
            "https://user:secret@example.org/notes.git",
            "https://example.org:8443/a@b/notes.git",
            "ssh://git@example.org/~/notes.git",
            "git://example.org/notes",
            "file:///srv/notes.git",
            "/srv/notes.git",
            "s3://bucket",
            "s3://bucket/prefix?endpoint=http://127.0.0.1:9000",
        ] {
            assert_eq!(remote(text).map(|settings| settings.remote().to_owned()), Ok(text.to_owned()));
        }
        for text in [
            "notes.git",
            "../notes",
            "ext::sh -c true",
            "-oProxyCommand=x:y",
            "--upload-pack=x",
            "s3://",
            "ftp://a/b",
            "a\nb:c",
            "host:-x",
            "https://user:pass/word@example.org/notes.git",
            "~/notes",
        ] {
            let refused = remote(text).map_err(|(key, _)| key);
            assert_eq!(refused.map(drop), Err("backup.remote"), "{text:?}");
        }
    }

    #[test]
    fn intervals_branches_and_variables() {
        let interval = |text: &str| resolve(BackupConfig { interval: text.to_owned(), ..Default::default() });
        for (text, seconds) in [("30s", 30), ("5m", 300), ("1h 30m", 5400), ("1d", 86_400)] {
            assert_eq!(interval(text).map(|settings| settings.interval.as_secs()), Ok(seconds));
        }
        for text in ["", "29s", "-5m", "5", "soon", "1 month"] {
            assert!(interval(text).is_err(), "{text:?}");
        }
        let branch = |text: &str| resolve(BackupConfig { branch: text.to_owned(), ..Default::default() });
        for text in ["main", "team/notes", "ä"] {
            assert_eq!(branch(text).map(|settings| settings.branch), Ok(Some(text.to_owned())));
        }
        for text in ["-f", "a b", "a..b", "/a", "a/", "a.lock", "a:b", "@", ".a", "a/.b", "a~1"] {
            assert!(branch(text).is_err(), "{text:?}");
        }
        let set = |name: &str| match name {
            "SVC_BACKUP_REMOTE" => Some("/srv/other".to_owned()),
            "SVC_BACKUP_INTERVAL" => Some("1h".to_owned()),
            "SVC_BACKUP_REBASE_BEFORE_PUSH" => Some("false".to_owned()),
            _ => None,
        };
        let overrides = BackupOverrides::from_environment(&set);
        let settings = BackupConfig::default().resolve(overrides.clone(), true).unwrap();
        assert_eq!(
            (settings.remote(), settings.interval.as_secs(), settings.rebase_before_push),
            ("/srv/other", 3600, false)
        );
        assert!(BackupConfig::default().resolve(overrides, false).is_err());
        let bad = BackupOverrides { rebase_before_push: Some("perhaps".to_owned()), ..Default::default() };
        assert!(BackupConfig::default().resolve(bad, true).is_err());
    }

    #[test]
    fn a_password_is_not_in_debug_output() {
        let settings =
            resolve(BackupConfig { remote: SecretText("https://u:pw@h/x".to_owned()), ..Default::default() });
        assert!(!format!("{settings:?}").contains("pw"));
    }
}
