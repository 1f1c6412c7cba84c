//! The sanitiser: which elements and attributes of a page reach a browser.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

/// Prefixes of the classes that a page may use: those that this crate writes.
const CLASSES: [&str; 8] = ["language-", "callout", "task", "footnote", "embed", "math", "hl-", "table-"];

/// URLs with a scheme; relative ones are allowed too.
const SCHEMES: [&str; 3] = ["http", "https", "mailto"];

static PAGE: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let mut builder = Builder::default();
    builder
        .rm_tags(["map", "area"])
        .add_tags(["input", "section", "figure", "figcaption", "mark"])
        .add_generic_attributes(["id", "class"])
        .add_tag_attributes("a", ["data-slot", "name"])
        .add_tag_attributes("span", ["data-slot"])
        .add_tag_attributes("div", ["data-slot", "tabindex"])
        .add_tag_attributes("pre", ["tabindex"])
        .add_tag_attributes("details", ["open"])
        .add_tag_attributes("input", ["type", "checked", "disabled", "aria-label"])
        .url_schemes(HashSet::from(SCHEMES))
        .url_relative(UrlRelative::PassThrough)
        .set_tag_attribute_value("input", "type", "checkbox")
        .set_tag_attribute_value("input", "disabled", "")
        .attribute_filter(|_, attribute, value| match attribute {
            "class" => classes(value),
            "tabindex" => (value == "0").then_some(Cow::Borrowed(value)),
            "id" | "name" => is_anchor(value).then_some(Cow::Borrowed(value)),
            "data-slot" => value.bytes().all(|byte| byte.is_ascii_digit()).then_some(Cow::Borrowed(value)),
            _ => Some(Cow::Borrowed(value)),
        });
    builder
});

static MATH: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let tags = [
        "math",
        "mi",
        "mn",
        "mo",
        "ms",
        "mspace",
        "mtext",
        "merror",
        "mfrac",
        "mpadded",
        "mphantom",
        "mroot",
        "mrow",
        "msqrt",
        "mstyle",
        "mmultiscripts",
        "mover",
        "mprescripts",
        "msub",
        "msubsup",
        "msup",
        "munder",
        "munderover",
        "mtable",
        "mtd",
        "mtr",
        "none",
    ];
    let attributes = [
        "display",
        "displaystyle",
        "mathvariant",
        "stretchy",
        "fence",
        "form",
        "accent",
        "accentunder",
        "lspace",
        "rspace",
        "largeop",
        "linethickness",
        "movablelimits",
        "symmetric",
        "separator",
        "width",
        "height",
        "depth",
        "columnalign",
        "rowspacing",
        "columnspacing",
        "minsize",
        "maxsize",
        "scriptlevel",
        "voffset",
    ];
    let mut builder = Builder::empty();
    builder.tags(HashSet::from(tags)).generic_attributes(HashSet::from(attributes)).tag_attributes(HashMap::new());
    builder
});

/// The HTML of a page without what could run, load or restyle.
pub(crate) fn page(html: &str) -> String {
    PAGE.clean(html).to_string()
}

/// MathML of a formula.
pub(crate) fn formula(mathml: &str) -> String {
    MATH.clean(mathml).to_string()
}

fn classes(value: &str) -> Option<Cow<'_, str>> {
    let is_ours = |class: &&str| CLASSES.iter().any(|prefix| class.starts_with(prefix));
    let classes: Vec<&str> = value.split_ascii_whitespace().filter(is_ours).collect();
    (!classes.is_empty()).then(|| classes.join(" ").into())
}

/// Whether an id is one that a heading or a footnote can have.
fn is_anchor(value: &str) -> bool {
    !value.is_empty() && !value.contains(|character: char| character.is_whitespace() || "\"'<>&`=".contains(character))
}
