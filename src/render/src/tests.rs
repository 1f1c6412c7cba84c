//! The renderer as its callers see it, and hostile pages.

use scraper::Html;
use serde_json::Value;

use super::{PageFiller, PageLink, QueryBlock, parse};

/// A reader who may follow links below `open/` and see images there.
struct Reader;

impl PageFiller for Reader {
    fn link(&mut self, link: &PageLink) -> Option<String> {
        link.target.starts_with("open/").then(|| format!("/p/{}", link.target))
    }
    fn image(&mut self, link: &PageLink) -> Option<String> {
        link.target.starts_with("open/").then(|| format!("/p/{}", link.target))
    }
    fn shows_external_images(&self) -> bool {
        true
    }
    fn embed(&mut self, link: &PageLink) -> Option<String> {
        (link.target == "open/b").then(|| "<p>embedded</p>".to_owned())
    }
    fn query(&mut self, query: &QueryBlock) -> String {
        format!("<table><tr><td>{}</td></tr></table>", super::escape_html(&query.text))
    }
}

fn html(text: &str) -> String {
    parse("p.md", text).fill(&mut Reader, "")
}

#[test]
fn markdown_becomes_html() {
    for (text, part) in [
        ("# A b\n\n## A b\n", "<h1 id=\"a-b\">A b</h1>\n<h2 id=\"a-b-1\">A b</h2>"),
        ("| a | b |\n|---|---|\n| [[open/x\\|y]] | 2 |\n", "<td><a href=\"/p/open/x\">y</a></td><td>2</td>"),
        ("- [x] done\n", "checked=\"\""),
        ("~~gone~~", "<del>gone</del>"),
        ("x[^1]\n\n[^1]: Note.\n", "<section class=\"footnotes\">"),
        ("[[open/x]] [[closed/x|label]]", "<a href=\"/p/open/x\">open/x</a> <span>label</span>"),
        ("[text](open/y.md#h) [other](closed.md)", "<a href=\"/p/open/y.md\">text</a> <span>other</span>"),
        ("![[open/b]]\n", "<p>embedded</p>"),
        ("![[closed]]\n", "closed"),
        ("![alt](open/i.png) ![hidden](closed.png)", "<img src=\"/p/open/i.png\" alt=\"alt\"> hidden"),
        (
            "> [!warning]- Mind *this*\n> text\n",
            "<details class=\"callout callout-warning\"><summary class=\"callout-title\">Mind <em>this</em></summary>",
        ),
        ("> [!note]\n> text\n", "<div class=\"callout-title\">Note</div>\n<p>text</p>"),
        ("> plain\n", "<blockquote>\n<p>plain</p>\n</blockquote>"),
        (
            "```rust\nlet a = 1 < 2;\n```\n",
            "<code class=\"language-rust\"><span class=\"hl-keyword\">let</span> a = <span class=\"hl-number\">1</span> &lt;",
        ),
        ("```dataview\nLIST\n```\n", "<table><tr><td>LIST\n</td></tr></table>"),
        ("$x^2$", "<msup>"),
        ("see https://example.org/a_b.", "<a href=\"https://example.org/a_b\""),
        ("a %%secret%% b", "<p>a  b</p>"),
        ("[up](#a)", "<a href=\"#a\">up</a>"),
    ] {
        let html = html(text);
        assert!(html.contains(part), "{text:?}: {html}");
    }
}

#[test]
fn title_and_excerpt_have_no_comments() {
    let page = parse("p.md", "%%\n# Hidden\n%%\n\n# Title %%secret%%\n\nText %%secret%% goes on.\n");
    assert_eq!((page.title.trim(), &*page.excerpt), ("Title", "Text goes on."));
}

#[test]
fn an_embedded_page_has_its_own_ids() {
    let html = parse("p.md", "# A\n[a](#a)\n").fill(&mut Reader, "e1-");
    assert!(html.contains("id=\"e1-a\"") && html.contains("href=\"#e1-a\""), "{html}");
}

/// The hostile fragments, and the contexts of markdown into which each is placed; `@` is its place.
/// scripts/browser.sh reads them in a browser.
fn hostile_pages() -> Vec<String> {
    let inputs: Value = serde_json::from_str(include_str!("../tests/hostile.json")).unwrap();
    let texts = |name: &str| -> Vec<String> {
        inputs[name].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let contexts = texts("contexts");
    let place =
        |fragment: String| contexts.iter().map(move |context| context.replace('@', &fragment)).collect::<Vec<_>>();
    texts("fragments").into_iter().flat_map(place).collect()
}

/// The elements that a page may have, as a browser reads it.
const ALLOWED: &str = "html head body a abbr acronym article aside b bdi bdo blockquote br caption center cite code col \
    colgroup data dd del details dfn div dl dt em figcaption figure footer h1 h2 h3 h4 h5 h6 header hgroup hr i img input \
    ins kbd li mark nav ol p pre q rp rt rtc ruby s samp section small span strike strong sub summary sup table tbody td th \
    thead time tr tt u ul var wbr math mi mn mo ms mspace mtext merror mfrac mpadded mphantom mroot mrow msqrt mstyle \
    mmultiscripts mover mprescripts msub msubsup msup munder munderover mtable mtd mtr none";

/// Checks what a browser reads: allowed elements, no handlers and styles, no script in an address.
fn check_document(html: &str, source: &str) {
    let allowed: Vec<&str> = ALLOWED.split_whitespace().collect();
    for node in Html::parse_document(html).tree.nodes() {
        assert!(!node.value().is_comment(), "a comment: {html}\nof {source:?}");
        let Some(element) = node.value().as_element() else { continue };
        let name = element.name();
        assert!(allowed.contains(&name), "<{name}>: {html}\nof {source:?}");
        for (attribute, value) in element.attrs() {
            let attribute = attribute.to_ascii_lowercase();
            let is_code = attribute.starts_with("on")
                || matches!(attribute.as_str(), "style" | "srcdoc" | "formaction" | "action" | "background" | "srcset");
            assert!(!is_code, "{attribute}: {html}\nof {source:?}");
            if matches!(attribute.as_str(), "href" | "src" | "cite") {
                // A browser ignores control characters and white space in a scheme.
                let plain: String = value.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
                let scheme = plain.split(['/', '?', '#']).next().filter(|start| start.contains(':'));
                let scheme = scheme.and_then(|start| start.split(':').next()).unwrap_or("http").to_ascii_lowercase();
                assert!(matches!(scheme.as_str(), "http" | "https" | "mailto"), "{value}: {html}\nof {source:?}");
            }
        }
    }
}

#[test]
fn hostile_pages_become_harmless_html() {
    let pages = hostile_pages();
    assert!(pages.len() >= 300, "{}", pages.len());
    for source in &pages {
        let html = html(source);
        check_document(&html, source);
        // Within other elements, a parser is in another state.
        check_document(&format!("<table><tr><td>{html}</table><p>{html}"), source);
    }
}

#[test]
fn deep_and_long_pages_are_rendered_in_time() {
    let start = std::time::Instant::now();
    for text in [
        "> ".repeat(2_000) + "x",
        "[".repeat(20_000),
        "![[".repeat(10_000),
        "[[a]]".repeat(10_000),
        "<div>".repeat(2_000),
        "$x$ ".repeat(2_000),
        "\u{e000}".repeat(20_000),
    ] {
        assert!(html(&text).len() < 16 << 20);
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(20));
}
