//! Addresses of published pages.
//!
//! Links between published pages are relative: they work below any prefix that a proxy adds.

use percent_encoding::utf8_percent_encode;
use svcfs_base::TreePath;
use svcfs_text::headings;

use crate::files;
use crate::kernel::{OperationContext, Space};

/// Whether a space is the first one of the server.
pub(super) fn is_primary(cx: &OperationContext<'_>, space: &Space) -> bool {
    cx.spaces().first().name == space.name
}

/// Where the published pages of a space begin.
pub(super) fn prefix(cx: &OperationContext<'_>, space: &Space) -> String {
    if is_primary(cx, space) {
        return "/p".to_owned();
    }
    format!("/p/@{}", utf8_percent_encode(&space.name, files::SEGMENT))
}

/// The public address of a page on this server, without host.
pub fn public_path(cx: &OperationContext<'_>, path: &TreePath) -> String {
    files::url_below(prefix(cx, cx.space), path, None)
}

/// The address of a page or file as seen from another page.
pub(super) fn relative(from: &TreePath, to: &TreePath, heading: Option<&str>) -> String {
    let folder: Vec<&str> = from.components().collect();
    let (folder, target) = (&folder[..folder.len().saturating_sub(1)], to.components().collect::<Vec<&str>>());
    let shared = folder.iter().zip(&target[..target.len().saturating_sub(1)]).take_while(|(a, b)| a == b).count();
    let up = "../".repeat(folder.len() - shared);
    let down: Vec<String> =
        target[shared..].iter().map(|segment| utf8_percent_encode(segment, files::SEGMENT).to_string()).collect();
    let anchor = heading.map(|heading| format!("#{}", headings::anchor_of_link(heading))).unwrap_or_default();
    format!("{up}{}{anchor}", down.join("/"))
}

/// The address of a page at `/public/file`, as seen from another one.
pub(super) fn public_file(path: &TreePath) -> String {
    format!("file?path={}", utf8_percent_encode(path.as_str(), files::SEGMENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_relative_to_the_folder_of_the_page() {
        let path = |text: &str| TreePath::parse(text).unwrap();
        for (from, to, heading, expected) in [
            ("a.md", "b.md", None, "b.md"),
            ("a.md", "x/b c.md", Some("A b"), "x/b%20c.md#a-b"),
            ("x/a.md", "b.md", None, "../b.md"),
            ("x/y/a.md", "x/z/b.md", None, "../z/b.md"),
            ("x/a.md", "x/a.md", Some("h"), "a.md#h"),
            ("a/a/a.md", "a/a.md", None, "../a.md"),
            ("x/a.md", "é/@:?#.md", None, "../%C3%A9/%40%3A%3F%23.md"),
        ] {
            assert_eq!(relative(&path(from), &path(to), heading), expected, "{from} {to}");
        }
    }
}
