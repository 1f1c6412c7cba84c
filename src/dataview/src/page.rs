//! Pages as a query sees them, and the vault that gives them.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value as Json};

use crate::field_value::{self, FieldContext, PageFields};
use crate::value::Link;

/// A page with everything that a query can read without following links.
#[derive(Debug, Default)]
pub struct Page {
    /// Path with extension.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Time of creation.
    pub created: Timestamp,
    /// Time of the last change.
    pub modified: Timestamp,
    /// The frontmatter as written.
    pub frontmatter: Map<String, Json>,
    /// Inline fields in page order: key as written, and the text of the value.
    pub inline_fields: Vec<(String, String)>,
    /// Tags as written, without `#`, of frontmatter and text.
    pub tags: Vec<String>,
    /// Aliases.
    pub aliases: Vec<String>,
    /// List items, tasks included, in page order.
    pub items: Vec<ListItem>,
    /// Its links in page order: paths of files, or as written when they mean none.
    pub links: Vec<Link>,
    /// The paths that the links in its fields mean, by their text.
    pub link_paths: HashMap<String, String>,
    /// Whether it is bookmarked.
    pub is_starred: bool,
    /// Typed fields, computed when the first is read.
    pub(crate) fields: OnceLock<PageFields>,
}

/// A list item of a page.
#[derive(Debug, Clone, Default)]
pub struct ListItem {
    /// Its text, inline fields included.
    pub text: String,
    /// Its first line, from 0.
    pub line: usize,
    /// Number of lines.
    pub line_count: usize,
    /// The character in brackets; `None` when it is no task.
    pub status: Option<char>,
    /// The index of its parent.
    pub parent: Option<usize>,
    /// The heading above it.
    pub section: Option<String>,
    /// Block id after `^`.
    pub block_id: Option<String>,
    /// Inline fields and dates of emoji: key as written, and the text of the value.
    pub fields: Vec<(String, String)>,
    /// Tags, without `#`.
    pub tags: Vec<String>,
    /// Its links, as [`Page::links`].
    pub links: Vec<Link>,
}

impl Page {
    /// The name without folders and extension.
    #[must_use]
    pub fn name(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or(name, |(stem, _)| stem)
    }

    /// The folder; empty for pages at the top.
    #[must_use]
    pub fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    pub(crate) fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    pub(crate) fn link(&self) -> Link {
        Link::to_page(self.path.clone())
    }

    pub(crate) fn typed_fields(&self, zone: &TimeZone) -> &PageFields {
        self.fields.get_or_init(|| field_value::page_fields(self, self.field_context(zone)))
    }

    pub(crate) const fn field_context<'a>(&'a self, zone: &'a TimeZone) -> FieldContext<'a> {
        FieldContext { zone, link_paths: &self.link_paths }
    }

    /// The tags with `#`, without duplicates; with `is_split` also those above them
    /// (`#a` for `#a/b`).
    pub(crate) fn tag_list(&self, is_split: bool) -> Vec<String> {
        let mut tags: Vec<String> = Vec::new();
        for tag in &self.tags {
            let tag = tag.trim_start_matches('#');
            let ends = tag.match_indices('/').map(|(at, _)| at).filter(|_| is_split).chain([tag.len()]);
            for end in ends.filter(|end| *end > 0) {
                let name = format!("#{}", &tag[..end]);
                if !tags.contains(&name) {
                    tags.push(name);
                }
            }
        }
        tags
    }
}

/// An error of the vault.
pub type VaultError = Box<dyn Error + Send + Sync>;

/// The pages that queries run over.
pub trait Vault {
    /// The current time.
    fn now(&self) -> Timestamp;
    /// The zone of dates without one.
    fn time_zone(&self) -> TimeZone;
    /// All pages in path order.
    ///
    /// # Errors
    /// When pages cannot be read.
    fn pages(&self) -> Result<Vec<Arc<Page>>, VaultError>;
    /// The page at a path.
    ///
    /// # Errors
    /// When it cannot be read.
    fn page(&self, path: &str) -> Result<Option<Arc<Page>>, VaultError>;
    /// The path that a link in the page `from` means; files that are no pages included.
    ///
    /// # Errors
    /// When names cannot be read.
    fn resolve(&self, target: &str, from: &str) -> Result<Option<String>, VaultError>;
    /// The paths of the pages that link to a page.
    ///
    /// # Errors
    /// When links cannot be read.
    fn inlinks(&self, path: &str) -> Result<Vec<String>, VaultError>;
}
