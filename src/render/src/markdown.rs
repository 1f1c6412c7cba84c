//! Markdown to HTML that is not sanitised yet, with slots for what depends on the reader.

use std::convert::Infallible;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, TextMergeStream, html};
use svcfs_text::links::LinkKind;
use svcfs_text::replace::replace_ranges;
use svcfs_text::{Heading, Link, Page, comments, frontmatter};

use crate::callouts;
use crate::escape::escape_html;
use crate::highlight;
use crate::parts::{PageLink, QueryBlock, Slot};
use crate::sanitize;

/// Delimiters of a wiki link in the text that is parsed. A page that has them can only repeat its
/// own links.
const OPEN: char = '\u{e000}';
const CLOSE: char = '\u{e001}';

/// Limit of the source of a formula.
const MAX_FORMULA_BYTES: usize = 8 << 10;

const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_MATH);

/// The languages of code blocks that are queries.
const QUERY_LANGUAGES: [&str; 2] = ["dataview", "dql"];

pub(crate) struct Rendered {
    pub html: String,
    pub slots: Vec<Slot>,
    pub headings: Vec<Heading>,
}

pub(crate) fn render(text: &str, page: &Page<'_>) -> Rendered {
    let hidden = comments::comments(text);
    let mut slots = Vec::new();
    let body = replace_wiki_links(text, (&page.links, &hidden), &mut slots);
    let is_hidden = |heading: &Heading| hidden.iter().any(|range| range.contains(&heading.range.start));
    let headings: Vec<Heading> = page.headings.iter().filter(|heading| !is_hidden(heading)).cloned().collect();
    let events: Vec<Event<'_>> = TextMergeStream::new(Parser::new_ext(&body, OPTIONS)).collect();
    let mut writer =
        EventWriter { slots, slugs: headings.iter().map(|heading| heading.slug.as_str()), output: Vec::new() };
    writer.write(&events);
    let (main, notes) = move_footnotes(writer.output);
    let slots = writer.slots;
    let mut html = String::with_capacity(body.len() * 2);
    html::push_html(&mut html, main.into_iter());
    if !notes.is_empty() {
        html.push_str("<section class=\"footnotes\">\n");
        html::push_html(&mut html, notes.into_iter());
        html.push_str("</section>\n");
    }
    Rendered { html, slots, headings }
}

/// The body without comments, and with a delimited number instead of each wiki link.
fn replace_wiki_links(text: &str, (links, hidden): (&[Link], &[Range<usize>]), slots: &mut Vec<Slot>) -> String {
    let frontmatter = 0..frontmatter::split(text).body_offset;
    let removed = std::iter::once(&frontmatter).chain(hidden);
    let mut edits: Vec<(Range<usize>, String)> = removed.map(|range| (range.clone(), String::new())).collect();
    for link in links.iter().filter(|link| link.kind.is_wiki()) {
        let is_embed = link.kind == LinkKind::Embed;
        let from = link.full_range.start - usize::from(is_embed);
        let target = PageLink {
            target: link.target.clone(),
            heading: link.heading.clone(),
            label: link.label.clone(),
            is_wiki: true,
        };
        edits.push((from..link.full_range.end, format!("{OPEN}{}{CLOSE}", slots.len())));
        slots.push(if is_embed { Slot::Embed(target) } else { Slot::Link(target) });
    }
    edits.sort_by_key(|(range, _)| range.start);
    replace_ranges(text, edits)
}

struct EventWriter<'a, S> {
    slots: Vec<Slot>,
    slugs: S,
    output: Vec<Event<'a>>,
}

impl<'a, 's, S: Iterator<Item = &'s str>> EventWriter<'a, S> {
    fn write(&mut self, events: &[Event<'a>]) {
        let (mut at, mut link_depth, mut quotes) = (0, 0_usize, Vec::new());
        while let Some(event) = events.get(at) {
            at += 1;
            match event {
                Event::Start(Tag::Paragraph) if self.lone_embed(&events[at..]).is_some() => {
                    let number = self.lone_embed(&events[at..]).unwrap_or_default();
                    self.html(format!("<div data-slot=\"{number}\"></div>\n"));
                    at += 2;
                }
                Event::Start(Tag::Heading { level, .. }) => {
                    let is_shown = heading_has_text(&events[at..]);
                    let slug = is_shown.then(|| self.slugs.next()).flatten();
                    let id = slug.map(|slug| format!(" id=\"{}\"", escape_html(slug))).unwrap_or_default();
                    self.html(format!("<{level}{id}>"));
                }
                Event::End(TagEnd::Heading(level)) => self.html(format!("</{level}>\n")),
                Event::Start(Tag::CodeBlock(kind)) => at += self.code_block(kind, &events[at..]),
                Event::Start(Tag::BlockQuote(_)) => {
                    let (used, close) = self.quote(&events[at..]);
                    at += used;
                    quotes.push(close);
                }
                Event::End(TagEnd::BlockQuote(_)) => {
                    let close = quotes.pop().unwrap_or("</blockquote>\n");
                    self.html(close.to_owned());
                }
                Event::InlineMath(source) => self.formula(source, false),
                Event::DisplayMath(source) => self.formula(source, true),
                Event::FootnoteReference(label) => self.output.push(Event::FootnoteReference(note_id(label))),
                Event::Start(Tag::FootnoteDefinition(label)) => {
                    self.output.push(Event::Start(Tag::FootnoteDefinition(note_id(label))));
                }
                Event::Text(text) => self.text(text, link_depth > 0),
                Event::Html(raw) => {
                    let html = self.with_slots(raw);
                    self.output.push(Event::Html(html.into()));
                }
                Event::InlineHtml(raw) => {
                    let html = self.with_slots(raw);
                    self.output.push(Event::InlineHtml(html.into()));
                }
                Event::TaskListMarker(is_done) => {
                    // A screen reader says what the box means.
                    let (label, checked) = if *is_done { ("done", " checked") } else { ("to do", "") };
                    self.html(format!("<input type=\"checkbox\" disabled aria-label=\"{label}\"{checked}>\n"));
                }
                // Both may be wider than the screen: they can be scrolled with the keyboard.
                Event::Start(Tag::Table(_)) => {
                    self.html("<div class=\"table-scroll\" tabindex=\"0\">\n".to_owned());
                    self.output.push(event.clone());
                }
                Event::End(TagEnd::Table) => {
                    self.output.push(event.clone());
                    self.html("</div>\n".to_owned());
                }
                other => {
                    match other {
                        Event::Start(Tag::Link { .. } | Tag::Image { .. }) => link_depth += 1,
                        Event::End(TagEnd::Link | TagEnd::Image) => link_depth = link_depth.saturating_sub(1),
                        _ => {}
                    }
                    self.output.push(other.clone());
                }
            }
        }
    }

    fn html(&mut self, html: String) {
        self.output.push(Event::InlineHtml(html.into()));
    }

    /// The embed that is all of a paragraph.
    fn lone_embed(&self, events: &[Event<'_>]) -> Option<usize> {
        let [Event::Text(text), Event::End(TagEnd::Paragraph), ..] = events else { return None };
        let number = text.trim().strip_prefix(OPEN)?.strip_suffix(CLOSE)?.parse().ok()?;
        matches!(self.slots.get(number), Some(Slot::Embed(_))).then_some(number)
    }

    fn text(&mut self, text: &CowStr<'a>, is_in_link: bool) {
        let mut from = 0;
        while let Some((at, end, number)) = next_slot(text, from) {
            self.plain_text(&text[from..at], is_in_link);
            let html = self.slot_html(number);
            self.html(html);
            from = end;
        }
        match from {
            0 if is_in_link || !text.contains("://") => self.output.push(Event::Text(text.clone())),
            _ => self.plain_text(&text[from..], is_in_link),
        }
    }

    /// Text whose web addresses become links.
    fn plain_text(&mut self, text: &str, is_in_link: bool) {
        let mut from = 0;
        while let Some((start, end)) = next_address(text, from).filter(|_| !is_in_link) {
            self.output.push(Event::Text(text[from..start].to_owned().into()));
            let address = escape_html(&text[start..end]);
            self.html(format!("<a href=\"{address}\">{address}</a>"));
            from = end;
        }
        if from < text.len() {
            self.output.push(Event::Text(text[from..].to_owned().into()));
        }
    }

    fn with_slots(&self, raw: &str) -> String {
        let (mut html, mut from) = (String::new(), 0);
        while let Some((at, end, number)) = next_slot(raw, from) {
            html.push_str(&raw[from..at]);
            html.push_str(&self.slot_html(number));
            from = end;
        }
        html.push_str(&raw[from..]);
        html
    }

    fn slot_html(&self, number: usize) -> String {
        match self.slots.get(number) {
            Some(Slot::Link(link)) => {
                format!("<a data-slot=\"{number}\">{}</a>", escape_html(&link.display_text()))
            }
            Some(Slot::Embed(_)) => format!("<span data-slot=\"{number}\"></span>"),
            Some(Slot::Query(_) | Slot::Formula(_)) | None => String::new(),
        }
    }

    fn formula(&mut self, source: &str, is_display: bool) {
        let number = self.slots.len();
        self.slots.push(Slot::Formula(mathml(source, is_display)));
        self.html(format!("<span data-slot=\"{number}\"></span>"));
    }

    /// Writes a code block; returns the number of events that belong to it.
    fn code_block(&mut self, kind: &CodeBlockKind<'_>, events: &[Event<'_>]) -> usize {
        let mut info = match kind {
            CodeBlockKind::Fenced(info) => info.split_whitespace(),
            CodeBlockKind::Indented => "".split_whitespace(),
        };
        let (info, style) = (info.next().unwrap_or_default(), info.next());
        let length = events.iter().position(|event| matches!(event, Event::End(TagEnd::CodeBlock)));
        let length = length.unwrap_or(events.len());
        let code: String = events[..length]
            .iter()
            .filter_map(|event| if let Event::Text(text) = event { Some(text.as_ref()) } else { None })
            .collect();
        let language = info.to_lowercase();
        if QUERY_LANGUAGES.contains(&language.as_str()) {
            let number = self.slots.len();
            self.slots.push(Slot::Query(QueryBlock { language, style: style.map(str::to_owned), text: code }));
            self.html(format!("<div data-slot=\"{number}\"></div>\n"));
        } else {
            let class =
                if info.is_empty() { String::new() } else { format!(" class=\"language-{}\"", escape_html(info)) };
            let highlighted = highlight::code(&language, &code).unwrap_or_else(|| escape_html(&code));
            self.html(format!("<pre tabindex=\"0\"><code{class}>{highlighted}</code></pre>\n"));
        }
        (length + 1).min(events.len())
    }

    /// Opens a quote or a callout; returns the number of events used, and the end.
    fn quote(&mut self, events: &[Event<'a>]) -> (usize, &'static str) {
        let head = match events {
            [Event::Start(Tag::Paragraph), Event::Text(text), ..] => callouts::head(text),
            _ => None,
        };
        let Some(head) = head else {
            self.html("<blockquote>\n".to_owned());
            return (0, "</blockquote>\n");
        };
        let (open, title, close) = match head.fold {
            None => (format!("<div class=\"callout callout-{}\">", head.kind), "div", "</div>\n"),
            Some(is_open) => {
                let open = if is_open { " open" } else { "" };
                (format!("<details class=\"callout callout-{}\"{open}>", head.kind), "summary", "</details>\n")
            }
        };
        self.html(format!("{open}<{title} class=\"callout-title\">"));
        if head.title.is_empty() {
            let title = callouts::default_title(&head.kind);
            self.output.push(Event::Text(title.into()));
        } else {
            self.text(&head.title.to_owned().into(), false);
        }
        // the title ends with its line; the rest of the paragraph is the start of the content
        let is_end =
            |event: &Event<'_>| matches!(event, Event::SoftBreak | Event::HardBreak | Event::End(TagEnd::Paragraph));
        let length = events[2..].iter().position(is_end).unwrap_or(events.len() - 2);
        self.write(&events[2..2 + length]);
        self.html(format!("</{title}>\n"));
        match events.get(2 + length) {
            Some(Event::SoftBreak | Event::HardBreak) => {
                self.output.push(Event::Start(Tag::Paragraph));
                (2 + length + 1, close)
            }
            _ => ((2 + length + 1).min(events.len()), close),
        }
    }
}

/// The delimited number at or after `from`: its start, its end and the number.
fn next_slot(text: &str, from: usize) -> Option<(usize, usize, usize)> {
    let mut from = from;
    loop {
        let at = from + text[from..].find(OPEN)?;
        let digits = &text[at + OPEN.len_utf8()..];
        let length = digits.bytes().take_while(u8::is_ascii_digit).count();
        if let (Ok(number), true) = (digits[..length].parse(), digits[length..].starts_with(CLOSE)) {
            return Some((at, at + OPEN.len_utf8() + length + CLOSE.len_utf8(), number));
        }
        from = at + OPEN.len_utf8();
    }
}

/// The next `http://` or `https://` address in a text, without punctuation at its end.
fn next_address(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let at = from + text[from..].find("://")?;
        let scheme = ["https", "http"].into_iter().find(|scheme| text[from..at].ends_with(scheme));
        let rest = &text[at + 3..];
        let length = rest.find(|character: char| character.is_whitespace() || "<>\"`|".contains(character));
        let address =
            rest[..length.unwrap_or(rest.len())].trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '\'', ']', '*']);
        let Some(start) = scheme.map(|scheme| at - scheme.len()).filter(|_| !address.is_empty()) else {
            from = at + 3;
            continue;
        };
        let follows_word = text[..start].chars().next_back().is_some_and(char::is_alphanumeric);
        if !follows_word {
            return Some((start, at + 3 + address.len()));
        }
        from = at + 3;
    }
}

fn heading_has_text(events: &[Event<'_>]) -> bool {
    let inside = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    inside.into_iter().any(|event| match event {
        Event::Text(text) | Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
            !text.trim().is_empty()
        }
        _ => false,
    })
}

fn note_id<'a>(label: &str) -> CowStr<'a> {
    format!("fn-{}", svcfs_text::headings::slug(label)).into()
}

/// The events with footnotes behind the others.
fn move_footnotes(events: Vec<Event<'_>>) -> (Vec<Event<'_>>, Vec<Event<'_>>) {
    let (mut main, mut notes, mut depth) = (Vec::with_capacity(events.len()), Vec::new(), 0_usize);
    for event in events {
        let opens = matches!(event, Event::Start(Tag::FootnoteDefinition(_)));
        let closes = matches!(event, Event::End(TagEnd::FootnoteDefinition));
        depth += usize::from(opens);
        if depth > 0 {
            notes.push(event)
        } else {
            main.push(event)
        }
        depth = depth.saturating_sub(usize::from(closes));
    }
    (main, notes)
}

/// A formula as sanitised MathML; its source as code if it cannot be parsed.
fn mathml(source: &str, is_display: bool) -> String {
    use pulldown_latex::{Parser, RenderConfig, Storage, config::DisplayMode, push_mathml};
    let as_code = || format!("<code class=\"math\">{}</code>", escape_html(source));
    if source.len() > MAX_FORMULA_BYTES {
        return as_code();
    }
    let storage = Storage::new();
    // An error in the middle would leave half a formula in the output.
    let Ok(events) = Parser::new(source, &storage).collect::<Result<Vec<_>, _>>() else { return as_code() };
    let events = events.into_iter().map(Ok::<_, Infallible>);
    let display_mode = if is_display { DisplayMode::Block } else { DisplayMode::Inline };
    let mut output = String::new();
    match push_mathml(&mut output, events, RenderConfig { display_mode, ..RenderConfig::default() }) {
        Ok(()) => sanitize::formula(&output),
        Err(_) => as_code(),
    }
}
