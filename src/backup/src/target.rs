//! Where backups go, from the text of `backup.remote`.

use std::path::{Path, PathBuf};
use std::process::Command;

use percent_encoding::percent_decode_str;
use rusty_s3::{Bucket, Credentials, UrlStyle};
use url::Url;

use crate::error::BackupError;
use crate::stores::{BundleStore, DirectoryStore, MANIFEST, S3Store};

const USER_VARIABLE: &str = "SVCFS_BACKUP_USER";
const PASSWORD_VARIABLE: &str = "SVCFS_BACKUP_PASSWORD";
/// Answers git's question for a user name and password from the environment, which other users
/// cannot read.
const CREDENTIAL_HELPER: &str = "credential.helper=!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' \
                                 \"$SVCFS_BACKUP_USER\" \"$SVCFS_BACKUP_PASSWORD\"; }; f";

/// Where backups go.
pub(crate) enum BackupTarget {
    /// A remote of git.
    Git(GitRemote),
    /// Bundles in a directory or in a bucket.
    Bundles(Box<dyn BundleStore>),
}

/// A remote of git.
pub(crate) struct GitRemote {
    /// Without user name and password of `http://` and `https://`.
    pub url: String,
    pub credentials: Option<GitCredentials>,
}

/// User name and password of an `https://` URL.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct GitCredentials {
    user: String,
    password: String,
    /// As in the URL.
    encoded: String,
}

impl GitCredentials {
    pub fn pass_to(&self, command: &mut Command) {
        command.env(USER_VARIABLE, &self.user).env(PASSWORD_VARIABLE, &self.password);
        command.args(["-c", "credential.helper=", "-c", CREDENTIAL_HELPER]);
    }

    pub fn redact(&self, text: &str) -> String {
        let secrets = [&self.encoded, &self.password].into_iter().filter(|secret| !secret.is_empty());
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }
}

/// What a target is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetUse {
    Backup,
    Restore,
}

impl BackupTarget {
    /// The target of a text that the settings accept.
    ///
    /// # Errors
    /// `refused` when it cannot be one, with what to do.
    pub fn parse(text: &str, purpose: TargetUse) -> Result<Self, BackupError> {
        if let Some(rest) = text.strip_prefix("s3://") {
            return Ok(Self::Bundles(Box::new(parse_s3(rest)?)));
        }
        if text.starts_with('/') {
            return of_path(Path::new(text), purpose);
        }
        let (url, credentials) = split_credentials(text);
        Ok(Self::Git(GitRemote { url, credentials }))
    }
}

/// The text for logs and people: without passwords.
pub(crate) fn shown(text: &str) -> String {
    if let Some((address, _)) = secret_query(text) {
        return format!("{address}?***");
    }
    let may_have_user = !text.starts_with('/') && !text.starts_with("s3://");
    match split_user(text).filter(|_| may_have_user) {
        Some((scheme, user, rest)) => {
            // A user name alone may be a token, too, except that of ssh.
            let user = if scheme == "ssh" { user.split(':').next().unwrap_or_default() } else { "***" };
            format!("{scheme}://{user}@{rest}")
        }
        None => text.to_owned(),
    }
}

/// The text that identifies a remote: it changes neither with its passwords nor with the user of
/// an endpoint. Not for people: other parts of a query may be secret.
pub(crate) fn identity(text: &str) -> String {
    let Some((address, query)) = secret_query(text) else { return shown(text) };
    let pairs = url::form_urlencoded::parse(query.as_bytes()).map(|(name, value)| match split_user(&value) {
        Some((scheme, _, rest)) => format!("{name}={scheme}://{rest}"),
        None => format!("{name}={value}"),
    });
    format!("{address}?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// Scheme, user with password, and the rest of a URL that has a user.
fn split_user(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let (user, _) = rest[..rest.find('/').unwrap_or(rest.len())].rsplit_once('@')?;
    Some((scheme, user, &rest[user.len() + 1..]))
}

/// Address and query of a bucket whose query may have a user: that of its endpoint.
fn secret_query(text: &str) -> Option<(&str, &str)> {
    let (address, query) = text.split_once('?').filter(|_| text.starts_with("s3://"))?;
    (query.contains('@') || query.contains("%40")).then_some((address, query))
}

/// The password in the URL of an argument.
pub(crate) fn password_of(argument: &str) -> Option<&str> {
    let (_, user, _) = split_user(argument)?;
    user.split_once(':').map(|(_, password)| password).filter(|password| !password.is_empty())
}

/// A path is a git repository, or a directory for bundles.
fn of_path(path: &Path, purpose: TargetUse) -> Result<BackupTarget, BackupError> {
    let is_bare = path.join("HEAD").is_file() && path.join("objects").is_dir();
    if is_bare || path.join(".git").exists() {
        let url = path.to_str().map(str::to_owned);
        let url = url.ok_or_else(|| BackupError::refused(format!("`{}` is not UTF-8", path.display())))?;
        return Ok(BackupTarget::Git(GitRemote { url, credentials: None }));
    }
    let shown = path.display();
    if !path.is_dir() {
        let advice = match purpose {
            TargetUse::Backup => {
                "; mount its disk, create a directory for bundles (`mkdir`), or a git repository (`git init --bare`)"
            }
            TargetUse::Restore => "",
        };
        return Err(BackupError::refused(format!("`{shown}` is no directory{advice}")));
    }
    let has_manifest = path.join(MANIFEST).exists();
    if purpose == TargetUse::Restore && !has_manifest {
        return Err(BackupError::refused(format!(
            "`{shown}` has no backup: it is no git repository and has no `{MANIFEST}`"
        )));
    }
    // A backup that was interrupted leaves hidden files.
    let is_other = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy();
        !(name.starts_with('.') || name == "lost+found" || name.ends_with(".bundle"))
    };
    let entries = path.read_dir().map_err(|error| BackupError::io("read", path, &error))?;
    if !has_manifest && entries.flatten().any(|entry| is_other(&entry.file_name())) {
        return Err(BackupError::refused(format!("`{shown}` has other files; use an empty directory for backups")));
    }
    Ok(BackupTarget::Bundles(Box::new(DirectoryStore::new(path))))
}

/// Takes user name and password out of an `https://` URL.
fn split_credentials(text: &str) -> (String, Option<GitCredentials>) {
    let Some((scheme @ ("http" | "https"), encoded, rest)) = split_user(text) else { return (text.to_owned(), None) };
    let (user, password) = encoded.split_once(':').unwrap_or((encoded, ""));
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let credentials = GitCredentials { user: decode(user), password: decode(password), encoded: encoded.to_owned() };
    (format!("{scheme}://{rest}"), Some(credentials))
}

/// `BUCKET/PREFIX?endpoint=URL&region=NAME&path_style=true`; the credentials, and what is not in
/// the URL, are those of the environment, by the names that other clients use.
fn parse_s3(rest: &str) -> Result<S3Store, BackupError> {
    let displayed = shown(&format!("s3://{rest}"));
    let refused = |message: String| BackupError::refused(format!("`{displayed}`: {message}"));
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, prefix) = address.split_once('/').unwrap_or((address, ""));
    let read = |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok().filter(|it| !it.is_empty()));
    let mut endpoint = read(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]);
    let mut region = read(&["AWS_REGION", "AWS_DEFAULT_REGION"]);
    let mut path_style = None;
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "endpoint" => endpoint = Some(value.into_owned()),
            "region" => region = Some(value.into_owned()),
            "path_style" => {
                let value = value.parse().map_err(|_| refused("`path_style` must be `true` or `false`".to_owned()))?;
                path_style = Some(value);
            }
            other => {
                return Err(refused(format!("there is no option `{other}`; use `endpoint`, `region` or `path_style`")));
            }
        }
    }
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    // Buckets as host names need DNS that other servers seldom have.
    let style = match path_style.unwrap_or(endpoint.is_some()) {
        true => UrlStyle::Path,
        false => UrlStyle::VirtualHost,
    };
    let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    let endpoint: Url = endpoint.parse().map_err(|error| refused(format!("`endpoint` is no URL: {error}")))?;
    let name = if bucket.is_empty() { Err("has no bucket".to_owned()) } else { Ok(bucket.to_owned()) };
    let bucket = Bucket::new(endpoint, style, name.map_err(refused)?, region);
    let bucket = bucket.map_err(|error| refused(error.to_string()))?;
    let credentials = Credentials::from_env().ok_or_else(|| {
        refused("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of svcfs".to_owned())
    })?;
    Ok(S3Store::new(bucket, credentials, prefix))
}

/// The canonical form of a path that a person typed; other texts stay.
pub(crate) fn absolute(text: &str) -> String {
    let path = PathBuf::from(text);
    let is_path = !text.contains(':') || text.starts_with(['.', '/']);
    let absolute = if is_path { std::path::absolute(path).ok() } else { None };
    absolute.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_neither_shown_nor_in_the_url() {
        for (text, display, url) in [
            ("https://ann:s3cret@h/x.git", "https://***@h/x.git", "https://h/x.git"),
            ("https://token@h", "https://***@h", "https://h"),
            ("https://h/a@b", "https://h/a@b", "https://h/a@b"),
            ("ssh://git:pw@h/x", "ssh://git@h/x", "ssh://git:pw@h/x"),
            ("git@h:x.git", "git@h:x.git", "git@h:x.git"),
            ("s3://b/p?endpoint=https://u:pw@h", "s3://b/p?***", "s3://b/p?endpoint=https://u:pw@h"),
            ("s3://b/p?region=x", "s3://b/p?region=x", "s3://b/p?region=x"),
        ] {
            assert_eq!((shown(text).as_str(), split_credentials(text).0.as_str()), (display, url));
        }
        assert_eq!(password_of("ssh://git:pw@h/x"), Some("pw"));
        assert_eq!(password_of("refs/heads/a:refs/heads/b"), None);
        let invalid = BackupTarget::parse("s3://b/p?endpoint=https://u:pw@h&x=1", TargetUse::Restore).err().unwrap();
        assert!(!invalid.to_string().contains("pw"), "{invalid}");
        let (_, credentials) = split_credentials("https://ann:s%33cret@h/x");
        let credentials = credentials.unwrap();
        assert_eq!((credentials.user.as_str(), credentials.password.as_str()), ("ann", "s3cret"));
        assert_eq!(credentials.redact("cannot open https://ann:s%33cret@h: s3cret"), "cannot open https://***@h: ***");
    }

    #[test]
    fn the_identity_of_a_remote_has_its_endpoint_and_no_password() {
        for (text, expected) in [
            ("s3://b/p?endpoint=https://u:pw@h1/x@y", "s3://b/p?endpoint=https://h1/x@y"),
            ("s3://b/p?endpoint=https://v:new@h2&region=x", "s3://b/p?endpoint=https://h2&region=x"),
            ("s3://b/p?endpoint=https%3A%2F%2Fu%3Apw%40h3", "s3://b/p?endpoint=https://h3"),
            ("s3://b/p?region=x", "s3://b/p?region=x"),
            ("https://ann:s3cret@h/x.git", "https://***@h/x.git"),
            ("/srv/a?b@c", "/srv/a?b@c"),
        ] {
            assert_eq!(identity(text), expected);
        }
    }

    #[test]
    fn a_path_is_a_repository_or_a_directory_for_bundles() {
        let place = tempfile::tempdir().unwrap();
        let kind = |name: &str, purpose| match BackupTarget::parse(place.path().join(name).to_str().unwrap(), purpose) {
            Ok(BackupTarget::Git(_)) => "git".to_owned(),
            Ok(BackupTarget::Bundles(_)) => "bundles".to_owned(),
            Err(error) => error.to_string(),
        };
        std::fs::create_dir_all(place.path().join("bare/objects")).unwrap();
        std::fs::write(place.path().join("bare/HEAD"), "").unwrap();
        std::fs::create_dir_all(place.path().join("empty/lost+found")).unwrap();
        std::fs::create_dir_all(place.path().join("other/photos")).unwrap();
        assert_eq!(kind("bare", TargetUse::Backup), "git");
        assert_eq!(kind("empty", TargetUse::Backup), "bundles");
        assert!(kind("empty", TargetUse::Restore).contains("has no backup"));
        assert!(kind("other", TargetUse::Backup).contains("has other files"));
        assert!(kind("missing", TargetUse::Backup).contains("mount its disk"));
    }
}
