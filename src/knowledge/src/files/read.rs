//! What is read of a file besides its bytes.

use std::time::SystemTime;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use svcfs_base::{Fault, Kind, Timestamp, TreePath};
use svcfs_config::PublicUrl;
use svcfs_text::{Link, headings, links};
use svcfs_vfs::{EntryKind, FileView};

use crate::kernel::{OperationContext, given};

/// What stays as it is in one segment of a URL (RFC 3986, unreserved).
pub(crate) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The file at a path.
///
/// # Errors
/// `Invalid` for the root; `NotFound` when nothing or a directory is there (contract 7, gaps.md 4.3).
pub fn read_file(cx: &OperationContext<'_>, path: &TreePath) -> Result<FileView, Fault> {
    given("path", path)?;
    cx.space
        .vfs
        .read(cx.caller.protocol, path)
        .map_err(|fault| if fault.kind() == Kind::IsDirectory { Fault::file_not_found(path) } else { fault })
}

/// The names of the files in a folder that end in `suffix`, without it, in order; a folder that is not there holds none.
///
/// # Errors
/// `Internal` when the folder cannot be read.
pub fn list_stems(cx: &OperationContext<'_>, folder: &TreePath, suffix: &str) -> Result<Vec<String>, Fault> {
    let entries = match cx.space.vfs.list(cx.caller.protocol, folder) {
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => return Ok(Vec::new()),
        entries => entries?,
    };
    let files = entries.iter().filter(|entry| entry.attributes.kind == EntryKind::File);
    let mut stems: Vec<String> =
        files.filter_map(|entry| entry.path.name().strip_suffix(suffix)).map(str::to_owned).collect();
    stems.sort_unstable();
    Ok(stems)
}

/// A moment of the disk as it is written in answers; one outside the years that RFC 3339 knows becomes 1970.
pub fn to_timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The frontmatter of a page; empty when there is none, or when it is not readable.
pub fn frontmatter(content: &Bytes) -> Map<String, Value> {
    svcfs_text::frontmatter::parse(&String::from_utf8_lossy(content)).map
}

/// A page with each wiki link that leads somewhere turned into `[label](address)`; as it is without a public address, or when
/// it is no markdown page.
///
/// # Errors
/// Those of the index.
pub fn with_addresses(cx: &OperationContext<'_>, path: &TreePath, content: Bytes) -> Result<Bytes, Fault> {
    let (Some(site), true) = (cx.public_url(), path.is_page()) else {
        return Ok(content);
    };
    let Ok(text) = std::str::from_utf8(&content) else {
        return Ok(content);
    };
    let index = cx.index();
    let mut written = String::with_capacity(text.len());
    let mut from = 0;
    for link in links::links(text).iter().filter(|link| link.kind.is_wiki()) {
        let Some((start, end)) = brackets(text, link).filter(|(start, _)| *start >= from) else {
            continue;
        };
        let target = index.resolve(path, &link.target)?;
        let Some(target) = target.filter(|target| cx.caller.permissions.covers(&target.path)) else {
            continue;
        };
        written.push_str(&text[from..start]);
        let label = link.label.as_deref().unwrap_or(&text[link.target_range.clone()]);
        written.push_str(&format!("[{label}]({})", address(site.as_str(), &target.path, link.heading.as_deref())));
        from = end;
    }
    written.push_str(&text[from..]);
    Ok(written.into())
}

/// Where the brackets of a wiki link begin and end.
fn brackets(text: &str, link: &Link) -> Option<(usize, usize)> {
    let start = text.get(..link.target_range.start)?.rfind("[[")?;
    let end = link.target_range.end + text.get(link.target_range.end..)?.find("]]")? + 2;
    Some((start, end))
}

/// The address under which people read a page; none without a public address in the settings.
pub fn permalink(site: Option<&PublicUrl>, path: &TreePath) -> Option<String> {
    site.map(|site| address(site.as_str(), path, None))
}

/// The address under which people read a page (gaps.md 4.3, permalink).
fn address(site: &str, path: &TreePath, heading: Option<&str>) -> String {
    let mut address = format!("{site}/page");
    for segment in path.components() {
        address.push('/');
        address.extend(utf8_percent_encode(segment, SEGMENT));
    }
    if let Some(heading) = heading {
        address.push('#');
        address.push_str(&headings::slug(heading));
    }
    address
}
