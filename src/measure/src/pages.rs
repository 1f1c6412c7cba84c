//! The generated tree: pages in folders of a hundred, the same bytes in every run.

use std::path::Path;

use anyhow::{Context, Result};

use crate::run::BenchRun;
use crate::series::RoundBound;

/// Default number of pages per folder.
pub const PAGES_PER_FOLDER: usize = 100;
const LINES: usize = 14;

/// Words of the pages, without [`RARE_WORD`].
const WORDS: [&str; 32] = [
    "tide", "harbour", "north", "signal", "copper", "ledger", "window", "orchard", "river", "engine", "paper",
    "winter", "garden", "letter", "bridge", "market", "silver", "stone", "candle", "meadow", "anchor", "basket",
    "cloud", "drum", "ember", "forest", "glass", "hammer", "island", "jacket", "kettle", "lantern",
];

/// A word that occurs in few pages.
pub const RARE_WORD: &str = "isthmus";
/// One page in this many contains [`RARE_WORD`].
const RARE_EVERY: usize = 400;

/// A tree of this many pages.
#[derive(Debug, Clone, Copy)]
pub struct PageTree {
    /// Number of pages.
    pub count: usize,
    /// Maximum number of pages, and of subfolders, per folder.
    pub folder_size: usize,
    /// Size of a page, in multiples of 1.2 KiB.
    pub repeats: usize,
}

/// The writes of one round.
#[derive(Debug, Clone, Copy)]
pub struct RoundWork {
    /// The tree.
    pub pages: PageTree,
    /// Count and time limit.
    pub bound: RoundBound,
    /// Number of earlier writes: no content is written twice.
    pub first_write: usize,
}

impl PageTree {
    /// A tree in folders of a hundred.
    pub const fn new(count: usize) -> Self {
        Self { count, folder_size: PAGES_PER_FOLDER, repeats: 1 }
    }

    /// The path of a page, modulo the number of pages.
    pub fn path(self, page: usize) -> String {
        let page = page % self.count;
        format!("{}/page-{page:05}.md", self.folder_of(page))
    }

    /// The path of a page that is not in the generated tree, in one of its folders.
    pub fn new_path(self, number: usize) -> String {
        let folder = number % self.count.div_ceil(self.folder_size);
        format!("{}/new-{number:06}.md", self.folder_of(folder * self.folder_size))
    }

    /// The folder of a page, nested so that no folder exceeds `folder_size`.
    fn folder_of(self, page: usize) -> String {
        let (mut at, mut folders) = (page / self.folder_size, self.count.div_ceil(self.folder_size));
        let mut path = String::new();
        loop {
            let name = format!("folder-{:03}", at % self.folder_size);
            path = if path.is_empty() { name } else { format!("{name}/{path}") };
            if folders <= self.folder_size {
                return path;
            }
            at /= self.folder_size;
            folders = folders.div_ceil(self.folder_size);
        }
    }

    /// The next page to write, after `write` writes: scattered over the tree, each page once per
    /// cycle.
    pub fn scattered_page(self, write: usize) -> usize {
        // Has no common factor with round numbers.
        write.wrapping_mul(7919) % self.count
    }

    /// Path and text of a rewrite, after `write` writes: no content is written twice.
    pub fn rewrite(self, write: usize) -> (String, String) {
        let page = self.scattered_page(write);
        (self.path(page), self.text(page, write + 1))
    }

    /// The text of a page in a revision, about 1.2 KiB.
    pub fn text(self, page: usize, revision: usize) -> String {
        let page = page % self.count;
        let mut dice = FixedRandom(page as u64 ^ 0x5eed);
        let mut text = format!("---\ntitle: Page {page}\ntags: [{}, {}]\n---\n\n", dice.word(), dice.word());
        text.push_str(&format!("# Page {page}\n\nRevision {revision}, see [[page-{:05}]].\n", dice.below(self.count)));
        for line in 0..LINES * self.repeats {
            if line % 5 == 0 {
                text.push_str(&format!("\n## {} {}\n\n", dice.word(), dice.word()));
            }
            let words: Vec<&str> = (0..12).map(|_| dice.word()).collect();
            text.push_str(&words.join(" "));
            text.push('\n');
        }
        if page.is_multiple_of(RARE_EVERY) {
            text.push_str(&format!("\nThe {RARE_WORD} is here.\n"));
        }
        text
    }

    /// Writes the complete tree, every page in revision 0.
    ///
    /// # Errors
    /// When a file cannot be written, or when the run is stopped.
    pub fn write_tree(self, run: &BenchRun, root: &Path) -> Result<()> {
        for page in 0..self.count {
            let path = root.join(self.path(page));
            if page % self.folder_size == 0 {
                run.check_stop()?;
            }
            if page % self.folder_size == 0
                && let Some(folder) = path.parent()
            {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(&path, self.text(page, 0)).with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(())
    }
}

/// Pseudo-random numbers that are the same in every run (Knuth's MMIX generator).
struct FixedRandom(u64);

impl FixedRandom {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len())]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const PAGES: PageTree = PageTree::new(10_000);

    #[test]
    fn no_folder_of_a_large_tree_holds_more_than_its_share() {
        assert_eq!(PAGES.path(9_999), "folder-099/page-09999.md");
        assert_eq!(PageTree::new(100_000).path(99_999), "folder-009/folder-099/page-99999.md");
        assert_eq!(PageTree::new(1_000_000).new_path(10_001), "folder-000/folder-001/new-010001.md");
        for pages in [PageTree::new(100_000), PageTree { folder_size: 1_000, ..PageTree::new(100_000) }] {
            let mut held: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for page in 0..pages.count {
                let mut path = pages.path(page);
                while let Some((folder, name)) = path.clone().rsplit_once('/') {
                    held.entry(folder.to_owned()).or_default().insert(name.to_owned());
                    path = folder.to_owned();
                }
            }
            assert_eq!(held.values().map(BTreeSet::len).max(), Some(pages.folder_size));
        }
    }

    #[test]
    fn writes_touch_every_page_once_before_any_again() {
        let touched: BTreeSet<usize> = (0..PAGES.count).map(|write| PAGES.scattered_page(write)).collect();
        assert_eq!(touched.len(), PAGES.count);
        assert_eq!(PAGES.scattered_page(PAGES.count), PAGES.scattered_page(0));
    }

    #[test]
    fn a_page_is_the_same_every_time_and_another_in_each_revision() {
        assert_eq!(PAGES.text(7, 1), PAGES.text(7, 1));
        assert_ne!(PAGES.text(7, 1), PAGES.text(7, 2));
        assert!((1000..1600).contains(&PAGES.text(7, 0).len()), "{}", PAGES.text(7, 0).len());
        assert!(PAGES.text(RARE_EVERY, 0).contains(RARE_WORD) && !PAGES.text(1, 0).contains(RARE_WORD));
    }
}
