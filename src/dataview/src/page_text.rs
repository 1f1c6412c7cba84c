//! Reads a page from its text.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::{Map, Value as Json};
use svcfs_text::links::LinkKind;
use svcfs_text::metadata::{self, BodyMetadata};

use crate::page::{ListItem, Page};
use crate::value::{Link, LinkTarget};

/// The text of a page and what is known of its file.
#[derive(Debug)]
pub struct PageText<'t> {
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
    /// The tags of the frontmatter.
    pub tags: Vec<String>,
    /// The aliases of the frontmatter.
    pub aliases: Vec<String>,
    /// The text after the frontmatter; empty when only the frontmatter is needed.
    pub body: &'t str,
    /// The line on which the body starts, from 1.
    pub first_body_line: usize,
}

impl Page {
    /// Reads a page. `resolve` gives the path of the file that a link means.
    pub fn read(page: PageText<'_>, resolve: &mut dyn FnMut(&str, LinkKind) -> Option<String>) -> Self {
        let PageText { path, size, created, modified, frontmatter, mut tags, aliases, body, first_body_line } = page;
        let scanned = metadata::scan_body(body, first_body_line);
        let mut links: Vec<Link> = Vec::new();
        frontmatter.values().for_each(|value| frontmatter_links(value, &mut links));
        let mut link_paths = HashMap::new();
        for link in &mut links {
            if let Some(path) = resolve(&link.path, LinkKind::Wiki) {
                link_paths.insert(std::mem::replace(&mut link.path, path.clone()), path);
            }
        }
        let body_links: Vec<Link> = scanned
            .links
            .iter()
            .map(|link| link_of(link, resolve(&link.target, link.kind).unwrap_or_else(|| link.target.clone())))
            .collect();
        // Of the links in the text, fields have only wiki links.
        let written = scanned.links.iter().zip(&body_links).filter(|(link, _)| link.kind.is_wiki());
        link_paths.extend(written.map(|(link, resolved)| (link.target.clone(), resolved.path.clone())));
        let items = items(body, &scanned, &body_links);
        links.extend(body_links);
        let mut seen: HashSet<String> = tags.iter().cloned().collect();
        tags.extend(scanned.metadata.tags.iter().map(|tag| tag.name.clone()).filter(|tag| seen.insert(tag.clone())));
        let is_task = |item: usize| scanned.metadata.items.get(item).is_some_and(metadata::ListItem::is_task);
        // Fields of tasks belong to the task only.
        let fields = scanned.metadata.fields.iter().filter(|field| !field.item.is_some_and(is_task));
        let inline_fields = fields.map(|field| (field.key.clone(), field.text.clone())).collect();
        Self {
            path,
            size,
            created,
            modified,
            frontmatter,
            inline_fields,
            tags,
            aliases,
            items,
            links,
            link_paths,
            ..Self::default()
        }
    }
}

/// The texts in frontmatter that are links, as written.
pub fn frontmatter_links(value: &Json, links: &mut Vec<Link>) {
    match value {
        Json::String(text) => links.extend(Link::parse(text)),
        Json::Array(items) => items.iter().for_each(|item| frontmatter_links(item, links)),
        Json::Object(members) => members.values().for_each(|item| frontmatter_links(item, links)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn link_of(link: &svcfs_text::Link, path: String) -> Link {
    let target = match link.heading.as_deref() {
        None | Some("") => LinkTarget::File,
        Some(part) => match part.strip_prefix('^') {
            Some(block) => LinkTarget::Block(block.to_owned()),
            None => LinkTarget::Header(part.to_owned()),
        },
    };
    let is_embed = matches!(link.kind, LinkKind::Embed | LinkKind::Image);
    Link { path, display: link.label.clone(), is_embed, target }
}

fn items(body: &str, scanned: &BodyMetadata, links: &[Link]) -> Vec<ListItem> {
    let metadata = &scanned.metadata;
    let item = |item: &metadata::ListItem| {
        let id = item.block_id.as_ref().map(|id| format!(" ^{id}")).unwrap_or_default();
        let emoji = item.emoji_fields.iter().map(|(key, text)| ((*key).to_owned(), text.clone()));
        let fields = item.fields.iter().filter_map(|index| metadata.fields.get(*index));
        let content = body.get(item.content.clone()).unwrap_or_default().trim_end();
        ListItem {
            text: format!("{}{id}", item.markdown(body)),
            line: item.line.saturating_sub(1),
            line_count: content.lines().count().max(1),
            status: item.status,
            parent: item.parent,
            section: item.section.and_then(|index| scanned.headings.get(index)).map(|heading| heading.text.clone()),
            block_id: item.block_id.clone(),
            fields: fields.map(|field| (field.key.clone(), field.text.clone())).chain(emoji).collect(),
            tags: item.tags.iter().filter_map(|index| metadata.tags.get(*index)).map(|tag| tag.name.clone()).collect(),
            links: item.links.iter().filter_map(|index| links.get(*index)).cloned().collect(),
        }
    };
    metadata.items.iter().map(item).collect()
}
