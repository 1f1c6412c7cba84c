//! The settings of git that concern contents and ignored files.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::{Config, ConfigLevel, Repository};
use gix_glob::Pattern;
use gix_glob::pattern::Case;
use svcfs_base::Actor;
use tracing::warn;

use super::attributes::AttributeLine;
use super::rule_files::{RuleFileStamp, ignore_patterns, read_rules, stamp_of};
use crate::history::without_own_lines;

const MAX_EMAIL_CHARS: usize = 256;

/// `core.autocrlf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum AutoCrlf {
    #[default]
    False,
    True,
    Input,
}

/// The commands of `filter.NAME.*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FilterDriver {
    /// By the names of their settings.
    commands: BTreeMap<String, String>,
    pub(super) is_required: bool,
}

impl FilterDriver {
    pub(super) fn has_command(&self) -> bool {
        self.commands.values().any(|command| !command.is_empty())
    }
}

/// The person who commits in a repository: `user.name` and `user.email`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitIdentity {
    /// The name, as an author of changes.
    pub name: Actor,
    /// The e-mail address.
    pub email: String,
}

impl GitIdentity {
    /// None when nothing that git accepts remains of one of the two.
    fn new(name: &str, email: &str) -> Option<Self> {
        let is_text = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '<' | '>');
        let email: String = email.chars().filter(|c| is_text(*c)).take(MAX_EMAIL_CHARS).collect();
        let is_named = name.chars().any(|c| is_text(c) && !".,:;\"\\'".contains(c));
        (is_named && !email.is_empty()).then(|| Self { name: Actor::new(name), email })
    }
}

/// git's settings for one root, without a repository the defaults.
pub(super) struct GitSettings {
    stamps: Vec<(PathBuf, Option<RuleFileStamp>)>,
    pub(super) case: Case,
    pub(super) auto_crlf: AutoCrlf,
    /// Whether `core.eol` is `crlf`.
    pub(super) is_eol_crlf: bool,
    pub(super) info_exclude: Vec<Pattern>,
    pub(super) excludes_file: Vec<Pattern>,
    pub(super) info_attributes: Vec<AttributeLine>,
    /// Of `core.attributesFile`.
    pub(super) general_attributes: Vec<AttributeLine>,
    pub(super) drivers: HashMap<String, FilterDriver>,
    /// Whether there is a repository: contents are converted for git only.
    pub(super) has_repository: bool,
    /// Who commits in the repository.
    pub(super) identity: Option<GitIdentity>,
}

impl GitSettings {
    /// Reads the settings, unless their files are as known.
    pub(super) fn read(root: &Path, known: Option<Arc<Self>>) -> Arc<Self> {
        if let Some(known) = known.filter(|known| known.stamps.iter().all(|(file, stamp)| stamp_of(file) == *stamp)) {
            return known;
        }
        let repository = Repository::open(root).ok();
        let config = read_config(repository.as_ref());
        let config = config.inspect_err(|error| warn!(%error, "git's configuration cannot be read; defaults apply"));
        let config = config.ok();
        let text = |name: &str| config.as_ref().and_then(|config| config.get_string(name).ok());
        let flag = |name: &str| config.as_ref().and_then(|config| config.get_bool(name).ok());
        let path = |name: &str| config.as_ref().and_then(|config| config.get_path(name).ok());
        let user_file = |name: &str| user_directory().map(|directory| directory.join("git").join(name));
        let excludes = path("core.excludesfile").or_else(|| user_file("ignore"));
        let attributes = path("core.attributesfile").or_else(|| user_file("attributes"));
        let of_repository = |name: &str| repository.as_ref().map(|repository| repository.commondir().join(name));
        let (info_exclude, info_attributes) = (of_repository("info/exclude"), of_repository("info/attributes"));
        let mut stamps = config_files(repository.as_ref());
        // A repository that is created later.
        stamps.push(root.join(".git/HEAD"));
        stamps.extend([&excludes, &attributes, &info_exclude, &info_attributes].into_iter().flatten().cloned());
        let stamps: Vec<_> = stamps.into_iter().map(|file| (file.clone(), stamp_of(&file))).collect();
        let content = |file: Option<PathBuf>| file.map(|file| read_rules(&file, stamp_of(&file))).unwrap_or_default();
        let auto_crlf = match (text("core.autocrlf"), flag("core.autocrlf")) {
            (Some(value), _) if value.eq_ignore_ascii_case("input") => AutoCrlf::Input,
            (_, Some(true)) => AutoCrlf::True,
            _ => AutoCrlf::False,
        };
        Arc::new(Self {
            stamps,
            case: if flag("core.ignorecase") == Some(true) { Case::Fold } else { Case::Sensitive },
            auto_crlf,
            is_eol_crlf: text("core.eol").is_some_and(|value| value.eq_ignore_ascii_case("crlf")),
            info_exclude: ignore_patterns(&without_own_lines(&content(info_exclude))),
            excludes_file: ignore_patterns(&content(excludes)),
            info_attributes: AttributeLine::parse(&content(info_attributes), true),
            general_attributes: AttributeLine::parse(&content(attributes), true),
            drivers: config.as_ref().map(drivers).unwrap_or_default(),
            has_repository: repository.is_some(),
            identity: repository.as_ref().and_then(|_| GitIdentity::new(&text("user.name")?, &text("user.email")?)),
        })
    }
}

fn user_directory() -> Option<PathBuf> {
    let directory = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")))
}

fn config_files(repository: Option<&Repository>) -> Vec<PathBuf> {
    let own = repository
        .into_iter()
        .flat_map(|repository| [repository.commondir().join("config"), repository.path().join("config.worktree")]);
    own.chain(general_files().into_iter().map(|(_, file)| file)).collect()
}

/// The configuration files outside of a repository. The environment overrides their places, as for
/// git; libgit2 does not know these variables.
fn general_files() -> Vec<(ConfigLevel, PathBuf)> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let system = match variable("GIT_CONFIG_SYSTEM") {
        _ if variable("GIT_CONFIG_NOSYSTEM").is_some() => None,
        None => Config::find_system().ok(),
        file => file,
    };
    let global = match variable("GIT_CONFIG_GLOBAL") {
        None => [(ConfigLevel::XDG, Config::find_xdg().ok()), (ConfigLevel::Global, Config::find_global().ok())],
        file => [(ConfigLevel::XDG, None), (ConfigLevel::Global, file)],
    };
    let files = std::iter::once((ConfigLevel::System, system)).chain(global);
    files.filter_map(|(level, file)| Some((level, file?))).collect()
}

/// The configuration that `git config` shows in a repository.
fn read_config(repository: Option<&Repository>) -> Result<Config, git2::Error> {
    let is_overridden = ["GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"]
        .map(std::env::var_os)
        .iter()
        .any(Option::is_some);
    if !is_overridden {
        return repository.map_or_else(Config::open_default, Repository::config);
    }
    let mut config = Config::new()?;
    let of_repository = |repository: &Repository| {
        [
            (ConfigLevel::Local, repository.commondir().join("config")),
            (ConfigLevel::Worktree, repository.path().join("config.worktree")),
        ]
    };
    let files = general_files().into_iter().chain(repository.into_iter().flat_map(of_repository));
    for (level, file) in files.filter(|(_, file)| file.is_file()) {
        config.add_file(&file, level, false)?;
    }
    Ok(config)
}

fn drivers(config: &Config) -> HashMap<String, FilterDriver> {
    let mut drivers: HashMap<String, FilterDriver> = HashMap::new();
    let Ok(entries) = config.entries(Some(r"^filter\..*\.(clean|smudge|process|required)$")) else { return drivers };
    let _ = entries.for_each(|entry| {
        let Some((name, key)) = entry.name().ok().and_then(|name| name.strip_prefix("filter.")?.rsplit_once('.'))
        else {
            return;
        };
        let driver = drivers.entry(name.to_owned()).or_default();
        match key {
            "required" => {
                driver.is_required = entry.value().ok().is_none_or(|value| Config::parse_bool(value).unwrap_or(false));
            }
            _ => drop(driver.commands.insert(key.to_owned(), entry.value().unwrap_or_default().to_owned())),
        }
    });
    drivers
}
