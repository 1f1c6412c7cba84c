//! What git's own rule files say about paths: `.gitignore`, `.gitattributes`, `.gitmodules`.
//!
//! Invariant: a change of a rule file is effective at the next question after [`RECHECK_INTERVAL`],
//! whoever made it, and immediately after [`PathRules::invalidate`]. Roots without such files pay
//! a few `stat` calls per directory and interval.

mod attributes;
mod conversion;
mod filters;
mod rule_files;
mod settings;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gix_glob::Pattern;
use gix_glob::pattern::Case;
use gix_glob::wildmatch::Mode;
use parking_lot::Mutex;
use svcfs_base::{PathComponent, TreePath};

use rule_files::DirectoryRules;
pub use settings::GitIdentity;
use settings::GitSettings;

pub(crate) use conversion::{Conversion, is_crlf_text};
pub(crate) use filters::{FilterError, hash_clean, smudge, store_clean};

/// How long the state of a rule file is trusted. In deep directories longer: a check takes as long
/// as the path, and concerns all directories above.
const RECHECK_INTERVAL: Duration = Duration::from_millis(20);
const LEVELS_PER_INTERVAL: u32 = 8;
/// More directories than this are not cached.
const MAX_CACHED_DIRECTORIES: usize = 20_000;

/// The rules of one root.
pub struct PathRules {
    root: PathBuf,
    cache: Mutex<RuleCache>,
    /// Entries of an older generation are checked again.
    generation: AtomicU64,
}

#[derive(Default)]
struct RuleCache {
    directories: HashMap<TreePath, Checked<DirectoryRules>>,
    settings: Option<Checked<GitSettings>>,
}

struct Checked<T> {
    value: Arc<T>,
    at: Instant,
    interval: Duration,
    generation: u64,
}

/// The rules that apply in a directory: its own last, those of the root first.
struct RuleChain {
    settings: Arc<GitSettings>,
    directories: Vec<(TreePath, Arc<DirectoryRules>)>,
}

/// Where a rule is written.
#[derive(Clone, Copy)]
enum RulePlace<'c> {
    Directory(&'c TreePath),
    InfoExclude,
    ExcludesFile,
}

impl PathRules {
    /// Rules of a root, with or without a repository.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), cache: Mutex::default(), generation: AtomicU64::new(0) }
    }

    /// Makes the next question read changed rule files.
    pub fn invalidate(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a path is the name of a rule file.
    pub fn is_rule_file(path: &TreePath) -> bool {
        matches!(path.name(), ".gitignore" | ".gitattributes" | ".gitmodules")
    }

    /// Whether git ignores a path that it does not track: by `.gitignore`, `.git/info/exclude` or
    /// `core.excludesFile`.
    pub fn is_ignored(&self, path: &TreePath) -> bool {
        self.find_ignoring(path, None, |_, _| ()).is_some()
    }

    /// Whether a rule that ignores a path below `from` would not when `from` is renamed to `to`.
    /// Rules inside of the directory move with it.
    pub fn is_uncovered_by_rename(&self, path: &TreePath, is_dir: bool, (from, to): (&TreePath, &TreePath)) -> bool {
        let is_inside = self.find_ignoring(path, Some(is_dir), |place, _| match place {
            RulePlace::Directory(directory) => directory.is_under(from),
            RulePlace::InfoExclude | RulePlace::ExcludesFile => false,
        });
        let Some(renamed) = path.rebase(from, to) else { return false };
        is_inside == Some(false) && self.find_ignoring(&renamed, Some(is_dir), |_, _| ()).is_none()
    }

    /// The rule by which git ignores a path, as text: the pattern and its file.
    pub fn ignoring_rule(&self, path: &TreePath) -> Option<String> {
        self.find_ignoring(path, None, |place, pattern| match place {
            RulePlace::Directory(directory) if directory.is_root() => format!("`{pattern}` in `.gitignore`"),
            RulePlace::Directory(directory) => format!("`{pattern}` in `{directory}/.gitignore`"),
            RulePlace::InfoExclude => format!("`{pattern}` in `.git/info/exclude`"),
            RulePlace::ExcludesFile => format!("`{pattern}` in the `core.excludesFile` of git"),
        })
    }

    /// The rule that ignores a path, or a directory above it. Without `is_dir` the disk says
    /// whether the path is a directory.
    fn find_ignoring<T>(
        &self,
        path: &TreePath,
        is_dir: Option<bool>,
        describe: impl Fn(RulePlace<'_>, &Pattern) -> T,
    ) -> Option<T> {
        let mut chain = RuleChain { settings: self.settings(), directories: Vec::new() };
        let mut directory = TreePath::root();
        for name in path.components() {
            chain.directories.push((directory.clone(), self.directory(&directory)));
            let name = PathComponent::parse(name).ok()?;
            directory = directory.join(&name);
            let rule = if directory == *path {
                let [as_file, as_directory] = [false, true].map(|is_dir| chain.excluding_rule(path, is_dir));
                // Few rules depend on the kind of file.
                let is_directory = || {
                    let on_disk = || self.root.join(path.as_str()).symlink_metadata().is_ok_and(|stat| stat.is_dir());
                    is_dir.unwrap_or_else(on_disk)
                };
                if as_file.is_some() != as_directory.is_some() && is_directory() { as_directory } else { as_file }
            } else {
                chain.excluding_rule(&directory, true)
            };
            // Nothing below an ignored directory can be included again.
            if let Some((place, pattern)) = rule {
                return Some(describe(place, pattern));
            }
        }
        None
    }

    /// Who commits in the repository; none without one, or when git's configuration does not say.
    pub fn identity(&self) -> Option<GitIdentity> {
        self.settings().identity.clone()
    }

    /// Whether a directory is a submodule: it has a file `.git`, or `.gitmodules` of the root lists
    /// it. A clone with a directory `.git` is none.
    pub fn is_submodule(&self, path: &TreePath) -> bool {
        if path.is_root() {
            return false;
        }
        self.directory(path).has_git_file || self.directory(&TreePath::root()).submodules.contains(path)
    }

    /// The submodule that a path is in.
    pub fn submodule_above(&self, path: &TreePath) -> Option<TreePath> {
        path.ancestors().find(|above| self.is_submodule(above))
    }

    /// The submodules that `.gitmodules` lists.
    pub fn listed_submodules(&self) -> Vec<TreePath> {
        self.directory(&TreePath::root()).submodules.iter().cloned().collect()
    }

    /// How git converts the file at a path.
    pub(crate) fn conversion(&self, path: &TreePath) -> Conversion {
        let settings = self.settings();
        let mut directories = Vec::new();
        let mut above: Vec<_> = path.ancestors().collect();
        above.reverse();
        for directory in above {
            let rules = self.directory(&directory);
            directories.push((directory, rules));
        }
        let chain = RuleChain { settings, directories };
        Conversion::new(&chain.settings, &chain.attributes(path))
    }

    fn directory(&self, path: &TreePath) -> Arc<DirectoryRules> {
        let generation = self.generation.load(Ordering::Relaxed);
        let mut cache = self.cache.lock();
        let known = cache.directories.get(path);
        if let Some(known) = known.filter(|known| known.is_current(generation)) {
            return Arc::clone(&known.value);
        }
        let known = known.map(|known| Arc::clone(&known.value));
        drop(cache);
        let value = DirectoryRules::read(&self.root, path, known);
        cache = self.cache.lock();
        if cache.directories.len() >= MAX_CACHED_DIRECTORIES {
            cache.directories.clear();
        }
        let levels = u32::try_from(path.components().count()).unwrap_or(u32::MAX);
        let interval = RECHECK_INTERVAL.saturating_mul(1 + levels / LEVELS_PER_INTERVAL);
        cache.directories.insert(path.clone(), Checked { interval, ..Checked::new(&value, generation) });
        value
    }

    fn settings(&self) -> Arc<GitSettings> {
        let generation = self.generation.load(Ordering::Relaxed);
        let known = {
            let cache = self.cache.lock();
            if let Some(known) = cache.settings.as_ref().filter(|known| known.is_current(generation)) {
                return Arc::clone(&known.value);
            }
            cache.settings.as_ref().map(|known| Arc::clone(&known.value))
        };
        let value = GitSettings::read(&self.root, known);
        self.cache.lock().settings = Some(Checked::new(&value, generation));
        value
    }
}

impl<T> Checked<T> {
    fn new(value: &Arc<T>, generation: u64) -> Self {
        Self { value: Arc::clone(value), at: Instant::now(), interval: RECHECK_INTERVAL, generation }
    }

    fn is_current(&self, generation: u64) -> bool {
        self.generation == generation && self.at.elapsed() < self.interval
    }
}

impl RuleChain {
    /// The last rule that matches a path, if it excludes it; directories above it are not.
    fn excluding_rule(&self, path: &TreePath, is_dir: bool) -> Option<(RulePlace<'_>, &Pattern)> {
        let case = self.settings.case;
        let own = self.directories.iter().rev();
        let own = own.map(|(directory, rules)| (RulePlace::Directory(directory), &rules.ignored));
        let general = [
            (RulePlace::InfoExclude, &self.settings.info_exclude),
            (RulePlace::ExcludesFile, &self.settings.excludes_file),
        ];
        let root = TreePath::root();
        let last = own.chain(general).find_map(|(place, patterns)| {
            let directory = if let RulePlace::Directory(directory) = place { directory } else { &root };
            let matching = patterns.iter().rev().find(|pattern| matches(pattern, (directory, path), is_dir, case));
            matching.map(|pattern| (place, pattern))
        });
        last.filter(|(_, pattern)| !pattern.is_negative())
    }
}

/// Whether a pattern of a rule file in a directory matches a path below it.
fn matches(pattern: &Pattern, (directory, path): (&TreePath, &TreePath), is_dir: bool, case: Case) -> bool {
    let relative = path.as_str().get(directory.as_str().len()..).unwrap_or_default().trim_start_matches('/');
    let base_name = relative.rfind('/').map(|slash| slash + 1);
    pattern.matches_repo_relative_path(relative.into(), base_name, Some(is_dir), case, Mode::NO_MATCH_SLASH_LITERAL)
}

#[cfg(test)]
mod tests;
