//! Links rewritten when files move, in the form their author chose.

use std::ops::Range;

use super::uri::{encode, encode_angled, folder_of, join, relative, without_extension};
use super::{Link, links};
use crate::headings::slug;

/// Where the page stands whose links are rewritten; two paths differ when the page itself moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageMove<'a> {
    /// Its path while its links were written.
    pub old_path: &'a str,
    /// Its path from now on.
    pub new_path: &'a str,
}

impl<'a> PageMove<'a> {
    /// A page that stays where it is.
    #[must_use]
    pub fn in_place(path: &'a str) -> Self {
        Self { old_path: path, new_path: path }
    }
}

/// What must be known of the tree to rewrite the links of a page.
pub trait RetargetContext {
    /// The path a link of the page led to before the move; `None` when it led nowhere.
    fn old_target(&self, link: &Link) -> Option<String>;

    /// Where that path is now; `None` when it has not moved.
    fn new_path(&self, path: &str) -> Option<String>;

    /// Would a wiki link with this target, in the page where it stands now, lead to `path` after the move?
    fn resolves_to(&self, target: &str, path: &str) -> bool;
}

/// Replace targets of links: `choose` gives the new target of a link (a path, nothing encoded), or `None` to leave it.
///
/// Headings, labels and embeds stay. Targets of markdown links are percent-encoded where they must be. A target that cannot
/// stand in a wiki link (it holds `|`, `#`, `]`, `[[` or a line ending) leaves the link as it is. `None` when nothing changed.
pub fn rewrite_targets(text: &str, mut choose: impl FnMut(&Link) -> Option<String>) -> Option<String> {
    let chosen = |link: &Link| Some((link.target_range.clone(), written(text, link, &choose(link)?)?));
    replace(text, &links(text), chosen).map(|(text, _)| text)
}

/// Rewrite every link of a page that would otherwise lose its target, because the target moved or the page did.
///
/// A bare name stays a bare name unless it would lead elsewhere; then, and only then, as much of the path is added as is
/// needed. A full path stays a full path, a relative one relative; `.md` is kept where it was written and nowhere else. A wiki link to a
/// name that none can hold (`a|b.md`) becomes a markdown link.
/// Gives the new text and the number of links rewritten; `None` when none was.
pub fn retarget(text: &str, page: PageMove<'_>, moves: &impl RetargetContext) -> Option<(String, usize)> {
    replace(text, &links(text), |link| {
        let old = moves.old_target(link)?;
        let moved = moves.new_path(&old);
        if moved.is_none() && page.old_path == page.new_path {
            return None;
        }
        let new = moved.unwrap_or_else(|| old.clone());
        let is_address = !link.kind.is_wiki() || ["/", "./", "../"].iter().any(|start| link.target.starts_with(start));
        let target = if is_address { address(link, page, &new) } else { name(link, &old, &new, moves) };
        if target == link.target {
            return None;
        }
        let written = written(text, link, &target).map(|target| (link.target_range.clone(), target));
        Some(written.unwrap_or_else(|| (link.full_range.clone(), as_markdown(link, page, &new))))
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
        // a link may stand in the label of another one, never in its target
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

/// How a target is written in the place of the old one.
fn written(text: &str, link: &Link, target: &str) -> Option<String> {
    if link.kind.is_wiki() {
        let fits = !target.trim().is_empty() && !target.contains(['|', '#', ']', '\n', '\r']) && !target.contains("[[");
        return fits.then(|| target.to_owned());
    }
    let angled = link.target_range.start > 0 && text.as_bytes()[link.target_range.start - 1] == b'<';
    Some(if angled { encode_angled(target) } else { encode(target) })
}

/// A wiki link as a markdown link; without a label it shows the page's name, as before.
fn as_markdown(link: &Link, page: PageMove<'_>, new: &str) -> String {
    let name = without_extension(new.rsplit('/').next().unwrap_or(new));
    let mut label = String::new();
    for character in link.label.as_deref().unwrap_or(name).chars() {
        // A bar would end the cell of a table.
        if matches!(character, '[' | ']' | '|' | '\\') {
            label.push('\\');
        }
        label.push(character);
    }
    let anchor = link.heading.as_deref().map(slug).filter(|anchor| !anchor.is_empty());
    let fragment = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
    format!("[{label}]({}{fragment})", encode(&way(page, new, false)))
}

/// The new target of a link that is an address.
fn address(link: &Link, page: PageMove<'_>, new: &str) -> String {
    let old = link.target.as_str();
    let new = with_same_extension(old, new);
    // nothing to do when the way from here still leads there
    if join(folder_of(page.new_path), old).is_some_and(|path| path == new) {
        return old.to_owned();
    }
    if old.starts_with('/') {
        return format!("/{new}");
    }
    way(page, new, old.starts_with("./"))
}

/// How one comes from a page to a path.
fn way(page: PageMove<'_>, new: &str, is_dotted: bool) -> String {
    let way = relative(folder_of(page.new_path), new);
    // `a:b` would be read as a scheme
    let needs_dot = is_dotted || way.split('/').next().is_some_and(|first| first.contains(':'));
    if needs_dot && !way.starts_with("../") { format!("./{way}") } else { way }
}

/// The new target of a wiki link that is a name.
fn name(link: &Link, old: &str, new: &str, moves: &impl RetargetContext) -> String {
    let target = link.target.as_str();
    let asked = without_extension(target);
    let was_full = asked.contains('/') && asked.to_lowercase() == without_extension(old).to_lowercase();
    let full = with_same_extension(target, new);
    if was_full {
        return full.to_owned();
    }
    // by name, alias or title: whatever still leads there stays
    if moves.resolves_to(target, new) {
        return target.to_owned();
    }
    let parts = asked.matches('/').count();
    let mut ends: Vec<usize> = full.match_indices('/').map(|(at, _)| at + 1).rev().collect();
    ends.push(0);
    let suffixes = ends.into_iter().map(|start| &full[start..]);
    suffixes.skip(parts).find(|suffix| moves.resolves_to(suffix, new)).unwrap_or(full).to_owned()
}

/// `path` with `.md` where `as_in` has it, and without where it has not.
fn with_same_extension<'a>(as_in: &str, path: &'a str) -> &'a str {
    let bare = without_extension(as_in).len() == as_in.len();
    if bare { without_extension(path) } else { path }
}
