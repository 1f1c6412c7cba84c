//! `[assets]`

use std::collections::BTreeSet;

use bytesize::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::MAX_FILE_BYTES;

/// What may be uploaded beside pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AssetsConfig {
    /// The largest file, such as `5MB` or `64MiB`, which is also the most: what is larger has no versions and is put into the tree
    /// through the mount.
    pub max_file_size: String,
    /// Media types that are taken, by the extension of the name. Replaces the default list.
    pub allowed_types: Vec<String>,
}

/// Pictures, films, sound and documents that browsers show.
const TYPES: [&str; 21] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/svg+xml",
    "image/avif",
    "image/heic",
    "image/heif",
    "image/bmp",
    "video/mp4",
    "video/webm",
    "video/ogg",
    "video/quicktime",
    "audio/mpeg",
    "audio/ogg",
    "audio/wav",
    "audio/webm",
    "audio/flac",
    "audio/aac",
    "audio/mp4",
    "application/pdf",
];

impl Default for AssetsConfig {
    fn default() -> Self {
        Self { max_file_size: "64MiB".to_owned(), allowed_types: TYPES.map(str::to_owned).to_vec() }
    }
}

/// What may be uploaded beside pages, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssetsSettings {
    /// The largest file, in bytes.
    pub max_file_size: usize,
    /// Media types in lower case.
    pub allowed_types: BTreeSet<String>,
}

impl AssetsConfig {
    /// What is wrong: the key and the reason.
    pub(crate) fn fault(&self) -> Option<(&'static str, &'static str)> {
        let is_type =
            |text: &String| text.split_once('/').is_some_and(|(kind, name)| !kind.is_empty() && !name.is_empty());
        if self.largest().is_none() {
            Some(("assets.max_file_size", "is no size from 1 B to 64 MiB; give one such as `5MB` or `64MiB`"))
        } else if !self.allowed_types.iter().all(is_type) {
            Some(("assets.allowed_types", "holds what is no media type; give them as `image/png`"))
        } else {
            None
        }
    }

    fn largest(&self) -> Option<usize> {
        let size: ByteSize = self.max_file_size.parse().ok()?;
        usize::try_from(size.as_u64()).ok().filter(|size| (1..=MAX_FILE_BYTES).contains(size))
    }

    /// What holds; a size with a fault is that of the default.
    pub(crate) fn resolve(self) -> AssetsSettings {
        AssetsSettings {
            max_file_size: self.largest().unwrap_or(MAX_FILE_BYTES),
            allowed_types: self.allowed_types.iter().map(|name| name.to_lowercase()).collect(),
        }
    }
}
