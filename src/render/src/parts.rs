//! The parts of a sanitised page, and what is filled in for a reader.

use crate::escape::{escape_html, unescape_attribute};

/// Limit of the output, which embeds could multiply.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// A link to a page or file of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLink {
    /// The target as written, percent-decoded, without heading.
    pub target: String,
    /// The heading after `#`.
    pub heading: Option<String>,
    /// The label, if any.
    pub label: Option<String>,
    /// Whether it is written `[[…]]` and resolved by name.
    pub is_wiki: bool,
}

impl PageLink {
    /// The text that a reader sees.
    #[must_use]
    pub fn display_text(&self) -> String {
        match (&self.label, &self.heading) {
            (Some(label), _) => label.clone(),
            (None, Some(heading)) => format!("{} > {heading}", self.target),
            (None, None) => self.target.clone(),
        }
    }
}

/// A query block of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryBlock {
    /// `dataview` or `dql`.
    pub language: String,
    /// The word after the language, such as `list`: the form of the result.
    pub style: Option<String>,
    /// The query.
    pub text: String,
}

/// What depends on the reader.
pub trait PageFiller {
    /// The address of a link, or `None` if the reader may not follow it: then it is plain text.
    fn link(&mut self, link: &PageLink) -> Option<String>;
    /// The address of an image of the tree, or `None` if the reader may not see it.
    fn image(&mut self, link: &PageLink) -> Option<String>;
    /// Whether images of other servers are loaded.
    fn shows_external_images(&self) -> bool;
    /// The HTML of an embedded page, or `None` if it is not shown.
    fn embed(&mut self, link: &PageLink) -> Option<String>;
    /// The HTML of the result of a query.
    fn query(&mut self, query: &QueryBlock) -> String;
}

/// What belongs to a number in the HTML.
#[derive(Debug, Clone)]
pub(crate) enum Slot {
    Link(PageLink),
    Embed(PageLink),
    Query(QueryBlock),
    /// Sanitised MathML.
    Formula(String),
}

/// A piece of sanitised HTML.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Html(String),
    Id(String),
    /// `href="#…"`
    LocalLink(String),
    /// A start tag of a link to the tree, with its other attributes.
    LinkStart(LinkTarget, String),
    /// The start tag of another link.
    OtherLinkStart,
    LinkEnd,
    Image {
        source: String,
        alt: String,
        rest: String,
    },
    Slot(usize),
}

#[derive(Debug, Clone)]
pub(crate) enum LinkTarget {
    Slot(usize),
    Url(PageLink),
}

/// Splits the output of the sanitiser.
pub(crate) fn split(html: &str) -> Vec<Part> {
    let mut splitter = Splitter::default();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        splitter.text.push_str(&rest[..at]);
        let length = tag_length(&rest[at..]);
        splitter.tag(&rest[at..at + length]);
        rest = &rest[at + length..];
    }
    splitter.text.push_str(rest);
    splitter.flush();
    splitter.parts
}

/// The length of the tag at the start; `>` within quotes does not end it.
fn tag_length(html: &str) -> usize {
    let mut is_quoted = false;
    for (at, byte) in html.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'>' if !is_quoted => return at + 1,
            _ => {}
        }
    }
    html.len()
}

#[derive(Default)]
struct Splitter {
    parts: Vec<Part>,
    text: String,
}

impl Splitter {
    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.parts.push(Part::Html(std::mem::take(&mut self.text)));
        }
    }

    fn push(&mut self, part: Part) {
        self.flush();
        self.parts.push(part);
    }

    fn tag(&mut self, tag: &str) {
        let inner = tag.trim_start_matches('<').trim_end_matches('>');
        let (name, attributes) = inner.split_once(' ').unwrap_or((inner, ""));
        let attributes = attributes_of(attributes);
        let value = |name: &str| attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        match name {
            "/a" => self.push(Part::LinkEnd),
            "a" => self.link(&attributes),
            "img" => {
                let source = unescape_attribute(value("src").unwrap_or_default());
                let alt = value("alt").unwrap_or_default().to_owned();
                self.push(Part::Image { source, alt, rest: written(&attributes, &["src", "alt"]) });
            }
            "span" | "div" if value("data-slot").is_some() => {
                self.start(name, &attributes, &["data-slot"], None);
                if let Some(number) = value("data-slot").and_then(|number| number.parse().ok()) {
                    self.push(Part::Slot(number));
                }
            }
            _ if value("id").is_some() => self.start(name, &attributes, &[], None),
            _ => self.text.push_str(tag),
        }
    }

    /// A start tag whose id, and anchor if it is a link within the page, get the prefix of the
    /// reader.
    fn start(&mut self, name: &str, attributes: &[(&str, &str)], without: &[&str], anchor: Option<&str>) {
        self.text.push('<');
        self.text.push_str(name);
        if let Some((_, id)) = attributes.iter().find(|(key, _)| *key == "id") {
            self.push(Part::Id((*id).to_owned()));
        }
        if let Some(anchor) = anchor {
            self.push(Part::LocalLink(anchor.to_owned()));
        }
        let without: Vec<&str> = without.iter().copied().chain(["id"]).collect();
        self.text.push_str(&written(attributes, &without));
        self.text.push('>');
    }

    fn link(&mut self, attributes: &[(&str, &str)]) {
        let value = |name: &str| attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        if let Some(number) = value("data-slot").and_then(|number| number.parse().ok()) {
            self.push(Part::LinkStart(LinkTarget::Slot(number), String::new()));
            return;
        }
        let href = value("href").map(unescape_attribute).unwrap_or_default();
        if let Some(anchor) = href.strip_prefix('#') {
            self.push(Part::OtherLinkStart);
            self.start("a", attributes, &["href", "data-slot", "rel"], Some(anchor));
        } else if !href.is_empty() && !is_external(&href) {
            let rest = written(attributes, &["href", "data-slot", "id", "rel"]);
            self.push(Part::LinkStart(LinkTarget::Url(page_link(&href)), rest));
        } else {
            self.push(Part::OtherLinkStart);
            self.start("a", attributes, &["data-slot"], None);
        }
    }
}

/// The attributes of a tag, as the sanitiser writes them.
fn attributes_of(text: &str) -> Vec<(&str, &str)> {
    let (mut attributes, mut rest) = (Vec::new(), text);
    while let Some((name, after)) = rest.split_once("=\"") {
        let Some((value, after)) = after.split_once('"') else { break };
        attributes.push((name.trim(), value));
        rest = after;
    }
    attributes
}

fn written(attributes: &[(&str, &str)], without: &[&str]) -> String {
    let shown = attributes.iter().filter(|(name, _)| !without.contains(name));
    shown.map(|(name, value)| format!(" {name}=\"{value}\"")).collect()
}

/// Whether an address has a scheme or names a host, as a browser reads it: without the control
/// characters and white space that it ignores.
fn is_external(url: &str) -> bool {
    let is_ignored = |character: char| character.is_whitespace() || character.is_control();
    let url = url.trim_start_matches(is_ignored);
    let starts_host = url.starts_with("//") || url.starts_with("/\\") || url.starts_with('\\');
    let start = url.split(['/', '?', '#']).next().unwrap_or_default();
    let has_scheme = start.split_once(':').is_some_and(|(scheme, _)| {
        let scheme = scheme.chars().filter(|character| !is_ignored(*character));
        scheme.clone().next().is_some_and(|first| first.is_ascii_alphabetic())
            && scheme.clone().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    starts_host || has_scheme
}

/// A relative address as a link to a file of the tree.
fn page_link(url: &str) -> PageLink {
    let (target, heading) = url.split_once('#').map_or((url, None), |(target, heading)| (target, Some(heading)));
    let target = target.split('?').next().unwrap_or_default();
    let decoded = |text: &str| {
        percent_encoding::percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Into::into)
    };
    PageLink { target: decoded(target), heading: heading.map(decoded), label: None, is_wiki: false }
}

/// The links and images of a page that lead to files of the tree.
pub(crate) fn tree_links(parts: &[Part], slots: &[Slot]) -> Vec<PageLink> {
    let in_slots = slots.iter().filter_map(|slot| match slot {
        Slot::Link(link) | Slot::Embed(link) => Some(link.clone()),
        Slot::Query(_) | Slot::Formula(_) => None,
    });
    let in_parts = parts.iter().filter_map(|part| match part {
        Part::LinkStart(LinkTarget::Url(link), _) => Some(link.clone()),
        Part::Image { source, .. } if !is_external(source) => Some(page_link(source)),
        _ => None,
    });
    in_slots.chain(in_parts).collect()
}

/// The HTML for one reader.
pub(crate) fn fill(parts: &[Part], slots: &[Slot], filler: &mut dyn PageFiller, id_prefix: &str) -> String {
    let mut html = String::new();
    let mut ends: Vec<&'static str> = Vec::new();
    for part in parts {
        if html.len() > MAX_OUTPUT_BYTES {
            break;
        }
        match part {
            Part::Html(text) => html.push_str(text),
            Part::Id(id) => html.push_str(&format!(" id=\"{id_prefix}{id}\"")),
            Part::LocalLink(anchor) => html.push_str(&format!(" href=\"#{id_prefix}{}\"", escape_html(anchor))),
            Part::OtherLinkStart => ends.push("</a>"),
            Part::LinkStart(target, rest) => {
                let link = match target {
                    LinkTarget::Url(link) => Some(link),
                    LinkTarget::Slot(number) => match slots.get(*number) {
                        Some(Slot::Link(link)) => Some(link),
                        _ => None,
                    },
                };
                match link.and_then(|link| filler.link(link)) {
                    Some(href) => {
                        html.push_str(&format!("<a href=\"{}\"{rest}>", escape_html(&href)));
                        ends.push("</a>");
                    }
                    None => {
                        html.push_str("<span>");
                        ends.push("</span>");
                    }
                }
            }
            Part::LinkEnd => html.push_str(ends.pop().unwrap_or_default()),
            Part::Image { source, alt, rest } => image(&mut html, (source, alt, rest), filler),
            Part::Slot(number) => fill_slot(&mut html, slots.get(*number), filler),
        }
    }
    html
}

fn image(html: &mut String, (source, alt, rest): (&str, &str, &str), filler: &mut dyn PageFiller) {
    let address = if is_external(source) {
        filler.shows_external_images().then(|| source.to_owned())
    } else {
        filler.image(&page_link(source))
    };
    match address {
        Some(address) => html.push_str(&format!("<img src=\"{}\" alt=\"{alt}\"{rest}>", escape_html(&address))),
        None => html.push_str(alt),
    }
}

fn fill_slot(html: &mut String, slot: Option<&Slot>, filler: &mut dyn PageFiller) {
    match slot {
        Some(Slot::Formula(mathml)) => html.push_str(mathml),
        Some(Slot::Query(query)) => html.push_str(&filler.query(query)),
        Some(Slot::Embed(link)) => match filler.embed(link) {
            Some(embedded) => html.push_str(&embedded),
            None => html.push_str(&escape_html(&link.display_text())),
        },
        // a link in the place of a block: only raw HTML of the page writes that
        Some(Slot::Link(_)) | None => {}
    }
}
