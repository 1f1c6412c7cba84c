//! Which paths have versions, who sees the others, and which names are allowed.

use std::borrow::Cow;

use svcfs_base::{Change, Fault, FileKind, Kind, Protocol, Seq, TreePath};
use svcfs_store::{PathRules, path_refusal};
use tracing::warn;

use crate::core::VfsCore;
use crate::path_class::PathClass;
use crate::{EntryKind, Vfs};

/// Folders below `.svc` whose files pass through the gates: an invalid definition is refused.
const GATED_FOLDERS: [&str; 2] = [".svc/schemas/", ".svc/workflows/"];

/// Whether a path is that of a definition: the gates check also a file that is renamed to it.
pub(crate) fn is_definition(path: &TreePath) -> bool {
    GATED_FOLDERS.iter().any(|folder| path.as_str().starts_with(folder))
}

impl VfsCore {
    /// Whether changes of a path become versions: not for state and scratch files, files that git
    /// ignores, and the contents of submodules.
    pub(crate) fn is_versioned(&self, path: &TreePath) -> bool {
        self.path_classes.classify(path).is_versioned() && !self.is_unversioned_by_git(path)
    }

    /// Whether the gates check a path.
    pub(crate) fn is_gated(&self, path: &TreePath) -> bool {
        let is_gated = match self.path_classes.classify(path) {
            PathClass::Content => true,
            PathClass::Control => is_definition(path),
            PathClass::State | PathClass::Scratch => false,
        };
        is_gated && !self.is_unversioned_by_git(path)
    }

    fn is_unversioned_by_git(&self, path: &TreePath) -> bool {
        self.is_ignored(path) || self.versions.rules().submodule_above(path).is_some()
    }

    /// Whether git ignores a path. It does not ignore what it tracks, here or in an accepted write.
    pub(crate) fn is_ignored(&self, path: &TreePath) -> bool {
        !path.is_root() && self.versions.rules().is_ignored(path) && !self.is_tracked(path)
    }

    /// Whether a file was left untracked when the root was set up, and was not written since.
    pub(crate) fn is_left_untracked(&self, path: &TreePath) -> bool {
        self.untracked.contains(path)
            && self.tree.stat(path).is_ok_and(|stat| self.untracked.is_unmodified(path, &stat))
            && !self.is_tracked(path)
    }

    fn is_tracked(&self, path: &TreePath) -> bool {
        if self.overlay.get(path).is_some_and(|pending| pending.leaf.is_some()) {
            return true;
        }
        let uncommitted = self.uncommitted.below(path, Seq(0));
        if uncommitted.iter().any(|(_, state)| state.is_some())
            || self.uncommitted.get(path, Seq(0)).is_some_and(|state| state.is_some())
        {
            return true;
        }
        self.versions.is_tracked(path).unwrap_or_else(|error| {
            warn!(page.path = %path, %error, "cannot read whether git tracks this path; it is treated as tracked");
            true
        })
    }

    /// Whether a protocol sees a path. Files that git ignores are for file protocols only.
    pub(crate) fn is_visible(&self, protocol: Protocol, path: &TreePath) -> bool {
        self.path_classes.is_visible(protocol, path) && !(protocol.serves_knowledge_only() && self.is_ignored(path))
    }

    /// As [`VfsCore::is_visible`], without reading history: false when that would be necessary.
    pub(crate) fn is_surely_visible(&self, protocol: Protocol, path: &TreePath) -> bool {
        self.path_classes.is_visible(protocol, path)
            && !(protocol.serves_knowledge_only() && self.versions.rules().is_ignored(path))
    }

    /// Makes changes of rule files effective: paths that they concern are compared with history.
    pub(crate) fn follow_rules<'p>(&self, changed: impl Iterator<Item = &'p TreePath>) {
        let mut concerned = Vec::new();
        for path in changed.filter(|path| PathRules::is_rule_file(path)) {
            let directory = path.parent().unwrap_or_else(TreePath::root);
            let entries = self.tree.list(&directory).unwrap_or_default();
            concerned.extend(entries.iter().map(|(name, _)| directory.join(name)));
        }
        if !concerned.is_empty() {
            self.versions.rules().invalidate();
            self.request_rescan(concerned);
        }
    }

    /// The paths that changes write, remove or move.
    pub(crate) fn touched_paths(changes: &[Change]) -> Vec<TreePath> {
        let target = |change: &Change| match change {
            Change::Move { to, .. } => Some(to.clone()),
            Change::Put { .. } | Change::Remove { .. } | Change::MakeDir { .. } | Change::RemoveDir { .. } => None,
        };
        changes.iter().flat_map(|change| [Some(change.path().clone()), target(change)]).flatten().collect()
    }

    /// Why a path cannot be written through a protocol that does not see it.
    pub(crate) fn denied_path(&self, path: &TreePath) -> Fault {
        let is_server_file = !self.path_classes.is_visible(Protocol::Remote, path);
        if !is_server_file && self.is_ignored(path) {
            let rule = self.versions.rules().ignoring_rule(path).unwrap_or_else(|| "a rule in `.gitignore`".to_owned());
            let message = format_args!(
                "path denied: git ignores `{path}` ({rule}); write it through a mount, or change the rule"
            );
            return Fault::invalid("path", message);
        }
        if !is_server_file && self.path_classes.hidden_files().hides(path) {
            let message = format_args!(
                "path denied: `{path}` is hidden (a name begins with a dot), and hidden files are only for file \
                 protocols; write it through a mount, or allow it by a glob in `files.serve_hidden`"
            );
            return Fault::invalid("path", message);
        }
        Fault::invalid("path", format_args!("path denied: `{path}` belongs to the server"))
    }

    /// Refuses a new name that git or its hosts refuse. The kind is that of the file; none for a
    /// directory. File systems may contain a clone with its `.git`, which has no versions.
    pub(crate) fn check_name(&self, protocol: Protocol, path: &TreePath, kind: Option<FileKind>) -> Result<(), Fault> {
        let is_in_clone = || path.components().any(|name| name.eq_ignore_ascii_case(".git"));
        let may_clone = match protocol {
            Protocol::Direct | Protocol::Internal => return Ok(()),
            Protocol::Fuse | Protocol::Nfs => true,
            // A file `.git` would make its directory a submodule.
            Protocol::Remote => kind.is_none() || path.name() != ".git",
            Protocol::Http | Protocol::Mcp | Protocol::WebDav | Protocol::S3 | Protocol::Cli => false,
        };
        if self.path_classes.classify(path) == PathClass::State || may_clone && is_in_clone() {
            return Ok(());
        }
        let denied = |reason: Cow<'_, str>| {
            let name = svcfs_base::escape_unprintable(path.as_str());
            Fault::invalid(
                "path",
                format_args!("path denied: git cannot record `{name}`: {reason}; choose another name"),
            )
        };
        path_refusal(path, kind).map_or(Ok(()), |reason| Err(denied(reason)))
    }

    /// Refuses to rename a directory that is a submodule or contains one: git finds it by its path.
    pub(crate) fn check_no_submodule(&self, directory: &TreePath) -> Result<(), Fault> {
        let rules = self.versions.rules();
        let listed = rules.listed_submodules().into_iter().find(|listed| listed.is_under(directory));
        let found = listed.or_else(|| {
            let mut pending = vec![directory.clone()];
            while let Some(directory) = pending.pop() {
                if rules.is_submodule(&directory) {
                    return Some(directory);
                }
                let below = self.tree.list_directories(&directory).unwrap_or_default();
                pending.extend(below.iter().map(|name| directory.join(name)));
            }
            None
        });
        match found {
            Some(submodule) => Err(Fault::invalid(
                "from",
                format_args!(
                    "`{directory}` contains the git submodule `{submodule}`, which git would lose; move it with `git mv` in the root"
                ),
            )),
            None => Ok(()),
        }
    }
}

impl Vfs {
    /// Whether a directory contains something that git ignores, and would not after a rename of the
    /// directory: it would become versions, and visible through every protocol.
    ///
    /// # Errors
    /// Those of [`Vfs::list`].
    pub fn is_uncovering_rename(&self, from: &TreePath, to: &TreePath) -> Result<bool, Fault> {
        let rules = self.core.versions.rules();
        let mut pending = vec![from.clone()];
        while let Some(directory) = pending.pop() {
            let entries = match self.list(Protocol::Internal, &directory) {
                Ok(entries) => entries,
                // Removed meanwhile.
                Err(fault) if directory != *from && fault.kind() == Kind::NotFound => continue,
                Err(fault) => return Err(fault),
            };
            for entry in entries {
                let is_dir = entry.attributes.kind == EntryKind::Directory;
                if self.core.is_ignored(&entry.path) {
                    if rules.is_uncovered_by_rename(&entry.path, is_dir, (from, to)) {
                        return Ok(true);
                    }
                } else if is_dir && self.core.path_classes.classify(&entry.path).is_versioned() {
                    pending.push(entry.path);
                }
            }
        }
        Ok(false)
    }
}
