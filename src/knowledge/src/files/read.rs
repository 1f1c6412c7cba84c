//! Reading of files and their metadata.

use std::time::SystemTime;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use svcfs_base::{Fault, Kind, Timestamp, TreePath};
use svcfs_config::PublicUrl;
use svcfs_text::{Link, headings, links};
use svcfs_vfs::{EntryKind, FileView};

use crate::kernel::{OperationContext, require_path};

/// The characters that need no escape in a segment of a URL (RFC 3986, unreserved).
pub(crate) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Reads the file at a path.
///
/// # Errors
/// `Invalid` for the root; `NotFound` if there is no file or a directory.
pub fn read_file(cx: &OperationContext<'_>, path: &TreePath) -> Result<FileView, Fault> {
    require_path("path", path)?;
    cx.tree()
        .read(cx.caller.protocol, path)
        .map_err(|fault| if fault.kind() == Kind::IsDirectory { Fault::file_not_found(path) } else { fault })
}

/// The names of the files in a folder that end in `suffix`, without it, sorted; empty for a missing
/// folder.
///
/// # Errors
/// `Internal` if the folder cannot be read.
pub fn list_stems(cx: &OperationContext<'_>, folder: &TreePath, suffix: &str) -> Result<Vec<String>, Fault> {
    let entries = match cx.tree().list(cx.caller.protocol, folder) {
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => return Ok(Vec::new()),
        entries => entries?,
    };
    let files = entries.iter().filter(|entry| entry.attributes.kind == EntryKind::File);
    let mut stems: Vec<String> =
        files.filter_map(|entry| entry.path.name().strip_suffix(suffix)).map(str::to_owned).collect();
    stems.sort_unstable();
    Ok(stems)
}

/// A file time; one outside the range of RFC 3339 becomes 1970.
pub fn to_timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The frontmatter of a page; empty if there is none or it is invalid.
pub fn frontmatter(content: &Bytes) -> Map<String, Value> {
    svcfs_text::frontmatter::parse(&String::from_utf8_lossy(content)).map
}

/// Replaces each wiki link that has a target by `[label](address)`. Unchanged without a public
/// address or if it is not a page.
pub fn resolve_wiki_links(cx: &OperationContext<'_>, path: &TreePath, content: Bytes) -> Result<Bytes, Fault> {
    let (Some(site), true) = (cx.public_url(), path.is_page()) else {
        return Ok(content);
    };
    let Ok(text) = std::str::from_utf8(&content) else {
        return Ok(content);
    };
    let index = cx.index();
    let mut output = String::with_capacity(text.len());
    let mut from = 0;
    for link in links::links(text).iter().filter(|link| link.kind.is_wiki()) {
        let Some((start, end)) = link_range(text, link).filter(|(start, _)| *start >= from) else {
            continue;
        };
        let target = index.resolve(path, &link.target)?;
        let Some(target) = target.filter(|target| cx.caller.permissions.covers(&target.path)) else {
            continue;
        };
        output.push_str(&text[from..start]);
        let label = link.label.as_deref().unwrap_or(&text[link.target_range.clone()]);
        output.push_str(&format!("[{label}]({})", file_url(site.as_str(), &target.path, link.heading.as_deref())));
        from = end;
    }
    output.push_str(&text[from..]);
    Ok(output.into())
}

fn link_range(text: &str, link: &Link) -> Option<(usize, usize)> {
    let start = text.get(..link.target_range.start)?.rfind("[[")?;
    let end = link.target_range.end + text.get(link.target_range.end..)?.find("]]")? + 2;
    Some((start, end))
}

/// The public address of a page; none if the settings have no public address.
pub fn permalink(site: Option<&PublicUrl>, path: &TreePath) -> Option<String> {
    site.map(|site| file_url(site.as_str(), path, None))
}

/// The address of a page or a file on a site, for readers with access.
pub(crate) fn file_url(site: &str, path: &TreePath, heading: Option<&str>) -> String {
    url_below(format!("{site}/{}", if path.is_page() { "page" } else { "raw" }), path, heading)
}

/// The URL of a path below a prefix without a final `/`.
pub(crate) fn url_below(prefix: String, path: &TreePath, heading: Option<&str>) -> String {
    let mut url = prefix;
    for segment in path.components() {
        url.push('/');
        url.extend(utf8_percent_encode(segment, SEGMENT));
    }
    if let Some(heading) = heading {
        url.push('#');
        url.push_str(&headings::anchor_of_link(heading));
    }
    url
}
