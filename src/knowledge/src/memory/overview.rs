//! A generated overview of a tree without a schema page: `svc://schema` serves it to agents.
//!
//! Invariant: every statement is counted in the index or true of every tree. A test of the MCP
//! server checks that the tools it names exist.

use std::fmt::Write as _;
use std::time::Duration;

use svcfs_base::{Fault, Permissions, TreePath, escape_unprintable};
use svcfs_index::TopCounts;

use crate::kernel::Space;

/// Limit of entries in each list.
const MAX_ENTRIES: usize = 40;
/// Limit of characters of a name: a tag may be as long as a page.
const MAX_NAME_CHARS: usize = 80;
/// How long to wait for the index; an older overview with a note is better than none.
const INDEX_TIMEOUT: Duration = Duration::from_secs(2);

const WRITING_GUIDE: &str = "\
## How to write

- Paths are relative, such as `notes/today.md`. Missing directories are created.
- A page is a markdown file (`.md`). It may begin with YAML frontmatter between two lines `---`. Use the fields and types of this tree.
- `svc_read` answers a page with its ETag. Give the ETag to `svc_write` as `if_match`; the write is refused when the page has changed since.
- `svc_append` adds text to the end of a page. `svc_rename` also changes the links that lead to the page.
- `[[name]]` links to another page by its path, file name, alias or title.
- `svc_lint` lists the problems of a page or a text before you write it.
";

/// Describes a tree, or the folder of the caller's key, as markdown.
pub fn describe_tree(space: &Space, permissions: &Permissions) -> Result<String, Fault> {
    let folder = permissions.folder.clone().unwrap_or_else(TreePath::root);
    // On timeout the overview has a note.
    let _lag = space.index_within(INDEX_TIMEOUT);
    let outline = space.index.outline(&folder, MAX_ENTRIES)?;
    let (subject, page) = match folder.is_root() {
        true => ("This tree".to_owned(), "SCHEMA.md".to_owned()),
        false => (format!("The folder `{folder}`"), format!("{folder}/SCHEMA.md")),
    };
    let mut text = format!(
        "# Overview\n\n{subject} has no page `{page}`, so this overview was generated from what the search index knows. \
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
    for (title, description, counts) in lists {
        write_section(&mut text, (title, description), counts);
    }
    text.push('\n');
    text.push_str(WRITING_GUIDE);
    Ok(text)
}

/// A section with the number of pages of each entry; nothing if there are no entries.
fn write_section(text: &mut String, (title, description): (&str, &str), counts: &TopCounts) {
    if counts.top.is_empty() {
        return;
    }
    let _infallible = writeln!(text, "\n## {title}\n\n{description}, with the number of pages:\n");
    for (name, pages) in &counts.top {
        let _infallible = writeln!(text, "- {} ({pages})", truncate(name));
    }
    if counts.other_count > 0 {
        let _infallible = writeln!(text, "- and {} more", counts.other_count);
    }
}

/// A name on one line, truncated if it is long.
fn truncate(name: &str) -> String {
    let mut truncated: String = name.chars().take(MAX_NAME_CHARS).collect();
    if truncated.len() < name.len() {
        truncated.push('…');
    }
    escape_unprintable(&truncated)
}
