//! HTML documents around rendered content. Without script: a block of JSON-LD is data.

use serde_json::{Value, json};
use svcfs_render::escape_html;

use super::RenderedPage;

/// The style of published pages.
pub const STYLESHEET: &str = include_str!("page.css");

/// Name of the stylesheet below `/p/`. No page has it: pages end in `.md`.
pub const STYLESHEET_NAME: &str = "@style.css";

/// What a document says beside its page.
#[derive(Debug, Clone, Default)]
pub struct DocumentOptions {
    /// The address at which search engines should find the page.
    pub canonical: Option<String>,
    /// Address of the stylesheet.
    pub stylesheet: String,
    /// Address of the index of published pages.
    pub index: Option<String>,
    /// Time of its first publication.
    pub published_at: Option<String>,
    /// Time of its last change.
    pub modified_at: Option<String>,
    /// Whether search engines must not list it.
    pub is_unlisted: bool,
}

/// A document that can be served with a strict content security policy.
#[must_use]
pub fn page_document(page: &RenderedPage, options: &DocumentOptions) -> String {
    let has_title = page.toc.first().is_some_and(|heading| heading.level == 1 && heading.text == page.title);
    // The table of contents follows the title.
    let own_title = if has_title && page.html.starts_with("<h1") { page.html.find("</h1>") } else { None };
    let (heading, rest) = match own_title {
        Some(at) => (page.html[..at + "</h1>".len()].to_owned(), &page.html[at + "</h1>".len()..]),
        None if has_title => (String::new(), page.html.as_str()),
        None => (format!("<h1>{}</h1>\n", escape_html(&page.title)), page.html.as_str()),
    };
    let head = head((&page.title, &page.excerpt), "article", options);
    let linked_data = if options.is_unlisted { String::new() } else { linked_data(page, options) };
    let footer = footer(options);
    format!(
        "{head}{linked_data}</head>\n<body>\n<main>\n{heading}{}{rest}</main>\n{footer}</body>\n</html>\n",
        toc(page)
    )
}

/// A document with a list of pages.
pub(super) fn list_document(title: &str, list: &str, options: &DocumentOptions) -> String {
    let head = head((title, ""), "website", options);
    let title = escape_html(title);
    format!("{head}</head>\n<body>\n<main>\n<h1>{title}</h1>\n{list}</main>\n</body>\n</html>\n")
}

fn head((title, description): (&str, &str), kind: &str, options: &DocumentOptions) -> String {
    let (title, description) = (escape_html(title), escape_html(description));
    let mut head = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"{}\">\n<meta property=\"og:title\" content=\"{title}\">\n\
         <meta property=\"og:type\" content=\"{kind}\">\n",
        escape_html(&options.stylesheet)
    );
    if !description.is_empty() {
        head.push_str(&format!(
            "<meta name=\"description\" content=\"{description}\">\n\
             <meta property=\"og:description\" content=\"{description}\">\n"
        ));
    }
    if let Some(canonical) = options.canonical.as_deref().map(escape_html) {
        head.push_str(&format!(
            "<link rel=\"canonical\" href=\"{canonical}\">\n<meta property=\"og:url\" content=\"{canonical}\">\n"
        ));
    }
    if let Some(index) = options.index.as_deref().map(escape_html) {
        head.push_str(&format!("<link rel=\"alternate\" type=\"application/atom+xml\" href=\"{index}feed.xml\">\n"));
    }
    if options.is_unlisted {
        head.push_str("<meta name=\"robots\" content=\"noindex\">\n");
    }
    head
}

/// The page for search engines, as JSON-LD.
fn linked_data(page: &RenderedPage, options: &DocumentOptions) -> String {
    let mut article = json!({ "@context": "https://schema.org", "@type": "Article", "headline": page.title });
    let fields = [
        ("description", Some(&page.excerpt).filter(|excerpt| !excerpt.is_empty())),
        ("url", options.canonical.as_ref()),
        ("datePublished", options.published_at.as_ref()),
        ("dateModified", options.modified_at.as_ref()),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            article[name] = Value::String(value.clone());
        }
    }
    // `<` would be read as HTML: `</script>` ends the block, `<!--` changes how it ends.
    let json = article.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    format!("<script type=\"application/ld+json\">{json}</script>\n")
}

fn footer(options: &DocumentOptions) -> String {
    let published = options.published_at.as_deref().and_then(|time| time.get(..10)).map(escape_html);
    let published = published.map(|day| format!("Published <time datetime=\"{day}\">{day}</time>"));
    let separator = if published.is_some() { " · " } else { "" };
    let index = options.index.as_deref().map(escape_html);
    // Without a separator on paper, where the link is left out.
    let index =
        index.map(|index| format!("<span class=\"to-index\">{separator}<a href=\"{index}\">All pages</a></span>"));
    let parts: String = published.into_iter().chain(index).collect();
    if parts.is_empty() { parts } else { format!("<footer>{parts}</footer>\n") }
}

/// The table of contents of a page with several headings.
fn toc(page: &RenderedPage) -> String {
    let entries: Vec<_> = page.toc.iter().filter(|heading| matches!(heading.level, 2 | 3)).collect();
    if entries.len() < 3 {
        return String::new();
    }
    let entry = |heading: &&svcfs_text::Heading| {
        let (slug, text) = (escape_html(&heading.slug), escape_html(&heading.text));
        format!("<li class=\"toc-{}\"><a href=\"#{slug}\">{text}</a></li>\n", heading.level)
    };
    let list: String = entries.iter().map(entry).collect();
    format!("<nav class=\"toc\" aria-label=\"Contents\">\n<ul>\n{list}</ul>\n</nav>\n")
}
