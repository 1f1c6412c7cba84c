//! A whole HTML document around a rendered page, without script.

use svcfs_render::escape_html;

use super::RenderedPage;

/// The style of published pages.
pub const STYLESHEET: &str = include_str!("page.css");

/// What a document says beside its page.
#[derive(Debug, Clone, Default)]
pub struct DocumentOptions {
    /// The address at which search engines should find the page.
    pub canonical: Option<String>,
    /// Address of the stylesheet.
    pub stylesheet: String,
    /// Whether search engines must not list it.
    pub is_unlisted: bool,
}

/// A document that can be served with a strict content security policy.
#[must_use]
pub fn page_document(page: &RenderedPage, options: &DocumentOptions) -> String {
    let title = escape_html(&page.title);
    let excerpt = escape_html(&page.excerpt);
    let mut head = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"{}\">\n<meta property=\"og:title\" content=\"{title}\">\n\
         <meta property=\"og:type\" content=\"article\">\n",
        escape_html(&options.stylesheet)
    );
    if !page.excerpt.is_empty() {
        head.push_str(&format!(
            "<meta name=\"description\" content=\"{excerpt}\">\n<meta property=\"og:description\" content=\"{excerpt}\">\n"
        ));
    }
    if let Some(canonical) = options.canonical.as_deref().map(escape_html) {
        head.push_str(&format!(
            "<link rel=\"canonical\" href=\"{canonical}\">\n<meta property=\"og:url\" content=\"{canonical}\">\n"
        ));
    }
    if options.is_unlisted {
        head.push_str("<meta name=\"robots\" content=\"noindex\">\n");
    }
    let has_title = page.toc.first().is_some_and(|heading| heading.level == 1 && heading.text == page.title);
    let heading = if has_title { String::new() } else { format!("<h1>{title}</h1>\n") };
    format!("{head}</head>\n<body>\n<main>\n{heading}{}{}</main>\n</body>\n</html>\n", toc(page), page.html)
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
