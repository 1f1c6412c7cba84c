//! `[files]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::HiddenFiles;

/// Files that are stored in the tree but are not knowledge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FilesConfig {
    /// Scratch files, as globs over the last component of a path: temporary files of editors and
    /// operating systems. They are stored and readable but not versioned, linted, indexed or
    /// announced. A glob without a character class (`[...]`) ignores case. Replaces the default
    /// list.
    pub scratch: Vec<String>,
    /// Hidden files that REST, MCP, search and export serve, as globs over paths, such as
    /// `.github/**` or `**/.env.example`. A file is hidden if a name in its path begins with a dot;
    /// all others are served by file protocols only. `*` does not match `/`; a directory that
    /// matches includes everything below it.
    pub serve_hidden: Vec<String>,
}

/// Before renaming, `sed -i` writes `sed` and six letters or digits, and `rsync` writes
/// `.name.ext.` and six of them (at least one is not a small letter if the name has no extension).
const SIX_CHARACTERS: &str = "[A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9]";

/// Six letters or digits, at least one of which is not a small letter (179 of 180 random suffixes):
/// `.bashrc.backup` is not a scratch file.
fn random_suffix() -> String {
    let six =
        |odd: usize| (0..6).map(|index| if index == odd { "[A-Z0-9]" } else { "[A-Za-z0-9]" }).collect::<String>();
    format!("{{{}}}", [0, 1, 2, 3, 4, 5].map(six).join(","))
}

/// Six letters, with a small letter directly before a capital one: eight of nine random suffixes of
/// Qt (KWrite, Kate), but no word.
fn qt_suffix() -> String {
    let letter = |index: usize, small: usize| match index {
        _ if index == small => "[a-z]",
        _ if index == small + 1 => "[A-Z]",
        _ => "[A-Za-z]",
    };
    let six = |small: usize| (0..6).map(|index| letter(index, small)).collect::<String>();
    format!("{{{}}}", [0, 1, 2, 3, 4].map(six).join(","))
}

/// Temporary files of editors, file managers, browsers and operating systems.
const DEFAULT_SCRATCH: &[&str] = &[
    // vim, emacs, nano
    "*.swp",
    "*.swx",
    "*.swo",
    "*~",
    ".#*",
    "#*#",
    "4913",
    // GNOME, KDE, JetBrains, LibreOffice, Microsoft Office, Visual Studio Code
    ".goutputstream-*",
    ".*.kate-swp",
    "*___jb_tmp___",
    "*___jb_old___",
    "*___jb_bak___",
    ".~lock.*#",
    "~$*",
    "*.tmp",
    "*.vsctmp",
    // downloads
    "*.part",
    "*.partial",
    "*.download",
    "*.crdownload",
    "*.opdownload",
    ".com.google.Chrome.*",
    ".org.chromium.Chromium.*",
    // macOS
    ".DS_Store",
    "._*",
    ".AppleDouble",
    ".AppleDB",
    ".AppleDesktop",
    ".Spotlight-V*",
    ".Trashes",
    ".fseventsd",
    ".TemporaryItems",
    ".DocumentRevisions-V*",
    ".VolumeIcon.icns",
    ".apdisk",
    "(A Document Being Saved By *)",
    // Windows
    "Thumbs.db",
    "Thumbs.db:encryptable",
    "ehthumbs.db",
    "ehthumbs_vista.db",
    "desktop.ini",
    "$RECYCLE.BIN",
    "System Volume Information",
    // Linux
    ".Trash-*",
    ".fuse_hidden*",
    ".nfs[0-9a-f]*",
];

impl Default for FilesConfig {
    fn default() -> Self {
        let fixed_names = DEFAULT_SCRATCH.iter().map(|glob| (*glob).to_owned());
        let odd = random_suffix();
        let random_names = [
            format!("sed{SIX_CHARACTERS}"),
            format!(".*.*.{SIX_CHARACTERS}"),
            format!(".*.{odd}"),
            // `perl -i`, and the output and reject files that `patch` writes next to a page.
            format!("XX{odd}"),
            format!("*.md.[or]{odd}"),
            format!("*.md.{}", qt_suffix()),
            // New content that macOS writes before it replaces a document.
            format!("*.sb-{}-{SIX_CHARACTERS}", "[0-9a-f]".repeat(8)),
        ];
        Self { scratch: fixed_names.chain(random_names).collect(), serve_hidden: Vec::new() }
    }
}

/// Matches names as the write path does.
pub(crate) fn matcher(glob: &str) -> Result<globset::GlobMatcher, globset::Error> {
    let glob = globset::GlobBuilder::new(glob).case_insensitive(svcfs_base::is_case_insensitive(glob)).build()?;
    Ok(glob.compile_matcher())
}

impl FilesConfig {
    /// The rule for hidden files; `serve_hidden` must be valid.
    pub(crate) fn exceptions(&self) -> HiddenFiles {
        HiddenFiles::new(&self.serve_hidden).unwrap_or_default()
    }

    /// The invalid globs of `serve_hidden`: index in the list and error.
    pub(crate) fn invalid_exceptions(&self) -> impl Iterator<Item = (usize, String)> {
        self.serve_hidden.iter().enumerate().filter_map(|(index, glob)| {
            if glob.trim().is_empty() {
                return Some((index, "is empty; give a glob over paths such as `.github/**`".to_owned()));
            }
            if glob.starts_with('/') || glob.starts_with("./") {
                let error = "begins with `/` or `./`; the paths are relative to the root, such as `.github/**`";
                return Some((index, error.to_owned()));
            }
            globset::Glob::new(glob).err().map(|error| (index, format!("is not a glob: {}", error.kind())))
        })
    }

    /// The invalid scratch globs: index in the list and error.
    pub(crate) fn invalid_globs(&self) -> impl Iterator<Item = (usize, String)> {
        self.scratch.iter().enumerate().filter_map(|(index, glob)| {
            if glob.is_empty() {
                return Some((index, "is empty; give a name pattern such as `*.bak`".to_owned()));
            }
            if glob.contains('/') {
                return Some((
                    index,
                    "contains `/`; scratch globs are matched against the last component of a path".to_owned(),
                ));
            }
            // A glob that matches every name would silently disable versioning.
            match matcher(glob) {
                Err(error) => Some((index, format!("is not a glob: {}", error.kind()))),
                Ok(matcher) if matcher.is_match("page.md") => {
                    Some((index, "matches ordinary pages, which would then have no history".to_owned()))
                }
                Ok(_) => None,
            }
        })
    }
}
