//! `[assets]`

use std::collections::BTreeSet;

use bytesize::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::MAX_FILE_BYTES;

/// Uploads of files that are not pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AssetsConfig {
    /// Maximum size of an uploaded file, such as `5MB` or `64MiB`; at most `64MiB`. Larger files
    /// have no versions; write them through a mount.
    pub max_file_size: String,
    /// Accepted media types; the extension of the name determines the type. Replaces the default
    /// list.
    pub allowed_types: Vec<String>,
}

/// Images, video, audio and documents that browsers display.
const DEFAULT_TYPES: &str = "image/png image/jpeg image/gif image/webp image/svg+xml image/avif image/heic image/heif \
    image/bmp video/mp4 video/webm video/ogg video/quicktime audio/mpeg audio/ogg audio/wav \
    audio/webm audio/flac audio/aac audio/mp4 application/pdf";

impl Default for AssetsConfig {
    fn default() -> Self {
        Self { max_file_size: "64MiB".to_owned(), allowed_types: DEFAULT_TYPES.split(' ').map(str::to_owned).collect() }
    }
}

/// Validated settings for uploads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssetsSettings {
    /// Maximum size of a file, in bytes.
    pub max_file_size: usize,
    /// Accepted media types, in lower case.
    pub allowed_types: BTreeSet<String>,
}

impl AssetsConfig {
    /// The first error: key and message.
    pub(crate) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let is_media_type =
            |text: &String| text.split_once('/').is_some_and(|(kind, name)| !kind.is_empty() && !name.is_empty());
        if self.max_bytes().is_none() {
            Some(("assets.max_file_size", "must be a size from 1 B to 64 MiB, such as `5MB` or `64MiB`"))
        } else if !self.allowed_types.iter().all(is_media_type) {
            Some(("assets.allowed_types", "must contain media types, such as `image/png`"))
        } else {
            None
        }
    }

    fn max_bytes(&self) -> Option<usize> {
        let size: ByteSize = self.max_file_size.parse().ok()?;
        usize::try_from(size.as_u64()).ok().filter(|size| (1..=MAX_FILE_BYTES).contains(size))
    }

    /// An invalid size, which is an error of its own, becomes the default.
    pub(crate) fn resolve(self) -> AssetsSettings {
        AssetsSettings {
            max_file_size: self.max_bytes().unwrap_or(MAX_FILE_BYTES),
            allowed_types: self.allowed_types.iter().map(|name| name.to_lowercase()).collect(),
        }
    }
}
