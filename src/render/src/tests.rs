//! The renderer as its callers see it, and hostile pages.

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
        ("```rust\nlet a = 1 < 2;\n```\n", "<code class=\"language-rust\">let a = 1 &lt; 2;\n</code>"),
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
fn an_embedded_page_has_its_own_ids() {
    let html = parse("p.md", "# A\n[a](#a)\n").fill(&mut Reader, "e1-");
    assert!(html.contains("id=\"e1-a\"") && html.contains("href=\"#e1-a\""), "{html}");
}

/// Hostile fragments: each is placed into every context of markdown.
const FRAGMENTS: &[&str] = &[
    "<script>alert(1)</script>",
    "<ScRiPt src=//evil.example/x.js></ScRiPt>",
    "<img src=x onerror=alert(1)>",
    "<img src=\"javascript:alert(1)\">",
    "<img src='data:image/svg+xml,<svg onload=alert(1)>'>",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
    "<math href=\"javascript:alert(1)\">x</math>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "<a href=\"jAvA&#x09;script:alert(1)\">x</a>",
    "<a href=\"&#106;avascript:alert(1)\">x</a>",
    "<a href=\"\u{1}javascript:alert(1)\">x</a>",
    "<a href=\"vbscript:x\" onclick=alert(1)>x</a>",
    "<a href=data:text/html,<script>alert(1)</script>>x</a>",
    "<iframe srcdoc=\"<script>alert(1)</script>\"></iframe>",
    "<object data=x></object><embed src=x><applet code=x>",
    "<form action=javascript:alert(1)><button formaction=javascript:alert(1)>x</button></form>",
    "<input onfocus=alert(1) autofocus type=image src=x>",
    "<details open ontoggle=alert(1)>x</details>",
    "<style>*{background:url(//evil.example)}</style>",
    "<div style=\"background:url(javascript:alert(1))\">x</div>",
    "<base href=//evil.example><meta http-equiv=refresh content=0;url=//evil.example>",
    "<link rel=stylesheet href=//evil.example>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "<template><script>alert(1)</script></template>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "[x](javascript:alert(1))",
    "[x](<java\tscript:alert(1)>)",
    "[x](&#x6A;avascript:alert(1))",
    "![x](javascript:alert(1))",
    "![\" onerror=\"alert(1)](x)",
    "[x](y \"\\\" onmouseover=alert(1)\")",
    "<javascript:alert(1)>",
    "[[\"><script>alert(1)</script>]]",
    "[[x|<img src=x onerror=alert(1)>]]",
    "![[\"onerror=\"alert(1)]]",
    "`<script>alert(1)</script>`",
    "$\\text{<script>alert(1)</script>}$",
    "$\\href{javascript:alert(1)}{x}$",
    "https://example.org/\"onmouseover=\"alert(1)",
    "<span data-slot=\"0\"></span><div data-slot=\"99999999999999999999\"></div>",
    "\u{e000}0\u{e001}<a title=\"\u{e000}0\u{e001}\">",
    "<a data-slot=\"0\" href=\"javascript:alert(1)\"><img alt='\"><script>alert(1)</script>' src=x>",
    "<xmp><script>alert(1)</script></xmp><plaintext>",
    "<select><style></select><img src=x onerror=alert(1)></style>",
    "<table><td background=javascript:alert(1)><svg/onload=alert(1)>",
    "<p id=\"x\" onclick=\"alert(1)\" class=\"a\" style=\"x\">",
    "<isindex type=image src=1 onerror=alert(1)><video><source onerror=alert(1)></video>",
];

/// Where a fragment is placed.
const CONTEXTS: &[&str] = &[
    "@",
    "# @\n",
    "> [!note] @\n> @\n",
    "| @ | b |\n|---|---|\n| @ | @ |\n",
    "- [ ] @\n",
    "x[^1]\n\n[^1]: @\n",
    "---\ntitle: '@'\n---\n<div>\n@\n</div>\n",
    "```@\n@\n```\n",
    "[@](open/x \"@\") ![@](open/i.png)\n",
];

/// The tags of a page and their attributes, as a browser reads a serialised page.
fn check_tags(html: &str, source: &str) {
    const FORBIDDEN: [&str; 22] = [
        "script",
        "style",
        "iframe",
        "object",
        "embed",
        "applet",
        "form",
        "button",
        "svg",
        "base",
        "meta",
        "link",
        "noscript",
        "template",
        "xmp",
        "plaintext",
        "select",
        "video",
        "audio",
        "frame",
        "textarea",
        "mglyph",
    ];
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let tag = &rest[at + 1..];
        let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        assert!(!name.is_empty(), "`<` in text: {html}\nof {source:?}");
        assert!(!FORBIDDEN.contains(&name.to_ascii_lowercase().as_str()), "{name}: {html}\nof {source:?}");
        let (mut is_quoted, mut length) = (false, 0);
        for (index, character) in tag.char_indices() {
            length = index;
            match character {
                '"' => is_quoted = !is_quoted,
                '>' if !is_quoted => break,
                _ => {}
            }
        }
        for (index, part) in tag[..length].split('"').enumerate() {
            let part = part.trim().to_ascii_lowercase();
            if index % 2 == 0 {
                let attribute = part.trim_end_matches('=').rsplit(' ').next().unwrap_or_default().to_owned();
                let is_handler =
                    attribute.starts_with("on") || matches!(attribute.as_str(), "style" | "srcdoc" | "formaction");
                assert!(!is_handler, "{attribute}: {html}\nof {source:?}");
            } else {
                let scheme: String =
                    part.chars().filter(|character| !character.is_whitespace() && !character.is_control()).collect();
                let is_script = ["javascript:", "vbscript:", "data:"].iter().any(|bad| scheme.starts_with(bad));
                let attribute = tag[..length].split('"').nth(index - 1).unwrap_or_default();
                let is_address = attribute.trim_end_matches('=').ends_with("href")
                    || attribute.trim_end_matches('=').ends_with("src");
                assert!(!(is_script && is_address), "{part}: {html}\nof {source:?}");
            }
        }
        rest = &tag[length..];
    }
}

#[test]
fn hostile_pages_become_harmless_html() {
    let mut count = 0;
    for fragment in FRAGMENTS {
        for context in CONTEXTS {
            let source = context.replace('@', fragment);
            let html = html(&source);
            check_tags(&html, &source);
            // what a browser would read is what the sanitiser would write again, apart from MathML
            count += 1;
        }
    }
    assert!(count >= 300, "{count}");
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
