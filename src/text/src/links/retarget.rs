//! Rewrites links when files move, in the form that their author chose.

use std::borrow::Cow;
use std::ops::Range;

use super::keys::{is_index_page, without_html};
use super::uri::{
    encode, encode_angled, folder_of, is_folder, is_marked, join, join_folder, relative, without_extension,
};
use super::{Link, links};
use crate::fold::fold_name;
use crate::headings::anchor_of_link;

/// The path of the page whose links are rewritten; the paths differ when the page itself moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageMove<'a> {
    /// Its path when the links were written.
    pub old_path: &'a str,
    /// Its path after the move.
    pub new_path: &'a str,
}

impl<'a> PageMove<'a> {
    /// A page that does not move.
    #[must_use]
    pub fn in_place(path: &'a str) -> Self {
        Self { old_path: path, new_path: path }
    }
}

/// The state of the tree that is needed to rewrite links.
pub trait RetargetContext {
    /// The path to which a link of the page led before the move; none for a broken link.
    fn old_target(&self, link: &Link) -> Option<String>;

    /// The new path; none when the file did not move.
    fn new_path(&self, path: &str) -> Option<String>;

    /// Whether a wiki link with this target, in the page at its new path, leads to `path` after the
    /// move.
    fn resolves_to(&self, target: &str, path: &str) -> bool;
}

/// Replaces targets of links: `choose` returns the new target of a link (an unencoded path), or
/// none to keep it.
///
/// Headings, labels and embeds remain. Targets of markdown links are percent-encoded if needed. A
/// link remains if the target is not possible in a wiki link (`|`, `#`, `]`, `[[` or a line
/// ending). None when nothing changed.
pub fn rewrite_targets(text: &str, mut choose: impl FnMut(&Link) -> Option<String>) -> Option<String> {
    let edit = |link: &Link| Some((link.target_range.clone(), encode_target(text, link, &choose(link)?)?));
    replace(text, &links(text), edit).map(|(text, _)| text)
}

/// Rewrites every link of a page that would become broken because the target or the page moved.
///
/// A bare name remains one unless it would lead to another page; then the shortest sufficient part
/// of the path is added. Full paths remain full, relative ones relative; `.md` remains only if
/// written. A name that is not possible in a wiki link (`a|b.md`) becomes a markdown link. Returns
/// the new text and the number of rewritten links; none when nothing changed.
pub fn retarget(text: &str, page: PageMove<'_>, moves: &impl RetargetContext) -> Option<(String, usize)> {
    replace(text, &links(text), |link| {
        let old = moves.old_target(link)?;
        let moved = moves.new_path(&old);
        if moved.is_none() && page.old_path == page.new_path {
            return None;
        }
        let new = moved.unwrap_or_else(|| old.clone());
        let target = if is_address(link, page, &old) {
            new_address(link, page, (&old, &new))
        } else {
            new_name(link, &old, &new, moves)
        };
        if target == link.target {
            return None;
        }
        let encoded = encode_target(text, link, &target).map(|target| (link.target_range.clone(), target));
        Some(encoded.unwrap_or_else(|| (link.full_range.clone(), as_markdown(link, page, &new))))
    })
}

fn replace(
    text: &str,
    links: &[Link],
    mut choose: impl FnMut(&Link) -> Option<(Range<usize>, String)>,
) -> Option<(String, usize)> {
    let mut new = String::with_capacity(text.len());
    let mut from = 0;
    let mut count = 0;
    for link in links {
        // a link may be inside the label of another one, never in its target
        if link.target_range.start < from {
            continue;
        }
        let Some((range, target)) = choose(link) else { continue };
        new.push_str(&text[from..range.start]);
        new.push_str(&target);
        from = range.end;
        count += 1;
    }
    new.push_str(&text[from..]);
    (count > 0).then_some((new, count))
}

/// The new target in the syntax of the link; none if a wiki link cannot contain it.
fn encode_target(text: &str, link: &Link, target: &str) -> Option<String> {
    if link.kind.is_wiki() {
        let fits = !target.trim().is_empty() && !target.contains(['|', '#', ']', '\n', '\r']) && !target.contains("[[");
        return fits.then(|| target.to_owned());
    }
    let angled = link.target_range.start > 0 && text.as_bytes()[link.target_range.start - 1] == b'<';
    Some(if angled { encode_angled(target) } else { encode(target) })
}

/// A wiki link as a markdown link; without a label its text is the name of the page.
fn as_markdown(link: &Link, page: PageMove<'_>, new: &str) -> String {
    let name = without_extension(new.rsplit('/').next().unwrap_or(new));
    let mut label = String::new();
    for character in link.label.as_deref().unwrap_or(name).chars() {
        // An unescaped `|` would end a table cell.
        if matches!(character, '[' | ']' | '|' | '\\') {
            label.push('\\');
        }
        label.push(character);
    }
    let anchor = link.heading.as_deref().map(anchor_of_link).filter(|anchor| !anchor.is_empty());
    let fragment = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
    format!("[{label}]({}{fragment})", encode(&relative_address(page, new, false)))
}

/// Whether a link leads to `old` by its address. A markdown link with another address leads there
/// by the name of the file.
fn is_address(link: &Link, page: PageMove<'_>, old: &str) -> bool {
    if link.kind.is_wiki() || is_marked(&link.target) || is_page(old) {
        return !link.kind.is_wiki() || is_marked(&link.target);
    }
    join(folder_of(page.old_path), &link.target).is_some_and(|path| fold_name(&path) == fold_name(old))
}

fn is_page(path: &str) -> bool {
    without_extension(path).len() < path.len()
}

/// The new address of a folder, which stands for its index page.
fn new_folder_address(link: &Link, page: PageMove<'_>, (old_page, new_page): (&str, &str)) -> String {
    let old = link.target.as_str();
    let folder = folder_of(if is_index_page(new_page) { new_page } else { old_page });
    if join_folder(folder_of(page.new_path), old).is_some_and(|path| path == folder) {
        return old.to_owned();
    }
    let address = if old.starts_with('/') {
        format!("/{folder}")
    } else {
        // the address of a file in the folder, without the file
        let file = if folder.is_empty() { "x".to_owned() } else { format!("{folder}/x") };
        folder_of(&relative_address(page, &file, old.starts_with("./"))).to_owned()
    };
    match address.as_str() {
        "" => "./".to_owned(),
        "/" => address,
        _ => format!("{address}/"),
    }
}

/// The new target of a link with an address.
fn new_address(link: &Link, page: PageMove<'_>, (old_page, new): (&str, &str)) -> String {
    let old = link.target.as_str();
    if is_folder(old) && !link.kind.is_wiki() {
        return new_folder_address(link, page, (old_page, new));
    }
    let new = &*with_same_extension(old, new);
    // the old address still leads there
    if join(folder_of(page.new_path), old).is_some_and(|path| path == new) {
        return old.to_owned();
    }
    if old.starts_with('/') {
        return format!("/{new}");
    }
    relative_address(page, new, old.starts_with("./"))
}

/// The relative address of a path.
fn relative_address(page: PageMove<'_>, new: &str, is_dotted: bool) -> String {
    let address = relative(folder_of(page.new_path), new);
    // `a:b` would be parsed as a scheme
    let needs_dot = is_dotted || address.split('/').next().is_some_and(|first| first.contains(':'));
    if needs_dot && !address.starts_with("../") { format!("./{address}") } else { address }
}

/// The new target of a wiki link by name.
fn new_name(link: &Link, old: &str, new: &str, moves: &impl RetargetContext) -> String {
    let target = link.target.as_str();
    let target_name = without_extension(target);
    let is_full_path = target_name.contains('/') && fold_name(target_name) == fold_name(without_extension(old));
    let full = &*with_same_extension(target, new);
    if is_full_path {
        return full.to_owned();
    }
    // the old name, alias or title still leads there
    if moves.resolves_to(target, new) {
        return target.to_owned();
    }
    let parts = target_name.matches('/').count();
    let mut starts: Vec<usize> = full.match_indices('/').map(|(at, _)| at + 1).rev().collect();
    starts.push(0);
    let suffixes = starts.into_iter().map(|start| &full[start..]);
    suffixes.skip(parts).find(|suffix| moves.resolves_to(suffix, new)).unwrap_or(full).to_owned()
}

/// `path` with `.md` if `model` has it, with `.html` if `model` has that and `path` is a page, else
/// without.
fn with_same_extension<'a>(model: &str, path: &'a str) -> Cow<'a, str> {
    if is_page(model) {
        return path.into();
    }
    let Some(rendered) = without_html(model).filter(|_| is_page(path)) else {
        return without_extension(path).into();
    };
    let name = without_extension(path);
    let (folder, file) = name.rsplit_once('/').map_or(("", name), |_| name.split_at(folder_of(name).len() + 1));
    // mdBook renders `README.md` as `index.html`
    let file = if is_index_page(rendered) && is_index_page(file) { "index" } else { file };
    format!("{folder}{file}.html").into()
}
