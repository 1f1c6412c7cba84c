//! Where the links of a page lead before and after files get other names.
//!
//! The index answers for the tree before the rename. What changes by the rename is worked out here: the files that move have other
//! names, and every other file has the names it had.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use svcfs_base::{Caller, Fault, Kind, TreePath};
use svcfs_index::{Index, LinkFollower};
use svcfs_text::Link;
use svcfs_text::links::{
    KeyKind, KnownName, LinkKey, LinkKind, PageMove, RetargetContext, candidates, choose_target, page_keys, retarget,
    retarget_fields,
};
use svcfs_vfs::EntryKind;

use crate::kernel::{OperationContext, Space};

/// What a link in the page at `from` leads to: a page, else another file of the tree. None for a broken link.
///
/// # Errors
/// Those of the index and of the tree.
pub fn resolve_target(
    cx: &OperationContext<'_>,
    index: &Index,
    from: &TreePath,
    link: &Link,
) -> Result<Option<TreePath>, Fault> {
    // The index takes names; an address is known by how it begins.
    let is_marked = ["/", "./", "../"].iter().any(|start| link.target.starts_with(start));
    let is_bare_address = !link.kind.is_wiki() && !is_marked;
    let asked = if is_bare_address { format!("./{}", link.target) } else { link.target.clone() };
    match index.resolve(from, &asked)? {
        Some(page) => Ok(Some(page.path)),
        None => file_of((cx.space, cx.caller), from, link),
    }
}

/// The file a link gives the address of. Pictures and the like are not in the index.
fn file_of((space, caller): (&Space, &Caller), from: &TreePath, link: &Link) -> Result<Option<TreePath>, Fault> {
    let wanted = candidates(from.as_str(), link.kind, &link.target);
    let Some(path) = wanted.first().and_then(|address| TreePath::parse(&address.text).ok()) else {
        return Ok(None);
    };
    match space.vfs.stat(caller.protocol, &path) {
        Ok(attributes) if attributes.kind == EntryKind::Directory => Ok(None),
        Ok(_) => Ok(Some(path)),
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Files that get other paths: one, or all of a directory.
pub(super) struct MovedFiles<'a> {
    from: &'a TreePath,
    to: &'a TreePath,
    /// The names of those that are no pages, before. The index knows those of the pages.
    before: FileNames,
    /// The names of all, after.
    after: FileNames,
    /// Every name by which a link may have meant one of them, in lower case.
    meant_by: HashSet<String>,
}

/// Names and the files that have them, by the name in lower case.
#[derive(Default)]
struct FileNames(HashMap<String, Vec<(LinkKey, TreePath)>>);

impl FileNames {
    fn add(&mut self, key: LinkKey, path: TreePath) {
        self.0.entry(key.folded.clone()).or_default().push((key, path));
    }

    /// The names that one of the wanted ones may mean.
    fn of(&self, wanted: &[LinkKey]) -> impl Iterator<Item = KnownName<'_>> {
        let mut folded: Vec<&str> = wanted.iter().map(|key| key.folded.as_str()).collect();
        folded.sort_unstable();
        folded.dedup();
        let named = folded.into_iter().filter_map(|folded| self.0.get(folded)).flatten();
        named.map(|(key, path)| KnownName { kind: key.kind, text: &key.text, path: path.as_str() })
    }
}

impl<'a> MovedFiles<'a> {
    /// These files, which are at `from` or below it; `of_text` are the names that pages among them have by their text.
    pub(super) fn new(
        (from, to): (&'a TreePath, &'a TreePath),
        files: &[TreePath],
        of_text: Vec<(TreePath, LinkKey)>,
    ) -> Self {
        let (mut before, mut after, mut meant_by) = (FileNames::default(), FileNames::default(), HashSet::new());
        for file in files {
            for key in page_keys(file.as_str(), None, &[]) {
                meant_by.insert(key.folded.clone());
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
        for (file, key) in of_text {
            meant_by.insert(key.folded.clone());
            if let Some(path) = file.rebase(from, to) {
                after.add(key, path);
            }
        }
        Self { from, to, before, after, meant_by }
    }

    /// The names a link may find a moved file by afterwards. Who named it by its path or file name means these, even when the title
    /// happens to be the same words: such a link follows the file. One by alias or title stays as it is.
    fn known_after(&self, wanted: &[LinkKey]) -> impl Iterator<Item = KnownName<'_>> {
        self.after.of(wanted).filter(|known| is_of_path(known.kind) || !self.was_by_path(known.path, wanted))
    }

    /// Whether a moved file, given by its path now, answered to one of these names by its path before.
    fn was_by_path(&self, path: &str, wanted: &[LinkKey]) -> bool {
        let before = TreePath::parse(path).ok().and_then(|path| path.rebase(self.to, self.from));
        let names = before.map(|before| page_keys(before.as_str(), None, &[])).unwrap_or_default();
        names.iter().any(|name| wanted.iter().any(|key| key.kind == name.kind && key.folded == name.folded))
    }
}

/// Whether a name is a part of the path, which a rename changes, and not of the text, which it leaves.
fn is_of_path(kind: KeyKind) -> bool {
    match kind {
        KeyKind::Path | KeyKind::Suffix | KeyKind::Stem => true,
        KeyKind::Alias | KeyKind::Title => false,
    }
}

/// The tree as the links of one page see it.
pub(super) struct PageLinkContext<'a, 'f, 'c> {
    /// Where the page is, and who asks.
    asked: (&'a Space, &'a Caller),
    moved: &'a MovedFiles<'a>,
    links: RefCell<&'f mut LinkFollower<'c>>,
    /// Where the page stands now, and where it will stand.
    before: &'a TreePath,
    after: TreePath,
    /// What went wrong while answering; the answers are then not used.
    fault: RefCell<Option<Fault>>,
}

impl<'a, 'f, 'c> PageLinkContext<'a, 'f, 'c> {
    /// The view of a page.
    pub(super) fn new(
        asked: (&'a Space, &'a Caller),
        moved: &'a MovedFiles<'a>,
        links: &'f mut LinkFollower<'c>,
        page: &'a TreePath,
    ) -> Self {
        let after = page.rebase(moved.from, moved.to).unwrap_or_else(|| page.clone());
        Self { asked, moved, links: RefCell::new(links), before: page, after, fault: RefCell::new(None) }
    }

    /// The page's text with its links led to the new places, and how many were changed; none when none had to be.
    ///
    /// # Errors
    /// Those of the index and of the tree.
    pub(super) fn rewritten(&self, text: &str) -> Result<Option<(String, usize)>, Fault> {
        let place = PageMove { old_path: self.before.as_str(), new_path: self.after.as_str() };
        let of_text = retarget(text, place, self);
        let (text, count) = of_text.as_ref().map_or((text, 0), |(text, count)| (text.as_str(), *count));
        let of_fields = retarget_fields(text, &self.asked.0.settings.links.link_fields(), place, self);
        let outcome = of_fields.map(|(text, more)| (text, count + more)).or(of_text);
        self.fault.take().map_or(Ok(outcome), Err)
    }

    /// Where the page will stand.
    pub(super) fn into_place(self) -> TreePath {
        self.after
    }

    /// The answer, or the fault kept for [`View::rewritten`].
    fn answer<T>(&self, outcome: Result<Option<T>, Fault>) -> Option<T> {
        outcome.unwrap_or_else(|fault| {
            self.fault.borrow_mut().get_or_insert(fault);
            None
        })
    }

    /// What a link of the page leads to before the rename.
    fn target_before(&self, link: &Link) -> Result<Option<String>, Fault> {
        let wanted = candidates(self.before.as_str(), link.kind, &link.target);
        // In a page that stays, only links to what moves are led elsewhere: most lead to something else, and the index is not asked.
        if *self.before == self.after && !wanted.iter().any(|key| self.moved.meant_by.contains(&key.folded)) {
            return Ok(None);
        }
        if let Some(page) = self.links.borrow_mut().resolve(self.before, link)? {
            return Ok(Some(page.as_str().to_owned()));
        }
        if let Some(file) = choose_target(self.before.as_str(), &wanted, self.moved.before.of(&wanted)) {
            return Ok(Some(file.to_owned()));
        }
        // Addresses of other files only change when the page itself moves.
        if *self.before == self.after {
            return Ok(None);
        }
        Ok(file_of(self.asked, self.before, link)?.map(|path| path.as_str().to_owned()))
    }

    /// Whether a wiki link would lead to a path after the rename.
    ///
    /// Not, when a moved file and one that stays would both fit: a rewritten link is to be clear without knowing what lies nearer
    /// (D17). Between two files that move together what is nearer stays so.
    fn will_lead(&self, target: &str, path: &str) -> Result<bool, Fault> {
        let wanted = candidates(self.after.as_str(), LinkKind::Wiki, target);
        let mut links = self.links.borrow_mut();
        let has_moved = |path: &str| TreePath::parse(path).is_ok_and(|path| path.is_under(self.moved.to));
        if *self.before != self.after && has_moved(path) {
            let found = links.resolve_excluding(&self.after, target, self.moved.known_after(&wanted))?;
            return Ok(found.is_some_and(|found| found.as_str() == path));
        }
        let moved = choose_target(self.after.as_str(), &wanted, self.moved.known_after(&wanted));
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
        self.answer(self.will_lead(target, path).map(Some)).unwrap_or_default()
    }
}
