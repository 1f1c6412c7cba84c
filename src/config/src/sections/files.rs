//! `[files]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is kept in the tree without being knowledge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FilesConfig {
    /// Names of scratch files, as globs over the last component of a path: droppings of editors and operating systems
    /// that are stored and readable but never versioned, linted, indexed or announced. A glob without a character class
    /// (`[...]`) matches in any case. Replaces the default list.
    pub scratch: Vec<String>,
}

/// `sed -i` writes `sed` and six letters or digits, `rsync` writes `.name.ext.` and six of them (of which one is no small letter where the name
/// has no extension), before renaming.
const SIX: &str = "[A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9]";

/// Six letters or digits of which one is no small letter, as in all but one of 180: `.bashrc.backup` is somebody's file.
fn odd_six() -> String {
    let six = |odd: usize| (0..6).map(|at| if at == odd { "[A-Z0-9]" } else { "[A-Za-z0-9]" }).collect::<String>();
    format!("{{{}}}", [0, 1, 2, 3, 4, 5].map(six).join(","))
}

/// Six letters of which a small one stands directly before a capital one: what Qt makes up (KWrite, Kate) in all but one of
/// nine cases, and no word.
fn camel_six() -> String {
    let letter = |at: usize, small: usize| match at {
        _ if at == small => "[a-z]",
        _ if at == small + 1 => "[A-Z]",
        _ => "[A-Za-z]",
    };
    let six = |small: usize| (0..6).map(|at| letter(at, small)).collect::<String>();
    format!("{{{}}}", [0, 1, 2, 3, 4].map(six).join(","))
}

/// What editors, file managers, browsers and operating systems leave beside the file they save.
const SCRATCH: &[&str] = &[
    // vim, emacs, nano and their kind
    "*.swp",
    "*.swx",
    "*.swo",
    "*~",
    ".#*",
    "#*#",
    "4913",
    // GNOME, KDE, JetBrains, LibreOffice, Microsoft Office
    ".goutputstream-*",
    ".*.kate-swp",
    "*___jb_tmp___",
    "*___jb_old___",
    "*___jb_bak___",
    ".~lock.*#",
    "~$*",
    "*.tmp",
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
        let named = SCRATCH.iter().map(|glob| (*glob).to_owned());
        let odd = odd_six();
        let made_up = [
            format!("sed{SIX}"),
            format!(".*.*.{SIX}"),
            format!(".*.{odd}"),
            // `perl -i`, and what `patch` writes beside a page: what it becomes, and what it refuses.
            format!("XX{odd}"),
            format!("*.md.[or]{odd}"),
            format!("*.md.{}", camel_six()),
            // What macOS saves a document in before it replaces the old one.
            format!("*.sb-{}-{SIX}", "[0-9a-f]".repeat(8)),
        ];
        Self { scratch: named.chain(made_up).collect() }
    }
}

/// Matches names as the write path does.
pub(crate) fn matcher(glob: &str) -> Result<globset::GlobMatcher, globset::Error> {
    let glob = globset::GlobBuilder::new(glob).case_insensitive(svcfs_base::is_case_insensitive(glob)).build()?;
    Ok(glob.compile_matcher())
}

impl FilesConfig {
    /// What is wrong with each scratch glob: its index in the list and the reason.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (usize, String)> {
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
            // A glob that matches every name would end versioning without a word.
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
