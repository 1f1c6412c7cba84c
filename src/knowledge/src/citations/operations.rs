use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{ETag, Fault, Kind, TreePath, VersionId};
use svcfs_work::Lane;

use super::identifiers::PaperId;
use super::metadata::{AuthorName, MAX_AUTHORS, PaperMetadata, one_line};
use super::{CiteRequest, cite};
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, version_suffix};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea { title: "Citations", operations: &[OperationEntry::new::<CitePaper>()] };

const MAX_CHARS: usize = 500;
const MAX_URL_BYTES: usize = 2048;

/// Make a page for a paper, by its DOI or arXiv id
///
/// Use it before you refer to a paper, and link to the page; for other web pages use `clip`.
/// Writes `papers/<surname><year><word>.md` with title, authors, year and BibTeX from the registry.
/// A known paper is returned with `existing`. If the registry does not answer, the page has what
/// you send, or `metadata: pending`; a repeat completes it. 404 if the registry does not know the
/// identifier: do not invent one.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "doi": "10.1038/nphys1170" }))]
pub struct CitePaper {
    /// DOI or arXiv id, also as URL; send this, or `doi`, or `arxiv_id`
    #[serde(default)]
    pub identifier: Option<String>,
    /// DOI, such as `10.1038/nphys1170`
    #[serde(default)]
    pub doi: Option<String>,
    /// arXiv id, such as `1706.03762`
    #[serde(default)]
    pub arxiv_id: Option<String>,
    /// Used, as the next two, if the registry does not answer
    #[serde(default)]
    pub title: Option<String>,
    /// Each as `Ann Lee` or `Lee, Ann`
    #[serde(default)]
    pub authors: Vec<String>,
    /// Year of publication
    #[serde(default)]
    #[schemars(range(min = 1000, max = 9999))]
    pub year: Option<u32>,
    /// Where to read it; default: the address of its identifier
    #[serde(default)]
    pub url: Option<String>,
}

/// The page of a paper.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CitationPage {
    /// Path of the page
    pub path: TreePath,
    /// Hash of the page
    pub etag: ETag,
    /// Its version; absent if nothing was written, or if it is recorded later
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// Key of the BibTeX entry: the name of the page
    pub citekey: String,
    /// Title of the paper; absent if it is not known yet
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// True if the paper had a page before
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub existing: bool,
    /// `complete`: from the registry; `given`: as you sent it; `pending`: not known yet
    pub metadata: &'static str,
    /// Why the metadata is not complete
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Operation for CitePaper {
    const NAME: &'static str = "cite";
    const PROPOSABLE: bool = true;
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const TOOL: bool = true;
    const OPEN_WORLD: bool = true;
    const LANE: Lane = Lane::Slow;
    type Output = CitationPage;
    fn run(self, cx: &OperationContext<'_>) -> Result<CitationPage, Fault> {
        let paper = cite(cx, &self.read()?)?;
        Ok(CitationPage {
            citekey: paper.path.stem().to_owned(),
            path: paper.path,
            etag: paper.etag,
            version: paper.commit.map(VersionId::Commit),
            title: paper.title,
            existing: paper.is_known,
            metadata: paper.state.name(),
            note: paper.note,
        })
    }
    fn render_text(paper: &CitationPage) -> Option<String> {
        let CitationPage { path, etag, version, citekey, title, existing, metadata, note } = paper;
        let title = title.as_deref().map_or_else(String::new, |title| format!(": {title}"));
        let before = if *existing { " existed before" } else { "" };
        let version = version_suffix(version.as_ref());
        let note = note.as_deref().map_or_else(String::new, |note| format!("\n{note}"));
        Some(format!("{path}{before}{title} (citekey {citekey}, metadata {metadata}, ETag: {etag}{version}){note}"))
    }
}

impl CitePaper {
    fn read(self) -> Result<CiteRequest, Fault> {
        let (field, id) = match (&self.identifier, &self.doi, &self.arxiv_id) {
            (Some(text), None, None) => ("identifier", PaperId::parse("identifier", text)?),
            (None, Some(text), None) => ("doi", PaperId::parse_doi("doi", text)?),
            (None, None, Some(text)) => ("arxiv_id", PaperId::parse_arxiv("arxiv_id", text)?),
            (None, None, None) => {
                return Err(Fault::new(Kind::Invalid, "identifier is required: a DOI or an arXiv id"));
            }
            _ => return Err(Fault::invalid("identifier", "send exactly one of `identifier`, `doi` and `arxiv_id`")),
        };
        let title = self.title.as_deref().map(|title| one_line(title, MAX_CHARS)).filter(|title| !title.is_empty());
        if self.authors.len() > MAX_AUTHORS {
            return Err(Fault::invalid(
                "authors",
                format_args!("has more than {MAX_AUTHORS} names; send the first ones"),
            ));
        }
        let authors = self.authors.iter().map(|name| AuthorName::parse(name)).filter(|name| !name.family.is_empty());
        let year = self.year.map(|year| match i16::try_from(year) {
            Ok(year @ 1000..=9999) => Ok(year),
            Ok(_) | Err(_) => Err(Fault::invalid("year", "must be a year of four digits")),
        });
        let is_address = |url: &str| {
            let is_web = url.starts_with("https://") || url.starts_with("http://");
            let is_plain = |character: char| character.is_ascii_graphic() && !"<>\"{}\\".contains(character);
            is_web && url.len() <= MAX_URL_BYTES && url.chars().all(is_plain)
        };
        let url = self.url.as_deref().map(str::trim).map(str::to_owned);
        if url.as_deref().is_some_and(|url| !is_address(url)) {
            return Err(Fault::invalid("url", "must be an address that begins with `https://` or `http://`, in ASCII"));
        }
        let authors = authors.collect();
        let given = PaperMetadata { title, authors, year: year.transpose()?, url, ..PaperMetadata::default() };
        Ok(CiteRequest { field, id, given })
    }
}
