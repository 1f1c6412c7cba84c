//! Where the links of a page lead before and after a file gets another name.
//!
//! The index answers for the tree before the rename. What changes by the rename is worked out here: one file has other names,
//! and every other file has the names it had.

use std::cell::RefCell;

use svcfs_base::{Fault, Kind, TreePath};
use svcfs_index::Index;
use svcfs_text::links::{Key, KeyKind, Known, LinkKind, Moves, Place, candidates, choose, keys_of, retarget};
use svcfs_text::{Link, Page};
use svcfs_vfs::EntryKind;

use crate::kernel::Cx;

/// What a link in the page at `from` leads to: a page, else another file of the tree. None for a broken link.
///
/// # Errors
/// Those of the index and of the tree.
pub fn target_of(cx: &Cx<'_>, index: &Index, from: &TreePath, link: &Link) -> Result<Option<TreePath>, Fault> {
    match page_of(index, from, link)? {
        Some(page) => Ok(Some(page)),
        None => file_of(cx, from, link),
    }
}

/// The page a link leads to.
fn page_of(index: &Index, from: &TreePath, link: &Link) -> Result<Option<TreePath>, Fault> {
    // The index takes names; an address is known by how it begins.
    let is_marked = ["/", "./", "../"].iter().any(|start| link.target.starts_with(start));
    let is_bare_address = !link.kind.is_wiki() && !is_marked;
    let asked = if is_bare_address { format!("./{}", link.target) } else { link.target.clone() };
    Ok(index.resolve(from, &asked)?.map(|page| page.path))
}

/// The file a link gives the address of. Pictures and the like are not in the index.
fn file_of(cx: &Cx<'_>, from: &TreePath, link: &Link) -> Result<Option<TreePath>, Fault> {
    let wanted = candidates(from.as_str(), link.kind, &link.target);
    let Some(path) = wanted.first().and_then(|address| TreePath::parse(&address.text).ok()) else {
        return Ok(None);
    };
    match cx.space.vfs.stat(cx.caller.door, &path) {
        Ok(attributes) if attributes.kind == EntryKind::Directory => Ok(None),
        Ok(_) => Ok(Some(path)),
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// A file that gets another path.
pub(super) struct Moved<'a> {
    from: &'a TreePath,
    to: &'a TreePath,
    /// The names it answers to before.
    names_before: Vec<Key>,
    /// The names it answers to after.
    names_after: Vec<Key>,
}

impl<'a> Moved<'a> {
    /// A file with its text, when it is a page.
    pub(super) fn new(from: &'a TreePath, to: &'a TreePath, text: Option<&str>) -> Self {
        Self { from, to, names_before: names(from, text), names_after: names(to, text) }
    }

    /// The names a link may find the file by afterwards. Who named it by its path or file name means these, even when the
    /// title happens to be the same words: such a link follows the file. One by alias or title stays as it is.
    fn known_after(&self, wanted: &[Key]) -> impl Iterator<Item = Known<'_>> {
        let was_by_path = self
            .names_before
            .iter()
            .filter(|name| is_of_path(name))
            .any(|name| wanted.iter().any(|key| key.kind == name.kind && key.folded == name.folded));
        let names = self.names_after.iter().filter(move |name| !was_by_path || is_of_path(name));
        names.map(|name| Known { kind: name.kind, text: &name.text, path: self.to.as_str() })
    }
}

/// Whether a name is a part of the path, which a rename changes, and not of the text, which it leaves.
fn is_of_path(name: &Key) -> bool {
    match name.kind {
        KeyKind::Path | KeyKind::Suffix | KeyKind::Stem => true,
        KeyKind::Alias | KeyKind::Title => false,
    }
}

/// The names a file answers to.
fn names(path: &TreePath, text: Option<&str>) -> Vec<Key> {
    match text {
        Some(text) => {
            let page = Page::read(path.as_str(), text);
            keys_of(path.as_str(), Some(&page.title), &page.aliases)
        }
        None => keys_of(path.as_str(), None, &[]),
    }
}

/// The names as [`choose`] takes them.
fn known<'k>(names: &'k [Key], path: &'k TreePath) -> impl Iterator<Item = Known<'k>> {
    names.iter().map(|name| Known { kind: name.kind, text: &name.text, path: path.as_str() })
}

/// The tree as the links of one page see it.
pub(super) struct View<'a> {
    cx: &'a Cx<'a>,
    index: &'a Index,
    moved: &'a Moved<'a>,
    /// Where the page stands now, and where it will stand.
    before: &'a TreePath,
    after: &'a TreePath,
    /// What went wrong while answering; the answers are then not used.
    fault: RefCell<Option<Fault>>,
}

impl<'a> View<'a> {
    /// The view of the page that stands at the first place and will stand at the second.
    pub(super) fn new(cx: &'a Cx<'a>, moved: &'a Moved<'a>, (before, after): (&'a TreePath, &'a TreePath)) -> Self {
        Self { cx, index: &cx.space.index, moved, before, after, fault: RefCell::new(None) }
    }

    /// The page's text with its links led to the new places, and how many were changed; none when none had to be.
    ///
    /// # Errors
    /// Those of the index and of the tree.
    pub(super) fn rewritten(&self, text: &str) -> Result<Option<(String, usize)>, Fault> {
        let place = Place { before: self.before.as_str(), after: self.after.as_str() };
        let outcome = retarget(text, place, self);
        self.fault.take().map_or(Ok(outcome), Err)
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
        if let Some(page) = page_of(self.index, self.before, link)? {
            return Ok(Some(page.as_str().to_owned()));
        }
        if !self.moved.from.is_page() {
            let wanted = candidates(self.before.as_str(), link.kind, &link.target);
            let found = choose(self.before.as_str(), &wanted, known(&self.moved.names_before, self.moved.from));
            if found.is_some() {
                return Ok(found.map(str::to_owned));
            }
        }
        // Addresses of other files only change when the page itself moves.
        if self.before == self.after {
            return Ok(None);
        }
        Ok(file_of(self.cx, self.before, link)?.map(|path| path.as_str().to_owned()))
    }

    /// What a wiki link would lead to after the rename; none also when the moved file and another one would fit: a rewritten
    /// link is to be clear without knowing what lies nearer (D17).
    fn target_after(&self, target: &str) -> Result<Option<TreePath>, Fault> {
        let wanted = candidates(self.after.as_str(), LinkKind::Wiki, target);
        let fits = choose(self.after.as_str(), &wanted, self.moved.known_after(&wanted)).is_some();
        let other = self.index.resolve_without(self.moved.from, self.after, target)?;
        Ok(match other {
            None => fits.then(|| self.moved.to.clone()),
            Some(other) => (!fits).then_some(other.path),
        })
    }
}

impl Moves for View<'_> {
    fn led_to(&self, link: &Link) -> Option<String> {
        self.answer(self.target_before(link))
    }
    fn moved(&self, path: &str) -> Option<String> {
        (path == self.moved.from.as_str()).then(|| self.moved.to.as_str().to_owned())
    }
    fn leads_to(&self, target: &str, path: &str) -> bool {
        self.answer(self.target_after(target)).is_some_and(|found| found.as_str() == path)
    }
}
