//! The readable text of a fetched document.

use std::thread;

use dom_smoothie::{Config, Readability, TextMode};
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use svcfs_base::{Fault, Kind};
use svcfs_net::FetchedDocument;
use svcfs_text::frontmatter;

/// Limit of tags in a document: the time for deeply nested ones grows with the square.
const MAX_TAGS: usize = 100_000;

/// Limit of the levels of nesting.
const MAX_DEPTH: usize = 1_000;

/// Stack of the thread that extracts the text; the libraries follow the nesting by recursion.
const STACK_BYTES: usize = 256 << 20;

/// Where the character set is looked for in a document.
const META_BYTES: usize = 2_048;

/// Limit of the characters of an excerpt.
const MAX_EXCERPT_CHARS: usize = 200;

/// What becomes a page.
#[derive(Debug)]
pub(super) struct Article {
    pub title: Option<String>,
    pub author: Option<String>,
    pub markdown: String,
    pub excerpt: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentFormat {
    Html,
    Markdown,
    Plain,
}

/// The article in a document.
///
/// # Errors
/// `UnsupportedType` for a format without text; `TooLarge` for HTML with too many tags;
/// `FetchFailed` if there is no readable text.
pub(super) fn read(document: FetchedDocument) -> Result<Article, Fault> {
    let format = format(&document)?;
    let text = decode(&document, format);
    match format {
        DocumentFormat::Html => read_html(text, document.url),
        DocumentFormat::Markdown => {
            // The frontmatter of a stranger could publish the page, or protect it.
            let title = frontmatter::parse(&text).map.get("title").and_then(|title| title.as_str()).map(str::to_owned);
            let markdown = frontmatter::split(&text).body.to_owned();
            let heading = || markdown.lines().find_map(|line| line.strip_prefix("# ")).map(str::to_owned);
            Ok(Article { title: title.or_else(heading), author: None, excerpt: excerpt(&markdown), markdown })
        }
        DocumentFormat::Plain => {
            let title = text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
            Ok(Article { title, author: None, excerpt: excerpt(&text), markdown: text })
        }
    }
}

fn format(document: &FetchedDocument) -> Result<DocumentFormat, Fault> {
    let declared = document.content_type.as_deref().unwrap_or_default();
    let media_type = declared.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let path = document.url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    match media_type.as_str() {
        "text/html" | "application/xhtml+xml" => Ok(DocumentFormat::Html),
        "text/markdown" | "text/x-markdown" => Ok(DocumentFormat::Markdown),
        "text/plain" if path.ends_with(".md") || path.ends_with(".markdown") => Ok(DocumentFormat::Markdown),
        "text/plain" => Ok(DocumentFormat::Plain),
        "" if document.body.trim_ascii_start().starts_with(b"<") => Ok(DocumentFormat::Html),
        "" if !document.body.contains(&0) && !document.body.starts_with(b"%PDF") => Ok(DocumentFormat::Plain),
        _ => {
            let name = match media_type.as_str() {
                "application/pdf" => "a PDF document".to_owned(),
                "" => "of an unknown format".to_owned(),
                other => format!("of type `{}`", svcfs_base::escape_unprintable(other)),
            };
            let message = format!("url: the document is {name}; only HTML, markdown and plain text can be clipped");
            Err(Fault::new(Kind::UnsupportedType, message))
        }
    }
}

/// The text in the character set of the header, of the document, or the one it probably has.
fn decode(document: &FetchedDocument, format: DocumentFormat) -> String {
    let body = &document.body;
    let label = document.content_type.as_deref().and_then(charset);
    let declared = || {
        let start = String::from_utf8_lossy(&body[..body.len().min(META_BYTES)]);
        charset(&start).filter(|_| format == DocumentFormat::Html).map(str::to_owned)
    };
    let label = label.map(str::to_owned).or_else(declared);
    let probable = if std::str::from_utf8(body).is_ok() { UTF_8 } else { WINDOWS_1252 };
    let encoding = label.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(probable);
    encoding.decode(body).0.into_owned()
}

/// The value after `charset=`.
fn charset(text: &str) -> Option<&str> {
    let at = text.to_ascii_lowercase().find("charset=")? + "charset=".len();
    let value = text.get(at..)?.trim_start_matches(['"', '\'', ' ']);
    let end = value.find(|character: char| !character.is_ascii_alphanumeric() && !"-_:".contains(character));
    Some(&value[..end.unwrap_or(value.len())]).filter(|value| !value.is_empty())
}

fn read_html(html: String, url: String) -> Result<Article, Fault> {
    let bytes = html.as_bytes();
    let tags = bytes.windows(2).filter(|pair| pair[0] == b'<' && pair[1].is_ascii_alphabetic()).count();
    if tags > MAX_TAGS {
        let message = format!("url: the document has {tags} tags; the limit is {MAX_TAGS}");
        return Err(Fault::new(Kind::TooLarge, message));
    }
    let thread = thread::Builder::new().name("clip".to_owned()).stack_size(STACK_BYTES);
    let reading = thread.spawn(move || extract(html, &url)).map_err(Fault::internal)?;
    // A panic of a library on an unusual document is an error of this document.
    let article = reading.join().unwrap_or_else(|_| Err("it cannot be parsed".to_owned()));
    article.map_err(|reason| Fault::new(Kind::FetchFailed, format!("url: the document has no readable text: {reason}")))
}

fn extract(html: String, url: &str) -> Result<Article, String> {
    let document = dom_query::Document::from(html);
    if document.root().descendants_it().any(|node| node.ancestors_it(Some(MAX_DEPTH)).count() >= MAX_DEPTH) {
        return Err(format!("it is nested more than {MAX_DEPTH} levels deep"));
    }
    let config = Config { text_mode: TextMode::Markdown, keep_classes: true, ..Config::default() };
    let mut reader =
        Readability::with_document(document, Some(url), Some(config)).map_err(|error| error.to_string())?;
    let article = reader.parse().map_err(|error| error.to_string())?;
    let markdown = article.text_content.to_string();
    if markdown.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    let summary = article.excerpt.map(|text| excerpt(&text)).filter(|text| !text.is_empty());
    Ok(Article {
        title: Some(article.title),
        author: article.byline.map(|author| super::one_line(&author)).filter(|author| !author.is_empty()),
        excerpt: summary.unwrap_or_else(|| excerpt(&markdown)),
        markdown,
    })
}

/// The beginning of a text.
fn excerpt(text: &str) -> String {
    let words = text.split_whitespace().take(MAX_EXCERPT_CHARS).collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(MAX_EXCERPT_CHARS) {
        Some((end, _)) => format!("{}...", words[..end].trim_end()),
        None => words,
    }
}
