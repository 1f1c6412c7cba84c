//! The names by which links address a page or another file.
//!
//! Pages and links use the same keys, so that a database table and
//! [`LinkTargets`](super::LinkTargets) in memory agree: store the [`page_keys`] of each file, look
//! up the [`candidates`] of a link by `folded`, pass the rows to
//! [`choose_target`](super::choose_target).

use super::LinkKind;
use super::uri::{folder_of, is_marked, join, join_folder, without_extension};
use crate::fold::fold_name;

/// Kind of a name. The order of [`candidates`] says which takes precedence in a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum KeyKind {
    /// The full path of a page.
    Path = 0,
    /// The last parts of the path of a page, at least two.
    Suffix = 1,
    /// The file name of a page.
    Stem = 2,
    /// One of the `aliases` in the frontmatter.
    Alias = 3,
    /// The title.
    Title = 4,
    /// The full path of a file that is not a page.
    AssetPath = 5,
    /// The file name, or the last parts of the path, of a file that is not a page.
    AssetName = 6,
}

impl KeyKind {
    const ALL: [Self; 7] =
        [Self::Path, Self::Suffix, Self::Stem, Self::Alias, Self::Title, Self::AssetPath, Self::AssetName];

    /// The kind with this number; none if there is no such kind.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// One name, of a file or in a link.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinkKey {
    /// Kind of the name.
    pub kind: KeyKind,
    /// The name as written; the path of a page without its `.md`.
    pub text: String,
    /// The name as [`fold_name`] returns it, for lookups.
    pub folded: String,
}

impl LinkKey {
    fn new(kind: KeyKind, text: &str) -> Self {
        Self { kind, text: text.to_owned(), folded: fold_name(text).into_owned() }
    }
}

/// The names of a page. Other files have only their path and the ends of it, with extension.
#[must_use]
pub fn page_keys(path: &str, title: Option<&str>, aliases: &[String]) -> Vec<LinkKey> {
    let name = without_extension(path);
    let is_page = name.len() < path.len();
    let mut keys = vec![LinkKey::new(if is_page { KeyKind::Path } else { KeyKind::AssetPath }, name)];
    let end_kind = |end: &str| match (is_page, end.contains('/')) {
        (true, true) => KeyKind::Suffix,
        (true, false) => KeyKind::Stem,
        (false, _) => KeyKind::AssetName,
    };
    let mut rest = name;
    while let Some((_, suffix)) = rest.split_once('/') {
        keys.push(LinkKey::new(end_kind(suffix), suffix));
        rest = suffix;
    }
    if !name.contains('/') {
        keys.push(LinkKey::new(end_kind(name), name));
    }
    let names = aliases.iter().map(|alias| (KeyKind::Alias, alias.trim()));
    for (kind, text) in names.chain(title.map(|title| (KeyKind::Title, title.trim()))) {
        if !text.is_empty() {
            keys.push(LinkKey::new(kind, text));
        }
    }
    keys
}

/// The names to which a link in the page `from` may refer, by precedence; empty when it leads out
/// of the tree.
///
/// Markdown links, and wiki links that begin with `/`, `./` or `../`, are addresses: they refer to
/// one path. `x.html` is also the address of the page `x.md`, which a site generator turns into it,
/// and `folder/` that of its `index.md` or `README.md`. Without such a start, an address of a
/// picture or another file that is not a page is also a name, as in Obsidian.
#[must_use]
pub fn candidates(from: &str, kind: LinkKind, target: &str) -> Vec<LinkKey> {
    if !kind.is_wiki() || is_marked(target) {
        return addresses(from, kind, target);
    }
    let by_path = if target.contains('/') { KeyKind::Suffix } else { KeyKind::Stem };
    let name = without_extension(target);
    let page_keys = [(KeyKind::Path, name), (by_path, name), (KeyKind::Alias, target), (KeyKind::Title, target)];
    let asset_keys = has_file_extension(target)
        .then_some([(KeyKind::AssetPath, target), (KeyKind::AssetName, target)])
        .into_iter()
        .flatten();
    asset_keys.chain(page_keys).map(|(kind, text)| LinkKey::new(kind, text)).collect()
}

fn addresses(from: &str, kind: LinkKind, target: &str) -> Vec<LinkKey> {
    let folder = folder_of(from);
    let page_in = |folder: &str, name: &str| {
        LinkKey::new(KeyKind::Path, &if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") })
    };
    let Some(path) = join(folder, target) else {
        let folder = join_folder(folder, target).filter(|_| !kind.is_wiki());
        return folder.map_or(Vec::new(), |folder| INDEX_PAGES.map(|name| page_in(&folder, name)).to_vec());
    };
    let name = without_extension(&path);
    if name.len() < path.len() {
        return vec![LinkKey::new(KeyKind::Path, name)];
    }
    let mut keys = vec![LinkKey::new(KeyKind::AssetPath, &path), LinkKey::new(KeyKind::Path, &path)];
    if let Some(rendered) = without_html(&path).filter(|_| !kind.is_wiki()) {
        keys.push(LinkKey::new(KeyKind::Path, rendered));
        if rendered.rsplit('/').next() == Some(INDEX_PAGES[0]) {
            keys.push(page_in(folder_of(rendered), INDEX_PAGES[1]));
        }
    }
    if !is_marked(target) && has_file_extension(target) {
        keys.extend([KeyKind::AssetPath, KeyKind::AssetName].map(|kind| LinkKey::new(kind, target)));
    }
    keys
}

/// The page of a folder: mdBook renders `README.md` as `index.html`.
const INDEX_PAGES: [&str; 2] = ["index", "README"];

/// Whether a page stands for its folder.
pub(super) fn is_index_page(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    INDEX_PAGES.iter().any(|page| without_extension(name).eq_ignore_ascii_case(page))
}

/// The path without `.html`; none without that extension.
pub(super) fn without_html(path: &str) -> Option<&str> {
    path.strip_suffix(".html").filter(|name| !name.is_empty() && !name.ends_with('/'))
}

/// The path of the file or folder that a link names if it is an address or a path from the root;
/// empty for the root, none if the link leads out of the tree.
#[must_use]
pub fn target_path(from: &str, kind: LinkKind, target: &str) -> Option<String> {
    if !kind.is_wiki() || is_marked(target) {
        let folder = folder_of(from);
        let path = join(folder, target).or_else(|| join_folder(folder, target).filter(|_| !kind.is_wiki()));
        return path.map(|path| without_extension(&path).to_owned());
    }
    Some(without_extension(target).to_owned())
}

/// Whether a name ends like that of a picture or document, not of a page: `v1.2` and `Dr. No` do
/// not.
fn has_file_extension(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty()
            && (1..=10).contains(&extension.len())
            && !extension.eq_ignore_ascii_case("md")
            && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && extension.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}
