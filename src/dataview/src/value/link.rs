//! Links to pages.

/// What a link points at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkTarget {
    /// A page.
    File,
    /// A heading of a page.
    Header(String),
    /// A block of a page (`^id`).
    Block(String),
}

/// A link, as written: its path may be a name that is resolved when the link is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The path or name of the page.
    pub path: String,
    /// The text after `|`.
    pub display: Option<String>,
    /// Whether it starts with `!`.
    pub is_embed: bool,
    /// The part of the page.
    pub target: LinkTarget,
}

impl Link {
    /// A link to a page.
    #[must_use]
    pub fn to_page(path: impl Into<String>) -> Self {
        Self { path: path.into(), display: None, is_embed: false, target: LinkTarget::File }
    }

    /// Parses the text between `[[` and `]]`.
    #[must_use]
    pub fn parse_inner(text: &str) -> Self {
        let (target, display) = split_label(text);
        let (path, target) = match target.split_once('#') {
            Some((path, part)) => match part.strip_prefix('^') {
                Some(block) => (path, LinkTarget::Block(block.trim().to_owned())),
                None if part.trim().is_empty() => (path, LinkTarget::File),
                None => (path, LinkTarget::Header(part.trim().to_owned())),
            },
            None => (target, LinkTarget::File),
        };
        Self { path: path.trim().to_owned(), display: display.map(str::to_owned), is_embed: false, target }
    }

    /// Parses a text that is one link: `[[…]]` or `![[…]]`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, is_embed) = text.strip_prefix('!').map_or((text, false), |rest| (rest, true));
        let inner = rest.strip_prefix("[[")?.strip_suffix("]]")?;
        let is_single = !inner.is_empty() && !inner.contains(['[', ']', '\n']);
        is_single.then(|| Self { is_embed, ..Self::parse_inner(inner) })
    }

    /// The heading or block.
    #[must_use]
    pub fn subpath(&self) -> Option<&str> {
        match &self.target {
            LinkTarget::File => None,
            LinkTarget::Header(part) | LinkTarget::Block(part) => Some(part),
        }
    }

    pub(crate) const fn target_name(&self) -> &'static str {
        match self.target {
            LinkTarget::File => "file",
            LinkTarget::Header(_) => "header",
            LinkTarget::Block(_) => "block",
        }
    }

    /// `#heading`, `#^block`, or nothing.
    pub(crate) fn target_text(&self) -> String {
        match &self.target {
            LinkTarget::File => String::new(),
            LinkTarget::Header(heading) => format!("#{heading}"),
            LinkTarget::Block(id) => format!("#^{id}"),
        }
    }

    /// The name of the page without folders and `.md`.
    pub(crate) fn name(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.strip_suffix(".md").unwrap_or(name)
    }

    /// The text that is shown.
    #[must_use]
    pub fn display_text(&self) -> String {
        match (&self.display, self.subpath()) {
            (Some(display), _) => display.clone(),
            (None, Some(part)) => format!("{} > {part}", self.name()),
            (None, None) => self.name().to_owned(),
        }
    }

    /// The link as `[[path|display]]`.
    pub(crate) fn to_markdown(&self) -> String {
        let part = self.target_text();
        let mark = if self.is_embed { "!" } else { "" };
        format!("{mark}[[{}{part}|{}]]", self.path, self.display_text())
    }
}

/// Splits at the first `|`; in a table it is written `\|`.
fn split_label(text: &str) -> (&str, Option<&str>) {
    match text.split_once('|') {
        Some((target, label)) => (target.strip_suffix('\\').unwrap_or(target), Some(label.trim())),
        None => (text, None),
    }
}
