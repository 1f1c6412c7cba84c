//! The page of a paper.

use serde_json::{Map, Value, json};
use svcfs_base::{Fault, Timestamp};
use svcfs_text::frontmatter;

use super::identifiers::PaperId;
use super::metadata::{AuthorName, PaperMetadata};
use crate::files;

/// The key that says where the metadata is from; absent if it is that of the registry.
const STATE_KEY: &str = "metadata";

/// Where the metadata of a page is from. A later one is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetadataState {
    /// Nothing is known but the identifier.
    Pending,
    /// The caller said it.
    Given,
    /// The registry said it.
    Complete,
}

impl MetadataState {
    /// Reads the frontmatter of a page.
    pub fn of(fields: &Map<String, Value>) -> Self {
        match fields.get(STATE_KEY).and_then(Value::as_str) {
            Some("pending") => Self::Pending,
            Some("given") => Self::Given,
            Some(_) | None => Self::Complete,
        }
    }

    /// The name in the frontmatter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Given => "given",
            Self::Complete => "complete",
        }
    }
}

/// A new page.
pub fn new_page(
    (id, metadata, state): (&PaperId, &PaperMetadata, MetadataState),
    citekey: &str,
    now: Timestamp,
) -> Result<String, Fault> {
    let heading = heading(id, metadata);
    let mut body = format!("{heading}\n\n<{}>\n", address(id, metadata));
    if metadata.title.is_some() {
        body.push_str(&format!("\n{}", bibtex_block(id, metadata, citekey)));
    }
    files::set_fields(&files::with_frontmatter(&body), &fields((id, metadata, state), citekey, now))
}

/// The page with better metadata; what others wrote into it stays.
pub fn completed(
    text: &str,
    (id, metadata, state): (&PaperId, &PaperMetadata, MetadataState),
    citekey: &str,
    now: Timestamp,
) -> Result<String, Fault> {
    let old = frontmatter::parse(text).map;
    let old_text = |key: &str| old.get(key).and_then(Value::as_str).map(str::to_owned);
    let metadata = &PaperMetadata { url: metadata.url.clone().or_else(|| old_text("url")), ..metadata.clone() };
    let text = files::set_fields(text, &fields((id, metadata, state), citekey, now))?;
    let text = match state {
        MetadataState::Complete => frontmatter::remove(&text, STATE_KEY).map_err(Fault::internal)?,
        MetadataState::Pending | MetadataState::Given => text,
    };
    let body_start = text.len() - frontmatter::split(&text).body.len();
    let (head, body) = text.split_at(body_start);
    let old_metadata = PaperMetadata { title: old_text("title"), url: old_text("url"), ..PaperMetadata::default() };
    let old_heading = heading(id, &old_metadata);
    let body = replace_line(body, &old_heading, &heading(id, metadata));
    let body = match bibtex_range(&body) {
        Some((start, end)) => [&body[..start], &bibtex_block(id, metadata, citekey), &body[end..]].concat(),
        None => {
            let address = format!("<{}>", address(id, &old_metadata));
            let block = bibtex_block(id, metadata, citekey);
            match body.contains(&format!("{address}\n")) {
                true => replace_line(&body, &address, &format!("{address}\n\n{}", block.trim_end())),
                false => format!("{}\n\n{block}", body.trim_end()),
            }
        }
    };
    Ok([head, &body].concat())
}

/// Replaces the first line that is equal to another one.
fn replace_line(text: &str, old: &str, new: &str) -> String {
    let mut is_replaced = false;
    let lines = text.split_inclusive('\n').map(|line| {
        if !is_replaced && line.trim_end() == old {
            is_replaced = true;
            return format!("{new}\n");
        }
        line.to_owned()
    });
    lines.collect()
}

/// The bytes of the BibTeX block.
fn bibtex_range(body: &str) -> Option<(usize, usize)> {
    let start = body.find("```bibtex\n").filter(|at| *at == 0 || body[..*at].ends_with('\n'))?;
    let length = body[start..].find("\n```\n").map_or(body.len() - start, |end| end + "\n```\n".len());
    Some((start, start + length))
}

fn fields(
    (id, metadata, state): (&PaperId, &PaperMetadata, MetadataState),
    citekey: &str,
    now: Timestamp,
) -> Vec<(&'static str, Value)> {
    let authors: Vec<String> = metadata.authors.iter().map(AuthorName::display).collect();
    let optional = [
        ("title", metadata.title.as_ref().map(|title| json!(title))),
        ("authors", (!authors.is_empty()).then(|| json!(authors))),
        ("year", metadata.year.map(|year| json!(year))),
        ("published_in", metadata.published_in.as_ref().map(|name| json!(name))),
        ("doi", metadata.doi.as_ref().map(|doi| json!(doi))),
    ];
    let mut fields = vec![("type", json!("paper"))];
    fields.extend(optional.into_iter().filter_map(|(key, value)| Some((key, value?))));
    fields.push((id.key(), json!(id.value())));
    fields.push(("url", json!(address(id, metadata))));
    fields.push(("citekey", json!(citekey)));
    match state {
        MetadataState::Complete => fields.push(("_fetched_at", json!(format!("{now:.0}")))),
        MetadataState::Pending | MetadataState::Given => fields.push((STATE_KEY, json!(state.name()))),
    }
    fields
}

fn address(id: &PaperId, metadata: &PaperMetadata) -> String {
    metadata.url.clone().unwrap_or_else(|| id.url())
}

fn heading(id: &PaperId, metadata: &PaperMetadata) -> String {
    let title = metadata.title.clone().unwrap_or_else(|| id.label());
    let mut heading = String::from("# ");
    for character in title.chars() {
        if matches!(character, '[' | ']' | '<' | '`' | '\\') {
            heading.push('\\');
        }
        heading.push(character);
    }
    heading
}

/// The paper for LaTeX, as a code block.
fn bibtex_block(id: &PaperId, metadata: &PaperMetadata, citekey: &str) -> String {
    let authors: Vec<String> = metadata.authors.iter().map(|author| escape_latex(&author.sorted())).collect();
    let entry_type = metadata.entry_type.unwrap_or("misc");
    let container = match entry_type {
        "inproceedings" | "incollection" => "booktitle",
        "article" => "journal",
        _ => "howpublished",
    };
    let doi = match id {
        PaperId::Doi(doi) => Some(doi.clone()),
        PaperId::Arxiv(_) => metadata.doi.clone(),
    };
    let arxiv = match id {
        PaperId::Arxiv(id) => Some(id.clone()),
        PaperId::Doi(_) => None,
    };
    let entries = [
        ("title", metadata.title.as_deref().map(|title| format!("{{{}}}", escape_latex(title)))),
        ("author", (!authors.is_empty()).then(|| authors.join(" and "))),
        ("year", metadata.year.map(|year| year.to_string())),
        (container, metadata.published_in.as_deref().map(escape_latex)),
        ("doi", doi),
        ("archivePrefix", arxiv.as_ref().map(|_| "arXiv".to_owned())),
        ("eprint", arxiv),
        ("url", Some(address(id, metadata))),
    ];
    let lines = entries.into_iter().filter_map(|(key, value)| Some(format!("  {key} = {{{}}},\n", value?)));
    format!("```bibtex\n@{entry_type}{{{citekey},\n{}}}\n```\n", lines.collect::<String>())
}

/// A text with the characters escaped that LaTeX would interpret. Braces must be balanced in BibTeX
/// and cannot be escaped there: only those of names are kept.
fn escape_latex(text: &str) -> String {
    let (inner, is_braced) = match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        Some(inner) => (inner, true),
        None => (text, false),
    };
    let mut escaped = String::with_capacity(text.len());
    for character in inner.chars() {
        match character {
            '{' | '}' => {}
            '%' | '&' | '$' | '#' | '_' => escaped.extend(['\\', character]),
            '\\' => escaped.push_str("\\textbackslash "),
            '~' => escaped.push_str("\\textasciitilde "),
            '^' => escaped.push_str("\\textasciicircum "),
            _ => escaped.push(character),
        }
    }
    if is_braced { format!("{{{escaped}}}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_safe_in_bibtex_and_markdown() {
        for (text, escaped) in [
            ("100% & more_", "100\\% \\& more\\_"),
            ("a{b}}c\\", "abc\\textbackslash "),
            ("{The Group}", "{The Group}"),
            ("$x^2$ ~", "\\$x\\textasciicircum 2\\$ \\textasciitilde "),
        ] {
            assert_eq!(escape_latex(text), escaped, "{text}");
        }
        let title = Some("A [link](x) <script> `code`".to_owned());
        let metadata = PaperMetadata { title, ..PaperMetadata::default() };
        let id = PaperId::Arxiv("2301.12345".to_owned());
        assert_eq!(heading(&id, &metadata), "# A \\[link\\](x) \\<script> \\`code\\`");
    }
}
