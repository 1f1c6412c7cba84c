//! `[files]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is kept in the tree without being knowledge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Files {
    /// Names of scratch files, as globs over the last component of a path: droppings of editors and operating systems
    /// that are stored and readable but never versioned, linted, indexed or announced. Replaces the default list.
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

/// What editors, file managers and sync tools leave beside the file they save.
const SCRATCH: &[&str] = &[
    "*.swp",
    "*.swx",
    "*.swo",
    "*~",
    ".#*",
    "#*#",
    "4913",
    ".goutputstream-*",
    "*.tmp",
    "*.part",
    ".DS_Store",
    "._*",
    "~$*",
    ".fuse_hidden*",
    ".nfs[0-9a-f]*",
];

impl Default for Files {
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
        ];
        Self { scratch: named.chain(made_up).collect() }
    }
}

impl Files {
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
            match globset::Glob::new(glob).map(|glob| glob.compile_matcher()) {
                Err(error) => Some((index, format!("is not a glob: {}", error.kind()))),
                Ok(matcher) if matcher.is_match("page.md") => {
                    Some((index, "matches ordinary pages, which would then have no history".to_owned()))
                }
                Ok(_) => None,
            }
        })
    }
}
