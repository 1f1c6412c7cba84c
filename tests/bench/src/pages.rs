//! The generated tree: pages in folders of a hundred, the same bytes in every run.

use std::path::Path;

use anyhow::{Context, Result};

const FOLDER: usize = 100;
const LINES: usize = 14;

/// Words of the pages. None of them is [`RARE`].
const WORDS: [&str; 32] = [
    "tide", "harbour", "north", "signal", "copper", "ledger", "window", "orchard", "river", "engine", "paper",
    "winter", "garden", "letter", "bridge", "market", "silver", "stone", "candle", "meadow", "anchor", "basket",
    "cloud", "drum", "ember", "forest", "glass", "hammer", "island", "jacket", "kettle", "lantern",
];

/// A word of a few pages only.
pub const RARE: &str = "isthmus";
/// One page in so many has [`RARE`].
const RARE_EVERY: usize = 400;

/// A tree of this many pages.
#[derive(Debug, Clone, Copy)]
pub struct Pages {
    /// How many.
    pub count: usize,
}

impl Pages {
    /// Where a page is; numbers beyond the last begin again.
    pub fn path(self, page: usize) -> String {
        let page = page % self.count;
        format!("folder-{:03}/page-{page:05}.md", page / FOLDER)
    }

    /// Where a page is that the generated tree does not have, in one of its folders.
    pub fn new_path(self, number: usize) -> String {
        let folder = number % self.count.div_ceil(FOLDER);
        format!("folder-{folder:03}/new-{number:06}.md")
    }

    /// The page to be written next, by the number of writes before: all over the tree, each once before any comes again.
    pub fn scattered(self, write: usize) -> usize {
        // Without a factor in common with any round number.
        write.wrapping_mul(7919) % self.count
    }

    /// A page's text, about 1.2 KiB, in one of its revisions.
    pub fn text(self, page: usize, revision: usize) -> String {
        let page = page % self.count;
        let mut dice = Dice(page as u64 ^ 0x5eed);
        let mut text = format!("---\ntitle: Page {page}\ntags: [{}, {}]\n---\n\n", dice.word(), dice.word());
        text.push_str(&format!("# Page {page}\n\nRevision {revision}, see [[page-{:05}]].\n", dice.below(self.count)));
        for line in 0..LINES {
            if line % 5 == 0 {
                text.push_str(&format!("\n## {} {}\n\n", dice.word(), dice.word()));
            }
            let words: Vec<&str> = (0..12).map(|_| dice.word()).collect();
            text.push_str(&words.join(" "));
            text.push('\n');
        }
        if page.is_multiple_of(RARE_EVERY) {
            text.push_str(&format!("\nThe {RARE} is here.\n"));
        }
        text
    }

    /// Writes the whole tree, every page in revision 0.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn plant(self, root: &Path) -> Result<()> {
        for page in 0..self.count {
            let path = root.join(self.path(page));
            if page % FOLDER == 0
                && let Some(folder) = path.parent()
            {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(&path, self.text(page, 0)).with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(())
    }
}

/// Numbers that look thrown and are the same in every run (Knuth's MMIX generator).
struct Dice(u64);

impl Dice {
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
    use std::collections::BTreeSet;

    use super::*;

    const PAGES: Pages = Pages { count: 10_000 };

    #[test]
    fn writes_touch_every_page_once_before_any_again() {
        let touched: BTreeSet<usize> = (0..PAGES.count).map(|write| PAGES.scattered(write)).collect();
        assert_eq!(touched.len(), PAGES.count);
        assert_eq!(PAGES.scattered(PAGES.count), PAGES.scattered(0));
    }

    #[test]
    fn a_page_is_the_same_every_time_and_another_in_each_revision() {
        assert_eq!(PAGES.text(7, 1), PAGES.text(7, 1));
        assert_ne!(PAGES.text(7, 1), PAGES.text(7, 2));
        assert!((1000..1600).contains(&PAGES.text(7, 0).len()), "{}", PAGES.text(7, 0).len());
        assert!(PAGES.text(RARE_EVERY, 0).contains(RARE) && !PAGES.text(1, 0).contains(RARE));
    }
}
