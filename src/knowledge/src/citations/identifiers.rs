//! DOIs and arXiv ids in the forms in which people write them.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, percent_decode_str, utf8_percent_encode};
use svcfs_base::{Fault, escape_unprintable};

use crate::files::SEGMENT;

/// Longer texts are no identifiers.
const MAX_BYTES: usize = 500;

/// The DOIs that arXiv gives its papers.
const ARXIV_DOI: &str = "10.48550/arxiv.";

/// The identifier of a paper in its one normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaperId {
    /// A DOI in lower case, such as `10.1000/182`.
    Doi(String),
    /// An arXiv id without version, such as `2301.12345` or `math/0309136`.
    Arxiv(String),
}

impl PaperId {
    /// Reads a DOI: alone, with `doi:`, or in a URL. The DOI of a paper on arXiv is its arXiv id.
    ///
    /// # Errors
    /// `Invalid`, with an example.
    pub fn parse_doi(field: &str, text: &str) -> Result<Self, Fault> {
        let example = "such as `10.1038/nphys1170` or `https://doi.org/10.1038/nphys1170`";
        find_doi(text).ok_or_else(|| malformed(field, text, "DOI", example))
    }

    /// Reads an arXiv id: alone, with `arXiv:`, or in a URL; a version is dropped.
    ///
    /// # Errors
    /// `Invalid`, with an example.
    pub fn parse_arxiv(field: &str, text: &str) -> Result<Self, Fault> {
        let example = "such as `2301.12345` or `hep-th/9901001`";
        find_arxiv(text).ok_or_else(|| malformed(field, text, "arXiv id", example))
    }

    /// Reads either of both.
    ///
    /// # Errors
    /// `Invalid`, with examples.
    pub fn parse(field: &str, text: &str) -> Result<Self, Fault> {
        let example = "such as `10.1038/nphys1170`, `2301.12345` or a URL of either";
        find_arxiv(text).or_else(|| find_doi(text)).ok_or_else(|| malformed(field, text, "DOI or arXiv id", example))
    }

    /// The key in the frontmatter of its page.
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Doi(_) => "doi",
            Self::Arxiv(_) => "arxiv_id",
        }
    }

    /// The identifier.
    pub fn value(&self) -> &str {
        let (Self::Doi(value) | Self::Arxiv(value)) = self;
        value
    }

    /// The identifier with the name of its registry.
    pub fn label(&self) -> String {
        match self {
            Self::Doi(doi) => format!("doi:{doi}"),
            Self::Arxiv(id) => format!("arXiv:{id}"),
        }
    }

    /// Where people read the paper.
    pub fn url(&self) -> String {
        match self {
            Self::Doi(doi) => format!("https://doi.org/{}", encoded(doi)),
            Self::Arxiv(id) => format!("https://arxiv.org/abs/{id}"),
        }
    }
}

/// The characters that need no escape in an identifier in the path of a URL.
const PATH: &AsciiSet = &SEGMENT.remove(b'/').remove(b':').remove(b';').remove(b'(').remove(b')');

/// An identifier in the path of a URL.
pub fn encoded(id: &str) -> String {
    utf8_percent_encode(id, PATH).to_string()
}

fn malformed(field: &str, text: &str, what: &str, example: &str) -> Fault {
    let text: String = text.trim().chars().take(80).collect();
    Fault::invalid(field, format_args!("`{}` is no {what}; send one {example}", escape_unprintable(&text)))
}

/// The text without what people write around an identifier.
fn trimmed(text: &str) -> Option<&str> {
    let text = text.trim().trim_matches(['<', '"', '\'', '`', '\u{201c}', '\u{201d}']).trim();
    (!text.is_empty() && text.len() <= MAX_BYTES).then_some(text)
}

/// The part of a URL behind its scheme, without query and fragment.
fn url_rest(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    let is_web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    is_web.then(|| rest.split(['?', '#']).next().unwrap_or_default())
}

/// A text behind a prefix in any case.
fn strip_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

fn find_doi(text: &str) -> Option<PaperId> {
    let text = trimmed(text)?;
    let doi: Cow<'_, str> = match url_rest(text) {
        Some(rest) => {
            // `doi.org/10.…`, and addresses of publishers such as `…/doi/abs/10.…`.
            let start = rest.find("/10.").filter(|_| rest.to_ascii_lowercase().contains("doi"))? + 1;
            percent_decode_str(&rest[start..]).decode_utf8().ok()?
        }
        None => {
            let bare = ["doi.org/", "dx.doi.org/", "www.doi.org/", "doi:"]
                .iter()
                .find_map(|prefix| strip_prefix(text, prefix));
            Cow::Borrowed(bare.unwrap_or(text).trim_start())
        }
    };
    let doi = without_punctuation(&doi).to_lowercase();
    let (prefix, suffix) = doi.split_once('/')?;
    let registrant = prefix.strip_prefix("10.")?;
    let is_registrant = registrant.len() >= 4 && registrant.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_allowed =
        |character: char| !character.is_whitespace() && !character.is_control() && !"\"\\".contains(character);
    // They would ask for another address of the registry.
    let has_dots = suffix.split('/').any(|part| matches!(part, "." | ".."));
    if !is_registrant || suffix.is_empty() || has_dots || !suffix.chars().all(is_allowed) {
        return None;
    }
    match doi.strip_prefix(ARXIV_DOI) {
        Some(id) => find_arxiv(id),
        None => Some(PaperId::Doi(doi)),
    }
}

/// A DOI without the punctuation of the sentence around it. A closing bracket belongs to the DOI if
/// it has an opening one.
fn without_punctuation(doi: &str) -> &str {
    let mut doi = doi.trim();
    while let Some(last) = doi.chars().next_back() {
        let opening = match last {
            ')' => Some('('),
            ']' => Some('['),
            '>' => Some('<'),
            '}' => Some('{'),
            '.' | ',' | ';' | ':' | '/' | '\'' | '"' | '\u{201d}' | '\u{2019}' => None,
            _ => break,
        };
        let is_closed = opening.is_some_and(|opening| doi.matches(opening).count() >= doi.matches(last).count());
        if is_closed {
            break;
        }
        doi = &doi[..doi.len() - last.len_utf8()];
    }
    doi
}

fn find_arxiv(text: &str) -> Option<PaperId> {
    let text = trimmed(text)?;
    let without_scheme = url_rest(text).unwrap_or(text);
    let hosts = ["arxiv.org/", "www.arxiv.org/", "export.arxiv.org/"];
    let id = match hosts.iter().find_map(|host| strip_prefix(without_scheme, host)) {
        Some(path) => ["abs/", "pdf/", "html/", "format/"].iter().find_map(|form| strip_prefix(path, form))?,
        None if without_scheme.len() != text.len() => return None,
        None => strip_prefix(text, "arxiv:").unwrap_or(text).trim_start(),
    };
    let id = id.trim_end_matches(['.', ',', ';', '/']);
    let id = id.strip_suffix(".pdf").unwrap_or(id);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = match id.rsplit_once(['v', 'V']) {
        Some((start, version)) if is_number(version) => start,
        Some(_) | None => id,
    };
    let is_month = |digits: &str| digits.get(2..4).is_some_and(|month| ("01"..="12").contains(&month));
    if let Some((archive, number)) = id.split_once('/') {
        // The subject class, as in `math.GT`, is no part of the id.
        let archive = archive.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let is_archive = !archive.is_empty() && archive.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        let is_valid = is_archive && number.len() == 7 && is_number(number) && is_month(number);
        return is_valid.then(|| PaperId::Arxiv(format!("{archive}/{number}")));
    }
    let (month, number) = id.split_once('.')?;
    let is_valid =
        month.len() == 4 && is_number(month) && is_month(month) && matches!(number.len(), 4 | 5) && is_number(number);
    is_valid.then(|| PaperId::Arxiv(id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_normalised() {
        let doi = |doi: &str| Some(PaperId::Doi(doi.to_owned()));
        let arxiv = |id: &str| Some(PaperId::Arxiv(id.to_owned()));
        for (text, id) in [
            ("10.1000/182", doi("10.1000/182")),
            (" doi:10.1000/ABC.D ", doi("10.1000/abc.d")),
            ("DOI: 10.1000/182.", doi("10.1000/182")),
            ("https://doi.org/10.1038/NPHYS1170", doi("10.1038/nphys1170")),
            ("http://dx.doi.org/10.1000/a%3Cb%3E?x=1#y", doi("10.1000/a<b>")),
            ("doi.org/10.1000/182),", doi("10.1000/182")),
            ("(10.1000/182)", None),
            (
                "10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO;2-O",
                doi("10.1002/(sici)1097-4571(199806)49:8<693::aid-asi4>3.0.co;2-o"),
            ),
            ("10.1016/S0140-6736(05)67889-0", doi("10.1016/s0140-6736(05)67889-0")),
            ("https://dl.acm.org/doi/abs/10.1145/3292500.3330701", doi("10.1145/3292500.3330701")),
            ("10.48550/arXiv.2301.12345", arxiv("2301.12345")),
            ("https://doi.org/10.48550/ARXIV.2301.12345", arxiv("2301.12345")),
            ("2301.12345", arxiv("2301.12345")),
            ("arXiv:2301.12345v3", arxiv("2301.12345")),
            ("ARXIV: 0704.0001", arxiv("0704.0001")),
            ("https://arxiv.org/abs/2301.12345v2", arxiv("2301.12345")),
            ("https://arxiv.org/pdf/2301.12345v2.pdf", arxiv("2301.12345")),
            ("arxiv.org/abs/hep-th/9901001", arxiv("hep-th/9901001")),
            ("math.GT/0309136v1", arxiv("math/0309136")),
            ("cs/0112017", arxiv("cs/0112017")),
            ("", None),
            ("10.1000/", None),
            ("10.1/x", None),
            ("11.1000/x", None),
            ("10.1000/a b", None),
            ("10.1000/../x", None),
            ("https://doi.org/10.1000/a/%2e%2e/b", None),
            ("10.1000/a\"b", None),
            ("10.1000/a\nb", None),
            ("2313.12345", None),
            ("2301.123456", None),
            ("2301.123", None),
            ("hep-th/990100", None),
            ("https://example.org/2301.12345", None),
            ("https://example.org/10.1000/182", None),
            ("https://arxiv.org/list/2301.12345", None),
            ("a paper", None),
            (&"10.1000/".repeat(100), None),
        ] {
            assert_eq!(PaperId::parse("identifier", text).ok(), id, "{text:?}");
        }
        assert!(
            PaperId::parse_doi("doi", "2301.12345").is_err() && PaperId::parse_arxiv("arxiv_id", "10.1000/1").is_err()
        );
        let refused = PaperId::parse_doi("doi", "Nature 5\u{7}").unwrap_err();
        assert!(
            refused.message().starts_with("`doi`: `Nature 5") && !refused.message().contains('\u{7}'),
            "{refused:?}"
        );
        assert_eq!(PaperId::Doi("10.1000/a<b>".to_owned()).url(), "https://doi.org/10.1000/a%3Cb%3E");
    }
}
