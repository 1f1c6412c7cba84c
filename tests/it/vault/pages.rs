//! Pages as people and programs write them, made from a seed: line ends, byte order marks,
//! formulas, comments, HTML, numbered lists, tables, fences and broken frontmatter, one below the
//! other.

use crate::crash::random::Random;

/// Blocks that a formatter is tempted to change. No block opens a fence or a comment that it does
/// not close: the page goes on below it.
const BLOCKS: &[&str] = &[
    "1914. The war begins\n1915. It goes on",
    "3. third\n4. fourth",
    "0. zero\n1. one",
    "3. down\n2. down\n1. down",
    "1. same\n1. same\n1. same",
    "* star\n* star\n    * deep\n\t* tab",
    "+ plus\n- minus\n* star",
    "- [ ] open\n- [x] done\n- [/] half\n- [-] dropped 📅 2026-03-01",
    "$$\na\n+ b\n- c\n$$",
    "Price $5 and $6, and $x_1 * y_1$.",
    "%% a comment\n- of two lines %%",
    "<div>\n<p>HTML  </p>\n* no list\n</div>",
    "<!-- a\n* comment\n-->",
    "> [!note]- Folded\n> text\n> * item",
    "Term\n: definition\n: another",
    "Setext\n======\n\nSmaller\n-------",
    "#Tag and #nested/tag, no heading",
    "Text with two spaces  \nand a backslash\\\nat the line's end",
    "trailing blanks   \n\ttab at the start",
    "| a | b |\n|---|:-:|\n| 1 | `x|y` |",
    "|a|b|\n|-|-|\n|1|2|",
    "a | b\n--|--\n1 | 2",
    "```dataview\nLIST FROM #a\n```",
    "~~~~\n```\nnot the end\n~~~~",
    "    indented code\n    * no list",
    "***\n\n---\n\n___",
    "Line one\r\nLine two\r\nLine three",
    "[ref]: https://example.org/a_b_(c)\n[^1]: A footnote\n    of two lines",
    "See [[Page#Heading|shown]] and ![[picture.png|200]] and [a](<b c.md>).",
    "key:: value\n[inline:: 3] and (hidden:: yes)",
    "*emphasis* _other_ __strong__ **both** ~~gone~~ ==marked==",
    "Ünïcödé, Re\u{301}union, \u{feff}in the middle, \u{a0}no break, 日本語\u{3000}全角",
    "Escaped \\* star, \\_ line, \\[x\\], 1\\. number",
    "\u{c}form feed and \u{b}vertical tab",
    "A line that ends\u{2028}with a separator of Unicode",
];

const FRONTMATTER: &[&str] = &[
    "",
    "",
    "---\ntitle: Page\ntags: [a, b]\n---\n",
    "---\r\ntitle: Windows\r\n---\r\n",
    "---\ncode: 007\nversion: 1.10\nflag: yes\n---\n\n\n",
    "---\n# a comment\nkey:   spaced\nlist:\n- a\n- b\n...\n",
    "---\ntitle: {{title}}\nbroken: [\n---\n",
    "+++\ntitle = \"Toml\"\n+++\n",
    "---\n\nA rule at the top\n\n---\n",
];

/// Page number `number`: the same bytes in each run.
pub fn generate(number: u64) -> Vec<u8> {
    let random = &mut Random::new(number + 1);
    let mut text = String::new();
    if random.below(12) == 0 {
        text.push('\u{feff}');
    }
    text.push_str(choose(random, FRONTMATTER));
    if random.below(3) > 0 {
        text.push_str(&format!("# Page {number}\n\n"));
    }
    for _ in 0..=random.below(7) {
        text.push_str(choose(random, BLOCKS));
        text.push_str(choose(random, &["\n", "\n\n", "\n\n\n"]));
    }
    if random.below(10) == 0 {
        text = text.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    if random.below(8) == 0 {
        text.truncate(text.trim_end_matches(['\r', '\n']).len());
    }
    text.into_bytes()
}

fn choose(random: &mut Random, texts: &[&'static str]) -> &'static str {
    texts[random.below(texts.len())]
}
