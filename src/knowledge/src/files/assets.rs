//! Pictures and other files that pages show (contract 4.3, POST /assets).

use bytes::Bytes;
use mime_guess::mime;
use percent_encoding::utf8_percent_encode;
use svcfs_base::{Change, ETag, Fault, Kind, PathComponent, Precondition, TreePath};

use super::read::SEGMENT;
use crate::kernel::OperationContext;

/// Where they go when no folder is named.
const FOLDER: &str = "assets";
/// How many names are tried when the one wanted is taken.
const MAX_NAMES: usize = 1_000;

/// A file that was taken in.
#[derive(Debug)]
pub struct StoredAsset {
    /// Where it is.
    pub path: TreePath,
    /// What shows it in a page.
    pub markdown: String,
    /// Its media type.
    pub mime: String,
    /// Its length in bytes.
    pub size: usize,
    /// Its hash.
    pub etag: ETag,
}

/// Takes in a file under the last part of its name, or under one like it (`picture-2.png`) when another file has that name: what pages
/// show already is never covered. The same file once more is the one that is there.
///
/// # Errors
/// `Invalid` for a name that is none; `UnsupportedType` and `TooLarge` by the settings; what the vfs refuses.
pub fn take_in(
    cx: &OperationContext<'_>,
    folder: Option<TreePath>,
    given: &str,
    content: Bytes,
) -> Result<StoredAsset, Fault> {
    let assets = &cx.settings().assets;
    let called = given.rsplit(['/', '\\']).next().unwrap_or_default().trim();
    if called.is_empty() || called.starts_with('.') {
        let why =
            format!("`{}` is no name of a file; give one such as `picture.png`", svcfs_base::escape_unprintable(given));
        return Err(Fault::invalid("name", why));
    }
    if content.len() > assets.max_file_size {
        return Err(Fault::too_large("file", assets.max_file_size));
    }
    let guessed = mime_guess::from_path(called).first_or_octet_stream();
    if !assets.allowed_types.contains(guessed.essence_str()) {
        let why = format!(
            "`{}` is of type {guessed}, which is not taken here; see `assets.allowed_types` of the settings",
            svcfs_base::escape_unprintable(called)
        );
        return Err(Fault::new(Kind::UnsupportedType, why));
    }
    let folder = folder.map_or_else(|| TreePath::parse(FOLDER), Ok)?;
    let etag = ETag::from_content(&content);
    let (stem, extension) = called.rsplit_once('.').unwrap_or((called, ""));
    for number in 1..=MAX_NAMES {
        let name = if number == 1 { called.to_owned() } else { format!("{stem}-{number}.{extension}") };
        let path = folder.join(&PathComponent::parse(&name)?);
        match cx.apply(Change::put(path.clone(), content.clone()).with_precondition(Precondition::Absent)) {
            Err(fault) if fault.kind() == Kind::PreconditionFailed => {
                match cx.space.vfs.read(cx.caller.protocol, &path) {
                    Ok(there) if there.etag == etag => {}
                    _ => continue,
                }
            }
            outcome => drop(outcome?),
        }
        let address: Vec<String> =
            path.components().map(|part| utf8_percent_encode(part, SEGMENT).to_string()).collect();
        let is_shown = matches!(guessed.type_(), mime::IMAGE | mime::VIDEO | mime::AUDIO);
        let markdown = format!("{}[{}](/raw/{})", if is_shown { "!" } else { "" }, path.stem(), address.join("/"));
        return Ok(StoredAsset { path, markdown, mime: guessed.to_string(), size: content.len(), etag });
    }
    Err(Fault::new(
        Kind::Exists,
        format!("`{called}` and {MAX_NAMES} names like it are taken in `{folder}`; give another name"),
    ))
}
