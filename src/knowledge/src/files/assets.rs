//! Upload of pictures and other files that pages show (`POST /assets`).

use bytes::Bytes;
use mime_guess::mime;
use svcfs_base::{Change, ETag, Fault, Kind, PathComponent, Precondition, TreePath};

use super::read::url_below;
use crate::kernel::OperationContext;

const DEFAULT_FOLDER: &str = "assets";
const MAX_ATTEMPTS: usize = 1_000;

/// An uploaded file.
#[derive(Debug)]
pub struct StoredAsset {
    pub path: TreePath,
    /// Markdown that shows the file in a page.
    pub markdown: String,
    /// Media type.
    pub mime: String,
    /// Length in bytes.
    pub size: usize,
    /// Hash of the content.
    pub etag: ETag,
}

/// Stores a file under the last component of its name. If another file has that name, a number is
/// added (`picture-2.png`): an existing file is never replaced. Uploading the same content again
/// returns the existing file.
///
/// # Errors
/// `Invalid` for a bad file name; `UnsupportedType` and `TooLarge` by the settings; write errors.
pub fn store_asset(
    cx: &OperationContext<'_>,
    folder: Option<TreePath>,
    name: &str,
    content: Bytes,
) -> Result<StoredAsset, Fault> {
    let assets = &cx.settings().assets;
    let file_name = name.rsplit(['/', '\\']).next().unwrap_or_default().trim();
    if file_name.is_empty() || file_name.starts_with('.') {
        let message = format!(
            "`{}` is not a valid file name; use one such as `picture.png`",
            svcfs_base::escape_unprintable(name)
        );
        return Err(Fault::invalid("name", message));
    }
    if content.len() > assets.max_file_size {
        return Err(Fault::too_large("file", assets.max_file_size));
    }
    let media_type = mime_guess::from_path(file_name).first_or_octet_stream();
    if !assets.allowed_types.contains(media_type.essence_str()) {
        let message = format!(
            "`{}` has type {media_type}, which is not allowed; see the setting `assets.allowed_types`",
            svcfs_base::escape_unprintable(file_name)
        );
        return Err(Fault::new(Kind::UnsupportedType, message));
    }
    let folder = folder.map_or_else(|| TreePath::parse(DEFAULT_FOLDER), Ok)?;
    let etag = ETag::from_content(&content);
    let (stem, extension) = file_name.rsplit_once('.').unwrap_or((file_name, ""));
    for number in 1..=MAX_ATTEMPTS {
        let name = if number == 1 { file_name.to_owned() } else { format!("{stem}-{number}.{extension}") };
        let path = folder.join(&PathComponent::parse(&name)?);
        match cx.apply(Change::put(path.clone(), content.clone()).with_precondition(Precondition::Absent)) {
            Err(fault) if fault.kind() == Kind::PreconditionFailed => match cx.tree().read(cx.caller.protocol, &path) {
                Ok(existing) if existing.etag == etag => {}
                _ => continue,
            },
            outcome => drop(outcome?),
        }
        let address = url_below("/raw".to_owned(), &path, None);
        let is_media = matches!(media_type.type_(), mime::IMAGE | mime::VIDEO | mime::AUDIO);
        let markdown = format!("{}[{}]({address})", if is_media { "!" } else { "" }, path.stem());
        return Ok(StoredAsset { path, markdown, mime: media_type.to_string(), size: content.len(), etag });
    }
    Err(Fault::new(
        Kind::Exists,
        format!("`{file_name}` and {MAX_ATTEMPTS} similar names exist in `{folder}`; use another name"),
    ))
}
