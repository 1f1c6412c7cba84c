//! The overview of a tree that has no page about itself: what an agent reads at `svc://schema` instead.
//!
//! Invariant: everything it says is counted in the index or true of every tree. It names tools, so the agent protocol checks in a
//! test that each of them exists.

use std::fmt::Write as _;
use std::time::Duration;

use svcfs_base::{Fault, Permissions, TreePath, escape_unprintable};
use svcfs_index::TopCounts;

use crate::kernel::Space;

/// Entries of each list.
const MAX_ENTRIES: usize = 40;
/// Characters of one name: a tag may be as long as a page.
const MAX_NAME: usize = 80;
/// How long to wait for the index; an older overview is better than none, and says so.
const INDEX_TIMEOUT: Duration = Duration::from_secs(2);

const HOW_TO_WRITE: &str = "\
## How to write

- Paths are relative, such as `notes/today.md`. Missing directories are created.
- A page is a markdown file (`.md`). It may begin with YAML frontmatter between two lines `---`. Use the fields and types of this tree.
- `svc_read` answers a page with its ETag. Give the ETag to `svc_write` as `if_match`; the write is refused when the page has changed since.
- `svc_append` adds text to the end of a page. `svc_rename` also changes the links that lead to the page.
- `[[name]]` links to another page by its path, file name, alias or title.
- `svc_lint` lists the problems of a page or a text before you write it.
";

/// Describes a tree, or the folder a caller is limited to, as markdown.
///
/// # Errors
/// Those of the index.
pub fn describe_tree(space: &Space, reach: &Permissions) -> Result<String, Fault> {
    let folder = reach.folder.clone().unwrap_or_else(TreePath::root);
    // Behind or not: the overview says what the index does not know yet.
    let _lag = space.index_within(INDEX_TIMEOUT);
    let outline = space.index.outline(&folder, MAX_ENTRIES)?;
    let (place, page) = match folder.is_root() {
        true => ("This tree".to_owned(), "SCHEMA.md".to_owned()),
        false => (format!("The folder `{folder}`"), format!("{folder}/SCHEMA.md")),
    };
    let mut text = format!(
        "# Overview\n\n{place} has no page `{page}`, so this overview was generated from what the search index knows. \
         Write that page to describe the conventions; it is then served here instead.\n\nPages: {}\n",
        outline.pages
    );
    if let Some(lag) = space.index_lag() {
        let _infallible = writeln!(text, "\nNote: {lag}.");
    }
    if outline.pages == 0 {
        text.push_str("\nThere are no pages yet. `svc_tree` lists every file.\n");
    }
    let lists = [
        ("Folders", "Pages below each folder", &outline.folders),
        ("Types", "Values of the frontmatter field `type`", &outline.types),
        ("Fields", "Frontmatter fields, each with the type of most of its values", &outline.fields),
        ("Tags", "Values of the frontmatter field `tags`", &outline.tags),
    ];
    for (title, about, counts) in lists {
        list(&mut text, (title, about), counts);
    }
    text.push('\n');
    text.push_str(HOW_TO_WRITE);
    Ok(text)
}

/// One section, with the number of pages of each entry; nothing when there are no entries.
fn list(text: &mut String, (title, about): (&str, &str), counts: &TopCounts) {
    if counts.top.is_empty() {
        return;
    }
    let _infallible = writeln!(text, "\n## {title}\n\n{about}, with the number of pages:\n");
    for (name, pages) in &counts.top {
        let _infallible = writeln!(text, "- {} ({pages})", short(name));
    }
    if counts.other_count > 0 {
        let _infallible = writeln!(text, "- and {} more", counts.other_count);
    }
}

/// A name on one line, cut when it is long.
fn short(name: &str) -> String {
    let mut cut: String = name.chars().take(MAX_NAME).collect();
    if cut.len() < name.len() {
        cut.push('…');
    }
    escape_unprintable(&cut)
}
