//! What is served below `/p/`: pages, their files, the index, the feed and the site map.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use svcfs_base::{ETag, Fault, TreePath};
use svcfs_render::escape_html;

use super::addresses::{self, is_primary, prefix, public_path, relative};
use super::assets::store_files;
use super::cache::{PublishedDocument, SpaceState};
use super::document::{DocumentOptions, STYLESHEET, STYLESHEET_NAME, list_document, page_document};
use super::listed_pages::listed_pages;
use super::rendering::{PageSummary, QueryUse, is_hidden, render_published};
use super::{Audience, RenderedPage, feed, read_admitted, uses_asset};
use crate::files;
use crate::kernel::{OperationContext, Space};

/// Number of pages on one page of the index.
const PAGE_ENTRIES: usize = 50;

/// Limit of the site map format.
const MAX_SITE_MAP: usize = 50_000;

/// How long the result of a query is shown, which may depend on the time.
const QUERY_LIFETIME: Duration = Duration::from_secs(60);

/// What an address below `/p/` leads to.
pub enum PublishedResource {
    /// A document that svcfs made.
    Document(Arc<PublishedDocument>),
    /// A file that a published page uses.
    File(TreePath),
    /// A page with queries, which were not to be run.
    NeedsQueries,
}

/// Whether a document would be at an address if something is published there: else it is a file.
#[must_use]
pub fn is_document(address: &str) -> bool {
    matches!(address, "" | STYLESHEET_NAME | "feed.xml" | "sitemap.xml") || address.ends_with(".md")
}

/// What is at an address, relative to where the space begins; `number` is the requested page of
/// the index.
///
/// # Errors
/// `NotFound` alike for everything that is not published; `Invalid` for no path.
pub fn published_resource(
    cx: &OperationContext<'_>,
    (address, number): (&str, usize),
    query_use: QueryUse,
) -> Result<PublishedResource, Fault> {
    let state = SpaceState::of(cx.space);
    let (mut expires_at, mut is_complete) = (None, true);
    // Which other spaces there are is not public.
    if is_document(address) && !is_primary(cx, cx.space) && !has_published_pages(cx, cx.space)? {
        return Err(Fault::not_found("file not found"));
    }
    let (mime, body, page) = match address {
        "" => ("text/html; charset=utf-8", index_page(cx, number)?, None),
        STYLESHEET_NAME => ("text/css; charset=utf-8", STYLESHEET.to_owned(), None),
        "feed.xml" => ("application/atom+xml; charset=utf-8", feed::atom(cx)?, None),
        "sitemap.xml" => ("application/xml; charset=utf-8", space_map(cx)?, None),
        _ => {
            // A second address of a page, below which its relative links would be wrong.
            if address.split('/').any(|name| matches!(name, "" | ".")) {
                return Err(Fault::not_found(format!("file not found: {}", address.escape_default())));
            }
            let path = cx.space.parse_path(address)?;
            if !path.is_page() {
                return file(cx, path);
            }
            let Some((html, rendered)) = page_html(cx, &path, query_use)? else {
                return Ok(PublishedResource::NeedsQueries);
            };
            expires_at = rendered.has_queries.then(|| Instant::now() + QUERY_LIFETIME);
            is_complete = rendered.is_complete;
            store_files(cx, &path, state, rendered);
            ("text/html; charset=utf-8", html, Some(path))
        }
    };
    let etag = ETag::from_content(body.as_bytes());
    let document = PublishedDocument { mime: mime.to_owned(), body: Bytes::from(body), etag, page };
    let is_older = address.is_empty() && number > 1;
    let document = if is_older || !is_complete {
        Arc::new(document)
    } else {
        cx.space.publishing.store(address, (state, expires_at), document)
    };
    Ok(PublishedResource::Document(document))
}

fn file(cx: &OperationContext<'_>, path: TreePath) -> Result<PublishedResource, Fault> {
    if is_hidden(cx.space, &path) || !uses_asset(cx, &path)? {
        return Err(Fault::file_not_found(&path));
    }
    Ok(PublishedResource::File(path))
}

/// The way from an address up to the index of its space.
fn way_up(address: &str) -> String {
    let depth = address.matches('/').count();
    if depth == 0 { "./".to_owned() } else { "../".repeat(depth) }
}

fn options(cx: &OperationContext<'_>, address: &str, canonical: &str) -> DocumentOptions {
    let is_primary = is_primary(cx, cx.space);
    let index = way_up(address);
    DocumentOptions {
        canonical: cx.public_url().map(|site| format!("{}{canonical}", site.as_str())),
        stylesheet: format!("{index}{}{STYLESHEET_NAME}", if is_primary { "" } else { "../" }),
        index: Some(index),
        ..DocumentOptions::default()
    }
}

/// The page of a browser that gets no document at an address below `/p/`, in percent-encoding.
#[must_use]
pub fn failure_page(address: &str, title: &str, message: &str) -> String {
    let index = way_up(address);
    let stylesheet = format!("{index}{STYLESHEET_NAME}");
    let text = format!("<p>{}</p>\n<p><a href=\"{index}\">All pages</a></p>\n", escape_html(message));
    list_document(title, &text, &DocumentOptions { stylesheet, is_unlisted: true, ..DocumentOptions::default() })
}

/// The page of a browser that gets nothing at the `path` of a share. It leads to no other page.
#[must_use]
pub fn share_failure_page(path: &str, title: &str, message: &str) -> String {
    let stylesheet = format!("{}p/{STYLESHEET_NAME}", way_up(path.trim_start_matches('/')));
    let text = format!("<p>{}</p>\n", escape_html(message));
    list_document(title, &text, &DocumentOptions { stylesheet, is_unlisted: true, ..DocumentOptions::default() })
}

/// The document of a page; `None` for a page with queries that were not to be run.
fn page_html(
    cx: &OperationContext<'_>,
    path: &TreePath,
    query_use: QueryUse,
) -> Result<Option<(String, RenderedPage)>, Fault> {
    let file = read_admitted(cx, path, Audience::Published)?;
    let page = render_published(cx, path, &file, query_use);
    if page.has_queries && query_use == QueryUse::Skip {
        return Ok(None);
    }
    let frontmatter = files::frontmatter(&file.content);
    let options = DocumentOptions {
        published_at: frontmatter.get("published_at").and_then(|time| time.as_str()).map(str::to_owned),
        modified_at: Some(files::to_timestamp(file.attributes.modified).to_string()),
        ..options(cx, path.as_str(), &public_path(cx, path))
    };
    Ok(Some((page_document(&page, &options), page)))
}

/// The published pages, the latest first.
fn index_page(cx: &OperationContext<'_>, number: usize) -> Result<String, Fault> {
    let listed = listed_pages(cx)?;
    let published = listed.published();
    let last = published.len().div_ceil(PAGE_ENTRIES).max(1);
    if number == 0 || number > last {
        return Err(Fault::not_found(format!("the index has {last} pages; there is no page {number}")));
    }
    let mut list = String::new();
    for (path, page) in published.iter().skip((number - 1) * PAGE_ENTRIES).take(PAGE_ENTRIES) {
        let address = escape_html(&relative(&TreePath::root(), path, None));
        let day = page.published_at.as_deref().and_then(|time| time.get(..10)).map(escape_html);
        let day = day.map(|day| format!(" <time datetime=\"{day}\">{day}</time>")).unwrap_or_default();
        let Some(PageSummary { title, excerpt, .. }) = PageSummary::read(cx, path) else { continue };
        let (title, excerpt) = (escape_html(&title), escape_html(&excerpt));
        let excerpt = if excerpt.is_empty() { excerpt } else { format!("<p>{excerpt}</p>") };
        list.push_str(&format!("<li><a href=\"{address}\">{title}</a>{day}{excerpt}</li>\n"));
    }
    let list = if list.is_empty() {
        "<p>Nothing is published yet.</p>\n".to_owned()
    } else {
        format!("<ul class=\"pages\">\n{list}</ul>\n")
    };
    let link = |number: usize, label: &str| {
        (1..=last).contains(&number).then(|| format!("<a href=\"./?page={number}\">{label}</a>"))
    };
    let links: Vec<String> =
        link(number - 1, "Newer pages").into_iter().chain(link(number + 1, "Older pages")).collect();
    let pager = if links.is_empty() {
        String::new()
    } else {
        format!("<nav class=\"pager\" aria-label=\"Index\">{}</nav>\n", links.join(" · "))
    };
    let title = if is_primary(cx, cx.space) { "Published pages" } else { &cx.space.name };
    let options = options(cx, "", &format!("{}/", prefix(cx, cx.space)));
    Ok(list_document(title, &format!("{list}{pager}"), &options))
}

/// The address of the server, which site maps need.
fn site<'a>(cx: &OperationContext<'a>) -> Result<&'a str, Fault> {
    let missing = || Fault::not_found("a site map needs the address of the server; set `server.public_url`");
    cx.public_url().map(|site| site.as_str()).ok_or_else(missing)
}

fn map(kind: &str, item: &str, addresses: impl Iterator<Item = String>) -> String {
    let items: String =
        addresses.map(|address| format!("<{item}><loc>{}</loc></{item}>\n", escape_html(&address))).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <{kind} xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n{items}</{kind}>\n"
    )
}

/// The site map of a space.
fn space_map(cx: &OperationContext<'_>) -> Result<String, Fault> {
    let site = site(cx)?;
    let listed = listed_pages(cx)?;
    let published = listed.published();
    let pages = published.iter().take(MAX_SITE_MAP).map(|(path, _)| format!("{site}{}", public_path(cx, path)));
    Ok(map("urlset", "url", pages))
}

/// The site map of the server: those of its spaces with published pages.
///
/// # Errors
/// `NotFound` without `server.public_url`; those of the index.
pub fn site_map(cx: &OperationContext<'_>) -> Result<String, Fault> {
    let site = site(cx)?;
    let mut maps = Vec::new();
    for space in cx.spaces().list_open() {
        if has_published_pages(cx, &space)? {
            maps.push(format!("{site}{}/sitemap.xml", addresses::prefix(cx, &space)));
        }
    }
    Ok(map("sitemapindex", "sitemap", maps.into_iter()))
}

fn has_published_pages(cx: &OperationContext<'_>, space: &Space) -> Result<bool, Fault> {
    let listed = listed_pages(&cx.in_space(space))?;
    Ok(listed.pages.values().any(|page| page.is_published))
}

/// `robots.txt`: only published pages are for search engines.
pub fn robots(cx: &OperationContext<'_>) -> String {
    let map = cx.public_url().map(|site| format!("Sitemap: {}/sitemap.xml\n", site.as_str())).unwrap_or_default();
    format!("User-agent: *\nAllow: /p/\nDisallow: /\n{map}")
}
