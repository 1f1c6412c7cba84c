//! `/p/feed.xml`: the latest published pages as Atom.

use atom_syndication as atom;
use percent_encoding::utf8_percent_encode;
use svcfs_base::{Fault, Timestamp};

use super::addresses::{prefix, public_path};
use super::listed_pages::listed_pages;
use super::rendering::PageSummary;
use crate::activity::{strip_invalid_xml, to_atom_time};
use crate::files::SEGMENT;
use crate::kernel::OperationContext;

/// Number of entries.
const MAX_ENTRIES: usize = 50;

/// The document.
///
/// # Errors
/// Those of the index.
pub(super) fn atom(cx: &OperationContext<'_>) -> Result<String, Fault> {
    let listed = listed_pages(cx)?;
    let site = cx.public_url().map_or("", |site| site.as_str());
    let link = |rel: &str, href: String| atom::Link { rel: rel.to_owned(), href, ..atom::Link::default() };
    let urn = format!("urn:svc:{}:published", utf8_percent_encode(&cx.space.name, SEGMENT));
    let (mut entries, mut newest) = (Vec::new(), Timestamp::UNIX_EPOCH);
    for (path, page) in listed.published().into_iter().take(MAX_ENTRIES) {
        let Some(PageSummary { title, excerpt, modified }) = PageSummary::read(cx, path) else { continue };
        newest = newest.max(modified);
        let published = page.published_at.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
        entries.push(atom::Entry {
            id: format!("{urn}:{}", utf8_percent_encode(path.as_str(), SEGMENT)),
            title: strip_invalid_xml(&title).into(),
            updated: to_atom_time(modified)?,
            published: published.map(to_atom_time).transpose()?,
            summary: Some(strip_invalid_xml(&excerpt).into()),
            links: vec![link("alternate", format!("{site}{}", public_path(cx, path)))],
            ..atom::Entry::default()
        });
    }
    let index = format!("{site}{}/", prefix(cx, cx.space));
    let author = atom::Person { name: strip_invalid_xml(&cx.space.name), ..atom::Person::default() };
    let document = atom::Feed {
        id: urn,
        title: format!("Published pages of {}", strip_invalid_xml(&cx.space.name)).into(),
        updated: to_atom_time(newest)?,
        authors: vec![author],
        links: vec![link("self", format!("{index}feed.xml")), link("alternate", index)],
        entries,
        ..atom::Feed::default()
    };
    Ok(document.to_string())
}
