//! Whether a server could start: its settings and what they name.
//!
//! Invariant: nothing is opened, created or changed; the port is bound for a moment only.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use svcfs_config::{AuthSettings, CliOverrides, ConfigError, LogOutput, ServerSettings, Settings, templates};
use svcfs_knowledge::{query, spaces, vectors};

use super::{CheckFinding, place};
use crate::presence::{self, ServedRoot};
use crate::{control, root, socket};

/// Checks the settings as `svcfs serve` reads them, and what they name. Without `at`, checks only
/// the file.
pub fn could_start(at: Option<&Path>, config: Option<&Path>) -> Vec<CheckFinding> {
    if let Some(Err(failure)) = at.map(root::refuse_invalid_root) {
        return vec![CheckFinding::problem("root", failure.message(false).trim_start_matches("svcfs: "))];
    }
    let file = config.map_or_else(|| at.unwrap_or(Path::new(".")).join(templates::CONFIG.path), Path::to_owned);
    let settings = match root::read_settings(at.unwrap_or(Path::new(".")), config, CliOverrides::default()) {
        Ok(settings) => settings,
        Err(error) => return config_problems(&file, error),
    };
    let shown = file.display();
    let mut findings = vec![match settings.search.vector.as_ref().map(vectors::check_providers) {
        Some(Err(fault)) => CheckFinding::problem("settings", format!("`{shown}`: {}", fault.message())),
        _ if file.exists() => CheckFinding::ok("settings", format!("`{shown}` is valid")),
        _ => CheckFinding::ok("settings", format!("there is no `{shown}`; every setting has its default")),
    }];
    findings.extend(secrets(&file));
    findings.extend(at.into_iter().flat_map(of_root));
    findings.push(port(&settings.server, at));
    let (created, unreadable) = match at.map_or_else(|| Ok(BTreeMap::new()), spaces::runtime_spaces) {
        Ok(created) => (created, None),
        Err(fault) => (BTreeMap::new(), Some(fault)),
    };
    findings.extend(keys(&settings, &created));
    findings.extend(log(&settings.log));
    if let Err(fault) = query::custom_fields(&settings.dataview) {
        findings.push(CheckFinding::problem("queries", fault.message()));
    }
    findings.extend(other_spaces(&settings, at));
    findings.extend(unreadable.map(|fault| {
        let message = format!("spaces created at run time are not served: {}", fault.message());
        CheckFinding::warning("space", message)
    }));
    let listed = |name: &str| settings.spaces.iter().any(|space| space.name == name);
    findings.extend(created.iter().filter(|(name, _)| !listed(name)).map(|(name, root)| created_space(name, root)));
    findings
}

fn config_problems(file: &Path, error: ConfigError) -> Vec<CheckFinding> {
    let shown = file.display();
    match error {
        ConfigError::Invalid { path: _, problems } => {
            problems.iter().map(|problem| CheckFinding::problem("settings", format!("`{shown}`: {problem}"))).collect()
        }
        unreadable @ ConfigError::Unreadable { .. } => vec![CheckFinding::problem("settings", unreadable.to_string())],
    }
}

/// Whether other users can read a key in the file.
fn secrets(file: &Path) -> Option<CheckFinding> {
    let text = fs::read_to_string(file).ok()?;
    let is_readable = fs::metadata(file).ok()?.permissions().mode() & 0o004 != 0;
    let has_key = text.lines().map(str::trim).any(|line| {
        line.strip_prefix("api_key").is_some_and(|rest| rest.trim_start().starts_with('=') && !rest.contains("${"))
    });
    (has_key && is_readable).then(|| {
        let message = "all users of this machine can read the key in this file; take it from the environment with \
                       `api_key = \"${NAME}\"`, or use `svcfs token create`, which stores digests only";
        CheckFinding::warning("keys", message).at([file.display()])
    })
}

/// Whether the root exists or can be created.
fn of_root(at: &Path) -> Vec<CheckFinding> {
    if at.exists() {
        return place::root(at).into_iter().chain([place::disk(at)]).collect();
    }
    let shown = at.display();
    vec![match creation_error(at) {
        None => CheckFinding::ok("root", format!("`{shown}` does not exist; `svcfs serve --create` creates it")),
        Some(reason) => {
            CheckFinding::problem("root", format!("`{shown}` does not exist and cannot be created: {reason}"))
        }
    }]
}

/// Why a missing directory could not be created.
fn creation_error(path: &Path) -> Option<String> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let above = path.ancestors().find(|above| above.exists())?;
    write_error(above)
}

/// Why no file can be created in a directory.
fn write_error(directory: &Path) -> Option<String> {
    if !directory.is_dir() {
        return Some(format!("`{}` is not a directory", directory.display()));
    }
    let refused = access(directory, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!("`{}`: {}", directory.display(), std::io::Error::from(refused)))
}

/// Whether the port is free; the server of this root may use it.
fn port(server: &ServerSettings, at: Option<&Path>) -> CheckFinding {
    let address = server.authority();
    let served = at.filter(|root| control::is_served(root)).and_then(presence::announced);
    if let Some(ServedRoot { pid, url: Some(url), .. }) = served {
        return CheckFinding::ok("port", format!("process {pid} serves this root at {url} at the moment"));
    }
    let bound: Result<TcpListener, _> = socket::bind(server);
    match bound {
        Ok(_) => CheckFinding::ok("port", format!("{address} is free")),
        Err(failure) => CheckFinding::problem("port", failure.message(false).trim_start_matches("svcfs: ")),
    }
}

/// Whether authentication is configured for the address and the spaces.
fn keys(settings: &Settings, made: &BTreeMap<String, PathBuf>) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    let host = &settings.server.host;
    match &settings.auth {
        AuthSettings::None if !host.is_loopback() => {
            let message = format!(
                "authentication is off and `{host}` is reachable from other machines: anyone can change every page; \
                 create a key with `svcfs token create`"
            );
            findings.push(CheckFinding::warning("keys", message));
        }
        AuthSettings::PerSpace(keys) => {
            let unknown = keys.iter().filter_map(|key| key.space.as_deref());
            let unknown = unknown.filter(|name| !root::is_space(name, settings, made));
            let unknown: Vec<String> = unknown.map(str::to_owned).collect();
            if !unknown.is_empty() {
                let message = "some keys are for spaces that do not exist; create them, or serve them with `--space`";
                findings.push(CheckFinding::warning("keys", message).at(unknown));
            }
        }
        AuthSettings::None | AuthSettings::ApiKey(_) | AuthSettings::Oidc(_) => {}
    }
    if findings.is_empty() {
        let message = if matches!(settings.auth, AuthSettings::None) {
            "authentication is off; only this machine can connect"
        } else {
            "authentication is configured"
        };
        findings.push(CheckFinding::ok("keys", message));
    }
    findings
}

fn log(to: &LogOutput) -> Option<CheckFinding> {
    let LogOutput::File(file) = to else { return None };
    let shown = file.display();
    let reason = match file.exists() {
        true => access(file, Access::WRITE_OK).err().map(|errno| std::io::Error::from(errno).to_string()),
        false => file.parent().and_then(|directory| {
            if directory.exists() {
                write_error(directory)
            } else {
                Some(format!("`{}` does not exist", directory.display()))
            }
        }),
    };
    Some(match reason {
        None => CheckFinding::ok("log", format!("the log is written to `{shown}`")),
        Some(reason) => CheckFinding::problem("log", format!("`tracing.file`: `{shown}` cannot be written: {reason}")),
    })
}

/// Why a secondary space could not be opened.
fn space_error(root: &Path, required: &Path) -> Option<String> {
    if !required.exists() {
        return Some("its root does not exist; is the disk mounted?".to_owned());
    }
    let settings = root::of_space(root);
    let failure = settings.err()?;
    Some(failure.message(false).trim_start_matches("svcfs: ").to_owned())
}

/// A space created at run time. It was a root then: an empty directory means an unmounted disk.
fn created_space(name: &str, root: &Path) -> CheckFinding {
    check_space(name, root, &root.join(".svc"))
}

/// Whether a secondary space can be opened; the path `required` must exist.
fn check_space(name: &str, root: &Path, required: &Path) -> CheckFinding {
    let Some(reason) = space_error(root, required) else {
        return CheckFinding::ok("space", format!("`{name}` can be opened from `{}`", root.display()));
    };
    let message = format!("requests to `{name}` will get 503, the other spaces are served: {reason}");
    CheckFinding::warning("space", message).at([root.display()])
}

/// The secondary spaces of the settings, and the parent directories of new ones.
fn other_spaces(settings: &Settings, at: Option<&Path>) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    let absolute =
        |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned());
    let mut roots: Vec<(String, PathBuf)> =
        at.map(|at| (presence::FIRST.to_owned(), absolute(at))).into_iter().collect();
    for space in &settings.spaces {
        let (name, path) = (&space.name, absolute(&space.root));
        let overlaps = roots.iter().find(|(_, other)| path.starts_with(other) || other.starts_with(&path));
        // These prevent the start; a space that cannot be opened does not.
        let conflict = if let Err(fault) = spaces::check_name(name) {
            Some(fault.message().to_owned())
        } else if name == presence::FIRST {
            Some(format!("`{name}` is the name of the first space"))
        } else {
            overlaps.map(|(other, _)| format!("its root and the root of `{other}` overlap"))
        };
        findings.push(match conflict {
            Some(reason) => CheckFinding::problem("space", format!("`{name}`: {reason}")).at([path.display()]),
            None => check_space(name, &path, &path),
        });
        roots.push((name.clone(), path));
    }
    for parent in settings.server.space_parents.iter().filter(|parent| creation_error(parent).is_some()) {
        let reason = creation_error(parent).unwrap_or_default();
        findings.push(CheckFinding::warning(
            "space",
            format!("no spaces can be created in `{}`: {reason}", parent.display()),
        ));
    }
    findings
}
