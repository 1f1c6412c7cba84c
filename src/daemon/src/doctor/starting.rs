//! Whether a server could start: its settings, and what they name.
//!
//! One rule: nothing is opened, made or changed; a port is taken for a moment and given back.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use svcfs_config::{AuthSettings, CliOverrides, ConfigError, LogOutput, ServerSettings, Settings, templates};
use svcfs_knowledge::{query, spaces};

use super::{CheckFinding, place};
use crate::presence::{self, ServedRoot};
use crate::{control, root, socket};

/// Looks at the settings as `svcfs serve` would, and at what they name. Without `at` no root is looked at: only the file.
pub fn could_start(at: Option<&Path>, config: Option<&Path>) -> Vec<CheckFinding> {
    if let Some(Err(failure)) = at.map(root::must_be_no_file) {
        return vec![CheckFinding::problem("root", failure.told(false).trim_start_matches("svcfs: "))];
    }
    let file = config.map_or_else(|| at.unwrap_or(Path::new(".")).join(templates::CONFIG.path), Path::to_owned);
    let settings = match root::understood(at.unwrap_or(Path::new(".")), config, CliOverrides::default()) {
        Ok(settings) => settings,
        Err(error) => return complaints(&file, error),
    };
    let shown = file.display();
    let mut found = vec![if file.exists() {
        CheckFinding::ok("settings", format!("`{shown}` can be followed"))
    } else {
        CheckFinding::ok("settings", format!("there is no `{shown}`; every setting has its default"))
    }];
    found.extend(secrets(&file));
    found.extend(at.into_iter().flat_map(of_root));
    found.push(port(&settings.server, at));
    let (made, unreadable) = match at.map_or_else(|| Ok(BTreeMap::new()), spaces::runtime_spaces) {
        Ok(made) => (made, None),
        Err(fault) => (BTreeMap::new(), Some(fault)),
    };
    found.extend(keys(&settings, &made));
    found.extend(log(&settings.log));
    if let Err(fault) = query::custom_fields(&settings.dataview) {
        found.push(CheckFinding::problem("queries", fault.message()));
    }
    found.extend(other_spaces(&settings, at));
    found.extend(unreadable.map(|fault| {
        let told = format!("the spaces that were made at run time are not served: {}", fault.message());
        CheckFinding::warning("space", told)
    }));
    let listed = |name: &str| settings.spaces.iter().any(|space| space.name == name);
    found.extend(made.iter().filter(|(name, _)| !listed(name)).map(|(name, root)| made_space(name, root)));
    found
}

fn complaints(file: &Path, error: ConfigError) -> Vec<CheckFinding> {
    let shown = file.display();
    match error {
        ConfigError::Invalid { path: _, problems: complaints } => complaints
            .iter()
            .map(|complaint| CheckFinding::problem("settings", format!("`{shown}`: {complaint}")))
            .collect(),
        unreadable @ ConfigError::Unreadable { .. } => vec![CheckFinding::problem("settings", unreadable.to_string())],
    }
}

/// Whether others can read keys that stand in the file as they are.
fn secrets(file: &Path) -> Option<CheckFinding> {
    let text = fs::read_to_string(file).ok()?;
    let is_readable = fs::metadata(file).ok()?.permissions().mode() & 0o004 != 0;
    let has_key = text.lines().map(str::trim).any(|line| {
        line.strip_prefix("api_key").is_some_and(|rest| rest.trim_start().starts_with('=') && !rest.contains("${"))
    });
    (has_key && is_readable).then(|| {
        let told = "everybody on this machine can read the key in it; `api_key = \"${NAME}\"` takes it from the environment, \
                    `svcfs token create` keeps digests only";
        CheckFinding::warning("keys", told).at([file.display()])
    })
}

/// Whether there is a root, or one can be made.
fn of_root(at: &Path) -> Vec<CheckFinding> {
    if at.exists() {
        return place::root(at).into_iter().chain([place::disk(at)]).collect();
    }
    let shown = at.display();
    vec![match unmakeable(at) {
        None => CheckFinding::ok("root", format!("`{shown}` does not exist; the server makes it")),
        Some(why) => CheckFinding::problem("root", format!("`{shown}` does not exist, and cannot be made: {why}")),
    }]
}

/// Why a directory that is not there could not be made.
fn unmakeable(path: &Path) -> Option<String> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let above = path.ancestors().find(|above| above.exists())?;
    unwritable(above)
}

/// Why nothing can be made in a directory.
fn unwritable(directory: &Path) -> Option<String> {
    if !directory.is_dir() {
        return Some(format!("`{}` is no directory", directory.display()));
    }
    let refused = access(directory, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!("`{}`: {}", directory.display(), std::io::Error::from(refused)))
}

/// Whether the port can be taken; the root's own server may have it.
fn port(server: &ServerSettings, at: Option<&Path>) -> CheckFinding {
    let place = server.authority();
    let served = at.filter(|root| control::is_there(root)).and_then(presence::announced);
    if let Some(ServedRoot { pid, url: Some(url), .. }) = served {
        return CheckFinding::ok("port", format!("process {pid} serves this root at {url} at the moment"));
    }
    let taken: Result<TcpListener, _> = socket::bind(server);
    match taken {
        Ok(_) => CheckFinding::ok("port", format!("{place} is free")),
        Err(failure) => CheckFinding::problem("port", failure.told(false).trim_start_matches("svcfs: ")),
    }
}

/// Whether whoever should come in can, and nobody else.
fn keys(settings: &Settings, made: &BTreeMap<String, PathBuf>) -> Vec<CheckFinding> {
    let mut found = Vec::new();
    let host = &settings.server.host;
    match &settings.auth {
        AuthSettings::None if !host.is_loopback() => {
            let told = format!(
                "nobody needs a key, and `{host}` is reached from other machines: everybody can change every page"
            );
            found.push(CheckFinding::warning("keys", told));
        }
        AuthSettings::PerSpace(keys) => {
            let lost = keys.iter().filter_map(|key| key.space.as_deref());
            let lost = lost.filter(|name| !root::is_space(name, settings, made));
            let lost: Vec<String> = lost.map(str::to_owned).collect();
            if !lost.is_empty() {
                let told = "keys are for spaces that are not there; they open nothing until one is made, or served with `--space`";
                found.push(CheckFinding::warning("keys", told).at(lost));
            }
        }
        AuthSettings::None | AuthSettings::ApiKey(_) | AuthSettings::Oidc(_) => {}
    }
    if found.is_empty() {
        found.push(CheckFinding::ok("keys", "who may come in is settled"));
    }
    found
}

fn log(to: &LogOutput) -> Option<CheckFinding> {
    let LogOutput::File(file) = to else { return None };
    let shown = file.display();
    let refused = match file.exists() {
        true => access(file, Access::WRITE_OK).err().map(|errno| std::io::Error::from(errno).to_string()),
        false => file.parent().and_then(|directory| {
            if directory.exists() {
                unwritable(directory)
            } else {
                Some(format!("`{}` does not exist", directory.display()))
            }
        }),
    };
    Some(match refused {
        None => CheckFinding::ok("log", format!("it goes to `{shown}`")),
        Some(why) => CheckFinding::problem("log", format!("`tracing.file`: `{shown}` cannot be written: {why}")),
    })
}

/// Why a space beside the first could not be opened.
fn sickness(root: &Path, proof: &Path) -> Option<String> {
    if !proof.exists() {
        return Some("its root is not there; is the disk mounted?".to_owned());
    }
    let settings = root::of_space(root);
    let failure = settings.err()?;
    Some(failure.told(false).trim_start_matches("svcfs: ").to_owned())
}

/// A space that was made at run time. It was a root then: an empty directory is where a disk is not mounted.
fn made_space(name: &str, root: &Path) -> CheckFinding {
    health(name, root, &root.join(".svc"))
}

/// Whether a space beside the first can be opened; not where `proof` is missing.
fn health(name: &str, root: &Path, proof: &Path) -> CheckFinding {
    let Some(why) = sickness(root, proof) else {
        return CheckFinding::ok("space", format!("`{name}` can be opened from `{}`", root.display()));
    };
    let told = format!("`{name}` is answered with 503, the other spaces are served: {why}");
    CheckFinding::warning("space", told).at([root.display()])
}

/// The spaces that the settings have beside the first, and where new ones may be made.
fn other_spaces(settings: &Settings, at: Option<&Path>) -> Vec<CheckFinding> {
    let mut found = Vec::new();
    let whole =
        |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned());
    let mut taken: Vec<(String, PathBuf)> = at.map(|at| (presence::FIRST.to_owned(), whole(at))).into_iter().collect();
    for space in &settings.spaces {
        let (name, path) = (&space.name, whole(&space.root));
        let overlaps = taken.iter().find(|(_, other)| path.starts_with(other) || other.starts_with(&path));
        // What the server refuses to start with; a space that is only sick keeps neither it nor the others.
        let refused = if let Err(fault) = spaces::check_name(name) {
            Some(fault.message().to_owned())
        } else if name == presence::FIRST {
            Some(format!("`{name}` is the name of the first space"))
        } else {
            overlaps.map(|(other, _)| format!("its root lies in that of `{other}`, or the other way round"))
        };
        found.push(match refused {
            Some(why) => CheckFinding::problem("space", format!("`{name}`: {why}")).at([path.display()]),
            None => health(name, &path, &path),
        });
        taken.push((name.clone(), path));
    }
    for parent in settings.server.space_parents.iter().filter(|parent| unmakeable(parent).is_some()) {
        let why = unmakeable(parent).unwrap_or_default();
        found.push(CheckFinding::warning("space", format!("no spaces can be made in `{}`: {why}", parent.display())));
    }
    found
}
