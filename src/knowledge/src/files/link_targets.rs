//! The targets of a page's links before and after files are renamed.
//!
//! The index knows the tree before the rename. The difference is computed here: moved files have
//! other names, all other files keep theirs.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use svcfs_base::{Caller, Fault, Kind, TreePath};
use svcfs_index::{Index, LinkFollower};
use svcfs_text::Link;
use svcfs_text::canvas::{self, is_canvas_path};
use svcfs_text::links::{
    KeyKind, KnownName, LinkKey, LinkKind, LinkResolution, PageMove, RetargetContext, candidates, choose_target,
    page_keys, retarget, retarget_fields, target_path,
};
use svcfs_vfs::EntryKind;

use crate::kernel::{OperationContext, Space};

/// The target of a link in the page at `from`: a page or another file. None for a broken link.
pub fn resolve_target(
    cx: &OperationContext<'_>,
    index: &Index,
    from: &TreePath,
    link: &Link,
) -> Result<Option<TreePath>, Fault> {
    match index.resolve_link(from, link.kind, &link.target)? {
        Some(target) => Ok(Some(target.path)),
        None => resolve_file((cx.space, cx.caller), from, link),
    }
}

/// The target of a link that is a path. Hidden and ignored files are not in the index.
fn resolve_file((space, caller): (&Space, &Caller), from: &TreePath, link: &Link) -> Result<Option<TreePath>, Fault> {
    let path = target_path(from.as_str(), link.kind, &link.target);
    let Some(path) = path.and_then(|path| TreePath::parse(&path).ok()).filter(|path| !path.is_root()) else {
        return Ok(None);
    };
    match space.vfs.stat(caller.protocol, &path) {
        Ok(attributes) if attributes.kind == EntryKind::Directory => Ok(None),
        Ok(_) => Ok(Some(path)),
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// The renamed files: one, or all of a directory.
pub(super) struct MovedFiles<'a> {
    from: &'a TreePath,
    to: &'a TreePath,
    /// The old names of moved files that are not pages: of those the index knows only the visible.
    before: FileNames,
    /// The new names of all moved files.
    after: FileNames,
    /// Every name that a link to a moved file may use, folded.
    link_names: HashSet<String>,
}

#[derive(Default)]
struct FileNames(HashMap<String, Vec<(LinkKey, TreePath)>>);

impl FileNames {
    fn add(&mut self, key: LinkKey, path: TreePath) {
        self.0.entry(key.folded.clone()).or_default().push((key, path));
    }

    /// The known names that match one of these keys.
    fn of(&self, keys: &[LinkKey]) -> impl Iterator<Item = KnownName<'_>> {
        let mut folded: Vec<&str> = keys.iter().map(|key| key.folded.as_str()).collect();
        folded.sort_unstable();
        folded.dedup();
        let named = folded.into_iter().filter_map(|folded| self.0.get(folded)).flatten();
        named.map(|(key, path)| KnownName { kind: key.kind, text: &key.text, path: path.as_str() })
    }
}

impl<'a> MovedFiles<'a> {
    /// The files at `from` or below it; `text_keys` are titles and aliases of pages among them.
    pub(super) fn new(
        (from, to): (&'a TreePath, &'a TreePath),
        files: &[TreePath],
        text_keys: Vec<(TreePath, LinkKey)>,
    ) -> Self {
        let (mut before, mut after, mut link_names) = (FileNames::default(), FileNames::default(), HashSet::new());
        for file in files {
            for key in page_keys(file.as_str(), None, &[]) {
                link_names.insert(key.folded.clone());
                if !file.is_page() {
                    before.add(key, file.clone());
                }
            }
            if let Some(path) = file.rebase(from, to) {
                for key in page_keys(path.as_str(), None, &[]) {
                    after.add(key, path.clone());
                }
            }
        }
        for (file, key) in text_keys {
            link_names.insert(key.folded.clone());
            if let Some(path) = file.rebase(from, to) {
                after.add(key, path);
            }
        }
        Self { from, to, before, after, link_names }
    }

    /// The new names that may match a link. A link by path or file name follows the file: its title
    /// must not match, even if it is the same. A link by alias or title stays as it is.
    fn new_names(&self, keys: &[LinkKey]) -> impl Iterator<Item = KnownName<'_>> {
        self.after.of(keys).filter(|known| is_path_key(known.kind) || !self.matched_old_path(known.path, keys))
    }

    /// Whether the moved file that is now at `path` matched one of these keys by its old path.
    fn matched_old_path(&self, path: &str, keys: &[LinkKey]) -> bool {
        let before = TreePath::parse(path).ok().and_then(|path| path.rebase(self.to, self.from));
        let names = before.map(|before| page_keys(before.as_str(), None, &[])).unwrap_or_default();
        names.iter().any(|name| keys.iter().any(|key| key.kind == name.kind && key.folded == name.folded))
    }
}

/// Whether a name is part of the path, which a rename changes, and not of the text.
fn is_path_key(kind: KeyKind) -> bool {
    match kind {
        KeyKind::Path | KeyKind::Suffix | KeyKind::Stem | KeyKind::AssetPath | KeyKind::AssetName => true,
        KeyKind::Alias | KeyKind::Title => false,
    }
}

/// Resolves the links of one page before and after the rename.
pub(super) struct PageLinkContext<'a, 'f, 'c> {
    requester: (&'a Space, &'a Caller),
    moved: &'a MovedFiles<'a>,
    links: RefCell<&'f mut LinkFollower<'c>>,
    /// The path of the page before the rename, and after it.
    before: &'a TreePath,
    after: TreePath,
    /// The first error; the results are not used then.
    fault: RefCell<Option<Fault>>,
}

impl<'a, 'f, 'c> PageLinkContext<'a, 'f, 'c> {
    pub(super) fn new(
        requester: (&'a Space, &'a Caller),
        moved: &'a MovedFiles<'a>,
        links: &'f mut LinkFollower<'c>,
        page: &'a TreePath,
    ) -> Self {
        let after = page.rebase(moved.from, moved.to).unwrap_or_else(|| page.clone());
        Self { requester, moved, links: RefCell::new(links), before: page, after, fault: RefCell::new(None) }
    }

    /// The text with updated links, and the number of changed links; none if nothing changes.
    pub(super) fn rewrite(&self, text: &str) -> Result<Option<(String, usize)>, Fault> {
        let page_move = PageMove { old_path: self.before.as_str(), new_path: self.after.as_str() };
        if !self.before.is_page() {
            let outcome =
                is_canvas_path(self.before.as_str()).then(|| canvas::retarget(text, page_move, self)).flatten();
            return self.fault.take().map_or(Ok(outcome), Err);
        }
        let text_keys = retarget(text, page_move, self);
        let (text, count) = text_keys.as_ref().map_or((text, 0), |(text, count)| (text.as_str(), *count));
        let fields = retarget_fields(text, &self.requester.0.settings.links.link_fields(), page_move, self);
        let outcome = fields.map(|(text, more)| (text, count + more)).or(text_keys);
        self.fault.take().map_or(Ok(outcome), Err)
    }

    pub(super) fn into_new_path(self) -> TreePath {
        self.after
    }

    fn resolution(&self) -> LinkResolution {
        self.requester.0.index.link_resolution()
    }

    /// The result; a fault is stored for [`PageLinkContext::rewrite`].
    fn answer<T>(&self, outcome: Result<Option<T>, Fault>) -> Option<T> {
        outcome.unwrap_or_else(|fault| {
            self.fault.borrow_mut().get_or_insert(fault);
            None
        })
    }

    fn target_before(&self, link: &Link) -> Result<Option<String>, Fault> {
        let keys = candidates(self.before.as_str(), link.kind, &link.target);
        // Fast path without the index: in a page that stays, only links to moved files change.
        if *self.before == self.after && !keys.iter().any(|key| self.moved.link_names.contains(&key.folded)) {
            return Ok(None);
        }
        if let Some(page) = self.links.borrow_mut().resolve(self.before, link)? {
            return Ok(Some(page.as_str().to_owned()));
        }
        if let Some(file) = choose_target(self.resolution(), self.before.as_str(), &keys, self.moved.before.of(&keys)) {
            return Ok(Some(file.to_owned()));
        }
        // Paths of other files change only if the page itself moves.
        if *self.before == self.after {
            return Ok(None);
        }
        Ok(resolve_file(self.requester, self.before, link)?.map(|path| path.as_str().to_owned()))
    }

    /// Whether a wiki link would have this target after the rename.
    ///
    /// It must not if both a moved file and another one match: a rewritten link must be unambiguous
    /// without the rule that the nearest file wins. Between two files that move together the
    /// nearest one stays the same.
    fn will_resolve_to(&self, target: &str, path: &str) -> Result<bool, Fault> {
        let keys = candidates(self.after.as_str(), LinkKind::Wiki, target);
        let mut links = self.links.borrow_mut();
        let has_moved = |path: &str| TreePath::parse(path).is_ok_and(|path| path.is_under(self.moved.to));
        if *self.before != self.after && has_moved(path) {
            let resolved = links.resolve_excluding(&self.after, target, self.moved.new_names(&keys))?;
            return Ok(resolved.is_some_and(|resolved| resolved.as_str() == path));
        }
        let moved = choose_target(self.resolution(), self.after.as_str(), &keys, self.moved.new_names(&keys));
        let other = links.resolve_excluding(&self.after, target, std::iter::empty())?;
        Ok(match (moved, other) {
            (Some(moved), None) => moved == path,
            (None, Some(other)) => other.as_str() == path,
            (Some(_), Some(_)) | (None, None) => false,
        })
    }
}

impl RetargetContext for PageLinkContext<'_, '_, '_> {
    fn old_target(&self, link: &Link) -> Option<String> {
        self.answer(self.target_before(link))
    }
    fn new_path(&self, path: &str) -> Option<String> {
        let moved = TreePath::parse(path).ok()?.rebase(self.moved.from, self.moved.to)?;
        Some(moved.as_str().to_owned())
    }
    fn resolves_to(&self, target: &str, path: &str) -> bool {
        self.answer(self.will_resolve_to(target, path).map(Some)).unwrap_or_default()
    }
}
